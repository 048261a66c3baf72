from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support.spine import Finished

import geostat as gs
from geostat.what_if.answer import answer, from_head
from geostat.what_if.options import WhatIfOptions
from geostat.what_if.studies import lines_of
from theory.what_if.parameters import LOWER

POINT = {"L": 64, "N": 4, "rho0": 0.05, "eta": 0.1, "p_sink": 0.05, "beta": 1.0}
WORDS = [f"{name}={value}" for name, value in POINT.items()]


def test_elasticities_are_a_labelled_dataset():
    bounds = ("recall_upper", "precision_lower")
    result = gs.elasticities(edition="sharp", bounds=bounds, base=POINT)
    assert result["elasticity"].dims == ("parameter", "bound")
    assert result["bound"].values.tolist() == list(bounds)
    point = gs.whatif({}, edition="sharp", bounds=("recall_upper",), base=POINT)
    level = float(result["at"].sel(bound="recall_upper"))
    assert level == pytest.approx(float(point["recall_upper"]), abs=1e-7)
    np.testing.assert_allclose(result["slope"], result["elasticity"] * result["at"], rtol=0.2)
    assert float(result["value"].sel(parameter="T1")) == 32
    assert result.attrs["fixed_T1"] == "0.5L"
    for variable in (*result.data_vars.values(), *result.coords.values()):
        assert "units" in variable.attrs


def test_bad_input_raises_the_public_input_error():
    with pytest.raises(gs.InputError, match="N: expected one value"):
        gs.elasticities(N=[2, 3])
    with pytest.raises(gs.InputError, match="gram is 'sine'"):
        gs.elasticities(gram="sine")


def test_lines_are_aligned_and_explain_missing_values():
    lines = lines_of(gs.elasticities(edition="printed", base=POINT))
    heading, _, *rows = [line for line in lines if not line.startswith("n/a:")]
    assert heading.split() == ["parameter", "value", *LOWER, "step"]
    assert len({row.index(row.split()[6]) for row in rows}) <= 2
    assert [line for line in lines if line.startswith("n/a:")] == [
        "n/a: the bound is not positive (recall_lower)",
        "n/a: the bound on R is negative and makes the bound on F meaningless (erratum 18)"
        " (f_inner_lower)",
    ]


def test_the_command_prints_and_writes_them(tmp_path: Path):
    result = answer(WhatIfOptions(sets=WORDS, edition="sharp", elasticity=True, out=tmp_path))
    names = {f"elasticity.{ending}" for ending in ("nc", "tex", "md")}
    assert {Path(path).name for path in result["written"]} == names
    written = xr.open_dataset(tmp_path / "elasticity.nc")
    again = gs.elasticities(edition="sharp", base=POINT)
    np.testing.assert_allclose(written["elasticity"].values, again["elasticity"].values)
    assert written["parameter"].values.astype(str).tolist() == again["parameter"].values.tolist()
    beta = float(again["elasticity"].sel(parameter="beta", bound="precision_lower"))
    line = next(line for line in result["elasticity"] if line.startswith("beta"))
    assert float(line.split()[2]) == pytest.approx(beta, rel=6e-3)
    rows = (tmp_path / "elasticity.md").read_text(encoding="utf-8").splitlines()
    assert any(row.startswith(r"| $\beta$ |") for row in rows)
    assert r"\begin{tabular}" in (tmp_path / "elasticity.tex").read_text(encoding="utf-8")


def test_a_fitted_head_can_be_the_point(finished: Finished, tmp_path: Path):
    head = {"run": finished.store, "head": "L0H0", "project": True}
    assert answer(WhatIfOptions(sets=["N=4"], elasticity=True, out=tmp_path, **head))["elasticity"]
    written = xr.open_dataset(tmp_path / "elasticity.nc")
    values = dict(
        zip(written["parameter"].values.astype(str), written["value"].values, strict=True)
    )
    assert values["beta"] == from_head(finished.tree, "L0H0")["beta"]
    assert written.attrs["head"] == "L0H0"
