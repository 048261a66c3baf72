"""Effects without one document at a time, for claims whose effects a run keeps document by document; and the share of heads within a tolerance.

Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from geostat.claims import Side
from geostat.fitting import layer_tokens
from geostat.jackknife import FloatArray, Interval, interval, leave_one_out_mean
from geostat.norms import estimate


def within(effect: FloatArray, tolerance: float, side: Side) -> NDArray[np.bool_]:
    """Where an effect itself, whatever its error, lies within its tolerance; False where it is NaN."""
    if side == "at_least":
        return np.asarray(effect >= tolerance)
    return np.asarray((np.abs(effect) if side == "within" else effect) <= tolerance)


def share_within(effect: FloatArray, again: FloatArray | None, tolerance: float, side: Side) -> tuple[float, Interval]:
    """Return the share of heads with an estimate whose estimate lies within the tolerance, and its document jackknife.

    Args:
        effect: of all heads, (layer, head); NaN where there is none.
        again: the same without each document, (document, layer, head); None where it is not known.
        tolerance: of the claim.
        side: of the claim.

    Returns:
        The share, NaN without any estimate; standard error and 95% interval by t on K − 1 degrees of freedom, NaN without replicates of each estimate.
    """
    known = np.isfinite(effect)
    share = np.array(within(effect[known], tolerance, side).mean() if known.any() else np.nan)
    if again is None or not np.isfinite(again[:, known]).all() or not known.any():
        nothing = np.array(np.nan)
        return float(share), Interval(se=nothing, lower=nothing, upper=nothing)
    return float(share), interval(share, within(again[:, known], tolerance, side).mean(axis=1))


def replicates(tree: xr.DataTree, claim: str) -> FloatArray | None:
    """Return the effect of a claim without each document, (document, layer, head), as its fit has it; None where a run does not keep what that needs."""
    return SOURCES[claim](tree) if claim in SOURCES else None


def _cv_token(tree: xr.DataTree) -> FloatArray | None:
    """The mean of the documents' own CVs."""
    norms = tree["norms"].to_dataset()
    return leave_one_out_mean(norms["cv_document"].values.astype(np.float64)) if "cv_document" in norms else None


def _of_profile(variable: str) -> Callable[[xr.DataTree], FloatArray | None]:
    """A parameter of the documents' mean profile of norms."""

    def again(tree: xr.DataTree) -> FloatArray | None:
        capture = tree["capture"].to_dataset()
        if "value_norm" not in capture:
            return None
        layers = []
        for layer in range(capture.sizes["layer"]):
            seen = layer_tokens(capture, layer)
            norm = capture["value_norm"][:, layer, :, seen.start :].values.astype(np.float64)
            norm[~np.isfinite(norm)] = np.nan
            layers.append(estimate(leave_one_out_mean(norm), seen.first_content)[variable])
        return np.stack(layers, axis=1)

    return again


SOURCES: Final[dict[str, Callable[[xr.DataTree], FloatArray | None]]] = {
    "norms.cv": _cv_token,
    "norms.cv_profile": _of_profile("cv_profile"),
    "norms.sink": _of_profile("lam"),
}
