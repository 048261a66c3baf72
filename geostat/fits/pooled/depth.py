"""Change of pooled parameters with depth: a line over the layers of a model, from its first to its
last.

The value of a layer is that of its heads pooled. A line through the values, or their logarithms, is
fitted by least squares against depth, 0 at the first layer and 1 at the last, so that its slope is
the change over the model. The layers are all there are, documents are a sample: the slope's error
is the document jackknife. `depth_trend` hands back statsmodels' own reports of it: a line over
layers, or a mixed model of documents and layers. Imports numpy, xarray and, lazily, pandas and
statsmodels.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import xarray as xr

from geostat.datasets.variable import Value, Variable, join, mapped, variables
from geostat.errors import InputError, refuse_unknown
from geostat.fits.norms.trend import bandwidth, newey_west
from geostat.fits.norms.variance import restricted_likelihood
from geostat.fits.pooled.values import FEWEST_LAYERS, LOGARITHMIC, TRENDS, depth_of, pooled_values
from geostat.fits.similarity.one_form import Cosines
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import jackknife

if TYPE_CHECKING:
    from statsmodels.regression.linear_model import RegressionResultsWrapper
    from statsmodels.regression.mixed_linear_model import MixedLMResultsWrapper

MODELS: Final = ("line", "mixed")
EFFECTS: Final = ("document", "document x depth", "layer")
"""Random effects of the mixed model."""


def _slope_known(values: FloatArray, known: BoolArray) -> FloatArray:
    """The slope over the known layers, at their own depths."""
    depth = depth_of(known.size)[known]
    arm = depth - depth.mean()
    return np.asarray((values[..., known] * arm).sum(axis=-1) / (arm**2).sum())


_own = partial(Variable, equation="Assumptions 1-3", dims=("parameter",), estimated=True)
_OWN: Final = "the parameter's own"
_plain = partial(Variable, dims=("parameter",))
RECORDS: Final = (
    _own(
        "by_layer",
        "pooled value, the parameter's attributes in `about`; a layer",
        _OWN,
        r"\theta_\ell",
        dims=("parameter", "layer"),
    ),
    _own(
        "whole",
        "pooled value, the parameter's attributes in `about`; the whole model",
        _OWN,
        r"\theta",
    ),
    _own(
        "change",
        "change from the first layer to the last, along a line",
        "the parameter's own; nat where logarithm",
        r"\Delta_\ell\theta",
    ),
    _plain(
        "change_se_hac",
        "Newey-West standard error of the change: layers scatter about the line, documents held",
    ),
    _plain("layers_used", "layers that the line goes through"),
    _plain("about", "meaning"),
    _plain("unit", "unit"),
    _plain("latex", "symbol"),
    _plain("source", "source"),
    _plain("logarithm", "the line is through logarithms: its change is a log ratio, nats"),
)


def depth_variables(capture: xr.Dataset, cosines: list[Cosines]) -> dict[str, xr.Variable]:
    """Return what RECORDS names, by TRENDS along `parameter`.

    Errors of lines by statsmodels are those of `line`. Pooled values have document-jackknife
    intervals; `change` is in the unit of the parameter, or in nats where `logarithm`, NaN with
    fewer than FEWEST_LAYERS layers. Layers count that have an estimate inside its bounds with every
    document and without any one of them.
    """
    values, changes, errors, used = [], [], [], []
    for name in TRENDS:
        logarithm = name in LOGARITHMIC
        own = pooled_values(capture, name, cosines)
        carries: BoolArray = np.isfinite(own.each) | np.isfinite(own.replicates)
        scaled = own.scaled(logarithm)
        value = replace(jackknife(scaled.estimate, scaled.replicates, carries), without=None)
        values.append(value.exp(own.estimate) if logarithm else value)
        y = scaled.estimate[:-1]
        alone = carries[:, :-1].sum(axis=0) < 2
        known = np.isfinite(y) & (
            alone | (np.isfinite(scaled.replicates[:, :-1]) | ~carries[:, :-1]).all(axis=0)
        )
        used.append(int(known.sum()))
        if known.sum() < FEWEST_LAYERS:
            changes.append(jackknife(np.asarray(np.nan), np.full(len(carries), np.nan)))
            errors.append(np.nan)
            continue
        replicates = _slope_known(scaled.replicates[:, :-1], known)
        changes.append(
            jackknife(_slope_known(y, known), replicates, np.asarray(carries[:, :-1].any(axis=1)))
        )
        errors.append(float(line(np.where(known, y, np.nan)).bse["depth"]))
    both = join(values, np.stack)
    about = {
        "about": [record.long_name for record in TRENDS.values()],
        "unit": [record.units for record in TRENDS.values()],
        "latex": [record.symbol for record in TRENDS.values()],
        "source": [record.equation for record in TRENDS.values()],
    }
    out: dict[str, Value] = {
        "by_layer": mapped(both, lambda array: array[:, :-1]),
        "whole": mapped(both, lambda array: array[:, -1]),
        "change": join(changes, np.stack),
        "change_se_hac": np.array(errors),
        "layers_used": np.array(used),
        **{name: np.array(column, dtype=object) for name, column in about.items()},
        "logarithm": np.array([name in LOGARITHMIC for name in TRENDS]),
    }
    return variables(RECORDS, out)


def depth_trend(
    capture: xr.Dataset, name: str, model: str = "line"
) -> RegressionResultsWrapper | MixedLMResultsWrapper:
    """Return statsmodels' own results for the change of a pooled parameter over depth, 0 at the
    first layer and 1 at the last.

    The coefficient `depth` is the change over the model, of the parameter's logarithm where it
    is LOGARITHMIC. Its error here is statsmodels'; /pooled has the document jackknife's.
    `result.summary()` prints it; `result.notes`, of the mixed model, holds what statsmodels would
    have warned of.

    Args:
        capture: a /capture dataset.
        name: one of TRENDS, such as "beta" or "p_sink".
        model: "line", least squares over the layers' pooled values with Newey-West errors, to which
            the scatter of layers is noise; "mixed", the values of every document and layer with
            random effects EFFECTS, by restricted likelihood.

    Raises:
        InputError: for an unknown name or model, or fewer than FEWEST_LAYERS layers (and for
            "mixed" two documents) that have a value.
    """
    refuse_unknown(name, TRENDS, f"{name!r} is no pooled parameter")
    refuse_unknown(model, MODELS, f"model={model!r} is unknown")
    values = pooled_values(capture, name).scaled(name in LOGARITHMIC)
    word = f"log {name}" if name in LOGARITHMIC else name
    layers, each = values.estimate[:-1], values.each[:, :-1]
    known = np.isfinite(layers)
    if known.sum() < FEWEST_LAYERS:
        raise InputError(
            f"{name} has an estimate inside its bounds in {int(known.sum())} layers, expected"
            f" {FEWEST_LAYERS}. Choose another."
        )
    if model == "line":
        return line(layers, word)
    if (np.isfinite(each).sum(axis=1) >= FEWEST_LAYERS).sum() < 2:
        raise InputError(
            f"{name} has values in fewer than two documents, expected two. Capture more documents,"
            " or choose model='line'."
        )
    return mixed(each, word)


def line(values: FloatArray, name: str = "value") -> RegressionResultsWrapper:
    """Regress values by layer on depth with statsmodels' OLS and Newey-West errors; layers
    without a value are left out.
    """
    import pandas as pd

    known = np.isfinite(values)
    depth = depth_of(values.size)[known]
    table = pd.DataFrame({"first layer": np.ones(depth.size), "depth": depth})
    return newey_west(
        pd.Series(values[known], name=name),
        table,
        min(bandwidth(depth.size), math.ceil(depth.size / 2)),
        correction=True,
    )


def mixed(each: FloatArray, name: str = "value") -> MixedLMResultsWrapper:
    """Fit value = level + change·depth + document + document·depth + layer + residual, the
    last four random; (document, layer) or NaN.
    """
    import pandas as pd

    document, layer = np.nonzero(np.isfinite(each))
    values = each[document, layer]
    depth = depth_of(each.shape[1])[layer]
    own = np.eye(each.shape[0])[document]
    effects = (own, own * (depth - depth.mean())[:, None], np.eye(each.shape[1])[layer])
    table = pd.DataFrame({"first layer": np.ones(values.size), "depth": depth})
    known = {
        word: effect[:, effect.any(axis=0)] for word, effect in zip(EFFECTS, effects, strict=True)
    }
    return restricted_likelihood(pd.Series(values, name=name), table, known)
