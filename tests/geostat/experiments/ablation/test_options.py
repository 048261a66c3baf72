"""Options of ablation, by command and in Python: repeated and refused calls."""

import json
import shutil
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.families import tiny, tokens
from support.spine import LENGTH, geostat

import geostat as gs
from empirical.store.store import Store
from geostat.experiments.ablation.budgets import WAYS
from geostat.experiments.ablation.options import AblateOptions
from geostat.experiments.session import Losses


@pytest.mark.slow
def test_the_lines_and_records_have_heads_budgets_and_regimes(run, data, words):
    lines = (run / "said").read_text().splitlines()
    assert lines[-1] == f"run: {run / 'run.zarr'}"
    assert sum(line.startswith("  budget of 4 tokens per head, deletion: ") for line in lines) == 1
    records = json.loads(geostat(*words, "--out", run, "--json", "--quiet").stdout)
    assert len(records["budgets"]) == 2 * 2 * 6
    assert len(records["regimes"]) == data["regime_rise"].size > 0
    finite = int(data["rank_correlation"].notnull().sum())
    assert len(records["correlations"]) == finite > 0
    stars = [record["n_star"] for record in records["single_heads"]]
    assert stars == data["head_n_star"].values.ravel().tolist()
    star = data["head_n_star"].sel(mode="deletion").values
    share = f"{100 * (star == 1).mean():.0f}%"
    (line,) = [line for line in lines if line.startswith(f"  single heads, deletion: {share}")]
    assert "of 16 need one token to keep the loss within 0.1%; half need at most" in line
    assert f"90% at most {np.sort(star.ravel())[14]:.0f} (" in line
    assert "answers" in records


@pytest.mark.slow
def test_the_same_ablation_measures_no_loss_again(words, run, data, tmp_path, monkeypatch):
    shutil.copytree(run, tmp_path, dirs_exist_ok=True)
    measured: list[int] = []
    loss = Losses._loss

    def counted(self: Losses, place: int, *given: Any) -> float:
        measured.append(place)
        return loss(self, place, *given)

    monkeypatch.setattr(Losses, "_loss", counted)
    assert geostat(*words, "--out", tmp_path, "--quiet", "--part", "heads").code == 0
    assert measured == [0]  # checks that the model is the same
    xr.testing.assert_identical(Store.open(tmp_path / "run.zarr").read("ablation"), data)


@pytest.mark.slow
def test_other_options_add_to_the_results(words, run, data, tmp_path):
    shutil.copytree(run, tmp_path / "more")
    more = ["--out", tmp_path / "more", "--quiet"]
    other = [*words, "--sizes", "8,1", "--budgets", "5", "--mode", "deletion", "--draws", 5]
    assert geostat(*other, "--part", "heads,budgets", *more).code == 0
    found = Store.open(tmp_path / "more" / "run.zarr").read("ablation")
    sizes = found["n"].values[found["head_rise"].notnull().any(("mode", "layer", "head")).values]
    assert sizes.tolist() == [1, 4, 8, 16]
    assert bool(found["head_rise"].sel(n=8, mode="renormalisation").isnull().all())
    assert found["budget"].values.tolist() == [4, 5, 9]
    for name, sizes in (("head_rise", [1, 4, 16]), ("precision", list(data["n"].values))):
        xr.testing.assert_equal(found[name].sel(n=sizes), data[name].sel(n=sizes))
    ways = {"way": [way for way in WAYS if way != "greedy"], "budget": [4, 9]}
    xr.testing.assert_equal(found["budget_rise"].sel(ways), data["budget_rise"].sel(ways))
    assert found.attrs["primary"] == "rise at N = 8"
    xr.testing.assert_equal(found["regime_rise"], data["regime_rise"])


@pytest.mark.slow
def test_other_options_keep_earlier_answers(words, run, data, tmp_path):
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
def test_single_parts_in_python(finished, model_folder, text_folder, tmp_path):
    shutil.copytree(finished.store, tmp_path / "run.zarr")
    keywords: dict[str, Any] = {"documents": text_folder, "count": 3, "length": LENGTH}
    keywords |= {"out": tmp_path, "sizes": [1, 4], "budgets": [4], "parts": ["budgets", "context"]}
    keywords |= {"target": "last:2", "contexts": [6, 40], "mode": "deletion"}
    found = gs.ablate(str(model_folder), **keywords)["ablation"].to_dataset()
    assert "head_rise" not in found
    greedy = found["budget_rise"].sel(way="greedy")
    assert bool(greedy.isnull().all())  # no single head was ablated
    assert bool(found["context_n_star"].notnull().all())
    assert bool(found["budget_rise"].drop_sel(way="greedy").notnull().all())
    assert all("budgets of 4 tokens" in line for line in found.attrs["answers"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parts": "layers"}, "--part layers: "),
        ({"sizes": "0,4"}, "--sizes 0,4: expected integers from 1"),
        ({"sizes": "4,8"}, "the greedy budget starts from N = 1"),
        ({"sizes": "1,40"}, "--sizes 40: a window has 40 tokens"),
        ({"sizes": 80, "parts": "heads"}, "--sizes 80: a window has 40 tokens"),
        ({"budgets": "x"}, "--budgets x: expected integers from 1"),
        ({"budgets": "99"}, "--budgets 99: a window has 40 tokens"),
        ({"parts": "regimes", "budgets": "99"}, "--budgets 99: a window has 40 tokens"),
        ({"tau": 0}, "--tau 0: expected a share above 0"),
        ({"tau": [0.1]}, "--tau [0.1]: expected a share above 0"),
        ({"draws": 0}, "--draws 0: expected an integer from 1 to 10000"),
        ({"draws": 2.5}, "--draws 2.5: expected an integer"),
        ({"parts": "context"}, "expected two contexts or more, and targets last:K"),
        ({"parts": "context", "contexts": "20,40", "target": "last:20"}, "last:10"),
        ({"parts": "context", "contexts": "20,80", "target": "last:9"}, "--contexts 80: a"),
    ],
    ids=str,
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(gs.InputError) as caught:
        AblateOptions(**{"length": 40, "sizes": "1,4", "budgets": "4"} | options)
    assert message in str(caught.value)


def test_a_refusal_in_python_names_the_keyword_before_any_measurement(tmp_path):
    with pytest.raises(gs.InputError, match=r"^draws 2\.5: expected an integer"):
        gs.ablate(tiny("llama"), documents=tokens(2, 40), draws=2.5, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
