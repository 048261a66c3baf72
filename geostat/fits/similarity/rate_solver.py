"""Variable projection: least squares of similarity decays in one rate b, many rows at once.

Every form with one rate is c + (1−c)e^{−bx}, x a function of the lag
(`geostat.fits.similarity.forms`), so with z = 1 − c̄, h = 1 − e^{−bx} and A = 1 − c the fit is
z ≈ A·h(b): A has a closed form given b (Golub & Pereyra 1973), b comes from a grid by matrix
products and then Newton's method inside the best cell. Imports numpy and geostat's forms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from geostat.fits.similarity.forms import OFFSET_MAX, OFFSET_MIN, RATE_MAX
from geostat.statistics.arrays import BoolArray, FloatArray

GRID = 240
"""Points of the grid of b for one x; neighbours differ by 8%."""
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


@lru_cache(maxsize=64)
def _grid(distances: bytes, points: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a grid of b for the x given as bytes, h = 1 − e^{−bx} and h², each (lag, grid)."""
    x = np.frombuffer(distances)
    grid = np.concatenate([[0.0], np.geomspace(min(1e-3 / x[-1], RATE_MAX / 2), RATE_MAX, points)])
    h = -np.expm1(-np.outer(x, grid))
    return grid, h, h**2


def grid_loss(
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
    """Return the best A within its bounds, 1 where nothing tells it."""
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


def best_rate(x: FloatArray, rows: Rows, free: bool, points: int = GRID) -> Optimum:
    """Find b, with A free or 1: the best cell of the grid, Newton's method inside it, and the
    bounds of b; `x` is (lag,).
    """
    grid, loss = grid_loss(x, rows, free, points)
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
    """Refine b by Newton's method on the loss with A profiled out; a step that leaves the
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
