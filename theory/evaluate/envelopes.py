"""The one numeric entry: bounds on expected separability from α, norms and a Gram, for one head or many.

`envelope` is the exact reference for one head; `envelopes` takes many heads that share a Gram and uses the compiled kernel.
Editions: `printed` (eq. (12)-(17) of arXiv 2602.01893 to the letter), `repaired`, `sharp`, `conditional`, and the
approximation `predicted`. Imports numpy; scipy and numba lazily.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from theory.arrays import BoolArray, FloatArray
from theory.editions.printed import Margins, printed_margins
from theory.evaluate.values import Choices, Settings, conditional_values, predicted_values, printed_or_repaired_values, sharp_values
from theory.head.gram import Gram
from theory.head.inputs import HeadInput, checked_input
from theory.head.ranked import Ranked, Summary, rank_tokens, summarise
from theory.head.results import CLAIMS, KAPPA, QUANTITIES, UNDER_MODEL_G, Envelope, Validity

UNIT_NORM = 1e-6
"""How far a content norm may lie from 1 for the flag C = 1, and Σα above 1 for the flag Σα ≤ 1."""

WORK_BYTES = 128 * 1024**2
"""Memory that heads may hold together; one takes 8 MB at T = 1024."""


def envelope(alpha: Any, norms: Any, gram: Gram, dimension: int, n: Any, **choices: Unpack[Choices]) -> Envelope:
    """Return the bounds of one head, every entry computed exactly.

    Args:
        alpha: (T,) attention weights of the visible tokens, non-negative; they need not sum to 1.
        norms: (T,) value norms, or one number.
        gram: T×T cosines, or a `LagGram`.
        dimension: head size d.
        n: sizes N >= 1; N = T gives 1, N > T gives NaN.
        choices: edition: "printed", "repaired", "sharp", "conditional" or "predicted" (an approximation, no bound); has to be given.
            kappa: the constant of the printed and repaired tails; None (default) is 1/8. The others have none.
            sink: position of the sink among the tokens (default 0), None where it is not visible.
            delta0: reading of Δ₀: "out" (default) as eq. (29), "in" as eq. (8).
            sink_in_b: whether a_max_in in B includes the sink (default).
            convention: "paper" (default), or "followup" for strict inner balls and one F (not for printed and repaired).
            feasible: whether some vectors have this Gram, where the caller knows; None (default): find out.

    Returns:
        An `Envelope` with arrays of shape (K,).

    Raises:
        InputError: on bad input; for `sharp`, `conditional` and `predicted` also where the Gram is infeasible.

    Example:
        >>> from theory import envelope, exponential
        >>> found = envelope([0.5, 0.1, 0.2, 0.2], 1.0, exponential(1.0, 0.0, 4), 64, [1, 2], edition="sharp")
        >>> found.recall_lower.round(3).tolist()
        [1.0, 0.946]
    """
    settings = Settings(fast=False, **choices)
    heads = _checked(alpha, norms, gram, dimension, n, settings, axes=1)
    result = _evaluate(replace(heads, alpha=heads.alpha[None], norms=heads.norms[None]), settings)
    arrays = {
        name: getattr(result, name)[0] for name in Envelope.__slots__ if name != "n" and isinstance(getattr(result, name), np.ndarray)
    }
    return replace(result, valid=Validity(**{name: getattr(result.valid, name)[0] for name in Validity.__slots__}), **arrays)


def envelopes(alpha: Any, norms: Any, gram: Gram, dimension: int, n: Any, **choices: Unpack[Choices]) -> Envelope:
    """Return the bounds of H heads that share one Gram: `envelope` for each, on a few threads.

    The sharp edition uses a tabulated law (1e-8 absolute) for d >= 7. Arguments as `envelope`, but alpha is (H, T), norms (H, T) or
    (T,), and the arrays of the result are (H, K).

    Raises:
        InputError: on bad input; for `sharp`, `conditional` and `predicted` also where the Gram is infeasible.

    Example:
        >>> from theory import envelopes, exponential
        >>> alpha = [[0.5, 0.1, 0.2, 0.2], [0.1, 0.2, 0.3, 0.4]]
        >>> envelopes(alpha, 1.0, exponential(1.0, 0.0, 4), 4, [1, 2], edition="printed").margin.shape
        (2, 2)
    """
    settings = Settings(fast=True, **choices)
    return _evaluate(_checked(alpha, norms, gram, dimension, n, settings, axes=2), settings)


def _checked(alpha: Any, norms: Any, gram: Gram, dimension: int, n: Any, settings: Settings, *, axes: int) -> HeadInput:
    exists = settings.edition in UNDER_MODEL_G
    return checked_input(alpha, norms, gram, dimension, n, sink=settings.sink, feasible=settings.feasible, axes=axes, exists=exists)


def _evaluate(heads: HeadInput, settings: Settings) -> Envelope:
    """Evaluate a few heads at a time, as many as memory may hold together."""
    cosines, together = heads.cosines(), max(1, WORK_BYTES // (8 * heads.tokens**2))
    chunks = (slice(start, start + together) for start in range(0, len(heads.alpha), together))
    parts = [
        part
        for chunk in chunks
        for part in _head_rows(replace(heads, alpha=heads.alpha[chunk], norms=heads.norms[chunk]), cosines, settings)
    ]
    return _assemble(parts, heads, settings)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _HeadPart:
    """Bounds of one head at the sizes below T: values (8, K') in the order lower, upper of each quantity; reliable (K',)."""

    values: FloatArray
    reliable: BoolArray
    margins: Margins
    summary: Summary
    rho0_nonnegative: bool
    unit_norm: bool
    weights_within_one: bool


def _head_rows(heads: HeadInput, cosines: npt.NDArray[Any], settings: Settings) -> list[_HeadPart]:
    """Return the bounds of a few heads at the sizes below T."""
    alpha, norms, sink, dimension = heads.alpha, heads.norms, heads.sink, heads.dimension
    inner = heads.n[heads.n < heads.tokens]

    def exact(h: int) -> tuple[Ranked, Summary]:
        head = rank_tokens(alpha[h], norms[h], cosines, sink)
        return head, summarise(head, inner)

    def compiled(h: int) -> tuple[Ranked, Summary]:
        return many_heads.prepare(alpha[h], norms[h], cosines, sink, inner)

    def finish(item: tuple[int, tuple[Ranked, Summary]]) -> _HeadPart:
        h, (head, summary) = item
        margins = printed_margins(summary, delta0=settings.delta0, sink_in_b=settings.sink_in_b, sink_visible=sink is not None)
        reliable = np.ones(len(summary.n), dtype=bool)
        if settings.edition == "conditional":
            values, reliable = conditional_values(head, summary, dimension, settings)
        elif settings.edition == "predicted":
            values, reliable = predicted_values(alpha[h], norms[h], cosines, dimension, inner, sink=sink, convention=settings.convention)
        else:
            values = sharp[h] if settings.edition == "sharp" else printed_or_repaired_values(head, summary, margins, dimension, settings)
        content = np.arange(head.tokens) != (-1 if head.sink is None else head.sink)
        return _HeadPart(
            values=values,
            reliable=reliable,
            margins=margins,
            summary=summary,
            rho0_nonnegative=head.sink is None or bool((head.cosines[head.sink] >= 0).all()),
            unit_norm=bool((np.abs(head.norms[content] - 1) <= UNIT_NORM).all()),
            weights_within_one=bool(alpha[h].sum() <= 1 + UNIT_NORM),
        )

    from theory.editions.sharp import many_heads

    spread = many_heads.in_threads if settings.fast else _in_turn
    ready = spread(compiled if settings.fast else exact, range(len(alpha)))
    try:
        sharp = sharp_values(ready, dimension, settings) if settings.edition == "sharp" else []
        return spread(finish, enumerate(ready))
    finally:
        if settings.fast:
            many_heads.BY_RANK.give_back(head.cosines for head, _ in ready)


def _in_turn(work: Callable[[Any], Any], tasks: Iterable[Any]) -> list[Any]:
    return [work(task) for task in tasks]


def _assemble(parts: list[_HeadPart], heads: HeadInput, settings: Settings) -> Envelope:
    """Return the envelope of all heads, with n = T and n > T filled in by convention."""
    sizes, tokens = heads.n, heads.tokens
    inner, whole = sizes < tokens, sizes == tokens
    shape = (len(parts), len(sizes))
    at_whole = np.nan if settings.convention == "followup" else 1.0

    def spread(rows: list[Any], fill: float = np.nan) -> FloatArray:
        out = np.full(shape, np.nan)
        out[:, inner] = np.array(rows, dtype=np.float64).reshape(len(parts), int(inner.sum()))
        out[:, whole] = fill
        return out

    def of_head(name: str) -> BoolArray:
        return np.repeat([[getattr(part, name)] for part in parts], len(sizes), axis=1)

    names = [f"{quantity}_{side}" for quantity in QUANTITIES for side in ("lower", "upper")]
    bounds = {name: spread([part.values[k] for part in parts], at_whole) for k, name in enumerate(names)}
    margins = {name: spread([getattr(part.margins, name) for part in parts]) for name in ("margin", "margin_sink", "scale")}
    least = spread([part.summary.rho_least for part in parts])
    selected = spread([part.summary.sink_selected for part in parts])
    reliable = spread([part.reliable for part in parts], 1.0)
    valid = Validity(
        margin_positive=margins["margin"] > 0,
        margin_sink_positive=margins["margin_sink"] > 0,
        rho0_nonnegative=of_head("rho0_nonnegative"),
        similarities_nonnegative=least >= 0,
        size_within_length=np.broadcast_to(inner, shape).copy(),
        size_below_length=np.broadcast_to(sizes < tokens - 1, shape).copy(),
        sink_selected=selected == 1,
        unit_norm=of_head("unit_norm"),
        weights_within_one=of_head("weights_within_one"),
        kappa_proven=np.full(shape, settings.constant <= KAPPA),
        gram_feasible=np.full(shape, heads.feasible),
    )
    return Envelope(
        n=sizes,
        reliable=np.isnan(reliable) | (reliable == 1),
        valid=valid,
        edition=settings.edition,
        convention=settings.convention,
        kappa=settings.constant,
        upper_is_bound=CLAIMS[settings.edition][1] != "approximation",
        **bounds,
        **margins,
    )
