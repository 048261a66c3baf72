r"""Edition `conditional`: bounds under Model G from the exact law of every distance given s and one selected token Z_i = (s, y_i).

Given Z_i, D_i is known and the D_j are noncentral chi-square (`conditional_rows`). F_j = P{D_j ≤ D_i | Z_i}, κ_i = Σ_j F_j,
K_i = #{j∈J: D_j ≤ D_i}, V_i = Σ_jk |ρ̃_jk| √(F_j(1−F_j)F_k(1−F_k)) with ρ̃ the correlation of what is left of y_j, y_k. Gebelein's inequality
|Cov(φ(x), ψ(y))| ≤ |ρ| √(Var φ Var ψ) for jointly Gaussian vectors, coordinates independent and each pair of correlation ρ, gives Var(K_i | Z_i) ≤ V_i.
f(k) = N/(N+k), F(k) = 2N/(2N+k), g(k) = 2k/(N+k), δ_m = f(m−1) − f(m); h_int interpolates between integers; x_(m): the m-th largest.

**Recall.** i is inside iff K_i = 0, so E R = (1/N) Σ_i E P{K_i = 0 | Z_i}. P{K_i = 0} ≥ 1 − κ_i (Markov), ≤ 1 − max_j F_j, and
≤ Var K_i/E K_i² ≤ V_i/(V_i + κ_i²) (Cauchy-Schwarz on E K_i = E K_i 1{K_i > 0}):

    E R ≥ (1/N) Σ_i E(1−κ_i)⁺        E R ≤ (1/N) Σ_i E min(1 − max_j F_j, V_i/(V_i+κ_i²))

**F(r_min)** = g(Σ_i 1{K_i=0}). g is concave and rising: with lo_i, hi_i the bounds of P{K_i = 0} above, the comonotone coupling is the least,
E ≥ Σ_m (g(m) − g(m−1)) lo_(m) (any order of the lo_i gives less), and by Jensen on the integers E ≤ g_int(Σ_i hi_i).

**Precision.** P = f(max_i K_i) = min_i f(K_i). 1 − min_i f(K_i) ≤ Σ_i (1 − f(K_i)), and E[f(K_i) | Z_i] ≥ f_int(κ_i), f being convex. From above
P ≤ f(K_i) for each i; E[f(K_i) | Z_i] ≤ 1 − Σ_m δ_m F_(m) (comonotone coupling), and, as f(K) = f(κ) + N(κ−K)/(N+κ)² + f(K)(κ−K)²/(N+κ)² with
f(K) ≤ 1, also ≤ N/(N+κ_i) + V_i/(N+κ_i)²:

    E P ≥ 1 − Σ_i E[1 − f_int(κ_i)]   E P ≤ min_i E min(1 − Σ_m δ_m F_(m), N/(N+κ_i) + V_i/(N+κ_i)²)

Narrower, and what is computed: the same for the few tokens with the most expected intruders at once (`conditional_crowd`), the sum over the
others. Two more bounds of E P condition on s alone (`conditional_sphere`). **F(r_max)** = F(max_i K_i): as P, with 2N for N.

All are intersected with `sharp`. Averages are quadratures, doubled until no bound moves by `TOLERANCE`: over (t, z, τ) lattice rules of equal
weights, more nodes where a token's own average still moves; over ‖s‖ trapezoids; over several tokens Sobol points. Every bound is moved outwards
by the last change of its average (several tokens: by 3 standard errors if that is more); one that still moves at the most nodes is left out, what
else is known (`sharp` at least) stands in its place, and `change` reports it.
Source: Model G replaces eq. (9)-(17) of arXiv 2602.01893. Unit-free. Imports numpy and scipy; numba on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.conditional_crowd import MOST_TOKENS, crowd_bounds
from theory.conditional_rows import GivenSum, GivenToken, given_sum, given_token, nearer_outside, residual_correlation, token_nodes
from theory.conditional_sphere import sphere_bounds
from theory.conditional_sums import interpolated, none_of
from theory.ranked import Ranked, Summary
from theory.results import QUANTITIES
from theory.sharp import SharpBounds, best_bounds, pair_sums, pairwise_law

TOLERANCE = 0.002
"""A doubling of the nodes that moves every bound by less ends the doubling."""

NODES_FIRST, NODES_MOST = 2**10, 2**15
"""Nodes of all selected tokens together, at first and at most."""

ROW_LEAST = 16
"""Fewest nodes a selected token starts with."""

ROW_BEHIND = 8
"""A selected token has at least this part of the nodes that any other has."""

VARIANCE_UP_TO = 512
"""Largest T for which V_i is computed; beyond, its terms are dropped (the bounds without them hold too): they cost O(N M²)."""

BLOCK_NUMBERS = 2**20
"""Probabilities held at once: 8 MB."""

SIDES_UPPER = np.tile([False, True], len(QUANTITIES))
"""Which of the eight bounds, lower and upper of each of `QUANTITIES`, are upper ones."""

OUTER_UPPER = [2 * QUANTITIES.index("precision") + 1, 2 * QUANTITIES.index("f_outer") + 1]
"""Where the upper bounds of P and F(r_max) stand among the eight."""

OUTER = [side for upper in OUTER_UPPER for side in (upper - 1, upper)]
"""Where lower and upper bound of P and of F(r_max) stand."""

SUMS = 4
"""What is summed of a row."""

ON_RECALL = np.array([name in ("recall", "f_inner") for name in QUANTITIES for _ in range(2)])
"""Which of the eight bound R and F(r_min)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionalBounds:
    """Bounds on E P(r_max), E R(r_min), E F(r_max), E F(r_min), each (lower, upper) in [0, 1], and how far the averages still moved.

    change: largest move of a bound at the last doubling; above `TOLERANCE`: not converged, the bounds that moved so far are `sharp`'s.
    """

    precision: tuple[float, float]
    recall: tuple[float, float]
    f_outer: tuple[float, float]
    f_inner: tuple[float, float]
    change: float


def conditional_bounds(head: Ranked, summary: Summary, at: int, dimension: int, *, followup: bool) -> ConditionalBounds:
    """Return the conditional bounds of the selection `summary.n[at]`, intersected with the sharp ones.

    followup: strict inner balls, so that ties leave a token out of reach, and one F of both P and R.

    Raises:
        InputError: if some 2×2 determinant is clearly negative: no vectors have this Gram.
    """
    law = pairwise_law(head, summary, at, dimension)
    sharp = _eight(best_bounds(pair_sums(law, followup=followup), followup=False))
    given = given_sum(head, summary, at, dimension, variance=head.tokens <= VARIANCE_UP_TO)
    found, change = sharp, 0.0
    if given is not None and (sharp[1::2] - sharp[::2] > TOLERANCE).any():
        found, change = _narrowed(given, law.closed, sharp, followup=followup)
    pairs = {name: (float(found[2 * k]), float(found[2 * k + 1])) for k, name in enumerate(QUANTITIES)}
    if followup:
        (p_low, p_high), (r_low, r_high) = pairs["precision"], pairs["recall"]
        top = 2 * p_high * r_high / (p_high + r_high) if p_high + r_high > 0 else 0.0
        pairs["f_outer"] = pairs["f_inner"] = (max(0.0, p_low + r_low - 1), top)
    return ConditionalBounds(**pairs, change=change)


def _eight(bounds: SharpBounds) -> FloatArray:
    """Return lower and upper bounds of each quantity, shape (8,)."""
    return np.array([side for name in QUANTITIES for side in getattr(bounds, name)])


def _narrowed(given: GivenSum, law: FloatArray, sharp: FloatArray, *, followup: bool) -> tuple[FloatArray, float]:
    """Return the eight bounds and how far they still moved; `law` is P{D_j ≤ D_i}, shape (n, M)."""
    tokens = [given_token(given, i, law[i]) for i in range(given.n)]
    order = np.argsort(law.sum(axis=1), kind="stable")
    best, worst, loss, alone = sharp.copy(), 0.0, np.zeros(2), np.ones(given.n, dtype=bool)
    if sharp[1] - sharp[0] > TOLERANCE:
        values, moved = sphere_bounds(given, TOLERANCE)
        best[OUTER] = _moved_outwards(values, moved, sharp[OUTER], SIDES_UPPER[OUTER])
        chosen = order[::-1][: max(1, min(MOST_TOKENS, given.dimension - 1))]
        values, off, converged = crowd_bounds(given, chosen, TOLERANCE)
        worst = float(moved.max())
        if converged:
            best[OUTER_UPPER] = np.minimum(best[OUTER_UPPER], values[1::2] + off[1::2])
            loss, alone[chosen] = 1 - values[::2] + off[::2], False
        else:
            worst = max(worst, float(off.max()))
    values, moved = _by_rows(given, tokens, Known(bounds=best, loss=loss, alone=alone, order=order), followup=followup)
    best = _moved_outwards(values, moved, best, SIDES_UPPER)
    low, high = np.minimum(best[::2], best[1::2]), np.maximum(best[::2], best[1::2])
    return np.stack([np.maximum(low, sharp[::2]), np.minimum(high, sharp[1::2])], axis=1).ravel(), max(worst, float(moved.max()))


def _moved_outwards(values: FloatArray, moved: FloatArray, known: FloatArray, upper: BoolArray) -> FloatArray:
    """Return bounds moved outwards by their last change and intersected with `known`; `known` itself where not converged."""
    found = np.where(upper, np.minimum(values + moved, known), np.maximum(values - moved, known))
    return np.where(moved <= TOLERANCE, found, known)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """What is known before each token is looked at: eight bounds; loss (2,) of P and F(r_max) to the tokens that are not `alone` (n,).

    order (n,): of the tokens, by rising expected intruders.
    """

    bounds: FloatArray
    loss: FloatArray
    alone: BoolArray
    order: IntArray


def _by_rows(given: GivenSum, tokens: list[GivenToken], known: Known, *, followup: bool) -> tuple[FloatArray, FloatArray]:
    """Return the eight bounds from means of what `_sums_of_rows` sums, and how far the last doubling moved each.

    The upper sides of P and F(r_max) are left to others: they stand at what is `known`. Nodes are doubled where they matter (`_unsettled`);
    a row's move is that of its own last doubling.
    """

    @cache
    def correlation(i: int) -> npt.NDArray[np.float32]:
        return residual_correlation(given, tokens[i])

    def sums(rows: IntArray, start: int, stop: int, *, recall: bool) -> FloatArray:
        chosen = [tokens[i] for i in rows]
        return _sums_of_rows(given, chosen, start, stop, None if given.outside is None else correlation, recall=recall, followup=followup)

    n, every = given.n, np.arange(given.n)
    first = max(ROW_LEAST, 2 ** int(np.log2(max(1.0, NODES_FIRST / n)))) // 2
    size, total, move = np.full(n, first), sums(every, 0, first, recall=True), np.zeros((n, SUMS))
    rows, settled, moved = every, False, np.zeros(8)
    while True:
        before = total[rows] / size[rows, None]
        for start in np.unique(size[rows]):
            some = rows[size[rows] == start]
            further = sums(some, int(start), 2 * int(start), recall=not settled)
            if settled:
                further[:, :2] = total[some, :2]
            total[some] += further
        size[rows] *= 2
        now = total / size[:, None]
        move[rows] = now[rows] - before
        found = _from_rows(now, known)
        effects = np.where(found == known.bounds, 0.0, _effects(move, known))
        moves = np.maximum(np.abs(found - _from_rows(now - move, known)), np.sqrt((effects**2).sum(axis=0)))
        moved = np.where(settled & ON_RECALL, moved, moves)
        rows = _unsettled(effects[:, moved > TOLERANCE], size)
        if moved.max() <= TOLERANCE or size.sum() + size[rows].sum() > NODES_MOST:
            return found, moved
        settled = settled or bool((moved[ON_RECALL] <= TOLERANCE).all())


def _unsettled(effects: FloatArray, size: IntArray) -> IntArray:
    """Return the rows whose nodes to double, from what their last doubling did to the bounds that still move (n, bounds).

    Those whose part is too large for all n to be within the tolerance, and those far behind: few nodes may have missed a rare crowd. All,
    where single moves are small and only their sum is not.
    """
    large = (np.abs(effects) > TOLERANCE / (2 * np.sqrt(len(size)))).any(axis=1)
    found = np.flatnonzero(large | (size * ROW_BEHIND < size.max()))
    return found if large.any() else np.arange(len(size))


def _effects(moves: FloatArray, known: Known) -> FloatArray:
    """Return what each row's move (n, 4) did to each of the eight bounds, (n, 8)."""
    n = len(moves)
    low, high, lost, lost_f = moves.T
    rises, zero, in_order = np.diff(_harmonic(n)), np.zeros(n), np.empty(n)
    in_order[known.order] = rises * low[known.order]
    return np.stack([known.alone * lost, zero, low / n, high / n, known.alone * lost_f, zero, in_order, rises[0] * high], axis=1)


def _harmonic(n: int) -> FloatArray:
    """Return g(k) = 2k/(n+k) at k = 0..n."""
    inside = np.arange(n + 1)
    return np.asarray(2 * inside / (n + inside))


def _from_rows(means: FloatArray, known: Known) -> FloatArray:
    """Return the eight bounds, intersected with what is `known`, from means over nodes (n, 4)."""
    n = len(means)
    g = _harmonic(n)
    low, high = means[:, :2].T
    outer = 1 - known.loss - means[known.alone, 2:].sum(axis=0)
    found = np.array([outer[0], np.inf, low.mean(), high.mean(), outer[1], np.inf, np.diff(g) @ low[known.order], 0.0])
    found[-1] = np.interp(high.sum(), np.arange(n + 1), g)
    return np.where(SIDES_UPPER, np.minimum(found, known.bounds), np.maximum(found, known.bounds))


def _blocks(start: int, stop: int, columns: int) -> Iterator[tuple[int, int]]:
    step = max(1, BLOCK_NUMBERS // columns)
    return ((at, min(at + step, stop)) for at in range(start, stop, step))


def _sums_of_rows(
    given: GivenSum,
    tokens: list[GivenToken],
    start: int,
    stop: int,
    correlation: Callable[[int], npt.NDArray[np.float32]] | None,
    *,
    recall: bool,
    followup: bool,
) -> FloatArray:
    """Return sums over nodes start..stop−1 of (1−κ)⁺, the bound of P{K=0}, 1 − f_int(κ), 1 − F_int(κ); shape (tokens, 4).

    correlation: |ρ̃| of a rank, None without. recall: whether the first two are wanted; zeros otherwise.
    """
    n, nodes = given.n, token_nodes(given, tokens, start, stop)
    strict, none, found = np.empty_like(nodes.radius), np.zeros_like(nodes.radius), np.zeros((len(tokens), SUMS))
    for first, last in _blocks(0, stop - start, len(tokens) * (given.pull.size - n)):
        columns = slice(first, last)
        some = nodes.part(columns)
        chances = nearer_outside(given, tokens, some)
        strict[:, columns] = chances.expected
        if recall:
            none[:, columns] = none_of(chances, None if correlation is None else lambda at: correlation(tokens[at].i), some.weight)
    ties = np.array([[token.ties] for token in tokens])
    closed = strict + ties
    for column, size in ((2, n), (3, 2 * n)):
        found[:, column] = (nodes.weight * (1 - interpolated(closed, size))).sum(axis=1)
    if recall:
        out_of_reach = followup & (ties > 0)
        found[:, 0] = (nodes.weight * np.where(out_of_reach, 0.0, np.maximum(1 - strict, 0.0))).sum(axis=1)
        found[:, 1] = (nodes.weight * np.where(out_of_reach, 0.0, none)).sum(axis=1)
    return found
