"""Options of `geostat effective` and its Python function. Heavy imports are deferred."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from empirical.intervention.names import RANKING_NAMES, SET_NAMES
from geostat.errors import InputError, one_error, refuse_unknown
from geostat.experiments.options import InterventionOptions, Scope
from geostat.options import like, named_heads, names_in, option, takes, with_commas
from geostat.runs.experiments import by_command

if TYPE_CHECKING:
    import torch
    import xarray as xr
    from numpy.typing import NDArray


DRAWS: Final = 16
"""Random orders averaged for the rule random."""
EACH: Final = ("together", "layer", "head")
GREEDY_TOKENS: Final = 256
GREEDY_HEADS: Final = 12
"""Largest window and number of heads for the greedy oracle."""
RULES: Final = (*RANKING_NAMES, "random", *SET_NAMES)


@dataclass(frozen=True, kw_only=True)
class EffectiveOptions(InterventionOptions):
    """Measure the effective attention set size: the fewest tokens that each query may keep before
    the next-token loss increases by more than a share tau.
    """

    tau: Any = option(".01,.05,.10", "Largest relative loss increases, comma-separated.")
    rules: tuple[str, ...] = option(
        ("attention",),
        "Rule that selects the tokens of a query: attention, contribution, sink-orthogonal, recent,"
        " sink-recent, greedy (an oracle), random (mean of 16 nested draws), sparsemax or entmax15;"
        " comma-separated or repeated. Default: attention.",
        "--rule",
    )
    mode: str = like(InterventionOptions, "mode")
    target: str = like(InterventionOptions, "target")
    layers: Any = option("all", "Layers of the intervention: all, or for example 0,3,5-8.")
    heads: tuple[str, ...] = option(
        (),
        "Heads of the intervention instead of layers, such as L5H3,L7H0, or repeated.",
        "--head",
    )
    regimes: tuple[str, ...] = option(
        (),
        "Heads of a regime by size instead: retriever, mixer or reset; comma-separated or"
        " repeated.",
        "--regime",
    )
    each: str = option(
        "together", "Intervene on all layers and heads together, or on one layer or head at a time."
    )
    documents: int = like(InterventionOptions, "documents", 4)
    length: int = like(InterventionOptions, "length", 512)
    out: Path = like(InterventionOptions, "out", Path("effective"))

    def __post_init__(self) -> None:
        from geostat.analyses.head_regime_rules import REGIMES

        super().__post_init__()
        self._set(
            tau=with_commas(self.tau),
            rules=names_in(self.rules) or ("attention",),
            layers=with_commas(self.layers),
            heads=names_in(self.heads),
            regimes=names_in(self.regimes),
        )
        for rule in self.rules:
            refuse_unknown(rule, RULES, f"--rule {rule}:", verb="Name")
        refuse_unknown(self.each, EACH, f"--each {self.each}:", verb="Use")
        for regime in self.regimes:
            refuse_unknown(regime, REGIMES[1:], f"--regime {regime}:", verb="Name")
        if self.heads and self.layers != "all":
            raise InputError(
                "--layers and --head were both given, expected one: a head names its layer. Drop"
                " --layers."
            )
        if self.regimes and (self.heads or self.layers != "all" or self.each == "layer"):
            raise InputError(
                "--regime was given with --head, --layers or --each layer, expected --regime alone,"
                " which selects heads of all layers. Drop the others."
            )
        _ = self.taus
        if "greedy" in self.rules and self.length > GREEDY_TOKENS:
            raise InputError(
                f"--rule greedy: a window has {self.length} tokens, expected at most"
                f" {GREEDY_TOKENS}, because its cost is cubic. Use --length {GREEDY_TOKENS} or"
                " less."
            )

    @property
    def taus(self) -> tuple[float, ...]:
        """Largest relative loss increases, ascending."""
        try:
            taus = tuple(sorted({float(text) for text in self.tau.split(",")}))
        except ValueError:
            taus = ()
        if not taus or not all(0 < tau < math.inf for tau in taus):
            raise InputError(
                f"--tau {self.tau}: expected shares above 0, comma-separated. Use for instance"
                " .01,.05,.10."
            )
        return taus

    def of_regimes(self, label: NDArray[Any]) -> list[Scope]:
        """Return the scopes of the named regimes: all heads of a regime, or one head at a time.

        Args:
            label: regime codes, (layer, head).
        """
        from geostat.analyses.head_regime_rules import REGIMES

        scopes = []
        for regime in self.regimes:
            members: dict[int, list[int]] = {}
            for layer, head in zip(*(label == REGIMES.index(regime)).nonzero(), strict=True):
                members.setdefault(int(layer), []).append(int(head))
            if not members:
                raise InputError(
                    f"--regime {regime}: no head of this run has this regime (by size). Name"
                    " another."
                )
            scopes += self._split(Scope(f"{regime} heads", members), label.shape[1])
        self._refuse_greedy(scopes, label.shape[1])
        return scopes

    def scopes(self, layers: int, heads: int) -> list[Scope]:
        """Return the scopes of the interventions for a model with these numbers of layers and
        heads.
        """
        selected = self._selected(layers, heads)
        scopes = self._split(Scope(_name(selected, layers), selected), heads)
        if not self.regimes:
            self._refuse_greedy(scopes, heads)
        return scopes

    def _split(self, scope: Scope, heads: int) -> list[Scope]:
        """Return a scope, or its layers or heads one at a time (`each`)."""
        if self.each == "together":
            return [scope]
        if self.each == "layer":
            by_layer = [{layer: members} for layer, members in scope.heads.items()]
            return [Scope(_name(selected, 0), selected) for selected in by_layer]
        return [
            Scope(f"L{layer}H{head}", {layer: [head]})
            for layer, members in scope.heads.items()
            for head in (range(heads) if members is None else members)
        ]

    def _refuse_greedy(self, scopes: Sequence[Scope], heads: int) -> None:
        """Refuse the greedy oracle for too many heads at once."""
        for scope in scopes:
            count = sum(heads if head is None else len(head) for head in scope.heads.values())
            if "greedy" in self.rules and count > GREEDY_HEADS:
                raise InputError(
                    f"--rule greedy: {count} heads, expected at most {GREEDY_HEADS}. Name some with"
                    " --head."
                )

    def _selected(self, layers: int, heads: int) -> dict[int, list[int] | None]:
        """Return the heads of the intervention by layer; None for all heads of a layer."""
        if self.heads:
            selected: dict[int, list[int] | None] = {}
            for layer, head in sorted(set(named_heads(self.heads))):
                if layer >= layers or head >= heads:
                    raise InputError(
                        f"--head L{layer}H{head}: the model has layers 0 to {layers - 1} and heads"
                        f" 0 to {heads - 1}. Name others."
                    )
                selected[layer] = [*(selected.get(layer) or []), head]
            return selected
        if self.layers == "all":
            return dict.fromkeys(range(layers))
        return dict.fromkeys(_numbers(self.layers, layers))


def _name(selected: Mapping[int, Sequence[int] | None], layers: int) -> str:
    """Return the canonical name of a scope of a model with this number of layers."""
    if any(members is not None for members in selected.values()):
        return " ".join(
            f"L{layer}H{head}" for layer, members in selected.items() for head in members or ()
        )
    if len(selected) == layers:
        return "all"
    if len(selected) == 1:
        return f"layer {next(iter(selected))}"
    return f"layers {','.join(map(str, selected))}"


def _numbers(text: str, layers: int) -> list[int]:
    """Parse `--layers`, for example 0,3,5-8."""
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if not first <= last < layers:
            raise InputError(
                f"--layers {text}: expected layers from 0 to {layers - 1}, such as 0,3,5-8. Name"
                " those."
            )
        numbers |= set(range(first, last + 1))
    return sorted(numbers)


OPTIONS: Final = EffectiveOptions


@one_error
@takes(EffectiveOptions, count=None)
def effective(
    model: str | torch.nn.Module | None = None,
    *,
    documents: str | Path | Iterable[Any] | None = None,
    tokenizer: Any = None,
    hash_weights: bool = True,
    **options: Any,
) -> xr.DataTree:
    """Measure the effective attention set size (arXiv 2609.37879), and return the run with
    /effective.

    It is the fewest tokens that each query may keep before the next-token loss increases by more
    than a share τ. The run is captured first, unless it exists at `out`. All losses are stored, so
    a second call can add rules, layers or shares.

    Args:
        model, documents, tokenizer, hash_weights: as of `geostat.capture`; the model needs its
            head.
        {options}

    Without `count`, the first 4 named documents are measured, or all documents in memory.

    Raises:
        InputError, TypeError: for invalid input or an unknown keyword.
        StoreError: if the run at `out` is damaged.

    >>> run = effective("model", documents="notes", count=2, length=40, out="mine", tau=[0.5])
    >>> run["effective"]["n_star"].dims
    ('scope', 'rule', 'mode', 'tau')
    """
    return by_command("effective").from_keywords(
        model, documents, tokenizer=tokenizer, hash_weights=hash_weights, **options
    )
