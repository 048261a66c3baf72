"""Nonparametric mixture over heads: share of heads whose true effect lies within a tolerance.

The effects of all heads are draws from one distribution on a grid, estimated by maximum likelihood.
The noise of a head is Student's t. Sources: Kiefer & Wolfowitz (1956), Annals of Mathematical
Statistics 27; Laird (1978), JASA 73 (EM algorithm). Imports numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate, jackknife

GRID: Final = 200
"""Grid points of the effect."""
STEPS: Final = 60
"""Iterations of the EM algorithm; more iterations sharpen the weights but hardly move the share."""


def share_of_heads(
    estimate: FloatArray,
    se: FloatArray,
    without: FloatArray,
    inside: Callable[[FloatArray], NDArray[np.bool_]],
) -> Estimate:
    """Return the share of heads whose true effect lies `inside`, with its document jackknife.

    The interval is made on the logit of (share m + ½)/(m + 1), and its limits move half a head
    outwards.

    Effects of m heads and their errors have shape (head,), leave-one-out effects (document, head);
    `inside` tells which effects lie within the tolerance. All NaN without heads or with fewer than
    three documents.

    >>> without = np.array([[-0.1, 0.9], [0.1, 1.1], [0.0, 1.0]])
    >>> share = share_of_heads(
    ...     np.array([0.0, 1.0]), np.array([0.1, 0.1]), without, lambda x: x <= 0.5
    ... )
    >>> round(float(share.value), 2)
    0.5
    """
    heads, documents = estimate.size, without.shape[0]
    if not heads or documents < 3:
        nan = np.array(np.nan)
        return Estimate(value=nan, se=nan, lower=nan, upper=nan)
    deviation = without - without.mean(axis=0)
    squares = (deviation**2).sum(axis=0)
    # Squares about the mean of the other documents: Σ(x − x̄)² − (x_k − x̄)² K/(K − 1).
    others = squares - deviation**2 * documents / (documents - 1)
    ratio = np.divide(others, squares, out=np.ones_like(deviation), where=squares > 0)
    errors = se * np.sqrt(np.maximum(ratio, 0.0) * documents / (documents - 2))
    share_all = _share(estimate, se, documents - 1.0, inside)
    replicates = np.array(
        [_share(*sample, documents - 2.0, inside) for sample in zip(without, errors, strict=True)]
    )

    def smoothed_logit(share: FloatArray) -> FloatArray:
        inner = (share * heads + 0.5) / (heads + 1)
        return np.log(inner / (1 - inner))

    on_logit = jackknife(smoothed_logit(np.asarray(share_all)), smoothed_logit(replicates))
    # Half a head outwards: a share is a whole number of heads.
    lower, upper = (
        np.clip((1 / (1 + np.exp(-end)) * (heads + 1) - 0.5 + half) / heads, 0.0, 1.0)
        for end, half in ((on_logit.lower, -0.5), (on_logit.upper, 0.5))
    )
    return Estimate(
        value=np.asarray(share_all),
        se=jackknife(np.asarray(share_all), replicates).se,
        lower=lower,
        upper=upper,
    )


def _share(
    estimate: FloatArray,
    se: FloatArray,
    degrees: float,
    inside: Callable[[FloatArray], NDArray[np.bool_]],
) -> float:
    """Return the mean posterior probability over heads that the effect lies inside."""
    grid = np.linspace(estimate.min(), estimate.max(), GRID)
    noise = np.maximum(se, max((grid[1] - grid[0]) / 2, 1e-12 * np.abs(grid).max(), 1e-300))
    log = (
        -(degrees + 1) / 2 * np.log1p(((estimate[:, None] - grid) / noise[:, None]) ** 2 / degrees)
    )
    likelihood = np.exp(log - log.max(axis=1, keepdims=True))
    weight = np.full(GRID, 1 / GRID)
    for _ in range(STEPS):
        # New weights: mean over heads of the posterior, likelihood × weight over their sum.
        weight = weight * (1 / (likelihood @ weight) @ likelihood) / len(estimate)
    return round(float(weight[inside(grid)].sum()), 9)
