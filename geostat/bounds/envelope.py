"""Bounds against measurement: the envelopes of each head from fitted and measured Grams, and whether the measured curves lie inside.

A bound holds for one profile of weights, so every bound is evaluated at each document's own weights and then averaged; a bound at the mean profile would
not bound mean Precision. Source: arXiv 2602.01893, Theorems 1-2 and Corollary 1. Imports theory; datasets are those of /capture and the fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from geostat.bounds.evaluate import (
    _EQUATIONS,
    _SYMBOLS,
    BOUND_NAMES,
    EDITIONS,
    ENVELOPE_POINTS,
    FITTED_GRAMS,
    STATISTICS,
    _bounds_by_document,
    _of_each_bound,
    bound_attributes,
    envelope_grid,
    gap_attributes,
    measured_curves,
)
from geostat.bounds.gaps import beyond, means_and_gaps, standard_error
from geostat.bounds.head import MEASURED, fitted_head
from geostat.datasets.tokens import heads_of
from geostat.errors import InputError
from theory.head.results import Edition


def envelope_dataset(
    tree: xr.DataTree,
    *,
    editions: Sequence[Edition] = EDITIONS,
    grams: Sequence[str] = FITTED_GRAMS,
    points: int | None = ENVELOPE_POINTS,
    progress: Callable[[float], None] | None = None,
) -> xr.Dataset:
    """Lay the bounds of every head over its measured curves.

    Args:
        tree: a run with /capture, /norms, /similarity and, for the measured Gram, /measured_envelope.
        editions: editions of the theory.
        grams: fitted Grams; the measured one is added when the run holds it.
        points: about how many log-spaced sizes N; None takes all.
        progress: called with the share of the work done.

    Returns:
        /envelope: bounds (edition, gram, layer, head, n_envelope), averaged over documents, each at its own weights; the measured curves with
        document jackknife errors; `excess` and `outside` by statistic; `projected` (gram, layer, kv_head). The measured Gram's bounds are known at
        the sizes at which they were captured, NaN at others.

    Raises:
        InputError: for an edition that is not laid over curves.
    """
    capture, norms, similarity = (tree[name].to_dataset() for name in ("capture", "norms", "similarity"))
    grid = envelope_grid(capture["n"].values, points)
    unknown = [edition for edition in editions if edition not in EDITIONS]
    if unknown:
        raise InputError(f"edition {unknown[0]!r}: expected one of {', '.join(EDITIONS)}. Name one of those.")
    measured_too = "measured_envelope" in tree
    names = [*grams, *([MEASURED] if measured_too else [])]
    layers, heads = capture.sizes["layer"], capture.sizes["head"]
    curves = measured_curves(capture, grid)
    bounds = np.full((2, len(BOUND_NAMES), len(editions), len(names), layers, heads, len(grid)), np.nan)  # their means, errors of the gaps
    moved = np.zeros((len(grams), layers, capture.sizes["kv_head"]), dtype=bool)
    distance = np.zeros(moved.shape)
    work = list(np.ndindex(len(grams), layers, capture.sizes["kv_head"]))
    for step, (index, layer, kv_head) in enumerate(work):
        model, of_group = fitted_head(capture, norms, similarity, names[index], layer, kv_head), heads_of(capture, layer, kv_head)
        if model is not None and of_group.size:
            moved[index, layer, kv_head], distance[index, layer, kv_head] = model.projected, model.distance
            for place, edition in enumerate(editions):
                found = _bounds_by_document(capture, model, layer, of_group, grid, edition)
                bounds[:, :, place, index, layer, of_group] = means_and_gaps(found, _of_each_bound(curves.isel(layer=layer, head=of_group)))
        if progress is not None:
            progress((step + 1) / len(work))
    if measured_too:
        own = (
            tree["measured_envelope"].to_dataset().reindex(n_envelope=grid).transpose("document", "edition", "layer", "head", "n_envelope")
        )
        for place, edition in enumerate(editions):
            found = np.stack([own[name].sel(edition=edition).values for name in BOUND_NAMES])
            bounds[:, :, place, -1] = means_and_gaps(found, _of_each_bound(curves))
    return _dataset(capture, bounds, moved, distance, editions=editions, names=names, grid=grid)


def _dataset(
    capture: xr.Dataset,
    bounds: np.ndarray,
    moved: np.ndarray,
    distance: np.ndarray,
    *,
    editions: Sequence[Edition],
    names: Sequence[str],
    grid: np.ndarray,
) -> xr.Dataset:
    dims = ("edition", "gram", "layer", "head", "n_envelope")
    found = xr.Dataset(
        {name: (dims, bounds[0, index], bound_attributes(name)) for index, name in enumerate(BOUND_NAMES)}
        | {f"{name}_gap_se": (dims, bounds[1, index], gap_attributes(name)) for index, name in enumerate(BOUND_NAMES)},
        coords={
            "edition": ("edition", np.array(editions, dtype=object), {"long_name": "edition of the theory"}),
            "gram": ("gram", np.array(names, dtype=object), {"long_name": "Gram matrix of the values"}),
            "layer": capture["layer"],
            "head": capture["head"],
            "kv_head_of_head": capture["kv_head_of_head"],
            "n_envelope": ("n_envelope", grid, {"long_name": "selected tokens N", "units": "tokens"}),
        },
    )
    kv_dims = ("fitted_gram", "layer", "kv_head")
    fitted = [name for name in names if name != MEASURED]
    found = found.assign_coords(fitted_gram=("fitted_gram", np.array(fitted, dtype=object), {"long_name": "fitted Gram matrix"}))
    found["projected"] = (
        kv_dims,
        moved,
        {"long_name": "fitted Gram is infeasible and was moved", "units": "1", "symbol": "", "equation": "Assumption 2"},
    )
    found["projection_distance"] = (
        kv_dims,
        distance,
        {"long_name": "how far the Gram was moved", "units": "1", "symbol": r"|\Delta\rho_0|", "equation": "Assumption 2"},
    )
    measured = measured_curves(capture, grid)
    documents = measured.sizes["document"]
    for statistic in STATISTICS:
        mean, error = measured[statistic].mean("document"), standard_error(measured[statistic])
        attrs = {"units": "1", "symbol": _SYMBOLS[statistic].removeprefix(r"\mathbb{E}"), "equation": _EQUATIONS[statistic]}
        found[statistic] = mean.assign_attrs(long_name=f"measured {statistic.replace('_', ' ')}, mean over documents", **attrs)
        found[f"{statistic}_se"] = error.assign_attrs(long_name=f"standard error over documents of {statistic.replace('_', ' ')}", **attrs)
        excess = xr.DataArray(np.maximum(found[f"{statistic}_lower"] - mean, mean - found[f"{statistic}_upper"]))
        known = found[f"{statistic}_lower"].notnull() & found[f"{statistic}_upper"].notnull() & mean.notnull()
        found[f"{statistic}_excess"] = (
            excess.clip(min=0)
            .where(known)
            .assign_attrs(attrs | {"long_name": f"how far measured {statistic.replace('_', ' ')} lies outside its bounds"})
        )
        outside = beyond(found, statistic, documents).where(known, False)
        found[f"{statistic}_outside"] = outside.astype(bool).assign_attrs(
            attrs | {"long_name": f"measured {statistic.replace('_', ' ')} lies clearly outside its bounds (tests of the gap at 95%)"}
        )
    found.attrs = {
        "long_name": "bounds against measurement",
        "documents": measured.sizes["document"],
        "averaging": "each bound at each document's own weights, then averaged over documents",
    }
    return found.drop_vars([name for name in found.coords if name not in {*dims, *kv_dims, "kv_head_of_head"}])
