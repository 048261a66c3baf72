"""Bounds against measurement: the envelopes of each head from fitted and measured Grams, and
whether the measured curves lie inside.

Source: arXiv 2602.01893, Theorems 1-2 and Corollary 1. Imports theory; datasets are those of
/capture and the fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.bounds.by_document import (
    EDITIONS,
    ENVELOPE_POINTS,
    FITTED_GRAMS,
    bounds_of_layer,
    curve_of_each_bound,
    envelope_grid,
    fitted_heads,
    measured_curves,
)
from geostat.bounds.gaps import clearly_outside, means_and_gaps, standard_error
from geostat.bounds.head import MEASURED, document_weights
from geostat.datasets.progress import Progress, part_of
from geostat.datasets.separability import (
    ALL_BOUNDS,
    SIDES,
    WITH_F,
    bound_attributes,
    statistic_attributes,
)
from geostat.datasets.variable import Variable, labelled
from geostat.errors import InputError
from geostat.statistics.arrays import BoolArray, FloatArray
from theory.head.results import Edition

DIMS: Final = ("edition", "gram", "layer", "head", "n_envelope")
CURVE: Final = ("layer", "head", "n_envelope")


def _records(statistic: str) -> tuple[Variable, ...]:
    label, attributes = statistic.replace("_", " "), statistic_attributes(statistic)
    measured = partial(
        Variable,
        units="1",
        symbol=attributes["symbol"],
        equation=attributes["equation"],
        dims=CURVE,
    )
    bounds = [
        Variable(f"{statistic}_{side}", dims=DIMS, **bound_attributes(f"{statistic}_{side}"))
        for side in SIDES
    ]
    gap = "standard error over documents of the measured value less the {}"
    return (
        *bounds,
        *(
            replace(
                bound, name=f"{bound.name}_gap_se", long_name=gap.format(bound.long_name), symbol=""
            )
            for bound in bounds
        ),
        measured(statistic, f"measured {label}, mean over documents"),
        measured(f"{statistic}_se", f"standard error over documents of {label}"),
        measured(
            f"{statistic}_excess", f"how far measured {label} lies outside its bounds", dims=DIMS
        ),
        measured(
            f"{statistic}_outside",
            f"measured {label} lies clearly outside its bounds (tests of the gap at 95%)",
            dims=DIMS,
        ),
    )


_moved = partial(Variable, equation="Assumption 2", dims=("fitted_gram", "layer", "kv_head"))
VARIABLES: Final = (
    *(record for statistic in WITH_F for record in _records(statistic)),
    _moved("projected", "fitted Gram is infeasible and was moved"),
    _moved("projection_distance", "how far the Gram was moved", symbol=r"|\Delta\rho_0|"),
)


def envelope_dataset(
    tree: xr.DataTree,
    *,
    editions: Sequence[Edition] = EDITIONS,
    grams: Sequence[str] = FITTED_GRAMS,
    points: int | None = ENVELOPE_POINTS,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Evaluate the bounds of every head beside its measured curves.

    Args:
        tree: a run with /capture, /norms, /similarity and, for the measured Gram,
            /measured_envelope.
        editions: editions of the theory.
        grams: fitted Grams; the measured one is added when the run holds it.
        points: about how many log-spaced sizes N; None takes all.
        progress: called with the share of the work done.

    Returns:
        /envelope: bounds (edition, gram, layer, head, n_envelope), averaged over documents, each at
        its own weights; the measured curves with document jackknife errors; `excess` and `outside`
        by statistic; `projected` (gram, layer, kv_head). The measured Gram's bounds are known at
        the sizes at which they were captured, NaN at others.

    Raises:
        InputError: for an edition that is not compared with curves.
    """
    capture, norms, similarity = (
        tree[name].to_dataset() for name in ("capture", "norms", "similarity")
    )
    unknown = [edition for edition in editions if edition not in EDITIONS]
    if unknown:
        raise InputError(
            f"edition {unknown[0]!r}: expected one of {', '.join(EDITIONS)}. Name one of those."
        )
    grid = envelope_grid(capture["n"].values, points)
    curves = measured_curves(capture, grid)
    bounds, moved, distance = _fitted_bounds(
        capture, norms, similarity, curves, editions, grams, grid, progress
    )
    names = [*grams]
    if "measured_envelope" in tree:
        own = _measured_bounds(tree["measured_envelope"].to_dataset(), curves, editions, grid)
        bounds, names = np.concatenate([bounds, own], axis=3), [*grams, MEASURED]
    of_value_head = VARIABLES[-1].dims
    envelope = _bounds_dataset(capture, bounds, editions, names, grid)
    envelope = envelope.assign(
        projected=(of_value_head, moved), projection_distance=(of_value_head, distance)
    )
    for statistic in WITH_F:
        envelope = envelope.assign(_against_measured(envelope, curves[statistic]))
    return _described(envelope, capture.sizes["document"])


def _fitted_bounds(
    capture: xr.Dataset,
    norms: xr.Dataset,
    similarity: xr.Dataset,
    curves: xr.Dataset,
    editions: Sequence[Edition],
    grams: Sequence[str],
    grid: np.ndarray,
    progress: Progress | None,
) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Evaluate the bounds of every fitted Gram: their means and the errors of their gaps, (mean or
    error, bound, edition, gram, layer, head, n), and whether and how far the Gram was moved, (gram,
    layer, kv_head).
    """
    layers, heads, kv_heads = (capture.sizes[name] for name in ("layer", "head", "kv_head"))
    bounds = np.full(
        (2, len(ALL_BOUNDS), len(editions), len(grams), layers, heads, len(grid)), np.nan
    )
    moved = np.zeros((len(grams), layers, kv_heads), dtype=bool)
    distance = np.zeros(moved.shape)
    for index, gram in enumerate(grams):
        share = part_of(progress, index / len(grams), (index + 1) / len(grams))
        for layer, kv_head, group, model in fitted_heads(capture, norms, similarity, gram, share):
            at = (index, layer, kv_head)
            moved[at], distance[at] = model.projected, model.distance
            weights = document_weights(capture, layer, group)
            measured = curve_of_each_bound(curves.isel(layer=layer, head=group))
            for place, edition in enumerate(editions):
                result = bounds_of_layer(
                    capture, layer, weights, model.norms, model.gram, grid, edition=edition
                )
                bounds[:, :, place, index, layer, group] = means_and_gaps(result, measured)
    return bounds, moved, distance


def _measured_bounds(
    measured_envelope: xr.Dataset,
    curves: xr.Dataset,
    editions: Sequence[Edition],
    grid: np.ndarray,
) -> FloatArray:
    """Return the bounds of the measured Gram as those of fitted ones, the axis of Grams of length
    1.
    """
    own = measured_envelope.reindex(n_envelope=grid).transpose(
        "document", *(dim for dim in DIMS if dim != "gram")
    )
    measured = curve_of_each_bound(curves)
    each = [
        means_and_gaps(
            np.stack([own[name].sel(edition=edition).values for name in ALL_BOUNDS]), measured
        )
        for edition in editions
    ]
    return np.stack(each, axis=2)[:, :, :, None]


def _bounds_dataset(
    capture: xr.Dataset,
    bounds: FloatArray,
    editions: Sequence[Edition],
    names: Sequence[str],
    grid: np.ndarray,
) -> xr.Dataset:
    """The bounds (mean or error of the gap, bound, edition, gram, layer, head, n) by name, with
    coordinates.
    """
    out: dict[str, Any] = {}
    for name, mean, gap_se in zip(ALL_BOUNDS, *bounds, strict=True):
        out |= {name: (DIMS, mean), f"{name}_gap_se": (DIMS, gap_se)}
    fitted = [name for name in names if name != MEASURED]
    labels = {
        "edition": (editions, "edition of the theory"),
        "gram": (names, "Gram matrix of the values"),
        "fitted_gram": (fitted, "fitted Gram matrix"),
    }
    coords = {
        name: (name, np.array(values, dtype=object), {"long_name": long_name})
        for name, (values, long_name) in labels.items()
    }
    sizes = ("n_envelope", grid, {"long_name": "selected tokens N", "units": "tokens"})
    of_capture = {name: capture[name] for name in ("layer", "head", "kv_head_of_head")}
    return xr.Dataset(out, coords=coords | of_capture | {"n_envelope": sizes})


def _against_measured(envelope: xr.Dataset, curve: xr.DataArray) -> dict[str, xr.DataArray]:
    """A measured statistic, by document, with its error, how far its mean lies outside its
    bounds, and whether clearly.
    """
    statistic, documents = str(curve.name), curve.sizes["document"]
    lower, upper, mean = (
        envelope[f"{statistic}_lower"],
        envelope[f"{statistic}_upper"],
        curve.mean("document"),
    )
    out = {statistic: mean, f"{statistic}_se": standard_error(curve)}
    known = lower.notnull() & upper.notnull() & mean.notnull()
    excess = xr.DataArray(np.maximum(lower - mean, mean - upper)).clip(min=0).where(known)
    outside = (
        clearly_outside(envelope.assign(out), statistic, documents).where(known, False).astype(bool)
    )
    return out | {f"{statistic}_excess": excess, f"{statistic}_outside": outside}


def _described(envelope: xr.Dataset, documents: int) -> xr.Dataset:
    """Give the envelope its attributes, and leave out coordinates that are not its own."""
    envelope = labelled(envelope, VARIABLES)
    envelope.attrs = {
        "long_name": "bounds against measurement",
        "documents": documents,
        "averaging": "each bound at each document's own weights, then averaged over documents",
    }
    own = {*DIMS, *VARIABLES[-1].dims, "kv_head_of_head"}
    return envelope.drop_vars([name for name in envelope.coords if name not in own])
