import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.spine import Finished

from geostat.errors import InputError
from geostat.what_if.answer import answer, from_head, parse
from geostat.what_if.options import WhatIfOptions
from geostat.what_if.studies import whatif
from theory.errors import InputError as TheoryError
from theory.head.gram import offset_exponential
from theory.what_if.parameters import PARAMETERS

SMALL = {"L": 64, "rho0": 0.0, "eta": 0.1, "p_sink": 0.05}
WORDS = [f"{name}={value}" for name, value in SMALL.items()]


def study(out: Path, *sets: str, **options: Any) -> dict[str, Any]:
    return answer(WhatIfOptions(sets=sets, out=out, **{"figures": False, **options}))


def dataset(folder: Path) -> xr.Dataset:
    return xr.open_dataset(folder / "whatif.nc")


@pytest.mark.parametrize(
    ("text", "values", "unit"),
    [
        ("beta=0.5", (0.5,), ""),
        ("N=1,2,8", (1.0, 2.0, 8.0), ""),
        ("N=2:3:10", (2.0, 3.0), ""),
        ("d=1:100:5:log", (1.0, 3.0, 10.0, 32.0, 100.0), ""),
        ("beta=0.01:1:3:log", (0.01, 0.1, 1.0), ""),
        ("beta=x2", (2.0,), "base"),
        ("beta=x0.5:x2:3:log", (0.5, 1.0, 2.0), "base"),
        ("rho0=-0.1,0.1", (-0.1, 0.1), ""),
        ("T1=10", (10.0,), ""),
        ("T1=0L", (0.0,), "L"),
        ("T2=0.6L,0.9L", (0.6, 0.9), "L"),
        ("T1=0.1L:0.3L:3", (0.1, 0.2, 0.3), "L"),
    ],
)
def test_settings_are_parsed_into_values(text, values, unit):
    setting = parse(text)
    assert (setting.relative, setting.in_lengths) == (unit == "base", unit == "L")
    np.testing.assert_allclose(setting.values, values)


def test_multiples_use_the_base_value_and_integers_stay_integers():
    assert parse("T2=0.6L,0.9L").of({}).tolist() == ["0.6L", "0.9L"]
    np.testing.assert_allclose(parse("beta=x2").of({"beta": 0.3}), [0.6])
    np.testing.assert_allclose(parse("beta=x2").of({}), [2 * PARAMETERS["beta"].default])
    assert parse("N=1:4:9").of({}).tolist() == [1, 2, 3, 4]
    with pytest.raises(InputError, match="growth: has no base value"):
        parse("growth=x2").of({})


def test_an_axis_of_shares_is_labelled(tmp_path: Path):
    sets = ("L=32,64", "T1=0.2L,0.4L", "T2=0.8L", "N=4", "rho0=0")
    options = {"edition": "sharp", "bounds": ("precision_upper",)}
    study(tmp_path, *sets, **options)
    result = dataset(tmp_path)
    np.testing.assert_array_equal(result["T1"].values, [0.2, 0.4])
    assert result["T1"].attrs["symbol"] == "T_1/L"
    assert result.attrs["fixed_T2"] == "0.8L"
    assert "T2 = 0.8L" in (tmp_path / "whatif.md").read_text(encoding="utf-8")
    point = whatif(L=64, T1=26, T2=51, N=4, rho0=0.0, **options)
    assert float(result["precision_upper"][1, 1]) == float(point["precision_upper"])


def test_the_summary_omits_uninformative_values(tmp_path: Path):
    bounds = ("recall_lower", "f_inner_lower")
    result = study(tmp_path, "N=2,4", "L=64", edition="printed", bounds=bounds)
    assert result["recall_lower"].startswith("-")
    assert result["f_inner_lower"] == "n/a at 2 points, where the bound on R is negative"
    assert (dataset(tmp_path)["f_inner_lower"] > 1).all()  # the dataset keeps printed values


@pytest.mark.parametrize(
    "text",
    [
        *("banana=1", "beta", "beta=", "beta=a", "beta=1:2", "beta=1:2:0", "beta=0:2:5:log"),
        *("beta=1:2:3:lin", "N=nan", "beta=1,x2", "T1=0.5L,3", "beta=0.5L", "L=" + "9" * 30),
    ],
)
def test_invalid_settings_state_what_was_expected(text):
    with pytest.raises(InputError, match="expected") as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_a_study_is_a_labelled_dataset():
    result = whatif({"N": [2, 4]}, beta=[0.5, 1.0, 2.0], edition="sharp", base=SMALL, d=32)
    assert dict(result["recall_lower"].sizes) == {"N": 2, "beta": 3}
    assert result["beta"].attrs["units"] == "1/token"
    assert result["margin"].attrs["units"] == "value norm²"
    assert result.attrs["fixed_d"] == 32
    assert result.attrs["kind"] == "a bound under Model G"
    for variable in (*result.data_vars.values(), *result.coords.values()):
        assert variable.attrs["long_name"]
        assert variable.attrs["units"]


def test_a_study_can_start_from_a_head(finished: Finished):
    run, base = finished.tree, from_head(finished.tree, "L1H1")
    captured = run["capture"].to_dataset()
    kv_head = int(captured["kv_head_of_head"][1])
    beta = run["similarity"]["beta"].sel(gram="exponential").isel(layer=1, kv_head=kv_head)
    assert base["beta"] == float(beta)
    assert base["p_sink"] == float(run["weights"]["p_sink"].isel(layer=1, head=1))
    assert base["L"] == float(captured["tokens"][1]) - 1
    assert base["d"] == captured.attrs["dimension"]
    assert "p_base" not in base  # Σα = 1 determines it
    assert "c" in from_head(run, "L1H1", gram="offset")
    by_rank, head = from_head(run, "L1H1", gram="rank"), {"layer": 1, "head": 1}
    assert "beta" not in by_rank
    assert by_rank["c1"] == float(run["amended"]["coherence_first"].isel(head))
    assert by_rank["gamma"] == float(run["amended"]["coherence_exponent"].isel(head))
    assert by_rank["rho0"] == base["rho0"]


@pytest.mark.parametrize(
    ("groups", "head", "gram", "message"),
    [
        (None, "L99H0", "exponential", "layer"),
        (None, "five", "exponential", "expected a layer and a head"),
        (None, "L0H0", "power", "expected exponential, offset or rank"),
        (("capture",), "L0H0", "exponential", "holds no /norms"),
        (("capture", "norms", "similarity", "weights"), "L0H0", "rank", "Capture it again"),
    ],
)
def test_an_unknown_head_or_form_or_missing_fits_are_refused(
    finished: Finished, groups, head, gram, message
):
    run = finished.tree.filter(lambda node: groups is None or node.name in groups)
    with pytest.raises(InputError, match=message):
        from_head(run, head, gram=gram)


def test_the_decay_of_a_head_can_be_doubled(finished: Finished, tmp_path: Path):
    base = from_head(finished.tree, "L0H0")
    head = {"run": finished.store, "head": "L0H0", "project": True}
    study(tmp_path, "beta=x1,x2", "N=2,4", **head)
    result = dataset(tmp_path)
    assert result.attrs["head"] == "L0H0"
    np.testing.assert_allclose(result["beta"].values, [base["beta"], 2 * base["beta"]])
    length = int(base["L"])
    edges = [
        offset_exponential(beta, 0.0, 0.0, length + 1).edge(length)
        for beta in result["beta"].values
    ]
    np.testing.assert_array_equal(result["projected"].values, np.abs(base["rho0"]) > edges)


def test_files_hold_the_study(tmp_path: Path):
    sets = ["N=2:20:4", "beta=0.1:5:5:log", "d=16,64"]
    options = {"edition": "sharp", "bounds": ("precision_lower", "recall_upper")}
    study(tmp_path, *WORDS, *sets, **options, figures=True)
    axes = {setting.name: setting.of({}) for setting in map(parse, sets)}
    again = whatif(axes, base=SMALL, **options)
    np.testing.assert_allclose(dataset(tmp_path)["recall_upper"].values, again["recall_upper"])
    assert (tmp_path / "whatif.png").stat().st_size > 5000
    rows = (tmp_path / "whatif.md").read_text(encoding="utf-8").splitlines()
    assert 10 <= len([row for row in rows if row.startswith("|")]) - 2 <= 40


def test_files_of_an_earlier_study_are_removed(tmp_path: Path):
    (tmp_path / "notes.png").write_bytes(b"mine")
    study(tmp_path, "L=32", "N=2,3", figures=True)
    study(tmp_path, "L=32", "N=4", elasticity=True)
    tables = {f"{name}.{end}" for name in ("elasticity", "whatif") for end in ("nc", "tex", "md")}
    both = {"notes.png", "whatif.pdf", "whatif.png", *tables}
    assert set(os.listdir(tmp_path)) == both  # elasticities have separate files
    point = study(tmp_path, "L=32", "N=4", figures=True)
    assert point["points"].startswith("1, ")
    assert set(os.listdir(tmp_path)) == {"notes.png", *tables}  # a point has no figure
    assert int(dataset(tmp_path).attrs["fixed_N"]) == 4


def test_a_refused_study_keeps_the_earlier_files(tmp_path: Path):
    study(tmp_path, "L=32", "N=2,3")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(TheoryError):
        study(tmp_path, "L=32", "N=40")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("fixed", "find", "found"),
    [
        ("beta=10", "N", "largest N up to which precision_lower stays >= 0.5: 5 (there it is 0.51"),
        ("N=3", "beta=0.1:10", "smallest beta with precision_lower >= 0.5: 0.84"),
    ],
)
def test_a_target_value_is_one_line(tmp_path: Path, fixed: str, find: str, found: str):
    options = {"edition": "sharp", "bounds": ("precision_lower",), "target": 0.5, "find": find}
    assert study(tmp_path, *WORDS, fixed, **options)["found"].startswith(found)


@pytest.mark.parametrize("half", [{"run": "x"}, {"head": "L0H0"}])
def test_a_run_needs_a_head_and_vice_versa(half):
    with pytest.raises(InputError, match=r"^--from and --head were not both given, .*[^\n]$"):
        answer(WhatIfOptions(**half))
