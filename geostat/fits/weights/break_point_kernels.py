"""Compiled kernels of the search for break points; `break_points` describes the fit.

theta = (b, η_osc, ω, η_tail), the last unused when η is shared; indices j count content tokens from
0, `first` is the position of the first, T₁ and T₂ are j1 and j2. w is 1 for a known token and 0 for
an unknown one, whose y is 0. All kernels share one file: numba's cache of a kernel watches only
that kernel's file, and a kernel that calls another file's goes stale. Imports empirical, for its
compiler, numpy and numba.
"""

from __future__ import annotations

import numpy as np

from empirical.measure.compiled import compiled

CANDIDATES = 5
"""Number of best coarse frequencies that are refined."""
MIN_OSCILLATION = 8
"""Minimum number of tokens of an oscillation; with fewer, four free parameters fit anything."""
TOGETHER = 256
"""Number of frequencies per batch of the coarse search: its sums fit the cache."""
STRIDE = 32
"""Number of tokens whose cosines are computed from that of the first."""
ETA_MAX = 0.99
"""Largest η of an oscillation; at η = 1 its logarithm is unbounded."""


@compiled()
def _waves(omega, first, start, stop, cosine, sine):  # type: ignore[no-untyped-def]
    """Write cos ωi and sin ωi of tokens start to stop − 1.

    Those of every STRIDE-th token are rotated by ω, 2ω, …: four multiplications instead of the
    fifty operations of two cosines.
    """
    turn_cosine, turn_sine = np.empty(STRIDE), np.empty(STRIDE)
    for k in range(min(STRIDE, stop - start)):
        turn_cosine[k], turn_sine[k] = np.cos(omega * k), np.sin(omega * k)
    for begin in range(start, stop, STRIDE):
        at_cosine, at_sine = np.cos(omega * (first + begin)), np.sin(omega * (first + begin))
        count = min(STRIDE, stop - begin)
        cosines, sines = cosine[begin : begin + count], sine[begin : begin + count]
        for k in range(count):
            cosines[k] = at_cosine * turn_cosine[k] - at_sine * turn_sine[k]
            sines[k] = at_sine * turn_cosine[k] + at_cosine * turn_sine[k]


@compiled(fastmath={"reassoc", "contract"})
def _level_sums(y, w, b):  # type: ignore[no-untyped-def]
    """Return Σ w, Σ w r and Σ w r² of residuals r = y − b."""
    weight, first, second = 0.0, 0.0, 0.0
    for j in range(y.size):
        r = y[j] - b
        weight += w[j]
        first += w[j] * r
        second += w[j] * r * r
    return weight, first, second


@compiled(fastmath={"reassoc", "contract"})
def _tail_sums(y, w, b, tail):  # type: ignore[no-untyped-def]
    """Return Σ w, Σ w u, Σ w u², Σ w r, Σ w u r and Σ w r².

    The residuals are r = y − b − tail·u; u = 1, 2, … counts tokens after T₂.
    """
    weight, one, two, r_sum, ur, rr = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(y.size):
        u = j + 1.0
        r = y[j] - b - tail * u
        weight += w[j]
        one += w[j] * u
        two += w[j] * u * u
        r_sum += w[j] * r
        ur += w[j] * u * r
        rr += w[j] * r * r
    return weight, one, two, r_sum, ur, rr


@compiled(fastmath={"reassoc", "contract"})
def _oscillation_sums(y, w, b, eta, x, cosine, sine, log, hess, bend, grad):  # type: ignore[no-untyped-def]
    """Add the sums of oscillating tokens from position x to those of `normal_equations`.

    `log` is log(1 + η cos ωi).
    """
    weight, r_sum, rr = 0.0, 0.0, 0.0
    h1, h2, h11, h12, h22, g1, g2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    b11, b12, b22 = 0.0, 0.0, 0.0
    for j in range(y.size):
        i = x + j
        r = w[j] * (y[j] - b - log[j])
        level = 1.0 / (1.0 + eta * cosine[j])
        d1 = cosine[j] * level
        s = i * sine[j] * level
        d2 = -eta * s
        weight += w[j]
        r_sum += r
        rr += r * r
        h1 += w[j] * d1
        h2 += w[j] * d2
        h11 += w[j] * d1 * d1
        h12 += w[j] * d1 * d2
        h22 += w[j] * d2 * d2
        g1 += d1 * r
        g2 += d2 * r
        b11 += d1 * d1 * r
        b12 += s * level * r
        b22 += eta * i * i * (cosine[j] + eta) * level * level * r
    hess[0, 0] += weight
    hess[0, 1] += h1
    hess[0, 2] += h2
    hess[1, 1] += h11
    hess[1, 2] += h12
    hess[2, 2] += h22
    grad[0] += r_sum
    grad[1] += g1
    grad[2] += g2
    bend[1, 1] += b11
    bend[1, 2] += b12
    bend[2, 2] += b22
    return rr


@compiled()
def normal_equations(theta, y, w, first, j1, j2, shared, hess, bend, grad, waves):  # type: ignore[no-untyped-def]
    """Write J'J, J'J − Σ r ∇²model and J'r for theta = (b, η_osc, ω, η_tail).

    Returns the sum of squares. w is 0 or 1; `waves` is a buffer of three rows of y's length.
    """
    hess[:] = 0.0
    bend[:] = 0.0
    grad[:] = 0.0
    slot = 1 if shared else 3
    weight, r_sum, total = _level_sums(y[: j1 + 1], w[: j1 + 1], theta[0])
    hess[0, 0] += weight
    grad[0] += r_sum
    if j2 > j1:
        start, stop = j1 + 1, j2 + 1
        part = slice(start, stop)
        _waves(theta[2], first, start, stop, waves[0], waves[1])
        for j in range(start, stop):
            waves[2, j] = np.log1p(theta[1] * waves[0, j])
        total += _oscillation_sums(
            y[part],
            w[part],
            theta[0],
            theta[1],
            float(first + start),
            waves[0, part],
            waves[1, part],
            waves[2, part],
            hess,
            bend,
            grad,
        )
    weight, one, two, r_sum, ur, rr = _tail_sums(
        y[j2 + 1 :], w[j2 + 1 :], theta[0], theta[1] if shared else theta[3]
    )
    hess[0, 0] += weight
    hess[0, slot] += one
    hess[slot, slot] += two
    grad[0] += r_sum
    grad[slot] += ur
    total += rr
    for a in range(4):
        for c in range(a):
            hess[a, c] = hess[c, a]
            bend[a, c] = bend[c, a]
    bend += hess
    return total


@compiled()
def solve_step(matrix, hess, grad, damping, free, step):  # type: ignore[no-untyped-def]
    """Solve (matrix + damping·diag J'J) step = J'r on the free parameters by elimination.

    Returns False unless the matrix is positive definite.
    """
    m = np.zeros((4, 5))
    for a in range(4):
        if free[a]:
            for c in range(4):
                if free[c]:
                    m[a, c] = matrix[a, c]
            m[a, a] += damping * hess[a, a]
            m[a, 4] = grad[a]
        else:
            m[a, a] = 1.0
    for a in range(4):
        if m[a, a] <= 1e-14 * hess[a, a]:
            return False
        for c in range(a + 1, 4):
            f = m[c, a] / m[a, a]
            for k in range(a, 5):
                m[c, k] -= f * m[a, k]
    for a in range(3, -1, -1):
        value = m[a, 4]
        for c in range(a + 1, 4):
            value -= m[a, c] * step[c]
        step[a] = value / m[a, a]
    return True


@compiled()
def descend(theta, y, w, first, j1, j2, shared, tolerance, limit):  # type: ignore[no-untyped-def]
    """Run damped Newton with fixed break points, which updates theta in place; return (squares,
    converged).

    J'J replaces the Hessian where the Hessian is not positive definite. J'J alone would take
    hundreds of steps where residuals are large, as in real heads.
    """
    n = y.size
    low = np.array([-np.inf, 0.0, 2.0 * np.pi / max(j2 - j1, 2), 0.0])
    high = np.array([np.inf, ETA_MAX, np.pi, np.inf])
    for a in range(1, 4):
        theta[a] = min(max(theta[a], low[a]), high[a])
    hess, bend, grad = np.zeros((4, 4)), np.zeros((4, 4)), np.zeros(4)
    other_hess, other_bend, other_grad = np.zeros((4, 4)), np.zeros((4, 4)), np.zeros(4)
    step, trial, waves = np.zeros(4), np.zeros(4), np.empty((3, n))
    free = np.ones(4, dtype=np.bool_)
    squares = normal_equations(theta, y, w, first, j1, j2, shared, hess, bend, grad, waves)
    damping = 1e-3
    for _ in range(limit):
        for a in range(4):
            free[a] = (
                hess[a, a] > 0.0
                and not (theta[a] <= low[a] and grad[a] <= 0.0)
                and not (theta[a] >= high[a] and grad[a] >= 0.0)
            )
        free[3] = free[3] and not shared and j2 < n - 1
        small = True
        if not solve_step(bend, hess, grad, damping, free, step) and not solve_step(
            hess, hess, grad, damping, free, step
        ):
            return squares, False
        for a in range(4):
            trial[a] = min(max(theta[a] + (step[a] if free[a] else 0.0), low[a]), high[a])
            small = small and abs(trial[a] - theta[a]) <= tolerance * (abs(theta[a]) + 1e-8)
        # Most steps are accepted: the trial also computes the derivatives of the next step.
        loss = normal_equations(
            trial, y, w, first, j1, j2, shared, other_hess, other_bend, other_grad, waves
        )
        if loss <= squares:
            theta[:] = trial
            squares = loss
            hess, other_hess = other_hess, hess
            bend, other_bend = other_bend, bend
            grad, other_grad = other_grad, grad
            damping = max(damping * 0.1, 1e-12)
            if small:
                return squares, True
        else:
            if small:
                return squares, True
            damping *= 10.0
            if damping > 1e12:
                return squares, True
    return squares, False


@compiled()
def scan(theta, y, w, first, shared):  # type: ignore[no-untyped-def]
    """Return the exact best pair of break points (j1, j2) at theta, by a prefix maximum over j1."""
    n = y.size
    reach = max(MIN_OSCILLATION, int(np.ceil(2.0 * np.pi / theta[2] - 1e-9)))
    tail = np.zeros(n)
    s0, su, suu, sy, suy = 0.0, 0.0, 0.0, 0.0, 0.0
    for j2 in range(n - 2, -1, -1):
        s0 += w[j2 + 1]
        sy += w[j2 + 1] * (y[j2 + 1] - theta[0])
        suu += 2.0 * su + s0
        su += s0
        suy += sy
        if shared:
            tail[j2] = theta[1] * (theta[1] * suu - 2.0 * suy)
        elif suy > 0.0 and suu > 0.0:
            tail[j2] = -suy * suy / suu
    cost = np.zeros(n)  # oscillation from the start to j2, relative to a plateau
    cosine, sine = np.empty(n), np.empty(n)
    _waves(theta[2], first, 0, n, cosine, sine)
    total = 0.0
    for j in range(n):
        r = y[j] - theta[0]
        g = np.log1p(theta[1] * cosine[j])
        total += w[j] * g * (g - 2.0 * r)
        cost[j] = total
    best, b1, b2, top, top_j = np.inf, -1, -1, -np.inf, -1
    for j2 in range(reach, n):
        if cost[j2 - reach] > top:
            top, top_j = cost[j2 - reach], j2 - reach
        loss = cost[j2] - top + tail[j2]
        if loss < best:
            best, b1, b2 = loss, top_j, j2
    return b1, b2


@compiled()
def refine(theta, y, w, first, j1, j2, shared, rounds):  # type: ignore[no-untyped-def]
    """Alternate exact break points and descent until neither changes; return (squares, j1, j2)."""
    squares, _ = descend(theta, y, w, first, j1, j2, shared, 1e-4, 12)
    other = theta.copy()
    for _ in range(rounds):
        k1, k2 = scan(theta, y, w, first, shared)
        if k1 < 0 or (k1 == j1 and k2 == j2):
            break
        other[:] = theta
        loss, _ = descend(other, y, w, first, k1, k2, shared, 1e-4, 12)
        if loss >= squares:
            break
        theta[:] = other
        squares, j1, j2 = loss, k1, k2
    return squares, j1, j2


@compiled()
def climb(theta, y, w, first, j1, j2, shared, squares):  # type: ignore[no-untyped-def]
    """Move T₂, then T₁, by 1 to 16 tokens while the loss falls; return (squares, j1, j2)."""
    n = y.size
    other = theta.copy()
    for _ in range(40):
        moved = False
        for end in range(2):
            for size in (16, 8, 4, 2, 1):
                for sign in (-1, 1):
                    k1 = j1 + (sign * size if end else 0)
                    k2 = j2 + (0 if end else sign * size)
                    if k1 < 0 or k2 >= n or k2 - k1 < MIN_OSCILLATION:
                        continue
                    other[:] = theta
                    loss, _ = descend(other, y, w, first, k1, k2, shared, 1e-4, 6)
                    if loss < squares * (1.0 - 1e-10):
                        theta[:] = other
                        squares, j1, j2, moved = loss, k1, k2, True
        if not moved:
            break
    return squares, j1, j2


@compiled()
def _monotone(y, w, out):  # type: ignore[no-untyped-def]
    """Write the best plateau-and-growth fit of one row."""
    n = y.size
    weight, sum_y, sum_yy = 0.0, 0.0, 0.0
    for j in range(n):
        weight += w[j]
        sum_y += w[j] * y[j]
        sum_yy += w[j] * y[j] * y[j]
    best, best_b, best_eta, best_j = sum_yy - sum_y * sum_y / weight, sum_y / weight, 0.0, n - 1
    s0, su, suu, sy, suy = 0.0, 0.0, 0.0, 0.0, 0.0  # over the tail, u = j − T2
    for j2 in range(n - 2, -1, -1):
        s0 += w[j2 + 1]
        sy += w[j2 + 1] * y[j2 + 1]
        suu += 2.0 * su + s0
        su += s0
        suy += sy
        det = weight * suu - su * su
        if det <= 1e-12 * weight * suu:
            continue
        eta = (weight * suy - su * sum_y) / det
        if eta <= 0.0:
            continue
        b = (sum_y - eta * su) / weight
        loss = sum_yy - b * sum_y - eta * suy
        if loss < best - 1e-13 * sum_yy:
            best, best_b, best_eta, best_j = loss, b, eta, j2
    squares = 0.0
    for j in range(n):
        r = y[j] - best_b - best_eta * max(j - best_j, 0)
        squares += w[j] * r * r
    out[0], out[1], out[2], out[3] = squares, best_b, 0.0, best_eta
    out[4], out[5], out[6], out[7] = np.nan, best_j, best_j, 1.0


@compiled(fastmath={"contract"})
def _project(rows, cosines, starts, projected):  # type: ignore[no-untyped-def]
    """Write Σ r cos(ωi) of each row over each block, for every frequency: (row, block, frequency).

    All rows share one pass over the cosines, (token, frequency), which take many megabytes.
    """
    projected[:] = 0.0
    for k in range(starts.size - 1):
        for j in range(starts[k], starts[k + 1]):
            cosine = cosines[j]
            for i in range(rows.shape[0]):
                r, total = rows[i, j], projected[i, k]
                for f in range(total.size):
                    total[f] += r * cosine[f]


@compiled()
def _tails(r, w, starts, etas):  # type: ignore[no-untyped-def]
    """Return the best gain of a tail that starts within each block, and its start.

    Row e has slope etas[e]; the last row has the best slope.
    """
    n, slopes = r.size, etas.size
    blocks = starts.size - 1
    gain = np.full((slopes + 1, blocks), np.inf)
    where = np.zeros((slopes + 1, blocks), dtype=np.int64)
    s0, su, suu, sy, suy = 0.0, 0.0, 0.0, 0.0, 0.0
    k = blocks - 1
    for j2 in range(n - 1, -1, -1):
        if j2 < n - 1:
            s0 += w[j2 + 1]
            sy += r[j2 + 1]
            suu += 2.0 * su + s0
            su += s0
            suy += sy
        while j2 < starts[k]:
            k -= 1
        for e in range(slopes + 1):
            value = 0.0
            if e < slopes:
                value = etas[e] * (etas[e] * suu - 2.0 * suy)
            elif suy > 0.0 and suu > 0.0:
                value = -suy * suy / suu
            if value < gain[e, k]:
                gain[e, k], where[e, k] = value, j2
    return gain, where


@compiled()
def _add_block(cos2, cos, projected, swing, mean, own, block, old, new):  # type: ignore[no-untyped-def]
    """Add one block's oscillation to the sums, and update the largest sum and its block."""
    sums, top, at = old
    new_sums, new_top, new_at = new
    for f in range(cos2.size):
        total = sums[f] + (
            swing * (swing * cos2[f] + 2.0 * mean * cos[f] - 2.0 * projected[f]) + own
        )
        new_sums[f] = total
        more = total > top[f]
        new_top[f] = total if more else top[f]
        new_at[f] = block if more else at[f]


@compiled()
def _keep_best(sums, top, at, shared, separate, place, score, other, pick, other_pick):  # type: ignore[no-untyped-def]
    """Update the smallest gain of each frequency, for both forms, and its place."""
    for f in range(sums.size):
        base = sums[f] - top[f]
        less, other_less = base + shared < score[f], base + separate < other[f]
        score[f] = base + shared if less else score[f]
        other[f] = base + separate if other_less else other[f]
        pick[f] = place + at[f] if less else pick[f]
        other_pick[f] = place + at[f] if other_less else other_pick[f]


@compiled()
def _coarse(projected, block_cos, block_cos2, block_r, starts, fastest, etas, tails, score, picks):  # type: ignore[no-untyped-def]
    """Write the best coarse gain over amplitudes and pairs of blocks, for each form and frequency.

    The place of the best is (amplitude·B + last block)·B + first block, B = blocks + 1. Arrays of
    blocks are (block, frequency): inner loops run over frequencies, TOGETHER at a time. `fastest`
    is that of `break_points`.
    """
    blocks, count = projected.shape
    score[:] = np.inf
    # Sums of the oscillation from the start to each block; the largest sum, and its block.
    sums, top = np.zeros((blocks + 1, TOGETHER)), np.zeros((blocks + 1, TOGETHER))
    at = np.zeros((blocks + 1, TOGETHER), dtype=np.int64)
    for begin in range(0, count, TOGETHER):
        end = min(begin + TOGETHER, count)
        for e in range(etas.size):
            root = np.sqrt(1.0 - etas[e] * etas[e])
            mean, swing = np.log((1.0 + root) / 2.0), 2.0 * (1.0 - root) / etas[e]
            for k in range(blocks):
                own = mean * (mean * (starts[k + 1] - starts[k]) - 2.0 * block_r[k])
                cos2, cos = block_cos2[k, begin:end], block_cos[k, begin:end]
                old, new = (sums[k], top[k], at[k]), (sums[k + 1], top[k + 1], at[k + 1])
                _add_block(cos2, cos, projected[k, begin:end], swing, mean, own, k + 1, old, new)
            for k in range(1, blocks + 1):
                # A tail that starts inside block k: the oscillation ends at the block's start, to
                # not fit the tail.
                shared = tails[e, k] if k < blocks else 0.0
                separate = tails[etas.size, k] if k < blocks else 0.0
                place = (e * (blocks + 1) + k) * (blocks + 1)
                # An oscillation from block a must span a period. a is the last allowed first block
                # for the frequencies from `fastest` of a up to `fastest` of a + 1.
                stop = end
                for a in range(k - 1, -1, -1):
                    start = max(fastest[starts[k] - starts[a]], begin)
                    if start < stop:
                        part, here = slice(start, stop), slice(start - begin, stop - begin)
                        _keep_best(
                            sums[k, here],
                            top[a, here],
                            at[a, here],
                            shared,
                            separate,
                            place,
                            score[0, part],
                            score[1, part],
                            picks[0, part],
                            picks[1, part],
                        )
                        stop = start
                    if stop <= begin:
                        break


@compiled()
def _oscillating(y, w, r, projected, first, level, slope, grids, etas, out):  # type: ignore[no-untyped-def]
    """Write the best shared (out[0]) and separate (out[1]) fit of one row: steps 2-4."""
    frequencies, block_cos, block_cos2, starts, fastest = grids
    n, blocks = y.size, starts.size - 1
    block_r = np.zeros(blocks)
    for k in range(blocks):
        for j in range(starts[k], starts[k + 1]):
            block_r[k] += r[j]
    if slope > 0.0:  # a long tail fixes a shared η better than any grid
        etas = np.append(etas, min(slope, ETA_MAX))
    tails, where = _tails(r, w, starts, etas)
    scores = np.empty((2, frequencies.size))
    picks = np.zeros((2, frequencies.size), dtype=np.int64)
    _coarse(projected, block_cos, block_cos2, block_r, starts, fastest, etas, tails, scores, picks)
    for form in range(2):
        shared, score = form == 0, scores[form]
        best, best_theta, best_1, best_2 = np.inf, np.zeros(4), -1, -1
        for _ in range(CANDIDATES):
            f = np.argmin(score)
            if not np.isfinite(score[f]):
                break
            place, k1 = divmod(picks[form, f], blocks + 1)
            e, k2 = divmod(place, blocks + 1)
            j2 = where[e if shared else etas.size, k2] if k2 < blocks else n - 1
            j1 = min(max(starts[k1] - 1, 0), j2 - MIN_OSCILLATION)
            if j1 >= 0:
                theta = np.array([level, etas[e], frequencies[f], etas[e] if shared else slope])
                squares, j1, j2 = refine(theta, y, w, first, j1, j2, shared, 4)
                if squares < best:
                    best, best_1, best_2 = squares, j1, j2
                    best_theta[:] = theta
            score[max(f - 2, 0) : f + 3] = np.inf
        if best_1 < 0:
            out[form, :] = np.nan
            continue
        best, best_1, best_2 = climb(best_theta, y, w, first, best_1, best_2, shared, best)
        best, best_1, best_2 = refine(best_theta, y, w, first, best_1, best_2, shared, 8)
        best, converged = descend(best_theta, y, w, first, best_1, best_2, shared, 1e-10, 400)
        out[form, 0], out[form, 1] = best, best_theta[0]
        out[form, 2], out[form, 4] = best_theta[1], best_theta[2]
        out[form, 3] = best_theta[1] if shared else (best_theta[3] if best_2 < n - 1 else 0.0)
        out[form, 5], out[form, 6], out[form, 7] = best_1, best_2, 1.0 if converged else 0.0


@compiled()
def search_rows(  # type: ignore[no-untyped-def]
    rows, first, frequencies, cosines, block_cos, block_cos2, starts, fastest, etas, out
):
    """Fit each row with all forms, in the order of FORMS.

    If `out` has room for one form, only the monotone form is fitted.
    """
    out[:] = np.nan
    oscillates = np.zeros(rows.shape[0], dtype=np.bool_)
    centres = np.zeros(rows.shape[0])
    centred, weights = np.zeros(rows.shape), np.zeros(rows.shape)
    residual = np.zeros(rows.shape)
    for i in range(rows.shape[0]):
        known = np.isfinite(rows[i])
        count = known.sum()
        if count == 0:
            continue
        y, w = centred[i], weights[i]
        centre = 0.0
        for j in range(y.size):
            if known[j]:
                w[j] = 1.0
                centre += rows[i, j] / count
        spread = 0.0
        for j in range(y.size):
            if known[j]:
                y[j] = rows[i, j] - centre
                spread += y[j] * y[j]
        if spread <= 1e-24 * count * (1.0 + centre * centre):  # constant up to rounding: no search
            out[i, 0, 0], out[i, 0, 1], out[i, 0, 2], out[i, 0, 3] = 0.0, centre, 0.0, 0.0
            out[i, 0, 5], out[i, 0, 6], out[i, 0, 7] = y.size - 1, y.size - 1, 1.0
            continue
        _monotone(y, w, out[i, 0])
        oscillates[i] = out.shape[1] > 1 and count >= MIN_OSCILLATION + 4
        residual[i] = w * (y - out[i, 0, 1])
        centres[i] = centre
    projected = np.empty((rows.shape[0], starts.size - 1, frequencies.size))
    if oscillates.any():
        _project(residual, cosines, starts, projected)
    grids = (frequencies, block_cos, block_cos2, starts, fastest)
    for i in range(rows.shape[0]):
        if oscillates[i]:
            y, w, r, level, slope = centred[i], weights[i], residual[i], out[i, 0, 1], out[i, 0, 3]
            _oscillating(y, w, r, projected[i], first, level, slope, grids, etas, out[i, 1:])
        out[i, :, 1] += centres[i]


@compiled()
def monotone_rows(rows, out):  # type: ignore[no-untyped-def]
    """Write the residuals of the best plateau-and-growth fit of each row of finite numbers."""
    n = rows.shape[1]
    w, result = np.ones(n), np.zeros(8)
    for i in range(rows.shape[0]):
        _monotone(rows[i], w, result)
        for j in range(n):
            out[i, j] = rows[i, j] - result[1] - result[3] * max(j - result[5], 0.0)
