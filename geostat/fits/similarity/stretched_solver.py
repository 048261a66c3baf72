"""Least squares of the stretched exponential e^{−b k^s}, many rows at once: b and s together.

A grid over (b, s) gives the start, Newton steps in (log b, log s), damped (Levenberg 1944), the
optimum; then the bounds of both are tried. Imports numpy and geostat's forms.
"""

from __future__ import annotations

import numpy as np

from geostat.fits.similarity.forms import RATE_MAX, STRETCH_MAX, STRETCH_MIN
from geostat.fits.similarity.rate_solver import Rows, best_rate, grid_loss
from geostat.statistics.arrays import BoolArray, FloatArray

STRETCH_GRID, COARSE_GRID = 28, 100
"""Points of the grids of s and of b."""


def solve_stretched(lag: FloatArray, rows: Rows) -> dict[str, np.ndarray]:
    """Fit e^{−b k^s}, β = b^{1/s}: a grid over (b, s), damped Newton steps, and the bounds of
    both.
    """
    rate, stretch = _start(lag, rows)
    rate, stretch, squares, converged = _descend(lag, rows, rate, stretch)
    rate_stuck, stretch_stuck = rate >= RATE_MAX, np.zeros(rate.shape, dtype=bool)
    # None: b at a bound, where every s says the same.
    for bound in (STRETCH_MIN, STRETCH_MAX, None):
        edge = best_rate(lag ** (bound or 1.0), rows, False)
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


def _start(lag: FloatArray, rows: Rows) -> tuple[FloatArray, FloatArray]:
    """Return b and s of each row's best point of the grid."""
    best = np.full(rows.z.shape[0], np.inf)
    rate, stretch = np.ones(best.shape), np.ones(best.shape)
    for s in np.geomspace(STRETCH_MIN, STRETCH_MAX, STRETCH_GRID):
        grid, loss = grid_loss(lag**s, rows, False, COARSE_GRID)
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
    squares, gradient, hessian = _loss(lag, rows, at)
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
        loss, slope, curve = _loss(lag, rows.take(active), moved)
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


def _loss(lag: FloatArray, rows: Rows, at: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
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
