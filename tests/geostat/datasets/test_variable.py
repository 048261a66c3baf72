"""Records of variables: what is derived from them, and that labels replace attributes of
variables, not of coordinates.
"""

import numpy as np
import pytest
import xarray as xr

from geostat.datasets.variable import Variable, labelled, stack_layers, variables
from geostat.statistics.jackknife import Estimate, document_mean

RECORD = Variable(
    "x",
    "an effect",
    "nat",
    "x",
    "(1)",
    {"scale": "log"},
    ("layer", "head"),
    estimated=True,
    judged=True,
)


def test_an_estimate_is_written_as_its_parts_with_words_derived_from_one_record():
    layers = [document_mean(np.random.default_rng(seed).normal(size=(4, 3))) for seed in range(2)]
    named = variables([RECORD], stack_layers([RECORD], [{"x": one} for one in layers]))
    assert {name: one.dims for name, one in named.items()} == {
        **dict.fromkeys(("x", "x_se", "x_lower", "x_upper", "x_skew"), ("layer", "head")),
        "x_without": ("layer", "head", "document"),
    }
    np.testing.assert_array_equal(named["x_se"].values, np.stack([one.se for one in layers]))
    assert named["x_se"].attrs["long_name"] == "standard error of an effect"
    assert named["x_lower"].attrs["symbol"] == r"{x}_{\mathrm{lo}}"
    assert (named["x_skew"].attrs["units"], named["x_upper"].attrs["units"]) == ("1", "nat")
    assert all(one.attrs["scale"] == "log" for one in named.values())


def test_a_judged_estimate_must_bring_its_skewness():
    plain = np.zeros((2, 3))
    with pytest.raises(KeyError, match="skew"):
        variables([RECORD], {"x": Estimate(value=plain, se=plain, lower=plain, upper=plain)})


def test_labels_replace_what_a_variable_was_called_and_leave_its_coordinates():
    layer = ("layer", [0, 1], {"long_name": "layer", "units": "1"})
    data = xr.Dataset(
        {"x": ("layer", [1.0, 2.0], {"long_name": "old", "kept": "no"})}, coords={"layer": layer}
    )
    named = labelled(data, [Variable("x", "new", dims=("layer",))])
    assert named["x"].attrs == {"long_name": "new", "units": "1", "symbol": "", "equation": ""}
    assert named["layer"].attrs == layer[2]
