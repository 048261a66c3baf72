"""Similarity by rank and by lag: forms of a mean cosine, fitted by variable projection.

Each form is linear in all but its exponents, so least squares are solved on a grid of exponents.
Cells are pairs of octaves: of the lower rank and of the lag, or of both ranks. Imports numpy.
"""

from __future__ import annotations

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
FORMS: Final = ("constant", "rank", "exponential", "offset", "rank_and_lag")
PARAMETERS: Final = np.array([1, 3, 1, 2, 5])
"""Number of parameters of each form."""
COHERENCE: Final = "coherence"
"""The form `rank` with 0 ≤ c∞ ≤ c₁ ≤ 1, whose Gram is positive semidefinite."""
NESTED: Final = {
    COHERENCE: ("constant", "rank", "to_zero"),
    "rank": ("constant", "rank"),
    "rank_and_lag": ("constant", "rank", "lag", "rank_and_lag"),
}
"""Designs among which a form chooses: coefficients of a decay may be 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Least-squares fits, one per case: limit + rank·r^(−gamma) + lag·e^(−beta·k), a mean over the
    ranks and lags of two octaves.
    """

    limit: FloatArray
    rank: FloatArray
    gamma: FloatArray
    lag: FloatArray
    beta: FloatArray

    def at(self, ranks: Octaves, lags: Octaves) -> FloatArray:
        """Return the fitted cosines, (case, cell)."""
        out = np.empty((len(self.limit), len(ranks)))
        pairs = np.stack([self.gamma, self.beta], axis=1)
        for gamma, beta in np.unique(pairs[np.isfinite(pairs).all(axis=1)], axis=0):
            here = (self.gamma == gamma) & (self.beta == beta)
            out[here] = self.limit[here, None] + self.rank[here, None] * by_rank(ranks, gamma)
            out[here] += self.lag[here, None] * by_lag(lags, beta)
        return np.where(np.isfinite(self.limit)[:, None], out, np.nan)


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


def fit(form: str, cosine: FloatArray, weight: FloatArray, ranks: Octaves, lags: Octaves) -> Fitted:
    """Fit a form to mean cosines, (case, cell), by weighted least squares.

    weight: of each cell, 0 where nothing was measured. ranks, lags: octaves of each cell.
    Coefficients of a decay are not negative. NaN for a case with fewer cells than parameters, or
    without a fit in the range of COHERENCE.
    """
    cosine = np.where(weight > 0, cosine, 0.0)
    count = len(cosine)
    best = np.full(count, np.inf)
    found = {name: np.full(count, np.nan) for name in ("limit", "rank", "gamma", "lag", "beta")}
    psd = form == COHERENCE
    enough = (weight > 0).sum(axis=1) >= PARAMETERS[FORMS.index("rank" if psd else form)]
    for design in NESTED.get(form, (form,)):
        for gamma, beta in _grid(design):
            columns, fixed = _design(design, by_rank(ranks, gamma), by_lag(lags, beta))
            coefficient, squares = _least_squares(cosine - fixed, weight, columns)
            better = enough & (coefficient[:, int(not psd) :] >= 0).all(axis=1) & (squares < best)
            better &= (coefficient.sum(axis=1) <= 1) | (not psd)
            best[better] = squares[better]
            values = _values(design, coefficient) | {"gamma": gamma, "beta": beta}
            for name, array in found.items():
                array[better] = np.broadcast_to(values[name], count)[better]
    return Fitted(**found)


def _grid(design: str) -> list[tuple[float, float]]:
    """Return the exponents to try; 1 for those that a design lacks."""
    gammas = GAMMAS if design in ("rank", "to_zero", "rank_and_lag") else [1.0]
    betas = BETAS if design in ("exponential", "offset", "lag", "rank_and_lag") else [1.0]
    if design == "rank_and_lag":
        gammas, betas = gammas[::8], betas[::8]
    return [(float(gamma), float(beta)) for gamma in gammas for beta in betas]


def _design(
    design: str, of_rank: FloatArray, of_lag: FloatArray
) -> tuple[FloatArray, FloatArray | float]:
    """Return the columns with free coefficients, (column, cell), and the fixed part."""
    one = np.ones_like(of_rank)
    if design == "exponential":
        return np.empty((0, len(one))), of_lag
    if design == "offset":
        return (1 - of_lag)[None], of_lag
    columns = {
        "constant": [one],
        "rank": [one, of_rank],
        "to_zero": [of_rank],
        "lag": [one, of_lag],
        "rank_and_lag": [one, of_rank, of_lag],
    }
    return np.stack(columns[design]), 0.0


def _values(design: str, coefficient: FloatArray) -> dict[str, FloatArray | float]:
    """Return limit, rank and lag coefficients of a fit, from those of its columns."""
    if design == "exponential":
        return {"limit": 0.0, "rank": 0.0, "lag": 1.0}
    if design == "offset":
        return {"limit": coefficient[:, 0], "rank": 0.0, "lag": 1 - coefficient[:, 0]}
    of_columns = {"lag": ("limit", "lag"), "to_zero": ("rank",)}
    names = of_columns.get(design, ("limit", "rank", "lag"))
    return {"limit": 0.0, "rank": 0.0, "lag": 0.0} | dict(zip(names, coefficient.T, strict=False))


def _least_squares(
    z: FloatArray, weight: FloatArray, columns: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return coefficients, (case, column), and weighted sums of squared residuals, (case)."""
    size = len(columns)
    right = (weight * z) @ columns.T
    total = (weight * z * z).sum(axis=1)
    if not size:
        return right, total
    products = (columns[:, None] * columns).reshape(size * size, -1)
    left = (weight @ products.T).reshape(-1, size, size)
    ridge = 1e-12 * np.trace(left, axis1=1, axis2=2)[:, None, None] + 1e-300
    coefficient = np.linalg.solve(left + ridge * np.eye(size), right[..., None])[..., 0]
    quadratic = np.einsum("ni,nij,nj->n", coefficient, left, coefficient)
    return coefficient, total - 2 * (coefficient * right).sum(axis=1) + quadratic


def loss(
    fitted: Fitted, cosine: FloatArray, weight: FloatArray, ranks: Octaves, lags: Octaves
) -> FloatArray:
    """Return the mean squared residual of each case, weighted; NaN without cells."""
    residual = np.where(weight > 0, cosine - fitted.at(ranks, lags), 0.0)
    return ratio((weight * residual**2).sum(axis=1), weight.sum(axis=1))
