"""Variables of /predictive: curves, scores by head and over all cells. Imports numpy, xarray and
this room's scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.bounds.predictive.scores import SETTLED, noise_share, score
from geostat.datasets.separability import LETTERS, STATISTICS
from geostat.datasets.variable import Value, Variable, variables
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import jackknife

CURVE: Final = ("layer", "head", "n_predicted")
_EQUATIONS: Final = {"precision": "Definition 1", "recall": "Definition 2"}
_UNRELIABLE: Final = "share of the profiles whose prediction flags itself as unreliable"


def _records(name: str) -> tuple[Variable, ...]:
    """Records of one statistic's variables."""
    return (*_curves(name), *_by_head(name), *_over_cells(name))


def _curves(name: str) -> tuple[Variable, ...]:
    """Records of its curves, predicted and measured, and of how many cells are compared."""
    letter, equation = LETTERS[name], _EQUATIONS[name]
    return (
        Variable(
            f"{name}_predicted",
            f"predicted {name} under Model G",
            "1",
            rf"\mathbb{{E}}{letter}",
            equation,
            dims=("source", *CURVE),
        ),
        Variable(name, f"measured {name}, mean over documents", "1", letter, equation, dims=CURVE),
        Variable(
            f"{name}_se", f"standard error over documents of {name}", equation=equation, dims=CURVE
        ),
        Variable(
            f"{name}_cells",
            f"{name}: (head, N) cells, 1 < N < T, predicted from every source",
            equation=equation,
        ),
    )


def _by_head(name: str) -> tuple[Variable, ...]:
    """Records of its scores by head."""
    by_head = partial(Variable, dims=("source", "layer", "head"))
    of_head = partial(Variable, dims=("layer", "head"))
    enough = (
        f"at most a share {SETTLED:g} of the variance of measured {name} over N is noise, so that"
        " R² counts"
    )
    return (
        by_head(
            f"{name}_bias",
            f"mean over N of predicted less measured {name}",
            symbol=r"\bar e",
            estimated=True,
        ),
        by_head(
            f"{name}_mae",
            f"mean over N of the distance of predicted from measured {name}",
            symbol=r"\overline{|e|}",
            estimated=True,
        ),
        by_head(
            f"{name}_r2",
            f"share of the variance of measured {name} over N that the prediction explains",
            symbol="R^2",
        ),
        of_head(
            f"{name}_noise", f"noise of the documents in the variance of measured {name} over N"
        ),
        of_head(f"{name}_settled", enough),
    )


def _over_cells(name: str) -> tuple[Variable, ...]:
    """Records of its scores over all cells."""
    pooled = partial(Variable, dims=("source",))
    interval = (
        f"share of cells whose prediction lies in the 95% document interval of measured {name}"
    )
    nearer = (
        "share of heads whose prediction is nearer than the mean of the other heads to measured"
        f" {name}"
    )
    return (
        pooled(
            f"{name}_pooled_bias",
            f"mean over cells of predicted less measured {name}",
            symbol=r"\bar e",
            estimated=True,
        ),
        pooled(
            f"{name}_pooled_mae",
            f"mean over cells of the distance of predicted from measured {name}",
            symbol=r"\overline{|e|}",
            estimated=True,
        ),
        pooled(
            f"{name}_pooled_r2",
            f"share of the variance over cells that is explained of {name}",
            symbol="R^2",
            estimated=True,
        ),
        pooled(
            f"{name}_slope",
            f"slope of the line of measured on predicted {name}",
            symbol="b",
            estimated=True,
        ),
        pooled(
            f"{name}_intercept",
            f"intercept of the line of measured on predicted {name}",
            symbol="a",
            estimated=True,
        ),
        pooled(f"{name}_within", interval),
        pooled(f"{name}_better", nearer),
        pooled(f"{name}_r2_median", f"median R² of the heads in which it counts, of {name}"),
    )


VARIABLES: Final = (
    *(record for name in STATISTICS for record in _records(name)),
    Variable("flagged", _UNRELIABLE, dims=("source", *CURVE)),
    Variable("flagged_share", f"{_UNRELIABLE}, over all cells", dims=("source",)),
)
"""All but what the simulation leaves, which `check` describes."""


def dataset(
    capture: xr.Dataset,
    grid: np.ndarray,
    sources: Sequence[str],
    parts: Mapping[str, Mapping[str, Any]],
    flagged: FloatArray,
    critical: float,
) -> xr.Dataset:
    """Name everything that the predictions were found to be.

    Args:
        capture: /capture.
        grid: sizes N, (n_predicted,).
        sources: what curves were predicted from; baselines last.
        parts: by statistic: predicted (replicate, source, layer, head, n), measured (replicate,
            layer, head, n), error and known (layer, head, n).
        flagged: share of the profiles whose prediction flags itself, (source, layer, head, n).
        critical: quantile of Student's t for 95% document intervals; NaN with one document.

    Returns:
        What VARIABLES names, over source, layer, head and n_predicted.
    """
    shares = [
        float(row[np.isfinite(row)].mean()) if np.isfinite(row).any() else np.nan for row in flagged
    ]
    numbers: dict[str, Any] = {"flagged": flagged, "flagged_share": np.array(shares)}
    for name, part in parts.items():
        numbers |= {
            f"{name}_{key}" if key else name: values
            for key, values in _numbers(part, critical).items()
        }
    coords = {name: capture[name].variable for name in ("layer", "head")}
    coords["source"] = xr.Variable(
        ("source",),
        np.array(list(sources), dtype=object),
        {"long_name": "what curves are predicted from"},
    )
    coords["n_predicted"] = xr.Variable(
        ("n_predicted",), grid, {"long_name": "selected tokens N", "units": "tokens"}
    )
    attrs = {
        "long_name": "predicted curves against measured ones",
        "documents": capture.sizes["document"],
        "errors": "95% document jackknife, t(K-1); fitted ingredients held",
    }
    return xr.Dataset(variables(VARIABLES, numbers), coords=coords, attrs=attrs)


def _numbers(part: Mapping[str, Any], critical: float) -> dict[str, Value]:
    """Everything about one statistic, by the ends of the variables' names; the measured curve's
    is empty.
    """
    known, guess, measured = part["known"], part["predicted"][0], part["measured"][0]
    scores, noise = (
        score(part["predicted"], part["measured"], known),
        noise_share(measured, part["error"], known),
    )
    inside = known & (
        np.abs(guess - measured) <= critical * part["error"] + 1e-9
    )  # rounding, where all documents agree
    share = inside.sum(axis=(1, 2, 3)) / max(int(known.sum()), 1)
    r2 = scores.pop("r2")[0]
    settled = np.isfinite(r2) & (noise <= SETTLED)
    return {
        **{name: jackknife(values[0], values[1:]) for name, values in scores.items()},
        "predicted": np.where(known, guess, np.nan),
        "": np.where(known, measured, np.nan),
        "se": np.where(known, part["error"], np.nan),
        "cells": np.array(int(known.sum())),
        "r2": r2,
        "noise": noise,
        "settled": noise <= SETTLED,
        "within": share if known.any() and np.isfinite(critical) else np.full(len(guess), np.nan),
        "better": _nearer_than_other_heads(scores["mae"][0]),
        "r2_median": np.array(
            [
                np.median(row[ok]) if ok.any() else np.nan
                for row, ok in zip(r2, settled, strict=True)
            ]
        ),
    }


def _nearer_than_other_heads(mae: FloatArray) -> FloatArray:
    """Share of heads that each source, (source, layer, head), misses by less than the last but
    one, the mean of the other heads, does.
    """
    counted = np.isfinite(mae) & np.isfinite(mae[-2])
    better = ratio((counted & (mae < mae[-2])).sum(axis=(1, 2)), counted.sum(axis=(1, 2)))
    better[-2] = np.nan
    return better
