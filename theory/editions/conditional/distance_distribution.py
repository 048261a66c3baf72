"""Distribution of a distance given s and one selected token: a noncentral chi-square, exact and
tabulated.

D = (v/d)·χ'²_d(dδ/v): v is the residual variance of the token, δ the squared length of the known
part of s − y (units a²). With q = v/(v+δ) and w = √(d/v)·(√D − √(v + δ − (1 −
q/2)v/d))·√(2(v+δ)/(v+2δ)) the distribution function is within .025 of Φ(w) for d ≥ 4, and smooth in
(w, √q): one table over these two coordinates serves every token. Imports numpy and scipy.special.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import chndtr, gammainccinv, gammaincinv, ndtr

from theory.arrays import FloatArray

SCORE_REACH = 7.0
"""Scores w beyond ±7 count as probability 0 or 1; the error of 1e-10 is below that of the table."""

SCORE_CELLS = 24
"""Cells per unit of w. With 64 cells over √q, the error of cubic interpolation is 2e-7 for d ≥ 3
and 5e-5 for d = 2 (d = 1 has a closed form).
"""

SHARE_CELLS = 64
"""Number of cells of √q over [0, 1] where the law is computed."""

FINER = 12
"""Linear pieces per cell of √q: error 2e-7, half the time of a cubic."""

QUANTILE_REACH = 8.5
"""Normal scores between which quantiles of χ_d are tabulated."""


class Nodes(NamedTuple):
    """Nodes of averages in units of σ_ss, each (tokens, K), or (K,) for one token: √t; z, the part
    of y_i − b_i s along s; τ, its squared length across s; excess = D_i − t; weight, of mean 1.
    """

    radius: FloatArray
    z: FloatArray
    tau: FloatArray
    excess: FloatArray
    weight: FloatArray


@lru_cache(maxsize=8)
def distance_table(dimension: int) -> FloatArray:
    """Return P{D ≤ distance}: rows √q from 0 to 1 (a spline between exact ones), columns w."""
    from scipy.interpolate import CubicSpline

    root = np.linspace(0.0, 1.0, SHARE_CELLS + 1)[1:, None]
    w = np.linspace(-SCORE_REACH, SCORE_REACH, int(2 * SCORE_REACH * SCORE_CELLS) + 1)
    noncentral = dimension / root**2 - dimension
    centre = np.sqrt(dimension + noncentral - (1 - root**2 / 2))
    width = np.sqrt((dimension + 2 * noncentral) / (2 * (dimension + noncentral)))
    table = np.empty((SHARE_CELLS + 1, w.size))
    table[1:] = chndtr(np.maximum(centre + w * width, 0.0) ** 2, float(dimension), noncentral)
    table[0] = ndtr(w)
    table = CubicSpline(np.arange(SHARE_CELLS + 1), table)(
        np.linspace(0.0, SHARE_CELLS, SHARE_CELLS * FINER + 1)
    )
    table.flags.writeable = False
    return table


@lru_cache(maxsize=128)
def radius_quantiles(dimension: int) -> tuple[FloatArray, FloatArray]:
    """Return normal scores ξ and the quantiles of √(χ²_d/d) at Φ(ξ); zeros for d = 0."""
    scores = np.linspace(-QUANTILE_REACH, QUANTILE_REACH, 2049)
    if dimension == 0:
        return scores, np.zeros_like(scores)
    below = gammaincinv(dimension / 2, ndtr(np.minimum(scores, 0.0)))
    above = gammainccinv(dimension / 2, ndtr(-np.maximum(scores, 0.0)))
    return scores, np.sqrt(np.where(scores < 0, below, above) * 2 / dimension)
