"""Layers that see different numbers of tokens: split, joined, and never pooled."""

import re

import numpy as np
import pytest
import xarray as xr
from support.pages import page_html
from support.runs import small_run

from geostat.comparison.reading import groups_of
from geostat.datasets.parts import by_part, joined, layers_by_tokens, parts
from geostat.display.tree import with_display
from geostat.runs import stages
from geostat.runs.groups import joined as with_groups
from geostat.runs.groups import measured, tree_of
from geostat.runs.methods.accessor import RunMethods
from geostat.verdicts.requirements import hold_to, requirement, share
from reports.figures import every
from reports.page import page
from reports.run import Run
from reports.tables.every import write_tables

LENGTH, WINDOW = 40, 24
LAYERS = {LENGTH: [1, 3], WINDOW: [0, 2]}


def made(values, rows, notes):
    """A result of one part: by layer, pooled, a list of its own length, texts."""
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
        coords={"layer": LAYERS[LENGTH] if notes == "wide" else LAYERS[WINDOW], "n": [1, 2]},
        attrs={"notes": [notes], "documents": 3},
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    store = small_run(
        tmp_path_factory.mktemp("parts") / "run.zarr",
        family="gemma3",
        documents=3,
        length=LENGTH,
        n=np.array([1, 2, 4, 8, 16, 23, 24, 30, 40]),
    )
    captured = store.tree()
    fits = stages.fitted(measured(captured))
    fitted = with_groups(captured, tree_of(fits))
    return with_groups(fitted, tree_of(stages.confronted(fitted)))


def test_what_is_joined_splits_into_what_it_was():
    of_parts = [made([1.0, 3.0], 2, "wide"), made([0.5, 2.5], 3, "narrow")]
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
    again = parts(tree_of({"capture": capture, "made": whole}))
    for part, expected in zip(again, of_parts, strict=True):
        xr.testing.assert_identical(
            part["made"].to_dataset()[list(expected.data_vars)], expected.reset_coords(drop=True)
        )


def test_layers_that_see_as_much_stay_as_they_are():
    tree = tree_of({"capture": xr.Dataset(coords={"tokens": ("layer", [8, 8])})})
    assert parts(tree) == [tree]
    assert by_part(lambda part: {"seen": part is tree}, tree) == {"seen": True}


def test_a_part_knows_nothing_of_the_other_layers(run):
    """What is pooled over a part is what a model of these layers alone would give."""
    by_tokens = layers_by_tokens(run["capture"].to_dataset())
    assert by_tokens == LAYERS
    part = dict(zip(by_tokens, parts(run), strict=True))[WINDOW]
    alone = tree_of(
        {name: run[name].to_dataset().isel(layer=LAYERS[WINDOW]) for name in ("capture", "null")},
        run.attrs,
    )
    fitted = with_groups(alone, tree_of(stages.fitted(measured(alone))))
    for name, data in stages.confronted(fitted).items():
        found = part[name].to_dataset()
        assert set(found.data_vars) == set(data.data_vars), name
        for variable in data.data_vars:
            xr.testing.assert_equal(
                found[variable].reset_coords(drop=True), data[variable].reset_coords(drop=True)
            )


def test_means_are_of_equal_t(run):
    summary = run["summary"].to_dataset()
    assert summary["part"].values.tolist() == [LENGTH, WINDOW]
    capture = run["capture"].to_dataset()
    of_part = capture["precision"].isel(layer=LAYERS[WINDOW]).mean(("document", "layer", "head"))
    np.testing.assert_allclose(
        summary["precision_mean"].sel(part=WINDOW), of_part, rtol=1e-6, equal_nan=True
    )
    assert np.isnan(summary["precision_mean"].sel(part=WINDOW, n=30))
    assert float(summary["floor"].sel(part=WINDOW, n=2)) == 2 / WINDOW


def test_each_sentence_says_of_which_layers_it_speaks(run):
    sentences = run["summary"].attrs["sentences"]
    assert len(sentences) == 10
    for at, tokens in ((0, LENGTH), (5, WINDOW)):
        for sentence in sentences[at : at + 5]:
            assert sentence.startswith(f"Layers that see {tokens} tokens, 2 of 4: ")
    assert "(mean of 8 heads" in sentences[5]
    assert "sink at position 0 is not visible" in sentences[6]


@pytest.mark.slow
def test_the_page_shows_each_part_by_itself(run, tmp_path, monkeypatch):
    for module in (page, every):
        monkeypatch.setattr(module, "plans", lambda shown: every.FIGURES[:2])
    shown = with_display(run)
    html = page_html(shown)
    ids = [part.split('"')[0] for part in html.split(' id="')[1:]]
    assert len(ids) == len(set(ids))
    for tokens, other in ((LENGTH, WINDOW), (WINDOW, LENGTH)):
        assert f"Layers that see {tokens} tokens: 2 of" in " ".join(html.split())
        assert float(shown[str(tokens)]["display"]["uniform"]) == 1 / tokens
        assert set(Run.of(shown[str(tokens)]).capture["tokens"].values) == {tokens}, other
        assert f"figures/tokens_{tokens}/{every.FIGURES[1].name}.pdf" in html
    assert f"{LENGTH} in 2 layers, {WINDOW} in 2 layers" in html
    assert "4 layers of 4 heads" in html
    paths = [*write_tables(shown, tmp_path / "t"), *every.write_figures(shown, tmp_path / "f")]
    assert {path.parent.name for path in paths} == {f"tokens_{LENGTH}", f"tokens_{WINDOW}"}
    latex = "".join(path.read_text() for path in paths if path.suffix == ".tex")
    labels = re.findall(r"label{.*?}", latex)
    assert len(labels) == len(set(labels)) > 10
    assert f"label{{tab:geostat-norms-tokens-{WINDOW}}}" in labels


def test_a_requirement_counts_the_heads_of_all_parts(run):
    verdicts = run["verdicts"].to_dataset()
    counted, heads = share(verdicts, "norms.cv", "fails")
    answers = verdicts["answer_kv_head"].sel(claim_kv_head="norms.cv")
    assert heads == answers.size == 8
    assert counted == float((answers == -1).mean())
    assert hold_to(run, [requirement("norms.cv holds 0")])


def test_layers_that_see_most_are_compared(run):
    groups, attrs = groups_of(run)
    assert attrs["part"]["tokens"] == LENGTH
    assert groups["capture"]["layer"].values.tolist() == LAYERS[LENGTH]
    assert "part" not in groups["summary"].dims


@pytest.mark.slow
def test_layers_are_selected_whatever_number_of_tokens_they_see(run):
    part = RunMethods(run).sel(layer=[0, 1, 2])
    assert part["weights"]["layer"].values.tolist() == [0, 1, 2]
    for name in ("weights", "norms", "envelope", "verdicts"):
        whole = run[name].to_dataset()
        for variable in ("eta", "C", "recall", "answer_head"):
            if variable in whole:
                xr.testing.assert_equal(
                    part[name][variable].drop_vars("layer"),
                    whole[variable].sel(layer=[0, 1, 2]).drop_vars("layer"),
                )
    apart = {int(one["capture"]["tokens"].max()): one for one in parts(part)}
    assert set(apart) == {LENGTH, WINDOW}
    alone = RunMethods(run).sel(layer=[0, 2])
    assert "part" not in alone["summary"].dims
    np.testing.assert_allclose(
        alone["summary"]["recall_mean"], apart[WINDOW]["summary"]["recall_mean"]
    )
    assert RunMethods(alone)._repr_html_().count("<svg") == 5
    assert RunMethods(run)._repr_html_().count("Layers that see") >= 2
    assert str(RunMethods(run).summary()).count("2 layers that see") == 6
