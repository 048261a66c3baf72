"""Bounds against measurement: envelopes of each head from fitted and measured Grams, and coverage.

Source: arXiv 2602.01893, Theorems 1-2 and Corollary 1. Imports theory; datasets are /capture and
the fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from empirical.schema import Quantity
from geostat.bounds.by_document import (
    EDITIONS,
    ENVELOPE_POINTS,
    FITTED_GRAMS,
    RANK_GRAM,
    FittedGroup,
    bounds_of_layer,
    curve_of_each_bound,
    envelope_grid,
    fitted_heads,
    means_and_errors,
    measured_bounds,
    measured_curves,
)
from geostat.bounds.gaps import (
    compare_with_bounds,
    drawn_curves,
    gap_error,
    means_and_gaps,
    over_documents,
)
from geostat.bounds.head import MEASURED, FittedHead, Groups, document_weights
from geostat.datasets.overlap import Progress, overlapped, part_of
from geostat.datasets.separability import (
    ALL_BOUNDS,
    LABELS,
    SIDES,
    WITH_F,
    bound_attributes,
    statistic_attributes,
)
from geostat.datasets.tokens import layer_tokens, select_heads
from geostat.datasets.variable import labelled, sizes_along, words_along
from geostat.errors import InputError
from geostat.statistics.arrays import BoolArray, FloatArray
from theory.head.results import Edition

DIMS: Final = ("edition", "gram", "layer", "head", "n_envelope")
NEEDS: Final = (*WITH_F, "attention_weight", "tokens", "sink_visible")
"""Variables of /capture for bounds and curves of a head."""
CURVE: Final = ("layer", "head", "n_envelope")


def _records(statistic: str) -> tuple[Quantity, ...]:
    """Return the records of a statistic's bounds, gaps and curves."""
    label, attributes = LABELS[statistic], statistic_attributes(statistic)

    def measured(name: str, long_name: str, dims: tuple[str, ...] = DIMS) -> Quantity:
        return Quantity(name, long_name, dims=dims, **attributes)

    bounds = [
        Quantity(f"{statistic}_{side}", dims=DIMS, **bound_attributes(f"{statistic}_{side}"))
        for side in SIDES
    ]
    gap = "standard error over documents of the measured value minus the {}"
    gaps = [
        replace(
            bound, name=f"{bound.name}_gap_se", long_name=gap.format(bound.long_name), symbol=""
        )
        for bound in bounds
    ]
    drawn = f"{label} of heads drawn from Model G"
    return (
        *(*bounds, *gaps),
        measured(statistic, f"measured {label}, mean over documents", CURVE),
        measured(f"{statistic}_se", f"standard error over documents of {label}", CURVE),
        measured(f"{statistic}_excess", f"distance of measured {label} outside its bounds"),
        measured(
            f"{statistic}_outside",
            f"measured {label} lies significantly outside its bounds (tests of the gap at 95%)",
        ),
        measured(f"{statistic}_drawn_excess", f"distance of {drawn} outside the bounds"),
        measured(f"{statistic}_drawn_outside", f"{drawn} lies significantly outside the bounds"),
    )


_moved = partial(Quantity, equation="Assumption 2", dims=("fitted_gram", "layer", "kv_head"))
VARIABLES: Final = (
    *(record for statistic in WITH_F for record in _records(statistic)),
    _moved(
        "projected",
        "fitted Gram is not feasible and was projected (by rank: that of any query head)",
    ),
    _moved(
        "projection_distance", "distance by which the Gram was projected", symbol=r"|\Delta\rho_0|"
    ),
)


def envelope_dataset(
    tree: xr.DataTree,
    *,
    editions: Sequence[Edition] = EDITIONS,
    grams: Sequence[str] | None = None,
    points: int | None = ENVELOPE_POINTS,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Evaluate the bounds of every head and compare them with its measured curves.

    Args:
        tree: a run with /capture, /norms, /similarity and, for the measured Gram,
            /measured_envelope.
        grams: fitted Grams; None takes all that the run has fits of. The measured Gram is added
            when the run holds it.
        points: approximate number of log-spaced sizes N; None takes all.

    Returns:
        /envelope: bounds (edition, gram, layer, head, n_envelope), each evaluated at a document's
        weights, averaged over documents; measured curves with document jackknife errors; `excess`
        and `outside` by statistic, and the same of heads drawn from Model G (NaN for the measured
        Gram, which is not a population); `projected` (gram, layer, kv_head). Bounds of the measured
        Gram are NaN at sizes that were not captured.

    Raises:
        InputError: for an edition that is not compared with curves.
    """
    groups = {
        name: tree[name].to_dataset()
        for name in ("capture", "norms", "similarity", "amended")
        if name in tree.children
    }
    capture = groups["capture"]
    if grams is None:
        grams = [*FITTED_GRAMS, *([RANK_GRAM] if "amended" in groups else [])]
    unknown = [edition for edition in editions if edition not in EDITIONS]
    if unknown:
        raise InputError(
            f"edition {unknown[0]!r}: expected one of {', '.join(EDITIONS)}. Choose one of those."
        )
    grid = envelope_grid(capture["n"].values, points)
    bounds, drawn, projected, distance = _fitted_bounds(groups, editions, grams, grid, progress)
    names, by_gram = [*grams], bounds[:2]
    if "measured_envelope" in tree:
        measured = measured_bounds(tree["measured_envelope"].to_dataset(), capture, editions, grid)
        names, by_gram = [*grams, MEASURED], np.concatenate([by_gram, measured], axis=3)
    envelope = _bounds_dataset(capture, by_gram, editions, names, grid)
    bounds_of_drawn = _bounds_dataset(capture, bounds[[0, 2]], editions, grams, grid)
    for name, values in (("projected", projected), ("projection_distance", distance)):
        envelope[name] = (VARIABLES[-1].dims, values)
    documents = capture.sizes["document"]
    of_all, of_fits = (data["gram"].values for data in (envelope, bounds_of_drawn))
    means, errors = means_and_errors(capture, grid)
    for index, statistic in enumerate(WITH_F):
        comparison = compare_with_bounds(envelope, means[statistic], errors[statistic], documents)
        envelope = envelope.assign(
            {f"{statistic}{part}": values for part, values in comparison.items()}
        )
        mean, error = (
            xr.DataArray(values, dims=DIMS[1:], coords={"gram": of_fits}, name=statistic)
            for values in drawn[:, index]
        )
        of_drawn = compare_with_bounds(bounds_of_drawn, mean, error, documents)
        for part, missing in (("_excess", np.nan), ("_outside", False)):
            of_grams = of_drawn[part].reindex(gram=of_all, fill_value=missing)
            envelope[f"{statistic}_drawn{part}"] = of_grams.variable
    envelope = labelled(envelope, VARIABLES)
    envelope.attrs = {
        "long_name": "bounds against measurement",
        "documents": documents,
        "averaging": "each bound at each document's weights, then averaged over documents",
    }
    kept_names = {*DIMS, *VARIABLES[-1].dims, "kv_head_of_head"}
    return envelope.drop_vars([name for name in envelope.coords if name not in kept_names])


def _fitted_bounds(
    groups: Groups,
    editions: Sequence[Edition],
    grams: Sequence[str],
    grid: np.ndarray,
    progress: Progress | None,
) -> tuple[FloatArray, FloatArray, BoolArray, FloatArray]:
    """Evaluate the bounds of every fitted Gram.

    Returns:
        Bounds: means, and errors of the gaps to measured and to drawn curves, (3, bound,
        edition, gram, layer, head, n). Drawn curves: means and errors, (2, statistic, gram, layer,
        head, n). Whether and how far the Gram was projected, (gram, layer, kv_head).
    """
    capture = groups["capture"]
    layers, heads_total, kv_heads = (capture.sizes[name] for name in ("layer", "head", "kv_head"))
    of_heads = (layers, heads_total, len(grid))
    bounds = np.full((3, len(ALL_BOUNDS), len(editions), len(grams), *of_heads), np.nan)
    drawn = np.full((2, len(WITH_F), len(grams), *of_heads), np.nan)
    projected = np.zeros((len(grams), layers, kv_heads), dtype=bool)
    distance = np.zeros(projected.shape)
    for index, gram in enumerate(grams):
        share = part_of(progress, index / len(grams), (index + 1) / len(grams))
        tasks = (
            (
                (layer, kv_head, heads, model),
                select_heads(capture, NEEDS, layer=[layer], head=heads),
                # the seed: one for the heads of a KV head, which share values by position
                layer * kv_heads + kv_head if gram != RANK_GRAM else layer * heads_total + heads[0],
            )
            for layer, kv_head, heads, model in fitted_heads(groups, gram, share)
        )
        results = overlapped(partial(_one_kv_head, editions, grid), tasks)
        for layer, kv_head, group, model, curve, parts in results:
            projected[index, layer, kv_head] |= model.projected
            distance[index, layer, kv_head] = max(distance[index, layer, kv_head], model.distance)
            drawn[:, :, index, layer, group] = curve
            for edition, of_edition in enumerate(parts):
                bounds[:, :, edition, index, layer, group] = of_edition
    return bounds, drawn, projected, distance


def _one_kv_head(
    editions: Sequence[Edition], grid: np.ndarray, task: tuple[FittedGroup, xr.Dataset, int]
) -> tuple[int, int, np.ndarray, FittedHead, FloatArray, list[tuple[FloatArray, ...]]]:
    """Return a KV head, means and errors of its drawn curves, (2, statistic, head, n), and by
    edition the means of the bounds and errors of both gaps, (bound, head, n) each.

    A task is the KV head, the capture of its heads, and a seed.
    """
    (layer, kv_head, group, model), capture, seed = task
    if model.dimension is not None:
        capture = capture.assign_attrs(dimension=model.dimension)
    weights = model.ordered(
        document_weights(capture, 0, slice(None)), sink=layer_tokens(capture, 0).sink
    )
    measured = curve_of_each_bound(measured_curves(capture, grid, layer=0))
    drawn = drawn_curves(capture, 0, weights, model, grid, seed)
    of_each_bound = np.repeat(drawn, len(SIDES), axis=0)
    arguments = (weights, model.norms, model.gram, grid)
    parts = [
        (*means_and_gaps(result, measured), gap_error(result, of_each_bound))
        for result in bounds_of_layer(capture, 0, *arguments, editions=editions)
    ]
    drawn_means = np.stack(over_documents(np.moveaxis(drawn, 1, 0)))
    return layer, kv_head, group, model, drawn_means, parts


def _bounds_dataset(
    capture: xr.Dataset,
    bounds: FloatArray,
    editions: Sequence[Edition],
    names: Sequence[str],
    grid: np.ndarray,
) -> xr.Dataset:
    """Return a dataset of bounds and errors of gaps, (2, bound, edition, gram, layer, head, n)."""
    out: dict[str, Any] = {
        f"{name}{part}": (DIMS, bounds[part_index, index])
        for index, name in enumerate(ALL_BOUNDS)
        for part_index, part in enumerate(("", "_gap_se"))
    }
    fitted = [name for name in names if name != MEASURED]
    coords = {
        "edition": words_along("edition", editions, "edition of the theory"),
        "gram": words_along("gram", names, "Gram matrix of the values"),
        "fitted_gram": words_along("fitted_gram", fitted, "fitted Gram matrix"),
        **{name: capture[name] for name in ("layer", "head", "kv_head_of_head")},
        "n_envelope": sizes_along("n_envelope", grid),
    }
    return xr.Dataset(out, coords=coords)
