"""Compiled sharp bounds of one head at all sizes: `sharp_law.pairwise_bounds` with a tabulated law.
Imported lazily by `theory.evaluate.many_profiles`: importing it loads numba.

With r = (Γ_jj − Γ_ii)/√((Γ_ii+Γ_jj)² − 4Γ_ij²) the pairwise law is P{D_j ≤ D_i} = ∫_r^1
(1−u²)^{d/2−1} du / ∫_{−1}^1 (1−u²)^{d/2−1} du: one square root, one division and one cubic table
lookup per pair. The kernels hold no state and release the interpreter lock. Imports numpy and
numba.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from theory.arrays import FloatArray, IntArray
from theory.compiled import compiled


@compiled(inline="always")
def look_up(table: FloatArray, r: float) -> float:
    """Return the pairwise probability at r in [−1, 1] from cubic coefficients over |r|."""
    cells = table.shape[0] - 1
    x = abs(r) * cells
    k = int(x)
    f = x - k
    p = max(table[k, 0] + f * (table[k, 1] + f * (table[k, 2] + f * table[k, 3])), 0.0)
    return p if r >= 0 else 1.0 - p


@compiled(error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def pair_ratios(
    cosine: FloatArray,
    a: FloatArray,
    square: FloatArray,
    moment: FloatArray,
    sigma_ss: float,
    selected: tuple[float, float, float],
    fine: float,
    out: FloatArray,
) -> int:
    """Write r_ij of one selected token i and all unselected tokens j into `out`; return the number
    of ties and of values outside (−1, 1).

    `selected` holds a, a² and moment of i; the arrays hold those of the j and their cosines with i.
    They are slices: an index that might be negative would prevent vectorisation.
    """
    a_i, square_i, moment_i = selected
    base = 4 * sigma_ss + 2 * moment_i - square_i
    double = 2 * a_i
    unresolved = 0
    for m in range(out.shape[0]):
        # E‖y_i − y_j‖² and E‖2s − y_i − y_j‖²: their product minus the squared rise is 4(Γ_ii Γ_jj
        # − Γ_ij²)
        twice = double * a[m] * cosine[m]
        both = square_i + square[m]
        apart = both - twice
        opposite = base + 2 * moment[m] - square[m] + twice
        r = (moment[m] - moment_i) / np.sqrt(apart * opposite)
        out[m] = r
        # a tie, or an r that rounding moved out of (−1, 1): `resolve_row` corrects it
        unresolved += 0 if (apart > fine * both) & (abs(r) < 1.0) else 1
    return unresolved


@compiled(error_model="numpy", fastmath={"contract", "nsz", "nnan"})
def look_up_row(
    table: FloatArray, r: FloatArray, cell: npt.NDArray[np.int32], rest: FloatArray, out: FloatArray
) -> None:
    """Write the value of the table (cells + 1, 4) at each |r| (M,) into `out`; `cell` and `rest`
    are scratch. No r may be NaN.

    Two loops: the first vectorises, which a table lookup would prevent. An unsigned index needs no
    check for negative values.
    """
    cells = table.shape[0] - 1
    for m in range(r.shape[0]):
        x = abs(r[m]) * cells
        k = np.int32(x)
        cell[m] = k
        rest[m] = x - k
    for m in range(r.shape[0]):
        row, f = table[np.uint64(cell[m])], rest[m]
        out[m] = row[0] + f * (row[1] + f * (row[2] + f * row[3]))


@compiled(error_model="numpy", fastmath={"contract", "nsz", "nnan"})
def add_row(
    r: FloatArray, looked_up: FloatArray, column_total: FloatArray, column_least: FloatArray
) -> tuple[float, float]:
    """Add the probabilities of one row to the column totals and update the column minima of r, all
    (M,); return the total and the smallest r of the row. No r may be NaN. `looked_up` becomes the
    probabilities.

    The row total is a separate loop to keep the first one vectorised. It is summed in four parts,
    an order that no compiler may change: equal runs have equal bits.
    """
    for m in range(r.shape[0]):
        p = max(looked_up[m], 0.0)
        p = p if r[m] >= 0 else 1.0 - p
        looked_up[m] = p
        column_total[m] += p
        column_least[m] = min(column_least[m], r[m])
    first, second, third, fourth, least = 0.0, 0.0, 0.0, 0.0, 1.0
    whole = r.shape[0] - r.shape[0] % 4
    for m in range(0, whole, 4):
        first += looked_up[m]
        second += looked_up[m + 1]
        third += looked_up[m + 2]
        fourth += looked_up[m + 3]
        least = min(least, min(min(r[m], r[m + 1]), min(r[m + 2], r[m + 3])))
    for m in range(whole, r.shape[0]):
        first += looked_up[m]
        least = min(least, r[m])
    return (first + second) + (third + fourth), least


@compiled(error_model="numpy")
def resolve_row(
    cosines: FloatArray,
    square: FloatArray,
    moment: FloatArray,
    sigma_ss: float,
    a: FloatArray,
    inside: float,
    i: int,
    n: int,
    rounding: tuple[float, float],
    r: FloatArray,
) -> tuple[int, float, float]:
    """Resolve ties (r = −1) and determinants within rounding of 0 (r = ±1) in one row; return the
    number of ties, the smallest other r, and the worst determinant.
    """
    fine, coarse = rounding
    ties, least, worst = 0, 1.0, 0.0
    for m in range(r.shape[0]):
        j = n + m
        twice = 2 * a[i] * a[j] * cosines[i, j]
        both = square[i] + square[j]
        apart = both - twice
        opposite = 4 * sigma_ss + 2 * (moment[i] + moment[j]) - both + twice
        # scale of the terms of the determinant: its rounding is relative to it
        size = (inside + a[j]) ** 2
        rise = moment[j] - moment[i]
        determinant = apart * opposite - rise * rise
        slack = both * abs(opposite) + apart * size + abs(rise) * (abs(moment[i]) + abs(moment[j]))
        if determinant < -coarse * slack:
            worst = min(worst, determinant / slack)
        # y_i = y_j, or y_i + y_j = 2s: the distances are equal
        if apart <= fine * both or opposite <= fine * size:
            r[m] = -1.0
            ties += 1
            continue
        # the difference of distances is constant: its sign decides
        if determinant <= fine * slack:
            r[m] = 1.0 if rise > 0 else -1.0
        least = min(least, r[m])
    return ties, least, worst


@compiled(error_model="numpy")
def sum_pairs(
    cosines: FloatArray,
    a: FloatArray,
    sigma: FloatArray,
    sigma_ss: float,
    n: int,
    table: FloatArray,
    rounding: tuple[float, float],
    followup: bool,
    columns: FloatArray,
    rows: FloatArray,
) -> float:
    """Write totals and maxima of the pairwise law: over selected tokens (closed) to columns (2, M),
    over unselected tokens (strict; closed for `followup`) to rows (2, N). Return the worst clearly
    negative determinant, otherwise 0.
    """
    square = a * a
    moment = square - 2 * sigma
    inside = a[:n].sum()
    r, looked_up, rest = np.empty(len(a) - n), np.empty(len(a) - n), np.empty(len(a) - n)
    cell = np.empty(len(a) - n, dtype=np.int32)
    columns[0] = 0.0
    column_least = np.ones(len(a) - n)
    worst = 0.0
    for i in range(n):
        selected = (a[i], square[i], moment[i])
        unresolved = pair_ratios(
            cosines[i, n:], a[n:], square[n:], moment[n:], sigma_ss, selected, rounding[0], r
        )
        ties, apart_least = 0, 1.0
        if unresolved > 0:
            ties, apart_least, determinant = resolve_row(
                cosines, square, moment, sigma_ss, a, inside, i, n, rounding, r
            )
            worst = min(worst, determinant)
        look_up_row(table, r, cell, rest, looked_up)
        total, least = add_row(r, looked_up, columns[0], column_least)
        least = apart_least if unresolved > 0 else least
        # ties always count for the outer ball, for the inner ball only under `followup`
        strict = ties > 0 and not followup
        rows[0, i] = total - ties if strict else total
        rows[1, i] = look_up(table, -1.0 if (ties > 0 and followup) else least)
    for m in range(len(r)):
        columns[1, m] = look_up(table, column_least[m])
    return worst


@compiled(error_model="numpy")
def pairwise_sum(x: FloatArray) -> float:
    """Return the sum by pairwise summation as in numpy: its rounding grows with log n."""
    n = len(x)
    if n < 8:
        short = 0.0
        for value in x:
            short += value
        return short
    if n > 128:
        half = n // 2 - n // 2 % 8
        return pairwise_sum(x[:half]) + pairwise_sum(x[half:])
    parts, whole = x[:8].copy(), n - n % 8
    for start in range(8, whole, 8):
        for m in range(8):
            parts[m] += x[start + m]
    total = ((parts[0] + parts[1]) + (parts[2] + parts[3])) + (
        (parts[4] + parts[5]) + (parts[6] + parts[7])
    )
    for value in x[whole:]:
        total += value
    return total


@compiled(error_model="numpy")
def rank_and_sum(
    cosines: FloatArray,
    order: IntArray,
    a: FloatArray,
    sink: int,
    sizes: IntArray,
    by_rank: FloatArray,
    sigma: FloatArray,
    extremes: FloatArray,
) -> None:
    """Fill `by_rank`, the first rows of (T, T), with the cosines by rank, sigma (K, T) as in
    `ranked.summarise` and extremes (3, K) for `ranked.extremes_of`; sink −1 for none.
    """
    tokens = len(order)
    load = np.zeros(tokens)
    # largest and smallest cosine of each token with selected content
    nearest, farthest = np.full(tokens, -np.inf), np.full(tokens, np.inf)
    rho_in, size_index = -np.inf, 0
    for k in range(len(by_rank)):
        # row of the token of rank k, columns by rank
        position = order[k]
        for m in range(tokens):
            by_rank[k, m] = cosines[position, order[m]]
        by_rank[k, k] = 1.0
        # Σ_{k∈I} a_k ρ_kl with one more token
        for m in range(tokens):
            load[m] += a[k] * by_rank[k, m]
        if k != sink:
            rho_in = max(rho_in, nearest[k])  # with content selected earlier
            for m in range(tokens):
                nearest[m] = max(nearest[m], by_rank[k, m])
                farthest[m] = min(farthest[m], by_rank[k, m])
        if size_index < len(sizes) and k + 1 == sizes[size_index]:
            sigma[size_index] = load * a
            rho_least = np.inf
            for m in range(tokens):
                rho_least = min(rho_least, np.inf if m == sink else farthest[m])
            extremes[0, size_index] = rho_in
            extremes[1, size_index] = nearest[k + 1 :].max()
            extremes[2, size_index] = rho_least
            size_index += 1


@compiled(inline="always")
def between(total: float, weight: float, n: int, most: int) -> float:
    """Return w N/(w N + x) at x = `total`, linear between integer x in [0, most]; x counts
    unselected tokens in the ball. w = 1 is Precision, w = 2 is F(r_max).
    """
    floor = min(int(total), most - 1)
    low, high = weight * n / (weight * n + floor), weight * n / (weight * n + floor + 1)
    return low + (min(total, most) - floor) * (high - low)


@compiled(error_model="numpy")
def bounds_of_sums(columns: FloatArray, rows: FloatArray, followup: bool, out: FloatArray) -> None:
    """Write `BOUNDS`, (8,), from `sum_pairs`: rows (2, N) and columns (2, M)."""
    n, outside = rows.shape[1], columns.shape[1]
    covered = 0.0
    for m in range(outside):
        covered += min(1.0, columns[0, m])
    largest = np.sort(columns[1])
    precision, outer = 0.0, 0.0
    for m in range(outside):  # each step of P and F(r_max) with the m-th largest probability
        probability = largest[outside - 1 - m]
        precision += (n / (n + m) - n / (n + m + 1)) * probability
        outer += (2 * n / (2 * n + m) - 2 * n / (2 * n + m + 1)) * probability
    inside = np.empty(n)
    inside_high = 0.0
    for i in range(n):
        inside[i] = 1 - min(1.0, rows[0, i])
        inside_high += 1 - rows[1, i]
    least = np.sort(inside)
    inner, inside_low = 0.0, 0.0
    for i in range(n):
        inner += (2 * (i + 1) / (n + i + 1) - 2 * i / (n + i)) * least[n - 1 - i]
        inside_low += least[i]
    out[0], out[1] = between(covered, 1.0, n, outside), 1 - precision
    out[2], out[3] = inside_low / n, inside_high / n
    if followup:
        out[4] = max(0.0, out[0] + out[2] - 1)
        both = out[1] + out[3]
        out[5] = 2 * out[1] * out[3] / both if both > 0 else 0.0
        out[6], out[7] = out[4], out[5]
        return
    floor = min(int(inside_high), n - 1)
    low, high = 2 * floor / (n + floor), 2 * (floor + 1) / (n + floor + 1)
    out[4], out[5] = between(covered, 2.0, n, outside), 1 - outer
    out[6], out[7] = inner, low + (min(inside_high, n) - floor) * (high - low)


@compiled(error_model="numpy")
def bounds_of_head(
    cosines: FloatArray,
    a: FloatArray,
    sigma: FloatArray,
    sigma_ss: FloatArray,
    sizes: IntArray,
    table: FloatArray,
    rounding: tuple[float, float],
    followup: bool,
    out: FloatArray,
) -> float:
    """Write the bounds at each of K sizes, (8, K), of one head by rank: `cosines` (T, T), `a` (T,),
    `sigma` (K, T), `sigma_ss` (K,). Return the worst clearly negative determinant, otherwise 0.
    """
    worst = 0.0
    for index in range(len(sizes)):
        n = sizes[index]
        columns, rows = np.empty((2, len(a) - n)), np.empty((2, n))
        load, square = sigma[index], sigma_ss[index]
        determinant = sum_pairs(
            cosines, a, load, square, n, table, rounding, followup, columns, rows
        )
        worst = min(worst, determinant)
        bounds_of_sums(columns, rows, followup, out[:, index])
    return worst
