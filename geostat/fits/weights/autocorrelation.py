"""Autocorrelated residuals: long-run variance and ARMA(1,1) background.

Residuals of neighbouring tokens are correlated. `rows` are residuals of fits to the mean log
weight, (..., token), in nats, about 0, tokens in order, NaN where unknown. Three descriptions:

- *lag-one autocorrelation*;
- *long-run noise*, nats: square root of the long-run variance, which is n times the variance of a
  mean over n tokens. Estimator: prewhitening by an autoregression of order one, then Newey-West
  (Bartlett) weights with Andrews' bandwidth (Andrews 1991, Econometrica 59; Andrews & Monahan 1992,
  Econometrica 60). They recommend the limit 0.97 on the autoregressive coefficient;
- *background*: an ARMA(1,1), u_t = φ u_{t−1} + e_t + θ e_{t−1}, by Whittle's likelihood on a grid
  of (φ, θ). It includes AR(1) plus white noise, which residuals of real heads need. Its spectrum is
  monotone: an oscillation, a peak, cannot be fitted as noise. The fit ignores single frequencies
  far above the background.

Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from geostat.statistics.arrays import FloatArray, ratio

LARGEST = 0.97
"""Largest autoregressive coefficient for prewhitening."""
PHI = np.concatenate([np.linspace(-0.6, 0.9, 31), [0.92, 0.94, 0.96, 0.97, 0.98, 0.99]])
THETA = np.linspace(-0.95, 0.6, 32)
PEAK = 8.0
"""Power over background above which a frequency is excluded from the background.

Noise exceeds it at e⁻⁸ = 0.03% of frequencies.
"""


def autocovariance(rows: FloatArray, lag: int) -> FloatArray:
    """Return the mean product of known residuals `lag` tokens apart; NaN without a pair."""
    if lag >= rows.shape[-1]:
        return np.full(rows.shape[:-1], np.nan)
    product = rows[..., lag:] * rows[..., : rows.shape[-1] - lag]
    known = np.isfinite(product)
    return ratio(np.where(known, product, 0.0).sum(axis=-1), known.sum(axis=-1))


def lag_one(rows: FloatArray) -> FloatArray:
    """Return the lag-one autocorrelation; NaN for an exact fit or without a pair of neighbours."""
    with np.errstate(invalid="ignore", divide="ignore"):
        result = autocovariance(rows, 1) / autocovariance(rows, 0)
    return np.where(np.isfinite(result), result, np.nan)


def long_run_noise(rows: FloatArray) -> FloatArray:
    """Return the square root of the long-run variance, nats; NaN without a pair of neighbours."""
    rho = np.clip(np.nan_to_num(lag_one(rows)), -LARGEST, LARGEST)
    if rows.shape[-1] < 2:
        return np.full(rows.shape[:-1], np.nan)
    innovation = rows[..., 1:] - rho[..., None] * rows[..., :-1]
    count = np.isfinite(innovation).sum(axis=-1)
    remaining_rho = np.clip(np.nan_to_num(lag_one(innovation)), -LARGEST, LARGEST)
    bandwidth = 1.1447 * (4.0 * remaining_rho**2 / (1.0 - remaining_rho**2) ** 2 * count) ** (
        1.0 / 3.0
    )
    total = autocovariance(innovation, 0)
    for lag in range(1, min(int(np.max(bandwidth, initial=0.0)), rows.shape[-1] // 2) + 1):
        bartlett = np.maximum(1.0 - lag / (np.floor(bandwidth) + 1.0), 0.0)
        total = total + 2.0 * bartlett * np.nan_to_num(autocovariance(innovation, lag))
    return np.sqrt(np.maximum(total, 0.0)) / (1.0 - rho)


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """ARMA(1,1) noise of each row, arrays of shape (...), NaN where unknown.

    `variance` is the variance of the innovations, nats².
    """

    phi: FloatArray
    theta: FloatArray
    variance: FloatArray

    def take(self, index: Any) -> Background:
        """Return the noise of selected rows."""
        return Background(
            phi=self.phi[index], theta=self.theta[index], variance=self.variance[index]
        )

    def density(self, frequency: FloatArray) -> FloatArray:
        """Return the spectral density, (..., frequency), nats²; its mean is the noise variance.

        `frequency`, in radians per token, has shape (..., frequency) or (frequency,).
        """
        return self.variance[..., None] * _shape(
            self.phi[..., None], self.theta[..., None], np.cos(frequency)
        )


def _shape(phi: FloatArray, theta: FloatArray, cosine: FloatArray) -> FloatArray:
    return (1.0 + theta**2 + 2.0 * theta * cosine) / (1.0 + phi**2 - 2.0 * phi * cosine)


@lru_cache(maxsize=4)
def _grid(tokens: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return φ and θ of the grid, and inverse and log of the spectra at Fourier frequencies."""
    phi, theta = (x.ravel() for x in np.meshgrid(PHI, THETA, indexing="ij"))
    keep = np.abs(phi + theta) > 0.02  # φ = −θ is white noise
    phi, theta = np.append(phi[keep], 0.0), np.append(theta[keep], 0.0)
    frequency = 2.0 * np.pi * np.arange(1, (tokens - 1) // 2 + 1) / tokens
    spectrum = _shape(phi, theta, np.cos(frequency)[:, None])
    return phi, theta, 1.0 / spectrum, np.log(spectrum)


def background(rows: FloatArray) -> Background:
    """Fit the background of each row by Whittle's likelihood; unknown residuals count as 0.

    It is white noise where fewer than 8 tokens are known or the fit is exact.
    """
    known = np.isfinite(rows)
    count = known.sum(axis=-1)
    filled = np.where(known, rows, 0.0)
    tokens = rows.shape[-1]
    mean_square = ratio((filled**2).sum(axis=-1), count)
    enough = (count >= 8) & (mean_square > 0)
    phi, theta, variance = np.zeros(count.shape), np.zeros(count.shape), mean_square.copy()
    if enough.any():
        filled_rows = filled[enough]
        power = (
            np.abs(np.fft.rfft(filled_rows, axis=-1)[:, 1 : (tokens - 1) // 2 + 1]) ** 2
            / count[enough][:, None]
        )
        phi[enough], theta[enough], variance[enough] = _whittle(power, tokens)
    return Background(phi=phi, theta=theta, variance=variance)


def _whittle(power: FloatArray, tokens: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return φ, θ and innovation variance of rows with the given periodogram, without peaks."""
    phi, theta, inverse, logarithm = _grid(tokens)
    used = np.ones(power.shape)
    for _ in range(3):
        number = used.sum(axis=1)[:, None]
        scale = (power * used) @ inverse / number
        best = np.argmin(np.log(np.maximum(scale, 1e-300)) + (used @ logarithm) / number, axis=1)
        variance = scale[np.arange(best.size), best]
        below_peak = (power * inverse[:, best].T <= PEAK * variance[:, None]).astype(np.float64)
        if (below_peak == used).all():
            break
        used = below_peak
    return phi[best], theta[best], variance
