r"""Compiled kernels of one head: separability and the curves over N.

Source: arXiv 2602.01893, (1)-(8), (18)-(20). Tokens come in the order of selection, so I_N is
always a head of the array and J its tail.

Distances are compared without the constant ‖s‖²: D_l − ‖s‖² = ‖y_l‖² − 2⟨s, y_l⟩. Both terms are
summed over the dimension in the same order for every token, so equal contributions tie exactly,
wherever they stand (a BLAS product does not promise that: its last bits depend on the column).
Kernels take float32 or float64 and compute comparisons in that type; representatives and radii are
summed in float64. Imports numpy and numba.

Arguments that kernels of heads share, here and in `cosine_kernels`:
    alpha: attention row, (token).
    values: value states of the head's kv_head, (token, dimension), of α's type.
    weight: effective weights a = α‖v‖, (token).
    order: tokens in the order of selection, (token) int64.
    enters: whether a token counts in I\0: neither the sink nor a zero vector, (token) bool.
    n: sizes, (n) int64, ascending, 1 <= N <= T.
    strict: whether the inner ball is open (the follow-up's protocol).
    s: representatives, (n, dimension) float64.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from empirical.measure.compiled import compiled

ROWS: Final = 4
"""Rows of a product computed at once; each loaded column serves all of them."""

STEP: Final = 8
"""Dimensions summed in one sweep over the columns; zero-padded to a multiple of it."""

LANES: Final = 128
"""Width of the folds and searches below; any multiple of the vector width works."""

Array = Any
"""An array inside a compiled kernel."""

Eight = tuple[Any, Any, Any, Any, Any, Any, Any, Any]


@compiled()
def padded(size: int, multiple: int) -> int:
    """Round `size` up to a multiple."""
    return (size + multiple - 1) // multiple * multiple


@compiled()
def _eight(a: Array, k: int) -> Eight:
    """Return a[k..k+7]."""
    return (a[k], a[k + 1], a[k + 2], a[k + 3], a[k + 4], a[k + 5], a[k + 6], a[k + 7])


@compiled(fastmath={"contract"})
def _add_eight(total: Any, a: Eight, x: Eight) -> Any:
    """Add ⟨a, x⟩ in this very order; `contract` allows fused multiply-add, nothing else."""
    return (
        total
        + a[0] * x[0]
        + a[1] * x[1]
        + a[2] * x[2]
        + a[3] * x[3]
        + a[4] * x[4]
        + a[5] * x[5]
        + a[6] * x[6]
        + a[7] * x[7]
    )


@compiled()
def product(
    a: Array, i: int, bt: Array, column: int, out: Array, row: int, start: int, stop: int
) -> None:
    """Write rows i..i+3 of a @ bt[:, column:] to rows row..row+3 of `out`, columns start..stop−1.

    All arrays are C-contiguous, a (row, dimension), bt (dimension, column). Views of rows only are
    taken: a slice of columns would not vectorise.
    """
    out0, out1 = out[row, start:stop], out[row + 1, start:stop]
    out2, out3 = out[row + 2, start:stop], out[row + 3, start:stop]
    out0[:] = 0
    out1[:] = 0
    out2[:] = 0
    out3[:] = 0
    low, high = column + start, column + stop
    for k in range(0, bt.shape[0], STEP):
        # Four rows share each loaded piece of eight dimensions: the product is bound by loads, not
        # by arithmetic.
        a0, a1 = _eight(a[i], k), _eight(a[i + 1], k)
        a2, a3 = _eight(a[i + 2], k), _eight(a[i + 3], k)
        b0, b1 = bt[k, low:high], bt[k + 1, low:high]
        b2, b3 = bt[k + 2, low:high], bt[k + 3, low:high]
        b4, b5 = bt[k + 4, low:high], bt[k + 5, low:high]
        b6, b7 = bt[k + 6, low:high], bt[k + 7, low:high]
        for j in range(stop - start):
            x = (b0[j], b1[j], b2[j], b3[j], b4[j], b5[j], b6[j], b7[j])
            out0[j] = _add_eight(out0[j], a0, x)
            out1[j] = _add_eight(out1[j], a1, x)
            out2[j] = _add_eight(out2[j], a2, x)
            out3[j] = _add_eight(out3[j], a3, x)


@compiled()
def extremum(x: Array, sign: int) -> Any:
    """Return the maximum (sign 1) or minimum (−1) without NaN, by folding, which vectorises."""
    unit = x.dtype.type(sign)
    # Each lane keeps the maximum of every 128th entry; so the loop over a part has no chain from
    # entry to entry.
    fold = np.full(LANES, unit * x[0], x.dtype)
    whole = x.shape[0] - x.shape[0] % LANES
    for start in range(0, whole, LANES):
        part = x[start : start + LANES]
        for j in range(LANES):
            here = unit * part[j]
            best = fold[j]
            fold[j] = here if here > best else best
    for j in range(whole, x.shape[0]):
        fold[j - whole] = max(fold[j - whole], unit * x[j])
    # The lanes are folded in halves, 128 → 64 → … → 1.
    width = LANES
    while width > 1:
        width //= 2
        for j in range(width):
            here = fold[j + width]
            best = fold[j]
            fold[j] = here if here > best else best
    return unit * fold[0]


@compiled()
def count_up_to(x: Array, bound: Any, strict: bool) -> Any:
    """Count x <= bound, or x < bound when strict."""
    count = np.int32(0)
    for j in range(x.shape[0]):
        count = np.int32(count + np.int32(x[j] < bound if strict else x[j] <= bound))
    return count


@compiled()
def find(x: Array, wanted: Any) -> int:
    """Return the first index of `wanted`, which must occur."""
    for start in range(0, x.shape[0], LANES):
        part = x[start : start + LANES]
        # A count without a branch vectorises; only the part that holds the entry is searched one by
        # one.
        hits = np.int32(0)
        for j in range(part.shape[0]):
            hits = np.int32(hits + np.int32(part[j] == wanted))
        if hits > 0:
            for j in range(part.shape[0]):
                if part[j] == wanted:
                    return start + j
    return 0


@compiled()
def contributions(alpha: Array, values: Array) -> Array:
    """Return y = αv, (token, dimension)."""
    y = np.empty_like(values)
    for i in range(values.shape[0]):
        weight, row = alpha[i], values[i]
        for k in range(values.shape[1]):
            y[i, k] = weight * row[k]
    return y


@compiled()
def _columns(y: Array, order: Array) -> Array:
    """Return contributions in the order of selection, zero-padded, (dimension, token)."""
    yt = np.zeros((padded(y.shape[1], STEP), padded(y.shape[0], 16)), y.dtype)
    for r in range(y.shape[0]):
        row = y[order[r]]
        for k in range(y.shape[1]):
            yt[k, r] = row[k]
    return yt


@compiled()
def _squares(yt: Array) -> Array:
    """Return ‖y_l‖², summed in the same order as `product` sums."""
    squares = np.zeros(yt.shape[1], yt.dtype)
    for k in range(0, yt.shape[0], STEP):
        for j in range(yt.shape[1]):
            x = (
                yt[k, j],
                yt[k + 1, j],
                yt[k + 2, j],
                yt[k + 3, j],
                yt[k + 4, j],
                yt[k + 5, j],
                yt[k + 6, j],
                yt[k + 7, j],
            )
            squares[j] = _add_eight(squares[j], x, x)
    return squares


@compiled()
def representatives(y: Array, order: Array, n: Array, s: Array) -> None:
    """Write s(N), the float64 sum of the first N contributions, for ascending `n`; (1)."""
    total = np.zeros(y.shape[1], np.float64)
    selected = 0
    for row in range(n.shape[0]):
        while selected < n[row]:
            line = y[order[selected]]
            for k in range(y.shape[1]):
                total[k] += line[k]
            selected += 1
        s[row] = total


@compiled(fastmath={"contract", "reassoc"})
def square(x: Array) -> float:
    """Return ‖x‖² in float64."""
    total = 0.0
    for k in range(x.shape[0]):
        total += np.float64(x[k]) * np.float64(x[k])
    return total


@compiled(fastmath={"contract", "reassoc"})
def distance(s: Array, y: Array) -> float:
    """Return ‖s − y‖ in float64."""
    total = 0.0
    for k in range(y.shape[0]):
        total += (s[k] - y[k]) ** 2
    return np.sqrt(total)


@compiled()
def balls(
    inside: Array,
    outside: Array,
    selected: Array,
    others: Array,
    y: Array,
    s: Array,
    n: int,
    strict: bool,
    out: Array,
) -> None:
    """Write precision, recall, r_min, r_max of one N from h = D − ‖s‖² of the tokens in I and of
    the others; (2), (3), (18).

    selected, others: which tokens stand in `inside` and `outside`; these may hold any further ones
    as −∞ and +∞.
    """
    # h identifies the farthest and the nearest token; their distances are recomputed in float64.
    outer = extremum(inside, 1)
    out[3] = distance(s, y[selected[find(inside, outer)]])
    if n == y.shape[0]:
        out[:2] = 1.0
        out[2] = np.nan
        return
    inner = extremum(outside, -1)
    out[0] = n / (n + count_up_to(outside, outer, False))
    # Each further token counts in `inside`, as −∞.
    out[1] = (count_up_to(inside, inner, strict) - (inside.shape[0] - n)) / n
    out[2] = distance(s, y[others[find(outside, inner)]])


@compiled()
def separability_of_head(
    alpha: Array, values: Array, order: Array, n: Array, strict: bool, s: Array, out: Array
) -> None:
    """Fill `s`, and `out` with precision, recall, r_min, r_max, (n, 4) float64, of one head."""
    # Contributions as columns in the order of selection: I_N is the first N columns, J the others.
    y = contributions(alpha, values)
    yt = _columns(y, order)
    representatives(y, order, n, s)
    squares = _squares(yt)
    rows = np.zeros((ROWS, yt.shape[0]), y.dtype)
    h = np.empty((ROWS, yt.shape[1]), y.dtype)
    for start in range(0, n.shape[0], ROWS):
        # ⟨s(N), y_l⟩ of four N at once, in the type of the input.
        here = min(ROWS, n.shape[0] - start)
        rows[:here, : y.shape[1]] = s[start : start + here]
        product(rows, 0, yt, 0, h, 0, 0, yt.shape[1])
        for r in range(here):
            # h_l = ‖y_l‖² − 2⟨s, y_l⟩, in place.
            line = h[r]
            for j in range(line.shape[0]):
                line[j] = squares[j] - (line[j] + line[j])
            row = start + r
            size = n[row]
            inside, outside = line[:size], line[size : y.shape[0]]
            balls(inside, outside, order[:size], order[size:], y, s[row], size, strict, out[row])


@compiled(fastmath={"contract", "reassoc", "nsz"})
def _against(s: Array, v: Array, weight: Any) -> tuple[float, float]:
    """Return ‖s − weight·v‖ and cos(s, v), the latter NaN where either vector is zero."""
    rest = ss = sv = vv = 0.0
    for k in range(s.shape[0]):
        x = np.float64(v[k])
        rest += (s[k] - weight * v[k]) ** 2
        ss += s[k] * s[k]
        sv += s[k] * x
        vv += x * x
    if ss == 0.0 or vv == 0.0:
        return np.sqrt(rest), np.nan
    return np.sqrt(rest), min(1.0, max(-1.0, sv / (np.sqrt(ss) * np.sqrt(vv))))


@compiled()
def curves_of_head(
    alpha: Array,
    values: Array,
    weight: Array,
    order: Array,
    n: Array,
    sink: bool,
    s: Array,
    out: Array,
) -> None:
    """Describe representatives and effective weights of one head at every N; (1), (7), (8), Figure
    7.

    Args:
        alpha, values, weight, order, n, s: as above.
        sink: whether token 0 is the sink; otherwise no token is.
        out: filled with the columns of `layer.NAMES`, (n, 11) float64; NaN where undefined.
    """
    tokens = order.shape[0]
    # a_max_out for every N: the running maximum from the tail of the order.
    beyond = np.full(tokens + 1, -np.inf)
    for r in range(tokens - 1, -1, -1):
        beyond[r] = max(beyond[r + 1], np.float64(weight[order[r]]))
    nothing = alpha.dtype.type(0)
    sink_weight = last_weight = nothing
    low = low_all = np.inf
    high = high_all = -np.inf
    total = 0.0
    selected = 0
    for row in range(n.shape[0]):
        # Tokens that enter with this N raise the running extremes and the sum; the sink is kept out
        # of those of (7).
        while selected < n[row]:
            token = order[selected]
            a = np.float64(weight[token])
            low_all, high_all = min(low_all, a), max(high_all, a)
            if sink and token == 0:
                sink_weight = alpha[token]
            else:
                low, high, total = min(low, a), max(high, a), total + a
            if token == tokens - 1:
                last_weight = alpha[token]
            selected += 1
        # ‖s‖, and ‖s‖ without a token that is selected: its contribution is taken off, or nothing
        # is (weight 0).
        out[row, 0] = _against(s[row], values[0], nothing)[0]
        out[row, 1], out[row, 3] = _against(s[row], values[0], sink_weight)
        out[row, 2], out[row, 4] = _against(s[row], values[tokens - 1], last_weight)
        out[row, 5:10] = (low, low_all, high_all, high, beyond[selected])
        out[row, 10] = total
        for column in range(5, 10):
            if np.isinf(out[row, column]):
                out[row, column] = np.nan
        if not sink:
            out[row, 3] = np.nan
