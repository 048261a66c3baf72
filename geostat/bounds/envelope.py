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
    means_and_errors,
    measured_bounds,
    measured_curves,
)
from geostat.bounds.calibration import drawn_curves
from geostat.bounds.gaps import gap_error, laid_over, means_and_gaps, over_documents
from geostat.bounds.head import MEASURED, FittedHead, document_weights
from geostat.datasets.overlap import overlapped
from geostat.datasets.progress import Progress, part_of
from geostat.datasets.separability import (
    ALL_BOUNDS,
    SIDES,
    WITH_F,
    bound_attributes,
    statistic_attributes,
)
from geostat.datasets.tokens import some_heads
from geostat.datasets.variable import Variable, labelled, words_along
from geostat.errors import InputError
from geostat.statistics.arrays import BoolArray, FloatArray
from theory.head.results import Edition

DIMS: Final = ("edition", "gram", "layer", "head", "n_envelope")
NEEDS: Final = (*WITH_F, "attention_weight", "tokens", "sink_visible")
"""What bounds and curves of a head are made from, of /capture."""
Found = tuple[int, int, np.ndarray, FittedHead]
"""One of `fitted_heads`."""
CURVE: Final = ("layer", "head", "n_envelope")
DRAWN: Final = "_drawn_gap_se"
PARTS: Final = ("", "_gap_se", DRAWN)
"""What is kept of a bound: its mean over documents, and the errors of measured and drawn gaps."""


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
        measured(
            f"{statistic}_drawn_excess",
            f"how far {label} of heads drawn from Model G lies outside the bounds",
            dims=DIMS,
        ),
        measured(
            f"{statistic}_drawn_outside",
            f"{label} of heads drawn from Model G lies clearly outside the bounds",
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
        by statistic, and the same of heads drawn from Model G (`calibration`; NaN for the measured
        Gram, which is no population's); `projected` (gram, layer, kv_head). The measured Gram's
        bounds are known at the sizes at which they were captured, NaN at others.

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
    bounds, drawn, moved, distance = _fitted_bounds(
        capture, norms, similarity, editions, grams, grid, progress
    )
    names = [*grams]
    if "measured_envelope" in tree:
        own = measured_bounds(tree["measured_envelope"].to_dataset(), capture, editions, grid)
        bounds, names = np.concatenate([bounds, own], axis=3), [*grams, MEASURED]
    envelope = _bounds_dataset(capture, bounds, editions, names, grid)
    for name, one in (("projected", moved), ("projection_distance", distance)):
        envelope[name] = (VARIABLES[-1].dims, one)
    documents = capture.sizes["document"]
    means, errors = means_and_errors(capture, grid)
    for at, statistic in enumerate(WITH_F):
        laid = laid_over(envelope, means[statistic], errors[statistic], documents)
        envelope = envelope.assign({f"{statistic}{part}": values for part, values in laid.items()})
        envelope = envelope.assign(_against_drawn(envelope, drawn[:, at], statistic, documents))
    return _described(envelope, documents)


def _fitted_bounds(
    capture: xr.Dataset,
    norms: xr.Dataset,
    similarity: xr.Dataset,
    editions: Sequence[Edition],
    grams: Sequence[str],
    grid: np.ndarray,
    progress: Progress | None,
) -> tuple[FloatArray, FloatArray, BoolArray, FloatArray]:
    """Evaluate the bounds of every fitted Gram.

    Returns:
        Means of the bounds, and the errors of the gaps to them of measured and of drawn curves,
        (PARTS, bound, edition, gram, layer, head, n); means of the drawn curves and their errors,
        (2, statistic, gram, layer, head, n); whether and how far the Gram was moved, (gram, layer,
        kv_head).
    """
    layers, every, kv_heads = (capture.sizes[name] for name in ("layer", "head", "kv_head"))
    of_heads = (layers, every, len(grid))
    bounds = np.full((len(PARTS), len(ALL_BOUNDS), len(editions), len(grams), *of_heads), np.nan)
    drawn = np.full((2, len(WITH_F), len(grams), *of_heads), np.nan)
    moved = np.zeros((len(grams), layers, kv_heads), dtype=bool)
    distance = np.zeros(moved.shape)
    for index, gram in enumerate(grams):
        share = part_of(progress, index / len(grams), (index + 1) / len(grams))
        each = (
            (
                found,
                some_heads(capture, NEEDS, layer=[layer], head=heads),
                layer * kv_heads + kv_head,
            )
            for found in fitted_heads(capture, norms, similarity, gram, share)
            for layer, kv_head, heads, _ in [found]
        )
        laid = overlapped(partial(_one_value_head, editions, grid), each)
        for layer, kv_head, group, model, curve, parts in laid:
            at = (index, layer, kv_head)
            moved[at], distance[at] = model.projected, model.distance
            drawn[:, :, index, layer, group] = curve
            for place, of_edition in enumerate(parts):
                bounds[:, :, place, index, layer, group] = of_edition
    return bounds, drawn, moved, distance


def _one_value_head(
    editions: Sequence[Edition], grid: np.ndarray, task: tuple[Found, xr.Dataset, int]
) -> tuple[int, int, np.ndarray, FittedHead, FloatArray, list[tuple[FloatArray, ...]]]:
    """Return one of `fitted_heads`, means of its drawn curves and their errors, (2, statistic,
    head, n), and by edition means of the bounds and errors of the gaps, PARTS of (bound, head, n).

    A task is one of `fitted_heads`, what /capture holds of its heads, and a seed.
    """
    (layer, kv_head, group, model), capture, seed = task
    weights = document_weights(capture, 0, slice(None))
    measured = curve_of_each_bound(measured_curves(capture, grid, layer=0))
    drawn = drawn_curves(capture, 0, weights, model, grid, seed)
    of_each_bound = np.repeat(drawn, len(SIDES), axis=0)
    own = (weights, model.norms, model.gram, grid)
    parts = [
        (*means_and_gaps(result, measured), gap_error(result, of_each_bound))
        for result in bounds_of_layer(capture, 0, *own, editions=editions)
    ]
    both = np.stack(over_documents(np.moveaxis(drawn, 1, 0)))
    return layer, kv_head, group, model, both, parts


def _bounds_dataset(
    capture: xr.Dataset,
    bounds: FloatArray,
    editions: Sequence[Edition],
    names: Sequence[str],
    grid: np.ndarray,
) -> xr.Dataset:
    """The bounds (PARTS, bound, edition, gram, layer, head, n) by name, with coordinates."""
    out: dict[str, Any] = {
        f"{name}{part}": (DIMS, bounds[which, at])
        for at, name in enumerate(ALL_BOUNDS)
        for which, part in enumerate(PARTS)
    }
    fitted = [name for name in names if name != MEASURED]
    labels = {
        "edition": (editions, "edition of the theory"),
        "gram": (names, "Gram matrix of the values"),
        "fitted_gram": (fitted, "fitted Gram matrix"),
    }
    coords = {
        name: words_along(name, values, long_name) for name, (values, long_name) in labels.items()
    }
    sizes = ("n_envelope", grid, {"long_name": "selected tokens N", "units": "tokens"})
    of_capture = {name: capture[name] for name in ("layer", "head", "kv_head_of_head")}
    return xr.Dataset(out, coords=coords | of_capture | {"n_envelope": sizes})


def _against_drawn(
    envelope: xr.Dataset, drawn: FloatArray, statistic: str, documents: int
) -> dict[str, xr.DataArray]:
    """What `laid_over` tells of heads drawn from Model G, means over documents and their errors,
    (2, fitted gram, layer, head, n); where no Gram was fitted excess is NaN.
    """
    fitted = envelope["fitted_gram"].values
    bounds = envelope.sel(gram=fitted)
    gap_se = {f"{statistic}_{side}_gap_se": bounds[f"{statistic}_{side}{DRAWN}"] for side in SIDES}
    dims = ("gram", "layer", "head", "n_envelope")
    mean, error = (
        xr.DataArray(one, dims=dims, coords={"gram": fitted}, name=statistic) for one in drawn
    )
    laid = laid_over(bounds.assign(gap_se), mean, error, documents)
    every = envelope["gram"].values
    return {
        f"{statistic}_drawn_excess": laid["_excess"].reindex(gram=every),
        f"{statistic}_drawn_outside": laid["_outside"].reindex(gram=every, fill_value=False),
    }


def _described(envelope: xr.Dataset, documents: int) -> xr.Dataset:
    """Give the envelope its attributes, and leave out what is not its own."""
    envelope = envelope.drop_vars([f"{name}{DRAWN}" for name in ALL_BOUNDS])
    envelope = labelled(envelope, VARIABLES)
    envelope.attrs = {
        "long_name": "bounds against measurement",
        "documents": documents,
        "averaging": "each bound at each document's own weights, then averaged over documents",
    }
    own = {*DIMS, *VARIABLES[-1].dims, "kv_head_of_head"}
    return envelope.drop_vars([name for name in envelope.coords if name not in own])
