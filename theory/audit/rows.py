"""Bounds laid beside simulated truth, row by row: one head at one N is a row.

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
from theory.audit.heads import Sample, heads
from theory.audit.simulate import FOLLOWUP, FOLLOWUP_RECALL, Directions
from theory.audit.truth import Bounds, Truth, beyond, draw_where_in_doubt
from theory.errors import InputError
from theory.evaluate.envelopes import envelopes
from theory.head.inputs import HeadInput
from theory.head.results import QUANTITIES, UNDER_MODEL_G, Convention, Edition, Envelope

JUDGES: Final[dict[Edition, Directions]] = {
    edition: "gaussian" if edition in UNDER_MODEL_G else "unit" for edition in get_args(Edition)
}
"""Which simulation each edition speaks of."""


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
    head: HeadInput, seed: int, *, editions: tuple[Edition, ...], draws: int, closely: bool = False
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
        key: beyond(one, *truths[JUDGES[key[0]]].of_quantity(key[1])) for key, one in bounds.items()
    }
    for kind, truth in truths.items():
        ours = {key: one for key, one in bounds.items() if JUDGES[key[0]] == kind}
        draw_where_in_doubt(truth, ours, flagged, closely=closely)
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
            violated=beyond(one, mean, error),
            flagged=flagged[edition, quantity],
            reliable=one.reliable,
        )
    return rows


def evaluated(head: HeadInput, edition: Edition, convention: Convention) -> Envelope:
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


def _evaluated(head: HeadInput, edition: Edition, closely: bool) -> dict[str, Bounds]:
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
