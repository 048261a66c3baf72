"""Trend of value norms over position within a document.

The trend is the least-squares slope of the mean content profile times the profile's length, over C:
the relative change over a document, unitless. Sources: arXiv 2602.01893, Assumption 1.1 (constant
norms); Newey & West (1987), Econometrica 55; Lazarus, Lewis, Stock & Watson (2018), "HAR inference:
recommendations for practice", Journal of Business & Economic Statistics 36 (bandwidth). Imports
numpy and, for HAC errors, statsmodels.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.losses import centred, mean_of_known

if TYPE_CHECKING:
    import pandas as pd
    from statsmodels.regression.linear_model import RegressionResultsWrapper

MIN_TOKENS: Final = 3
"""Minimum number of content tokens for a slope with a residual."""
BANDWIDTH: Final = "ceil(1.3 sqrt(n)), at most n - 1, for n content positions (Lazarus et al. 2018)"
"""Rule for the number of lags in the Bartlett kernel of `trend_se_hac`."""


def bandwidth(positions: int) -> int:
    """Return the number of residual lags in the HAC error, by the rule BANDWIDTH."""
    return min(math.ceil(1.3 * math.sqrt(positions)), positions - 1)


def trend(profile: FloatArray) -> FloatArray:
    """Return the relative change of the norm over content positions: slope · length / mean.

    `profile` is ‖v_i‖ of content tokens by position, (..., content), NaN where unknown. The result,
    (...), is unitless; NaN where fewer than MIN_TOKENS positions are known or the mean norm is not
    positive.
    """
    known = np.isfinite(profile)
    place = centred(np.linspace(-0.5, 0.5, profile.shape[-1]), known)
    rise = (place * centred(profile, known)).sum(axis=-1)
    scale = (place**2).sum(axis=-1) * mean_of_known(profile)
    return ratio(rise, np.where(known.sum(axis=-1) >= MIN_TOKENS, scale, 0.0))


def line_of_profile(profile: FloatArray) -> RegressionResultsWrapper | None:
    """Regress a head's mean profile, (content,), on position with Newey-West errors (statsmodels).

    The response is the norm over its mean. The regressor runs from −1/2 to 1/2 over content
    positions, so the coefficient `trend` is the relative change over the document. Unknown
    positions (NaN) are dropped, and the positions on both sides of a gap count as adjacent. Returns
    None where `trend` is NaN.
    """
    if not np.isfinite(trend(profile)):
        return None
    import pandas as pd

    known = np.isfinite(profile)
    coordinate = np.linspace(-0.5, 0.5, profile.size)[known]
    response = pd.Series(profile[known] / profile[known].mean(), name="norm over C")
    return newey_west(
        response,
        pd.DataFrame({"level": np.ones(coordinate.size), "trend": coordinate}),
        bandwidth(coordinate.size),
        correction=False,
    )


def newey_west(
    response: pd.Series, regressors: pd.DataFrame, lags: int, *, correction: bool
) -> RegressionResultsWrapper:
    """Fit OLS with statsmodels; HAC errors use `lags` lags and Bartlett weights."""
    from statsmodels.regression.linear_model import OLS

    keywords = {"maxlags": lags, "kernel": "bartlett", "use_correction": correction}
    return OLS(response, regressors).fit(cov_type="HAC", cov_kwds=keywords, use_t=True)


def hac_errors(profiles: FloatArray) -> FloatArray:
    """Return Newey-West errors of the trends of mean profiles, (kv_head, content) → (kv_head,).

    The only source of error is the scatter of the mean profile about its line: the error describes
    these documents' mean, the jackknife similar documents. NaN without a trend.
    """
    lines = [line_of_profile(profile) for profile in profiles]
    return np.array([np.nan if line is None else float(line.bse["trend"]) for line in lines])
