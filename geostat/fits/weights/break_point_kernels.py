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

FINALISTS = 4
"""Number of candidates per finalist."""
SEPARATION = 0.7
"""Smallest distance of the frequencies of candidates, radians over the profile."""
OFFSETS = np.array([0.0, -0.3, 0.3, -1.0, 1.0, -2.0, 2.0, -0.6, 0.6, -1.4, 1.4, -3.0, 3.0])
"""Offsets of the frequency in the refinement, radians over the profile."""
NEAR = 7
"""Number of offsets of a finalist; the best one of a thorough search takes all."""
ROUNDS = 40
"""Largest number of rounds of the last refinement."""
LONG, SEPARATE, SHORT = range(3)
"""Kinds of coarse fits: shared η with a long tail, separate η, shared η with a steep tail."""
STEEP = np.float32(0.2)
"""Least η of a steep tail."""
NONE = np.float32(1e30)
"""Score of a wave that has no pair of blocks."""
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
            waves[2, j] = np.log(1.0 + theta[1] * waves[0, j])
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
def tail_sums(y, w):  # type: ignore[no-untyped-def]
    """Return Σ wu, Σ wu² and Σ wuy of the tail after every j2, (3, token); u counts its tokens."""
    out = np.zeros((3, y.size))
    weight, level = 0.0, 0.0
    for j2 in range(y.size - 2, -1, -1):
        weight += w[j2 + 1]
        level += w[j2 + 1] * y[j2 + 1]
        out[0, j2] = out[0, j2 + 1] + weight
        out[1, j2] = out[1, j2 + 1] + 2.0 * out[0, j2 + 1] + weight
        out[2, j2] = out[2, j2 + 1] + level
    return out


@compiled(fastmath=True, error_model="numpy")
def _pair_squares(g, q, g2, q2, known, level, tail, slope, loss):  # type: ignore[no-untyped-def]
    """Write Σ r² − Σ wy² of all j1 at one j2, with the best level; a slope of −1 is free."""
    u, uu, uy = tail
    free, scale = slope < 0.0, 1.0 / (known * uu - u * u) if slope < 0.0 else 0.0
    for j in range(loss.size):
        rest = level - (g2 - g[j])
        rate = max(known * uy - u * rest, 0.0) * scale if free else slope
        b = rest - rate * u
        loss[j] = q2 - q[j] + rate * (rate * uu - 2.0 * uy) - b * b / known


@compiled()
def best_pair(theta, y, w, first, tails, shared, low, high):  # type: ignore[no-untyped-def]
    """Write level and slope of the best break points at η and ω of theta; return (j1, j2).

    Exact over low[0] ≤ j1 ≤ high[0] and low[1] ≤ j2 ≤ high[1]: each pair has its best level and
    slope. j1 is −1 if no pair spans a period. `tails` comes from `tail_sums`.
    """
    n = y.size
    reach = max(MIN_OSCILLATION, int(np.ceil(2.0 * np.pi / theta[2] - 1e-9)))
    start, stop = low[0], min(high[1], n - 1) + 1
    cosine, sine = np.empty(n), np.empty(n)
    _waves(theta[2], first, start, stop, cosine, sine)
    g, q = np.zeros(n), np.zeros(n)  # prefix sums of the wave, and of its square − 2 y wave
    for j in range(start + 1, stop):
        wave = w[j] * np.log(1.0 + theta[1] * cosine[j])
        g[j], q[j] = g[j - 1] + wave, q[j - 1] + wave * (wave - 2.0 * y[j])
    known, level, loss = w.sum(), (w * y).sum(), np.empty(n)
    best, b1, b2 = np.inf, -1, -1
    for j2 in range(max(low[1], start + reach), stop):
        u, uu, uy = tails[0, j2], tails[1, j2], tails[2, j2]
        slope = theta[1]
        if not shared:
            slope = -1.0 if known * uu - u * u > 1e-9 * known * uu else 0.0
        part = slice(start, min(high[0], j2 - reach) + 1)
        _pair_squares(g[part], q[part], g[j2], q[j2], known, level, (u, uu, uy), slope, loss[part])
        j1 = start + np.argmin(loss[part])
        if loss[j1] < best:
            best, b1, b2 = loss[j1], j1, j2
            rest = level - (g[j2] - g[j1])
            if slope < 0.0:
                slope = max(known * uy - u * rest, 0.0) / (known * uu - u * u)
            theta[0], theta[3] = (rest - slope * u) / known, slope
    return best, b1, b2


@compiled()
def refine(start, y, w, first, tails, shared, squares, width, steps, offsets, rounds):  # type: ignore[no-untyped-def]
    """Alternate exact break points within `width` tokens and descent until neither changes.

    Break points are solved at the frequency and at `offsets` from it (in radians over the profile);
    descent starts at the best. A shared η ties T₂ to the amplitude: where nothing else helps, break
    points are solved with a free slope. Updates start, (b, η, ω, η_tail, j1, j2); returns the
    squares.
    """
    n = y.size
    trial, best = start.copy(), start.copy()
    tied = shared
    for _ in range(rounds):
        least = np.inf
        j1, j2 = int(start[4]), int(start[5])
        low, high = (max(j1 - width, 0), max(j2 - width, 0)), (j1 + width, j2 + width)
        for offset in offsets:
            trial[:] = start
            trial[2] = min(max(start[2] + offset / n, 2.0 * np.pi / n), np.pi)
            loss, k1, k2 = best_pair(trial, y, w, first, tails, tied, low, high)
            same = offset == 0.0 and k1 == j1 and k2 == j2 and squares < np.inf
            if k1 >= 0 and loss < least and not same:
                trial[4], trial[5] = k1, k2
                least, best[:] = loss, trial
        loss = squares
        if least < np.inf:
            j1, j2 = int(best[4]), int(best[5])
            loss, _ = descend(best[:4], y, w, first, j1, j2, shared, 1e-4, steps)
        if loss < squares * (1.0 - 1e-9):
            squares, start[:], tied = loss, best, shared
        elif tied:
            tied = False
        else:
            break
    return squares


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
def _project(rows, waves, starts, projected):  # type: ignore[no-untyped-def]
    """Write prefix sums over blocks of each row times each wave: (row, block edge, wave).

    All rows share one pass over the waves, (token, wave), which take many megabytes.
    """
    projected[:], r = 0.0, np.zeros(4, dtype=np.float32)
    for k in range(starts.size - 1):
        for i in range(rows.shape[0]):
            projected[i, k + 1] = projected[i, k]
        for j in range(starts[k], starts[k + 1], 4):
            last = min(j + 4, starts[k + 1])
            one, two, three, four = waves[j], waves[j + 1], waves[j + 2], waves[j + 3]
            for i in range(rows.shape[0]):
                r[:] = 0.0
                r[: last - j] = rows[i, j:last]
                r0, r1, r2, r3, total = r[0], r[1], r[2], r[3], projected[i, k + 1]
                for f in range(total.size):
                    total[f] += r0 * one[f] + r1 * two[f] + r2 * three[f] + r3 * four[f]


@compiled()
def _tails(tails, known, starts, slope):  # type: ignore[no-untyped-def]
    """Return the start of the best tail within each block without an oscillation, and the last
    token; a slope of −1 is free. The row's mean is 0.
    """
    where = np.append(starts[1:] - 1, starts[-1] - 1)
    for k in range(starts.size - 1):
        best = np.inf
        for j2 in range(starts[k], min(starts[k + 1], starts[-1] - 1)):
            u, uu, uy = tails[0, j2], tails[1, j2], tails[2, j2]
            rest = uu - u * u / known
            rate = slope if slope >= 0.0 else max(uy, 0.0) / rest if rest > 1e-9 * uu else 0.0
            gain = rate * (rate * rest - 2.0 * uy)
            if gain < best:
                best, where[k] = gain, j2
    return where


@compiled(fastmath=True, error_model="numpy")
def _gain(g, gg, gy, base):  # type: ignore[no-untyped-def]
    """Return the least squares of an oscillation of a·wave, relative to a constant, and a.

    `base` holds the squares, the level and 1/(effective tokens) of the fit without it, the sums Σu,
    Σu² and Σuy of a tail whose slope is a, and the range of a.
    """
    squares, level, share, u, uu, uy, low, high = base
    product = gy - level * g + uy
    norm = gg + uu - (g + u) * (g + u) * share + np.float32(1e-6)
    a = product / norm
    a = a if a > low else low
    a = a if a < high else high
    return squares + a * (a * norm - (product + product)), a


@compiled(fastmath=True, error_model="numpy")
def _gains(g1, g2, gg1, gg2, gy1, gy2, omega, slowest, base, old, new):  # type: ignore[no-untyped-def]
    """Write the smaller of `old` and `_gain` of each wave between two block edges."""
    for f in range(new.size):
        value, _ = _gain(g2[f] - g1[f], gg2[f] - gg1[f], gy2[f] - gy1[f], base)
        value = value if omega[f] >= slowest else NONE
        new[f] = old[f] if old[f] < value else value


@compiled()
def _base(tails, known, shared, j2, low, high):  # type: ignore[no-untyped-def]
    """Return `base` of `_gain` for a tail after j2."""
    zero, one = np.float32(0.0), np.float32(1.0 / known)
    u, uu, uy = np.float32(tails[0, j2]), np.float32(tails[1, j2]), np.float32(tails[2, j2])
    if shared:
        return zero, zero, one, u, uu, uy, low, high
    rest = tails[1, j2] - tails[0, j2] ** 2 / known
    if tails[2, j2] <= 0.0 or rest <= 1e-9 * tails[1, j2]:
        return zero, zero, one, zero, zero, zero, low, high
    rate = tails[2, j2] / rest
    level, share = -rate * tails[0, j2] / known, tails[1, j2] / rest / known
    squares = np.float32(-rate * tails[2, j2])
    return squares, np.float32(level), np.float32(share), zero, zero, zero, low, high


@compiled()
def _slowest(starts, k1, k2):  # type: ignore[no-untyped-def]
    """Return the slowest frequency of an oscillation between two blocks, whose break points may
    move by a block.
    """
    return np.float32(2.0 * np.pi / (starts[k2] - starts[k1] + starts[2] - starts[1]))


@compiled()
def _range(kind, low, high):  # type: ignore[no-untyped-def]
    """Return least and largest amplitude, and the slope that places the tail; −1 is free."""
    if kind != SHORT:
        return low, high, -1.0
    low = max(low, STEEP)
    return low, high, 0.5 * (low + high)


@compiled()
def _coarse(sums, starts, grid, tails, known, score):  # type: ignore[no-untyped-def]
    """Write the least coarse squares of each wave over pairs of blocks, (kind, wave).

    Kinds are LONG, SEPARATE and SHORT. `sums` are prefix sums over blocks of the waves, their
    squares and products, (3, edge, wave).
    """
    edges, omega, shapes, low, high = grid
    score[:] = NONE
    buffer = np.empty((2, TOGETHER), dtype=np.float32)
    for c in range(shapes.size):
        for kind in range(3):
            if kind == LONG and low[c] > 0.0:
                continue  # long tails have small slopes
            shared, best = kind != SEPARATE, score[kind]
            least, most, slope = _range(kind, low[c], high[c])
            where = _tails(tails, known, starts, slope)
            for begin in range(edges[c], edges[c + 1], TOGETHER):
                part = slice(begin, min(begin + TOGETHER, edges[c + 1]))
                count = part.stop - begin
                old, new = buffer[0, :count], buffer[1, :count]
                old[:] = best[part]
                for k2 in range(1, starts.size):
                    base = _base(tails, known, shared, where[k2], least, most)
                    for k1 in range(k2):
                        slowest = _slowest(starts, k1, k2)
                        if omega[part.stop - 1] < slowest:
                            break
                        _gains(
                            sums[0, k1, part],
                            sums[0, k2, part],
                            sums[1, k1, part],
                            sums[1, k2, part],
                            sums[2, k1, part],
                            sums[2, k2, part],
                            omega[part],
                            slowest,
                            base,
                            old,
                            new,
                        )
                        old, new = new, old
                best[part] = old


@compiled()
def _start(f, sums, starts, grid, tails, known, kind):  # type: ignore[no-untyped-def]
    """Return (a, j1, j2) of the best pair of blocks of wave f."""
    edges, omega, _, low, high = grid
    c = np.searchsorted(edges, f, side="right") - 1
    best, best_a, j1, j2 = NONE, np.float32(0.0), 0, starts[-1] - 1
    least, most, slope = _range(kind, low[c], high[c])
    where = _tails(tails, known, starts, slope)
    for k2 in range(1, starts.size):
        base = _base(tails, known, kind != SEPARATE, where[k2], least, most)
        for k1 in range(k2):
            if omega[f] < _slowest(starts, k1, k2):
                break
            g, gg, gy = sums[:, k2, f] - sums[:, k1, f]
            value, a = _gain(g, gg, gy, base)
            if value < best:
                best, best_a, j1, j2 = value, a, max(starts[k1] - 1, 0), where[k2]
    return best_a, j1, j2


@compiled()
def _oscillating(y, w, sums, first, starts, grid, given, candidates, thorough, out):  # type: ignore[no-untyped-def]
    """Write the best shared (out[0]) and separate (out[1]) fit of one row: steps 2-4."""
    n, omega, known = y.size, grid[1], w.sum()
    width = starts[2] - starts[1] + 1
    tails = tail_sums(y, w)
    scores = np.empty((3, omega.size), dtype=np.float32)
    _coarse(sums, starts, grid, tails, known, scores)
    for form in range(2):
        shared = form == 0
        squares, points = np.full(candidates + 1, np.inf), np.zeros((candidates + 1, 6))
        for k in range(candidates + 1):
            kind = SEPARATE if not shared else SHORT if k % 2 else LONG
            score = scores[kind]
            f = np.argmin(score)
            if k == candidates:
                points[k] = given[form]
            elif score[f] < NONE:
                a, j1, j2 = _start(f, sums, starts, grid, tails, known, kind)
                points[k] = np.array([0.0, a, omega[f], 0.0, j1, j2])
                score[np.abs(omega - omega[f]) < SEPARATION / n] = NONE
            if points[k, 2] > 0.0:
                squares[k] = refine(
                    points[k], y, w, first, tails, shared, np.inf, width, 4, OFFSETS[:1], 1
                )
        rest, kinds = squares.copy(), 2 if shared else 1
        for number in range(candidates // FINALISTS + 1):
            kind = number % kinds
            finalist = kind + kinds * np.argmin(rest[kind::kinds])
            if rest[finalist] < np.inf:
                rest[finalist] = np.inf
                squares[finalist] = refine(
                    points[finalist],
                    y,
                    w,
                    first,
                    tails,
                    shared,
                    squares[finalist],
                    width,
                    8,
                    OFFSETS[:NEAR],
                    6,
                )
        last = int(np.argmin(squares))
        if not np.isfinite(squares[last]):
            out[form, :] = np.nan
            continue
        theta = points[last]
        best = squares[last]
        if thorough:
            best = refine(theta, y, w, first, tails, shared, best, width, 12, OFFSETS, ROUNDS)
            best = refine(theta, y, w, first, tails, shared, best, n, 12, OFFSETS[:1], ROUNDS)
        j1, j2 = int(theta[4]), int(theta[5])
        best, converged = descend(theta[:4], y, w, first, j1, j2, shared, 1e-10, 400)
        out[form, 0], out[form, 1], out[form, 2], out[form, 4] = best, theta[0], theta[1], theta[2]
        out[form, 3] = theta[1] if shared else (theta[3] if j2 < n - 1 else 0.0)
        out[form, 5], out[form, 6], out[form, 7] = j1, j2, 1.0 if converged else 0.0


@compiled()
def search_rows(rows, first, grids, given, candidates, thorough, out):  # type: ignore[no-untyped-def]
    """Fit each row with all forms, in the order of FORMS.

    If `out` has room for one form, only the monotone form is fitted.
    """
    waves, of_waves, starts, edges, omega, shapes, low, high = grids
    out[:] = np.nan
    oscillates = np.zeros(rows.shape[0], dtype=np.bool_)
    centres = np.zeros(rows.shape[0])
    centred, weights = np.zeros(rows.shape), np.zeros(rows.shape)
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
        centres[i] = centre
    sums = np.empty((rows.shape[0], 3, starts.size, omega.size), dtype=np.float32)
    if oscillates.any():
        _project(centred.astype(np.float32), waves, starts, sums[:, 2])
    grid = (edges, omega, shapes, low, high)
    for i in range(rows.shape[0]):
        if oscillates[i]:
            sums[i, :2] = of_waves
            y, w, of_form = centred[i], weights[i], out[i, 1:]
            _oscillating(
                y, w, sums[i], first, starts, grid, given[i], candidates, thorough, of_form
            )
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
