"""A feasible sequence of cosines by lag near one that no vectors have.

A stationary sequence is positive semidefinite if its spectrum is non-negative (Herglotz). The sequence is laid symmetrically on a circle, the negative
part of its spectrum is cut off, and what is left is scaled to 1 at lag 0: every Toeplitz matrix of the result is then positive semidefinite. It is
not the nearest correlation matrix (`theory.head.gram.nearest_correlation`, minutes for a thousand tokens), but it depends on the lag alone and takes
milliseconds. Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theory.arrays import FloatArray
from theory.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LagProjection:
    """Feasible cosines by lag, and the root mean squared change over all pairs of tokens."""

    by_lag: FloatArray
    distance: float


def clip_spectrum(by_lag: FloatArray) -> LagProjection:
    """Return cosines by lag whose Toeplitz matrix is positive semidefinite, near those given.

    Args:
        by_lag: cosines at lags 0, 1, 2, …; the first is 1.

    Returns:
        The sequence as given, with distance 0, where its spectrum is non-negative already.

    Raises:
        InputError: if it is not a finite 1-d sequence that starts with 1.

    Example:
        >>> clip_spectrum(np.array([1.0, -0.9, 0.9])).by_lag.round(3).tolist()
        [1.0, -0.9, 0.9]
    """
    given = np.asarray(by_lag, dtype=np.float64)
    if given.ndim != 1 or given.size == 0 or not np.isfinite(given).all() or abs(given[0] - 1) > 1e-12:
        raise InputError(
            f"by_lag has shape {given.shape}, expected a finite sequence of cosines by lag that starts with 1. Prepend 1 to it."
        )
    spectrum = np.fft.hfft(given) if given.size > 1 else np.ones(1)
    if (spectrum >= 0).all():
        return LagProjection(by_lag=given, distance=0.0)
    clipped = np.fft.ihfft(np.maximum(spectrum, 0.0)).real
    found = clipped / clipped[0]
    pairs = np.arange(given.size, 0, -1) * np.where(np.arange(given.size) > 0, 2.0, 1.0)
    return LagProjection(by_lag=found, distance=float(np.sqrt((pairs * (found - given) ** 2).sum() / pairs.sum())))
