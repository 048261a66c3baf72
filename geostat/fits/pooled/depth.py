"""Change of pooled parameters with depth: a line over the layers of a model, from its first to its last.

The value of a layer is that of its heads pooled. A line through the values, or their logarithms, is fitted by least squares against depth, 0 at the first layer
and 1 at the last, so that its slope is the change over the model. The layers are all there are, documents are a sample: the slope's error is the
document jackknife. statsmodels' own reports of it are in `depth_models`. Imports numpy and xarray.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.variable import Value, Variable, variables
from geostat.fits.pooled.depth_models import line
from geostat.fits.pooled.values import FEWEST_LAYERS, TRENDS, depth_of, pooled_values
from geostat.fits.similarity.one_form import Cosines
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import jackknife, joined


def _slope_known(values: FloatArray, known: BoolArray) -> FloatArray:
    """The slope over the known layers, at their own depths."""
    depth = depth_of(known.size)[known]
    arm = depth - depth.mean()
    return np.asarray((values[..., known] * arm).sum(axis=-1) / (arm**2).sum())


_own = partial(Variable, units="the parameter's own", equation="Assumptions 1-3", dims=("parameter",), estimated=True)
_plain = partial(Variable, dims=("parameter",))
RECORDS: Final = (
    _own("by_layer", "pooled value, the parameter's attributes in `about`; a layer", symbol=r"\theta_\ell", dims=("parameter", "layer")),
    _own("whole", "pooled value, the parameter's attributes in `about`; the whole model", symbol=r"\theta"),
    _own(
        "change",
        "change from the first layer to the last, along a line",
        symbol=r"\Delta_\ell\theta",
        units="the parameter's own; nat where logarithm",
    ),
    _plain("change_se_hac", "Newey-West standard error of the change: layers scatter about the line, documents held"),
    _plain("layers_used", "layers that the line goes through"),
    _plain("about", "meaning"),
    _plain("unit", "unit"),
    _plain("latex", "symbol"),
    _plain("source", "source"),
    _plain("logarithm", "the line is through logarithms: its change is a log ratio, nats"),
)


def depth_variables(capture: xr.Dataset, cosines: list[Cosines]) -> dict[str, xr.Variable]:
    """Return, by TRENDS along `parameter`: by_layer* (parameter, layer), whole* (parameter), change*, change_se_hac, layers_used.

    Errors of lines by statsmodels are those of `depth_models.line`. `by_layer` and `whole` are pooled values with document-jackknife intervals; `change` is
    that from the first layer to the last along the line, in the unit of the parameter, or in nats where `logarithm`, NaN with fewer than FEWEST_LAYERS
    layers. Layers count that have an estimate inside its bounds with every document and without any one of them.
    """
    values, changes, errors, used = [], [], [], []
    for name, (*_, logarithm) in TRENDS.items():
        own = pooled_values(capture, name, cosines)
        carries: BoolArray = np.isfinite(own.each) | np.isfinite(own.replicates)
        scaled = own.scaled(logarithm)
        value = jackknife(scaled.estimate, scaled.replicates, carries)
        values.append(value.exp(own.estimate) if logarithm else value)
        y = scaled.estimate[:-1]
        alone = carries[:, :-1].sum(axis=0) < 2
        known = np.isfinite(y) & (alone | (np.isfinite(scaled.replicates[:, :-1]) | ~carries[:, :-1]).all(axis=0))
        used.append(int(known.sum()))
        if known.sum() < FEWEST_LAYERS:
            changes.append(jackknife(np.asarray(np.nan), np.full(len(carries), np.nan)))
            errors.append(np.nan)
            continue
        replicates = _slope_known(scaled.replicates[:, :-1], known)
        changes.append(jackknife(_slope_known(y, known), replicates, np.asarray(carries[:, :-1].any(axis=1))))
        errors.append(float(line(np.where(known, y, np.nan)).bse["depth"]))
    both = joined(values, np.stack)
    out: dict[str, Value] = {"by_layer": replace(both, without=None).map(lambda array: array[:, :-1])}
    out |= {"whole": replace(both, without=None).map(lambda array: array[:, -1]), "change": joined(changes, np.stack)}
    out |= {"change_se_hac": np.array(errors), "layers_used": np.array(used)}
    for key, column in zip(("about", "unit", "latex", "source", "logarithm"), zip(*TRENDS.values(), strict=True), strict=True):
        out[key] = np.array(column, dtype=bool if key == "logarithm" else object)
    return variables(RECORDS, out)
