"""Batched least squares of similarity decays, many rows at once: the starts of lmfit, and all
leave-one-document-out replicates.

Every form is c + (1−c)e^{−bx}, x a function of the lag (`geostat.fits.similarity.forms`), so with
z = 1 − c̄, h = 1 − e^{−bx} and A = 1 − c the fit is z ≈ A·h(b): A has a closed form given b
(variable projection; Golub & Pereyra 1973), b comes from a grid by matrix products and then
Newton's method inside the best cell. Stretched rows add Newton steps in (log b, log s), damped
(Levenberg 1944). Imports numpy and geostat's forms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from geostat.fits.similarity.forms import (
    ABSENT,
    FORM,
    OFFSET_MAX,
    OFFSET_MIN,
    PARAMETERS,
    RATE_MAX,
    STRETCH_MAX,
    STRETCH_MIN,
    Solution,
    distance,
)
from geostat.statistics.arrays import BoolArray, FloatArray

GRID = 240
"""Points of the grid of b for one x; neighbours differ by 8%."""
STRETCH_GRID, COARSE_GRID = 28, 100
"""Points of the grids of s and of b for the stretched form."""
CHUNK = 2**18
"""Numbers (rows × lags) worked on at once: 2 MB an array, which a cache holds."""
AMPLITUDE_MIN, AMPLITUDE_MAX = 1.0 - OFFSET_MAX, 1.0 - OFFSET_MIN


@dataclass(frozen=True, slots=True)
class Rows:
    """z = 1 − c̄ (0 where unknown) and weights (0 there), both (row, lag)."""

    z: FloatArray
    weight: FloatArray

    def take(self, rows: np.ndarray) -> Rows:
        """Return some of the rows."""
        return Rows(self.z[rows], self.weight[rows])


@dataclass(frozen=True, slots=True)
class Optimum:
    """b, A, the sum of squares, whether b is at a bound (0 or RATE_MAX) and whether the search
    converged, each (row,).
    """

    rate: FloatArray
    amplitude: FloatArray
    squares: FloatArray
    at_bound: BoolArray
    converged: BoolArray


def solve(form: str, lag: FloatArray, cosine: FloatArray, pairs: FloatArray) -> Solution:
    """Fit many rows of c̄_k, (row, lag), NaN where unknown, at once; `lag` k ≥ 1 rises, `pairs` are
    m_k, both (lag,).

    Returns:
        Solution, arrays of shape (row,); NaN and not converged where a row knows fewer lags than
        the form has parameters.
    """
    rows = cosine.shape[0]
    out: dict[str, np.ndarray] = {name: np.full(rows, np.nan) for name in (*PARAMETERS, "squares")}
    out |= {
        name: np.zeros(rows, dtype=bool)
        for name in (*(f"{name}_at_bound" for name in PARAMETERS), "converged")
    }
    known = np.isfinite(cosine)
    usable = np.flatnonzero(known.sum(axis=-1) >= FORM[form].number)
    step = max(CHUNK // max(lag.size, 1), 1)
    for start in range(0, usable.size, step):
        at = usable[start : start + step]
        part = Rows(np.where(known[at], 1.0 - cosine[at], 0.0), known[at] * pairs)
        for name, result in _solve(form, lag, part).items():
            out[name][at] = result
    values, at_bound = (
        {name: out[name] for name in PARAMETERS},
        {name: out[f"{name}_at_bound"] for name in PARAMETERS},
    )
    return Solution(
        values=values, at_bound=at_bound, squares=out["squares"], converged=out["converged"]
    )


def _solve(form: str, lag: FloatArray, rows: Rows) -> dict[str, np.ndarray]:
    count = rows.z.shape[0]
    no, absent = (
        np.zeros(count, dtype=bool),
        {name: np.full(count, value) for name, value in ABSENT.items()},
    )
    out: dict[str, np.ndarray] = absent | {f"{name}_at_bound": no for name in PARAMETERS}
    if form == "constant":
        amplitude = np.clip(
            (rows.weight * rows.z).sum(axis=-1) / rows.weight.sum(axis=-1),
            AMPLITUDE_MIN,
            AMPLITUDE_MAX,
        )
        squares = (rows.weight * (rows.z - amplitude[:, None]) ** 2).sum(axis=-1)
        return out | {
            "offset": 1.0 - amplitude,
            "offset_at_bound": _edge(amplitude),
            "squares": squares,
            "converged": ~no,
        }
    if form == "stretched":
        return out | _stretched(lag, rows)
    free = "offset" in FORM[form].parameters
    best = _rate(distance(form, lag), rows, free)
    out |= {
        "beta": best.rate,
        "squares": best.squares,
        "beta_at_bound": best.at_bound,
        "converged": best.converged,
    }
    if free:  # with b = 0 there is no h, and A is undetermined
        undetermined = best.rate == 0
        out |= {
            "offset": np.where(undetermined, 0.0, 1.0 - best.amplitude),
            "offset_at_bound": _edge(best.amplitude) | undetermined,
        }
    return out


def _edge(amplitude: FloatArray) -> BoolArray:
    return np.asarray((amplitude <= AMPLITUDE_MIN) | (amplitude >= AMPLITUDE_MAX))


@lru_cache(maxsize=64)
def _grid(distances: bytes, points: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a grid of b for the x given as bytes, h = 1 − e^{−bx} and h², each (lag, grid)."""
    x = np.frombuffer(distances)
    grid = np.concatenate([[0.0], np.geomspace(min(1e-3 / x[-1], RATE_MAX / 2), RATE_MAX, points)])
    h = -np.expm1(-np.outer(x, grid))
    return grid, h, h**2


def _grid_loss(
    x: FloatArray, rows: Rows, free: bool, points: int = GRID
) -> tuple[FloatArray, FloatArray]:
    """Return the grid of b and the sum of squares there, short of Σ w z², for each row."""
    grid, h, h2 = _grid(np.ascontiguousarray(x).tobytes(), points)
    top = (rows.weight * rows.z) @ h
    alike = bool((rows.weight == rows.weight[0]).all())
    bottom = (rows.weight[:1] if alike else rows.weight) @ h2
    amplitude = _amplitude(top, np.broadcast_to(bottom, top.shape)) if free else 1.0
    return grid, amplitude * (amplitude * bottom - 2.0 * top)


def _amplitude(top: FloatArray, bottom: FloatArray) -> FloatArray:
    best = np.divide(top, bottom, out=np.ones_like(top), where=bottom > 0)
    return np.clip(best, AMPLITUDE_MIN, AMPLITUDE_MAX)


def _squares(
    rate: FloatArray, x: FloatArray, rows: Rows, free: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the best A at each row's b, and the sum of squares there."""
    h = -np.expm1(-rate[:, None] * x)
    amplitude = np.ones(rate.shape)
    if free:
        amplitude = _amplitude(
            (rows.weight * rows.z * h).sum(axis=-1), (rows.weight * h**2).sum(axis=-1)
        )
    return amplitude, (rows.weight * (rows.z - amplitude[:, None] * h) ** 2).sum(axis=-1)


def _rate(x: FloatArray, rows: Rows, free: bool, points: int = GRID) -> Optimum:
    """Find b, with A free or 1: the best cell of the grid, Newton's method inside it, and the
    bounds of b; `x` is (lag,).
    """
    grid, loss = _grid_loss(x, rows, free, points)
    best = loss.argmin(axis=-1)
    low, high = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, grid.size - 1)]
    rate, converged = _newton(grid[best], low, high, x, rows, free)
    amplitude, squares = _squares(rate, x, rows, free)
    at_bound = np.zeros(rate.shape, dtype=bool)
    for bound in (0.0, RATE_MAX):
        there = np.full(rate.shape, bound)
        edge_amplitude, edge_squares = _squares(there, x, rows, free)
        # No optimum inside is better than the bound by more than rounding: the bound is the
        # optimum.
        take = (edge_squares <= squares * (1 + 1e-12)) & ~at_bound
        rate, amplitude = np.where(take, there, rate), np.where(take, edge_amplitude, amplitude)
        squares, at_bound = np.where(take, edge_squares, squares), at_bound | take
    return Optimum(rate, amplitude, squares, at_bound, converged | at_bound)


def _newton(
    start: FloatArray, low: FloatArray, high: FloatArray, x: FloatArray, rows: Rows, free: bool
) -> tuple[FloatArray, BoolArray]:
    """Polish b by Newton's method on the loss with A profiled out; a step that leaves the
    shrinking bracket halves it instead.
    """
    rate, converged = start.copy(), np.zeros(start.shape, dtype=bool)
    low, high = low.copy(), high.copy()
    active = np.arange(start.size)
    weighted, part = rows.weight * rows.z, rows
    powers = np.stack([np.ones_like(x), x, x**2], axis=-1)
    for _ in range(60):
        b = rate[active]
        h = -np.expm1(-b[:, None] * x)
        g = 1.0 - h
        top, slopes, bottoms = (
            (weighted * h) @ powers[:, 0],
            (weighted * g) @ powers,
            part.weight * g,
        )
        by_h, by_g = (bottoms * h) @ powers, (bottoms * g) @ powers
        bottom = (part.weight * h**2).sum(axis=-1)
        amplitude = _amplitude(top, bottom) if free else np.ones(b.shape)
        # loss L = Σw z² − 2A N + A² D; N' = Σ w z x g, N'' = −Σ w z x² g; D' = 2 Σ w h x g,
        # D'' = 2 Σ w (x² g² − h x² g)
        gradient = 2.0 * amplitude * (amplitude * by_h[:, 1] - slopes[:, 1])
        curvature = 2.0 * amplitude * (amplitude * (by_g[:, 2] - by_h[:, 2]) + slopes[:, 2])
        if free:
            inside = (amplitude > AMPLITUDE_MIN) & (amplitude < AMPLITUDE_MAX) & (bottom > 0)
            cross = -2.0 * slopes[:, 1] + 4.0 * amplitude * by_h[:, 1]
            curvature = curvature - np.divide(
                cross**2, 2.0 * bottom, out=np.zeros_like(cross), where=inside
            )
        high[active] = np.where(gradient > 0, b, high[active])
        low[active] = np.where(gradient <= 0, b, low[active])
        step = np.divide(
            gradient, curvature, out=np.full_like(gradient, np.inf), where=curvature > 0
        )
        moved = b - step
        outside = ~((moved >= low[active]) & (moved <= high[active]))
        moved = np.where(outside, 0.5 * (low[active] + high[active]), moved)
        done = np.abs(moved - b) <= 1e-11 * np.abs(b)
        rate[active] = moved
        converged[active] = done
        if done.all():
            break
        if done.sum() * 4 >= done.size:  # work on the rest alone
            keep = ~done
            active, part = active[keep], part.take(keep)
            weighted = weighted[keep]
    return rate, converged


def _stretched(lag: FloatArray, rows: Rows) -> dict[str, np.ndarray]:
    """Fit e^{−b k^s}, β = b^{1/s}: a grid over (b, s), damped Newton steps, and the bounds of
    both.
    """
    rate, stretch = _stretched_start(lag, rows)
    rate, stretch, squares, converged = _descend(lag, rows, rate, stretch)
    rate_stuck, stretch_stuck = rate >= RATE_MAX, np.zeros(rate.shape, dtype=bool)
    for bound in (
        STRETCH_MIN,
        STRETCH_MAX,
        None,
    ):  # None: b at a bound, where every s says the same
        edge = _rate(lag ** (bound or 1.0), rows, False)
        better = (edge.squares <= squares * (1 + 1e-12)) & (
            edge.at_bound if bound is None else ~edge.at_bound
        )
        rate, squares = np.where(better, edge.rate, rate), np.where(better, edge.squares, squares)
        stretch = np.where(better, bound or 1.0, stretch)
        rate_stuck, stretch_stuck = (
            np.where(better, bound is None, rate_stuck),
            stretch_stuck | better,
        )
        converged |= better & edge.converged
    return {
        "beta": rate ** (1.0 / stretch),
        "stretch": stretch,
        "squares": squares,
        "beta_at_bound": rate_stuck,
        "stretch_at_bound": stretch_stuck,
        "converged": converged,
    }


def _stretched_start(lag: FloatArray, rows: Rows) -> tuple[FloatArray, FloatArray]:
    best = np.full(rows.z.shape[0], np.inf)
    rate, stretch = np.ones(best.shape), np.ones(best.shape)
    for s in np.geomspace(STRETCH_MIN, STRETCH_MAX, STRETCH_GRID):
        grid, loss = _grid_loss(lag**s, rows, False, COARSE_GRID)
        loss = loss[:, 1:-1]  # b = 0 and b = RATE_MAX are bounds
        at = loss.argmin(axis=-1)
        least = loss[np.arange(at.size), at]
        take = least < best
        best, rate, stretch = (
            np.where(take, least, best),
            np.where(take, grid[1:-1][at], rate),
            np.where(take, s, stretch),
        )
    return rate, stretch


def _descend(
    lag: FloatArray, rows: Rows, rate: FloatArray, stretch: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    """Minimise over p = log b and q = log s; rows whose last step is below 1e-11 have converged."""
    at = np.stack([np.log(rate), np.log(stretch)], axis=-1)
    low, high = (
        np.array([-60.0, np.log(STRETCH_MIN)]),
        np.array([np.log(RATE_MAX), np.log(STRETCH_MAX)]),
    )
    damping, converged = np.full(rate.size, 1e-3), np.zeros(rate.size, dtype=bool)
    squares, gradient, hessian = _stretched_loss(lag, rows, at)
    active = np.arange(rate.size)
    for _ in range(80):
        diagonal = np.einsum("rii->ri", hessian[active])
        damped = (
            hessian[active]
            + damping[active, None, None] * np.eye(2) * np.maximum(diagonal, 1e-300)[:, None, :]
        )
        determinant = damped[:, 0, 0] * damped[:, 1, 1] - damped[:, 0, 1] ** 2
        g0, g1 = gradient[active].T
        safe = np.where(determinant > 0, determinant, np.inf)
        step = (
            np.stack(
                [
                    damped[:, 1, 1] * g0 - damped[:, 0, 1] * g1,
                    damped[:, 0, 0] * g1 - damped[:, 0, 1] * g0,
                ],
                axis=-1,
            )
            / safe[:, None]
        )
        moved = np.clip(at[active] - np.clip(step, -2.0, 2.0), low, high)
        loss, slope, curve = _stretched_loss(lag, rows.take(active), moved)
        size = np.abs(moved - at[active]).max(axis=-1)
        accept = loss <= squares[active] * (1 + 1e-13)
        taken = active[accept]
        at[taken], squares[taken], gradient[taken], hessian[taken] = (
            moved[accept],
            loss[accept],
            slope[accept],
            curve[accept],
        )
        damping[active] = np.where(
            accept, damping[active] * 0.1, np.maximum(damping[active], 1e-8) * 10.0
        )
        converged[active] = accept & (size <= 1e-11) & (determinant > 0)
        # A row whose damping has grown beyond use stands where rounding hides any further descent.
        active = active[~converged[active] & (damping[active] < 1e12)]
        if active.size == 0:
            break
    return np.exp(at[:, 0]), np.exp(at[:, 1]), squares, converged


def _stretched_loss(
    lag: FloatArray, rows: Rows, at: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return L = Σ w (z − h)², its gradient and its Hessian in (log b, log s); Gauss-Newton's
    where the Hessian has a negative curvature.
    """
    rate, s = np.exp(at[:, :1]), np.exp(at[:, 1:])
    log = np.log(lag)
    u = rate * np.exp(s * log)
    fall = np.exp(-u)
    residual = rows.z - (1.0 - fall)
    # ∂h/∂p = g u, ∂h/∂q = g u t with t = s ln k; the powers of ln k are common to all rows.
    first = rows.weight * residual * fall * u
    powers = np.stack([np.ones_like(log), log, log**2], axis=-1)
    alone, by_u, square = (
        first @ powers,
        (first * u) @ powers,
        (rows.weight * (fall * u) ** 2) @ powers,
    )
    s = s[:, 0]
    gradient = -2.0 * np.stack([alone[:, 0], s * alone[:, 1]], axis=-1)
    scale = np.stack([np.ones_like(s), s, s**2], axis=-1)
    gauss = 2.0 * square * scale
    # second derivatives of h: g(u − u²), g(u − u²)t, g((u − u²)t² + u t)
    second = (alone - by_u) * scale
    second[:, 2] += s * alone[:, 1]
    full = gauss - 2.0 * second
    sound = (full[:, 0] > 0) & (full[:, 0] * full[:, 2] > full[:, 1] ** 2)
    chosen = np.where(sound[:, None], full, gauss)
    return (
        (rows.weight * residual**2).sum(axis=-1),
        gradient,
        chosen[:, [0, 1, 1, 2]].reshape(-1, 2, 2),
    )
