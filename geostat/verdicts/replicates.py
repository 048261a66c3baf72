"""Effects without one document at a time, as fits leave them, and the share of heads within a tolerance.

Imports numpy and xarray.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from geostat.statistics.arrays import FloatArray
from geostat.statistics.equivalence import Side
from geostat.statistics.jackknife import Estimate, jackknife
from geostat.verdicts.claims import Claim


def within(effect: FloatArray, tolerance: float, side: Side) -> NDArray[np.bool_]:
    """Where an effect itself, whatever its error, lies within its tolerance; False where it is NaN."""
    if side == "at_least":
        return np.asarray(effect >= tolerance)
    return np.asarray((np.abs(effect) if side == "within" else effect) <= tolerance)


def share_within(effect: FloatArray, again: FloatArray | None, tolerance: float, side: Side) -> Estimate:
    """Return the share of heads with an estimate whose estimate lies within the tolerance, with its document jackknife.

    Args:
        effect: of all heads, (layer, head); NaN where there is none.
        again: the same without each document, (document, layer, head); None where it is not known.
        tolerance: of the claim.
        side: of the claim.

    Returns:
        The share, NaN without any estimate; standard error and 95% interval by t on K − 1 degrees of freedom, NaN without replicates of each estimate.

    >>> share = share_within(np.array([0.1, 0.3]), np.array([[0.1, 0.3], [0.1, 0.1]]), 0.2, "at_most")
    >>> float(share.value), float(share.se)
    (0.5, 0.25)
    """
    known = np.isfinite(effect)
    share = np.array(within(effect[known], tolerance, side).mean() if known.any() else np.nan)
    if again is None or not np.isfinite(again[:, known]).all() or not known.any():
        return Estimate(value=share, **dict.fromkeys(("se", "lower", "upper"), np.array(np.nan)))
    return jackknife(share, within(again[:, known], tolerance, side).mean(axis=1))


def replicates(tree: xr.DataTree, claim: Claim) -> FloatArray | None:
    """Return the effect of a claim without each document, (document, layer, head); None of bounds, and where a run was fitted before it was kept."""
    name = f"{claim.variable}_without"
    group = tree[claim.group].to_dataset()
    if claim.bounds or name not in group:
        return None
    return group[name].sel(claim.select).transpose("document", "layer", claim.of).values.astype(np.float64)
