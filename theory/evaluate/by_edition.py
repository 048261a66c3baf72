"""Bounds of each head by the chosen edition, at the sizes below T, all laid out alike.

The numbers are those of `theory.editions`; here heads are ranked and summed, on a few threads where
there are many. Imports numpy and scipy; numba lazily.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.editions.conditional.quadrature_error import WITHIN
from theory.editions.printed import Margins, printed_bounds, printed_margins
from theory.editions.sharp.many_heads import in_threads
from theory.evaluate.choices import Settings
from theory.evaluate.many_profiles import HeadBounds, bounds_of_profiles, serves
from theory.head.inputs import HeadInput
from theory.head.ranked import Ranked, Summary, rank_tokens, summarise
from theory.head.results import QUANTITIES


def bounds_of_heads(
    heads: HeadInput, cosines: npt.NDArray[Any], each: Sequence[Settings]
) -> list[list[HeadBounds]]:
    """Return the bounds of heads at the sizes below T, one or several heads after the others, by
    settings, which differ in edition and convention alone.
    """
    together = [one for one in each if serves(one, heads.dimension)]
    apart = [one for one in each if not serves(one, heads.dimension)]
    inner = heads.n[heads.n < heads.tokens]
    many = bounds_of_profiles(heads, cosines, inner, together) if together else []

    def bounded(h: int) -> list[HeadBounds]:
        head = rank_tokens(heads.alpha[h], heads.norms[h], cosines, heads.sink)
        summary = summarise(head, inner)
        return [_of_ranked(heads, h, cosines, head, summary, settings) for settings in apart]

    every = range(len(heads.alpha) if apart else 0)
    found = in_threads(bounded, every) if each[0].fast else list(map(bounded, every))
    single = [[of_head[at] for of_head in found] for at in range(len(apart))]
    return [(many if one in together else single).pop(0) for one in each]


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
    """Return sharp bounds (8, K') of one head, every pair's probability computed exactly."""
    from theory.editions.sharp.sharp_law import exact_bounds

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
        bounds = printed_bounds(head, summary, margins, dimension, settings.constant)
        return np.stack([side for quantity in QUANTITIES for side in getattr(bounds, quantity)])
    from theory.editions.repaired import repaired_bounds

    return _columns(
        [
            repaired_bounds(head, summary, k, dimension, settings.constant)
            for k in range(len(summary.n))
        ]
    )


def _columns(bounds: list[Any]) -> FloatArray:
    """Return (8, K') from K' records with a (lower, upper) pair for each quantity."""
    rows = [[side for quantity in QUANTITIES for side in getattr(one, quantity)] for one in bounds]
    return np.array(rows, dtype=np.float64).reshape(len(rows), 2 * len(QUANTITIES)).T
