"""How far measured curves lie from their bounds, and how surely: a document moves both, so it is their gap that has a spread.

Imports numpy, xarray and scipy.special.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import xarray as xr
from scipy.special import stdtrit

from geostat.equivalence import mean_of_equals

CONFIDENCE: Final = 0.95
SMOOTH: Final = ("recall",)
"""Statistics whose documents scatter enough for Student's t: a share of N tokens, each of which may lie outside or not."""


def means_and_gaps(bounds: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Means of bounds (bound, document, ...) over documents, and standard errors of curve less bound: (2, bound, ...).

    Args:
        bounds: of each document.
        measured: the curve that each of them bounds, same shape.
    """
    documents = bounds.shape[1]
    error = (measured - bounds).std(axis=1, ddof=1) / np.sqrt(documents) if documents > 1 else np.full(bounds[:, 0].shape, np.nan)
    return np.stack([bounds.mean(axis=1), error])


def standard_error(values: xr.DataArray) -> xr.DataArray:
    """Jackknife standard error of a mean over documents, which is the usual one; NaN with one document."""
    count = values.notnull().sum("document")
    return values.std("document", ddof=1) / np.sqrt(count) if values.sizes["document"] > 1 else values.mean("document") * np.nan


def beyond(found: xr.Dataset, statistic: str, documents: int) -> xr.DataArray:
    """Where a measured mean lies outside a bound surely, each side at 97.5%: its gap by a t-test, or by `mean_of_equals` where all documents agree.

    Precision, and F with it, lies close to its floor in most texts and at 1 in some: eight documents may all be of one kind and nearly agree. Their spread
    tells nothing of the other kind, so there the mean must pass `mean_of_equals` as well. With one document, wherever it lies outside.

    Args:
        found: `x`, `x_se`, `x_lower`, `x_upper` and the bounds' `_gap_se` of the statistic x, as /envelope holds them.
        statistic: x.
        documents: how many they are means over.
    """
    mean, alike, level = found[statistic], found[f"{statistic}_se"] == 0, (1 - CONFIDENCE) / 2
    both = documents > 1 and statistic not in SMOOTH
    critical = float(stdtrit(documents - 1, 1 - level)) if documents > 1 else 0.0
    outside = xr.zeros_like(found[f"{statistic}_lower"], dtype=bool)
    for side, sign in (("lower", -1.0), ("upper", 1.0)):
        bound = found[f"{statistic}_{side}"]
        gap, error = sign * (mean - bound), found[f"{statistic}_{side}_gap_se"].fillna(0.0)
        broad_mean, broad_bound = xr.broadcast(mean, bound)
        chance = mean_of_equals(broad_mean.values, broad_bound.values, documents, "at_most" if side == "upper" else "at_least").fails
        seldom = xr.DataArray(chance, dims=broad_bound.dims, coords=broad_bound.coords).transpose(*bound.dims) < level
        surely = gap > critical * error
        found_out = (seldom & surely) if both else xr.where(alike & (documents > 1), seldom & (gap > 0), surely)
        outside = outside | found_out.transpose(*bound.dims)
    return outside
