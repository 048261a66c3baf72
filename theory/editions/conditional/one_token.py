"""Bounds given s and one selected token: averages over (t, z, τ) for each selected token by itself,
and the eight bounds made of them.

The inequalities are stated in `theory.editions.conditional.conditional_edition`. A row is one
selected token; its nodes are doubled where its average matters and is still uncertain. Unit-free.
Imports numpy and scipy.special; numba on first use.
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
    controlled,
    moved_outwards,
    spread_of,
    sums_off_by,
    unseen,
)
from theory.head.results import QUANTITIES

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

BLOCK_NUMBERS = 2**20
"""Probabilities held at once: 8 MB."""

SIDES_UPPER = np.tile([False, True], len(QUANTITIES))
"""Which of the eight bounds, lower and upper of each of `QUANTITIES`, are upper ones."""

SUMS = 4
"""What is averaged of a row; κ, κ² and their products with κ are summed too."""

ON_RECALL = np.array([name in ("recall", "f_inner") for name in QUANTITIES for _ in range(2)])
"""Which of the eight bound R and F(r_min)."""


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


def one_token_bounds(
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
    return moved_outwards(result, np.zeros(8) if off is None else off, known.bounds, SIDES_UPPER)


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
