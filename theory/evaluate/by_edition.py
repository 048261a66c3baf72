"""Bounds of each head by the chosen edition, at the sizes below T, all laid out alike.

The numbers are those of `theory.editions`; here heads are ranked and summed, on a few threads where
there are many. Imports numpy; scipy and numba lazily.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.editions.conditional.quadrature_error import WITHIN
from theory.editions.printed import Margins, deviations, printed_bounds, printed_margins
from theory.evaluate.choices import Settings
from theory.head.inputs import HeadInput
from theory.head.ranked import Ranked, Summary, rank_tokens, summarise
from theory.head.results import QUANTITIES, Edition

SELECTED_ROWS: Final[tuple[Edition, ...]] = ("printed", "sharp")
"""Editions that read the cosines of selected tokens alone, not of two that are not."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadBounds:
    """Bounds of one head at the sizes below T: values (8, K') in the order lower, upper of each
    quantity; reliable, rho_least and sink_selected (K',), the last two as of `Summary`.
    """

    values: FloatArray
    reliable: BoolArray
    margins: Margins
    rho_least: FloatArray
    sink_selected: BoolArray


def bounds_of_heads(
    heads: HeadInput, cosines: npt.NDArray[Any], each: Sequence[Settings]
) -> list[list[HeadBounds]]:
    """Return the bounds of heads at the sizes below T, by settings, which differ in edition and
    convention alone: a head's tokens are ranked once, and one head is done with before a thread
    takes the next.
    """
    from theory.editions.sharp import many_heads

    inner, fast = heads.n[heads.n < heads.tokens], each[0].fast
    whole = any(settings.edition not in SELECTED_ROWS for settings in each)

    def bounded(h: int) -> list[HeadBounds]:
        alpha, norms = heads.alpha[h], heads.norms[h]
        if not fast:
            head = rank_tokens(alpha, norms, cosines, heads.sink)
            ready = head, summarise(head, inner)
            return [_of_ranked(heads, h, cosines, *ready, settings) for settings in each]
        ready = many_heads.prepare(alpha, norms, cosines, heads.sink, inner, whole=whole)
        try:
            return [_of_ranked(heads, h, cosines, *ready, settings) for settings in each]
        finally:
            many_heads.BY_RANK.give_back([ready[0].cosines])

    every = range(len(heads.alpha))
    # a single head is left to this thread, which shares its sizes out
    threads = fast and len(every) > 1
    found = many_heads.in_threads(bounded, every) if threads else [bounded(h) for h in every]
    return [[of_head[at] for of_head in found] for at in range(len(each))]


def _of_ranked(
    heads: HeadInput,
    h: int,
    cosines: npt.NDArray[Any],
    head: Ranked,
    summary: Summary,
    settings: Settings,
) -> HeadBounds:
    """Return the bounds of the h-th head, whose tokens are ranked."""
    dimension = heads.dimension
    margins = printed_margins(
        summary,
        delta0=settings.delta0,
        sink_in_b=settings.sink_in_b,
        sink_visible=heads.sink is not None,
    )
    reliable = np.ones(len(summary.n), dtype=bool)
    if settings.edition == "conditional":
        values, reliable = _conditional_values(head, summary, dimension, settings)
    elif settings.edition == "predicted":
        own = (heads.alpha[h], heads.norms[h], cosines, dimension, summary.n, settings)
        values, reliable = _predicted_values(*own)
    elif settings.edition == "sharp":
        values = _sharp_values(head, summary, dimension, settings)
    else:
        values = _printed_or_repaired_values(head, summary, margins, dimension, settings)
    return HeadBounds(
        values=values,
        reliable=reliable,
        margins=margins,
        rho_least=summary.rho_least,
        sink_selected=summary.sink_selected,
    )


def _sharp_values(head: Ranked, summary: Summary, dimension: int, settings: Settings) -> FloatArray:
    """Return sharp bounds (8, K') of one head, tabulated where asked for and where the table
    serves.
    """
    from theory.editions.sharp import many_heads
    from theory.editions.sharp.sharp_law import exact_bounds

    if settings.fast and dimension >= many_heads.TABULATED_FROM:
        return many_heads.sharp_bounds(head, summary, dimension, followup=settings.followup)
    sizes = range(len(summary.n))
    return _columns(
        [exact_bounds(head, summary, k, dimension, followup=settings.followup) for k in sizes]
    )


def _conditional_values(
    head: Ranked, summary: Summary, dimension: int, settings: Settings
) -> tuple[FloatArray, BoolArray]:
    """Return conditional bounds (8, K') of one head, and at which sizes no average was left out
    (K',).
    """
    from theory.editions.conditional.conditional_edition import conditional_bounds

    out = [
        conditional_bounds(head, summary, k, dimension, followup=settings.followup)
        for k in range(len(summary.n))
    ]
    return _columns(out), np.array([bounds.error <= WITHIN for bounds in out], dtype=bool)


def _predicted_values(
    alpha: FloatArray,
    norms: FloatArray,
    cosines: npt.NDArray[Any],
    dimension: int,
    sizes: IntArray,
    settings: Settings,
) -> tuple[FloatArray, BoolArray]:
    """Return predicted values (8, K'), lower and upper the same, and where they do not flag
    themselves (K',).
    """
    from theory.editions.predicted.predict import predict

    if not sizes.size:
        return np.empty((2 * len(QUANTITIES), 0)), np.empty(0, dtype=bool)
    result = predict(
        alpha,
        norms,
        cosines,
        dimension,
        sizes,
        sink=settings.sink,
        convention=settings.convention,
        feasible=True,
    )
    return np.stack(
        [getattr(result, quantity) for quantity in QUANTITIES for _ in range(2)]
    ), np.array(result.reliable)


def _printed_or_repaired_values(
    head: Ranked, summary: Summary, margins: Margins, dimension: int, settings: Settings
) -> FloatArray:
    """Return printed or repaired values (8, K') of one head."""
    if settings.edition == "printed":
        floors = _floors(head, summary, margins, dimension, settings) if settings.fast else None
        bounds = printed_bounds(head, summary, margins, dimension, settings.constant, floors=floors)
        return np.stack([side for quantity in QUANTITIES for side in getattr(bounds, quantity)])
    from theory.editions.repaired import repaired_bounds

    return _columns(
        [
            repaired_bounds(head, summary, k, dimension, settings.constant)
            for k in range(len(summary.n))
        ]
    )


def _floors(
    head: Ranked, summary: Summary, margins: Margins, dimension: int, settings: Settings
) -> FloatArray:
    """Return the largest and the mean floor of p̲ over selected tokens at each size, (2, K'), by a
    compiled kernel.
    """
    from theory.editions.printed_kernels import floors_of_head

    out = np.empty((2, len(summary.n)))
    sink = -1 if head.sink is None else head.sink
    deviation = deviations(margins, dimension, settings.constant)
    own = (head.a, summary.sigma, sink, head.cosines[sink], summary.n, deviation)
    floors_of_head(*own, out)
    return out


def _columns(bounds: list[Any]) -> FloatArray:
    """Return (8, K') from K' records with a (lower, upper) pair for each quantity."""
    rows = [[side for quantity in QUANTITIES for side in getattr(one, quantity)] for one in bounds]
    return np.array(rows, dtype=np.float64).reshape(len(rows), 2 * len(QUANTITIES)).T
