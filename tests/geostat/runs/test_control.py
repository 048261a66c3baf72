"""Untrained control of a run: stated in its answers, and left out on request."""

import json
from pathlib import Path

import pytest
import xarray as xr
from support.spine import Finished, geostat

from geostat.datasets.parts import tree_of
from geostat.runs.groups import joined
from geostat.topics import similarity
from geostat.topics.claims import read_tolerances
from geostat.topics.control import untrained_results, with_untrained
from geostat.topics.summary import key_results, scoreboard
from reports.text.key_result import sentence, untrained_in_words


def test_a_run_states_the_answers_of_the_untrained_model(finished: Finished):
    tree = finished.tree
    control = tree["control"].to_dataset()
    assert control.attrs["documents"] == 3
    results = [json.loads(line) for line in tree["summary"].attrs["key_results"]]
    assert all(result["untrained"]["answer"] for result in results)
    assert " The untrained model: " in sentence(results[0], "a model")
    norms = results[0]["untrained"]["counts"]
    assert norms["holds"] == int(control["holds"].sel(claim="norms.cv"))
    rows = json.loads(tree["summary"].attrs["scoreboard"])
    assert all(row["untrained"] for row in rows)
    assert "; untrained model: " in finished.said.stdout
    assert all(" Untrained model: " in text for text in tree["summary"].attrs["sentences"])


def test_the_sentence_on_rank_and_lag_counts_heads_of_both_models(finished: Finished):
    tree = finished.tree
    amended = tree["amended"].to_dataset()
    shown = amended["depends_on"].values
    shown[:] = 0
    shown.flat[:5] = [1, 1, 2, 3, 3]
    heads = shown.size
    control = tree["control"].to_dataset().assign(dependence=("effect", [5, 0, 2, 1]))
    changed = joined(tree, tree_of({"amended": amended, "control": control}))
    text = similarity.sentence(changed, tree["summary"].to_dataset(), read_tolerances())
    assert f"the lag in 4 of {heads} heads, the lag to the rank in 3, both in 2" in text
    assert "over 3 documents; untrained model, 3 documents: 1, 3 and 1 of 8)." in text
    assert int(tree["control"]["dependence"].sum()) > 0


def test_without_a_control_nothing_is_said_of_it(finished: Finished):
    tree = finished.tree.drop_nodes("control")
    assert untrained_results(tree) == {}
    for line in key_results(tree):
        result = json.loads(line)
        assert (result["untrained"], untrained_in_words(result)) == (None, "")
    assert {row["untrained"] for row in scoreboard(tree)} == {""}


def test_what_needs_no_training_is_no_finding():
    rows = [{"key": key, "answer": "confirmed"} for key in ("same", "other", "missing")]
    control = [
        {"key": "same", "answer": "confirmed", "here": "12 of 12 heads"},
        {"key": "other", "answer": "contradicted", "here": "0 of 12 heads"},
    ]
    tree = xr.DataTree.from_dict(
        {"/control": xr.Dataset(attrs={"scoreboard": json.dumps(control)})}
    )
    assert [row["untrained"] for row in with_untrained(rows, tree)] == [
        "confirmed: 12 of 12 heads; it needs no training",
        "contradicted: 0 of 12 heads",
        "",
    ]


@pytest.mark.slow
def test_a_run_without_a_control_has_no_group(
    model_folder: Path, text_folder: Path, tmp_path: Path
):
    words = ("run", model_folder, "--text", text_folder, "--documents", 2, "--length", 48)
    said = geostat(*words, "--control", "none", "--out", tmp_path)
    assert said.code == 0, said.stderr
    assert not (tmp_path / "run.zarr" / "control").exists()
    assert "untrained" not in said.stdout
