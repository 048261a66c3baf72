"""Every edition against simulation: how often each bound is violated, vacuous, and how far from the
truth it lies.

A violation is a bound beyond 4 standard errors of the simulated mean, on its wrong side;
`theory.audit.rows` draws the rows, `theory.audit.heads` the heads, `theory.audit.document` writes
it down: `python -m theory.audit docs/studies/audit.md`. Imports numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import get_args

import numpy as np

from theory.arrays import BoolArray, FloatArray
from theory.audit.heads import Sample, heads
from theory.audit.rows import Audit, Rows, audit
from theory.audit.truth import LARGE_ERROR
from theory.head.results import UNDER_MODEL_G, Edition

SMALL_N = 8
"""Sizes up to here are tabulated apart: the paper looks at small N."""

NOTHING = 1e-9
"""A bound within this of what holds of any head says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table: one edition, one quantity. Widths and gaps are medians over rows of
    which neither bound is violated.
    """

    edition: str
    quantity: str
    violated_lower: int
    violated_upper: int
    flagged: int
    worst: float
    """Largest violation, 0 without one."""
    vacuous_lower: float
    """Share of lower bounds no better than what holds of any head."""
    vacuous_upper: float
    gap_lower: float
    gap_upper: float
    width_small: float
    """At N ≤ 8."""
    width: float
    relative: float
    """Median width over that of `sharp`, where neither is violated; NaN without rows of `sharp`."""


def table(audit: Audit) -> list[Line]:
    """Sum up an audit, one line for each edition but `predicted` and each quantity."""
    return [
        _line(audit, edition, quantity, rows)
        for (edition, quantity), rows in audit.rows.items()
        if edition != "predicted"
    ]


def _line(audit: Audit, edition: str, quantity: str, rows: Rows) -> Line:
    kept = _kept(rows)
    excess = np.where(
        rows.violated, np.stack([rows.lower - rows.truth, rows.truth - rows.upper]), 0.0
    )
    return Line(
        edition=edition,
        quantity=quantity,
        violated_lower=int(rows.violated[0].sum()),
        violated_upper=int(rows.violated[1].sum()),
        flagged=int(rows.flagged.sum()),
        worst=float(excess.max(initial=0.0)),
        vacuous_lower=float(_says_nothing_below(rows, quantity).mean()),
        vacuous_upper=float((~(rows.upper < 1 - NOTHING)).mean()),
        gap_lower=_median((rows.truth - rows.lower)[kept]),
        gap_upper=_median((rows.upper - rows.truth)[kept]),
        width_small=_median((rows.upper - rows.lower)[kept & (rows.n <= SMALL_N)]),
        width=_median((rows.upper - rows.lower)[kept]),
        relative=relative_width(audit, quantity, edition),
    )


def _kept(rows: Rows) -> BoolArray:
    return np.asarray(~rows.violated.any(axis=0))


def _says_nothing_below(rows: Rows, quantity: str) -> BoolArray:
    return np.asarray(~(rows.lower > rows.floor(quantity) + NOTHING))


def _median(values: FloatArray) -> float:
    return float(np.median(values)) if values.size else float("nan")


def relative_width(audit: Audit, quantity: str, edition: str = "conditional") -> float:
    """Return the median width of an edition over that of `sharp`, over rows where neither is
    violated; NaN without rows of `sharp`.
    """
    if ("sharp", quantity) not in audit.rows:
        return float("nan")
    both = audit.rows[edition, quantity], audit.rows["sharp", quantity]
    kept = _kept(both[0]) & _kept(both[1])
    ours, theirs = (_median((rows.upper - rows.lower)[kept]) for rows in both)
    return ours / theirs if theirs > 0 else float("nan")


def sharp_beyond_repaired(audit: Audit, quantity: str) -> int:
    """Count rows where the lower bound of `repaired` says something and that of `sharp` does
    not.
    """
    says, silent = (
        _says_nothing_below(audit.rows[edition, quantity], quantity)
        for edition in ("repaired", "sharp")
    )
    return int((~says & silent).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How far `predicted` lies from the truth, over all rows, and whether its own flag catches
    where it fails.
    """

    quantity: str
    rows: int
    median: float
    ninth_decile: float
    worst: float
    worst_trusted: float
    distrusted: int
    large: int
    """Rows off by more than .05 (of the rows that the flag distrusts some may be so by the noise
    of the simulation).
    """
    missed: int
    """Those of them that the flag trusts."""


def accuracy(audit: Audit) -> list[Accuracy]:
    """Sum up the edition `predicted`."""
    return [
        _accuracy(quantity, rows)
        for (edition, quantity), rows in audit.rows.items()
        if edition == "predicted"
    ]


def _accuracy(quantity: str, rows: Rows) -> Accuracy:
    away = np.abs(rows.lower - rows.truth)
    away = np.where(np.isnan(away), np.inf, away)  # no value: no order of merging has one
    large = away > LARGE_ERROR
    return Accuracy(
        quantity=quantity,
        rows=len(away),
        median=_median(away),
        ninth_decile=float(np.quantile(away, 0.9)),
        worst=float(away.max()),
        worst_trusted=float(away[rows.reliable].max(initial=0.0)),
        distrusted=int((~rows.reliable).sum()),
        large=int(large.sum()),
        missed=int((large & rows.reliable).sum()),
    )


SAMPLES: tuple[Sample, ...] = get_args(Sample)
"""What is audited, in order."""


def all_samples(
    draws: int = 1000,
    *,
    seed: int = 0,
    every: int = 1,
    workers: int = 1,
    progress: Callable[[float], None] | None = None,
) -> list[Audit]:
    """Audit the grid, the random heads and the small ones; `progress` is called with the share
    done.
    """
    sizes = [len(heads(sample, seed=seed)[::every]) for sample in SAMPLES]

    def counted_from(before: int) -> Callable[[int, int], None] | None:
        return None if progress is None else lambda done, _: progress((before + done) / sum(sizes))

    each = partial(audit, draws=draws, seed=seed, every=every, workers=workers)
    return [
        each(
            UNDER_MODEL_G if sample == "small" else get_args(Edition),
            sample=sample,
            progress=counted_from(sum(sizes[:at])),
        )
        for at, sample in enumerate(SAMPLES)
    ]
