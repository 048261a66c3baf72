"""Trend of value norms over position: does the norm of a content token drift from the start of a
document to its end?

The trend is the least-squares slope of the mean content profile times the distance of its ends,
over C: the relative change over a document, without unit. Sources: arXiv 2602.01893, Assumption 1.1
(constant norms); Newey & West (1987), Econometrica 55; Lazarus, Lewis, Stock & Watson (2018), "HAR
inference: recommendations for practice", Journal of Business & Economic Statistics 36, for the
bandwidth. Imports numpy and, when a HAC error is asked for, statsmodels.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from geostat.statistics.arrays import FloatArray, ratio

if TYPE_CHECKING:
    import pandas as pd
    from statsmodels.regression.linear_model import RegressionResultsWrapper

FEWEST_TOKENS: Final = 3
"""Content tokens that a slope with a residual needs."""
BANDWIDTH: Final = "ceil(1.3 sqrt(n)), at most n - 1, for n content positions (Lazarus et al. 2018)"
"""How many neighbours the Bartlett kernel of `trend_se_hac` reaches to."""


def bandwidth(positions: int) -> int:
    """Return how many lags of the residuals the HAC error counts; BANDWIDTH tells the rule."""
    return min(math.ceil(1.3 * math.sqrt(positions)), positions - 1)


def trend(profile: FloatArray) -> FloatArray:
    """Return the relative change of the norm over the content positions: slope · (last − first
    position) / mean.

    `profile` is ‖v_i‖ of content tokens by position, (..., content), NaN where unknown. The result
    is unitless, (...); NaN where fewer than FEWEST_TOKENS positions are known or the mean norm is
    not positive.
    """
    known = np.isfinite(profile)
    count = known.sum(axis=-1)
    number = np.maximum(count, 1)
    along = np.linspace(-0.5, 0.5, profile.shape[-1])
    centre = np.where(known, along, 0.0).sum(axis=-1) / number
    centred = np.where(known, along - centre[..., None], 0.0)
    level = np.where(known, profile, 0.0).sum(axis=-1) / number
    rise = (centred * np.where(known, profile - level[..., None], 0.0)).sum(axis=-1)
    scale = (centred**2).sum(axis=-1) * level
    return ratio(rise, np.where(count >= FEWEST_TOKENS, scale, 0.0))


def line_of_profile(profile: FloatArray) -> RegressionResultsWrapper | None:
    """Regress one head's mean profile, (content,), on position with statsmodels and Newey-West
    errors; None where `trend` is NaN.

    The response is the norm over its mean, the regressor runs from −1/2 to 1/2 over the content
    positions, so that the coefficient `trend` is the relative change over the document. Unknown
    positions, NaN, are left out and those beside the gap count as neighbours.
    """
    if not np.isfinite(trend(profile)):
        return None
    import pandas as pd

    known = np.isfinite(profile)
    along = np.linspace(-0.5, 0.5, profile.size)[known]
    response = pd.Series(profile[known] / profile[known].mean(), name="norm over C")
    return newey_west(
        response,
        pd.DataFrame({"level": np.ones(along.size), "trend": along}),
        bandwidth(along.size),
        correction=False,
    )


def newey_west(
    response: pd.Series, regressors: pd.DataFrame, lags: int, *, correction: bool
) -> RegressionResultsWrapper:
    """Fit ordinary least squares with statsmodels; errors count `lags` neighbours by Bartlett's
    weights.
    """
    from statsmodels.regression.linear_model import OLS

    keywords = {"maxlags": lags, "kernel": "bartlett", "use_correction": correction}
    return OLS(response, regressors).fit(cov_type="HAC", cov_kwds=keywords, use_t=True)


def hac_errors(profiles: FloatArray) -> FloatArray:
    """Return the Newey-West standard error of the trend of mean content profiles, (kv_head,
    content) → (kv_head,); NaN without a trend.

    It takes the scatter of the mean profile about its line as the only error. What documents differ
    in as a whole is not in it, so it answers whether *these* documents' mean has a trend; the
    jackknife answers for documents like them.
    """
    lines = [line_of_profile(profile) for profile in profiles]
    return np.array([np.nan if line is None else float(line.bse["trend"]) for line in lines])
