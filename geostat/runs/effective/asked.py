"""What an effective set size is asked for: rules, modes, shares, targets, layers and heads. Imports
torch, with the rules whose names it knows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from numpy.typing import NDArray

from empirical.intervention.cut import MODES, Mode
from empirical.intervention.rules import RANKINGS, SETS
from geostat.errors import InputError, refuse_unknown
from geostat.experiments.head_regime_rules import REGIMES
from geostat.runs.effective.target import Target
from geostat.runs.settings import named_heads

DRAWS: Final = 16
"""Random orders over which a random rule is averaged."""
EACH: Final = ("together", "layer", "head")
GREEDY_TOKENS: Final = 256
GREEDY_HEADS: Final = 12
"""The most tokens of a window and heads for which the greedy oracle is computed."""
RULES: Final = (*RANKINGS, "random", *SETS)


@dataclass(frozen=True, slots=True)
class Scope:
    """Layers and heads that are intervened on."""

    name: str
    heads: Mapping[int, Sequence[int] | None]
    """Of each layer its heads; None: all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked for, as the command's options have it; checked when made."""

    rules: tuple[str, ...] = ("attention",)
    mode: str = "both"
    tau: str = ".01,.05,.10"
    target: str = "all"
    layers: str = "all"
    heads: tuple[str, ...] = ()
    regimes: tuple[str, ...] = ()
    each: str = "together"

    def __post_init__(self) -> None:
        for rule in self.rules:
            refuse_unknown(rule, RULES, f"--rule {rule}:", verb="Name")
        refuse_unknown(self.mode, (*MODES, "both"), f"--mode {self.mode}:", verb="Use")
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
                "--regime was given beside --head, --layers or --each layer, expected it alone: it"
                " names heads of all layers. Drop the others."
            )
        _ = self.taus, self.targeted

    @property
    def modes(self) -> tuple[Mode, ...]:
        """What becomes of the tokens that are not kept."""
        return tuple(mode for mode in MODES if self.mode in (mode, "both"))

    @property
    def taus(self) -> tuple[float, ...]:
        """Shares by which the loss may rise, ascending."""
        try:
            taus = tuple(sorted({float(text) for text in self.tau.split(",")}))
        except ValueError:
            taus = ()
        if not taus or not all(0 < tau < math.inf for tau in taus):
            raise InputError(
                f"--tau {self.tau}: expected shares above 0, with commas between. Use for instance"
                " .01,.05,.10."
            )
        return taus

    @property
    def targeted(self) -> Target:
        """Which tokens are predicted."""
        return Target(self.target)

    def refuse_misfit(self, tokens: int) -> None:
        """Refuse a window that is too long for a rule."""
        if "greedy" in self.rules and tokens > GREEDY_TOKENS:
            raise InputError(
                f"--rule greedy: a window has {tokens} tokens, expected at most {GREEDY_TOKENS},"
                f" for its work grows as the third power. Use --length {GREEDY_TOKENS} or less."
            )

    def of_regimes(self, label: NDArray[Any]) -> list[Scope]:
        """Return what is intervened on where regimes were named: all heads of each, or those one
        by one. label: code of each head's regime, (layer, head).
        """
        out = []
        for regime in self.regimes:
            found: dict[int, list[int]] = {}
            for layer, head in zip(*(label == REGIMES.index(regime)).nonzero(), strict=True):
                found.setdefault(int(layer), []).append(int(head))
            if not found:
                raise InputError(
                    f"--regime {regime}: no head of this run is one, by sizes. Name another."
                )
            together = [Scope(f"{regime} heads", found)]
            out += self._by_themselves(found, label.shape[1]) if self.each == "head" else together
        self._refuse_greedy(out, label.shape[1])
        return out

    def scopes(self, layers: int, heads: int) -> list[Scope]:
        """Return what is intervened on, one after the other, in a model of so many layers and
        heads.
        """
        chosen = self._chosen(layers, heads)
        if self.each == "layer":
            out = [Scope(_layer(layer, own), {layer: own}) for layer, own in chosen.items()]
        elif self.each == "head":
            out = self._by_themselves(chosen, heads)
        else:
            out = [Scope(_together(chosen, layers), chosen)]
        if not self.regimes:
            self._refuse_greedy(out, heads)
        return out

    def _by_themselves(self, chosen: Mapping[int, Sequence[int] | None], heads: int) -> list[Scope]:
        return [
            Scope(f"L{layer}H{head}", {layer: [head]})
            for layer, own in chosen.items()
            for head in (range(heads) if own is None else own)
        ]

    def _refuse_greedy(self, scopes: Sequence[Scope], heads: int) -> None:
        """Refuse the oracle for too many heads at once."""
        for scope in scopes:
            count = sum(heads if own is None else len(own) for own in scope.heads.values())
            if "greedy" in self.rules and count > GREEDY_HEADS:
                raise InputError(
                    f"--rule greedy: would choose for {count} heads, expected at most"
                    f" {GREEDY_HEADS}. Name some with --head."
                )

    def _chosen(self, layers: int, heads: int) -> dict[int, list[int] | None]:
        """Return the layers that are intervened on, and their heads."""
        if self.heads:
            found: dict[int, list[int] | None] = {}
            for layer, head in sorted(set(named_heads(self.heads))):
                if layer >= layers or head >= heads:
                    raise InputError(
                        f"--head L{layer}H{head}: the model has layers 0 to {layers - 1} and heads"
                        f" 0 to {heads - 1}. Name others."
                    )
                found[layer] = [*(found.get(layer) or []), head]
            return found
        if self.layers == "all":
            return dict.fromkeys(range(layers))
        return dict.fromkeys(_numbers(self.layers, layers))


def _together(chosen: Mapping[int, Sequence[int] | None], layers: int) -> str:
    """Name what is intervened on together, the same however it was asked for."""
    if any(own is not None for own in chosen.values()):
        return " ".join(f"L{layer}H{head}" for layer, own in chosen.items() for head in own or ())
    if len(chosen) == layers:
        return "all"
    if len(chosen) == 1:
        return f"layer {next(iter(chosen))}"
    return f"layers {','.join(map(str, chosen))}"


def _layer(layer: int, heads: Sequence[int] | None) -> str:
    return f"layer {layer}" if heads is None else " ".join(f"L{layer}H{head}" for head in heads)


def _numbers(text: str, layers: int) -> list[int]:
    """Read `--layers`, such as 0,3,5-8."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if not first <= last < layers:
            raise InputError(
                f"--layers {text}: expected layers from 0 to {layers - 1}, such as 0,3,5-8. Name"
                " those."
            )
        found |= set(range(first, last + 1))
    return sorted(found)
