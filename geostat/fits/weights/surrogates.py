"""Surrogate tests of oscillation and growth against noise with the residuals' autocorrelation.

Autocorrelated residuals wander, and a search over break points and frequencies finds an oscillation
in any wandering series. The test has four steps:

1. the noise of a head is the ARMA(1,1) background of the residuals of its better fit without an
   oscillation: monotone form or power law (misfit of a bend, as noise, would hide oscillations);
2. the profile is whitened: transformed to the innovations of that noise;
3. a statistic is the largest drop of the sum of squares of the whitened residuals, in units of
   their variance. *Oscillation*: by a cosine with the paper's phase (passed through the same
   filter) and positive amplitude, over every frequency and all pairs of break points on BLOCKS
   blocks. *Growth*: by a ramp with positive slope in addition to a constant, over all T₂;
4. surrogates: white noise of the same length, processed in the same way (both fits, background,
   whitening, scan). p = (1 + #{surrogates at least as large}) / (1 + SURROGATES).

Whitened statistics hardly depend on φ and θ (tests check this): all heads of one length share one
set of surrogates, drawn with a fixed seed.
Source: Theiler et al. (1992), Physica D 58. No kernel here calls one of another file: numba's cache
watches only a kernel's file and would go stale. Imports empirical, for its compiler, and numpy.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache

import numpy as np

from empirical.measure.compiled import compiled
from geostat.fits.weights.autocorrelation import Background, background
from geostat.fits.weights.break_point_kernels import MIN_OSCILLATION, monotone_rows
from geostat.fits.weights.rivals import design, solve
from geostat.statistics.arrays import FloatArray
from geostat.statistics.losses import mean_of_known

SURROGATES = 999
BLOCKS = 24
MIN_TOKENS = MIN_OSCILLATION + 4
"""Minimum number of tokens of a test."""
SEED = 20260201


def p_values(
    mean: FloatArray, residual: FloatArray, noise: Background, first: int
) -> dict[str, FloatArray]:
    """Return p-values oscillation_p and growth_p of log weights, (row,).

    `mean` holds mean log weights, (row, token), nats, NaN where unknown; `residual` residuals of
    the better fit without an oscillation, `noise` their background; `first` is the position of the
    first token. The result is NaN in a row with fewer than MIN_TOKENS known tokens. An exact fit
    has oscillation statistic 0, and growth beyond every surrogate (inf) unless the row is constant.
    """
    known = np.isfinite(residual)
    enough = known.sum(axis=-1) >= MIN_TOKENS
    centred = np.where(known, mean - mean_of_known(mean)[:, None], 0.0)
    filled = np.where(known, residual, 0.0)
    rounding = 1e-24 * (1.0 + np.where(known, mean, 0.0) ** 2).sum(axis=-1)
    exact = (filled**2).sum(axis=-1) <= rounding
    grows = (centred**2).sum(axis=-1) > rounding
    testable = enough & ~exact
    observed = {"oscillation": np.zeros(enough.shape), "growth": np.where(grows, np.inf, 0.0)}
    if testable.any():
        for name, values in statistics(
            centred[testable], filled[testable], noise.take(testable), first
        ).items():
            observed[name][testable] = values
    p = {f"{name}_p": np.full(enough.shape, np.nan) for name in observed}
    if enough.any():
        for name, null in surrogates(mean.shape[-1], first).items():
            exceeding = (null[None, :] >= observed[name][enough, None]).sum(axis=1)
            p[f"{name}_p"][enough] = (1.0 + exceeding) / (1.0 + SURROGATES)
    return p


@lru_cache(maxsize=16)
def surrogates(tokens: int, first: int) -> dict[str, FloatArray]:
    """Return the `statistics` of SURROGATES rows of white noise."""
    rows = np.random.default_rng(SEED).normal(size=(SURROGATES, tokens))
    rows -= rows.mean(axis=1, keepdims=True)
    monotone = np.empty_like(rows)
    monotone_rows(rows, monotone)
    position = first + np.arange(tokens, dtype=np.float64)
    b, slope = solve("power_law", position, rows)
    residual = without_oscillation(
        monotone, rows - b[:, None] - slope[:, None] * design("power_law", position)
    )
    return statistics(rows, residual, background(residual), first)


def without_oscillation(monotone: FloatArray, power_law: FloatArray) -> FloatArray:
    """Return each row's residuals of the monotone form or the power law, whichever fits better."""
    power_law_better = np.nansum(power_law**2, axis=-1) < np.nansum(monotone**2, axis=-1)
    return np.where(power_law_better[..., None], power_law, monotone)


def statistics(
    centred: FloatArray, residual: FloatArray, noise: Background, first: int
) -> dict[str, FloatArray]:
    """Return the statistics "oscillation" and "growth" of rows without gaps, each (row,).

    `centred` holds log weights about their mean; the other arguments are those of `p_values`.
    """
    return {
        "oscillation": _oscillation(_whitened(residual, noise), noise, first),
        "growth": _growth(_whitened(centred, noise), noise),
    }


def _whitened(rows: FloatArray, noise: Background) -> FloatArray:
    """Return the innovations of rows under their noise, in standard deviations."""
    out = np.empty(rows.shape)
    whiten(np.ascontiguousarray(rows), noise.phi, noise.theta, noise.variance, out)
    return out


def _oscillation(white: FloatArray, noise: Background, first: int) -> FloatArray:
    """Return the largest gain of each row by a cosine between two break points."""
    rows, tokens = white.shape
    count = int(min(max(2 * tokens, 32), 4096))
    frequencies = np.pi * np.arange(1, count + 1) / count
    edges = np.unique(np.linspace(0, tokens, min(BLOCKS, tokens) + 1).astype(np.int64))
    shift = np.exp(-1j * frequencies)
    starts = np.exp(-1j * np.outer(edges[:-1] + first, frequencies))
    double = _double_sums(edges, first, frequencies)
    lengths = np.diff(edges)[:, None]
    longest = int(lengths.max())
    out = np.empty(rows)

    def scan(row: int) -> None:
        response = (1.0 - noise.phi[row] * shift) / (1.0 + noise.theta[row] * shift)
        phase = response / np.abs(response)  # the filtered cosine is cos(ωi + arg phase)
        padded = np.zeros((edges.size - 1, longest))
        for block in range(edges.size - 1):
            padded[block, : lengths[block, 0]] = white[row, edges[block] : edges[block + 1]]
        sums = np.zeros((edges.size, count))
        np.cumsum(
            (np.fft.rfft(padded, 2 * count, axis=1)[:, 1:] * starts * phase.conj()).real,
            axis=0,
            out=sums[1:],
        )
        squares = np.zeros_like(sums)
        np.cumsum(0.5 * lengths + 0.5 * (double * phase**2).real, axis=0, out=squares[1:])
        out[row] = best_pair(sums, squares, edges, frequencies, MIN_OSCILLATION)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(scan, range(rows)))
    return out


def _double_sums(edges: np.ndarray, first: int, frequencies: FloatArray) -> np.ndarray:
    """Return Σ e^{2iωj} over each block, (block, frequency)."""
    ratio = np.exp(2j * frequencies)
    constant = np.abs(ratio - 1.0) < 1e-9
    powers = np.exp(2j * np.outer(edges + first, frequencies))
    return np.where(
        constant,
        np.diff(edges)[:, None],
        np.diff(powers, axis=0) / np.where(constant, 1.0, ratio - 1.0),
    )


def _growth(white: FloatArray, noise: Background) -> FloatArray:
    """Return the largest gain of each row, over all T₂, by a ramp in addition to a constant."""
    rows, tokens = white.shape
    unit = replace(noise, variance=np.ones(rows))
    constant = _whitened(np.ones((rows, tokens)), unit)
    # A ramp from 0: u = 0, 1, ….
    ramp = _whitened(np.broadcast_to(np.arange(tokens, dtype=np.float64), (rows, tokens)), unit)
    # Sums over the tail j > T₂ of white (or constant) at j times the ramp at j − T₂, for all T₂ at
    # once.
    size = 2 * tokens
    of_ramp = np.fft.rfft(ramp, size, axis=1).conj()
    with_white, with_constant = (
        np.fft.irfft(np.fft.rfft(series, size, axis=1) * of_ramp, size, axis=1)[:, :tokens]
        for series in (white, constant)
    )
    ramp_squares = np.cumsum(ramp**2, axis=1)[:, ::-1]
    norm = (constant**2).sum(axis=1, keepdims=True)
    numerator = with_white - (white * constant).sum(axis=1, keepdims=True) * with_constant / norm
    remainder = ramp_squares - with_constant**2 / norm
    use = (remainder > 1e-9 * ramp_squares) & (numerator > 0) & (ramp_squares > 0)
    gain = np.divide(numerator**2, remainder, out=np.zeros_like(ramp_squares), where=use)
    return gain.max(axis=1)


@compiled()
def whiten(rows, phi, theta, variance, out):  # type: ignore[no-untyped-def]
    """Write the innovations of ARMA(1,1) rows, in units of their standard deviation.

    The first token is scaled by the standard deviation of the noise.
    """
    for i in range(rows.shape[0]):
        sigma = np.sqrt(variance[i])
        stationary = np.sqrt((1.0 + theta[i] ** 2 + 2.0 * phi[i] * theta[i]) / (1.0 - phi[i] ** 2))
        before = rows[i, 0] / stationary
        out[i, 0] = before / sigma
        for t in range(1, rows.shape[1]):
            before = rows[i, t] - phi[i] * rows[i, t - 1] - theta[i] * before
            out[i, t] = before / sigma


@compiled()
def best_pair(sums, squares, edges, frequencies, shortest):  # type: ignore[no-untyped-def]
    """Return the largest gain s²/q over pairs of edges and frequencies.

    s and q are differences of prefix sums, (edge, frequency); s must be positive.
    """
    best = 0.0
    for f in range(frequencies.size):
        span = max(float(shortest), 2.0 * np.pi / frequencies[f])
        for b in range(1, edges.size):
            for a in range(b):
                if edges[b] - edges[a] < span:
                    break
                s = sums[b, f] - sums[a, f]
                if s > 0.0:
                    gain = s * s / (squares[b, f] - squares[a, f])
                    if gain > best:
                        best = gain
    return best
