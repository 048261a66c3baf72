"""`run.geostat.sel`: indexed variables, and results about all heads that a selection drops."""

import re

import numpy as np
import pytest
import xarray as xr
from support.spine import Finished

import geostat as gs
from geostat.runs import accessor
from geostat.topics.verdicts import recounted

assert accessor.RunMethods


@pytest.fixture
def run(finished: Finished) -> xr.DataTree:
    return finished.tree


def test_every_group_with_the_dimension_is_indexed(run: xr.DataTree):
    part = run.geostat.sel(layer=[3, 1], head=slice(2, 3))
    labels = {"layer": [1, 3], "head": [2, 3], "kv_head": [1]}
    for name, node in part.children.items():
        selected, whole = node.to_dataset(), run[name].to_dataset()
        for dim in labels.keys() & whole.coords.keys():
            assert selected[dim].values.tolist() == labels[dim], (name, dim)
    for group, name in (
        *(("capture", name) for name in ("precision", "attention_weight", "value_norm")),
        ("similarity", "beta"),
    ):
        whole = run[group].to_dataset()[name]
        expected = whole.sel({dim: labels[dim] for dim in labels.keys() & set(whole.dims)})
        xr.testing.assert_identical(part[group].to_dataset()[name], expected)


def test_a_selection_says_so_and_drops_results_about_all_heads(run: xr.DataTree):
    part = run.geostat.sel(layer=2)
    assert part.attrs["selection"] == {"layer": [2]}
    assert not {"sentences", "key_results", "scoreboard"} & set(part["summary"].attrs)
    assert not {"pooled", "sink", "heads", "separable", "ingredients"} & set(part.children)
    assert not [name for name in part["norms"].to_dataset() if name.startswith("compressed_token")]
    assert "A part of a run (layer 2)" in str(part.geostat)
    assert "selection" not in run.attrs


@pytest.mark.slow
def test_averages_are_computed_over_the_selection(finished: Finished):
    part = finished.tree.geostat.sel(layer=2, head=1)
    groups = gs.open(finished.out)["queries"].to_dataset()
    expected = groups["precision"].sel(layer=2, head=1).mean("document")
    np.testing.assert_allclose(part["summary"]["precision_mean"], expected, rtol=1e-5)


@pytest.mark.slow
def test_claims_are_counted_over_the_selection(run: xr.DataTree):
    whole = run["verdicts"].to_dataset()
    counts = [name for name in recounted(whole) if whole[name].dtype.kind in "iu"]
    assert {"holds", "fails", "tested", "holds_adjusted", "fails_adjusted"} <= set(counts)
    xr.testing.assert_equal(recounted(whole)[counts], whole[counts])
    parts = [run.geostat.sel(layer=layer).geostat.claims() for layer in range(4)]
    names = ["holds", "holds_trivially", "fails", "undetermined", "no_estimate"]
    assert sum(part[names] for part in parts).equals(run.geostat.claims()[names])
    assert parts[0]["true_share"].isna().all()


@pytest.mark.parametrize(
    ("labels", "heads", "kv_heads"),
    [
        ({"head": 3}, [3], [1]),
        ({"head": [1, 2]}, [1, 2], [0, 1]),
        ({"head": slice(1, None), "kv_head": 0}, [1], [0]),
    ],
)
def test_selecting_heads_selects_their_kv_heads_and_vice_versa(
    run: xr.DataTree, labels, heads, kv_heads
):
    part = run.geostat.sel(**labels)["capture"]
    assert part["head"].values.tolist() == heads
    assert part["kv_head"].values.tolist() == kv_heads


def test_a_selection_of_a_selection_and_of_everything(run: xr.DataTree):
    twice = run.geostat.sel(layer=[1, 2]).geostat.sel(layer=2, kv_head=1)
    once = run.geostat.sel(layer=2, head=[2, 3])
    assert twice.attrs["selection"] == once.attrs["selection"]
    xr.testing.assert_identical(twice["weights"].to_dataset(), once["weights"].to_dataset())
    assert run.geostat.sel(layer=slice(None)) is run
    assert run.geostat.sel() is run


def test_a_selection_of_documents_keeps_the_measurement_only(run: xr.DataTree):
    names = run["capture"]["document"].values.tolist()
    part = run.geostat.sel(document=names[1:])
    assert set(part.children) <= {
        "capture",
        "null",
        "queries",
        "sinks",
        "ranks",
        "measured_envelope",
    }
    assert part["capture"]["document"].values.tolist() == names[1:]
    assert [row["name"] for row in part.attrs["manifest"]["documents"]] == names[1:]
    with pytest.raises(gs.InputError, match="has no /verdicts, only /capture"):
        part.geostat.claims()


@pytest.mark.slow
def test_a_selection_can_be_fitted_confronted_plotted_and_reported(
    finished: Finished, tmp_path, one_figure
):
    part = finished.tree.geostat.sel(layer=[0, 2], kv_head=1)
    mean = part["summary"]["precision_mean"].values
    drawn = [line.get_ydata() for line in gs.plot.separability(part)[0].get_lines()]
    assert any(len(line) == mean.size and np.allclose(line, mean) for line in drawn)
    with pytest.raises(gs.InputError, match="has no /sink; expected results of a confrontation"):
        gs.plot.sink(part)
    page = gs.report(part, part, part, out=tmp_path).read_text(encoding="utf-8")
    assert "A selection of a run: layer 0, 2; head 2, 3; kv_head 1. The results do not" in page
    again = gs.confront(part, gs.fit(part), editions=("sharp",), points=3, swap=False)
    assert "mean of 4 heads" in again["summary"].attrs["sentences"][0]
    assert part.geostat.head("L2H3").attrs["kv_head"] == 1
    with pytest.raises(gs.InputError, match="head 1 is not in this run, expected one of 2 to 3"):
        part.geostat.head("L2H1")
    with pytest.raises(gs.InputError, match="holds another run"):
        gs.fit(part, save=finished.out)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"layer": 9}, "layer=9: the run has no such layer, expected one of 4, 0 to 3. Give one,"),
        ({"layer": "2"}, "layer='2': the run has no such layer"),
        ({"layer": True}, "layer=True: the run has no such layer"),
        ({"layer": [[0], [1, 2]]}, "the run has no such layer"),
        ({"head": slice(0, 3, "x")}, "the run has no such head"),
        ({"document": 0}, "document=0: the run has no such document, expected one of 3, '"),
        ({"position": 3}, "position cannot select a part of a run, expected one of"),
        ({"head": 0, "kv_head": 1}, "none of these heads uses that KV head"),
    ],
)
def test_unknown_labels_are_refused_in_one_line(run: xr.DataTree, labels, message: str):
    with pytest.raises(gs.InputError, match=re.escape(message)) as refusal:
        run.geostat.sel(**labels)
    assert "\n" not in str(refusal.value)


def test_selecting_from_fits_without_a_capture_is_refused(run: xr.DataTree):
    with pytest.raises(gs.InputError, match="DataTree with /capture"):
        run.drop_nodes("capture").geostat.sel(layer=0)
