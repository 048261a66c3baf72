"""Simulation of a head under geostat's amended assumptions: E P, E R and E F by rank of the weight.

Content tokens have the cosine c(max(r, r')), r the rank by weight; functional sinks share one
vector; equal tokens have correlated residuals. Directions are Gaussian in d dimensions, as in Model
G. An estimate of the model, not a bound. Source: geostat; Definitions 1-3 of arXiv 2602.01893 give
P, R and F. Imports numpy; numba lazily.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray, selection_order
from theory.errors import InputError
from theory.evaluate.simulate import AUDITED, CHUNK_NUMBERS, Simulation, separability_of_draws
from theory.head.results import QUANTITIES

LEAST: Final = 1e-12
"""Cosine of the lowest rank below which the sinks have no part along the content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankParameters:
    """Parameters of a head by rank of the weight.

    first, limit, gamma: c(r) = limit + (first − limit) r^(−gamma), 0 ≤ limit ≤ first ≤ 1, gamma ≥
    0. rho: cosine of the functional sinks with content tokens, −1 ≤ rho ≤ 1; beyond ±√c of the last
    rank it is infeasible and taken as that. dimension: effective dimension of the directions,
    positive. repeat: correlation of the residuals of equal tokens, 0 ≤ repeat < 1.
    """

    first: float
    limit: float
    gamma: float
    rho: float
    dimension: float
    repeat: float = 0.0

    def __post_init__(self) -> None:
        ordered = 0 <= self.limit <= self.first <= 1 and self.gamma >= 0
        if not ordered or abs(self.rho) > 1 or not (self.dimension > 0 and 0 <= self.repeat < 1):
            raise InputError(
                f"{self}: expected 0 <= limit <= first <= 1, gamma >= 0, |rho| <= 1, a positive"
                " dimension and 0 <= repeat < 1. Change the parameters."
            )

    def coherence(self, rank: FloatArray) -> FloatArray:
        """Return c(r)."""
        return np.asarray(self.limit + (self.first - self.limit) * rank**-self.gamma)


def fitted(
    alpha: Any,
    norms: Any,
    sinks: Any,
    parameters: RankParameters,
    n: Any,
    *,
    draws: int = 4,
    seed: int = 0,
    leaders: Any = None,
) -> Simulation:
    """Estimate E P, E R and E F of a head under the amended assumptions.

    c(r) is constant within an octave of ranks, and the dimension is rounded.

    Args:
        alpha: (T,) attention weights, non-negative, in any order.
        norms: (T,) value norms, positive.
        sinks: (T,) bool, the functional sinks.
        parameters: of the head.
        n: (K,) sizes N >= 1.
        draws: number of draws, at least 2.
        seed: of the generator; equal seeds give equal results.
        leaders: (T,) index of the token of largest weight among those of equal id, if it is another
            one; −1 otherwise. The residuals of equal tokens have correlation `parameters.repeat`.
            None: no token is repeated.

    Raises:
        InputError: for arrays of different lengths, negative weights, norms that are not positive,
            fewer than 2 draws, or a leader without a larger weight.

    Example:
        >>> head = RankParameters(first=0.5, limit=0.1, gamma=1.0, rho=0.0, dimension=32)
        >>> found = fitted([0.6, 0.2, 0.1, 0.1], np.ones(4), np.zeros(4, bool), head, [1, 4, 5])
        >>> found.precision.tolist()
        [1.0, 1.0, nan]
    """
    weights, lengths = np.asarray(alpha, float), np.asarray(norms, float)
    apart, sizes = np.asarray(sinks, bool), np.asarray(n, np.int64)
    before = np.full(len(weights), -1) if leaders is None else np.asarray(leaders, np.int64)
    if not weights.shape == lengths.shape == apart.shape == before.shape or weights.ndim != 1:
        raise InputError(
            f"alpha {weights.shape}, norms {lengths.shape}, sinks {apart.shape}, leaders"
            f" {before.shape}: expected arrays of one length T. Check the arrays."
        )
    order = selection_order(weights)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    leader = np.where(before >= 0, place[before], -1)[order]
    first = np.unique(leader[leader >= 0])
    led = (leader >= np.arange(len(order))).any() or (leader[first] >= 0).any()
    if led or draws < 2:
        raise InputError(
            f"draws={draws}: expected at least 2 draws, and leaders with a larger weight than their"
            " tokens and no leader of their own. Check the arguments."
        )
    if not (weights >= 0).all() or not (lengths > 0).all() or (sizes < 1).any():
        raise InputError(
            "alpha, norms or n: expected weights >= 0, norms > 0 and sizes >= 1. Check the arrays."
        )
    leader[first] = first
    units = partial(_directions, apart[order], leader, parameters, np.random.default_rng(seed))
    a = (weights * lengths)[order]
    a /= a.max() or 1.0
    below = sizes < len(order)
    inner, inverse = np.unique(sizes[below], return_inverse=True)
    at_once = max(1, CHUNK_NUMBERS // (len(order) * _rounded(parameters)))
    parts = [
        separability_of_draws(
            a[:, None, None] * units(min(at_once, draws - start)), np.arange(len(order)), inner
        )
        for start in range(0, draws, at_once)
    ]
    found = np.concatenate(parts, axis=2)[[AUDITED.index(name) for name in QUANTITIES]]
    values = np.full((2, len(QUANTITIES), len(sizes)), np.nan)
    values[0][:, sizes == len(order)], values[1][:, sizes == len(order)] = 1.0, 0.0
    values[0][:, below] = found.mean(axis=2)[:, inverse]
    values[1][:, below] = found.std(axis=2, ddof=1)[:, inverse] / np.sqrt(draws)
    names = [f"{name}{of}" for of in ("", "_se") for name in QUANTITIES]
    named = dict(zip(names, values.reshape(len(names), -1), strict=True))
    return Simulation(n=sizes, draws=draws, directions="gaussian", **named)


def _rounded(parameters: RankParameters) -> int:
    return max(round(parameters.dimension), 2)


def _directions(
    is_sink: BoolArray,
    leader: IntArray,
    parameters: RankParameters,
    generator: np.random.Generator,
    draws: int,
) -> FloatArray:
    """Return directions by descending weight, (T, draws, d).

    is_sink: (T,). leader: (T,) first of the tokens with correlated residuals, itself included; −1
    for a token without.
    """
    rank = np.maximum(np.cumsum(~is_sink), 1)
    octave = np.log2(rank).astype(np.int64)
    cosine = parameters.coherence(1.5 * 2.0 ** np.arange(octave[-1] + 1) - 0.5)
    shape = (draws, _rounded(parameters))

    def normals(count: int) -> FloatArray:
        return generator.standard_normal((count, *shape)) / np.sqrt(shape[1])

    # the vector of an octave is that of the next, lower ranks, and a part of its own
    own = normals(len(cosine))
    steps = np.sqrt(np.maximum(-np.diff(cosine, append=0.0), 0.0))[:, None, None]
    shared = (steps * own)[::-1].cumsum(axis=0)[::-1]
    groups, member = np.unique(leader, return_inverse=True)
    common = np.where(leader >= 0, parameters.repeat, 0.0)[:, None, None]
    residual = np.sqrt(1 - common) * normals(len(rank))
    residual += np.sqrt(common) * normals(len(groups))[member]
    units = shared[octave] + np.sqrt(1 - cosine[octave])[:, None, None] * residual
    toward = np.clip(parameters.rho / np.sqrt(max(cosine[-1], LEAST)), -1.0, 1.0)
    units[is_sink] = toward * own[-1] + np.sqrt(1 - toward**2) * normals(1)[0]
    return np.asarray(units, dtype=np.float64)
