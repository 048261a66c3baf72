"""Simulated truth of one head at each of its sizes N: means over draws with their standard errors, drawn again where more digits are wanted.

`theory.audit.rows` lays the bounds beside it. Imports numpy; `theory.audit.simulate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.audit.heads import Head
from theory.audit.simulate import AUDITED, Directions, mean_of_draws

AGAIN_SEED: Final = 10**6
"""Added to a head's seed, once for each multiple of the draws, where it is drawn again."""


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
        mean, error = mean_of_draws(head.alpha, head.norms, head.gram, head.dimension, head.n, draws, seed, directions=directions)
        return cls(head=head, directions=directions, first=draws, seed=seed, mean=mean, error=error, draws=np.full(len(head.n), draws))

    def of_quantity(self, quantity: str) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard error, (n,) each; the standard error is at least one part in the draws."""
        at = AUDITED.index(quantity)
        return self.mean[at], np.maximum(self.error[at], 1 / self.draws)

    def draw_again(self, rows: BoolArray, times: int) -> None:
        """Replace these rows by ones of `times` the first number of draws, where they do not have as many already."""
        rows = rows & (self.draws < times * self.first)
        if rows.any():
            head, draws, seed = self.head, times * self.first, self.seed + times * AGAIN_SEED
            self.mean[:, rows], self.error[:, rows] = mean_of_draws(
                head.alpha, head.norms, head.gram, head.dimension, head.n[rows], draws, seed, directions=self.directions
            )
            self.draws[rows] = draws
