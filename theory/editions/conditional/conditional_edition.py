r"""Edition `conditional`: bounds under Model G from the exact law of every distance given s and one
selected token Z_i = (s, y_i).

Given Z_i, D_i is known and the D_j are noncentral chi-square (`conditioning`). F_j = P{D_j ≤
D_i | Z_i}, κ_i = Σ_j F_j, K_i = #{j∈J: D_j ≤ D_i}, V_i = Σ_jk |ρ̃_jk| √(F_j(1−F_j)F_k(1−F_k))
with ρ̃ the correlation of what is left of y_j, y_k. Gebelein's inequality |Cov(φ(x), ψ(y))| ≤ |ρ|
√(Var φ Var ψ) for jointly Gaussian vectors, coordinates independent and each pair of correlation ρ,
gives Var(K_i | Z_i) ≤ V_i. f(k) = N/(N+k), F(k) = 2N/(2N+k), g(k) = 2k/(N+k), δ_m = f(m−1) −
f(m); h_int interpolates between integers; x_(m): the m-th largest.

**Recall.** i is inside iff K_i = 0, so E R = (1/N) Σ_i E P{K_i = 0 | Z_i}. P{K_i = 0} ≥ 1 −
κ_i (Markov), ≤ 1 − max_j F_j, and ≤ Var K_i/E K_i² ≤ V_i/(V_i + κ_i²) (Cauchy-Schwarz on E K_i =
E K_i 1{K_i > 0}):

    E R ≥ (1/N) Σ_i E(1−κ_i)⁺        E R ≤ (1/N) Σ_i E min(1 − max_j F_j, V_i/(V_i+κ_i²))

**F(r_min)** = g(Σ_i 1{K_i=0}). g is concave and rising: with lo_i, hi_i the bounds of P{K_i = 0}
above, the comonotone coupling is the least, E ≥ Σ_m (g(m) − g(m−1)) lo_(m) (any order of the lo_i
gives less), and by Jensen on the integers E ≤ g_int(Σ_i hi_i).

**Precision.** P = f(max_i K_i) = min_i f(K_i). 1 − min_i f(K_i) ≤ Σ_i (1 − f(K_i)), and
E[f(K_i) | Z_i] ≥ f_int(κ_i), f being convex. From above P ≤ f(K_i) for each i; E[f(K_i) | Z_i] ≤
1 − Σ_m δ_m F_(m) (comonotone coupling), and, as f(K) = f(κ) + N(κ−K)/(N+κ)² + f(K)(κ−K)²/(N+κ)²
with f(K) ≤ 1, also ≤ N/(N+κ_i) + V_i/(N+κ_i)²:

    E P ≥ 1 − Σ_i E[1 − f_int(κ_i)]   E P ≤ min_i E min(1 − Σ_m δ_m F_(m), N/(N+κ_i) + V_i/(N+κ_i)²)

Narrower, and what is computed: the same for the few tokens with the most expected intruders at once
(`several_tokens`), the sum over the others. Two more bounds of E P condition on s alone (`sphere`).
**F(r_max)** = F(max_i K_i): as P, with 2N for N.

All are intersected with `sharp`. Averages are quadratures: over (t, z, τ) independently shifted
lattice rules, more nodes where a token's own average is still uncertain, and freed where that pays
of what they share with κ_i, whose mean is known exactly; over ‖s‖ interleaved grids; over several
tokens scrambled Sobol points. Each may be off by what the spread of its parts says
(`quadrature_error`: but for one case in 10,000 at each look, and there is a look after each
doubling) and by an event that no node saw, and every bound is moved outwards by both. What is
averaged is a bound at each node, and what is made of the averages is linear or rises with them, so
that a moved bound is one still: least and largest of several bounds that were moved each, a sum
moved by the sum, F(r_min) by the order of the tokens' exact law, not of their averages. An average
that may be off by more than `WITHIN` is left out: what else is known (`sharp` at least) stands in
its place, and `error` reports it. Source: Model G replaces eq. (9)-(17) of arXiv 2602.01893.
Unit-free. Imports numpy and scipy; numba on first use.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.editions.conditional.conditioning import (
    GivenSum,
    GivenToken,
    given_sum,
    given_token,
    nearer_outside,
    residual_correlation,
    token_nodes,
)
from theory.editions.conditional.count_bounds import (
    Correlations,
    beyond_line,
    interpolated,
    none_of,
)
from theory.editions.conditional.quadrature_error import (
    CONFIDENCE,
    TOLERANCE,
    WITHIN,
    controlled,
    spread_of,
    sums_off_by,
    unseen,
)
from theory.editions.conditional.several_tokens import MOST_TOKENS, crowd_bounds
from theory.editions.conditional.sphere import sphere_bounds
from theory.editions.sharp.sharp_law import (
    PairwiseLaw,
    best_bounds,
    followup_f,
    pair_sums,
    pairwise_law,
)
from theory.head.ranked import Ranked, Summary
from theory.head.results import QUANTITIES, ROUNDING, BoundPairs

NODES_FIRST, NODES_MOST = 2**10, 2**14
"""Nodes of all selected tokens together, at first and at most."""

SHORT = 64
"""Tokens outside up to which a head has eight times as many nodes at most: they cost little, and
few, known distances make an average jump.
"""

PARTS = ((4, 16), (16, 8), (np.inf, 4))
"""Up to so many selected tokens, each has so many shifted lattices: many tokens' errors tell
their size together.
"""

ROW_LEAST, ROW_BEHIND = 8, 8
"""Fewest nodes of one lattice; a selected token has at least an eighth of the nodes that any
other has.
"""

VARIANCE_UP_TO = 512
"""Largest T for which V_i is computed; beyond, its terms are dropped (the bounds without them
hold too): they cost O(N M²).
"""

BLOCK_NUMBERS = 2**20
"""Probabilities held at once: 8 MB."""

SIDES_UPPER = np.tile([False, True], len(QUANTITIES))
"""Which of the eight bounds, lower and upper of each of `QUANTITIES`, are upper ones."""

OUTER_UPPER = [2 * QUANTITIES.index("precision") + 1, 2 * QUANTITIES.index("f_outer") + 1]
"""Where the upper bounds of P and F(r_max) stand among the eight."""

OUTER = [side for upper in OUTER_UPPER for side in (upper - 1, upper)]
"""Where lower and upper bound of P and of F(r_max) stand."""

SUMS = 4
"""What is averaged of a row; κ, κ² and their products with κ are summed too."""

ON_RECALL = np.array([name in ("recall", "f_inner") for name in QUANTITIES for _ in range(2)])
"""Which of the eight bound R and F(r_min)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConditionalBounds(BoundPairs[float]):
    """Bounds in [0, 1], moved outwards by what their averages may be off.

    error: by how much an average that mattered may be off, the largest; above `WITHIN`: that
    average was left out, the bounds it was to narrow are those of the others, `sharp` at least.
    They hold either way.
    """

    error: float


def conditional_bounds(
    head: Ranked, summary: Summary, at: int, dimension: int, *, followup: bool
) -> ConditionalBounds:
    """Return the conditional bounds of the selection `summary.n[at]`, intersected with the sharp
    ones.

    followup: strict inner balls, so that ties leave a token out of reach, and one F of both P and
    R.

    Raises:
        InputError: if some 2×2 determinant is clearly negative: no vectors have this Gram.
    """
    law = pairwise_law(head, summary, at, dimension)
    sharp = _eight(best_bounds(pair_sums(law, followup=followup), followup=False))
    given = given_sum(head, summary, at, dimension, law, variance=head.tokens <= VARIANCE_UP_TO)
    result, error = sharp, 0.0
    if given is not None and (sharp[1::2] - sharp[::2] > TOLERANCE).any():
        result, error = _narrowed(given, law, sharp, followup=followup)
    pairs = {
        name: (float(result[2 * k]), float(result[2 * k + 1])) for k, name in enumerate(QUANTITIES)
    }
    if followup:
        pairs["f_outer"] = pairs["f_inner"] = followup_f(pairs["precision"], pairs["recall"])
    return ConditionalBounds(**pairs, error=error)


def _eight(bounds: BoundPairs[float]) -> FloatArray:
    """Return lower and upper bounds of each quantity, shape (8,)."""
    return np.array([side for name in QUANTITIES for side in getattr(bounds, name)])


def _narrowed(
    given: GivenSum, law: PairwiseLaw, sharp: FloatArray, *, followup: bool
) -> tuple[FloatArray, float]:
    """Return the eight bounds and by how much an average may be off."""
    tokens = [given_token(given, i, law.closed[i]) for i in range(given.n)]
    order = np.argsort(law.closed.sum(axis=1), kind="stable")
    best, worst, loss, alone = sharp.copy(), 0.0, np.zeros(2), np.ones(given.n, dtype=bool)
    if sharp[1] - sharp[0] > TOLERANCE:
        values, off = sphere_bounds(given)
        best[OUTER] = _moved_outwards(values, off, sharp[OUTER], SIDES_UPPER[OUTER])
        chosen = order[::-1][: max(1, min(MOST_TOKENS, given.dimension - 1))]
        values, crowded = crowd_bounds(given, chosen)
        worst = float(min(off.max(), crowded.max()))  # either narrows the same bounds
        if crowded.max() <= WITHIN:
            best[OUTER_UPPER] = np.minimum(best[OUTER_UPPER], values[1::2] + crowded[1::2])
            loss, alone[chosen] = 1 - values[::2] + crowded[::2], False
    result, off = _by_rows(
        given,
        tokens,
        Known(bounds=best, count=law.strict.sum(axis=1), loss=loss, alone=alone, order=order),
        followup=followup,
    )
    low, high = np.maximum(result[::2], sharp[::2]), np.minimum(result[1::2], sharp[1::2])
    if (low > high + ROUNDING).any():  # one average is off by more than it says: none is believed
        return sharp, np.inf
    return np.stack([np.minimum(low, high), np.maximum(low, high)], axis=1).ravel(), max(
        worst, float(off.max())
    )


def _moved_outwards(
    values: FloatArray, off: FloatArray, known: FloatArray, upper: BoolArray
) -> FloatArray:
    """Return bounds moved outwards by what they may be off and intersected with `known`; `known`
    itself where that is too much.
    """
    result = np.where(upper, np.minimum(values + off, known), np.maximum(values - off, known))
    return np.where(off <= WITHIN, result, known)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """What is known before each token is looked at: eight bounds; loss (2,) of P and F(r_max) to
    the tokens that are not `alone` (n,).

    count (n,): E κ_i exactly. order (n,): of the tokens, by rising expected intruders.
    """

    bounds: FloatArray
    count: FloatArray
    loss: FloatArray
    alone: BoolArray
    order: IntArray


def _by_rows(
    given: GivenSum, tokens: list[GivenToken], known: Known, *, followup: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the eight bounds from means of what `_sums_of_rows` sums, moved outwards, and by how
    much each may be off; 0 where it tells nothing.

    The upper sides of P and F(r_max) are left to others: they stand at what is `known`. Nodes are
    doubled where they matter (`_unsettled`).
    """

    @cache
    def correlation(i: int) -> npt.NDArray[np.float32]:
        return residual_correlation(given, tokens[i])

    n = given.n
    parts = next(count for most, count in PARTS if n <= most)
    most = NODES_MOST * (8 if given.pull.size - n <= SHORT else 1)

    def sums(rows: IntArray, start: int, stop: int, *, recall: bool) -> FloatArray:
        chosen = [tokens[i] for i in rows]
        between = None if given.outside is None else correlation
        return _sums_of_rows(
            given, chosen, start, stop, parts, between, recall=recall, followup=followup
        )

    first = max(ROW_LEAST, 2 ** int(np.log2(max(1.0, NODES_FIRST / (n * parts)))))
    size, settled = np.full(n, first), None
    total, ties = (
        sums(np.arange(n), 0, first, recall=True),
        np.array([token.ties for token in tokens]),
    )
    beyond = partial(beyond_line, n=n, others=given.pull.size - n - ties, ties=ties)
    while True:
        each, far = controlled(total, size, known.count, beyond)
        far[followup & (ties > 0), :2] = 0.0  # out of reach at every node
        if settled is not None:
            each[..., :2] = settled[0]
        errors, hidden = (
            _effects(spread_of(each, axis=1) ** 0.5, known),
            unseen(parts * size[:, None]) * _effects(far, known),
        )
        off, result = (
            sums_off_by(errors**2, parts - 1) + hidden.max(axis=0),
            _from_rows(each.mean(axis=1), known),
        )
        off = np.where(result == known.bounds, 0.0, off)
        if settled is not None:
            off[ON_RECALL] = settled[1]
        rows = _unsettled(np.maximum(errors, hidden)[:, off > TOLERANCE], size)
        if off.max() <= TOLERANCE or parts * (size.sum() + size[rows].sum()) > most:
            return _from_rows(each.mean(axis=1), known, off), off
        if settled is None and (off[ON_RECALL] <= TOLERANCE).all():
            settled = each[..., :2].copy(), off[ON_RECALL]
        for start in np.unique(size[rows]):
            some = rows[size[rows] == start]
            total[some] += sums(some, int(start), 2 * int(start), recall=settled is None)
        size[rows] *= 2


def _unsettled(effects: FloatArray, size: IntArray) -> IntArray:
    """Return the rows whose nodes to double, from their errors' effects on the bounds that may be
    too far off (n, bounds).

    Those whose part is too large for all n to be within the tolerance, and those far behind: few
    nodes may have missed a rare crowd. All, where single parts are small and only their sum is not.
    """
    large = (effects > TOLERANCE / (2 * -stdtrit(np.inf, CONFIDENCE) * np.sqrt(len(size)))).any(
        axis=1
    )
    result = np.flatnonzero(large | (size * ROW_BEHIND < size.max()))
    return result if large.any() else np.arange(len(size))


def _effects(moves: FloatArray, known: Known) -> FloatArray:
    """Return what a move of each row's means (n, 4) does to each of the eight bounds at most,
    (n, 8).
    """
    n = len(moves)
    low, high, lost, lost_f = moves.T
    rises, zero, in_order = np.diff(_harmonic(n)), np.zeros(n), np.empty(n)
    in_order[known.order] = rises * low[known.order]
    return np.stack(
        [
            known.alone * lost,
            zero,
            low / n,
            high / n,
            known.alone * lost_f,
            zero,
            in_order,
            rises[0] * high,
        ],
        axis=1,
    )


def _harmonic(n: int) -> FloatArray:
    """Return g(k) = 2k/(n+k) at k = 0..n."""
    inside = np.arange(n + 1)
    return np.asarray(2 * inside / (n + inside))


def _from_rows(means: FloatArray, known: Known, off: FloatArray | None = None) -> FloatArray:
    """Return the eight bounds, intersected with what is `known`, from means over nodes (n, 4).

    off: by how much each of the eight may be off: moved outwards by so much, or left out where that
    is more than `WITHIN`.
    """
    n, g = len(means), _harmonic(len(means))
    low, high = means[:, :2].T
    outer = 1 - known.loss - means[known.alone, 2:].sum(axis=0)
    result = np.array(
        [
            outer[0],
            np.inf,
            low.mean(),
            high.mean(),
            outer[1],
            np.inf,
            np.diff(g) @ low[known.order],
            0.0,
        ]
    )
    result[-1] = np.interp(high.sum(), np.arange(n + 1), g)
    return _moved_outwards(result, np.zeros(8) if off is None else off, known.bounds, SIDES_UPPER)


def _sums_of_rows(
    given: GivenSum,
    tokens: list[GivenToken],
    start: int,
    stop: int,
    parts: int,
    correlation: Correlations | None,
    *,
    recall: bool,
    followup: bool,
) -> FloatArray:
    """Return sums over nodes start..stop−1 of each part: of (1−κ)⁺, the bound of P{K=0}, 1 −
    f_int(κ), 1 − F_int(κ), κ, κ², the four times κ.

    Shape (tokens, parts, 10). correlation: |ρ̃| of a rank, None without. recall: whether the first
    two are wanted; zeros otherwise.
    """
    n, nodes = given.n, token_nodes(given, tokens, start, stop, parts)
    strict, none, result = (
        np.empty_like(nodes.radius),
        np.zeros_like(nodes.radius),
        np.zeros((len(tokens), parts, 2 * SUMS + 2)),
    )
    step = max(1, BLOCK_NUMBERS // (len(tokens) * (given.pull.size - n)))
    for first in range(0, strict.shape[1], step):
        columns = slice(first, first + step)
        some = nodes.part(columns)
        chances = nearer_outside(given, tokens, some)
        strict[:, columns] = chances.expected
        if recall:
            none[:, columns] = none_of(
                chances,
                None if correlation is None else lambda at: correlation(tokens[at].i),
                some.weight,
            )
    ties = np.array([[token.ties] for token in tokens])
    closed, out_of_reach = strict + ties, followup & (ties > 0)

    def summed(values: FloatArray) -> FloatArray:
        return np.asarray((nodes.weight * values).reshape(len(tokens), parts, -1).sum(axis=2))

    plain = np.maximum(1 - strict, 0.0) if recall else np.zeros_like(none)
    values = [np.where(out_of_reach, 0.0, value) for value in (plain, none)]
    values += [1 - interpolated(closed, size) for size in (n, 2 * n)]
    for column, value in enumerate(
        [*values, strict, strict**2, *(value * strict for value in values)]
    ):
        result[..., column] = summed(value)
    return result
