"""Bounds given s and one selected token: averages over (t, z, τ) for each selected token, and the
eight bounds that follow.

The inequalities are stated in `theory.editions.conditional.conditional_edition`. A row is one
selected token; its nodes are doubled while its average matters and is uncertain. Unit-free. Imports
numpy and scipy.special; numba on first use.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from scipy.special import stdtrit

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.editions.conditional.conditioning import (
    GivenSum,
    GivenToken,
    nearer_outside,
    residual_correlation,
    token_nodes,
)
from theory.editions.conditional.count_bounds import (
    Correlations,
    distance_beyond_line,
    interpolated,
    none_bound,
)
from theory.editions.conditional.distance_distribution import Nodes
from theory.editions.conditional.quadrature_error import (
    CONFIDENCE,
    TOLERANCE,
    error_of_sums,
    missed_probability,
    moved_outwards,
    variance_of_mean,
    with_control_variate,
)
from theory.head.results import QUANTITIES

NODES_FIRST, NODES_MOST = 2**10, 2**14
"""Initial and largest number of nodes over all selected tokens."""

SHORT = 64
"""Number of unselected tokens up to which a head may use eight times as many nodes: nodes are cheap
there, and a few known distances make the integrand jump.
"""

PARTS = ((4, 16), (16, 8), (np.inf, 4))
"""Largest number of selected tokens, and shifted lattices per token: many tokens need few."""

ROW_LEAST, ROW_BEHIND = 8, 8
"""Fewest nodes of one lattice, and the largest ratio of node counts between two selected tokens."""

BLOCK_NUMBERS = 2**20
"""Number of probabilities in memory at once: 8 MB."""

SIDES_UPPER = np.tile([False, True], len(QUANTITIES))
"""Mask of the upper bounds among the eight (lower and upper of each of `QUANTITIES`)."""

ON_RECALL = np.array([name in ("recall", "f_inner") for name in QUANTITIES for _ in range(2)])
"""Mask of the bounds on R and F(r_min) among the eight."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """Bounds known before the single-token averages: eight bounds, and the loss (2,) of P and
    F(r_max) to the tokens that are not `single` (n,).

    count (n,): exact E κ_i. order (n,): tokens by ascending number of expected intruders.
    """

    bounds: FloatArray
    count: FloatArray
    loss: FloatArray
    single: BoolArray
    order: IntArray


def one_token_bounds(
    selection: GivenSum, tokens: list[GivenToken], known: Known, *, followup: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the eight bounds from the means of `_sums_of_rows`, moved outwards, and the error of
    each (0 for a bound that stays at its known value).

    The upper bounds of P and F(r_max) keep their `known` values. Nodes are doubled where they
    matter (`_unsettled`).
    """
    n = selection.n
    parts = next(count for most, count in PARTS if n <= most)
    most = NODES_MOST * (8 if selection.pull.size - n <= SHORT else 1)
    correlation = cache(lambda i: residual_correlation(selection, tokens[i]))
    of_rank = None if selection.outside is None else correlation
    sums = partial(_sums_of_rows, selection, tokens, parts, of_rank, followup=followup)
    first = max(ROW_LEAST, 2 ** int(np.log2(max(1.0, NODES_FIRST / (n * parts)))))
    size, settled = np.full(n, first), None
    total = sums(np.arange(n), 0, first, recall=True)
    ties = np.array([token.ties for token in tokens])
    beyond = partial(distance_beyond_line, n=n, others=selection.pull.size - n - ties, ties=ties)
    while True:
        means, reach = with_control_variate(total, size, known.count, beyond)
        reach[followup & (ties > 0), :2] = 0.0  # outside at every node
        if settled is not None:
            means[..., :2] = settled[0]
        errors = _effects(variance_of_mean(means, axis=1) ** 0.5, known)
        hidden = missed_probability(parts * size[:, None]) * _effects(reach, known)
        error = error_of_sums(errors**2, parts - 1) + hidden.max(axis=0)
        result = _from_rows(means.mean(axis=1), known)
        error = np.where(result == known.bounds, 0.0, error)
        if settled is not None:
            error[ON_RECALL] = settled[1]
        rows = _unsettled(np.maximum(errors, hidden)[:, error > TOLERANCE], size)
        if error.max() <= TOLERANCE or parts * (size.sum() + size[rows].sum()) > most:
            return _from_rows(means.mean(axis=1), known, error), error
        if settled is None and (error[ON_RECALL] <= TOLERANCE).all():
            settled = means[..., :2].copy(), error[ON_RECALL]
        for start in np.unique(size[rows]):
            batch = rows[size[rows] == start]
            total[batch] += sums(batch, int(start), 2 * int(start), recall=settled is None)
        size[rows] *= 2


def _unsettled(effects: FloatArray, size: IntArray) -> IntArray:
    """Return the rows whose nodes are to be doubled. effects (n, bounds): effects of their errors
    on the bounds above the tolerance.

    Selects rows whose error is too large for n such rows to meet the tolerance, and rows far behind
    in nodes, which may have missed a rare crowd. Selects all rows if only the sum of small shares
    is too large.
    """
    large = (effects > TOLERANCE / (2 * -stdtrit(np.inf, CONFIDENCE) * np.sqrt(len(size)))).any(
        axis=1
    )
    result = np.flatnonzero(large | (size * ROW_BEHIND < size.max()))
    return result if large.any() else np.arange(len(size))


def _effects(moves: FloatArray, known: Known) -> FloatArray:
    """Return the largest effect, (n, 8), of moves of the row means (n, 4) on each bound."""
    n = len(moves)
    low, high = moves.T[:2]
    lost, lost_f = known.single * moves.T[2:]
    rises, zero, in_order = np.diff(_harmonic(n)), np.zeros(n), np.empty(n)
    in_order[known.order] = rises * low[known.order]
    effects = [lost, zero, low / n, high / n, lost_f, zero, in_order, rises[0] * high]
    return np.stack(effects, axis=1)


def _harmonic(n: int) -> FloatArray:
    """Return g(k) = 2k/(n+k) at k = 0..n."""
    inside = np.arange(n + 1)
    return np.asarray(2 * inside / (n + inside))


def _from_rows(means: FloatArray, known: Known, error: FloatArray | None = None) -> FloatArray:
    """Return the eight bounds from means over nodes (n, 4), intersected with the `known` bounds.

    error: error of each of the eight, by which it is moved outwards; a bound with an error above
    `WITHIN` is dropped.
    """
    n, g = len(means), _harmonic(len(means))
    low, high = means[:, :2].T
    outer = 1 - known.loss - means[known.single, 2:].sum(axis=0)
    recall = (low.mean(), high.mean())
    f_inner = (np.diff(g) @ low[known.order], np.interp(high.sum(), np.arange(n + 1), g))
    result = np.array([outer[0], np.inf, *recall, outer[1], np.inf, *f_inner])
    moved = np.zeros(8) if error is None else error
    return moved_outwards(result, moved, known.bounds, SIDES_UPPER)


def _sums_of_rows(
    selection: GivenSum,
    all_tokens: list[GivenToken],
    parts: int,
    correlation: Correlations | None,
    rows: IntArray,
    start: int,
    stop: int,
    *,
    recall: bool,
    followup: bool,
) -> FloatArray:
    """Return sums over nodes start..stop−1 of each part: (1−κ)⁺, the bound of P{K=0}, 1 − f_int(κ),
    1 − F_int(κ), κ, κ², and the first four times κ.

    Shape (tokens, parts, 10). correlation: |ρ̃| of a rank, or None. recall: whether to compute the
    first two; zeros otherwise.
    """
    tokens = [all_tokens[i] for i in rows]
    n, nodes = selection.n, token_nodes(selection, tokens, start, stop, parts)
    strict = np.empty_like(nodes.radius)
    none = np.zeros_like(nodes.radius)
    step = max(1, BLOCK_NUMBERS // (len(tokens) * (selection.pull.size - n)))
    for first in range(0, strict.shape[1], step):
        columns = slice(first, first + step)
        block = Nodes(*(array[:, columns] for array in nodes))
        chances = nearer_outside(selection, tokens, block)
        strict[:, columns] = chances.expected
        if recall:
            of_group = None if correlation is None else lambda group: correlation(tokens[group].i)
            none[:, columns] = none_bound(chances, of_group, block.weight)
    ties = np.array([[token.ties] for token in tokens])
    plain = np.maximum(1 - strict, 0.0) if recall else np.zeros_like(none)
    values = [np.where(followup & (ties > 0), 0.0, value) for value in (plain, none)]
    values += [1 - interpolated(strict + ties, size) for size in (n, 2 * n)]
    values += [strict, strict**2, *(value * strict for value in values)]
    weighted = [(nodes.weight * value).reshape(len(tokens), parts, -1) for value in values]
    return np.stack([part.sum(axis=2) for part in weighted], axis=-1)
