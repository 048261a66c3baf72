"""Batched least squares of similarity decays, many rows at once: the starts of lmfit, and all
leave-one-document-out replicates.

The constant has a closed form; forms with one rate b are `rate_solver`'s. The stretched exponential
e^{−b k^s} has b and s together: a grid over (b, s) gives the start, Newton steps in (log b, log s),
damped (Levenberg 1944), the optimum; then the bounds of both are tried. Imports numpy and geostat's
forms.
"""

from __future__ import annotations

import numpy as np

from geostat.fits.similarity.forms import (
    ABSENT,
    FORM,
    PARAMETERS,
    RATE_MAX,
    STRETCH_MAX,
    STRETCH_MIN,
    Solution,
)
from geostat.fits.similarity.rate_solver import (
    AMPLITUDE_MAX,
    AMPLITUDE_MIN,
    Rows,
    best_rate,
    grid_loss,
)
from geostat.statistics.arrays import BoolArray, FloatArray
from theory.head.similarity_decay import distance

CHUNK = 2**18
"""Numbers (rows × lags) worked on at once: 2 MB an array, which a cache holds."""
STRETCH_GRID, COARSE_GRID = 28, 100
"""Points of the grids of s and of b."""


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
    """Return parameters, squares, converged, and what is at a bound, each (row,)."""
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
        return out | _solve_stretched(lag, rows)
    free = "offset" in FORM[form].parameters
    best = best_rate(distance(form, lag), rows, free)
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
    """Say where A is at a bound."""
    return np.asarray((amplitude <= AMPLITUDE_MIN) | (amplitude >= AMPLITUDE_MAX))


def _solve_stretched(lag: FloatArray, rows: Rows) -> dict[str, np.ndarray]:
    """Fit e^{−b k^s}, β = b^{1/s}."""
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
