"""Simulated truth of one head, and which of its rows are drawn again: those at which a bound seems
violated or is near, or the flag of `predicted` is in doubt.

Drawing again is by `theory.audit.simulate` with more draws and another seed. Imports numpy; the
rest of the theory room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.audit.simulate import AUDITED, Directions, mean_of_draws
from theory.head.inputs import HeadInput
from theory.head.results import CLAIMS, Edition

SIGMAS: Final = 4.0
"""Standard errors beyond which a bound counts as violated."""

AGAIN: Final = 100
"""How many times as many draws a flagged row gets when it is drawn again."""

LARGE_ERROR: Final = 0.05
"""Error of `predicted` that its flag has to catch."""

IN_DOUBT: Final = 2.0
"""Standard errors: a trusted row whose error is above `LARGE_ERROR`, or so near below it, is drawn
again.
"""

NEAR: Final = 2.0
"""A row of a small head one of whose claimed bounds lies within so many standard errors of the
truth, or beyond it, is drawn again: such bounds are narrow, and what is false of them is small.
"""

LADDER: Final = (20, 1000)
"""With so many times the draws, while it is so near: a million at a thousand of them."""

PINNED: Final = 1e-6
"""Width up to which a bound is the truth itself, near however often drawn: not drawn 1000 times."""

AGAIN_IN_DOUBT: Final = 20
"""With so many times the draws: a standard error of .002 or less at a thousand of them."""

AGAIN_SEED: Final = 10**6
"""Added to a head's seed, once for each multiple of the draws, where it is drawn again."""


@dataclass(slots=True, kw_only=True, eq=False)
class Truth:
    """Simulated mean and standard error of each of `AUDITED` for one head, (6, n), from `draws`
    draws (n,) each.
    """

    head: HeadInput
    directions: Directions
    first: int
    seed: int
    mean: FloatArray
    error: FloatArray
    draws: IntArray

    @classmethod
    def of(cls, head: HeadInput, directions: Directions, draws: int, seed: int) -> Truth:
        """Return the truth from so many draws at every N."""
        mean, error = mean_of_draws(head, draws, seed, directions)
        return cls(
            head=head,
            directions=directions,
            first=draws,
            seed=seed,
            mean=mean,
            error=error,
            draws=np.full(len(head.n), draws),
        )

    def of_quantity(self, quantity: str) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard error, (n,) each; the standard error is at least one part in
        the draws.
        """
        at = AUDITED.index(quantity)
        return self.mean[at], np.maximum(self.error[at], 1 / self.draws)

    def draw_again(self, rows: BoolArray, times: int) -> None:
        """Replace these rows by ones of `times` the first number of draws, where they do not
        have as many already.
        """
        rows = rows & (self.draws < times * self.first)
        if rows.any():
            some, draws = replace(self.head, n=self.head.n[rows]), times * self.first
            again = mean_of_draws(some, draws, self.seed + times * AGAIN_SEED, self.directions)
            self.mean[:, rows], self.error[:, rows] = again
            self.draws[rows] = draws


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounds:
    """Lower and upper bounds of one quantity clipped to [0, 1], and the edition's own flag, (n,)
    each.
    """

    lower: FloatArray
    upper: FloatArray
    reliable: BoolArray


def draw_where_in_doubt(
    truth: Truth,
    bounds: Mapping[tuple[Edition, str], Bounds],
    flagged: Mapping[tuple[Edition, str], BoolArray],
    *,
    closely: bool,
) -> None:
    """Draw rows again at which a claimed bound is `flagged`, and those at which `predicted` is in
    doubt; closely: and those at which a claimed bound is near the truth.

    bounds: by edition and quantity, all of editions that this truth judges.
    """
    truth.draw_again(np.any([_claimed(key[0], flagged[key]) for key in bounds], axis=0), AGAIN)
    for times in LADDER if closely else ():
        near = [
            _near(key[0], one, *truth.of_quantity(key[1]), times) for key, one in bounds.items()
        ]
        truth.draw_again(np.any(near, axis=0), times)
    in_doubt = [
        _in_doubt(one, *truth.of_quantity(key[1]))
        for key, one in bounds.items()
        if key[0] == "predicted"
    ]
    if in_doubt:
        truth.draw_again(np.any(in_doubt, axis=0), AGAIN_IN_DOUBT)


def beyond(bounds: Bounds, mean: FloatArray, error: FloatArray) -> BoolArray:
    """Return which bounds lie on the wrong side by more than `SIGMAS` standard errors, (2, row)."""
    return np.stack([bounds.lower > mean + SIGMAS * error, bounds.upper < mean - SIGMAS * error])


def _near(
    edition: Edition, bounds: Bounds, mean: FloatArray, error: FloatArray, times: int
) -> BoolArray:
    """Return the rows at which a side that the edition claims lies near the truth or beyond it,
    (row,); pinned ones as far as they are flagged.
    """
    near = np.stack([bounds.lower > mean - NEAR * error, bounds.upper < mean + NEAR * error])
    pinned = (bounds.upper - bounds.lower <= PINNED) & (times == LADDER[-1])
    return _claimed(edition, np.where(pinned, beyond(bounds, mean, error), near))


def _claimed(edition: Edition, flagged: BoolArray) -> BoolArray:
    """Return the rows at which a side that the edition claims as a bound is flagged, (row,)."""
    claimed = np.array([claim.startswith("bound") for claim in CLAIMS[edition]])
    return np.asarray((flagged & claimed[:, None]).any(axis=0))


def _in_doubt(bounds: Bounds, mean: FloatArray, error: FloatArray) -> BoolArray:
    """Return which rows of `predicted` its flag trusts although they may be off by
    `LARGE_ERROR`, (row,).
    """
    return np.asarray(
        bounds.reliable & (np.abs(bounds.lower - mean) > LARGE_ERROR - IN_DOUBT * error)
    )
