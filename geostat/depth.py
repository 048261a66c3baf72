"""How pooled parameters change with depth: a line over the layers of a model, from its first to its last.

The value of a layer is that of its heads pooled. A line through the values, or their logarithms, is fitted by least squares against depth, 0 at the first layer
and 1 at the last, so that its slope is the change over the model. The layers are all there are, documents are a sample: the slope's error is the
document jackknife. statsmodels' own reports of it are in `depth_models`. Imports numpy and xarray.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat import decay_solver, norms
from geostat.fitting import LayerTokens, described, described_parameter, layer_tokens, mean_over_documents
from geostat.jackknife import BoolArray, FloatArray, Interval, interval, leave_one_out_mean
from geostat.pooled_data import pooled_cosines, pooled_log_weights
from geostat.profile_search import search_monotone
from geostat.similarity_fit import Cosines

TRENDS: Final = {
    "C": ("norm of a content token", "value norm", "C", "Assumption 1.1", True),
    "lam": ("the sink's norm over C", "1", r"\lambda", "Assumption 1.2", False),
    "cv_token": ("coefficient of variation of the norms behind the sink, in a document", "1", r"\mathrm{CV}", "§3.1", False),
    "rho0": ("cosine of the sink with every other token", "1", r"\rho_0", "Assumption 2.2", False),
    "beta": ("decay of similarity, as printed", "1/token", r"\beta", "Assumption 2.1", True),
    "beta_offset": ("decay of similarity, form with an offset", "1/token", r"\beta_c", "Assumption 2.1", True),
    "offset": ("similarity at long lags, form with an offset", "1", "c", "Assumption 2.1", False),
    "p_sink": ("weight of the sink", "1", r"p_{\mathrm{sink}}", "Assumption 3", False),
    "eta": ("growth rate of the weights, plateau and growth", "1/token", r"\eta", "Assumption 3", True),
}
"""Pooled parameters: long name, unit, symbol, source, and whether the line is through logarithms."""
FEWEST_LAYERS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """A parameter of every row (a layer, or last the whole model): the estimate, and, by document, replicates without it and its own value.

    Estimates (row,), others (document, row); NaN where there is none, or where the estimate is at its bound.
    """

    estimate: FloatArray
    replicates: FloatArray
    each: FloatArray

    def scaled(self, logarithm: bool) -> Values:
        """The same, or its logarithms; NaN where there is no logarithm."""
        return Values(estimate=_log(self.estimate), replicates=_log(self.replicates), each=_log(self.each)) if logarithm else self


def _log(x: FloatArray) -> FloatArray:
    return np.log(x, out=np.full(x.shape, np.nan), where=x > 0)


def pooled_values(capture: xr.Dataset, name: str, cosines: list[Cosines] | None = None) -> Values:
    """Return one of TRENDS for each layer and, last, for the whole model.

    Args:
        capture: a /capture dataset.
        name: one of TRENDS.
        cosines: what `pooled_cosines` finds for each layer and for all; made when left out and needed.
    """
    layers = list(range(capture.sizes["layer"]))
    if name in ("beta", "beta_offset", "offset"):
        pooled = cosines or [pooled_cosines(capture, rows) for rows in (*([layer] for layer in layers), layers)]
        return _joined([_decay(one, "exponential" if name == "beta" else "offset", name.removesuffix("_offset")) for one in pooled])
    if name == "eta":
        return _joined([_growth(*pooled_log_weights(capture, rows)) for rows in (*([layer] for layer in layers), layers)])
    found = [_means(capture, layer, name) for layer in layers]
    return _joined([*found, _average(found)])


def _joined(rows: list[Values]) -> Values:
    parts = {part: np.stack([getattr(row, part) for row in rows], axis=-1) for part in ("estimate", "replicates", "each")}
    return Values(**parts)


def _average(rows: list[Values]) -> Values:
    """The mean over layers that have an estimate."""
    return Values(
        **{part: mean_over_documents(np.stack([getattr(row, part) for row in rows])) for part in ("estimate", "replicates", "each")}
    )


def _decay(data: Cosines, form: str, name: str) -> Values:
    stacked = np.concatenate([data.mean, leave_one_out_mean(data.cosine)[:, 0], data.cosine[:, 0]])
    found = decay_solver.solve(form, data.lag, stacked, data.pairs)
    sound = found.converged & ~found.at_bound(name)
    return _split(np.where(sound, found.values()[name], np.nan), data.cosine.shape[0])


def _growth(seen: LayerTokens, log_weight: FloatArray) -> Values:
    stacked = np.concatenate([mean_over_documents(log_weight)[None], leave_one_out_mean(log_weight), log_weight])
    return _split(search_monotone(stacked, seen.first_content)["eta_tail"], log_weight.shape[0])


def _split(rows: FloatArray, documents: int) -> Values:
    return Values(estimate=rows[0], replicates=rows[1 : 1 + documents], each=rows[1 + documents :])


def _means(capture: xr.Dataset, layer: int, name: str) -> Values:
    """A parameter that each head has by itself, averaged over the heads of a layer."""
    seen = layer_tokens(capture, layer)
    variable = {"rho0": "sink_cosine", "p_sink": "attention_weight"}.get(name, "value_norm")
    data = capture[variable][:, layer, :, seen.start :].values.astype(np.float64)
    data[~np.isfinite(data)] = np.nan
    if name == "lam":
        rows = [
            norms.estimate(part, seen.first_content)[name] for part in (mean_over_documents(data)[None], leave_one_out_mean(data), data)
        ]
    else:
        if name == "p_sink":
            own = data[..., 0] if seen.sink else np.full(data.shape[:2], np.nan)
        elif name == "rho0":
            own = mean_over_documents(np.moveaxis(data[..., seen.first_content :], -1, 0)) + (0.0 if seen.sink else np.nan)
        else:
            own = norms.estimate(data, seen.first_content)["C" if name == "C" else "cv_profile"]  # of a document: the CV of its own tokens
        rows = [mean_over_documents(own)[None], leave_one_out_mean(own), own]
    return _split(np.concatenate([mean_over_documents(np.moveaxis(row, -1, 0)) for row in rows]), data.shape[0])


def place_of(layers: int) -> FloatArray:
    """Return the depth of each layer: 0 at the first, 1 at the last."""
    return np.linspace(0.0, 1.0, layers)


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
    from geostat.depth_models import line  # which imports this module

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
