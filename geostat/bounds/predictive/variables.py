"""Variables of /predictive: curves, scores by head and over all cells. Imports numpy, xarray and
this room's scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import xarray as xr

from geostat.bounds.predictive.scores import SETTLED, noise_share, score
from geostat.datasets.separability import LETTERS, STATISTICS
from geostat.datasets.variable import Value, Variable, variables, words_along
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import jackknife

CURVE: Final = ("layer", "head", "n_predicted")
_EQUATIONS: Final = {"precision": "Definition 1", "recall": "Definition 2"}
_CELLS: Final = ("source", *CURVE)
_HEADS: Final = ("source", "layer", "head")
_UNRELIABLE: Final = "share of the profiles whose prediction flags itself as unreliable"
_DISTANCE: Final = r"\overline{|e|}"
_SCORES: Final = (
    (_HEADS, "bias", "mean over N of predicted less measured {}", r"\bar e"),
    (_HEADS, "mae", "mean over N of the distance of predicted from measured {}", _DISTANCE),
    (
        _HEADS,
        "r2",
        "share of the variance of measured {} over N that the prediction explains",
        "R^2",
    ),
    (_HEADS[1:], "noise", "noise of the documents in the variance of measured {} over N", ""),
    (
        _HEADS[1:],
        "settled",
        f"at most a share {SETTLED:g} of the variance of measured {{}} over N is noise, so that R²"
        " counts",
        "",
    ),
    (("source",), "pooled_bias", "mean over cells of predicted less measured {}", r"\bar e"),
    (
        ("source",),
        "pooled_mae",
        "mean over cells of the distance of predicted from measured {}",
        _DISTANCE,
    ),
    (("source",), "pooled_r2", "share of the variance over cells that is explained of {}", "R^2"),
    (("source",), "slope", "slope of the line of measured on predicted {}", "b"),
    (("source",), "intercept", "intercept of the line of measured on predicted {}", "a"),
    (
        ("source",),
        "within",
        "share of cells whose prediction lies in the 95% document interval of measured {}",
        "",
    ),
    (
        ("source",),
        "better",
        "share of heads whose prediction is nearer than the mean of the other heads to measured {}",
        "",
    ),
    (("source",), "r2_median", "median R² of the heads in which it counts, of {}", ""),
)
"""Dims, name, meaning and symbol of the scores, by head and over all cells."""
_ESTIMATED: Final = ("bias", "mae", "pooled_bias", "pooled_mae", "pooled_r2", "slope", "intercept")


def _records(name: str) -> tuple[Variable, ...]:
    """Records of one statistic: its curves, how many cells are compared, and its scores."""
    letter, of = LETTERS[name], partial(Variable, equation=_EQUATIONS[name])
    expected = rf"\mathbb{{E}}{letter}"
    return (
        of(f"{name}_predicted", f"predicted {name} under Model G", symbol=expected, dims=_CELLS),
        of(name, f"measured {name}, mean over documents", symbol=letter, dims=CURVE),
        of(f"{name}_se", f"standard error over documents of {name}", dims=CURVE),
        of(f"{name}_cells", f"{name}: (head, N) cells, 1 < N < T, predicted from every source"),
        *(
            Variable(
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
    Variable("flagged", _UNRELIABLE, dims=_CELLS),
    Variable("flagged_share", f"{_UNRELIABLE}, over all cells", dims=("source",)),
)
"""All but what the simulation leaves, which `check` describes."""


def dataset(
    capture: xr.Dataset, grid: np.ndarray, sources: Sequence[str], numbers: Mapping[str, Value]
) -> xr.Dataset:
    """Name the numbers of predictions from `sources`, baselines last, at the sizes N of `grid`."""
    coords = {name: capture[name].variable for name in ("layer", "head")}
    coords["source"] = words_along("source", sources, "what curves are predicted from")
    coords["n_predicted"] = xr.Variable(
        ("n_predicted",), grid, {"long_name": "selected tokens N", "units": "tokens"}
    )
    attrs = {
        "long_name": "predicted curves against measured ones",
        "documents": capture.sizes["document"],
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
    """Return everything about one statistic, by the names of its variables.

    Shapes are (replicate, source, layer, head, n) of `predicted`, (replicate, layer, head, n) of
    `measured`, and (layer, head, n) of its standard `error` and of which cells are `known`.
    `critical` is the quantile of Student's t for 95% document intervals; NaN with one document.
    """
    scores, noise = score(predicted, measured, known), noise_share(measured[0], error, known)
    guess, target = predicted[0], measured[0]
    inside = known & (
        np.abs(guess - target) <= critical * error + 1e-9
    )  # rounding, where all documents agree
    share = inside.sum(axis=(1, 2, 3)) / max(int(known.sum()), 1)
    r2 = scores.pop("r2")[0]
    settled = np.isfinite(r2) & (noise <= SETTLED)
    medians = [
        np.median(row[ok]) if ok.any() else np.nan for row, ok in zip(r2, settled, strict=True)
    ]
    return {
        **{f"{name}_{key}": jackknife(values[0], values[1:]) for key, values in scores.items()},
        f"{name}_predicted": np.where(known, guess, np.nan),
        name: np.where(known, target, np.nan),
        f"{name}_se": np.where(known, error, np.nan),
        f"{name}_cells": np.array(int(known.sum())),
        f"{name}_r2": r2,
        f"{name}_noise": noise,
        f"{name}_settled": noise <= SETTLED,
        f"{name}_within": (
            share if known.any() and np.isfinite(critical) else np.full(len(guess), np.nan)
        ),
        f"{name}_better": _nearer_than_other_heads(scores["mae"][0]),
        f"{name}_r2_median": np.array(medians),
    }


def _nearer_than_other_heads(mae: FloatArray) -> FloatArray:
    """Share of heads that each source, (source, layer, head), misses by less than the last but
    one, the mean of the other heads, does.
    """
    counted = np.isfinite(mae) & np.isfinite(mae[-2])
    better = ratio((counted & (mae < mae[-2])).sum(axis=(1, 2)), counted.sum(axis=(1, 2)))
    better[-2] = np.nan
    return better
