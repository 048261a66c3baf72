r"""Edition `predicted`: approximate E P, E R and E F under Model G, not a bound: errors have either
sign.

Given t = ‖s‖² (three nodes of its χ² law) the cube root of each squared distance D_l is treated as
normal (Wilson and Hilferty 1931) with the exact moments of D_l (`clark`). Clark's moments of a
maximum give the largest selected and the nearest unselected distance; a regression on it gives the
count of tokens on the wrong side. Clark treats a maximum as normal, which is less accurate for
variables of unequal spread. Tokens are therefore merged as a tree within groups of similar spread,
and the maxima of the groups are compared last. A value is flagged if another merging order or
another grouping changes it: the maximum of equal or parallel tokens is not normal, and the result
then depends on the merging order. Imports numpy; scipy.linalg and numba lazily.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from theory.arrays import BoolArray, FloatArray
from theory.editions.sharp.sharp_law import SUM_ROUNDING
from theory.head.inputs import HeadInput
from theory.head.ranked import Ranked, Summary, rank_tokens, summarise
from theory.head.results import QUANTITIES, Convention

if TYPE_CHECKING:
    from theory.editions.predicted.clark import Law

NODES = 3
"""Number of nodes of t = ‖s‖²; five nodes change a value by at most 0.001 in nine of ten cases."""

POWER = 1 / 3
"""Exponent that makes a squared distance nearly normal (Wilson and Hilferty 1931, for χ²)."""

NO_SUM = 1e-12
"""E‖s‖² relative to (Σa)² below which the selected contributions cancel and s = 0."""


LIKE = 1.5
"""Largest ratio of spreads within a group."""

RUNS = 4
"""Runs of unselected neighbours, of about equal P{maximum}; their maxima are compared last."""

UNRELIABLE = 0.012
"""Change by another merging order above which a value is flagged."""

REGROUPED = 0.025
"""Change by another grouping above which a value is flagged: groups of exactly equal spread, and
one run for each group of unselected tokens.
"""

COMPARED_UP_TO = 64
"""Largest number of tokens for which changes are computed at every node of t, with groups of
exactly equal spread. Longer heads use the middle node and one run, unless some tokens are equal or
parallel.
"""

LEAST_DIMENSION = 5
"""Smallest head size at which a value is trusted: the cube root of a squared distance over few
coordinates is not nearly normal.

Measured on about 4,000 values from 1,000 to 1,400 heads of up to 40 tokens at each d. Errors of
unflagged values exceed 0.05 in 55% at d = 1 and 5% at d = 2 (of 900 each; up to 0.14 and 0.07), in
two at d = 3 (up to 0.056), in one at d = 4 (0.0504), and in none at d = 5, 6 and 8 (up to 0.0495).
"""

TOGETHER = 1 / 3
"""Weight of the law with P = R = 1 jointly, for the follow-up's F; the truth lies between."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prediction:
    """Approximate E P(r_max), E R(r_min), E F(r_max), E F(r_min), one entry for each n; not bounds.

    reliable: False if another merging order changes a value by more than 0.012 or another grouping
    by more than 0.025, for n > T, and at a head size d < 5 (`LEAST_DIMENSION`; n = 1 and n = T are
    exact). Use `theory.evaluate.simulate` there. change, regrouped: these changes, largest of the
    four quantities. n = T gives 1 (NaN under `followup`), n > T gives NaN. A flagged NaN also marks
    a size of few equal or parallel tokens without a value for any merging order (1 of 2,102 rows of
    the small heads in the audit). Under `followup` f_outer and f_inner both hold its one F, which
    is less accurate.
    """

    precision: FloatArray
    recall: FloatArray
    f_outer: FloatArray
    f_inner: FloatArray
    change: FloatArray
    regrouped: FloatArray
    reliable: BoolArray


def predict_head(head_input: HeadInput, convention: Convention) -> Prediction:
    """Return the approximate expected separability of one head under Model G, arrays (K,)."""
    tokens, sizes, d = head_input.tokens, head_input.n, head_input.dimension
    inner, inverse = np.unique(sizes[sizes < tokens], return_inverse=True)
    alpha, norms = _of_order_one(head_input.alpha), _of_order_one(head_input.norms)
    head = rank_tokens(alpha, norms, head_input.cosines(), head_input.sink)
    values = np.full((len(QUANTITIES) + 2, len(sizes)), np.nan)
    if inner.size:
        summary = summarise(head, inner)
        some_equal = (head.cosines >= 1 - SUM_ROUNDING).sum() > tokens
        closely = tokens <= COMPARED_UP_TO or bool(some_equal)
        result = [
            _one_size(head, summary, index, d, followup=convention == "followup", closely=closely)
            for index in range(len(inner))
        ]
        values[:, sizes < tokens] = np.stack(result, axis=1)[:, inverse]
    if convention == "paper":
        values[:-2, sizes == tokens] = 1.0
    values[-2:, sizes == tokens] = 0.0
    trusted = (d >= LEAST_DIMENSION) | (sizes == 1) | (sizes == tokens)
    reliable = trusted & (values[-2] <= UNRELIABLE) & (values[-1] <= REGROUPED)
    named = dict(zip((*QUANTITIES, "change", "regrouped"), values, strict=True))
    return Prediction(reliable=reliable, **named)


def _of_order_one(array: FloatArray) -> FloatArray:
    """Divide by a power of two: predictions do not change, and squares stay finite."""
    return np.asarray(np.ldexp(array, -int(np.frexp(array.max())[1])), dtype=np.float64)


def squared_sum_nodes(dimension: int, nodes: int = NODES) -> tuple[FloatArray, FloatArray]:
    """Return Gauss nodes and weights of t/σ_ss = χ²_d/d (Golub and Welsch 1969, Laguerre)."""
    from scipy.linalg import eigh_tridiagonal

    shape, k = dimension / 2, np.arange(nodes)
    values, vectors = eigh_tridiagonal(2 * k + shape, np.sqrt(k[1:] * (k[1:] + shape - 1)))
    return np.asarray(values / shape, dtype=np.float64), np.asarray(
        vectors[0] ** 2, dtype=np.float64
    )


def conditional_law(
    head: Ranked, summary: Summary, index: int, ratio: float, dimension: int, power: float = POWER
) -> Law:
    """Return the normal law of the transformed D_l given t = ratio·E‖s‖², for the selection
    `summary.n[index]`.

    The transform is (D/t)^power − 1, which keeps digits for tokens of tiny weight, whose D nearly
    equals t. If s = 0 with certainty, the largest a² replaces t. The mean includes the second-order
    term, E h(D) = h(m) + ½h''(m)V.
    """
    from theory.editions.predicted.clark import Law

    a, sigma, sigma_ss = head.a, summary.sigma[index], float(summary.sigma_ss[index])
    inside = float(a[: summary.n[index]].sum())
    if sigma_ss > NO_SUM * inside**2:
        load = np.divide(sigma, a, out=np.zeros_like(a), where=a > 0)
        along = np.clip(load / np.sqrt(sigma_ss), -1, 1)
        pull = sigma / sigma_ss
        t = ratio * sigma_ss
        reference = t
    else:
        along, pull, t = np.zeros_like(a), np.zeros_like(a), 0.0
        reference = float((a**2).max()) or 1.0
    residual = a**2 * (1 - along) * (1 + along)
    excess = (residual + (pull - 2) * pull * t + (t - reference)) / reference
    away, mean = 1 - pull, np.maximum(1 + excess, 0.0)
    variance = (2 * residual + 4 * away**2 * t) * residual / (dimension * reference**2)
    with np.errstate(divide="ignore"):
        log = np.log1p(np.maximum(excess, -1.0))
    power_of_mean = np.exp(power * log)
    slope = np.divide(power * power_of_mean, mean, out=np.zeros_like(mean), where=mean > 0)
    bend = np.divide(variance, mean**2, out=np.zeros_like(mean), where=mean > 0)
    return Law(
        cosines=head.cosines,
        a=a,
        along=along,
        away=away,
        slope=slope / reference,
        mean=np.expm1(power * log) + power_of_mean * power * (power - 1) / 2 * bend,
        variance=slope**2 * variance,
        t=t,
        dimension=float(dimension),
    )


def _one_size(
    head: Ranked, summary: Summary, index: int, dimension: int, *, followup: bool, closely: bool
) -> FloatArray:
    """Return E P, E R, E F(r_max), E F(r_min) and both changes, for one size below T."""
    from theory.editions.predicted.counts import twins

    n, values, changes = int(summary.n[index]), np.zeros(len(QUANTITIES)), np.zeros(2)
    positions = head.order.astype(np.float64)
    equal = twins(head.cosines, head.a, n)
    if n == 1:
        p, r = 1 / (1 + equal[1:].sum()), 1.0 - (followup and equal[0])
        finished = _finish(p, r, 2 * p / (1 + p), 2 * r / (1 + r), followup=followup)
        return np.array([*finished, *changes])
    compared = range(NODES) if closely else (NODES // 2,)
    for node, (ratio, weight) in enumerate(zip(*squared_sum_nodes(dimension), strict=True)):
        law = conditional_law(head, summary, index, float(ratio), dimension)
        outer, inner, changed = _one_node(
            law, n, equal, positions, followup=followup, compare=node in compared, closely=closely
        )
        clipped = np.clip([outer[0], inner[0], outer[1], inner[1]], 0.0, 1.0)
        values += weight * np.array(_finish(*clipped, followup=followup))
        changes = np.maximum(changes, changed)
    return np.array([*np.clip(values, 0.0, 1.0), *changes])


Pair = tuple[float, float]


def _one_node(
    law: Law,
    n: int,
    equal: BoolArray,
    positions: FloatArray,
    *,
    followup: bool,
    compare: bool,
    closely: bool,
) -> tuple[Pair, Pair, Pair]:
    """Return E P and E F(r_max) given t, E R and E F(r_min) given t, and the changes by another
    merging order and another grouping.

    Many unselected tokens have similar probabilities of being nearest: neighbours, which are most
    alike, are merged first, and the maxima of their runs last. compare: whether to compute the
    changes (otherwise 0). closely: also try groups of exactly equal spread.
    """
    from theory.editions.predicted.clark import by_spread, group_maxima, in_runs
    from theory.editions.predicted.counts import expected_counts

    tokens, mirrored, certain = len(law.a), law._replace(mean=-law.mean), equal[:n] & followup

    def farthest(order: FloatArray, like: float = LIKE) -> Pair:
        groups = group_maxima(law, *by_spread(law, 0, n, like, order))
        return expected_counts(law, groups, n, tokens, n, False, equal[n:], True)

    def nearest(order: FloatArray, like: float = LIKE, runs: int = RUNS) -> Pair:
        members, first = by_spread(mirrored, n, tokens, like, order)
        groups = group_maxima(mirrored, members, in_runs(mirrored, members, first, runs))
        return expected_counts(mirrored, groups, 0, n, n, True, certain, followup)

    outer, inner = farthest(law.mean), nearest(positions)
    # not finite: means are equal up to rounding, and moments of such a tree may be inconsistent
    for other in ((positions,), (law.mean, 1.0), (positions, 1.0)):
        if not np.isfinite(outer).all():
            outer = farthest(*other)
    if not compare:
        return outer, inner, (0.0, 0.0)
    reordered = max(_apart(outer, farthest(positions)), _apart(inner, nearest(mirrored.mean)))
    regrouped = _apart(inner, nearest(positions, runs=1))
    if closely:
        of_equal_spread = _apart(outer, farthest(law.mean, 1.0))
        regrouped = max(regrouped, of_equal_spread, _apart(inner, nearest(positions, 1.0)))
    return outer, inner, (reordered, regrouped)


def _apart(first: Pair, second: Pair) -> float:
    """Return the larger difference; infinite if either pair has a NaN."""
    apart = max(abs(first[0] - second[0]), abs(first[1] - second[1]))
    return apart if np.isfinite(apart) and np.isfinite(second).all() else np.inf


def _finish(
    p: float, r: float, outer: float, inner: float, *, followup: bool
) -> tuple[float, float, float, float]:
    """Return the four quantities. `followup` has one F, 2PR/(P+R), estimated from these means.

    Its mean lies between two values. For independent P and R it is about the harmonic mean of the P
    and R whose F are `outer` and `inner`. In the other law both are 1 with probability w (P = 1
    implies that every selected token is nearer than every other, hence R = 1) and otherwise take
    the remaining means; w follows from E P and E F(r_max).
    """
    if not followup:
        return p, r, outer, inner
    independent = _harmonic_mean(outer / (2 - outer), inner / (2 - inner))
    low = min(max((1 - p) / (1 - outer) - 1, 0.0), p) if outer < 1 else 0.0
    w = min(max(1 - (1 - p) / (1 - low), 0.0), p, r) if low < 1 else 0.0
    joint = w + (1 - w) * _harmonic_mean((p - w) / (1 - w), (r - w) / (1 - w)) if w < 1 else 1.0
    f = (1 - TOGETHER) * independent + TOGETHER * joint
    return p, r, f, f


def _harmonic_mean(x: float, y: float) -> float:
    return 2 * x * y / (x + y) if x + y > 0 else 0.0
