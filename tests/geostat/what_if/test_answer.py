"""Output of `geostat whatif`: bounds by value of the varying parameter."""

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
    with xr.open_dataset(tmp_path / "whatif.nc", engine="scipy") as study:
        bound = study["recall_lower"]
        assert float(bound.min()) < 0  # a printed bound may be negative; it is clipped to 0
        expected = bound.clip(0, 1).mean("N").values
    np.testing.assert_allclose([row["recall_lower"] for row in result["by_value"]], expected, 1e-3)


def test_means_use_points_that_are_feasible_at_every_value(tmp_path):
    """The second Gram is infeasible at every N, and the printed bound on F(r_min) is undefined."""
    result = answered(
        tmp_path, "N=2:9:8", "rho0=0,0.99", bounds=("f_inner_lower",), edition="printed"
    )
    assert [row["f_inner_lower"] for row in result["by_value"]] == [None, None]


def test_a_point_missing_at_one_value_is_excluded_at_all_values():
    """Means are comparable only over the same points."""
    bound = np.array([[0.2, 0.3], [0.9, np.nan], [0.4, 0.5]])
    study = xr.Dataset(
        {"recall_lower": (("N", "beta"), bound)}, coords={"N": [2, 3, 4], "beta": [0.5, 1.0]}
    )
    assert [row["recall_lower"] for row in by_value(study)["by_value"]] == [0.3, 0.4]


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
