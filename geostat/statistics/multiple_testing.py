"""Multiple testing: p-values adjusted over a family of tests by Holm, or by Benjamini and Hochberg
with statsmodels.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from geostat.statistics.arrays import FloatArray

FALSE_DISCOVERIES: Final = 0.05
"""q: expected share of false answers among the answers given, for *holds* and *fails* separately.
"""


def adjusted(p: FloatArray, method: Literal["holm", "fdr_bh"]) -> FloatArray:
    """Return p-values of shape (test, ...) adjusted along axis 0; NaN is left out of the family.

    A test is rejected at level q where its adjusted p-value is at most q. Methods: Holm (1979; with
    95% probability no true null has an adjusted p-value of 0.05 or less), Benjamini & Hochberg
    (1995).

    >>> adjusted(np.array([0.01, 0.02, np.nan, 0.04]), "holm").tolist()
    [0.03, 0.04, nan, 0.04]
    """
    from statsmodels.stats.multitest import fdrcorrection  # half a second to import

    out = np.full(p.shape, np.nan)
    for family in np.ndindex(p.shape[1:]):
        tests = p[(slice(None), *family)]
        known = np.isfinite(tests)
        if known.any():
            out[(known, *family)] = (
                _holm(tests[known]) if method == "holm" else fdrcorrection(tests[known])[1]
            )
    return out


def _holm(p: FloatArray) -> FloatArray:
    """Return Holm's adjusted p-values; statsmodels' version collects garbage at every call."""
    order = np.argsort(p)
    out = np.empty(p.shape)
    out[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)), 1.0)
    return out
