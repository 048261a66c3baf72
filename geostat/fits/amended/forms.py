"""Similarity by rank and by lag: forms of the mean cosine of a cell of octaves, by weighted least
squares.

Whether a cosine depends on rank or lag is answered by free effects of octaves, alone and additive
(a two-way layout without interaction), because a law of the wrong shape would blame one for the
misfit of the other. Laws of rank and of lag are fitted beside them. They are linear in all but an
exponent, which lies on a grid (variable projection). Imports numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from geostat.statistics.arrays import FloatArray, ratio

Octaves = NDArray[np.int64]
"""Octave of each cell: o for the numbers 2^o to 2^(o+1) − 1."""

GAMMAS: Final = np.geomspace(0.1, 4.0, 97)
"""Exponents of the rank."""
BETAS: Final = np.geomspace(1e-4, 4.0, 193)
"""Rates of decay with the lag, per token."""

ROUNDING: Final = 1e-9
"""Rounding of a fitted cosine of 1."""

EFFECTS: Final = ("constant", "rank", "lag", "rank_and_lag")
"""Free effects of octaves: none, of the rank, of the lag, additive of both."""
LAWS: Final = ("rank_law", "exponential", "offset")
"""c∞ + (c₁ − c∞)r^(−γ), e^(−βk), c + (1 − c)e^(−βk)."""
FORMS: Final = (*EFFECTS, *LAWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coherence:
    """Fits of c(r) = limit + (first − limit)r^(−gamma) with 0 ≤ limit ≤ first ≤ 1, (case,), and its
    values, (case, cell).
    """

    first: FloatArray
    limit: FloatArray
    gamma: FloatArray
    cosine: FloatArray


def by_rank(octave: Octaves, gamma: float) -> FloatArray:
    """Return the mean of r^(−γ) over the ranks of an octave.

    >>> by_rank(np.array([0, 1]), 1.0).round(4).tolist()
    [1.0, 0.4167]
    """
    return _mean_of_octave(_numbers(octave) ** -gamma)[octave]


def by_lag(octave: Octaves, beta: float) -> FloatArray:
    """Return the mean of e^(−βk) over the lags of an octave."""
    return _mean_of_octave(np.exp(-beta * _numbers(octave)))[octave]


def _numbers(octave: Octaves) -> FloatArray:
    return np.arange(1.0, 2.0 ** (octave.max() + 1))


def _mean_of_octave(values: FloatArray) -> FloatArray:
    """Return the means over octaves of values at 1, 2, …."""
    first = 2 ** np.arange((len(values) + 1).bit_length() - 1)
    return np.add.reduceat(values, first - 1) / first


def fit(
    form: str, cosine: FloatArray, weight: FloatArray, ranks: Octaves, lags: Octaves
) -> FloatArray:
    """Return the fitted values of a form, (case, cell), by weighted least squares.

    cosine: mean cosines, (case, cell). weight: likewise, 0 where nothing was measured. ranks, lags:
    octaves of each cell, (cell,). An octave without data has no effect: its cells have about the
    mean. The law of rank does not rise. NaN for a case without data.
    """
    cosine = np.where(weight > 0, cosine, 0.0)
    mean = ratio((weight * cosine).sum(axis=1), weight.sum(axis=1), 0.0)[:, None]
    level = mean if form in EFFECTS else 0.0
    fitted, best = np.full(cosine.shape, np.nan), np.full(len(cosine), np.inf)
    known = np.asarray((weight > 0).any(axis=1))
    for columns, fixed, falls in _designs(form, ranks, lags):
        coefficient, squares = _least_squares(cosine - fixed - level, weight, columns)
        better = np.asarray(known & (squares < best))
        if falls:
            better &= coefficient[:, 1] >= 0
        best[better] = squares[better]
        fitted[better] = (fixed + level + coefficient @ columns)[better]
    return fitted


def _designs(
    form: str, ranks: Octaves, lags: Octaves
) -> Iterator[tuple[FloatArray, FloatArray | float, bool]]:
    """Yield the designs among which a form has the best: columns with free coefficients, (column,
    cell), the fixed part, and whether the second coefficient must not be negative.
    """
    one = np.ones((1, len(ranks)))
    if form in EFFECTS:
        factors = [("rank", ranks), ("lag", lags)]
        effects = [_indicators(octave) for name, octave in factors if name in form.split("_")]
        yield np.concatenate([one, *effects]), 0.0, False
    elif form == "rank_law":
        yield one, 0.0, False
        for gamma in GAMMAS:
            yield np.concatenate([one, by_rank(ranks, gamma)[None]]), 0.0, True
    else:
        for beta in BETAS:
            decay = by_lag(lags, beta)
            yield (1 - decay)[None] if form == "offset" else one[:0], decay, False


def _indicators(octave: Octaves) -> FloatArray:
    return np.asarray(np.arange(octave.max() + 1)[:, None] == octave, dtype=np.float64)


def fit_coherence(cosine: FloatArray, weight: FloatArray, ranks: Octaves) -> Coherence:
    """Fit the law of rank with a positive semidefinite Gram; arguments and NaN as of `fit`. A mean
    cosine above 1, of nearly equal values, counts as 1.
    """
    cosine = np.where(weight > 0, np.minimum(cosine, 1.0), 0.0)
    known, best = np.asarray((weight > 0).any(axis=1)), np.full(len(cosine), np.inf)
    first, limit, gamma = (np.where(known, value, np.nan) for value in (0.0, 0.0, 1.0))
    fitted = np.where(known[:, None], np.zeros(cosine.shape), np.nan)
    one, none = np.ones((1, len(ranks))), np.empty((0, len(ranks)))
    designs = [(one, none, 1.0), (none, none, 1.0)]
    for exponent in GAMMAS.tolist():
        decay = by_rank(ranks, exponent)[None]
        designs += [(one, decay, exponent), (none, decay, exponent)]
    for constant, decay, exponent in designs:
        columns = np.concatenate([constant, decay])
        coefficient, squares = _least_squares(cosine, weight, columns)
        total = coefficient.sum(axis=1)
        better = known & (coefficient >= 0).all(axis=1) & (total <= 1 + ROUNDING)
        better &= squares < best
        best[better], gamma[better] = squares[better], exponent
        first[better] = np.minimum(total[better], 1.0)
        limit[better] = np.minimum(coefficient[better, : len(constant)].sum(axis=1), 1.0)
        fitted[better] = coefficient[better] @ columns
    return Coherence(first=first, limit=limit, gamma=gamma, cosine=fitted)


def _least_squares(
    z: FloatArray, weight: FloatArray, columns: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return coefficients of least norm, (case, column), and weighted sums of squared residuals,
    (case).
    """
    size = len(columns)
    right, total = (weight * z) @ columns.T, (weight * z * z).sum(axis=1)
    products = (columns[:, None] * columns).reshape(size * size, columns.shape[1])
    left = (weight @ products.T).reshape(len(z), size, size)
    if size > 2:
        coefficient = (np.linalg.pinv(left, rcond=1e-10, hermitian=True) @ right[..., None])[..., 0]
    else:
        tiny = 1e-12 * np.trace(left, axis1=1, axis2=2)[:, None, None] + 1e-300
        coefficient = np.linalg.solve(left + tiny * np.eye(size), right[..., None])[..., 0]
    quadratic = np.einsum("ni,nij,nj->n", coefficient, left, coefficient)
    return coefficient, total - 2 * (coefficient * right).sum(axis=1) + quadratic


def loss(fitted: FloatArray, cosine: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the mean squared residual of each case, weighted; NaN without cells."""
    residual = np.where(weight > 0, cosine - fitted, 0.0)
    return ratio((weight * residual**2).sum(axis=1), weight.sum(axis=1))
