"""Elasticities as users ask for them: a dataset, lines of text, and files."""

import numpy as np
import pytest
import xarray as xr
from support.spine import Finished

import geostat as gs
from geostat.what_if.answer import Asked, answer
from geostat.what_if.elasticities import lines_of
from geostat.what_if.start import from_head
from theory.what_if.parameters import LOWER

POINT = {"L": 64, "N": 4, "rho0": 0.05, "eta": 0.1, "p_sink": 0.05, "beta": 1.0}
WORDS = [f"{name}={value}" for name, value in POINT.items()]


def test_elasticities_are_a_labelled_dataset():
    found = gs.elasticities(edition="sharp", bounds=("recall_upper", "precision_lower"), base=POINT)
    assert found["elasticity"].dims == ("parameter", "bound")
    assert found["bound"].values.tolist() == ["recall_upper", "precision_lower"]
    at = gs.whatif({}, edition="sharp", bounds=("recall_upper",), base=POINT)
    assert float(found["at"].sel(bound="recall_upper")) == pytest.approx(
        float(at["recall_upper"]), abs=1e-7
    )
    np.testing.assert_allclose(found["slope"], found["elasticity"] * found["at"], rtol=0.2)
    assert float(found["value"].sel(parameter="T1")) == 32
    assert found.attrs["fixed_T1"] == "0.5L"
    for variable in (*found.data_vars.values(), *found.coords.values()):
        assert "units" in variable.attrs


def test_bad_input_is_the_faces_own_error():
    with pytest.raises(gs.InputError, match="N: expected one value"):
        gs.elasticities(N=[2, 3])
    with pytest.raises(gs.InputError, match="gram is 'sine'"):
        gs.elasticities(gram="sine")


def test_lines_are_aligned_and_say_what_is_missing():
    lines = lines_of(gs.elasticities(edition="printed", base=POINT))
    table = [line for line in lines if not line.startswith("n/a:")]
    assert (
        len(
            {
                line.index(word)
                for line, word in zip(
                    table[2:], [line.split()[6] for line in table[2:]], strict=True
                )
            }
        )
        <= 2
    )
    assert table[0].split() == ["parameter", "value", *LOWER, "step"]
    assert [line for line in lines if line.startswith("n/a:")] == [
        "n/a: the bound is not positive (recall_lower)",
        "n/a: the bound on R is negative, so that on F says nothing (erratum 18) (f_inner_lower)",
    ]


def test_the_command_prints_and_writes_them(tmp_path):
    said = answer(Asked(sets=WORDS, edition="sharp", elasticity=True, out=tmp_path))
    assert {path.rsplit("/", 1)[1] for path in said["written"]} == {
        "elasticity.nc",
        "elasticity.tex",
        "elasticity.md",
    }
    written = xr.open_dataset(tmp_path / "elasticity.nc")
    again = gs.elasticities(edition="sharp", base=POINT)
    np.testing.assert_allclose(written["elasticity"].values, again["elasticity"].values)
    assert written["parameter"].values.astype(str).tolist() == again["parameter"].values.tolist()
    beta = float(again["elasticity"].sel(parameter="beta", bound="precision_lower"))
    line = next(line for line in said["elasticity"] if line.startswith("beta"))
    assert float(line.split()[2]) == pytest.approx(beta, rel=6e-3)
    rows = (tmp_path / "elasticity.md").read_text(encoding="utf-8").splitlines()
    assert any(row.startswith(r"| $\beta$ |") for row in rows)
    assert r"\begin{tabular}" in (tmp_path / "elasticity.tex").read_text(encoding="utf-8")


def test_a_fitted_head_is_a_point_too(finished: Finished, tmp_path):
    said = answer(
        Asked(
            run=finished.store,
            head="L0H0",
            sets=["N=4"],
            project=True,
            elasticity=True,
            out=tmp_path,
        )
    )
    found = xr.open_dataset(tmp_path / "elasticity.nc")
    assert (
        float(found["value"][found["parameter"].values.astype(str).tolist().index("beta")])
        == from_head(finished.tree, "L0H0")["beta"]
    )
    assert found.attrs["head"] == "L0H0"
    assert said["elasticity"]
