"""`run.geostat.sel`: whatever has the dimension is selected, and nothing of a part speaks of all
heads.
"""

import re

import numpy as np
import pytest
import xarray as xr
from support.spine import Finished

import geostat as gs
from geostat.verdicts.recounted import recounted

EACH = ("precision", "attention_weight", "value_norm")


def test_every_group_that_has_the_dimension_is_selected(finished: Finished):
    run = finished.tree
    part = run.geostat.sel(layer=[3, 1], head=slice(2, 3))
    for name, node in part.children.items():
        whole = run[name].to_dataset()
        for dim, labels in {"layer": [1, 3], "head": [2, 3], "kv_head": [1]}.items():
            if dim in whole.coords:
                assert node.to_dataset()[dim].values.tolist() == labels, (name, dim)
    for name in EACH:
        own, whole = (tree["capture"].to_dataset()[name] for tree in (part, run))
        labels = {dim: own[dim].values for dim in ("layer", "head", "kv_head") if dim in own.dims}
        xr.testing.assert_identical(own, whole.sel(labels))
    beta = part["similarity"]["beta"]
    xr.testing.assert_equal(beta, run["similarity"]["beta"].sel(layer=[1, 3], kv_head=[1]))


def test_a_part_says_so_and_nothing_of_the_whole(finished: Finished):
    part = finished.tree.geostat.sel(layer=2)
    assert part.attrs["selection"] == {"layer": [2]}
    assert not {"sentences", "key_results", "scoreboard"} & set(part["summary"].attrs)
    assert not {"pooled", "sink", "heads", "separable", "ingredients"} & set(part.children)
    assert not [name for name in part["norms"].to_dataset() if name.startswith("compressed_token")]
    assert "A part of a run (layer 2)" in str(part.geostat)
    assert "selection" not in finished.tree.attrs


@pytest.mark.slow
def test_averages_are_made_anew_of_what_is_left(finished: Finished):
    part = finished.tree.geostat.sel(layer=2, head=1)
    groups = gs.open(finished.out)["queries"].to_dataset()
    own = groups["precision"].sel(layer=2, head=1).mean("document")
    np.testing.assert_allclose(part["summary"]["precision_mean"], own, rtol=1e-5)


@pytest.mark.slow
def test_claims_are_counted_anew(finished: Finished):
    whole = finished.tree["verdicts"].to_dataset()
    counts = [name for name in recounted(whole) if whole[name].dtype.kind in "iu"]
    assert {"holds", "fails", "tested", "holds_adjusted", "fails_adjusted"} <= set(counts)
    xr.testing.assert_equal(recounted(whole)[counts], whole[counts])
    parts = [finished.tree.geostat.sel(layer=layer).geostat.claims() for layer in range(4)]
    names = ["holds", "fails", "undetermined", "no_estimate"]
    summed = sum(part[names] for part in parts)
    assert summed.equals(finished.tree.geostat.claims()[names])
    assert parts[0]["true_share"].isna().all()


def test_heads_and_value_heads_come_together(finished: Finished):
    for asked, heads, value_heads in (
        ({"head": 3}, [3], [1]),
        ({"kv_head": 0}, [0, 1], [0]),
        ({"head": [1, 2]}, [1, 2], [0, 1]),
        ({"head": slice(1, None), "kv_head": 0}, [1], [0]),
    ):
        part = finished.tree.geostat.sel(**asked)["capture"]
        assert part["head"].values.tolist() == heads
        assert part["kv_head"].values.tolist() == value_heads


def test_a_part_of_a_part_and_all_of_a_run(finished: Finished):
    run = finished.tree
    twice = run.geostat.sel(layer=[1, 2]).geostat.sel(layer=2, kv_head=1)
    once = run.geostat.sel(layer=2, head=[2, 3])
    assert twice.attrs["selection"] == once.attrs["selection"]
    xr.testing.assert_identical(twice["weights"].to_dataset(), once["weights"].to_dataset())
    assert run.geostat.sel(layer=slice(None)) is run
    assert run.geostat.sel() is run


def test_documents_leave_what_was_measured(finished: Finished):
    names = finished.tree["capture"]["document"].values.tolist()
    part = finished.tree.geostat.sel(document=names[1:])
    assert set(part.children) <= {"capture", "null", "queries", "sinks", "measured_envelope"}
    assert part["capture"]["document"].values.tolist() == names[1:]
    assert [row["name"] for row in part.attrs["manifest"]["documents"]] == names[1:]
    with pytest.raises(gs.InputError, match="has no /verdicts, only /capture"):
        part.geostat.claims()


@pytest.mark.slow
def test_a_part_is_fitted_confronted_plotted_and_reported(finished: Finished, tmp_path, one_figure):
    part = finished.tree.geostat.sel(layer=[0, 2], kv_head=1)
    axes = gs.plot.separability(part)
    mean = part["summary"]["precision_mean"].values
    drawn = [line.get_ydata() for line in axes[0].get_lines()]
    assert any(len(line) == mean.size and np.allclose(line, mean) for line in drawn)
    with pytest.raises(gs.InputError, match="holds no /sink; expected what a confrontation makes"):
        gs.plot.sink(part)
    page = gs.report(part, part, part, out=tmp_path).read_text(encoding="utf-8")
    assert "A part of a run: layer 0, 2; head 2, 3; kv_head 1. Nothing here speaks of" in page
    again = gs.confront(part, gs.fit(part), editions=("sharp",), points=3, swap=False)
    assert "mean of 4 heads" in again["summary"].attrs["sentences"][0]
    assert part.geostat.head("L2H3").attrs["kv_head"] == 1
    with pytest.raises(gs.InputError, match="head 1 is not in this run, expected one of 2 to 3"):
        part.geostat.head("L2H1")
    with pytest.raises(gs.InputError, match="holds another run"):
        gs.fit(part, save=finished.out)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"layer": 9}, "layer=9: the run has no such layer, expected one of 4, 0 to 3. Give one,"),
        ({"layer": "2"}, "layer='2': the run has no such layer"),
        ({"layer": True}, "layer=True: the run has no such layer"),
        ({"layer": []}, "layer=[]: the run has no such layer"),
        ({"layer": [[0], [1, 2]]}, "the run has no such layer"),
        ({"head": slice("low", "high")}, "the run has no such head"),
        ({"head": slice(0, 3, "x")}, "the run has no such head"),
        ({"document": 0}, "document=0: the run has no such document, expected one of 3, '"),
        ({"position": 3}, "position is no dimension that a run is selected by, expected one of"),
        ({"head": 0, "kv_head": 1}, "none of these heads reads such a value head"),
    ],
)
def test_what_a_run_does_not_have_is_refused_in_one_line(finished: Finished, asked, said: str):
    with pytest.raises(gs.InputError, match=re.escape(said)) as refusal:
        finished.tree.geostat.sel(**asked)
    assert "\n" not in str(refusal.value)


def test_fits_alone_are_no_run_to_select_from(finished: Finished):
    fits = finished.tree.filter(lambda node: node.name not in ("capture",))
    with pytest.raises(gs.InputError, match="DataTree with /capture"):
        fits.geostat.sel(layer=0)
