"""Compiled kernels of one kv_head: cosines between all pairs of its value states.

Source: arXiv 2602.01893, (6)-(8) and Assumption 2. The matrix of cosines is computed once per
kv_head, in blocks of columns if it is large. The sums over pairs by lag and the running maxima of
every head of the kv_head read it. A zero vector has no direction: its cosines are stored as 0 and
excluded from every sum, count and maximum. Imports numpy, numba and
`empirical.measure.head_kernels`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from empirical.measure.compiled import compiled
from empirical.measure.head_kernels import ROWS, balls, extremum, product, square

COSINE_BINS: Final = 64
"""Equal bins on [−1, 1]. A power of two: finding the bin is then exact."""

NO_PAIR: Final = -2.0
"""Maximum over an empty set of pairs; below every cosine."""

STRIPE: Final = 64
"""Rows after which the completed part of a square matrix is mirrored."""

TABLES: Final = 4
"""Histogram tables used in turn by neighbouring pairs, so that no count waits for the previous."""

Array = Any
"""An array inside a compiled kernel."""


@compiled()
def unit_values(values: Array, norm: Array, unit: Array, unit_t: Array) -> None:
    """Fill `unit` (token, dimension) and its transpose with v/‖v‖, zero-padded; 0 stays 0."""
    unit[:] = 0
    for i in range(values.shape[0]):
        length = np.sqrt(square(values[i]))
        norm[i] = length
        if length > 0.0:
            for k in range(values.shape[1]):
                unit[i, k] = values[i, k] / length
    for top in range(0, unit.shape[0], STRIPE):  # a stripe at a time stays in the cache
        bottom = min(top + STRIPE, unit.shape[0])
        for k in range(unit.shape[1]):
            for i in range(top, bottom):
                unit_t[k, i] = unit[i, k]


@compiled()
def cosine_rows(
    unit: Array, unit_t: Array, start: int, stop: int, first: int, columns: int, out: Array
) -> None:
    """Fill rows start..stop−1 of the cosines with tokens first..first+columns−1; start is a
    multiple of the stripe.

    If `out` has all columns, only the upper triangle is computed, and the lower one copied.
    """
    mirror = columns == unit_t.shape[1]
    for top in range(start, stop, STRIPE):
        bottom = min(top + STRIPE, stop)
        for i in range(top, bottom, ROWS):
            product(unit, i, unit_t, first, out, i, top if mirror else 0, columns)
        if mirror:
            for left in range(bottom, columns, STRIPE):
                for i in range(left, min(left + STRIPE, columns)):
                    for j in range(top, bottom):
                        out[i, j] = out[j, i]


@compiled()
def running_maxima(
    cosine: Array,
    first: int,
    order: Array,
    enters: Array,
    rank: Array,
    n: Array,
    inside: Array,
    outside: Array,
) -> None:
    """Raise ρ_in and ρ_out of one head by what one block of columns holds; (7), (8).

    Tokens enter I in the order of selection. Each column keeps its largest cosine with the content
    tokens in I so far: when a token enters, its column holds its largest cosine with those before
    it; the columns still outside hold the candidates for ρ_out.

    Args:
        cosine: all rows, this block's columns, C-contiguous.
        first: token of the block's first column.
        order, enters, n: as in `head_kernels`.
        rank: index of each of the block's tokens in `order`; −1 for a zero vector, (column) int32.
        inside, outside: ρ_in and ρ_out so far, (n); `NO_PAIR` where there is none.
    """
    best = np.full(rank.shape[0], cosine.dtype.type(NO_PAIR))
    scratch = np.empty_like(best)
    highest = best[0]
    selected = 0
    for row in range(n.shape[0]):
        while selected < n[row]:
            token = order[selected]
            if enters[token]:  # its row raises every column; its own column gives ρ_in
                highest = _enter(cosine[token], token - first, best, highest)
            selected += 1
        inside[row] = max(inside[row], highest)
        outside[row] = max(outside[row], _largest_outside(best, rank, n[row], scratch))


@compiled()
def _enter(line: Array, column: int, best: Array, highest: Any) -> Any:
    r"""Let a token into I\0: return ρ_in with it; its row raises each column's largest cosine."""
    if 0 <= column < best.shape[0]:
        highest = max(highest, best[column])
    for j in range(best.shape[0]):
        here, most = line[j], best[j]
        best[j] = here if here > most else most
    return highest


@compiled()
def _largest_outside(best: Array, rank: Array, size: int, scratch: Array) -> Any:
    """Return the largest entry among columns outside I, `NO_PAIR` if none is."""
    bound, lowest = np.int32(size), best.dtype.type(NO_PAIR)
    for j in range(best.shape[0]):
        scratch[j] = best[j] if rank[j] >= bound else lowest
    return extremum(scratch, 1)


@compiled(fastmath={"contract"})
def _add_row(sums: Array, weight: float, line: Array) -> None:
    """Add weight · line to the float64 sums."""
    for j in range(sums.shape[0]):
        sums[j] += weight * np.float64(line[j])


@compiled(fastmath={"contract"})
def _add_four(
    sums: Array, weights: tuple[float, float, float, float], rows: tuple[Array, Array, Array, Array]
) -> None:
    """Add four rows with the same rounding as four calls of `_add_row`, in one pass."""
    (w0, w1, w2, w3), (x0, x1, x2, x3) = weights, rows
    for j in range(sums.shape[0]):
        total = sums[j]
        total += w0 * np.float64(x0[j])
        total += w1 * np.float64(x1[j])
        total += w2 * np.float64(x2[j])
        total += w3 * np.float64(x3[j])
        sums[j] = total


@compiled()
def _raise_by_four(best: Array, x0: Array, x1: Array, x2: Array, x3: Array) -> None:
    """Raise each column's largest cosine by four rows."""
    for j in range(best.shape[0]):
        here, there, most = x0[j], x1[j], best[j]
        low = here if here > there else there
        here, there = x2[j], x3[j]
        high = here if here > there else there
        more = low if low > high else high
        best[j] = more if more > most else most


@compiled()
def _split(
    weight: Array, sums: Array, rank: Array, size: int, inside: Array, outside: Array
) -> None:
    """Write h_l = a_l² − 2 a_l c_l of tokens in I to `inside` (−∞ elsewhere), of the others to
    `outside` (+∞ elsewhere).
    """
    bound, infinity = np.int32(size), inside.dtype.type(np.inf)
    for j in range(rank.shape[0]):
        h = inside.dtype.type(weight[j] * (weight[j] - (sums[j] + sums[j])))
        selected = rank[j] < bound
        inside[j] = h if selected else -infinity
        outside[j] = infinity if selected else h


@compiled()
def walk(
    cosine: Array,
    y: Array,
    weight: Array,
    order: Array,
    enters: Array,
    rank: Array,
    n: Array,
    strict: bool,
    s: Array,
    out: Array,
    rho: Array,
) -> None:
    """Measure separability and the largest cosines of one head at every N, from the cosines of all
    pairs.

    One walk over tokens in the order of selection: c_l = Σ_{k∈I} a_k cos_kl grows by one row a
    token, in float64, and D_l − ‖s‖² = a_l² − 2 a_l c_l. That costs T operations a pair (N, l)
    less than a product of representatives with contributions, whatever the number of N.

    Args:
        cosine: all pairs, at least (token, token), C-contiguous.
        y: contributions αv, (token, dimension).
        weight, order, enters, n, strict, s: as in `head_kernels`; weight in float64.
        rank: index of each token in `order`, −1 for a zero vector, (token) int32.
        out: filled with precision, recall, r_min, r_max, (n, 4) float64.
        rho: filled with ρ_in and ρ_out, (2, n), `NO_PAIR` where there is none; (2, 0) omits them,
            which saves a quarter of the time.
    """
    tokens, maxima = order.shape[0], rho.shape[1] > 0
    # Including zero vectors, which are selected like any other.
    rank_of_all = np.empty(tokens, np.int32)
    for r in range(tokens):
        rank_of_all[order[r]] = r
    every = np.arange(tokens)
    sums = np.zeros(tokens)
    best = np.full(tokens, cosine.dtype.type(NO_PAIR))
    inside, outside = np.empty_like(best), np.empty_like(best)
    highest = best[0]
    selected = 0
    for row in range(n.shape[0]):
        # Content tokens enter by fours: one sweep over c_l and over the columns' largest cosines
        # instead of four.
        while selected + 4 <= n[row]:
            t0, t1 = order[selected], order[selected + 1]
            t2, t3 = order[selected + 2], order[selected + 3]
            if not (enters[t0] and enters[t1] and enters[t2] and enters[t3]):
                break
            x0, x1, x2, x3 = cosine[t0], cosine[t1], cosine[t2], cosine[t3]
            rows = (x0, x1, x2, x3)
            _add_four(sums, (weight[t0], weight[t1], weight[t2], weight[t3]), rows)
            if maxima:
                # ρ_in: each against those before the four, then the six pairs among them.
                highest = max(highest, best[t0], best[t1], best[t2], best[t3])
                highest = max(highest, x0[t1], x0[t2], x0[t3], x1[t2], x1[t3], x2[t3])
                _raise_by_four(best, x0, x1, x2, x3)
            selected += 4
        # The sink, zero vectors and what is left over enter one by one.
        while selected < n[row]:
            token = order[selected]
            line = cosine[token]
            _add_row(sums, weight[token], line)
            if maxima and enters[token]:
                highest = _enter(line, token, best, highest)
            selected += 1
        if maxima:
            rho[0, row], rho[1, row] = highest, _largest_outside(best, rank, selected, inside)
        _split(weight, sums, rank_of_all, selected, inside, outside)
        balls(inside, outside, every, every, y, s[row], selected, strict, out[row])


@compiled()
def _cells(line: Array, cell_of_lag: Array, cells: Array) -> None:
    """Write the histogram cell of each pair of a row; bins are closed on the left."""
    half = np.int32(COSINE_BINS // 2)
    scale = line.dtype.type(COSINE_BINS // 2)
    for j in range(line.shape[0]):
        bin_ = np.int32(np.floor(line[j] * scale))
        bin_ = max(-half, min(np.int32(half - 1), bin_))
        cells[j] = cell_of_lag[j] + np.int32(bin_ + half)


@compiled()
def add_pairs(
    cosine: Array,
    first: int,
    columns: int,
    rows: tuple[int, int, int],
    stops: Array,
    cell_of_lag: Array,
    sums: Array,
    squares: Array,
    negatives: Array,
    tables: Array,
) -> None:
    """Add the pairs of one block of columns (later token) with every step-th row (earlier token) to
    the sums by lag.

    Args:
        cosine: all rows, this block's columns, C-contiguous.
        first: token of the block's first column.
        columns: tokens in the block.
        rows: first row, end and step of the rows to add.
        stops: last token plus one of each position block, ascending.
        cell_of_lag: first histogram cell of each lag, index lag − 1, int32.
        sums: Σ cos by position block of the later token and lag, (block, lag) float64.
        squares: Σ cos², (lag) float64.
        negatives: number of cosines below 0, (lag) int32.
        tables: histogram cells, (4, cell) int32.
    """
    cells = np.empty(columns, np.int32)
    zero = cosine.dtype.type(0)
    for i in range(rows[0], rows[1], rows[2]):
        begin = max(i + 1, first)
        if begin >= first + columns:
            break
        line = cosine[i, begin - first : columns]
        # Σ cos by position block: the row is cut where the blocks of the later token end.
        lag = begin - i - 1
        start = begin
        for block in range(stops.shape[0]):
            stop = min(stops[block], first + columns)
            if stop > start:
                part, total = line[start - begin : stop - begin], sums[block, start - i - 1 :]
                for j in range(part.shape[0]):
                    total[j] += part[j]
                start = stop
        # Σ cos² and the count of negatives, each a loop of its own so that it vectorises.
        square, negative = squares[lag:], negatives[lag:]
        for j in range(line.shape[0]):
            square[j] += np.float64(line[j]) * np.float64(line[j])
        for j in range(line.shape[0]):
            negative[j] = np.int32(negative[j] + np.int32(line[j] < zero))
        # The histogram: cells first, then counts, into four tables in turn.
        _cells(line, cell_of_lag[lag:], cells)
        whole = line.shape[0] - line.shape[0] % TABLES
        for j in range(0, whole, TABLES):
            tables[0, cells[j]] += 1
            tables[1, cells[j + 1]] += 1
            tables[2, cells[j + 2]] += 1
            tables[3, cells[j + 3]] += 1
        for j in range(whole, line.shape[0]):
            tables[0, cells[j]] += 1
