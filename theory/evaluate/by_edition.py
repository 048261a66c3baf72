"""Bounds of heads by edition, at the sizes below T, in one layout.

Ranks and summarises the heads, on threads if there are many, and calls `theory.editions`. Imports
numpy and scipy; numba lazily.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from theory.arrays import BoolArray
from theory.editions.conditional.quadrature_error import WITHIN
from theory.editions.printed import printed_bounds
from theory.editions.repaired import repaired_bounds
from theory.editions.sharp.many_heads import in_threads
from theory.editions.sharp.sharp_law import best_bounds, pairwise_law
from theory.evaluate.choices import Settings
from theory.evaluate.many_profiles import HeadBounds, bounds_of_profiles, margins_of, serves
from theory.head.inputs import HeadInput
from theory.head.ranked import Ranked, Summary, rank_tokens, summarise
from theory.head.results import BOUNDS, QUANTITIES


def bounds_of_heads(
    heads: HeadInput, cosines: npt.NDArray[Any], choices: Sequence[Settings]
) -> list[list[HeadBounds]]:
    """Return the bounds of heads at the sizes below T for each choice. Choices differ only in
    edition and convention; the records hold one or several heads, in order.
    """
    compiled = [settings for settings in choices if serves(settings, heads.dimension)]
    plain = [settings for settings in choices if not serves(settings, heads.dimension)]
    inner = heads.n[heads.n < heads.tokens]
    of_compiled = bounds_of_profiles(heads, cosines, inner, compiled) if compiled else []

    def bounds_of_head(h: int) -> list[HeadBounds]:
        one = replace(heads, alpha=heads.alpha[h], norms=heads.norms[h], gram=cosines, n=inner)
        head = rank_tokens(one.alpha, one.norms, cosines, heads.sink)
        summary = summarise(head, inner)
        return [_of_head(one, head, summary, settings) for settings in plain]

    indices = range(len(heads.alpha) if plain else 0)
    fast = choices[0].fast
    by_head = in_threads(bounds_of_head, indices) if fast else list(map(bounds_of_head, indices))
    of_plain = [[bounds[index] for bounds in by_head] for index in range(len(plain))]
    return [(of_compiled if settings in compiled else of_plain).pop(0) for settings in choices]


def _of_head(one: HeadInput, head: Ranked, summary: Summary, settings: Settings) -> HeadBounds:
    """Return the bounds of one head, also ranked and summarised."""
    d, kappa, margins = one.dimension, settings.constant, margins_of(summary, one, settings)
    reliable: BoolArray = np.ones(len(summary.n), dtype=bool)
    values = np.empty((len(BOUNDS), len(summary.n)))
    if settings.edition == "printed":
        values = printed_bounds(head, summary, margins, d, kappa)
    elif settings.edition == "predicted":
        from theory.editions.predicted.predict import predict_head

        prediction = predict_head(one, settings.convention)
        reliable = np.array(prediction.reliable)
        for index, quantity in enumerate(QUANTITIES):  # lower and upper are equal
            values[2 * index : 2 * index + 2] = getattr(prediction, quantity)
    else:
        for index in range(len(summary.n)):
            if settings.edition == "repaired":
                values[:, index] = repaired_bounds(head, summary, index, d, kappa)
            elif settings.edition == "sharp":
                law = pairwise_law(head, summary, index, d)
                values[:, index] = best_bounds(law, followup=settings.followup)
            else:
                from theory.editions.conditional.conditional_edition import conditional_bounds

                bounds = conditional_bounds(head, summary, index, d, followup=settings.followup)
                values[:, index], reliable[index] = bounds.values, bounds.error <= WITHIN
    return HeadBounds(values, reliable, margins, summary.rho_least, summary.sink_selected)
