"""What `geostat whatif` answers: bounds by value of the parameter that varies."""

import numpy as np
import pytest
import xarray as xr

from geostat.what_if.answer import Asked, answer, by_value


def asked(tmp_path, *sets: str, **more) -> dict:
    return answer(Asked(sets=("L=32", "d=16", *sets), figures=False, out=tmp_path, **more))


def test_bounds_are_told_by_value_of_the_parameter_with_the_fewest(tmp_path):
    said = asked(tmp_path, "N=2:9:8", "beta=0.5,1,2", bounds=("recall_lower",), edition="printed")
    assert said["by_value_of"] == "beta, means over 8 N"
    assert [row["beta"] for row in said["by_value"]] == [0.5, 1, 2]
    with xr.open_dataset(tmp_path / "whatif.nc", engine="scipy") as study:
        assert float(study["recall_lower"].min()) < 0  # as printed; it says 0 then
        expected = study["recall_lower"].clip(0, 1).mean("N").values
    np.testing.assert_allclose([row["recall_lower"] for row in said["by_value"]], expected, 1e-3)


def test_means_are_of_the_points_that_every_value_has(tmp_path):
    """No vectors have the second Gram at any N, and the printed bound on F(r_min) is unknown."""
    said = asked(tmp_path, "N=2:9:8", "rho0=0,0.99", bounds=("f_inner_lower",), edition="printed")
    assert [row["f_inner_lower"] for row in said["by_value"]] == [None, None]


def test_a_point_that_one_value_lacks_counts_for_none():
    """Means over other points than those of another value could not be compared with it."""
    bound = np.array([[0.2, 0.3], [0.9, np.nan], [0.4, 0.5]])
    study = xr.Dataset(
        {"recall_lower": (("N", "beta"), bound)}, coords={"N": [2, 3, 4], "beta": [0.5, 1.0]}
    )
    assert [row["recall_lower"] for row in by_value(study)["by_value"]] == [0.3, 0.4]


@pytest.mark.parametrize(("values", "told"), [("2:5:4", 4), ("2:31:30", 6)])
def test_of_many_values_a_few_are_told(tmp_path, values, told):
    said = asked(tmp_path, f"N={values}")
    assert said["by_value_of"] == "N"
    assert len(said["by_value"]) == told
    assert (said["by_value"][0]["N"], said["by_value"][-1]["N"]) == (2, int(values.split(":")[1]))


def test_one_point_has_no_values_to_compare(tmp_path):
    assert "by_value" not in asked(tmp_path, "N=4")


def test_where_no_point_has_its_gram_the_form_with_an_offset_is_named(tmp_path):
    none = asked(tmp_path, "N=2,3", "rho0=0.99")["points"]
    assert none.startswith("2, 2 of them left out")
    assert "--gram offset takes the form with an offset" in none
    assert "--gram" not in asked(tmp_path, "N=2,3", "rho0=0,0.99")["points"]
    assert "--gram" not in asked(tmp_path, "N=2,3", "rho0=0.99", gram="offset")["points"]
