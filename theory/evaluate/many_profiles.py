"""Printed and sharp bounds of many weight profiles that share one Gram: O(T²) parts in compiled
calls over blocks of profiles, the rest vectorised.

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
from theory.editions.sharp.sharp_law import (
    BY_RANK,
    GRAM_ROUNDING,
    SUM_ROUNDING,
    TABULATED_FROM,
    in_threads,
    infeasible,
    is_first,
    law_table,
    workers,
)
from theory.evaluate.choices import Settings
from theory.head.inputs import HeadInput
from theory.head.ranked import Extremes, distinct, extremes_of

AT_ONCE: Final = 2**28
"""Largest number of pairs in one compiled call: an interrupt waits for its end."""

ALONE: Final = 2**20
"""Number of pairs below which one thread is faster than several."""

SCRATCH: Final = 2**27
"""Largest number of cosines in memory when the sizes of a profile are spread over threads."""


@dataclass(frozen=True, slots=True, eq=False)
class HeadBounds:
    """Bounds of one head or several at the sizes below T: values (…, 8, K') as `BOUNDS`; reliable,
    rho_least and sink_selected (…, K'), the last two as in `Extremes`.
    """

    values: FloatArray
    reliable: BoolArray
    margins: Margins
    rho_least: FloatArray
    sink_selected: BoolArray


def serves(settings: Settings, dimension: int) -> bool:
    """Return whether `bounds_of_profiles` supports the edition at head size d."""
    tabulated = settings.edition == "sharp" and dimension >= TABULATED_FROM
    return settings.fast and (tabulated or settings.edition == "printed")


def bounds_of_profiles(
    heads: HeadInput, cosines: npt.NDArray[Any], n: IntArray, choices: Sequence[Settings]
) -> list[list[HeadBounds]]:
    """Return the bounds of all heads at sizes `n` < T for each choice: one record per block of
    heads, evaluated by `many_heads.in_threads`.

    Raises:
        InputError: if a 2×2 determinant is clearly negative (the Gram is not PSD).
    """
    count, gram = len(heads.alpha), np.ascontiguousarray(cosines)
    pairs = heads.tokens**2 * max(1, len(n))
    single_block = count * pairs <= ALONE
    size = max(1, min(AT_ONCE // pairs, count if single_block else -(-count // workers())))
    blocks = [slice(start, start + size) for start in range(0, count, size)]

    # a single head stays in this thread, which spreads its sizes
    by_block = in_threads(lambda block: _of_block(heads, block, gram, n, choices), blocks)
    return [[bounds[index] for bounds in by_block] for index in range(len(choices))]


def _of_block(
    heads: HeadInput,
    block: slice,
    cosines: npt.NDArray[Any],
    n: IntArray,
    choices: Sequence[Settings],
) -> list[HeadBounds]:
    """Return `bounds_of_profiles` of one block of heads, one record for each choice."""
    alpha, (sizes, back) = heads.alpha[block], distinct(n)
    order = selection_order(alpha)
    a = np.take_along_axis(alpha * heads.norms[block], order, axis=-1)
    sink = np.full(len(a), -1) if heads.sink is None else np.argmax(order == heads.sink, axis=-1)
    no_cosine = extremes_of(a, sink, sizes)  # B and the σ of eq. (9) do not depend on cosines
    deviation = [
        deviations(margins_of(no_cosine, heads, settings), heads.dimension, settings.constant)
        for settings in choices
        if settings.edition == "printed"
    ]
    followup = [settings.followup for settings in choices if settings.edition == "sharp"]
    ranked = (cosines, order, a, sink)
    sharp, floors, rho = _over_pairs(ranked, sizes, heads.dimension, followup, deviation)
    summary = extremes_of(a, sink, n, rho)
    result = []
    for settings in choices:
        margins = margins_of(summary, heads, settings)
        if settings.edition == "sharp":
            values = sharp.pop(0)[..., back]
        else:
            d, kappa, floor = heads.dimension, settings.constant, floors.pop(0)[..., back]
            values = bounds_from_floors(heads.tokens, n, margins, floor, d, kappa)
        reliable = np.ones(margins.scale.shape, dtype=bool)
        result.append(
            HeadBounds(values, reliable, margins, summary.rho_least, summary.sink_selected)
        )
    return result


def margins_of(summary: Extremes, heads: HeadInput, settings: Settings) -> Margins:
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
    """Return the O(T²) parts at ascending sizes: sharp values (H, 8, K) for each of `followup`,
    floors (2, H, K) for each σ of `deviation`, (H, K), and ρ_in, ρ_out, ρ_least (3, H, K).

    ranked: arguments cosines, order, a and sink of the kernel.
    """
    from theory.editions.profile_kernels import bounds_of_profiles

    count, tokens = ranked[1].shape
    sharp = np.empty((len(followup), count, 8, len(sizes)))
    floors = np.empty((len(deviation), 2, count, len(sizes)))
    rho = np.empty((3, count, len(sizes)))
    table = law_table(dimension) if followup else np.empty((0, 4))
    followup_flags = np.array(followup, dtype=bool)
    spread = np.array(deviation).reshape(len(deviation), count, len(sizes))
    shared = is_first() and count * len(sizes) * tokens**2 > ALONE
    parts = min(workers() if shared else 1, max(1, SCRATCH // tokens**2), len(sizes))

    def work(first: int) -> float:
        """Evaluate every `parts`-th size from `first` on, to balance the threads."""
        columns, rounding = slice(first, None, parts), (SUM_ROUNDING, GRAM_ROUNDING)
        options = (table, rounding, followup_flags, spread[..., columns].copy())
        scratch = BY_RANK.take(tokens)
        try:
            out = [np.empty_like(whole[..., columns]) for whole in (sharp, floors, rho)]
            worst = bounds_of_profiles(*ranked, sizes[columns].copy(), *options, scratch, *out)
        finally:
            BY_RANK.give_back([scratch])
        sharp[..., columns], floors[..., columns], rho[..., columns] = out
        return float(worst)

    worst = min(in_threads(work, range(parts)), default=0.0)
    if worst < 0:
        raise infeasible(worst)
    return list(sharp), list(floors), rho
