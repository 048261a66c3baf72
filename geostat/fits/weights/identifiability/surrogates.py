"""Surrogate tests: is an oscillation, is growth, more than the noise makes? Tests against
surrogates that have the residuals' own autocorrelation.

A residual that resembles its neighbour wanders, and a search over break points and frequencies
finds an oscillation in any wandering. So:

1. the noise of a head is the ARMA(1,1) background (`autocorrelation`) of the residuals of its fit
   without an oscillation: the monotone form or the power law of `rivals`, whichever leaves less.
   (The misfit of a bend, taken for noise, would hide oscillations);
2. the profile is whitened: turned into that noise's innovations, which are independent where the
   background is right;
3. *oscillation*: over every frequency, and all pairs of break points on BLOCKS blocks, the largest
   drop of the sum of squares of the whitened residuals, in units of their variance, by a cosine of
   the phase that the paper prescribes (passed through the same filter) with a positive amplitude.
   *Growth*: over all T₂, the same drop by a ramp beside a constant, with a positive slope;
4. surrogates: white noise of the same length that goes through all of it: both fits, background,
   whitening, scan. p = (1 + #{surrogates at least as large}) / (1 + SURROGATES).

Surrogates need not be drawn with each head's own φ and θ, since whitening takes these out: the
distribution of the statistics hardly depends on them (tests hold it to that), so all heads of one
length share one set of surrogates, drawn with a fixed seed. Source: surrogates after Theiler et al.
(1992), Physica D 58. Imports numpy; numba by `surrogate_kernels`, `break_point_kernels`.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache

import numpy as np

from geostat.fits.weights.autocorrelation import Background, background
from geostat.fits.weights.break_point_kernels import MIN_OSCILLATION, monotone_rows
from geostat.fits.weights.identifiability.surrogate_kernels import best_pair, whiten
from geostat.fits.weights.rivals import design, solve
from geostat.statistics.arrays import FloatArray
from geostat.statistics.losses import mean_of_known

SURROGATES = 999
BLOCKS = 24
FEWEST = MIN_OSCILLATION + 4
"""Fewest tokens the tests take on."""
SEED = 20260201


def p_values(
    mean: FloatArray, residual: FloatArray, noise: Background, first: int
) -> dict[str, FloatArray]:
    """Test log weights, (row, token), nats, NaN where unknown: oscillation_p and growth_p, (row,).

    `residual`, same shape, is what the better fit without an oscillation leaves, `noise` its
    background, `first` the position of the first token. NaN in a row of fewer than FEWEST known
    tokens. An exact fit leaves no oscillation (0) and growth beyond every surrogate (inf) unless
    the row is constant.
    """
    known = np.isfinite(residual)
    enough = known.sum(axis=-1) >= FEWEST
    around = np.where(known, mean - mean_of_known(mean)[:, None], 0.0)
    filled = np.where(known, residual, 0.0)
    rounding = 1e-24 * (1.0 + np.where(known, mean, 0.0) ** 2).sum(axis=-1)
    exact = (filled**2).sum(axis=-1) <= rounding
    grows = (around**2).sum(axis=-1) > rounding
    sound = enough & ~exact
    seen = {"oscillation": np.zeros(enough.shape), "growth": np.where(grows, np.inf, 0.0)}
    if sound.any():
        for name, values in statistics(
            around[sound], filled[sound], noise.take(sound), first
        ).items():
            seen[name][sound] = values
    p = {f"{name}_p": np.full(enough.shape, np.nan) for name in seen}
    if enough.any():
        for name, null in surrogates(mean.shape[-1], first).items():
            reached = (null[None, :] >= seen[name][enough, None]).sum(axis=1)
            p[f"{name}_p"][enough] = (1.0 + reached) / (1.0 + SURROGATES)
    return p


@lru_cache(maxsize=16)
def surrogates(tokens: int, first: int) -> dict[str, FloatArray]:
    """Return the `statistics` of SURROGATES rows of noise alone."""
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
    """Return, of each row, the residuals of the monotone form or of the power law, whichever are
    smaller (sum of squares).
    """
    less = np.nansum(power_law**2, axis=-1) < np.nansum(monotone**2, axis=-1)
    return np.where(less[..., None], power_law, monotone)


def statistics(
    around: FloatArray, residual: FloatArray, noise: Background, first: int
) -> dict[str, FloatArray]:
    """Return the two statistics, "oscillation" and "growth", of rows without gaps, each (row,).

    `around` is log weights about their mean, (row, token), nats; the others are those of
    `p_values`.
    """
    return {
        "oscillation": _oscillation(_whitened(residual, noise), noise, first),
        "growth": _growth(_whitened(around, noise), noise),
    }


def _whitened(rows: FloatArray, noise: Background) -> FloatArray:
    out = np.empty(rows.shape)
    whiten(np.ascontiguousarray(rows), noise.phi, noise.theta, noise.variance, out)
    return out


def _oscillation(white: FloatArray, noise: Background, first: int) -> FloatArray:
    """Scan every row for a cosine between two break points."""
    rows, tokens = white.shape
    number = int(min(max(2 * tokens, 32), 4096))
    frequencies = np.pi * np.arange(1, number + 1) / number
    edges = np.unique(np.linspace(0, tokens, min(BLOCKS, tokens) + 1).astype(np.int64))
    turn = np.exp(-1j * frequencies)
    starts = np.exp(-1j * np.outer(edges[:-1] + first, frequencies))
    double = _double_sums(edges, first, frequencies)
    lengths = np.diff(edges)[:, None]
    longest = int(lengths.max())
    out = np.empty(rows)

    def one(row: int) -> None:
        response = (1.0 - noise.phi[row] * turn) / (1.0 + noise.theta[row] * turn)
        phase = response / np.abs(response)  # of the filtered cosine: cos(ωi + arg phase)
        parts = np.zeros((edges.size - 1, longest))
        for k in range(edges.size - 1):
            parts[k, : lengths[k, 0]] = white[row, edges[k] : edges[k + 1]]
        sums = np.zeros((edges.size, number))
        np.cumsum(
            (np.fft.rfft(parts, 2 * number, axis=1)[:, 1:] * starts * phase.conj()).real,
            axis=0,
            out=sums[1:],
        )
        squares = np.zeros_like(sums)
        np.cumsum(0.5 * lengths + 0.5 * (double * phase**2).real, axis=0, out=squares[1:])
        out[row] = best_pair(sums, squares, edges, frequencies, MIN_OSCILLATION)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(one, range(rows)))
    return out


def _double_sums(edges: np.ndarray, first: int, frequencies: FloatArray) -> np.ndarray:
    """Return Σ e^{2iωj} over each block, shape (block, frequency)."""
    ratio = np.exp(2j * frequencies)
    whole = np.abs(ratio - 1.0) < 1e-9
    powers = np.exp(2j * np.outer(edges + first, frequencies))
    return np.where(
        whole, np.diff(edges)[:, None], np.diff(powers, axis=0) / np.where(whole, 1.0, ratio - 1.0)
    )


def _growth(white: FloatArray, noise: Background) -> FloatArray:
    """Scan every row over all T₂ for a ramp beside a constant."""
    rows, tokens = white.shape
    unit = replace(noise, variance=np.ones(rows))
    constant = _whitened(np.ones((rows, tokens)), unit)
    ramp = _whitened(
        np.broadcast_to(np.arange(tokens, dtype=np.float64), (rows, tokens)), unit
    )  # that starts at 0, at u = 0, 1, ...
    # Sums over the tail j > T₂ of white or constant at j times the response at j − T₂, all T₂ at
    # once.
    size = 2 * tokens
    of_ramp = np.fft.rfft(ramp, size, axis=1).conj()
    with_white, with_constant = (
        np.fft.irfft(np.fft.rfft(series, size, axis=1) * of_ramp, size, axis=1)[:, :tokens]
        for series in (white, constant)
    )
    own = np.cumsum(ramp**2, axis=1)[:, ::-1]
    norm = (constant**2).sum(axis=1, keepdims=True)
    numerator = with_white - (white * constant).sum(axis=1, keepdims=True) * with_constant / norm
    remainder = own - with_constant**2 / norm
    use = (remainder > 1e-9 * own) & (numerator > 0) & (own > 0)
    gain = np.divide(numerator**2, remainder, out=np.zeros_like(own), where=use)
    return gain.max(axis=1)
