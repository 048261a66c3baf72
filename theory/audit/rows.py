"""Bounds laid beside simulated truth, row by row: one head at one N is a row. The truth is drawn
again where more digits are wanted.

The judge is `theory.audit.simulate`: Model G for `sharp` and `conditional` (bounds under it) and
for `predicted` (an approximation), exactly unit directions for `repaired` and `printed`, which
speak of them. Heads are independent of each other and may be shared out among processes; every head
has its own seeds, so that the rows do not depend on how. Imports numpy; the rest of the theory
room.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, get_args

import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.audit.heads import Head, Sample, heads
from theory.audit.simulate import AUDITED, FOLLOWUP, FOLLOWUP_RECALL, Directions, mean_of_draws
from theory.errors import InputError
from theory.evaluate.envelopes import envelopes
from theory.head.results import CLAIMS, QUANTITIES, UNDER_MODEL_G, Convention, Edition, Envelope

SIGMAS: Final = 4.0
"""Standard errors beyond which a bound counts as violated."""

AGAIN: Final = 100
"""A flagged row is drawn again with so many times the draws."""

LARGE_ERROR: Final = 0.05
"""Error of `predicted` that its flag has to catch."""

IN_DOUBT: Final = 2.0
"""A trusted row of `predicted` that lies within so many standard errors of `LARGE_ERROR`, or
beyond it, is drawn again too.
"""

NEAR: Final = 2.0
"""A row of a small head one of whose claimed bounds lies within so many standard errors of the
truth, or beyond it, is drawn again: such bounds are narrow, and what is false of them is small.
"""

LADDER: Final = (20, 1000)
"""With so many times the draws, while it is so near: a million at a thousand of them."""

PINNED: Final = 1e-6
"""Width up to which a bound is the truth itself, which is near however often it is drawn: not
drawn a thousand times.
"""

AGAIN_IN_DOUBT: Final = 20
"""With so many times the draws: a standard error of .002 or less at a thousand of them."""

AGAIN_SEED: Final = 10**6
"""Added to a head's seed, once for each multiple of the draws, where it is drawn again."""

JUDGES: Final[dict[Edition, Directions]] = {
    "printed": "unit",
    "repaired": "unit",
    "sharp": "gaussian",
    "conditional": "gaussian",
    "predicted": "gaussian",
}
"""Which simulation each edition speaks of."""


@dataclass(slots=True, kw_only=True, eq=False)
class Truth:
    """Simulated mean and standard error of each of `AUDITED` for one head, (6, n), from `draws`
    draws (n,) each.
    """

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
        mean, error = mean_of_draws(
            head.alpha,
            head.norms,
            head.gram,
            head.dimension,
            head.n,
            draws,
            seed,
            directions=directions,
        )
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
            head, draws, seed = self.head, times * self.first, self.seed + times * AGAIN_SEED
            self.mean[:, rows], self.error[:, rows] = mean_of_draws(
                head.alpha,
                head.norms,
                head.gram,
                head.dimension,
                head.n[rows],
                draws,
                seed,
                directions=self.directions,
            )
            self.draws[rows] = draws


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """One edition's bounds on one quantity beside the truth; arrays (row,)."""

    n: IntArray
    tokens: IntArray
    lower: FloatArray
    upper: FloatArray
    truth: FloatArray
    error: FloatArray
    """Standard error of the truth, at least one part in the draws."""
    violated: BoolArray
    """Which bounds are violated still after drawing again, (2, row): lower, upper."""
    flagged: BoolArray
    """Which were flagged at first."""
    reliable: BoolArray
    """`predicted`: whether its own flag trusts the row; `conditional`: whether no average was
    left out; True elsewhere.
    """

    def floor(self, quantity: str) -> FloatArray:
        """What holds of any head: P ≥ N/T and with it F(r_max) ≥ 2N/(T+N); R, F(r_min) and the
        follow-up's F ≥ 0.
        """
        share = self.n / self.tokens
        return {"precision": share, "f_outer": 2 * share / (1 + share)}.get(
            quantity, np.zeros(len(self.n))
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Audit:
    """The rows of every edition and quantity, and how they were drawn."""

    rows: dict[tuple[str, str], Rows] = field(repr=False)
    draws: int
    seed: int
    sample: Sample
    heads: int


def audit(
    editions: tuple[Edition, ...] = get_args(Edition),
    *,
    sample: Sample = "grid",
    draws: int = 1000,
    seed: int = 0,
    every: int = 1,
    count: int | None = None,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Lay every edition over simulated truth.

    Args:
        editions: which ones.
        sample: "grid", or "random" or "small" for `count` heads of that kind.
        draws: simulated heads for each head of the sample and kind of directions, at least 2.
        seed: of the draws and of the heads drawn.
        every: take each so-many-th head of the sample (1: all).
        count: how many heads are drawn (None: as many as the sample has).
        workers: processes; the rows do not depend on it.
        progress: called with heads done and heads in all.

    Raises:
        InputError: for fewer than two draws, or a step, a count or a number of workers below one.
    """
    if draws < 2 or min(every, 1 if count is None else count, workers) < 1:
        raise InputError(
            f"draws={draws}, every={every}, count={count}, workers={workers}: expected at least 2"
            " draws and 1 of the others. Change the number."
        )
    taken = heads(sample, seed=seed, count=count)[::every]
    parts: dict[tuple[str, str], list[Rows]] = {}
    work = partial(judged, editions=editions, draws=draws, closely=sample == "small")
    with _mapping(workers) as spread:
        for done, result in enumerate(spread(work, taken, range(seed, seed + len(taken)))):
            for key, rows in result.items():
                parts.setdefault(key, []).append(rows)
            if progress:
                progress(done + 1, len(taken))
    joined = {
        key: Rows(
            **{
                name: np.concatenate([getattr(part, name) for part in rows], axis=-1)
                for name in Rows.__slots__
            }
        )
        for key, rows in parts.items()
    }
    return Audit(rows=joined, draws=draws, seed=seed, sample=sample, heads=len(taken))


@contextmanager
def _mapping(workers: int) -> Iterator[Callable[..., Iterator[dict[tuple[str, str], Rows]]]]:
    """Give `map`, over fresh processes where there is more than one: forking one that has
    threads is unsafe.
    """
    if workers == 1:
        yield map
        return
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool.map


def judged(
    head: Head, seed: int, *, editions: tuple[Edition, ...], draws: int, closely: bool = False
) -> dict[tuple[str, str], Rows]:
    """Return the rows of one head for every edition and quantity, editions in the order given.

    Rows at which a claimed bound is flagged are drawn again, and so are those at which `predicted`
    is in doubt. closely: and those at which a claimed bound is near the truth; strict inner balls
    are told apart.
    """
    truths = {
        kind: Truth.of(head, kind, draws, seed)
        for kind in dict.fromkeys(JUDGES[edition] for edition in editions)
    }
    bounds = {
        (edition, quantity): result
        for edition in editions
        for quantity, result in _evaluated(head, edition, closely).items()
    }
    flagged = {
        key: _beyond(one, *truths[JUDGES[key[0]]].of_quantity(key[1]))
        for key, one in bounds.items()
    }
    for kind, truth in truths.items():
        ours = {key: one for key, one in bounds.items() if JUDGES[key[0]] == kind}
        truth.draw_again(np.any([_claimed(key[0], flagged[key]) for key in ours], axis=0), AGAIN)
        for times in LADDER if closely else ():
            near = [
                _near(key[0], one, *truth.of_quantity(key[1]), times) for key, one in ours.items()
            ]
            truth.draw_again(np.any(near, axis=0), times)
        in_doubt = [
            _in_doubt(one, *truth.of_quantity(key[1]))
            for key, one in ours.items()
            if key[0] == "predicted"
        ]
        if in_doubt:
            truth.draw_again(np.any(in_doubt, axis=0), AGAIN_IN_DOUBT)
    rows: dict[tuple[str, str], Rows] = {}
    for (edition, quantity), one in bounds.items():
        mean, error = truths[JUDGES[edition]].of_quantity(quantity)
        rows[edition, quantity] = Rows(
            n=head.n,
            tokens=np.full(len(head.n), len(head.alpha)),
            lower=one.lower,
            upper=one.upper,
            truth=mean,
            error=error,
            violated=_beyond(one, mean, error),
            flagged=flagged[edition, quantity],
            reliable=one.reliable,
        )
    return rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounds:
    """Lower and upper bounds of one quantity clipped to [0, 1], and the edition's own flag, (n,)
    each.
    """

    lower: FloatArray
    upper: FloatArray
    reliable: BoolArray


def evaluated(head: Head, edition: Edition, convention: Convention) -> Envelope:
    """Return the bounds of one head, arrays (1, n)."""
    return envelopes(
        head.alpha[None],
        head.norms[None],
        head.gram,
        head.dimension,
        head.n,
        edition=edition,
        convention=convention,
        feasible=True,
    )


def _evaluated(head: Head, edition: Edition, closely: bool) -> dict[str, Bounds]:
    """Return the bounds of one head on every quantity that the edition knows; closely: R with
    strict inner balls apart.
    """
    paper = evaluated(head, edition, "paper")
    named = [(name, name, paper) for name in QUANTITIES]
    if edition in UNDER_MODEL_G:
        followup = evaluated(head, edition, "followup")
        named += [(FOLLOWUP_RECALL, "recall", followup)] * closely + [
            (FOLLOWUP, "f_outer", followup)
        ]
    out = {}
    for name, of, envelope in named:
        lower, upper = (
            np.clip(getattr(envelope, f"{of}_{side}")[0], 0, 1) for side in ("lower", "upper")
        )
        out[name] = Bounds(lower=lower, upper=upper, reliable=envelope.reliable[0])
    return out


def _beyond(bounds: Bounds, mean: FloatArray, error: FloatArray) -> BoolArray:
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
    return _claimed(edition, np.where(pinned, _beyond(bounds, mean, error), near))


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
