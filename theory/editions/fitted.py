"""Edition `fitted`: E P, E R and E F of a head under the amended assumptions, estimated from draws;
not a bound.

Content tokens have the cosine c(max(r, r')) of the lower of their ranks by weight; functional sinks
share one vector; equal tokens have correlated residuals. Directions are Gaussian in d dimensions,
as in Model G. A draw at K sizes costs O(TdK). Source: geostat. Imports numpy; numba lazily.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.arrays import FloatArray, IntArray, selection_order
from theory.errors import InputError
from theory.head.results import QUANTITIES


@dataclass(frozen=True, slots=True, kw_only=True)
class RankParameters:
    """Parameters of a head by rank of the weight.

    first, limit, gamma: c(r) = limit + (first − limit) r^(−gamma), 0 ≤ limit ≤ first ≤ 1, gamma ≥
    0. rho: cosine of the functional sinks with content tokens, |rho| ≤ 1. dimension: effective
    dimension of the directions, positive. repeat: correlation of the residuals of equal tokens, 0 ≤
    repeat < 1.
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitted:
    """Means over draws of P(r_max), R(r_min), F(r_max), F(r_min) with their standard errors, one
    entry for each n: 1 for n = T, NaN for n > T. An estimate of the model, not a bound.
    """

    n: IntArray
    precision: FloatArray
    precision_se: FloatArray
    recall: FloatArray
    recall_se: FloatArray
    f_outer: FloatArray
    f_outer_se: FloatArray
    f_inner: FloatArray
    f_inner_se: FloatArray


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
) -> Fitted:
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
    from theory.editions.fitted_kernels import draws_of_head

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
    rank = np.maximum(np.cumsum(~apart[order]), 1)
    octave = np.log2(rank).astype(np.int64)
    middle = 1.5 * 2.0 ** np.arange(octave[-1] + 1) - 0.5
    a = (weights * lengths)[order]
    below = sizes < len(order)
    inner, inverse = np.unique(sizes[below], return_inverse=True)
    found = draws_of_head(
        a / (a.max() or 1.0),
        octave,
        parameters.coherence(middle),
        apart[order],
        leader,
        parameters.repeat,
        parameters.rho,
        max(round(parameters.dimension), 2),
        inner,
        draws,
        np.random.default_rng(seed),
    )
    values = np.full((2, len(QUANTITIES), len(sizes)), np.nan)
    values[0][:, sizes == len(order)], values[1][:, sizes == len(order)] = 1.0, 0.0
    values[0][:, below] = found.mean(axis=1)[:, inverse]
    values[1][:, below] = found.std(axis=1, ddof=1)[:, inverse] / np.sqrt(draws)
    names = [f"{name}{of}" for of in ("", "_se") for name in QUANTITIES]
    return Fitted(n=sizes, **dict(zip(names, values.reshape(len(names), -1), strict=True)))
