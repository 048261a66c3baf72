import numpy as np
import pytest
import xarray as xr

from geostat.what_if.answer import answer, by_value
from geostat.what_if.options import WhatIfOptions


def answered(tmp_path, *sets: str, **options) -> dict:
    return answer(
        WhatIfOptions(sets=("L=32", "d=16", *sets), figures=False, out=tmp_path, **options)
    )


def test_bounds_are_listed_by_the_parameter_with_the_fewest_values(tmp_path):
    result = answered(
        tmp_path, "N=2:9:8", "beta=0.5,1,2", bounds=("recall_lower",), edition="printed"
    )
    assert result["by_value_of"] == "beta, means over 8 N"
    assert [row["beta"] for row in result["by_value"]] == [0.5, 1, 2]
    assert {path.suffix for path in tmp_path.iterdir()} == {".nc", ".tex", ".md"}  # no figures
    with xr.open_dataset(tmp_path / "whatif.nc", engine="scipy") as study:
        bound = study["recall_lower"]
        assert float(bound.min()) < 0  # a printed bound may be negative; it is clipped to 0
        expected = bound.clip(0, 1).mean("N").values
    np.testing.assert_allclose([row["recall_lower"] for row in result["by_value"]], expected, 1e-3)


def test_a_point_missing_at_one_value_is_excluded_at_all_values():
    """Means are comparable only over the same points."""
    bound = np.array([[0.2, 0.3], [0.9, np.nan], [0.4, 0.5]])
    dims, readable = ("N", "beta"), {"readable_range": [0.0, 1.0]}
    bounds = {
        "recall_lower": (dims, bound),
        "f_inner_lower": (dims, np.nan_to_num(bound, nan=1.5), readable),
        "precision_lower": (dims, bound * [1.0, np.nan]),
    }
    rows = by_value(xr.Dataset(bounds, {"N": [2, 3, 4], "beta": [0.5, 1.0]}))["by_value"]
    for name, values in zip(bounds, ([0.3, 0.4], [0.3, 0.4], [None, None]), strict=True):
        assert [row[name] for row in rows] == values, name


@pytest.mark.parametrize(("last", "listed"), [(5, 4), (31, 6)])
def test_long_axes_are_thinned(tmp_path, last, listed):
    result = answered(tmp_path, f"N=2:{last}:{last - 1}")
    assert result["by_value_of"] == "N"
    sizes = [row["N"] for row in result["by_value"]]
    assert (sizes[0], sizes[-1], len(sizes)) == (2, last, listed)


def test_a_single_point_has_no_table(tmp_path):
    assert "by_value" not in answered(tmp_path, "N=4")


def test_the_offset_form_is_suggested_if_no_point_is_feasible(tmp_path):
    none = answered(tmp_path, "N=2,3", "rho0=0.99")["points"]
    assert none.startswith("2, 2 omitted")
    assert "--gram offset uses the form with an offset" in none
    assert "--gram" not in answered(tmp_path, "N=2,3", "rho0=0,0.99")["points"]
    assert "--gram" not in answered(tmp_path, "N=2,3", "rho0=0.99", gram="offset")["points"]
