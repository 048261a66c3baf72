"""Records of variables: derived records, and labels of variables."""

import numpy as np
import pytest
import xarray as xr

from empirical.schema import Quantity
from geostat.datasets.variable import join_heads, labelled, variables
from geostat.statistics.jackknife import Estimate, document_mean

WORDS = {"long_name": "an effect", "units": "nat", "symbol": "x", "equation": "(1)"}
TESTED = {"estimated": True, "tested": True, "more": {"scale": "log"}}
RECORD = Quantity("x", dims=("layer", "head"), **WORDS, **TESTED)


def test_an_estimate_becomes_variables_with_derived_records():
    layers = [document_mean(np.random.default_rng(seed).normal(size=(4, 3))) for seed in range(2)]
    named = variables([RECORD], join_heads([RECORD], [{"x": layer} for layer in layers], 3))
    assert {name: variable.dims for name, variable in named.items()} == {
        **dict.fromkeys(("x", "x_se", "x_lower", "x_upper", "x_skew"), ("layer", "head")),
        "x_without": ("layer", "head", "document"),
    }
    np.testing.assert_array_equal(named["x_se"].values, np.stack([layer.se for layer in layers]))
    assert named["x_se"].attrs["long_name"] == "standard error of an effect"
    assert named["x_lower"].attrs["symbol"] == r"{x}_{\mathrm{lo}}"
    assert (named["x_skew"].attrs["units"], named["x_upper"].attrs["units"]) == ("1", "nat")
    assert all(variable.attrs["scale"] == "log" for variable in named.values())


def test_a_tested_estimate_needs_skewness():
    plain = np.zeros((2, 3))
    with pytest.raises(KeyError, match="skew"):
        variables([RECORD], {"x": Estimate(value=plain, se=plain, lower=plain, upper=plain)})


def test_labelled_replaces_attributes_of_variables_but_not_of_coordinates():
    layer = ("layer", [0, 1], {"long_name": "layer", "units": "1"})
    data = xr.Dataset(
        {"x": ("layer", [1.0, 2.0], {"long_name": "old", "kept": "no"})}, coords={"layer": layer}
    )
    named = labelled(data, [Quantity("x", "new", dims=("layer",))])
    assert named["x"].attrs == {"long_name": "new", "units": "1", "symbol": "", "equation": ""}
    assert named["layer"].attrs == layer[2]
