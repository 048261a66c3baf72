"""Feasibility of fitted Grams of similarity: the largest sink cosine each admits, for many heads at
once.

Source: arXiv 2602.01893, Assumption 2, and erratum 9. With q = 1ᵀP⁻¹1, P the Gram of the decay
over L content tokens, cosines c + (1−c)·decay admit |ρ₀| ≤ √(c + (1−c)/q). q is known in closed
form for e^{−βk} and for no decay; otherwise P, a Toeplitz matrix, is factorised by Durbin's
recursion (1960), which also tells whether it is positive definite. Imports numpy and theory's
Grams.
"""

from __future__ import annotations

import numpy as np

from geostat.fits.similarity.forms import fitted_gram
from geostat.statistics.arrays import FloatArray
from theory.head.similarity_decay import by_lag

RESOLVED = 1e-9
"""Smallest relative prediction error whose digits a recursion in double precision still has;
below, eigenvalues decide.
"""


def feasible_edges(
    form: str, beta: FloatArray, offset: FloatArray, stretch: FloatArray, content: int
) -> FloatArray:
    """Return the largest |ρ₀| for which each fitted Gram matrix over `content` tokens is positive
    semidefinite, (row,).

    β ≥ 0, c and s are (row,), NaN where a row was not fitted (all β of the constant are). The edge
    is NaN there, where content = 0, or where the content tokens' own Gram is already infeasible.
    """
    edge = np.full(offset.shape, np.nan)
    fitted = np.isfinite(offset) & np.isfinite(stretch) & (np.isfinite(beta) | (form == "constant"))
    if content < 1 or not fitted.any():
        return edge
    at = np.flatnonzero(fitted)
    if form not in ("exponential", "offset", "constant"):
        lag, decay = np.arange(1.0, content), "power" if form == "offset_power" else form
        load, error = _durbin(by_lag(decay, lag, beta[at, None], 0.0, stretch[at, None]))
        resolved = error > RESOLVED
        square = offset[at] + (1.0 - offset[at]) / np.where(resolved, load, 1.0)
        edge[at] = np.where(square >= 0, np.sqrt(np.clip(square, 0.0, 1.0)), np.nan)
        at = at[~resolved]
    for i in at:
        b, c, s = (float(parameter[i]) for parameter in (beta, offset, stretch))
        edge[i] = fitted_gram(form, content, b, c, s, 0.0).edge(content)
    return edge


def _durbin(cosine: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return q = 1ᵀP⁻¹1 and the smallest one-step prediction error of Toeplitz matrices P, whose
    first rows are 1 and `cosine`.

    P⁻¹ = Σ_n a_n a_nᵀ/σ_n², a_n the filter that predicts token n from those before it and σ_n² its
    error; P is positive definite where every σ_n² is positive.
    """
    rows, lags = cosine.shape
    reverse = cosine[:, ::-1]
    filters = np.zeros((rows, lags))
    error, least, load = np.ones(rows), np.ones(rows), np.ones(rows)
    for n in range(lags):
        known = filters[:, :n]
        missed = cosine[:, n] - (known * reverse[:, lags - n :]).sum(axis=-1)
        reflection = np.divide(missed, error, out=np.zeros(rows), where=error > RESOLVED)
        filters[:, :n] = known - reflection[:, None] * known[:, ::-1]
        filters[:, n] = reflection
        error = error * (1.0 - reflection**2)
        least = np.minimum(least, error)
        load += np.divide(
            (1.0 - filters[:, : n + 1].sum(axis=-1)) ** 2,
            error,
            out=np.zeros(rows),
            where=error > RESOLVED,
        )
    return load, least
