"""What-if studies as users ask for them: words, a head of a run, datasets and files."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import xarray as xr
from support.spine import Finished

from geostat.cli.options_of_studies import WHATIF
from geostat.errors import InputError
from geostat.what_if.answer import Asked, answer
from geostat.what_if.labelled_study import whatif
from geostat.what_if.parameter_values import parse
from geostat.what_if.start import from_head
from theory.errors import InputError as TheoryError
from theory.head.similarity_decay import offset_exponential
from theory.what_if.parameters import PARAMETERS

SMALL = {"L": 64, "rho0": 0.0, "eta": 0.1, "p_sink": 0.05}
WORDS = [f"{name}={value}" for name, value in SMALL.items()]


@pytest.mark.parametrize(
    ("text", "values", "relative"),
    [
        ("beta=0.5", (0.5,), False),
        ("N=1,2,8", (1.0, 2.0, 8.0), False),
        ("d=16:64:4", (16.0, 32.0, 48.0, 64.0), False),
        ("beta=0.01:1:3:log", (0.01, 0.1, 1.0), False),
        ("beta=x2", (2.0,), True),
        ("beta=x0.5:x2:3:log", (0.5, 1.0, 2.0), True),
        ("rho0=-0.1,0.1", (-0.1, 0.1), False),
    ],
)
def test_words_become_values(text, values, relative):
    setting = parse(text)
    assert setting.relative is relative
    np.testing.assert_allclose(setting.values, values)


def test_ranges_of_whole_numbers_are_rounded_without_repeats_as_the_option_says():
    assert parse("N=2:3:10").values == (2.0, 3.0)
    assert parse("d=1:100:5:log").values == (1.0, 3.0, 10.0, 32.0, 100.0)
    said = get_args(WHATIF["sets"][0])[1].help
    assert "rounded and repeated ones dropped" in said
    assert "N=2:3:10 is 2 and 3" in said


def test_multiples_are_of_the_base_value_and_whole_numbers_stay_whole():
    np.testing.assert_allclose(parse("beta=x2").of({"beta": 0.3}), [0.6])
    np.testing.assert_allclose(parse("beta=x2").of({}), [2 * PARAMETERS["beta"].default])
    assert parse("N=1:4:9").of({}).tolist() == [1, 2, 3, 4]
    with pytest.raises(InputError, match="growth: has no base value"):
        parse("growth=x2").of({})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("T1=0.5L", ["0.5L"]),
        ("T2=0.6L,0.9L", ["0.6L", "0.9L"]),
        ("T1=0.1L:0.3L:3", ["0.1L", "0.2L", "0.3L"]),
        ("T1=0L", ["0.0L"]),
    ],
)
def test_phases_can_be_given_in_lengths(text, values):
    assert parse(text).in_lengths
    assert [f"{float(value[:-1]):.12g}" for value in parse(text).of({})] == [
        f"{float(value[:-1]):.12g}" for value in values
    ]
    assert not parse("T1=10").in_lengths


def test_an_axis_of_shares_says_that_it_is_one(tmp_path):
    answer(
        Asked(
            sets=["L=32,64", "T1=0.2L,0.4L", "T2=0.8L", "N=4", "rho0=0"],
            edition="sharp",
            bounds=("precision_upper",),
            out=tmp_path,
        )
    )
    found = xr.open_dataset(tmp_path / "whatif.nc")
    np.testing.assert_array_equal(found["T1"].values, [0.2, 0.4])
    assert found["T1"].attrs["symbol"] == "T_1/L"
    assert found.attrs["fixed_T2"] == "0.8L"
    assert "T2 = 0.8L" in (tmp_path / "whatif.md").read_text(encoding="utf-8")
    still = whatif(L=64, T1=26, T2=51, N=4, rho0=0.0, edition="sharp", bounds=("precision_upper",))
    assert float(found["precision_upper"][1, 1]) == float(still["precision_upper"])


def test_the_summary_leaves_out_what_says_nothing(tmp_path):
    said = answer(
        Asked(
            sets=["N=2,4", "L=64"],
            edition="printed",
            bounds=("recall_lower", "f_inner_lower"),
            out=tmp_path,
        )
    )
    assert said["recall_lower"].startswith("-")
    assert said["f_inner_lower"] == "n/a at 2 points, where the bound on R is negative"
    printed = xr.open_dataset(tmp_path / "whatif.nc")["f_inner_lower"].values
    assert (printed > 1).all()  # the dataset keeps what is printed


@pytest.mark.parametrize(
    "text",
    [
        "banana=1",
        "beta",
        "beta=",
        "beta=a",
        "beta=1:2",
        "beta=1:2:0",
        "beta=0:2:5:log",
        "beta=1:2:3:lin",
        "N=nan",
        "beta=1,x2",
        "T1=0.5L,3",
        "beta=0.5L",
    ],
)
def test_words_that_mean_nothing_say_what_was_expected(text):
    with pytest.raises(InputError, match="expected") as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_a_study_is_a_labelled_dataset():
    found = whatif({"N": [2, 4]}, beta=[0.5, 1.0, 2.0], edition="sharp", base=SMALL, d=32)
    assert dict(found["recall_lower"].sizes) == {"N": 2, "beta": 3}
    assert found["beta"].attrs["units"] == "1/token"
    assert found["margin"].attrs["units"] == "value norm²"
    assert found.attrs["fixed_d"] == 32
    assert found.attrs["kind"] == "a bound under Model G"
    for variable in (*found.data_vars.values(), *found.coords.values()):
        assert variable.attrs["long_name"]
        assert variable.attrs["units"]


def test_a_head_of_a_run_is_where_a_study_starts(finished: Finished):
    base = from_head(finished.tree, "L1H1")
    captured = finished.tree["capture"].to_dataset()
    kv_head = int(captured["kv_head_of_head"][1])
    assert base["beta"] == float(
        finished.tree["similarity"]["beta"].sel(gram="exponential").isel(layer=1, kv_head=kv_head)
    )
    assert base["p_sink"] == float(finished.tree["weights"]["p_sink"].isel(layer=1, head=1))
    assert base["L"] == float(captured["tokens"][1]) - 1
    assert base["d"] == captured.attrs["dimension"]
    assert "p_base" not in base  # it follows from a sum of 1
    assert "c" in from_head(finished.tree, "L1H1", gram="offset")


@pytest.mark.parametrize(
    ("head", "gram", "message"),
    [
        ("L99H0", "exponential", "layer"),
        ("five", "exponential", "expected a layer and a head"),
        ("L0H0", "power", "the exponential and the offset only"),
    ],
)
def test_a_head_that_cannot_be_is_refused(finished: Finished, head, gram, message):
    with pytest.raises(InputError, match=message):
        from_head(finished.tree, head, gram=gram)


def test_a_run_without_fits_is_refused(finished: Finished):
    bare = xr.DataTree.from_dict({"/capture": finished.tree["capture"].to_dataset()})
    with pytest.raises(InputError, match="holds no /norms"):
        from_head(bare, "L0H0")


def test_doubling_the_decay_of_a_head_is_one_question(finished: Finished, tmp_path):
    base = from_head(finished.tree, "L0H0")
    said = answer(
        Asked(
            sets=["beta=x1,x2", "N=2,4"],
            run=finished.store,
            head="L0H0",
            project=True,
            out=tmp_path,
        )
    )
    found = xr.open_dataset(tmp_path / "whatif.nc")
    np.testing.assert_allclose(found["beta"].values, [base["beta"], 2 * base["beta"]])
    edges = [
        offset_exponential(beta, 0.0, 0.0, int(base["L"]) + 1).edge(int(base["L"]))
        for beta in found["beta"].values
    ]
    np.testing.assert_array_equal(
        found["projected"].values.astype(bool), [abs(base["rho0"]) > edge for edge in edges]
    )
    assert found.attrs["head"] == "L0H0"
    assert {path.rsplit(".", 1)[1] for path in said["written"]} == {"nc", "pdf", "png", "tex", "md"}


@pytest.mark.parametrize(
    "sets",
    [["N=2:20:10"], ["N=2:20:10", "beta=0.1:5:7:log"], ["N=2:20:4", "beta=0.1:5:5:log", "d=16,64"]],
    ids=["lines", "map", "maps"],
)
def test_files_hold_the_study(tmp_path, sets):
    answer(
        Asked(
            sets=[*WORDS, *sets],
            edition="sharp",
            bounds=("precision_lower", "recall_upper"),
            out=tmp_path,
        )
    )
    written = xr.open_dataset(tmp_path / "whatif.nc")
    axes = {setting.name: setting.of({}) for setting in map(parse, sets)}
    again = whatif(axes, edition="sharp", bounds=("precision_lower", "recall_upper"), base=SMALL)
    np.testing.assert_allclose(written["recall_upper"].values, again["recall_upper"].values)
    assert (tmp_path / "whatif.png").stat().st_size > 5000
    rows = (tmp_path / "whatif.md").read_text(encoding="utf-8").splitlines()
    assert 10 <= len([row for row in rows if row.startswith("|")]) - 2 <= 40


def test_a_point_writes_no_figure(tmp_path):
    said = answer(Asked(sets=["N=4"], out=tmp_path))
    assert {path.rsplit(".", 1)[1] for path in said["written"]} == {"nc", "tex", "md"}
    assert said["points"].startswith("1, ")


def test_no_figure_of_an_earlier_study_stays_beside_a_new_one(tmp_path):
    (tmp_path / "notes.png").write_bytes(b"mine")
    answer(Asked(sets=["L=32", "N=2,3"], elasticity=False, out=tmp_path))
    answer(Asked(sets=["L=32", "N=4"], elasticity=True, out=tmp_path))
    both = {
        "notes.png",
        "elasticity.nc",
        "elasticity.tex",
        "elasticity.md",
        *(f"whatif.{kind}" for kind in ("nc", "pdf", "png", "tex", "md")),
    }
    assert {
        path.name for path in tmp_path.iterdir()
    } == both  # elasticities have files of their own
    answer(Asked(sets=["L=32", "N=4"], out=tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == both - {"whatif.pdf", "whatif.png"}
    assert int(xr.open_dataset(tmp_path / "whatif.nc").attrs["fixed_N"]) == 4


@pytest.mark.slow
def test_a_study_without_figures_has_the_same_numbers_and_no_figure(tmp_path):
    drawn = answer(Asked(sets=["L=32", "N=2,3"], out=tmp_path / "drawn"))
    plain = answer(Asked(sets=["L=32", "N=2,3"], out=tmp_path / "plain", figures=False))
    assert {Path(path).name for path in plain["written"]} == {
        "whatif.nc",
        "whatif.tex",
        "whatif.md",
    }
    assert {Path(path).name for path in drawn["written"]} - {"whatif.pdf", "whatif.png"} == {
        Path(path).name for path in plain["written"]
    }
    assert (tmp_path / "drawn/whatif.nc").read_bytes() == (
        tmp_path / "plain/whatif.nc"
    ).read_bytes()


def test_a_study_that_is_refused_leaves_the_earlier_one_whole(tmp_path):
    answer(Asked(sets=["L=32", "N=2,3"], out=tmp_path))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(TheoryError):
        answer(Asked(sets=["L=32", "N=40"], out=tmp_path))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_points_without_vectors_are_counted():
    found = whatif({"rho0": [0.0, 0.9], "N": [2, 3, 4]}, L=64)
    assert found["feasible"].values.tolist() == [True, False]
    assert np.isnan(found["recall_lower"].values[1]).all()
    assert np.isfinite(found["recall_lower"].values[0]).all()


def test_where_a_bound_reaches_a_target_is_one_line():
    said = answer(
        Asked(
            sets=[*WORDS, "beta=10"],
            edition="sharp",
            bounds=("precision_lower",),
            find="N",
            target=0.5,
        )
    )
    assert said["found"].startswith(
        "largest N up to which precision_lower stays >= 0.5: 5 (there it is 0.51"
    )
    between = answer(
        Asked(
            sets=[*WORDS, "N=3"],
            edition="sharp",
            bounds=("precision_lower",),
            find="beta=0.1:10",
            target=0.5,
        )
    )
    assert between["found"].startswith("smallest beta with precision_lower >= 0.5: 0.84")


BAD = {
    "from without head": (Asked(run="x"), "--from and --head go together"),
    "head without from": (Asked(head="L0H0"), "--from and --head go together"),
    "find without target": (Asked(find="N"), "--find was given without --target"),
    "target without find": (Asked(target=0.5), "--target was given without --find"),
    "find with several": (
        Asked(sets=["beta=1,2"], find="N", target=0.5),
        "--set beta takes 2 values, but --find",
    ),
    "two bounds": (
        Asked(find="N", target=0.5, bounds=("recall_lower", "recall_upper")),
        "2 bounds were given",
    ),
    "range of words": (
        Asked(find="beta=a:b", target=0.5),
        "expected a parameter, or one with the range",
    ),
    "no bound": (Asked(find="N", target=0.5, bounds=("recall",)), "'recall' is no bound"),
    "set twice": (Asked(sets=["N=1", "N=2"]), "--set N was given more than once"),
    "edition": (
        Asked(sets=["N=1"], edition="first"),
        "edition is 'first', expected one of printed",
    ),
    "gram": (Asked(sets=["N=1"], gram="sine"), "gram is 'sine', expected one of exponential"),
}


@pytest.mark.parametrize(("asked", "message"), BAD.values(), ids=BAD.keys())
def test_a_question_that_cannot_be_answered_is_one_line(asked, message, tmp_path):
    with pytest.raises((InputError, TheoryError)) as caught:
        answer(asked)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
