r"""`predicted`: E P, E R and E F under Model G, approximately. An approximation, never a bound: it
may err on either side.

Given t = ‖s‖² (three nodes of its χ² law) the cube root of each squared distance D_l is taken as
normal (Wilson and Hilferty 1931), with the exact moments of D_l carried over. Clark's moments of a
maximum give the largest selected and the nearest unselected distance, a regression on it the count
of tokens on the wrong side. Clark takes a maximum as normal, which it is the less the more unlike
the variables are that compete: tokens are therefore merged in groups of like spread, as a tree, and
the groups' maxima compete at last. A value is flagged where another order of merging changes it, or
another division into groups: of tokens that are equal or parallel, a largest one is no normal, and
what is merged first then decides. The law given t is in `theory.editions.predicted.distance_law`.
Imports numpy; scipy.linalg and numba lazily.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.editions.predicted.distance_law import NODES, conditional_law, squared_sum_nodes
from theory.editions.sharp.sharp_law import SUM_ROUNDING
from theory.errors import InputError
from theory.head.gram import Gram
from theory.head.inputs import checked_input
from theory.head.ranked import Ranked, Summary, rank_tokens, summarise
from theory.head.results import QUANTITIES, Convention

if TYPE_CHECKING:
    from theory.editions.predicted.clark import Law

LIKE = 1.5
"""Largest ratio of the spreads of tokens in one group."""

RUNS = 4
"""Runs of unselected neighbours, about alike in their chance to lead, whose maxima compete last."""

UNRELIABLE = 0.012
"""Change by another order of merging from which a value is flagged."""

REGROUPED = 0.025
"""Change by another division into groups from which a value is flagged: groups of equal spread
alone, and all unselected of one group in one run.
"""

COMPARED_UP_TO = 64
"""Tokens up to which the changes are looked for at every node of t and groups of equal spread alone
are tried; beyond, where these would be many, at the middle node and with one run alone, unless some
tokens are equal or parallel.
"""

LEAST_DIMENSION = 5
"""Least head size at which a value is trusted: a squared distance of few coordinates has no nearly
normal cube root.

Of about 4,000 values from 1,000 to 1,400 heads of up to 40 tokens at each d, trusted ones are off
by more than 0.05 in 55% at d = 1 and 5% at d = 2 (of 900 each; up to 0.14 and 0.07), in two at
d = 3 (up to 0.056), in one at d = 4 (0.0504), and in none at d = 5, 6 and 8 (up to 0.0495).
"""

TOGETHER = 1 / 3
"""Weight of the law in which P and R are 1 together, where the follow-up's F is read off means:
between the two lies the truth.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prediction:
    """Approximate E P(r_max), E R(r_min), E F(r_max), E F(r_min), one entry for each n: neither
    lower nor upper bounds.

    reliable: False where another order of merging changes a value by more than 0.012 or another
    grouping by more than 0.025, and at a head size d < 5 (`LEAST_DIMENSION`; but for n = 1 and
    n = T, which are exact): use `theory.audit.simulate` there; and for n > T. change, regrouped:
    these changes, the largest of the four quantities. n = T gives 1 (NaN under `followup`), n > T
    gives NaN; so does, flagged, a size of few tokens that are equal or parallel for which no order
    of merging has a value (1 of 2,102 rows of the audit's small heads). Under `followup` f_outer
    and f_inner both hold its one F, somewhat coarser than the rest.
    """

    n: IntArray
    precision: FloatArray
    recall: FloatArray
    f_outer: FloatArray
    f_inner: FloatArray
    change: FloatArray
    regrouped: FloatArray
    reliable: BoolArray
    convention: Convention

    def __post_init__(self) -> None:
        arrays = [getattr(self, item.name) for item in fields(self) if item.name != "convention"]
        if {array.shape for array in arrays} != {self.n.shape}:
            raise ValueError(
                f"arrays have shapes {sorted({array.shape for array in arrays})}, expected"
                f" {self.n.shape}."
            )
        for array in arrays:
            array.flags.writeable = False


def predict(
    alpha: Any,
    norms: Any,
    gram: Gram,
    dimension: int,
    n: Any,
    *,
    sink: int | None = 0,
    convention: Convention = "paper",
    feasible: bool | None = None,
) -> Prediction:
    """Return the approximate expected separability of one head under Model G, arrays (K,);
    arguments as `theory.envelope`.

    Raises:
        InputError: on bad input or an infeasible Gram.
    """
    if convention not in get_args(Convention):
        raise InputError(
            f"convention is {convention!r}, expected one of {', '.join(get_args(Convention))}."
        )
    given = checked_input(alpha, norms, gram, dimension, n, sink=sink, feasible=feasible)
    tokens, sizes, d = given.tokens, given.n, given.dimension
    inner, back = np.unique(sizes[sizes < tokens], return_inverse=True)
    head = rank_tokens(
        _of_order_one(given.alpha), _of_order_one(given.norms), given.cosines(), given.sink
    )
    values = np.full((len(QUANTITIES) + 2, len(sizes)), np.nan)
    if inner.size:
        summary = summarise(head, inner)
        closely = tokens <= COMPARED_UP_TO or bool(
            (head.cosines >= 1 - SUM_ROUNDING).sum() > tokens
        )
        result = [
            _one_size(head, summary, at, d, followup=convention == "followup", closely=closely)
            for at in range(len(inner))
        ]
        values[:, sizes < tokens] = np.stack(result, axis=1)[:, back]
    if convention == "paper":
        values[:-2, sizes == tokens] = 1.0
    values[-2:, sizes == tokens] = 0.0
    named = dict(zip((*QUANTITIES, "change", "regrouped"), values, strict=True))
    trusted = (d >= LEAST_DIMENSION) | (sizes == 1) | (sizes == tokens)
    return Prediction(
        n=sizes,
        reliable=trusted & (values[-2] <= UNRELIABLE) & (values[-1] <= REGROUPED),
        convention=convention,
        **named,
    )


def _of_order_one(array: FloatArray) -> FloatArray:
    """Return the array over the power of two next above its largest entry: nothing predicted
    depends on it, and squares stay finite.
    """
    return np.asarray(np.ldexp(array, -int(np.frexp(array.max())[1])), dtype=np.float64)


def _one_size(
    head: Ranked, summary: Summary, at: int, dimension: int, *, followup: bool, closely: bool
) -> FloatArray:
    """Return E P, E R, E F(r_max), E F(r_min) and the changes by another order and another
    grouping, for one size below T.
    """
    from theory.editions.predicted.counts import twins

    n, values, changes = int(summary.n[at]), np.zeros(len(QUANTITIES)), np.zeros(2)
    positions = head.order.astype(np.float64)
    equal = twins(head.cosines, head.a, n)
    if n == 1:
        p, r = 1 / (1 + equal[1:].sum()), 1.0 - (followup and equal[0])
        return np.array(
            [*_finish(p, r, 2 * p / (1 + p), 2 * r / (1 + r), followup=followup), 0.0, 0.0]
        )
    compared = range(NODES) if closely else (NODES // 2,)
    for node, (ratio, weight) in enumerate(zip(*squared_sum_nodes(dimension), strict=True)):
        law = conditional_law(head, summary, at, float(ratio), dimension)
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
    """Return E P and E F(r_max) given t, E R and E F(r_min), and how much another order of merging
    and another grouping change them.

    Many unselected tokens compete on even terms: neighbours, which are most alike, are merged
    first, and their runs compete at last. compare: whether the changes are asked for, else 0;
    closely: groups of equal spread alone are tried too.
    """
    from theory.editions.predicted.clark import by_spread, group_maxima, in_runs
    from theory.editions.predicted.counts import expected_counts

    tokens, mirrored, surely = len(law.a), law._replace(mean=-law.mean), equal[:n] & followup

    def farthest(order: FloatArray, like: float = LIKE) -> Pair:
        return expected_counts(
            law,
            group_maxima(law, *by_spread(law, 0, n, like, order)),
            n,
            tokens,
            n,
            False,
            equal[n:],
            True,
        )

    def nearest(order: FloatArray, like: float = LIKE, runs: int = RUNS) -> Pair:
        members, first = by_spread(mirrored, n, tokens, like, order)
        groups = group_maxima(mirrored, members, in_runs(mirrored, members, first, runs))
        return expected_counts(mirrored, groups, 0, n, n, True, surely, followup)

    outer, inner = farthest(law.mean), nearest(positions)
    for other in ((positions,), (law.mean, 1.0), (positions, 1.0)):
        if np.isfinite(outer).all():
            # else equal means, whose order is rounding's: the moments of such a tree may contradict
            # each other
            break
        outer = farthest(*other)
    if not compare:
        return outer, inner, (0.0, 0.0)
    reordered = max(_apart(outer, farthest(positions)), _apart(inner, nearest(mirrored.mean)))
    regrouped = _apart(inner, nearest(positions, runs=1))
    if closely:
        regrouped = max(
            regrouped,
            _apart(outer, farthest(law.mean, 1.0)),
            _apart(inner, nearest(positions, 1.0)),
        )
    return outer, inner, (reordered, regrouped)


def _apart(one: Pair, other: Pair) -> float:
    """Return the larger difference; infinite where one of the two is no number."""
    apart = max(abs(one[0] - other[0]), abs(one[1] - other[1]))
    return apart if np.isfinite(apart) and np.isfinite(other).all() else np.inf


def _finish(
    p: float, r: float, outer: float, inner: float, *, followup: bool
) -> tuple[float, float, float, float]:
    """Return the four quantities; `followup` has one F, 2PR/(P+R), of which only these means are
    known.

    Its mean lies between that of independent P and R, about the harmonic mean of the P and R whose
    F are `outer` and `inner`, and that of P and R that are 1 together, which they are (P = 1
    exactly where every selected token is nearer than every other, and so R = 1): with probability
    w both are 1, else both are what their means leave. w is read off E P and E F(r_max).
    """
    if not followup:
        return p, r, outer, inner
    apart = _harmonic_mean(outer / (2 - outer), inner / (2 - inner))
    low = min(max((1 - p) / (1 - outer) - 1, 0.0), p) if outer < 1 else 0.0
    w = min(max(1 - (1 - p) / (1 - low), 0.0), p, r) if low < 1 else 0.0
    together = w + (1 - w) * _harmonic_mean((p - w) / (1 - w), (r - w) / (1 - w)) if w < 1 else 1.0
    f = (1 - TOGETHER) * apart + TOGETHER * together
    return p, r, f, f


def _harmonic_mean(x: float, y: float) -> float:
    return 2 * x * y / (x + y) if x + y > 0 else 0.0
