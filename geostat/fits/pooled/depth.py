"""How pooled parameters change with depth: a line over the layers of a model, from its first to its last.

The value of a layer is that of its heads pooled. A line through the values, or their logarithms, is fitted by least squares against depth, 0 at the first layer
and 1 at the last, so that its slope is the change over the model. The layers are all there are, documents are a sample: the slope's error is the
document jackknife. statsmodels' own reports of it are in `depth_models`. Imports numpy and xarray.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from geostat.datasets.words import described, described_parameter
from geostat.fits.pooled.values import FEWEST_LAYERS, TRENDS, place_of, pooled_values
from geostat.fits.similarity.one_form import Cosines
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import Interval, interval


def _slope_known(values: FloatArray, known: BoolArray) -> FloatArray:
    """The slope over the known layers, at their own depths."""
    place = place_of(known.size)[known]
    arm = place - place.mean()
    return np.asarray((values[..., known] * arm).sum(axis=-1) / (arm**2).sum())


def depth_variables(capture: xr.Dataset, cosines: list[Cosines]) -> dict[str, xr.Variable]:
    """Return, by TRENDS along `parameter`: by_layer* (parameter, layer), whole* (parameter), change*, change_se_hac, layers_used.

    Errors of lines by statsmodels are those of `depth_models.line`. `by_layer` and `whole` are pooled values with document-jackknife intervals; `change` is
    that from the first layer to the last along the line, in the unit of the parameter, or in nats where `logarithm`, NaN with fewer than FEWEST_LAYERS
    layers. Layers count that have an estimate inside its bounds with every document and without any one of them.
    """
    from geostat.fits.pooled.depth_models import line  # which imports this module

    found: dict[str, list[Any]] = {key: [] for key in ("value", "spread", "change", "error", "hac", "layers")}
    for name, (*_, logarithm) in TRENDS.items():
        own = pooled_values(capture, name, cosines)
        carries: BoolArray = np.isfinite(own.each) | np.isfinite(own.replicates)
        scaled = own.scaled(logarithm)
        spread = interval(scaled.estimate, scaled.replicates, carries)
        found["value"].append(own.estimate)
        found["spread"].append(spread.exp(own.estimate) if logarithm else spread)
        y = scaled.estimate[:-1]
        alone = carries[:, :-1].sum(axis=0) < 2
        known = np.isfinite(y) & (alone | (np.isfinite(scaled.replicates[:, :-1]) | ~carries[:, :-1]).all(axis=0))
        found["layers"].append(int(known.sum()))
        if known.sum() < FEWEST_LAYERS:
            nothing = np.asarray(np.nan)
            found["change"].append(nothing)
            found["error"].append(Interval(se=nothing, lower=nothing, upper=nothing))
            found["hac"].append(np.nan)
            continue
        change = _slope_known(y, known)
        found["change"].append(change)
        found["error"].append(interval(change, _slope_known(scaled.replicates[:, :-1], known), np.asarray(carries[:, :-1].any(axis=1))))
        found["hac"].append(float(line(np.where(known, y, np.nan)).bse["depth"]))
    return _depth_named(found)


def _depth_named(found: dict[str, list[Any]]) -> dict[str, xr.Variable]:
    def stacked(parts: list[Interval], rows: Any = ...) -> Interval:
        return Interval(**{part: np.stack([np.asarray(getattr(one, part))[rows] for one in parts]) for part in ("se", "lower", "upper")})

    value = np.stack(found["value"])
    common: dict[str, Any] = {"units": "the parameter's own", "equation": "Assumptions 1-3"}
    words = "pooled value, the parameter's attributes in `about`"
    out = described_parameter(
        "by_layer", ("parameter", "layer"), value[:, :-1], stacked(found["spread"], slice(None, -1)), long_name=f"{words}; a layer", symbol=r"\theta_\ell",
        **common,
    )  # fmt: skip
    out |= described_parameter(
        "whole",
        ("parameter",),
        value[:, -1],
        stacked(found["spread"], -1),
        long_name=f"{words}; the whole model",
        symbol=r"\theta",
        **common,
    )
    out |= described_parameter(
        "change", ("parameter",), np.stack(found["change"]), stacked(found["error"]), long_name="change from the first layer to the last, along a line",
        symbol=r"\Delta_\ell\theta", units="the parameter's own; nat where logarithm", equation="Assumptions 1-3",
    )  # fmt: skip
    plain = {"units": "1", "symbol": "", "equation": ""}
    hac = "Newey-West standard error of the change: layers scatter about the line, documents held"
    out["change_se_hac"] = described(("parameter",), np.array(found["hac"]), long_name=hac, **plain)
    out["layers_used"] = described(("parameter",), np.array(found["layers"]), long_name="layers that the line goes through", **plain)
    for place, (key, long_name) in enumerate((("about", "meaning"), ("unit", "unit"), ("latex", "symbol"), ("source", "source"))):
        out[key] = described(("parameter",), np.array([row[place] for row in TRENDS.values()], dtype=object), long_name=long_name, **plain)
    flags = np.array([row[-1] for row in TRENDS.values()])
    out["logarithm"] = described(
        ("parameter",), flags, long_name="the line is through logarithms: its change is a log ratio, nats", **plain
    )
    return out
