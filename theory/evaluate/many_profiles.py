"""Printed and sharp bounds of many profiles of weights that share one Gram: what costs O(T²) in one
compiled call for many of them, the rest in one go.

Imports numpy and scipy; numba on first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from theory.arrays import BoolArray, FloatArray, IntArray, selection_order
from theory.editions.printed import Margins, bounds_from_floors, deviations, printed_margins
from theory.editions.sharp.many_heads import (
    BY_RANK,
    TABULATED_FROM,
    in_threads,
    is_first,
    law_table,
    workers,
)
from theory.editions.sharp.sharp_law import GRAM_ROUNDING, SUM_ROUNDING, infeasible
from theory.evaluate.choices import Settings
from theory.head.inputs import HeadInput
from theory.head.ranked import Extremes, distinct, extremes_of
from theory.head.results import QUANTITIES

AT_ONCE: Final = 2**28
"""Pairs of one compiled call, at most, but for one profile's: an interrupt waits for its end."""

ALONE: Final = 2**20
"""Pairs that this thread goes through by itself: others take longer to start."""

SCRATCH: Final = 2**27
"""Cosines by rank that threads hold at once, at most, where one profile's sizes are shared out."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadBounds:
    """Bounds of one head or several at the sizes below T: values (…, 8, K') in the order lower,
    upper of each quantity; reliable, rho_least and sink_selected (…, K'), the last two as of
    `Extremes`.
    """

    values: FloatArray
    reliable: BoolArray
    margins: Margins
    rho_least: FloatArray
    sink_selected: BoolArray


def serves(settings: Settings, dimension: int) -> bool:
    """Whether `bounds_of_profiles` knows the edition, at head size d."""
    tabulated = settings.edition == "sharp" and dimension >= TABULATED_FROM
    return settings.fast and (tabulated or settings.edition == "printed")


def bounds_of_profiles(
    heads: HeadInput, cosines: npt.NDArray[Any], n: IntArray, each: Sequence[Settings]
) -> list[list[HeadBounds]]:
    """Return the bounds of all heads at sizes `n`, all below T, for each of the settings: some
    heads after the others, on a few threads as `many_heads.in_threads`.

    Raises:
        InputError: if some 2×2 determinant is clearly negative: no vectors have this Gram.
    """
    count, gram = len(heads.alpha), np.ascontiguousarray(cosines)
    pairs = heads.tokens**2 * max(1, len(n))
    few = count * pairs <= ALONE
    size = max(1, min(AT_ONCE // pairs, count if few else -(-count // workers())))
    blocks = [slice(start, start + size) for start in range(0, count, size)]

    def bounded(some: slice) -> list[HeadBounds]:
        return _of_block(heads, some, gram, n, each)

    # a single head is left to this thread, which shares its sizes out
    found = in_threads(bounded, blocks)
    return [[of_block[at] for of_block in found] for at in range(len(each))]


def _of_block(
    heads: HeadInput,
    some: slice,
    cosines: npt.NDArray[Any],
    n: IntArray,
    each: Sequence[Settings],
) -> list[HeadBounds]:
    """Return `bounds_of_profiles` of some heads, one record for each of the settings."""
    alpha, (sizes, back) = heads.alpha[some], distinct(n)
    order = selection_order(alpha)
    a = np.take_along_axis(alpha * heads.norms[some], order, axis=-1)
    sink = np.full(len(a), -1) if heads.sink is None else np.argmax(order == heads.sink, axis=-1)
    # B, and so the σ of eq. (9), knows no cosine
    no_cosine = extremes_of(a, sink, sizes, np.full((3, len(a), len(sizes)), np.nan))
    deviation = [
        deviations(_margins(no_cosine, heads, one), heads.dimension, one.constant)
        for one in each
        if one.edition == "printed"
    ]
    followup = [one.followup for one in each if one.edition == "sharp"]
    ranked = (cosines, order, a, sink)
    sharp, floors, rho = _over_pairs(ranked, sizes, heads.dimension, followup, deviation)
    summary = extremes_of(a, sink, n, rho)
    out = []
    for one in each:
        margins = _margins(summary, heads, one)
        if one.edition == "sharp":
            values = sharp.pop(0)[..., back]
        else:
            own = (margins, floors.pop(0)[..., back], heads.dimension, one.constant)
            bounds = bounds_from_floors(heads.tokens, n, *own)
            values = np.stack([side for q in QUANTITIES for side in getattr(bounds, q)], axis=1)
        out.append(
            HeadBounds(
                values=values,
                reliable=np.ones(margins.scale.shape, dtype=bool),
                margins=margins,
                rho_least=summary.rho_least,
                sink_selected=summary.sink_selected,
            )
        )
    return out


def _margins(summary: Extremes, heads: HeadInput, settings: Settings) -> Margins:
    """Return the printed margins as the settings read them."""
    return printed_margins(
        summary,
        delta0=settings.delta0,
        sink_in_b=settings.sink_in_b,
        sink_visible=heads.sink is not None,
    )


def _over_pairs(
    ranked: tuple[npt.NDArray[Any], IntArray, FloatArray, IntArray],
    sizes: IntArray,
    dimension: int,
    followup: Sequence[bool],
    deviation: Sequence[FloatArray],
) -> tuple[list[FloatArray], list[FloatArray], FloatArray]:
    """Return what costs O(T²) at ascending sizes: sharp values (H, 8, K) for each of `followup`,
    floors (2, H, K) for each σ of `deviation`, (H, K), and ρ_in, ρ_out, ρ_least (3, H, K).

    ranked: the arguments of the kernel of these names.
    """
    from theory.editions.profile_kernels import bounds_of_profiles

    count, tokens = ranked[1].shape
    sharp = np.empty((len(followup), count, 8, len(sizes)))
    floors = np.empty((len(deviation), 2, count, len(sizes)))
    rho = np.empty((3, count, len(sizes)))
    table = law_table(dimension) if followup else np.empty((0, 4))
    asked = np.array(followup, dtype=bool)
    spread = np.array(deviation).reshape(len(deviation), count, len(sizes))
    shared = is_first() and count * len(sizes) * tokens**2 > ALONE
    parts = min(workers() if shared else 1, max(1, SCRATCH // tokens**2), len(sizes))

    def work(first: int) -> float:
        """Every so many-th size, so that threads have alike much to do."""
        at = slice(first, None, parts)
        own = (
            sizes[at].copy(),
            table,
            (SUM_ROUNDING, GRAM_ROUNDING),
            asked,
            spread[..., at].copy(),
        )
        scratch = BY_RANK.take(tokens)
        try:
            out = [np.empty_like(whole[..., at]) for whole in (sharp, floors, rho)]
            worst = bounds_of_profiles(*ranked, *own, scratch, *out)
        finally:
            BY_RANK.give_back([scratch])
        sharp[..., at], floors[..., at], rho[..., at] = out
        return float(worst)

    worst = min(in_threads(work, range(parts)), default=0.0)
    if worst < 0:
        raise infeasible(worst)
    return list(sharp), list(floors), rho
