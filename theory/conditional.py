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

A second upper bound of E P conditions on s alone (`conditional_sphere`). **F(r_max)** = F(max_i K_i): as P, with 2N for N.

All are intersected with `sharp`. The averages over (t, z, τ) are lattice rules of equal weights, doubled until no bound moves by `TOLERANCE`, and
every bound is moved outwards by its last change; one that still moves at `NODES_MOST` is replaced by `sharp`'s and reported in `change`.
Source: Model G replaces eq. (9)-(17) of arXiv 2602.01893. Unit-free. Imports numpy and scipy; numba on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from theory.arrays import FloatArray, IntArray
from theory.conditional_rows import GivenSum, GivenToken, given_sum, given_token, nearer_outside, residual_correlation, token_nodes
from theory.conditional_sphere import sphere_bounds
from theory.conditional_sums import comonotone, interpolated, none_of, quadratic
from theory.ranked import Ranked, Summary
from theory.results import QUANTITIES
from theory.sharp import SharpBounds, best_bounds, pair_sums, pairwise_law

TOLERANCE = 0.002
"""A doubling of the nodes that moves every bound by less ends the doubling."""

NODES_FIRST, NODES_MOST = 2**10, 2**17
"""Nodes of all selected tokens together, at first and at most."""

TOKEN_FIRST = 2**9
"""Nodes of one token at first, where it alone bounds P."""

ROW_LEAST = 16
"""Fewest nodes a selected token starts with."""

VARIANCE_UP_TO = 512
"""Largest T for which V_i is computed; beyond, its terms are dropped (the bounds without them hold too): they cost O(N M²)."""

CANDIDATES = 2
"""How many selected tokens are tried for the upper bound of P: those with the most expected intruders."""


BLOCK_NUMBERS = 2**20
"""Probabilities held at once: 8 MB."""

SIDES_UPPER = np.tile([False, True], len(QUANTITIES))
"""Which of the eight bounds, lower and upper of each of `QUANTITIES`, are upper ones."""

OUTER_UPPER = [2 * QUANTITIES.index("precision") + 1, 2 * QUANTITIES.index("f_outer") + 1]
"""Where the upper bounds of P and F(r_max) stand among the eight."""

ON_RECALL = np.array([name in ("recall", "f_inner") for name in QUANTITIES for _ in range(2)])
"""Which of the eight bound R and F(r_min)."""

CROWD = 4
"""Where N/(N+κ) stands among the sums of a row."""


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
    means, values, moved = _by_rows(given, tokens, sharp, order, followup=followup)
    found = _moved_outwards(values, moved, sharp)
    worst = float(moved.max())
    if sharp[1] - sharp[0] > TOLERANCE:
        crowded = np.argsort(means[:, CROWD], kind="stable")[:CANDIDATES]
        for value, move in (sphere_bounds(given, TOLERANCE), *(_by_token(given, tokens[i]) for i in crowded)):
            tried = np.where(move <= TOLERANCE, value + move, np.inf)
            found[OUTER_UPPER] = np.minimum(found[OUTER_UPPER], tried)
            worst = max(worst, float(move.max()))
    low, high = np.minimum(found[::2], found[1::2]), np.maximum(found[::2], found[1::2])
    return np.stack([np.maximum(low, sharp[::2]), np.minimum(high, sharp[1::2])], axis=1).ravel(), worst


def _moved_outwards(values: FloatArray, moved: FloatArray, sharp: FloatArray) -> FloatArray:
    """Return the eight bounds, moved outwards by their last change, intersected with `sharp`; `sharp` itself where not converged."""
    found = np.where(SIDES_UPPER, np.minimum(values + moved, sharp), np.maximum(values - moved, sharp))
    return np.where(moved <= TOLERANCE, found, sharp)


def _by_rows(
    given: GivenSum, tokens: list[GivenToken], sharp: FloatArray, order: IntArray, *, followup: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means of what `_sum_of_row` sums (n, 5), the eight bounds they give and how far the last doubling moved each.

    The upper sides of P and F(r_max) are left to others: they stand at `sharp`'s.
    """

    @cache
    def correlation(i: int) -> npt.NDArray[np.float32]:
        return residual_correlation(given, tokens[i])

    def sums(start: int, stop: int, *, recall: bool) -> FloatArray:
        return _sums_of_rows(given, tokens, start, stop, None if given.outside is None else correlation, recall=recall, followup=followup)

    size = max(ROW_LEAST, 2 ** int(np.log2(max(1.0, NODES_FIRST / given.n))))
    total = sums(0, size // 2, recall=True)
    before, size = total / (size // 2), size // 2
    settled, moved = False, np.zeros(8)
    while True:
        further = sums(size, 2 * size, recall=not settled)
        if settled:
            further[:, :2] = total[:, :2]
        total, size = total + further, 2 * size
        now = total / size
        found = _from_rows(now, sharp, order)
        moves = np.maximum(np.abs(found - _from_rows(before, sharp, order)), np.where(found == sharp, 0.0, _noise(now - before, order)))
        moved = np.where(settled & ON_RECALL, moved, moves) if settled else moves
        if moved.max() <= TOLERANCE or 2 * size * given.n > NODES_MOST:
            return now, found, moved
        settled = settled or bool((moved[ON_RECALL] <= TOLERANCE).all())
        before = now


def _noise(moves: FloatArray, order: IntArray) -> FloatArray:
    """Return the root sum of squares of what each row's move (n, 5) did to the eight bounds: single moves may cancel in their sum."""
    n = len(moves)
    low, high, lost, lost_f = moves.T[:CROWD]
    rises = np.diff(_harmonic(n))
    each = [lost, 0.0, low / n, high / n, lost_f, 0.0, rises * low[order], rises[0] * high]
    return np.sqrt([np.sum(np.square(x)) for x in each])


def _harmonic(n: int) -> FloatArray:
    """Return g(k) = 2k/(n+k) at k = 0..n."""
    inside = np.arange(n + 1)
    return np.asarray(2 * inside / (n + inside))


def _from_rows(means: FloatArray, sharp: FloatArray, order: IntArray) -> FloatArray:
    """Return the eight bounds, intersected with `sharp`, from means over nodes (n, 5)."""
    n = len(means)
    g = _harmonic(n)
    low, high, lost, lost_f = means.T[:CROWD]
    found = np.array([1 - lost.sum(), np.inf, low.mean(), high.mean(), 1 - lost_f.sum(), np.inf, np.diff(g) @ low[order], 0.0])
    found[-1] = np.interp(high.sum(), np.arange(n + 1), g)
    return np.where(SIDES_UPPER, np.minimum(found, sharp), np.maximum(found, sharp))


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
    """Return sums over nodes start..stop−1 of (1−κ)⁺, the bound of P{K=0}, 1 − f_int(κ), 1 − F_int(κ), N/(N+κ); shape (n, 5).

    correlation: |ρ̃| of a row, None without. recall: whether the first two are wanted; zeros otherwise.
    """
    n, nodes = given.n, token_nodes(given, tokens, start, stop)
    strict, none, found = np.empty_like(nodes.radius), np.zeros_like(nodes.radius), np.zeros((n, 5))
    for i, token in enumerate(tokens):
        for first, last in _blocks(0, stop - start, given.along.size - n):
            columns = slice(first, last)
            chances = nearer_outside(given, token, nodes.part(i, columns))
            strict[i, columns] = chances.expected
            if recall:
                none[i, columns] = none_of(chances, None if correlation is None else partial(correlation, i))
    ties = np.array([[token.ties] for token in tokens])
    closed = strict + ties
    for column, seen in enumerate((1 - interpolated(closed, n), 1 - interpolated(closed, 2 * n), n / (n + closed)), start=2):
        found[:, column] = (nodes.weight * seen).sum(axis=1)
    if recall:
        out_of_reach = followup & (ties > 0)
        found[:, 0] = (nodes.weight * np.where(out_of_reach, 0.0, np.maximum(1 - strict, 0.0))).sum(axis=1)
        found[:, 1] = (nodes.weight * np.where(out_of_reach, 0.0, none)).sum(axis=1)
    return found


def _by_token(given: GivenSum, token: GivenToken) -> tuple[FloatArray, FloatArray]:
    """Return upper bounds of E P and E F(r_max) from one selected token, shape (2,), and how far the last doubling moved each."""
    correlation = None if given.outside is None else residual_correlation(given, token)
    tied = token.variance < 0

    def sums(start: int, stop: int) -> FloatArray:
        found = np.zeros(2)
        for first, last in _blocks(start, stop, len(tied)):
            nodes = token_nodes(given, [token], first, last).part(0, slice(None))
            chance = nearer_outside(given, token, nodes).each
            chance[:, tied] = 1.0
            count = chance.sum(axis=1)
            spread = np.inf if correlation is None else quadratic(chance, correlation)
            for k, size in enumerate((given.n, 2 * given.n)):
                by_spread = size / (size + count) + spread / (size + count) ** 2
                found[k] += nodes.weight @ np.minimum(comonotone(chance, size), by_spread)
        return found

    size = TOKEN_FIRST
    total = sums(0, size // 2)
    before = total / (size // 2)
    total += sums(size // 2, size)
    while True:
        now = total / size
        moved = np.abs(now - before)
        if moved.max() <= TOLERANCE or 2 * size > NODES_MOST:
            return now, moved
        total += sums(size, 2 * size)
        before, size = now, 2 * size
