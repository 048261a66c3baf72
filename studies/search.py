"""Comparison of the fitted four phases with brute force: how far rmse is above the optimum.

Run: python -m studies.search RUN [--every 5]

For every frequency and amplitude of a dense grid and all break points on a lattice, level and slope
have a closed form, from prefix sums. The best frequencies are polished: all integer break points in
closed form, and Levenberg-Marquardt at the best ones, alternately. It shares no code with the fit.
The gap of a head is the share by which the fit's rmse exceeds that of brute force, or less than 0
where the fit is better. `--every 1` takes all heads (three seconds each). Imports numpy, numba and
xarray.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numba
import numpy as np
import xarray as xr

from geostat.statistics.arrays import FloatArray

FORMS = {"shared": True, "separate": False}
ETAS = np.array([0.02, 0.05, 0.1, 0.18, 0.28, 0.4, 0.55, 0.7, 0.85, 0.97])
LATTICE, STARTS = 64, 24
"""Number of break points of the lattice; number of frequencies that are polished."""

MIN_OSCILLATION, ETA_MAX = 8, 0.99


@numba.njit(nogil=True)
def best_pair(y, first, omega, eta, shared, step, out):  # type: ignore[no-untyped-def]
    """Write squares, j1, j2, b and slope of the best break points on a lattice of `step` tokens."""
    n = y.size
    wave, wave2, wave_y = np.zeros(n + 1), np.zeros(n + 1), np.zeros(n + 1)
    for j in range(n):
        g = np.log(1.0 + eta * np.cos(omega * (first + j)))
        wave[j + 1], wave2[j + 1] = wave[j] + g, wave2[j] + g * g
        wave_y[j + 1] = wave_y[j] + g * y[j]
    reach = max(float(MIN_OSCILLATION), 2.0 * np.pi / omega - 1e-9)
    total, total2 = y.sum(), (y * y).sum()
    out[0] = np.inf
    u, uu, uy, tail_y = 0.0, 0.0, 0.0, 0.0
    for j2 in range(n - 1, -1, -1):
        if j2 < n - 1:
            tail_y += y[j2 + 1]
            count = n - 1.0 - j2
            uu += 2.0 * u + count
            u += count
            uy += tail_y
        if j2 % step != (n - 1) % step:
            continue
        for j1 in range(0, j2 - MIN_OSCILLATION + 1, step):
            if j2 - j1 < reach:
                break
            s, s2, sy = (
                wave[j2 + 1] - wave[j1 + 1],
                wave2[j2 + 1] - wave2[j1 + 1],
                wave_y[j2 + 1] - wave_y[j1 + 1],
            )
            if shared:
                slope = eta
            else:
                slope = 0.0
                if uu * n > u * u:
                    slope = max(0.0, (uy * n - u * (total - s)) / (uu * n - u * u))
            b = (total - s - slope * u) / n
            squares = total2 + s2 - 2.0 * sy + slope * slope * uu - 2.0 * slope * uy - n * b * b
            if squares < out[0]:
                out[0], out[1], out[2], out[3], out[4] = squares, j1, j2, b, slope


@numba.njit(nogil=True)
def _squares(y, first, j1, j2, theta, shared, jac, r):  # type: ignore[no-untyped-def]
    b, eta, omega, slope = theta
    if shared:
        slope = eta
    total = 0.0
    for j in range(y.size):
        model = b
        jac[j, 0], jac[j, 1], jac[j, 2], jac[j, 3] = 1.0, 0.0, 0.0, 0.0
        if j1 < j <= j2:
            i = first + j
            level = 1.0 + eta * np.cos(omega * i)
            model += np.log(level)
            jac[j, 1], jac[j, 2] = np.cos(omega * i) / level, -eta * i * np.sin(omega * i) / level
        elif j > j2:
            model += slope * (j - j2)
            jac[j, 1 if shared else 3] = j - j2
        r[j] = y[j] - model
        total += r[j] * r[j]
    return total


@numba.njit(nogil=True)
def polish(y, first, j1, j2, theta, shared, steps):  # type: ignore[no-untyped-def]
    """Run Levenberg-Marquardt within bounds on theta = (b, η, ω, slope); return the squares."""
    n = y.size
    jac, r, other, r2 = np.zeros((n, 4)), np.zeros(n), np.zeros((n, 4)), np.zeros(n)
    low = np.array([-1e9, 0.0, 2 * np.pi / (j2 - j1), 0.0])
    high = np.array([1e9, ETA_MAX, np.pi, 1e9])
    theta[:] = np.minimum(np.maximum(theta, low), high)
    squares, damping = _squares(y, first, j1, j2, theta, shared, jac, r), 1e-3
    for _ in range(steps):
        normal, grad = jac.T @ jac, jac.T @ r
        for a in range(4):
            stuck = (theta[a] <= low[a] and grad[a] < 0) or (theta[a] >= high[a] and grad[a] > 0)
            if normal[a, a] == 0.0 or stuck:
                normal[a, :], normal[:, a], grad[a] = 0.0, 0.0, 0.0
                normal[a, a] = 1.0
        for a in range(4):
            normal[a, a] *= 1.0 + damping
        trial = np.minimum(np.maximum(theta + np.linalg.solve(normal, grad), low), high)
        loss = _squares(y, first, j1, j2, trial, shared, other, r2)
        if loss <= squares:
            done = loss > squares * (1 - 1e-9)
            theta[:], squares = trial, loss
            jac, other, r, r2 = other, jac, r2, r
            damping *= 0.1
            if done:
                break
        else:
            damping *= 10.0
            if damping > 1e9:
                break
    return squares


@numba.njit(nogil=True)
def brute_force(y, first, shared, frequencies, etas, step, starts):  # type: ignore[no-untyped-def]
    """Return squares, b, η, ω, slope, j1 and j2 (tokens from 0) of the best fit of a row.

    Args:
        y: log weights, (token,), nats, without gaps.
        first: position of the first token.
        shared: one η for oscillation and growth.
        frequencies: grid of ω.
        etas: grid of η.
        step: lattice of break points, tokens.
        starts: number of best frequencies to polish.
    """
    score = np.full(frequencies.size, np.inf)
    start = np.zeros((frequencies.size, 6))
    out = np.zeros(5)
    for f in range(frequencies.size):
        for eta in etas:
            best_pair(y, first, frequencies[f], eta, shared, step, out)
            if out[0] < score[f]:
                score[f] = out[0]
                start[f, 0], start[f, 1], start[f, 2], start[f, 3] = out[1], out[2], out[3], eta
                start[f, 4] = out[4]
    best = np.full(7, np.inf)
    theta = np.zeros(4)
    for f in np.argsort(score)[:starts]:
        if not np.isfinite(score[f]):
            break
        j1, j2 = int(start[f, 0]), int(start[f, 1])
        theta[:] = np.array([start[f, 2], start[f, 3], frequencies[f], start[f, 4]])
        squares = polish(y, first, j1, j2, theta, shared, 30)
        while True:
            best_pair(y, first, theta[2], theta[1], shared, 1, out)
            if not out[0] < squares * (1 - 1e-9):
                break
            j1, j2 = int(out[1]), int(out[2])
            theta[0], theta[3] = out[3], out[4]
            squares = polish(y, first, j1, j2, theta, shared, 30)
        if squares < best[0]:
            best[:] = np.array([squares, theta[0], theta[1], theta[2], theta[3], j1, j2])
    return best


def reference(y: FloatArray, first: int, form: str) -> FloatArray:
    """Return the result of `brute_force` on a dense grid."""
    n = y.size
    grids = (np.pi * np.arange(1, 2 * n + 1) / (2 * n), np.pi / n * np.linspace(1, 120, 300))
    frequencies = np.concatenate(grids)
    frequencies = frequencies[frequencies <= np.pi]
    step = max(n // LATTICE, 1)
    return np.asarray(brute_force(y, first, FORMS[form], frequencies, ETAS, step, STARTS))


def main() -> None:
    """Print the gaps of a run's heads."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("run", nargs="?", default="report/run.zarr", help="a fitted run")
    parser.add_argument("--every", type=int, default=5, help="take every n-th head")
    options = parser.parse_args()
    if not Path(options.run).exists():
        print(f"{options.run}: no such run. Use `make report` first, or name a run.")
        return
    fit = xr.open_zarr(options.run, group="weights", consolidated=False)
    fit = fit.stack(place=("layer", "head")).isel(place=slice(None, None, options.every)).load()
    profiles = fit["log_weight_mean"].transpose("place", "position").values
    complete = np.isfinite(profiles[:, 1:]).all(axis=1)
    print("form      heads  gap > 0.1%  largest gap  fit better by > 0.1%  flagged")
    for form in FORMS:
        rows = profiles[complete, 1:]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            best = list(pool.map(partial(reference, first=1, form=form), rows))
        squares = np.array([result[0] for result in best])
        of_form = fit.sel(form=form).isel(place=complete)
        gap = 1.0 - np.sqrt(squares / rows.shape[1]) / of_form["form_rmse"].values
        flagged = ~of_form["form_converged"].values.astype(bool)
        print(
            f"{form:9s} {gap.size:5d}  {(gap > 1e-3).sum():10d}  {gap.max():11.2%}"
            f"  {(gap < -1e-3).sum():20d}  {flagged.sum():7d}"
        )


if __name__ == "__main__":
    main()
