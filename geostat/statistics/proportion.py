"""Share of successes with Wilson's interval, by statsmodels.

Source: Wilson (1927), Journal of the American Statistical Association 22.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from geostat.statistics.jackknife import LEVEL, Estimate


def wilson(successes: NDArray[Any], trials: NDArray[Any]) -> Estimate:
    """Return a share with Wilson's 95% interval; NaN without trials.

    The standard error is half the interval's width over the normal quantile, and never 0.
    `successes` and `trials` have one shape.

    >>> share = wilson(np.array([7]), np.array([8]))
    >>> print(f"{share.value[0]:.3f}, {share.lower[0]:.3f} to {share.upper[0]:.3f}")
    0.875, 0.529 to 0.978
    """
    from statsmodels.stats.proportion import proportion_confint

    n = np.where(trials > 0, trials, np.nan).astype(np.float64)
    lower, upper = proportion_confint(successes, n, alpha=1.0 - LEVEL, method="wilson")
    z = float(ndtri(0.5 + LEVEL / 2))
    return Estimate(value=successes / n, se=(upper - lower) / (2.0 * z), lower=lower, upper=upper)
