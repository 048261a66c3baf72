"""Audit rows: bounds and simulated truth of one head at one N.

The reference is `theory.evaluate.simulate`: Model G for `sharp`, `conditional` and `predicted`,
exactly unit directions for `repaired` and `printed`. A row is simulated again, with more draws and
another seed, where a bound seems violated or close, or the flag of `predicted` is uncertain. Heads
may be spread over processes; each head has its seed, and results do not depend on the number of
processes. Imports numpy and `theory`.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, get_args

import numpy as np

from studies.audit.heads import Sample, heads
from theory.arrays import BoolArray, FloatArray, IntArray
from theory.errors import InputError
from theory.evaluate.choices import Choices
from theory.evaluate.envelopes import envelopes_by_edition
from theory.evaluate.simulate import AUDITED, FOLLOWUP, FOLLOWUP_RECALL, Directions, means_of_draws
from theory.head.inputs import HeadInput
from theory.head.results import (
    EDITIONS,
    QUANTITIES,
    UNDER_MODEL_G,
    Convention,
    Edition,
    Envelope,
)

SIGMAS: Final = 4.0
"""Standard errors beyond which a bound counts as violated."""

AGAIN: Final = 100
"""Factor on the number of draws when a flagged row is simulated again."""

LARGE_ERROR: Final = 0.05
"""Smallest error of `predicted` that its flag has to catch."""

IN_DOUBT, AGAIN_IN_DOUBT = 2.0, 20
"""An unflagged row of `predicted` within this many standard errors of `LARGE_ERROR` is simulated
again with this factor on the draws: standard error .002 or less from 1000 draws.
"""

NEAR: Final = 2.0
"""A row of a small head is simulated again if a claimed bound lies within this many standard errors
of the truth or beyond it: such bounds are narrow and their errors small.
"""

LADDER: Final = (20, 100, 1000)
"""Factors on the draws while the bound stays near, from 1000 draws up to a million; the last factor
applies only to bounds beyond the mean.
"""

BEYOND: Final = 1.0
"""Standard errors beyond the mean from which the last factor of `LADDER` applies."""

PINNED: Final = 1e-6
"""Width up to which the bounds equal the truth: such a row gets the last factor of
`LADDER` only if it seems violated.
"""

AGAIN_SEED: Final = 10**6
"""Seed offset per multiple of the draws when a head is simulated again."""

DIRECTIONS: Final[dict[Edition, Directions]] = {
    edition: "gaussian" if edition in UNDER_MODEL_G else "unit" for edition in get_args(Edition)
}
"""Directions of the simulation that each edition is compared with."""


@dataclass(slots=True, kw_only=True, eq=False)
class Truth:
    """Simulated mean and standard error of each of `AUDITED` for one head, (6, n). draws (n,):
    current number of draws at each N; first: initial number.
    """

    head: HeadInput
    directions: Directions
    first: int
    seed: int
    mean: FloatArray
    error: FloatArray
    draws: IntArray

    @classmethod
    def of(
        cls, head: HeadInput, kinds: Sequence[Directions], draws: int, seed: int
    ) -> dict[Directions, Truth]:
        """Simulate each kind of directions with the same draws, equally many at every N."""
        return {
            kind: cls(
                head=head,
                directions=kind,
                first=draws,
                seed=seed,
                mean=mean,
                error=error,
                draws=np.full(len(head.n), draws),
            )
            for kind, (mean, error) in means_of_draws(head, draws, seed, kinds).items()
        }

    def of_quantity(self, quantity: str) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the standard error (at least 1/draws), (n,) each."""
        index = AUDITED.index(quantity)
        return self.mean[index], np.maximum(self.error[index], 1 / self.draws)

    def draw_again(self, rows: BoolArray, times: int) -> None:
        """Simulate rows again with `times` the initial draws where they have fewer."""
        rows = rows & (self.draws < times * self.first)
        if rows.any():
            head, draws = replace(self.head, n=self.head.n[rows]), times * self.first
            seed, kind = self.seed + times * AGAIN_SEED, self.directions
            again = means_of_draws(head, draws, seed, [kind])[kind]
            self.mean[:, rows], self.error[:, rows] = again
            self.draws[rows] = draws


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounds:
    """Bounds on one quantity, clipped to [0, 1], and the edition's reliability flag, (n,) each."""

    lower: FloatArray
    upper: FloatArray
    reliable: BoolArray

    def beyond(self, mean: FloatArray, error: FloatArray, sigmas: float | FloatArray) -> BoolArray:
        """Return which bounds exceed the mean by more than `sigmas` standard errors on the wrong
        side, (2, n): lower, upper. A negative `sigmas` also marks bounds that close to the mean.
        """
        return np.stack([self.lower > mean + sigmas * error, self.upper < mean - sigmas * error])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Bounds of one edition on one quantity, and the truth; arrays (row,).

    error: standard error of the truth, at least 1/draws. flagged (2, row): lower and upper bounds
    violated by the first simulation; violated: those still violated at the end. reliable: the
    edition's flag (`predicted` trusts the row; `conditional` used all its averages).
    """

    n: IntArray
    tokens: IntArray
    lower: FloatArray
    upper: FloatArray
    truth: FloatArray
    error: FloatArray
    violated: BoolArray
    flagged: BoolArray
    reliable: BoolArray

    def floor(self, quantity: str) -> FloatArray:
        """Return the trivial lower bound: P ≥ N/T and F(r_max) ≥ 2N/(T+N), otherwise 0."""
        share = self.n / self.tokens
        return {"precision": share, "f_outer": 2 * share / (1 + share)}.get(
            quantity, np.zeros(len(self.n))
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Audit:
    """Rows of every edition and quantity, and the settings of their simulation."""

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
    """Compare editions with simulated truth.

    Args:
        editions: editions to audit.
        sample: "grid", or "random", "small" or "adversarial" for `count` heads of that kind.
        draws: simulated heads for each head of the sample and kind of directions, at least 2.
        seed: seed of the heads and the draws.
        every: step through the heads of the sample (1: all).
        count: number of heads drawn (None: all of the sample).
        workers: number of processes; results do not depend on it.
        progress: called with the numbers of completed and of all heads.

    Raises:
        InputError: for fewer than two draws, or a step, a count or a number of workers below one.
    """
    if draws < 2 or min(every, 1 if count is None else count, workers) < 1:
        raise InputError(
            f"draws={draws}, every={every}, count={count}, workers={workers}: expected at least 2"
            " draws and 1 of the others. Change the number."
        )
    selected = heads(sample, seed=seed, count=count)[::every]
    parts: dict[tuple[str, str], list[Rows]] = {}
    audit_head = partial(rows_of_head, editions=editions, draws=draws, closely=sample == "small")
    # fresh processes: forking one that has threads is unsafe
    fresh = multiprocessing.get_context("spawn")
    pool: AbstractContextManager[ProcessPoolExecutor | None] = nullcontext()
    if workers > 1:
        pool = ProcessPoolExecutor(workers, mp_context=fresh)
    with pool as processes:
        map_heads = processes.map if processes else map
        for done, result in enumerate(
            map_heads(audit_head, selected, range(seed, seed + len(selected)))
        ):
            for key, rows in result.items():
                parts.setdefault(key, []).append(rows)
            if progress:
                progress(done + 1, len(selected))
    joined = {
        key: Rows(
            **{
                name: np.concatenate([getattr(part, name) for part in rows], axis=-1)
                for name in Rows.__slots__
            }
        )
        for key, rows in parts.items()
    }
    return Audit(rows=joined, draws=draws, seed=seed, sample=sample, heads=len(selected))


def rows_of_head(
    head: HeadInput, seed: int, *, editions: tuple[Edition, ...], draws: int, closely: bool = False
) -> dict[tuple[str, str], Rows]:
    """Return the rows of one head for every edition and quantity, in the order of `editions`.

    closely: simulate rows again also where a claimed bound is near the truth, and audit R with
    strict inner balls separately.
    """
    kinds = list(dict.fromkeys(DIRECTIONS[edition] for edition in editions))
    truths = Truth.of(head, kinds, draws, seed)
    bounds = {
        (edition, quantity): result
        for edition in editions
        for quantity, result in _evaluated(head, edition, closely).items()
    }
    flagged = {
        (edition, quantity): bound.beyond(
            *truths[DIRECTIONS[edition]].of_quantity(quantity), SIGMAS
        )
        for (edition, quantity), bound in bounds.items()
    }
    for kind, truth in truths.items():
        compared = {key: bound for key, bound in bounds.items() if DIRECTIONS[key[0]] == kind}
        resimulate_in_doubt(truth, compared, flagged, closely=closely)
    rows: dict[tuple[str, str], Rows] = {}
    for (edition, quantity), bound in bounds.items():
        mean, error = truths[DIRECTIONS[edition]].of_quantity(quantity)
        rows[edition, quantity] = Rows(
            n=head.n,
            tokens=np.full(len(head.n), len(head.alpha)),
            lower=bound.lower,
            upper=bound.upper,
            truth=mean,
            error=error,
            violated=bound.beyond(mean, error, SIGMAS),
            flagged=flagged[edition, quantity],
            reliable=bound.reliable,
        )
    return rows


def evaluated(head: HeadInput, edition: Edition, *conventions: Convention) -> list[Envelope]:
    """Return the bounds of one head in each convention, arrays (1, n)."""
    arguments = head.alpha[None], head.norms[None], head.gram, head.dimension, head.n
    choices: list[Choices] = [
        {"edition": edition, "convention": convention, "feasible": True}
        for convention in conventions
    ]
    return envelopes_by_edition(*arguments, choices)


def _evaluated(head: HeadInput, edition: Edition, closely: bool) -> dict[str, Bounds]:
    """Return the bounds of one head on every quantity of the edition; closely: also R with strict
    inner balls.
    """
    both: tuple[Convention, ...] = ("paper", "followup")
    paper, *others = evaluated(head, edition, *both[: 1 + (edition in UNDER_MODEL_G)])
    named = [(name, name, paper) for name in QUANTITIES]
    for followup in others:
        named += [(FOLLOWUP_RECALL, "recall", followup)] * closely
        named += [(FOLLOWUP, "f_outer", followup)]
    result = {}
    for name, base, envelope in named:
        lower, upper = (
            np.clip(getattr(envelope, f"{base}_{side}")[0], 0, 1) for side in ("lower", "upper")
        )
        result[name] = Bounds(lower=lower, upper=upper, reliable=envelope.reliable[0])
    return result


def resimulate_in_doubt(
    truth: Truth,
    bounds: Mapping[tuple[Edition, str], Bounds],
    flagged: Mapping[tuple[Edition, str], BoolArray],
    *,
    closely: bool,
) -> None:
    """Simulate rows again where a claimed bound is `flagged`, and unflagged rows of `predicted`
    whose error may exceed `LARGE_ERROR`. closely: also rows where a claimed bound is near the
    truth.

    bounds: by edition and quantity, of the editions compared with this truth.
    """
    truth.draw_again(np.any([_claimed(key[0], flagged[key]) for key in bounds], axis=0), AGAIN)
    for times in LADDER if closely else ():
        near = []
        for (edition, quantity), bound in bounds.items():
            mean, error = truth.of_quantity(quantity)
            # a pinned bound equals the truth, and chance puts it beyond the mean in half the rows
            pinned = bound.upper - bound.lower <= PINNED
            last = bound.beyond(mean, error, np.where(pinned, SIGMAS, BEYOND))
            near.append(
                _claimed(edition, last if times == LADDER[-1] else bound.beyond(mean, error, -NEAR))
            )
        truth.draw_again(np.any(near, axis=0), times)
    in_doubt = []
    for (edition, quantity), bound in bounds.items():
        if edition == "predicted":
            mean, error = truth.of_quantity(quantity)
            large = np.abs(bound.lower - mean) > LARGE_ERROR - IN_DOUBT * error
            in_doubt.append(bound.reliable & large)
    if in_doubt:
        truth.draw_again(np.any(in_doubt, axis=0), AGAIN_IN_DOUBT)
    # rows drawn again for another reason may seem violated by chance
    seem = [
        _claimed(edition, bound.beyond(*truth.of_quantity(quantity), SIGMAS))
        for (edition, quantity), bound in bounds.items()
    ]
    truth.draw_again(np.any(seem, axis=0), AGAIN)


def _claimed(edition: Edition, flagged: BoolArray) -> BoolArray:
    """Return the rows, (row,), where a side that the edition claims as a bound is flagged."""
    claims = EDITIONS[edition].lower, EDITIONS[edition].upper
    claimed = np.array([claim.startswith("bound") for claim in claims])
    return np.asarray((flagged & claimed[:, None]).any(axis=0))
