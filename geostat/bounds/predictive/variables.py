"""Names and attributes of /predictive: curves, scores by head and over all cells. Imports numpy, xarray and this room's scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.bounds.predictive.scores import SETTLED, Scores, noise_share, score
from geostat.datasets.words import described, described_parameter
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import jackknife

CURVE: Final = ("layer", "head", "n_predicted")
_EQUATIONS: Final = {"precision": "Definition 1", "recall": "Definition 2"}


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
        parts: by statistic: predicted (replicate, source, layer, head, n), measured (replicate, layer, head, n), error and known (layer, head, n).
        flagged: share of the profiles whose prediction flags itself, (source, layer, head, n).
        critical: quantile of Student's t for 95% document intervals; NaN with one document.

    Returns:
        For x in precision, recall: x_predicted (source, layer, head, n_predicted), x, x_se (layer, head, n_predicted); by head x_bias, x_mae
        with their jackknife, x_r2, and over (layer, head) x_noise, x_settled; over (source) x_pooled_bias, x_pooled_mae, x_pooled_r2, x_slope,
        x_intercept with their jackknife, x_within, x_better, x_r2_median; x_cells. flagged and its mean over cells, flagged_share (source).
    """
    out: dict[str, xr.Variable] = {}
    for name, part in parts.items():
        scores = score(part["predicted"], part["measured"], part["known"])
        noise = noise_share(part["measured"][0], part["error"], part["known"])
        out |= _curves(name, part)
        out |= _by_head(name, scores, noise)
        out |= _pooled(name, scores, noise, part, critical)
    words = "share of the profiles whose prediction flags itself as unreliable"
    out["flagged"] = described(("source", *CURVE), flagged, long_name=words, units="1", symbol="", equation="")
    shares = [float(row[np.isfinite(row)].mean()) if np.isfinite(row).any() else np.nan for row in flagged]
    out["flagged_share"] = described(("source",), np.array(shares), long_name=f"{words}, over all cells", units="1", symbol="", equation="")
    coords = {name: capture[name].variable for name in ("layer", "head")}
    coords["source"] = xr.Variable(("source",), np.array(list(sources), dtype=object), {"long_name": "what curves are predicted from"})
    coords["n_predicted"] = xr.Variable(("n_predicted",), grid, {"long_name": "selected tokens N", "units": "tokens"})
    return xr.Dataset(
        out,
        coords=coords,
        attrs={
            "long_name": "predicted curves against measured ones",
            "documents": capture.sizes["document"],
            "errors": "95% document jackknife, t(K-1); fitted ingredients held",
        },
    )


def _curves(name: str, part: Mapping[str, Any]) -> dict[str, xr.Variable]:
    short = name[0].upper()
    common = {"units": "1", "equation": _EQUATIONS[name]}
    known = part["known"]
    mean, error = (np.where(known, part[key] if key == "error" else part[key][0], np.nan) for key in ("measured", "error"))
    guess = np.where(known, part["predicted"][0], np.nan)
    return {
        f"{name}_predicted": described(
            ("source", *CURVE), guess, long_name=f"predicted {name} under Model G", symbol=rf"\mathbb{{E}}{short}", **common
        ),
        name: described(CURVE, mean, long_name=f"measured {name}, mean over documents", symbol=short, **common),
        f"{name}_se": described(CURVE, error, long_name=f"standard error over documents of {name}", symbol="", **common),
        f"{name}_cells": described(
            (),
            np.array(int(known.sum())),
            long_name=f"{name}: (head, N) cells, 1 < N < T, predicted from every source",
            symbol="",
            **common,
        ),
    }


def _jackknifed(name: str, dims: tuple[str, ...], values: FloatArray, words: str, symbol: str) -> dict[str, xr.Variable]:
    """A score with its document jackknife; the first replicate is the estimate."""
    spread = jackknife(values[0], values[1:])
    return described_parameter(name, dims, values[0], spread, long_name=words, units="1", symbol=symbol, equation="")


def _by_head(name: str, scores: Scores, noise: FloatArray) -> dict[str, xr.Variable]:
    dims = ("source", "layer", "head")
    out = _jackknifed(f"{name}_bias", dims, scores.bias, f"mean over N of predicted less measured {name}", r"\bar e")
    out |= _jackknifed(f"{name}_mae", dims, scores.mae, f"mean over N of the distance of predicted from measured {name}", r"\overline{|e|}")
    words = f"share of the variance of measured {name} over N that the prediction explains"
    out[f"{name}_r2"] = described(dims, scores.r2[0], long_name=words, units="1", symbol="R^2", equation="")
    words = f"noise of the documents in the variance of measured {name} over N"
    out[f"{name}_noise"] = described(("layer", "head"), noise, long_name=words, units="1", symbol="", equation="")
    words = f"at most a share {SETTLED:g} of the variance of measured {name} over N is noise, so that R² counts"
    out[f"{name}_settled"] = described(("layer", "head"), noise <= SETTLED, long_name=words, units="1", symbol="", equation="")
    return out


def _pooled(name: str, scores: Scores, noise: FloatArray, part: Mapping[str, Any], critical: float) -> dict[str, xr.Variable]:
    out: dict[str, xr.Variable] = {}
    for key, words, symbol in (
        ("pooled_bias", "mean over cells of predicted less measured", r"\bar e"),
        ("pooled_mae", "mean over cells of the distance of predicted from measured", r"\overline{|e|}"),
        ("pooled_r2", "share of the variance over cells that is explained of", "R^2"),
        ("slope", "slope of the line of measured on predicted", "b"),
        ("intercept", "intercept of the line of measured on predicted", "a"),
    ):
        out |= _jackknifed(f"{name}_{key}", ("source",), getattr(scores, key), f"{words} {name}", symbol)
    known, guess, mean = part["known"], part["predicted"][0], part["measured"][0]
    inside = known & (np.abs(guess - mean) <= critical * part["error"] + 1e-9)  # rounding, where all documents agree
    cells = max(int(known.sum()), 1)
    within = inside.sum(axis=(1, 2, 3)) / cells if known.any() and np.isfinite(critical) else np.full(len(guess), np.nan)
    counted = np.isfinite(scores.mae[0]) & np.isfinite(scores.mae[0][-2])
    nearer = counted & (scores.mae[0] < scores.mae[0][-2])
    better = np.divide(nearer.sum(axis=(1, 2)), counted.sum(axis=(1, 2)), out=np.full(len(guess), np.nan), where=counted.any(axis=(1, 2)))
    better[-2] = np.nan
    settled = np.isfinite(scores.r2[0]) & (noise <= SETTLED)
    middle = np.array([float(np.median(row[ok])) if ok.any() else np.nan for row, ok in zip(scores.r2[0], settled, strict=True)])
    for key, values, words in (
        ("within", within, "share of cells whose prediction lies in the 95% document interval of measured"),
        ("better", better, "share of heads whose prediction is nearer than the mean of the other heads to measured"),
        ("r2_median", middle, "median R² of the heads in which it counts, of"),
    ):
        out[f"{name}_{key}"] = described(("source",), values, long_name=f"{words} {name}", units="1", symbol="", equation="")
    return out
