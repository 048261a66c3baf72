"""Layers with different numbers of visible tokens: split, joined, and never pooled."""

import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support.pages import page_html

from geostat.comparison.runs import groups_of
from geostat.datasets.parts import by_part, joined, layers_by_tokens, parts
from geostat.display.tree import with_display
from geostat.runs import stages
from geostat.runs.accessor import RunMethods
from geostat.runs.groups import joined as with_groups
from geostat.runs.groups import measured, tree_of
from geostat.topics.claims import enforce_requirements, requirement, share
from reports.page import page
from reports.run import Run
from reports.topics import listed
from reports.topics.listed import FIGURES, write_tables

LENGTH, WINDOW = 40, 24
LAYERS = {LENGTH: [1, 3], WINDOW: [0, 2]}


@pytest.fixture
def run(windowed: xr.DataTree) -> xr.DataTree:
    return windowed


def part_result(values: list[float], rows: int, tokens: int) -> xr.Dataset:
    """Return a result of one part: by layer, pooled, a list of any length, text."""
    layers = len(values)
    return xr.Dataset(
        {
            "by_head": (("layer", "head"), np.array(values)[:, None] * [1.0, 2.0]),
            "mean": ("n", [np.mean(values), 2.0]),
            "count": ((), layers),
            "found": ("row", np.arange(rows)),
            "token": ("row", np.array(["a", "b", "c"][:rows], dtype=object)),
            "share": (("row", "layer"), np.ones((rows, layers))),
            "any": ("n", [True, False]),
            "words": ("form", np.array(["x", "y"], dtype=object)),
        },
        coords={"layer": LAYERS[tokens], "n": [1, 2]},
        attrs={"notes": [str(tokens)], "documents": 3},
    )


def test_joined_parts_split_into_the_originals():
    of_parts = [part_result([1.0, 3.0], 2, LENGTH), part_result([0.5, 2.5], 3, WINDOW)]
    whole = joined(of_parts, LAYERS)
    assert whole["by_head"].sel(head=0).values.tolist() == [0.5, 1.0, 2.5, 3.0]
    assert whole["layer"].values.tolist() == [0, 1, 2, 3]
    assert whole["mean"].dims == ("part", "n")
    assert whole["words"].dims == ("form",)
    assert whole["found"].dtype == of_parts[0]["found"].dtype
    assert whole.attrs["documents"] == 3
    assert "notes" not in whole.attrs
    capture = xr.Dataset(
        {"alpha": (("layer", "head"), np.zeros((4, 2)))},
        coords={"tokens": ("layer", [WINDOW, LENGTH] * 2), "layer": range(4)},
    )
    split = parts(tree_of({"capture": capture, "made": whole}))
    for part, expected in zip(split, of_parts, strict=True):
        result = part["made"].to_dataset()[list(expected.data_vars)]
        xr.testing.assert_identical(result, expected.reset_coords(drop=True))


def test_a_run_of_one_t_is_its_only_part():
    tree = tree_of({"capture": xr.Dataset(coords={"tokens": ("layer", [8, 8])})})
    assert parts(tree) == [tree]
    assert by_part(lambda part: {"seen": part is tree}, tree) == {"seen": True}


def test_a_part_does_not_depend_on_other_layers(run: xr.DataTree):
    """Pooled results of a part equal those of a model with these layers alone."""
    by_tokens = layers_by_tokens(run["capture"].to_dataset())
    assert by_tokens == LAYERS
    part = dict(zip(by_tokens, parts(run), strict=True))[WINDOW]
    alone = {
        name: run[name].to_dataset().isel(layer=LAYERS[WINDOW]) for name in ("capture", "null")
    }
    fitted = tree_of(alone, run.attrs)
    fitted = with_groups(fitted, tree_of(stages.fitted(measured(fitted))))
    for name, expected in stages.confronted(fitted).items():
        result = part[name].to_dataset()
        assert set(result.data_vars) == set(expected.data_vars), name
        for variable in expected.data_vars:
            xr.testing.assert_equal(
                result[variable].reset_coords(drop=True), expected[variable].reset_coords(drop=True)
            )


def test_means_pool_layers_of_equal_t(run: xr.DataTree):
    summary, capture = run["summary"].to_dataset(), run["capture"].to_dataset()
    assert summary["part"].values.tolist() == [LENGTH, WINDOW]
    narrow = summary.sel(part=WINDOW)
    expected = capture["precision"].isel(layer=LAYERS[WINDOW]).mean(("document", "layer", "head"))
    np.testing.assert_allclose(narrow["precision_mean"], expected, rtol=1e-6, equal_nan=True)
    assert np.isnan(narrow["precision_mean"].sel(n=30))
    assert float(narrow["floor"].sel(n=2)) == 2 / WINDOW


def test_each_sentence_names_its_layers(run: xr.DataTree):
    sentences = run["summary"].attrs["sentences"]
    assert len(sentences) == 10
    for place, sentence in enumerate(sentences):
        tokens = LENGTH if place < 5 else WINDOW
        assert sentence.startswith(f"Layers that see {tokens} tokens, 2 of 4: ")
    assert "(mean of 8 heads" in sentences[5]
    assert "sink at position 0 is not visible" in sentences[6]


@pytest.mark.slow
def test_the_page_shows_each_part_separately(run: xr.DataTree, tmp_path: Path, monkeypatch):
    for module in (page, listed):
        monkeypatch.setattr(module, "plans", lambda shown: FIGURES[:2])
    shown = with_display(run)
    html = page_html(shown)
    ids = [part.split('"')[0] for part in html.split(' id="')[1:]]
    assert len(ids) == len(set(ids))
    for tokens in (LENGTH, WINDOW):
        part = shown[str(tokens)]
        assert f"Layers that see {tokens} tokens: 2 of" in " ".join(html.split())
        assert float(part["display"]["uniform"]) == 1 / tokens
        assert set(Run.of(part).capture["tokens"].values) == {tokens}
        assert f"figures/tokens_{tokens}/{FIGURES[1].name}.pdf" in html
    assert f"{LENGTH} in 2 layers, {WINDOW} in 2 layers" in html
    assert "4 layers of 4 heads" in html
    paths = [*write_tables(shown, tmp_path / "t"), *listed.write_figures(shown, tmp_path / "f")]
    assert {path.parent.name for path in paths} == {f"tokens_{LENGTH}", f"tokens_{WINDOW}"}
    latex = "".join(path.read_text() for path in paths if path.suffix == ".tex")
    labels = re.findall(r"label{.*?}", latex)
    assert len(labels) == len(set(labels)) > 10
    assert f"label{{tab:geostat-norms-tokens-{WINDOW}}}" in labels


def test_a_requirement_counts_the_heads_of_all_parts(run: xr.DataTree):
    verdicts = run["verdicts"].to_dataset()
    counted, heads = share(verdicts, "norms.cv", "fails")
    answers = verdicts["answer_kv_head"].sel(claim_kv_head="norms.cv")
    assert heads == answers.size == 8
    assert counted == float((answers == -1).mean())
    assert enforce_requirements(run, [requirement("norms.cv holds 0")])


def test_comparisons_use_the_layers_with_the_most_tokens(run: xr.DataTree):
    groups, attrs = groups_of(run)
    assert attrs["part"]["tokens"] == LENGTH
    assert groups["capture"]["layer"].values.tolist() == LAYERS[LENGTH]
    assert "part" not in groups["summary"].dims


@pytest.mark.slow
def test_layers_of_several_parts_can_be_selected(run: xr.DataTree):
    part = RunMethods(run).sel(layer=[0, 1, 2])
    assert part["weights"]["layer"].values.tolist() == [0, 1, 2]
    for group, name in (
        *(("weights", "eta"), ("norms", "C"), ("envelope", "recall")),
        ("verdicts", "answer_head"),
    ):
        expected = run[group].to_dataset()[name].sel(layer=[0, 1, 2])
        xr.testing.assert_equal(part[group][name].drop_vars("layer"), expected.drop_vars("layer"))
    by_tokens = {int(of_t["capture"]["tokens"].max()): of_t for of_t in parts(part)}
    assert set(by_tokens) == {LENGTH, WINDOW}
    alone = RunMethods(run).sel(layer=[0, 2])
    assert "part" not in alone["summary"].dims
    np.testing.assert_allclose(
        alone["summary"]["recall_mean"], by_tokens[WINDOW]["summary"]["recall_mean"]
    )
    assert RunMethods(alone)._repr_html_().count("<svg") == 5
    assert RunMethods(run)._repr_html_().count("Layers that see") >= 2
    assert str(RunMethods(run).summary()).count("2 layers that see") == 6
