"""Nonparametric mixture over heads: the share of heads whose true effect, not its noisy estimate,
lies within a tolerance.

The effects of all heads are taken for draws of one distribution, whose maximum-likelihood estimate
puts weights on a grid; a head's noise is Student's t. Sources: Kiefer & Wolfowitz (1956), Annals of
Mathematical Statistics 27; Laird (1978), JASA 73 (its EM). Imports numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate, jackknife

GRID: Final = 200
STEPS: Final = 60
"""Of the EM algorithm: further ones sharpen the weights and hardly move a share."""


def share_of_heads(
    estimate: FloatArray,
    se: FloatArray,
    without: FloatArray,
    inside: Callable[[FloatArray], NDArray[np.bool_]],
) -> Estimate:
    """Return the share of heads whose true effect lies `inside`, with its document jackknife, made
    on the logit of (share m + ½)/(m + 1), and limits half a head outwards.

    Args:
        estimate: effects of m heads, (head,), and `se`, their standard errors.
        without: the effects without each document, (document, head).
        inside: tells of effects whether they lie within the tolerance.

    Returns:
        NaN without heads, and but for the value with fewer than three documents.

    >>> without = np.array([[-0.1, 0.9], [0.1, 1.1], [0.0, 1.0]])
    >>> share = share_of_heads(
    ...     np.array([0.0, 1.0]), np.array([0.1, 0.1]), without, lambda x: x <= 0.5
    ... )
    >>> round(float(share.value), 2)
    0.5
    """
    heads, documents = estimate.size, without.shape[0]
    if not heads or documents < 3:
        none = np.array(np.nan)
        return Estimate(value=none, se=none, lower=none, upper=none)
    away = without - without.mean(axis=0)
    squares = (away**2).sum(axis=0)
    # Of the squares about the mean of the others, by Σ(x − x̄)² − (x_k − x̄)² K/(K − 1).
    others = squares - away**2 * documents / (documents - 1)
    ratio = np.divide(others, squares, out=np.ones_like(away), where=squares > 0)
    errors = se * np.sqrt(np.maximum(ratio, 0.0) * documents / (documents - 2))
    whole = _share(estimate, se, documents - 1.0, inside)
    each = np.array(
        [_share(*one, documents - 2.0, inside) for one in zip(without, errors, strict=True)]
    )

    def bent(share: FloatArray) -> FloatArray:
        inner = (share * heads + 0.5) / (heads + 1)
        return np.log(inner / (1 - inner))

    found = jackknife(bent(np.asarray(whole)), bent(each))
    # Half a head outwards: a share is a whole number of heads.
    lower, upper = (
        np.clip((1 / (1 + np.exp(-end)) * (heads + 1) - 0.5 + half) / heads, 0.0, 1.0)
        for end, half in ((found.lower, -0.5), (found.upper, 0.5))
    )
    return Estimate(
        value=np.asarray(whole), se=jackknife(np.asarray(whole), each).se, lower=lower, upper=upper
    )


def _share(
    estimate: FloatArray,
    se: FloatArray,
    degrees: float,
    inside: Callable[[FloatArray], NDArray[np.bool_]],
) -> float:
    """The mean over heads of the probability that the effect lies inside, given all estimates."""
    grid = np.linspace(estimate.min(), estimate.max(), GRID)
    noise = np.maximum(se, max((grid[1] - grid[0]) / 2, 1e-12 * np.abs(grid).max(), 1e-300))
    log = (
        -(degrees + 1) / 2 * np.log1p(((estimate[:, None] - grid) / noise[:, None]) ** 2 / degrees)
    )
    likelihood = np.exp(log - log.max(axis=1, keepdims=True))
    weight = np.full(GRID, 1 / GRID)
    for _ in range(STEPS):
        # a head's probabilities of the grid, likelihood × weight over their sum, as their mean
        weight = weight * (1 / (likelihood @ weight) @ likelihood) / len(estimate)
    return round(float(weight[inside(grid)].sum()), 9)
