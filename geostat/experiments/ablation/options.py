"""Options of `geostat ablate` and its Python function. Heavy imports are deferred."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from geostat.errors import InputError, one_error, refuse_unknown
from geostat.experiments.options import InterventionOptions
from geostat.options import like, option, takes, with_commas
from geostat.runs.experiments import by_command

if TYPE_CHECKING:
    import torch
    import xarray as xr


PARTS: Final = ("heads", "budgets", "regimes", "context")
CONTEXT_TAU: Final = 0.05
"""Relative loss increase that defines N* of a context."""


@dataclass(frozen=True, kw_only=True)
class AblateOptions(InterventionOptions):
    """Measure the loss increase from ablating heads, and whether geometry predicts it."""

    parts: Any = option(
        "heads,budgets,regimes",
        "Parts to measure: heads, budgets, regimes, context, comma-separated.",
        "--part",
    )
    mode: str = option(
        "renormalisation",
        "Treatment of unselected tokens: renormalisation, deletion or both.",
    )
    sizes: Any = option("1,8,64", "Sizes N at which single heads are ablated.")
    tau: float = option(0.001, "Relative loss increase that defines N* of a head.")
    budgets: Any = option(
        "8,16,32", "Budgets, as mean N over heads; regimes are ablated at the smallest."
    )
    draws: int = option(20, "Random draws of heads for each regime.")
    contexts: Any = option(
        "64,128,256", "Context lengths for the part context: the last tokens of a window."
    )
    target: str = like(InterventionOptions, "target")
    documents: int = like(InterventionOptions, "documents", 4)
    length: int = like(InterventionOptions, "length", 256)
    out: Path = like(InterventionOptions, "out", Path("ablation"))

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("parts", "sizes", "budgets", "contexts"):
            self._set(**{name: with_commas(getattr(self, name))})
        for part in self.parts.split(","):
            refuse_unknown(part, PARTS, f"--part {part}:", verb="Name")
        if not isinstance(self.tau, int | float) or not 0 < self.tau < math.inf:
            raise InputError(f"--tau {self.tau}: expected a share above 0. Use for instance .001.")
        if not isinstance(self.draws, int) or not 1 <= self.draws <= 10_000:
            raise InputError(
                f"--draws {self.draws}: expected an integer from 1 to 10000. Use for instance 20."
            )
        _ = self.tried, self.shared, self.of_contexts
        if {"budgets", "heads"} <= set(self.measured) and self.tried[0] != 1:
            raise InputError(
                f"--sizes {self.sizes}: the greedy budget starts from N = 1, expected 1 among the"
                " sizes. Add it."
            )
        self._refuse_misfit()

    @property
    def measured(self) -> tuple[str, ...]:
        """Parts in the order of measurement."""
        return tuple(part for part in PARTS if part in self.parts.split(","))

    @property
    def tried(self) -> tuple[int, ...]:
        """Sizes N at which single heads are ablated, ascending."""
        return _numbers("--sizes", self.sizes)

    @property
    def shared(self) -> tuple[int, ...]:
        """Budgets in tokens per head, ascending."""
        return _numbers("--budgets", self.budgets)

    @property
    def looked_at(self) -> tuple[int, ...]:
        """Sizes N at which curves of heads are measured, ascending."""
        return tuple(sorted({*self.tried, *self.shared}))

    @property
    def of_contexts(self) -> tuple[int, ...]:
        """Context lengths in tokens, ascending; empty without the part context."""
        if "context" not in self.measured:
            return ()
        contexts = _numbers("--contexts", self.contexts)
        if self.targets is None or len(contexts) < 2 or contexts[0] <= self.targets:
            raise InputError(
                f"--contexts {self.contexts}, --target {self.target}: expected two contexts or"
                " more, and targets last:K with K below every context. Use for instance --target"
                f" last:{max(1, contexts[0] // 2)}."
            )
        return contexts

    def _refuse_misfit(self) -> None:
        """Refuse sizes that ablate nothing, and contexts longer than the window."""
        tokens = self.length
        if self.of_contexts and self.of_contexts[-1] > tokens:
            raise InputError(
                f"--contexts {self.of_contexts[-1]}: a window has {tokens} tokens. Use fewer, or a"
                " longer --length."
            )
        options = (("--sizes", self.tried, "heads"), ("--budgets", self.shared, "budgets regimes"))
        for name, numbers, parts in options:
            if numbers[-1] >= tokens and set(parts.split()) & set(self.measured):
                raise InputError(
                    f"{name} {numbers[-1]}: a window has {tokens} tokens, so nothing would be"
                    f" ablated. Use less than {tokens}, or a longer --length."
                )


def _numbers(flag: str, text: str) -> tuple[int, ...]:
    """Parse comma-separated positive integers."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\d{1,9}", part) and int(part) for part in parts):
        raise InputError(
            f"{flag} {text}: expected integers from 1, comma-separated. Use for instance 1,8,64."
        )
    return tuple(sorted({int(part) for part in parts}))


OPTIONS: Final = AblateOptions


@one_error
@takes(AblateOptions, count=None)
def ablate(
    model: str | torch.nn.Module | None = None,
    *,
    documents: str | Path | Iterable[Any] | None = None,
    tokenizer: Any = None,
    hash_weights: bool = True,
    **options: Any,
) -> xr.DataTree:
    """Measure the loss increase from ablating heads, and whether geometry predicts it; return the
    run with /ablation.

    Ablated are single heads, all heads under a budget of tokens, and the heads of a regime. The run
    is captured and confronted first, if necessary. All losses are stored.

    Args:
        model, documents, tokenizer, hash_weights: as of `geostat.capture`; the model needs its
            head.
        {options}

    Greedy budgets need the part heads. The part context measures N* at a loss increase of 5% for
    the context lengths `contexts`; it needs `target` last:K.

    Raises:
        InputError, StoreError, TypeError: as of `geostat.effective`.

    >>> run = ablate("model", documents="notes", count=2, length=40, out="ablation", sizes=[1],
    ...              tau=.5, parts="heads")
    >>> run["ablation"]["head_rise"].dims
    ('mode', 'n', 'layer', 'head')
    """
    return by_command("ablate").from_keywords(
        model, documents, tokenizer=tokenizer, hash_weights=hash_weights, **options
    )
