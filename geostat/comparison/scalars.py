"""One number for a whole run, with what it would be without each document: what runs are compared
by.

A run's heads are all the heads of its model, not a sample; its documents are the sample. So a
number is a mean over heads, and its standard error a jackknife over documents. Imports numpy and
xarray.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from geostat.comparison.coverage import shares_inside
from geostat.comparison.quantities import KINDS
from geostat.datasets.progress import Progress
from geostat.datasets.separability import STATISTICS
from geostat.experiments.moments import Moments, Table, shares_of
from geostat.experiments.sink import fisher, without_noise
from geostat.fits.norms.fit import fit_norms
from geostat.fits.similarity.fit import fit_similarity
from geostat.fits.similarity.forms import FORMS
from geostat.paper import CORRELATION_SIZES, WORKING_SIZE
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate, jackknife, leave_one_out_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A run's estimate, without each document in turn (document,), over how many heads it is
    averaged, and its 95% interval.
    """

    estimate: float
    without: FloatArray
    heads: int
    correlation: bool = False
    at: float = float("nan")
    """The N at which it was found, of a largest value."""

    def jackknifed(self) -> Estimate:
        """95% jackknife-t; a correlation's on Fisher's z."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (fisher if self.correlation else jackknife)(
                np.asarray(self.estimate), self.without
            )


def scalars(
    groups: Mapping[str, xr.Dataset],
    *,
    coverage_errors: bool = True,
    progress: Progress | None = None,
) -> dict[str, Scalar]:
    """Every quantity of one run, by key.

    `groups` holds /capture, /norms, /similarity and /envelope, of fitted Grams. Fits and bounds are
    taken from there; only what leaves a document out is made anew, with `coverage_errors` for
    coverage too, which takes as long as to confront the run and is told to `progress`.
    """
    capture, norms, similarity = (groups[name] for name in ("capture", "norms", "similarity"))
    forms = [form for form in FORMS if form in similarity["gram"].values]
    # Runs of an earlier version hold no replicates: those are fitted again.
    norms = norms if "lam_without" in norms else fit_norms(capture)
    similarity = similarity if "mae_by_lag_without" in similarity else fit_similarity(capture)
    out = {name: _fitted(name, norms) for name in ("cv_profile", "lam", "cv_token")}
    out |= {f"mae_{form}": _fitted("mae_by_lag", similarity.sel(gram=form)) for form in forms}
    for (statistic, edition, gram), (share, without, heads) in shares_inside(
        groups, errors=coverage_errors, progress=progress
    ).items():
        out[f"{statistic}_inside_{edition}_{gram}"] = Scalar(
            estimate=share, without=without, heads=heads
        )
    return out | _separability(capture) | _correlations(capture)


def _over_heads(estimate: FloatArray, without: FloatArray) -> Scalar:
    """Mean over the heads that have an estimate with all documents and without each; shapes
    (head,) and (document, head).
    """
    known = np.isfinite(estimate) & (np.isfinite(without).all(axis=0) if len(without) > 1 else True)
    if not known.any():
        return Scalar(estimate=float("nan"), without=np.full(len(without), np.nan), heads=0)
    return Scalar(
        estimate=float(estimate[known].mean()),
        without=without[:, known].mean(axis=1),
        heads=int(known.sum()),
    )


def _fitted(name: str, fits: xr.Dataset) -> Scalar:
    """Mean over value heads of a fitted number, from its replicates; dims (layer, kv_head)."""
    value = fits[name].transpose("layer", "kv_head").values.ravel()
    without = fits[f"{name}_without"].transpose("document", "layer", "kv_head").values
    return _over_heads(value, without.reshape(len(without), -1))


def _separability(capture: xr.Dataset) -> dict[str, Scalar]:
    """Mean P and R at one N: heads averaged within a document, then documents."""
    out = {}
    for name in STATISTICS if WORKING_SIZE in capture["n"].values else ():
        values = (
            capture[name]
            .sel(n=WORKING_SIZE)
            .transpose("document", "layer", "head")
            .values.astype(np.float64)
        )
        flat = values.reshape(len(values), -1)
        out[f"{name}_at_{WORKING_SIZE}"] = _over_heads(flat.mean(axis=0), leave_one_out_mean(flat))
    return out


def _correlations(capture: xr.Dataset) -> dict[str, Scalar]:
    table = Table.of(capture)
    moments = Moments.of(table.similarity, table.recall) if table.heads else None
    if moments is None:
        return {}
    documents, n = table.similarity.shape[0], capture["n"].values
    whole, without = shares_of(documents)
    inside = (n > 1) & (n < capture.sizes["position"])
    scalar = partial(Scalar, heads=table.heads, correlation=True)
    out = {}
    for kind in KINDS:
        apart = kind == "unattenuated"
        curve, others = (moments.correlation(shares, apart=apart)[0] for shares in (whole, without))
        curve = curve[0] if documents > 1 or not apart else np.full(n.size, np.nan)
        others = others if documents > 1 else np.full((1, n.size), np.nan)
        if apart:
            curve = np.where(without_noise(curve, others), curve, np.nan)
        for at in np.flatnonzero(np.isin(n, CORRELATION_SIZES) & inside):
            out[f"{kind}_at_{n[at]}"] = scalar(estimate=float(curve[at]), without=others[:, at])
        if np.isfinite(curve[inside]).any():
            peak = int(np.where(inside & np.isfinite(curve), curve, -np.inf).argmax())
            among = np.where(inside & np.isfinite(others), others, -np.inf).max(axis=1)
            without_each = np.where(np.isfinite(among), among, np.nan)
            out[f"{kind}_peak"] = scalar(
                estimate=float(curve[peak]), without=without_each, at=float(n[peak])
            )
    return out
