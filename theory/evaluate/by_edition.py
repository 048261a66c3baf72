"""Bounds of each head by the chosen edition, at the sizes below T, all laid out alike.

The numbers are those of `theory.editions`; here heads are ranked and summed, on a few threads where
there are many. Imports numpy; scipy and numba lazily.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    quantity; reliable (K',).
    """

    values: FloatArray
    reliable: BoolArray
    margins: Margins
    summary: Summary


def bounds_of_heads(
    heads: HeadInput, cosines: npt.NDArray[Any], each: Sequence[Settings]
) -> list[list[HeadBounds]]:
    """Return the bounds of a few heads at the sizes below T, by settings, which differ in edition
    and convention alone: tokens are ranked once.
    """
    from theory.editions.sharp import many_heads

    inner, fast = heads.n[heads.n < heads.tokens], each[0].fast
    whole = any(settings.edition not in SELECTED_ROWS for settings in each)

    def ranked(h: int) -> tuple[Ranked, Summary]:
        alpha, norms = heads.alpha[h], heads.norms[h]
        if fast:
            return many_heads.prepare(alpha, norms, cosines, heads.sink, inner, whole=whole)
        head = rank_tokens(alpha, norms, cosines, heads.sink)
        return head, summarise(head, inner)

    run = many_heads.in_threads if fast else lambda work, tasks: [work(task) for task in tasks]
    ready = run(ranked, range(len(heads.alpha)))
    try:
        return [_bounds_of_ranked(heads, cosines, ready, settings, run) for settings in each]
    finally:
        if fast:
            many_heads.BY_RANK.give_back(head.cosines for head, _ in ready)


def _bounds_of_ranked(
    heads: HeadInput,
    cosines: npt.NDArray[Any],
    ready: list[tuple[Ranked, Summary]],
    settings: Settings,
    run: Callable[[Callable[[int], HeadBounds], Iterable[int]], list[HeadBounds]],
) -> list[HeadBounds]:
    """Return the bounds of heads whose tokens are ranked; `run` applies a function to each."""
    dimension, sink = heads.dimension, heads.sink
    inner = heads.n[heads.n < heads.tokens]
    sharp = _sharp_values(ready, dimension, settings) if settings.edition == "sharp" else []

    def bounded(h: int) -> HeadBounds:
        head, summary = ready[h]
        margins = printed_margins(
            summary,
            delta0=settings.delta0,
            sink_in_b=settings.sink_in_b,
            sink_visible=sink is not None,
        )
        reliable = np.ones(len(inner), dtype=bool)
        if settings.edition == "conditional":
            values, reliable = _conditional_values(head, summary, dimension, settings)
        elif settings.edition == "predicted":
            values, reliable = _predicted_values(
                heads.alpha[h], heads.norms[h], cosines, dimension, inner, settings
            )
        elif settings.edition == "sharp":
            values = sharp[h]
        else:
            values = _printed_or_repaired_values(head, summary, margins, dimension, settings)
        return HeadBounds(values=values, reliable=reliable, margins=margins, summary=summary)

    return run(bounded, range(len(ready)))


def _sharp_values(
    ready: list[tuple[Ranked, Summary]], dimension: int, settings: Settings
) -> list[FloatArray]:
    """Return sharp bounds (8, K') of each head, tabulated where asked for and where the table
    serves.
    """
    from theory.editions.sharp import many_heads
    from theory.editions.sharp.sharp_law import exact_bounds

    if settings.fast and dimension >= many_heads.TABULATED_FROM:
        return many_heads.sharp_bounds(ready, dimension, followup=settings.followup)
    return [
        _columns(
            [
                exact_bounds(*item, k, dimension, followup=settings.followup)
                for k in range(len(item[1].n))
            ]
        )
        for item in ready
    ]


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
