"""Simulated truth of one head at each of its sizes N: means over draws with their standard errors, drawn again where more digits are wanted.

`theory.audit.rows` lays the bounds beside it. Imports numpy; `theory.audit.simulate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray, selection_order
from theory.audit.heads import Head
from theory.audit.simulate import Directions, draw_directions, shares_of_draws
from theory.head.results import QUANTITIES

AGAIN_SEED: Final = 10**6
"""Added to a head's seed, once for each multiple of the draws, where it is drawn again."""

FOLLOWUP: Final = "f_followup"
"""The one F of the follow-up protocol, harmonic mean of P(r_max) and R(r_min) with strict inner balls; no printed or repaired edition."""

FOLLOWUP_RECALL: Final = "recall_followup"
"""R(r_min) with strict inner balls: told apart for small heads, some of whose tokens are tied."""

AUDITED: Final = (*QUANTITIES, FOLLOWUP_RECALL, FOLLOWUP)
"""Everything that is simulated."""


@dataclass(slots=True, kw_only=True, eq=False)
class Truth:
    """Simulated mean and standard error of each of `AUDITED` for one head, (6, n), from `draws` draws (n,) each."""

    head: Head
    directions: Directions
    first: int
    seed: int
    mean: FloatArray
    error: FloatArray
    draws: IntArray

    @classmethod
    def of(cls, head: Head, directions: Directions, draws: int, seed: int) -> Truth:
        """Return the truth from so many draws at every N."""
        mean, error = drawn_truth(head, directions, head.n, draws, seed)
        return cls(head=head, directions=directions, first=draws, seed=seed, mean=mean, error=error, draws=np.full(len(head.n), draws))

    def of_quantity(self, quantity: str) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard error, (n,) each; the standard error is at least one part in the draws."""
        at = AUDITED.index(quantity)
        return self.mean[at], np.maximum(self.error[at], 1 / self.draws)

    def draw_again(self, rows: BoolArray, times: int) -> None:
        """Replace these rows by ones of `times` the first number of draws, where they do not have as many already."""
        rows = rows & (self.draws < times * self.first)
        if rows.any():
            self.mean[:, rows], self.error[:, rows] = drawn_truth(
                self.head, self.directions, self.head.n[rows], times * self.first, self.seed + times * AGAIN_SEED
            )
            self.draws[rows] = times * self.first


def drawn_truth(head: Head, directions: Directions, n: IntArray, draws: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard error of each of `AUDITED`, (6, n), all from the same draws."""
    order, a = selection_order(head.alpha), head.alpha * head.norms
    total, square = np.zeros((2, len(AUDITED), len(n)))
    for units in draw_directions(head.gram, len(a), head.dimension, draws, seed):
        if directions == "unit":
            units /= np.linalg.norm(units, axis=2, keepdims=True)
        units *= a[:, None, None]
        p, closed, strict = shares_of_draws(units, order, n)
        seen = np.stack([p, closed, 2 * p / (1 + p), 2 * closed / (1 + closed), strict, 2 * p * strict / (p + strict)])
        total += seen.sum(axis=2)
        square += (seen**2).sum(axis=2)
    mean = total / draws
    return mean, np.sqrt(np.maximum(square / draws - mean**2, 0) / (draws - 1))
