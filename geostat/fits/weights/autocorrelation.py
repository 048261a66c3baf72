"""Autocorrelated residuals: their long-run variance and ARMA(1,1) background. Neighbours resemble
each other, so tokens are not independent.

Three descriptions, all of `rows` of residuals of fits to the mean log weight, (..., token), nats,
about 0, tokens in order, NaN where unknown:

- *lag-one autocorrelation*;
- *long-run noise*, nats: the square root of the long-run variance, that is n times the variance of
  a mean over n tokens. Estimator: prewhitened by an autoregression of order one, then Newey-West
  (Bartlett) weights with Andrews' bandwidth (Andrews 1991, Econometrica 59; Andrews & Monahan 1992,
  Econometrica 60). The autoregressive coefficient is held below 0.97, as they advise;
- *background*: an ARMA(1,1) by Whittle's likelihood on a grid, (φ, θ) of u_t = φ u_{t−1} + e_t +
  θ e_{t−1}. It holds AR(1) (θ = 0), white noise, and AR(1) plus white noise, which residuals of
  real heads need: their autocorrelation falls fast at first and slowly later. Its spectrum rises or
  falls throughout, so it has no peak and cannot pass an oscillation off as noise. Single
  frequencies that stand far above it are left out of the fit.

Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from geostat.statistics.arrays import FloatArray, ratio

LARGEST = 0.97
"""Largest autoregressive coefficient used for prewhitening."""
PHI = np.concatenate([np.linspace(-0.6, 0.9, 31), [0.92, 0.94, 0.96, 0.97, 0.98, 0.99]])
THETA = np.linspace(-0.95, 0.6, 32)
PEAK = 8.0
"""A frequency whose power is more than this many times the background's is no part of it: e⁻⁸ =
0.03% of those of noise.
"""


def autocovariance(rows: FloatArray, lag: int) -> FloatArray:
    """Return the mean over pairs of known tokens `lag` apart of the product of residuals (about
    0), shape (row,); NaN without a pair.
    """
    if lag >= rows.shape[-1]:
        return np.full(rows.shape[:-1], np.nan)
    product = rows[..., lag:] * rows[..., : rows.shape[-1] - lag]
    known = np.isfinite(product)
    return ratio(np.where(known, product, 0.0).sum(axis=-1), known.sum(axis=-1))


def lag_one(rows: FloatArray) -> FloatArray:
    """Return the lag-one autocorrelation of each row; NaN for an exact fit and without a pair of
    neighbours.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        result = autocovariance(rows, 1) / autocovariance(rows, 0)
    return np.where(np.isfinite(result), result, np.nan)


def long_run_noise(rows: FloatArray) -> FloatArray:
    """Return the square root of the long-run variance of each row, nats; NaN without a pair of
    neighbours, 0 for an exact fit.
    """
    rho = np.clip(np.nan_to_num(lag_one(rows)), -LARGEST, LARGEST)
    if rows.shape[-1] < 2:
        return np.full(rows.shape[:-1], np.nan)
    innovation = rows[..., 1:] - rho[..., None] * rows[..., :-1]
    count = np.isfinite(innovation).sum(axis=-1)
    left = np.clip(np.nan_to_num(lag_one(innovation)), -LARGEST, LARGEST)
    reach = 1.1447 * (4.0 * left**2 / (1.0 - left**2) ** 2 * count) ** (1.0 / 3.0)
    total = autocovariance(innovation, 0)
    for lag in range(1, min(int(np.max(reach, initial=0.0)), rows.shape[-1] // 2) + 1):
        share = np.maximum(1.0 - lag / (np.floor(reach) + 1.0), 0.0)
        total = total + 2.0 * share * np.nan_to_num(autocovariance(innovation, lag))
    return np.sqrt(np.maximum(total, 0.0)) / (1.0 - rho)


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """ARMA(1,1) noise of each row; `variance` is that of its innovations, nats². Each of shape
    (...), NaN where nothing is known.
    """

    phi: FloatArray
    theta: FloatArray
    variance: FloatArray

    def take(self, index: Any) -> Background:
        """Return the noise of some rows."""
        return Background(
            phi=self.phi[index], theta=self.theta[index], variance=self.variance[index]
        )

    def density(self, frequency: FloatArray) -> FloatArray:
        """Return the spectral density, (..., frequency), nats², normalised so that its mean over
        frequency is the noise's variance.

        `frequency`, radians per token, is (..., frequency) or (frequency,).
        """
        return self.variance[..., None] * _shape(
            self.phi[..., None], self.theta[..., None], np.cos(frequency)
        )


def _shape(phi: FloatArray, theta: FloatArray, cosine: FloatArray) -> FloatArray:
    return (1.0 + theta**2 + 2.0 * theta * cosine) / (1.0 + phi**2 - 2.0 * phi * cosine)


@lru_cache(maxsize=4)
def _grid(tokens: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return φ, θ of each grid point, and its spectrum's inverse and logarithm at the Fourier
    frequencies above 0.
    """
    phi, theta = (x.ravel() for x in np.meshgrid(PHI, THETA, indexing="ij"))
    keep = np.abs(phi + theta) > 0.02  # elsewhere the two cancel
    phi, theta = np.append(phi[keep], 0.0), np.append(theta[keep], 0.0)
    frequency = 2.0 * np.pi * np.arange(1, (tokens - 1) // 2 + 1) / tokens
    spectrum = _shape(phi, theta, np.cos(frequency)[:, None])
    return phi, theta, 1.0 / spectrum, np.log(spectrum)


def background(rows: FloatArray) -> Background:
    """Fit the ARMA(1,1) background of each row by Whittle's likelihood; unknown residuals are taken
    as 0.

    White noise where fewer than 8 tokens are known or the fit is exact.
    """
    known = np.isfinite(rows)
    count = known.sum(axis=-1)
    filled = np.where(known, rows, 0.0)
    tokens = rows.shape[-1]
    plain = ratio((filled**2).sum(axis=-1), count)
    enough = (count >= 8) & (plain > 0)
    phi, theta, variance = np.zeros(count.shape), np.zeros(count.shape), plain.copy()
    if enough.any():
        kept = filled[enough]
        power = (
            np.abs(np.fft.rfft(kept, axis=-1)[:, 1 : (tokens - 1) // 2 + 1]) ** 2
            / count[enough][:, None]
        )
        phi[enough], theta[enough], variance[enough] = _whittle(power, tokens)
    return Background(phi=phi, theta=theta, variance=variance)


def _whittle(power: FloatArray, tokens: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    phi, theta, inverse, logarithm = _grid(tokens)
    used = np.ones(power.shape)
    for _ in range(3):
        number = used.sum(axis=1)[:, None]
        scale = (power * used) @ inverse / number
        best = np.argmin(np.log(np.maximum(scale, 1e-300)) + (used @ logarithm) / number, axis=1)
        variance = scale[np.arange(best.size), best]
        again = (power * inverse[:, best].T <= PEAK * variance[:, None]).astype(np.float64)
        if (again == used).all():
            break
        used = again
    return phi[best], theta[best], variance
