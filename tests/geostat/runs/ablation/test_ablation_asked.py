"""Cuts of heads by command and in Python: asked again, interrupted, refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.families import tiny, tokens
from support.spine import LENGTH, geostat, refused

import geostat as gs
from empirical.store.store import Store
from geostat.experiments.ablation.budgets import WAYS
from geostat.runs.ablation import ablation as module
from geostat.runs.effective.losses import Losses


@pytest.mark.slow
def test_the_lines_tell_budgets_and_regimes(run: Path, data: xr.Dataset, words: list[Any]) -> None:
    lines = (run / "said").read_text().splitlines()
    assert lines[-1] == f"run: {run / 'run.zarr'}"
    assert sum(line.startswith("  budget of 4 tokens a head, deletion: ") for line in lines) == 1
    records = json.loads(geostat(*words, "--out", run, "--json", "--quiet").stdout)
    assert len(records["budgets"]) == 2 * 2 * 6
    assert records["regimes"] == []  # no head of these is told
    finite = int(data["rank_correlation"].notnull().sum())
    assert len(records["correlations"]) == finite > 0
    assert [one["n_star"] for one in records["single_heads"]] == data[
        "head_n_star"
    ].values.ravel().tolist()
    star = data["head_n_star"].sel(mode="deletion").values
    share = f"{100 * (star == 1).mean():.0f}%"
    (line,) = [line for line in lines if line.startswith(f"  single heads, deletion: {share}")]
    assert "of 16 need one token to keep the loss within 0.1%, half at most" in line
    assert f"nine of ten at most {np.sort(star.ravel())[14]:.0f} (" in line
    assert "answers" in records


def counted(monkeypatch: pytest.MonkeyPatch, stop: int | None = None) -> list[Any]:
    """Note every document's loss that is measured; interrupt the one after `stop`."""
    measured: list[Any] = []
    own = Losses._loss

    def loss(self: Any, place: int, *more: Any) -> float:
        if len(measured) == stop:
            raise KeyboardInterrupt
        measured.append(place)
        return own(self, place, *more)

    monkeypatch.setattr(Losses, "_loss", loss)
    return measured


@pytest.mark.slow
def test_what_is_interrupted_goes_on_and_what_is_there_stays(
    words: list[Any], ready: Path, data: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ready, tmp_path, dirs_exist_ok=True)
    with monkeypatch.context() as patch:
        counted(patch, stop=31)  # within a cut's documents
        said = geostat(*words, "--out", tmp_path, "--quiet")
    assert said.code == 130
    assert "losses measured so far (15) are kept" in said.stderr
    with monkeypatch.context() as patch:
        measured = counted(patch)
        assert geostat(*words, "--out", tmp_path, "--quiet").code == 0
    # and the two documents' own losses, which stand there, once more
    assert len(measured) == 2 * (data.sizes["cell"] + 1 - 15) + 2
    xr.testing.assert_identical(Store.open(tmp_path / "run.zarr").read("ablation"), data)
    assert [path.name for path in tmp_path.glob(".run*")] == []
    with monkeypatch.context() as patch:
        measured = counted(patch)
        assert geostat(*words, "--out", tmp_path, "--quiet", "--part", "heads").code == 0
        assert measured == [0]  # the first document's own loss, to see that it is the same model
    xr.testing.assert_identical(Store.open(tmp_path / "run.zarr").read("ablation"), data)


@pytest.mark.slow
def test_other_questions_add_to_what_is_there(
    words: list[Any], run: Path, data: xr.Dataset, tmp_path: Path
) -> None:
    shutil.copytree(run, tmp_path / "more")
    more = ["--out", tmp_path / "more", "--quiet"]
    other = [*words, "--sizes", "8,1", "--budgets", "5", "--mode", "deletion", "--draws", 5]
    assert geostat(*other, "--part", "heads,budgets", *more).code == 0
    found = Store.open(tmp_path / "more" / "run.zarr").read("ablation")
    sizes = found["n"].values[found["head_rise"].notnull().any(("mode", "layer", "head")).values]
    assert sizes.tolist() == [1, 4, 8, 16]
    assert bool(found["head_rise"].sel(n=8, mode="renormalisation").isnull().all())
    assert found["budget"].values.tolist() == [4, 5, 9]
    for name, at in (
        ("head_rise", {"n": [1, 4, 16]}),
        ("precision", {"n": list(data["n"].values)}),
    ):
        xr.testing.assert_equal(found[name].sel(at), data[name].sel(at))
    ways = {"way": [way for way in WAYS if way != "greedy"], "budget": [4, 9]}
    xr.testing.assert_equal(found["budget_rise"].sel(ways), data["budget_rise"].sel(ways))
    assert found.attrs["primary"] == "rise at N = 8"
    assert json.loads(geostat(*other, *more, "--json", "--part", "heads").stdout)["regimes"] == []


@pytest.mark.slow
def test_another_question_leaves_earlier_answers(
    words: list[Any], run: Path, data: xr.Dataset, tmp_path: Path
) -> None:
    shutil.copytree(run, tmp_path / "more")
    other = [*words[:-8], "--sizes", "1,8", "--tau", ".5", "--budgets", "4", "--draws", "3"]
    other += ["--out", tmp_path / "more", "--quiet", "--part"]
    assert geostat(*other, "regimes", "--mode", "deletion").code == 0
    found = Store.open(tmp_path / "more" / "run.zarr").read("ablation")
    assert found.attrs["tau"] == data.attrs["tau"]
    assert found.attrs["greedy_sizes"] == data.attrs["greedy_sizes"] == "1,4,16"
    for name in ("head_n_star", "head_needed", "budget_rise"):
        xr.testing.assert_equal(found[name], data[name])
    assert geostat(*other, "heads,budgets", "--mode", "deletion").code == 0
    found = Store.open(tmp_path / "more" / "run.zarr").read("ablation")
    assert found.attrs["tau"] == 0.5
    assert found.attrs["greedy_sizes"] == "1,8 (deletion), 1,4,16 (renormalisation)"
    assert bool(found["head_n_star"].sel(mode="deletion").notnull().all())
    greedy = {"way": "greedy", "mode": "renormalisation"}
    xr.testing.assert_equal(found["budget_rise"].sel(greedy), data["budget_rise"].sel(greedy))


@pytest.mark.slow
def test_a_part_by_itself_in_python(
    ready: Path, model_folder: Path, text_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(ready, tmp_path, dirs_exist_ok=True)
    asked: dict[str, Any] = {"documents": text_folder, "count": 2, "length": LENGTH, "null": False}
    asked |= {"n": "1,4,9,16", "out": tmp_path, "sizes": [1, 4], "budgets": [4]}
    found = gs.ablate(str(model_folder), **asked, parts=["budgets"])["ablation"].to_dataset()
    assert "head_rise" not in found
    greedy = found["budget_rise"].sel(way="greedy")
    assert bool(greedy.isnull().all())  # no single head was cut
    assert bool(found["budget_rise"].drop_sel(way="greedy").notnull().all())
    assert all("budgets of 4 tokens" in line for line in found.attrs["answers"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"draws": 2.5}, "^draws 2.5: expected a whole number"),
        ({"tau": [0.1]}, r"^tau \[0.1\]: expected a share above 0"),
        ({"parts": "layers"}, "^parts layers: "),
        ({"sizes": 80}, "^sizes 80: a window has 40 tokens"),
    ],
)
def test_what_is_no_such_number_is_refused_before_anything_is_measured(
    tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    asked = {"documents": list(tokens(2, 40).numpy()), "length": 40, "out": tmp_path / "out"}
    with pytest.raises(gs.InputError, match=said):
        gs.ablate(tiny("llama"), **{**asked, "parts": "heads", **given})
    assert not (tmp_path / "out").exists()


def test_an_unknown_keyword_is_named_beside_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(
        TypeError, match=r"ablate\(\) has no keyword 'part', expected one of .*parts"
    ):
        gs.ablate(tiny("llama"), documents=[[1, 2, 3]], length=3, out=tmp_path, part="heads")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--part", "layers"], "--part layers: "),
        (["--mode", "half"], "--mode half: "),
        (["--sizes", "0,4"], "--sizes 0,4: expected whole numbers from 1"),
        (["--sizes", "4,8"], "the greedy budget starts from N = 1"),
        (["--sizes", "1,40"], "--sizes 40: a window has 40 tokens"),
        (["--budgets", "x"], "--budgets x: expected whole numbers from 1"),
        (["--budgets", "99"], "--budgets 99: a window has 40 tokens"),
        (["--part", "regimes", "--budgets", "99"], "--budgets 99: a window has 40 tokens"),
        (["--tau", "0"], "--tau 0.0: expected a share above 0"),
        (["--draws", "0"], "--draws 0: expected a whole number from 1 to 10000"),
        (["--target", "last:40"], "--target last:40: a window of 40 tokens has 39"),
        (["--part", "context"], "expected two contexts or more, and targets last:K"),
        (["--part", "context", "--contexts", "20,40", "--target", "last:20"], "last:10"),
        (["--part", "context", "--contexts", "20,80", "--target", "last:9"], "--contexts 80: a"),
        (["--target", "first"], "--target first: expected all, or last:K"),
        (["--documents", 6], "5 documents"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    words: list[Any], tmp_path: Path, more: list[Any], said: str
) -> None:
    line = refused(geostat(*words, *more, "--out", tmp_path / "out", "--quiet"))
    assert said in line
    assert not (tmp_path / "out" / "run.zarr").exists()


@pytest.mark.slow
def test_a_damaged_group_is_taken_out(run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run, tmp_path / "harmed")
    folder = run / "run.zarr" / "ablation" / "entropy"
    chunk = next(path for path in (folder / "c").rglob("*") if path.is_file())
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"\x00\x01")
    assert geostat("doctor", run).code == 4
    said = geostat("doctor", run, "--repair")
    assert said.code == 0, said
    assert "Run the same `geostat ablate` again" in said.stdout + said.stderr
    assert "ablation" not in Store.open(run / "run.zarr").results
    assert module.GROUP == "ablation"
