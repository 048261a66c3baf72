"""Batched least squares of similarity decays: starting values of lmfit, jackknife replicates.

Every form is c + (1−c)e^{−bx}, x a function of the lag (`geostat.fits.similarity.forms`). With z =
1 − c̄, h = 1 − e^{−bx} and A = 1 − c, a fit is z ≈ A·h(b). With one rate b, A has a closed form
(variable projection, Golub & Pereyra 1973); b comes from a grid by matrix products, then Newton's
method inside the best cell. The stretched exponential e^{−b k^s} has b and s: a grid over (b, s)
gives the start, damped Newton steps in (log b, log s) (Levenberg 1944) the optimum; then the bounds
of both are tried. Imports numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from geostat.statistics.arrays import BoolArray, FloatArray

RATE_MAX: Final = 20.0
"""Upper bound of b; above it, neighbours (k = 1) have no detectable similarity."""
OFFSET_MIN, OFFSET_MAX = -1.0, 1.0
"""Bounds of c: the limits of a cosine."""
AMPLITUDE_MIN, AMPLITUDE_MAX = 1.0 - OFFSET_MAX, 1.0 - OFFSET_MIN
STRETCH_MIN, STRETCH_MAX = 0.1, 4.0
"""Bounds of s: below, a stretched exponential is almost constant over a window; above, a step."""
GRID = 240
"""Number of grid points of b for one x; neighbours differ by 8%."""
STRETCH_GRID, COARSE_GRID = 28, 100
"""Numbers of grid points of s and of b where both are searched."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Values z = 1 − c̄ and weights, both (row, lag); 0 where unknown."""

    z: FloatArray
    weight: FloatArray

    def take(self, rows: np.ndarray) -> Rows:
        """Return the selected rows."""
        return Rows(self.z[rows], self.weight[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Least-squares optima, one per row.

    `values` holds parameters by name; `at_bound` marks parameters that are at a bound or
    undetermined.
    """

    values: dict[str, FloatArray]
    at_bound: dict[str, BoolArray]
    squares: FloatArray
    converged: BoolArray


Solver = Callable[[FloatArray, Rows], Solution]
"""Fits a form: maps lags, (lag,), and rows to their optima."""


def fit_constant(lag: FloatArray, rows: Rows) -> Solution:
    """Fit c alone."""
    best = (rows.weight * rows.z).sum(axis=-1) / rows.weight.sum(axis=-1)
    amplitude = np.clip(best, AMPLITUDE_MIN, AMPLITUDE_MAX)
    return Solution(
        values={"offset": 1.0 - amplitude},
        at_bound={"offset": _edge(amplitude)},
        squares=(rows.weight * (rows.z - amplitude[:, None]) ** 2).sum(axis=-1),
        converged=np.ones(amplitude.shape, dtype=bool),
    )


def _edge(amplitude: FloatArray) -> BoolArray:
    """Return where A is at a bound."""
    return np.asarray((amplitude <= AMPLITUDE_MIN) | (amplitude >= AMPLITUDE_MAX))


@lru_cache(maxsize=64)
def _grid(distances: bytes, points: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a grid of b for x given as bytes, h = 1 − e^{−bx} and h², each (lag, grid)."""
    x = np.frombuffer(distances)
    grid = np.concatenate([[0.0], np.geomspace(min(1e-3 / x[-1], RATE_MAX / 2), RATE_MAX, points)])
    h = -np.expm1(-np.outer(x, grid))
    return grid, h, h**2


def grid_loss(
    x: FloatArray, rows: Rows, free: bool, points: int = GRID
) -> tuple[FloatArray, FloatArray]:
    """Return the grid of b and, for each row, the sum of squares minus Σ w z² at its points."""
    grid, h, h2 = _grid(np.ascontiguousarray(x).tobytes(), points)
    numerator = (rows.weight * rows.z) @ h
    equal_weights = bool((rows.weight == rows.weight[0]).all())
    denominator = (rows.weight[:1] if equal_weights else rows.weight) @ h2
    amplitude = (
        _amplitude(numerator, np.broadcast_to(denominator, numerator.shape)) if free else 1.0
    )
    return grid, amplitude * (amplitude * denominator - 2.0 * numerator)


def _amplitude(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Return the best A within its bounds; 1 where A is undetermined."""
    best = np.divide(numerator, denominator, out=np.ones_like(numerator), where=denominator > 0)
    return np.clip(best, AMPLITUDE_MIN, AMPLITUDE_MAX)


def _squares(
    rate: FloatArray, x: FloatArray, rows: Rows, free: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the best A at each row's b, and the sum of squares."""
    h = -np.expm1(-rate[:, None] * x)
    amplitude = np.ones(rate.shape)
    if free:
        amplitude = _amplitude(
            (rows.weight * rows.z * h).sum(axis=-1), (rows.weight * h**2).sum(axis=-1)
        )
    return amplitude, (rows.weight * (rows.z - amplitude[:, None] * h) ** 2).sum(axis=-1)


def fit_rate(x: FloatArray, rows: Rows, free: bool = False) -> Solution:
    """Fit b, as `beta`, with c free or 0: best cell of the grid, Newton's method, bounds."""
    grid, loss = grid_loss(x, rows, free)
    best = loss.argmin(axis=-1)
    low, high = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, grid.size - 1)]
    rate, converged = _newton(grid[best], low, high, x, rows, free)
    amplitude, squares = _squares(rate, x, rows, free)
    at_bound = np.zeros(rate.shape, dtype=bool)
    for bound in (0.0, RATE_MAX):
        at_edge = np.full(rate.shape, bound)
        edge_amplitude, edge_squares = _squares(at_edge, x, rows, free)
        # If no optimum inside beats the bound by more than rounding, the bound is the optimum.
        accept = (edge_squares <= squares * (1 + 1e-12)) & ~at_bound
        rate = np.where(accept, at_edge, rate)
        amplitude = np.where(accept, edge_amplitude, amplitude)
        squares, at_bound = np.where(accept, edge_squares, squares), at_bound | accept
    values, bounds = {"beta": rate}, {"beta": at_bound}
    if free:  # with b = 0 there is no h, and A is undetermined
        values["offset"] = np.where(rate == 0, 0.0, 1.0 - amplitude)
        bounds["offset"] = _edge(amplitude) | (rate == 0)
    return Solution(values=values, at_bound=bounds, squares=squares, converged=converged | at_bound)


def _newton(
    start: FloatArray, low: FloatArray, high: FloatArray, x: FloatArray, rows: Rows, free: bool
) -> tuple[FloatArray, BoolArray]:
    """Refine b by Newton's method, A profiled out; bisect where a step leaves the bracket."""
    rate, converged = start.copy(), np.zeros(start.shape, dtype=bool)
    low, high = low.copy(), high.copy()
    active = np.arange(start.size)
    weighted, part = rows.weight * rows.z, rows
    powers = np.stack([np.ones_like(x), x, x**2], axis=-1)
    for _ in range(60):
        b = rate[active]
        h = -np.expm1(-b[:, None] * x)
        g = 1.0 - h
        top = (weighted * h) @ powers[:, 0]
        slopes = (weighted * g) @ powers
        bottoms = part.weight * g
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
        if done.sum() * 4 >= done.size:  # drop the converged rows
            keep = ~done
            active, part = active[keep], part.take(keep)
            weighted = weighted[keep]
    return rate, converged


def fit_stretched(lag: FloatArray, rows: Rows) -> Solution:
    """Fit e^{−b k^s}, with β = b^{1/s}."""
    rate, stretch = _start(lag, rows)
    rate, stretch, squares, converged = _descend(lag, rows, rate, stretch)
    rate_stuck, stretch_stuck = rate >= RATE_MAX, np.zeros(rate.shape, dtype=bool)
    # None stands for b at a bound, where s does not matter.
    for bound in (STRETCH_MIN, STRETCH_MAX, None):
        edge = fit_rate(lag ** (bound or 1.0), rows)
        at_bound = edge.at_bound["beta"]
        better = (edge.squares <= squares * (1 + 1e-12)) & (
            at_bound if bound is None else ~at_bound
        )
        rate = np.where(better, edge.values["beta"], rate)
        squares = np.where(better, edge.squares, squares)
        stretch = np.where(better, bound or 1.0, stretch)
        rate_stuck = np.where(better, bound is None, rate_stuck)
        stretch_stuck = stretch_stuck | better
        converged |= better & edge.converged
    return Solution(
        values={"beta": rate ** (1.0 / stretch), "stretch": stretch},
        at_bound={"beta": rate_stuck, "stretch": stretch_stuck},
        squares=squares,
        converged=converged,
    )


def _start(lag: FloatArray, rows: Rows) -> tuple[FloatArray, FloatArray]:
    """Return b and s at each row's best grid point."""
    best = np.full(rows.z.shape[0], np.inf)
    rate, stretch = np.ones(best.shape), np.ones(best.shape)
    for s in np.geomspace(STRETCH_MIN, STRETCH_MAX, STRETCH_GRID):
        grid, loss = grid_loss(lag**s, rows, False, COARSE_GRID)
        loss = loss[:, 1:-1]  # b = 0 and b = RATE_MAX are bounds
        index = loss.argmin(axis=-1)
        lowest = loss[np.arange(index.size), index]
        better = lowest < best
        best = np.where(better, lowest, best)
        rate = np.where(better, grid[1:-1][index], rate)
        stretch = np.where(better, s, stretch)
    return rate, stretch


def _descend(
    lag: FloatArray, rows: Rows, rate: FloatArray, stretch: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    """Minimise over p = log b and q = log s; a row converges when its step is below 1e-11."""
    point = np.stack([np.log(rate), np.log(stretch)], axis=-1)
    low = np.array([-60.0, np.log(STRETCH_MIN)])
    high = np.array([np.log(RATE_MAX), np.log(STRETCH_MAX)])
    damping, converged = np.full(rate.size, 1e-3), np.zeros(rate.size, dtype=bool)
    squares, gradient, hessian = _loss(lag, rows, point)
    active = np.arange(rate.size)
    for _ in range(80):
        diagonal = np.einsum("rii->ri", hessian[active])
        ridge = damping[active, None, None] * np.eye(2) * np.maximum(diagonal, 1e-300)[:, None, :]
        damped = hessian[active] + ridge
        determinant = damped[:, 0, 0] * damped[:, 1, 1] - damped[:, 0, 1] ** 2
        g0, g1 = gradient[active].T
        safe = np.where(determinant > 0, determinant, np.inf)
        step0 = damped[:, 1, 1] * g0 - damped[:, 0, 1] * g1
        step1 = damped[:, 0, 0] * g1 - damped[:, 0, 1] * g0
        step = np.stack([step0, step1], axis=-1) / safe[:, None]
        moved = np.clip(point[active] - np.clip(step, -2.0, 2.0), low, high)
        loss, slope, curve = _loss(lag, rows.take(active), moved)
        size = np.abs(moved - point[active]).max(axis=-1)
        accept = loss <= squares[active] * (1 + 1e-13)
        accepted = active[accept]
        point[accepted], squares[accepted] = moved[accept], loss[accept]
        gradient[accepted], hessian[accepted] = slope[accept], curve[accept]
        damping[active] = np.where(
            accept, damping[active] * 0.1, np.maximum(damping[active], 1e-8) * 10.0
        )
        converged[active] = accept & (size <= 1e-11) & (determinant > 0)
        # A row with very large damping stops: rounding hides any further descent.
        active = active[~converged[active] & (damping[active] < 1e12)]
        if active.size == 0:
            break
    return np.exp(point[:, 0]), np.exp(point[:, 1]), squares, converged


def _loss(
    lag: FloatArray, rows: Rows, point: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return L = Σ w (z − h)², its gradient, and a positive definite Hessian in (log b, log s)."""
    rate, s = np.exp(point[:, :1]), np.exp(point[:, 1:])
    log = np.log(lag)
    u = rate * np.exp(s * log)
    decay = np.exp(-u)
    residual = rows.z - (1.0 - decay)
    # ∂h/∂p = g u, ∂h/∂q = g u t with t = s ln k; the powers of ln k are common to all rows.
    first = rows.weight * residual * decay * u
    powers = np.stack([np.ones_like(log), log, log**2], axis=-1)
    plain_sums = first @ powers
    by_u = (first * u) @ powers
    square = (rows.weight * (decay * u) ** 2) @ powers
    s = s[:, 0]
    gradient = -2.0 * np.stack([plain_sums[:, 0], s * plain_sums[:, 1]], axis=-1)
    scale = np.stack([np.ones_like(s), s, s**2], axis=-1)
    gauss = 2.0 * square * scale
    # Second derivatives of h: g(u − u²), g(u − u²)t, g((u − u²)t² + u t).
    second = (plain_sums - by_u) * scale
    second[:, 2] += s * plain_sums[:, 1]
    full = gauss - 2.0 * second
    sound = (full[:, 0] > 0) & (full[:, 0] * full[:, 2] > full[:, 1] ** 2)
    hessian = np.where(sound[:, None], full, gauss)
    return (
        (rows.weight * residual**2).sum(axis=-1),
        gradient,
        hessian[:, [0, 1, 1, 2]].reshape(-1, 2, 2),
    )
