"""Scores of predicted against measured curves, by head and over all cells; records of /predictive.

Every score is computed with all documents and leave-one-out by the same code: entry 0 of the axis
`replicate` is the estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from empirical.schema import Quantity
from geostat.bounds.by_document import measured_curves
from geostat.datasets.separability import LETTERS, STATISTICS
from geostat.datasets.variable import Value, sizes_along, variables, words_along
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import jackknife, with_replicates
from geostat.statistics.t_test import critical_value

BASELINES: Final = ("heads", "floor")
"""Baselines of a prediction: the mean of the other heads at each N, and N/T, the Precision of a
ball that holds all tokens.
"""
LARGEST_NOISE = 0.25
"""Largest share of a head's variance over N due to document noise for its R² to count."""
CURVE: Final = ("layer", "head", "n_predicted")
_EQUATIONS: Final = {"precision": "Definition 1", "recall": "Definition 2"}
_CELLS: Final = ("source", *CURVE)
_HEADS: Final = ("source", "layer", "head")
_UNRELIABLE: Final = "share of profiles whose prediction is flagged as unreliable"
_DISTANCE: Final = r"\overline{|e|}"
_SOURCE: Final = ("source",)
_VARIANCE: Final = "share of the variance"
_SCORES: Final = (
    (_HEADS, "bias", "mean over N of predicted minus measured {}", r"\bar e"),
    (_HEADS, "mae", "mean over N of |predicted − measured| {}", _DISTANCE),
    (_HEADS, "r2", f"{_VARIANCE} of measured {{}} over N explained by the prediction", "R^2"),
    (_HEADS[1:], "noise", "share of the variance of measured {} over N due to document noise", ""),
    (
        _HEADS[1:],
        "settled",
        f"R² counts: at most a share {LARGEST_NOISE:g} of the variance of measured {{}} over N is"
        " noise",
        "",
    ),
    (_SOURCE, "pooled_bias", "mean over cells of predicted minus measured {}", r"\bar e"),
    (_SOURCE, "pooled_mae", "mean over cells of |predicted − measured| {}", _DISTANCE),
    (_SOURCE, "pooled_r2", f"{_VARIANCE} of {{}} over cells explained by the prediction", "R^2"),
    (_SOURCE, "slope", "slope of the regression of measured on predicted {}", "b"),
    (_SOURCE, "intercept", "intercept of the regression of measured on predicted {}", "a"),
    (
        _SOURCE,
        "within",
        "share of cells with the prediction in the 95% document interval of measured {}",
        "",
    ),
    (
        _SOURCE,
        "better",
        "share of heads whose prediction is closer to measured {} than the mean of the other heads",
        "",
    ),
    (_SOURCE, "r2_median", "median R² of {} over the heads in which it counts", ""),
)
"""Dims, name, meaning and symbol of the scores, by head and over all cells."""
_ESTIMATED: Final = ("bias", "mae", "pooled_bias", "pooled_mae", "pooled_r2", "slope", "intercept")


def _records(name: str) -> tuple[Quantity, ...]:
    """Return the records of one statistic: its curves, number of cells, and scores."""
    letter, of = LETTERS[name], partial(Quantity, equation=_EQUATIONS[name])
    expected = rf"\mathbb{{E}}{letter}"
    return (
        of(f"{name}_predicted", f"predicted {name} under Model G", symbol=expected, dims=_CELLS),
        of(name, f"measured {name}, mean over documents", symbol=letter, dims=CURVE),
        of(f"{name}_se", f"standard error over documents of {name}", dims=CURVE),
        of(f"{name}_cells", f"{name}: (head, N) cells, 1 < N < T, predicted from every source"),
        *(
            Quantity(
                f"{name}_{part}",
                meaning.format(name),
                symbol=symbol,
                dims=dims,
                estimated=part in _ESTIMATED,
            )
            for dims, part, meaning, symbol in _SCORES
        ),
    )


VARIABLES: Final = (
    *(record for name in STATISTICS for record in _records(name)),
    Quantity("flagged", _UNRELIABLE, dims=_CELLS),
    Quantity("flagged_share", f"{_UNRELIABLE}, over all cells", dims=("source",)),
)
"""Variables of /predictive, except those of the simulation (`check`)."""


def scored(
    capture: xr.Dataset,
    grid: np.ndarray,
    sources: Sequence[str],
    by_document: FloatArray,
    reliable: FloatArray,
) -> xr.Dataset:
    """Return /predictive: predictions and baselines scored against measured curves.

    Args:
        grid: sizes N, (n,).
        sources: what the curves are predicted from; BASELINES follow them.
        by_document: predicted P and R, (statistic, document, source, layer, head, n).
        reliable: 1 where a prediction is reliable, without the statistic axis.
    """
    curves = measured_curves(capture, grid).transpose("document", "layer", "head", "n_envelope")
    documents, tokens = capture.sizes["document"], capture["tokens"].values[:, None, None]
    shape = (1 + documents, *by_document.shape[3:])
    critical = float(critical_value(documents - 1))
    flags = 1 - with_replicates(reliable)[0]
    flagged = np.concatenate([flags, np.full((len(BASELINES), *flags.shape[1:]), np.nan)])
    shares = [
        float(row[np.isfinite(row)].mean()) if np.isfinite(row).any() else np.nan for row in flagged
    ]
    numbers: dict[str, Any] = {"flagged": flagged, "flagged_share": np.array(shares)}
    for index, name in enumerate(STATISTICS):
        predictions, measured = map(with_replicates, (by_document[index], curves[name].values))
        known = (
            np.isfinite(predictions[0]).all(axis=0)
            & np.isfinite(measured[0])
            & (grid > 1)
            & (grid < tokens)
        )
        floor = np.broadcast_to(np.where(grid <= tokens, grid / tokens, np.nan), shape)
        baselines = np.stack([mean_of_other_heads(measured, known), floor], axis=1)
        error = (
            curves[name].values.std(axis=0, ddof=1) / np.sqrt(documents)
            if documents > 1
            else np.full(shape[1:], np.nan)
        )
        predictions = np.concatenate([predictions, baselines], axis=1)
        numbers |= numbers_of(name, predictions, measured, error, known, critical)
    coords = {name: capture[name].variable for name in ("layer", "head")}
    coords["source"] = words_along(
        "source", (*sources, *BASELINES), "what curves are predicted from"
    )
    coords["n_predicted"] = sizes_along("n_predicted", grid)
    attrs = {
        "long_name": "predicted curves against measured ones",
        "documents": documents,
        "errors": "95% document jackknife, t(K-1); fitted ingredients held",
    }
    return xr.Dataset(variables(VARIABLES, numbers), coords=coords, attrs=attrs)


def numbers_of(
    name: str,
    predicted: FloatArray,
    measured: FloatArray,
    error: FloatArray,
    known: BoolArray,
    critical: float,
) -> dict[str, Value]:
    """Return all numbers of one statistic, by the names of its variables.

    Args:
        predicted: (replicate, source, layer, head, n).
        measured: (replicate, layer, head, n).
        error: standard errors of `measured`, (layer, head, n).
        known: cells that count, (layer, head, n).
        critical: quantile of Student's t for 95% document intervals; NaN with one document.
    """
    scores, noise = score(predicted, measured, known), noise_share(measured[0], error, known)
    prediction, target = predicted[0], measured[0]
    # 1e-9 allows for rounding where all documents agree.
    inside = known & (np.abs(prediction - target) <= critical * error + 1e-9)
    share = inside.sum(axis=(1, 2, 3)) / max(int(known.sum()), 1)
    r2 = scores.pop("r2")[0]
    r2_counts = np.isfinite(r2) & (noise <= LARGEST_NOISE)
    medians = [
        np.median(row[ok]) if ok.any() else np.nan for row, ok in zip(r2, r2_counts, strict=True)
    ]
    return {
        **{f"{name}_{key}": jackknife(values[0], values[1:]) for key, values in scores.items()},
        f"{name}_predicted": np.where(known, prediction, np.nan),
        name: np.where(known, target, np.nan),
        f"{name}_se": np.where(known, error, np.nan),
        f"{name}_cells": np.array(int(known.sum())),
        f"{name}_r2": r2,
        f"{name}_noise": noise,
        f"{name}_settled": noise <= LARGEST_NOISE,
        f"{name}_within": (
            share if known.any() and np.isfinite(critical) else np.full(len(prediction), np.nan)
        ),
        f"{name}_better": _nearer_than_other_heads(scores["mae"][0]),
        f"{name}_r2_median": np.array(medians),
    }


def _nearer_than_other_heads(mae: FloatArray) -> FloatArray:
    """Return by source the share of heads whose error, (source, layer, head), is the smaller."""
    # the last source but one is the mean of the other heads
    counted = np.isfinite(mae) & np.isfinite(mae[-2])
    share = ratio((counted & (mae < mae[-2])).sum(axis=(1, 2)), counted.sum(axis=(1, 2)))
    share[-2] = np.nan
    return share


def mean_of_other_heads(measured: FloatArray, known: BoolArray) -> FloatArray:
    """Return, for each head and N, the mean of the measured curves of all other heads at that N.

    `measured` and the result have shape (replicate, layer, head, n); `known`, (layer, head, n),
    marks cells that count. NaN where there is no other head.
    """
    masked = np.where(known, measured, 0.0)
    return ratio(
        masked.sum(axis=(1, 2), keepdims=True) - masked,
        known.sum(axis=(0, 1)) - known.astype(np.int64),
    )


def score(predicted: FloatArray, measured: FloatArray, known: BoolArray) -> dict[str, FloatArray]:
    """Score predicted means, (replicate, source, layer, head, n), against measured ones.

    `measured` has shape (replicate, layer, head, n). `known`, (layer, head, n), marks cells that
    count; they are the same for every source, which makes sources comparable. Errors are predicted
    − measured.

    Returns:
        By head, (replicate, source, layer, head): bias, mae, r2. Over all cells, (replicate,
        source): pooled_bias, pooled_mae, pooled_r2, slope and intercept of measured on predicted
        (least squares). NaN where no cell counts or nothing varies.
    """
    target = np.broadcast_to(np.where(known, measured, 0.0)[:, None], predicted.shape)
    prediction = np.where(known, predicted, 0.0)
    error = prediction - target
    by_head, cell_axes = known.sum(axis=-1), (-3, -2, -1)
    cells = known.sum()
    slope = ratio(
        _spread(prediction, target, known, cell_axes),
        _spread(prediction, prediction, known, cell_axes),
    )
    return {
        "bias": ratio(error.sum(axis=-1), by_head),
        "mae": ratio(np.abs(error).sum(axis=-1), by_head),
        "r2": 1 - ratio((error**2).sum(axis=-1), _spread(target, target, known, (-1,))),
        "pooled_bias": ratio(error.sum(axis=cell_axes), cells),
        "pooled_mae": ratio(np.abs(error).sum(axis=cell_axes), cells),
        "pooled_r2": 1
        - ratio((error**2).sum(axis=cell_axes), _spread(target, target, known, cell_axes)),
        "slope": slope,
        "intercept": (
            ratio(target.sum(axis=cell_axes), cells)
            - slope * ratio(prediction.sum(axis=cell_axes), cells)
        ),
    }


def noise_share(measured: FloatArray, error: FloatArray, known: BoolArray) -> FloatArray:
    """Return Σ se² / Σ (measured − mean)² over N, (layer, head).

    It is the share of a curve's variance that is noise of few documents. `measured` (document
    means), `error` (their standard errors) and `known` have shape (layer, head, n).
    """
    noise = np.where(known, error**2, 0.0).sum(axis=-1)
    masked = np.where(known, measured, 0.0)
    return ratio(noise, _spread(masked, masked, known, (-1,)))


def _spread(x: FloatArray, y: FloatArray, known: BoolArray, axes: tuple[int, ...]) -> FloatArray:
    """Return Σ (x − x̄)(y − ȳ) over known cells; x and y are 0 elsewhere. Rounding counts as 0."""
    count = np.maximum(known.sum(axis=axes, keepdims=True), 1)
    centred_x, centred_y = (
        np.where(known, values - values.sum(axis=axes, keepdims=True) / count, 0.0)
        for values in (x, y)
    )
    result = (centred_x * centred_y).sum(axis=axes)
    return np.where(np.abs(result) > 1e-20, result, 0.0)
