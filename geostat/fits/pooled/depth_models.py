"""Regression on depth of a pooled parameter, as statsmodels hands it back: a line over layers, or a mixed model of documents and layers.

Imports numpy, xarray and, lazily, pandas, scipy.sparse and statsmodels.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Final

import numpy as np
import xarray as xr

from geostat.errors import InputError
from geostat.fits.norms.trend import bandwidth
from geostat.fits.pooled.values import FEWEST_LAYERS, TRENDS, depth_of, pooled_values
from geostat.statistics.arrays import FloatArray

if TYPE_CHECKING:
    from statsmodels.regression.linear_model import RegressionResultsWrapper
    from statsmodels.regression.mixed_linear_model import MixedLMResultsWrapper

MODELS: Final = ("line", "mixed")
EFFECTS: Final = ("document", "document x depth", "layer")
"""Random effects of the mixed model."""


def depth_trend(capture: xr.Dataset, name: str, model: str = "line") -> RegressionResultsWrapper | MixedLMResultsWrapper:
    """Return statsmodels' own results for the change of a pooled parameter over depth, 0 at the first layer and 1 at the last.

    The coefficient `depth` is the change over the model, of the parameter's logarithm where TRENDS says so. Its error here is statsmodels'; /pooled has
    the document jackknife's. `result.summary()` prints it; `result.notes`, of the mixed model, holds what statsmodels would have warned of.

    Args:
        capture: a /capture dataset.
        name: one of TRENDS, such as "beta" or "p_sink".
        model: "line", least squares over the layers' pooled values with Newey-West errors, to which the scatter of layers is noise; "mixed", the values of
            every document and layer with random effects EFFECTS, by restricted likelihood.

    Raises:
        InputError: for an unknown name or model, or fewer than FEWEST_LAYERS layers (and for "mixed" two documents) that have a value.
    """
    if name not in TRENDS:
        raise InputError(f"{name!r} is no pooled parameter, expected one of {', '.join(TRENDS)}. Choose one of those.")
    if model not in MODELS:
        raise InputError(f"model={model!r} is unknown, expected one of {', '.join(MODELS)}. Choose one of those.")
    values = pooled_values(capture, name).scaled(TRENDS[name][-1])
    word = f"log {name}" if TRENDS[name][-1] else name
    layers, each = values.estimate[:-1], values.each[:, :-1]
    known = np.isfinite(layers)
    if known.sum() < FEWEST_LAYERS:
        raise InputError(
            f"{name} has an estimate inside its bounds in {int(known.sum())} layers, expected {FEWEST_LAYERS}. Choose another."
        )
    if model == "line":
        return line(layers, word)
    if (np.isfinite(each).sum(axis=1) >= FEWEST_LAYERS).sum() < 2:
        raise InputError(f"{name} has values in fewer than two documents, expected two. Capture more documents, or choose model='line'.")
    return mixed(each, word)


def line(values: FloatArray, name: str = "value") -> RegressionResultsWrapper:
    """Regress values by layer on depth with statsmodels' OLS and Newey-West errors; layers without a value are left out."""
    import pandas as pd
    from statsmodels.regression.linear_model import OLS

    known = np.isfinite(values)
    depth = depth_of(values.size)[known]
    table = pd.DataFrame({"first layer": np.ones(depth.size), "depth": depth})
    keywords = {"maxlags": min(bandwidth(depth.size), math.ceil(depth.size / 2)), "kernel": "bartlett", "use_correction": True}
    return OLS(pd.Series(values[known], name=name), table).fit(cov_type="HAC", cov_kwds=keywords, use_t=True)


def mixed(each: FloatArray, name: str = "value") -> MixedLMResultsWrapper:
    """Fit value = level + change·depth + document + document·depth + layer + residual, the last four random, by restricted likelihood.

    Args:
        each: values, shape (document, layer); NaN where there is none.
        name: what they are called in the summary.
    """
    import pandas as pd
    from scipy import sparse
    from statsmodels.regression.mixed_linear_model import MixedLM, VCSpec

    document, layer = np.nonzero(np.isfinite(each))
    values = each[document, layer]
    depth = depth_of(each.shape[1])[layer]
    own = np.eye(each.shape[0])[document]
    effects = [own, own * (depth - depth.mean())[:, None], np.eye(each.shape[1])[layer]]
    effects = [effect[:, effect.any(axis=0)] for effect in effects]
    labels = [[[f"{word} {k}" for k in range(effect.shape[1])]] for word, effect in zip(EFFECTS, effects, strict=True)]
    table = pd.DataFrame({"first layer": np.ones(values.size), "depth": depth})
    components = VCSpec(list(EFFECTS), labels, [[sparse.csr_array(effect)] for effect in effects])
    fitted = MixedLM(pd.Series(values, name=name), table, groups=np.ones(values.size), exog_vc=components)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        result = fitted.fit(reml=True, method="lbfgs")
    # statsmodels warns whenever a component is near 0, also where the fit is sound: its words stay with the result.
    result.notes = tuple(dict.fromkeys(str(one.message) for one in warned))
    return result
