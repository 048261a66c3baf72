"""Compiled inner loop of the sharp edition. Imported lazily by `theory.evaluate.many_profiles`:
importing it loads numba.

With r = (Γ_jj − Γ_ii)/√((Γ_ii+Γ_jj)² − 4Γ_ij²) the pairwise law is P{D_j ≤ D_i} = ∫_r^1
(1−u²)^{d/2−1} du / ∫_{−1}^1 (1−u²)^{d/2−1} du: one square root, one division and a cubic table
lookup a pair. The kernel holds no state and releases the interpreter lock. Imports numpy and numba.
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
    own: FloatArray,
    moment: FloatArray,
    sigma_ss: float,
    selected: tuple[float, float, float],
    fine: float,
    out: FloatArray,
) -> int:
    """Write r_ij of one selected token i and all unselected tokens j into `out`; return how many
    are ties or not inside (−1, 1).

    `selected` holds a, own and moment of i; the arrays are those of the j, and their cosines with
    i. As slices, not as ranks of the whole: an index that might be negative keeps the loop from
    reading several numbers at once.
    """
    a_i, own_i, moment_i = selected
    base = 4 * sigma_ss + 2 * moment_i - own_i
    double = 2 * a_i
    odd = 0
    for m in range(out.shape[0]):
        # E‖y_i − y_j‖² and E‖2s − y_i − y_j‖²: their product less the squared rise is 4(Γ_ii Γ_jj −
        # Γ_ij²)
        twice = double * a[m] * cosine[m]
        both = own_i + own[m]
        apart = both - twice
        opposite = base + 2 * moment[m] - own[m] + twice
        r = (moment[m] - moment_i) / np.sqrt(apart * opposite)
        out[m] = r
        # a tie, or an r that rounding brought out of (−1, 1): settled by `mend_row`
        odd += 0 if (apart > fine * both) & (abs(r) < 1.0) else 1
    return odd


@compiled(error_model="numpy", fastmath={"contract", "nsz", "nnan"})
def look_up_row(
    table: FloatArray, r: FloatArray, cell: npt.NDArray[np.int32], rest: FloatArray, out: FloatArray
) -> None:
    """Write what the table (cells + 1, 4) says of each |r| (M,) into `out`; `cell` and `rest` are
    scratch. No r may be NaN.

    As two loops: the first reads several numbers at once, which looking up in the table keeps a
    loop from. An index without a sign is not asked whether it counts from the end.
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
    """Add one row's probabilities to the columns, and its r to their least, all (M,); return the
    row's total and least. No r may be NaN. `looked_up` becomes the probabilities.

    The row's own apart from the rest, which would be done one number after another with it: its
    total in four parts, an order that no compiler may change, so that equal runs have equal bits.
    """
    for m in range(r.shape[0]):
        p = max(looked_up[m], 0.0)
        p = p if r[m] >= 0 else 1.0 - p
        looked_up[m] = p
        column_total[m] += p
        column_least[m] = min(column_least[m], r[m])
    one, two, three, four, least = 0.0, 0.0, 0.0, 0.0, 1.0
    whole = r.shape[0] - r.shape[0] % 4
    for m in range(0, whole, 4):
        one += looked_up[m]
        two += looked_up[m + 1]
        three += looked_up[m + 2]
        four += looked_up[m + 3]
        least = min(least, min(min(r[m], r[m + 1]), min(r[m + 2], r[m + 3])))
    for m in range(whole, r.shape[0]):
        one += looked_up[m]
        least = min(least, r[m])
    return (one + two) + (three + four), least


@compiled(error_model="numpy")
def mend_row(
    cosines: FloatArray,
    own: FloatArray,
    moment: FloatArray,
    sigma_ss: float,
    a: FloatArray,
    inside: float,
    i: int,
    n: int,
    rounding: tuple[float, float],
    r: FloatArray,
) -> tuple[int, float, float]:
    """Settle ties (r = −1) and determinants within rounding of 0 (r = ±1) in one row; return
    ties, least r off ties, worst determinant.
    """
    fine, coarse = rounding
    ties, least, worst = 0, 1.0, 0.0
    for m in range(r.shape[0]):
        j = n + m
        twice = 2 * a[i] * a[j] * cosines[i, j]
        both = own[i] + own[j]
        apart = both - twice
        opposite = 4 * sigma_ss + 2 * (moment[i] + moment[j]) - both + twice
        # what the terms of the determinant are made of: its rounding is relative to that
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
        # the difference of distances has no spread: its sign decides
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
    """Fill the totals and largest of `sharp_law.PairSums`, columns (2, M) and rows (2, N);
    return the worst clearly negative determinant, else 0.
    """
    own = a * a
    moment = own - 2 * sigma
    inside = a[:n].sum()
    r, looked_up, rest = np.empty(len(a) - n), np.empty(len(a) - n), np.empty(len(a) - n)
    cell = np.empty(len(a) - n, dtype=np.int32)
    columns[0] = 0.0
    column_least = np.ones(len(a) - n)
    worst = 0.0
    for i in range(n):
        selected = (a[i], own[i], moment[i])
        odd = pair_ratios(
            cosines[i, n:], a[n:], own[n:], moment[n:], sigma_ss, selected, rounding[0], r
        )
        ties, apart_least = 0, 1.0
        if odd > 0:
            ties, apart_least, bad = mend_row(
                cosines, own, moment, sigma_ss, a, inside, i, n, rounding, r
            )
            worst = min(worst, bad)
        look_up_row(table, r, cell, rest, looked_up)
        total, least = add_row(r, looked_up, columns[0], column_least)
        least = apart_least if odd > 0 else least
        # ties count for the outer ball always, for the inner one under `followup` alone
        strict = ties > 0 and not followup
        rows[0, i] = total - ties if strict else total
        rows[1, i] = look_up(table, -1.0 if (ties > 0 and followup) else least)
    for m in range(len(r)):
        columns[1, m] = look_up(table, column_least[m])
    return worst


@compiled(error_model="numpy")
def pairwise_sum(x: FloatArray) -> float:
    """Return the sum of x as numpy adds: halves apart down to 128 numbers, those in eight parts, so
    that rounding grows with the logarithm of their count.
    """
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
    """Fill `by_rank`, the first rows of (T, T), with the cosines by rank, and sigma (K, T),
    extremes (3, K) as `ranked.summary_of` takes them; sink −1 for none.
    """
    tokens = len(order)
    load = np.zeros(tokens)
    # by token: its largest cosine with selected content, and its least
    nearest, farthest = np.full(tokens, -np.inf), np.full(tokens, np.inf)
    rho_in, at = -np.inf, 0
    for k in range(len(by_rank)):
        # the row of the token of rank k, its columns by rank too
        position = order[k]
        for m in range(tokens):
            by_rank[k, m] = cosines[position, order[m]]
        by_rank[k, k] = 1.0
        # Σ_{k∈I} a_k ρ_kl, one token more
        for m in range(tokens):
            load[m] += a[k] * by_rank[k, m]
        if k != sink:
            rho_in = max(rho_in, nearest[k])  # with content selected before it
            for m in range(tokens):
                nearest[m] = max(nearest[m], by_rank[k, m])
                farthest[m] = min(farthest[m], by_rank[k, m])
        if at < len(sizes) and k + 1 == sizes[at]:
            sigma[at] = load * a
            rho_least = np.inf
            for m in range(tokens):
                rho_least = min(rho_least, np.inf if m == sink else farthest[m])
            extremes[0, at], extremes[1, at], extremes[2, at] = (
                rho_in,
                nearest[k + 1 :].max(),
                rho_least,
            )
            at += 1
