"""`run.geostat.summary()`: numbers of the datasets in statsmodels tables."""

import numpy as np
import pytest
import xarray as xr
from statsmodels.iolib.summary import Summary
from support.latex import compiled, needs_latex, pages
from support.spine import Finished

import geostat as gs

HOSTILE = "a_b%&#{}\\input{x}$<script>\x1b[31m\u202e\n"


@pytest.fixture(scope="module")
def summary(finished: Finished) -> Summary:
    return finished.tree.geostat.summary()


@pytest.fixture(scope="module")
def hostile(finished: Finished) -> Summary:
    """Return the summary of a run whose model has a hostile name."""
    run = finished.tree.copy()
    run.attrs = dict(run.attrs) | {"model": {"id": HOSTILE}}
    return run.geostat.summary()


def row(summary: Summary, name: str) -> list[str]:
    """Return the cells of the first line that begins with a name."""
    line = next(line for line in str(summary).splitlines() if line.startswith(name))
    return line.removeprefix(name).split()


def test_it_is_a_statsmodels_summary(summary: Summary):
    assert isinstance(summary, Summary)
    assert repr(summary) == str(summary) == summary.as_text()
    assert summary._repr_html_() == summary.as_html()
    assert "C, content norm" in summary.as_csv()
    assert [table.title.split(":")[0] for table in summary.tables] == [
        "Attention heads of a model",
        *(f"Assumption {number}" for number in "123"),
        "Claims, head by head",
    ]


def test_numbers_are_those_of_the_run(summary: Summary, finished: Finished):
    pooled, norms = (finished.tree[name].to_dataset() for name in ("pooled", "norms"))
    level = pooled.sel(parameter="C")
    low, middle, high = np.quantile(norms["C"], (0.25, 0.5, 0.75))
    expected = [float(level[f"whole{end}"]) for end in ("", "_se", "_lower", "_upper")]
    expected += [middle, float(norms["C_se"].median()), low, high, norms["C"].size]
    cells = [float(cell) for cell in row(summary, "C, content norm")]
    np.testing.assert_allclose(cells, expected, rtol=1e-3)
    error = float(pooled["overall_mae_by_lag"].sel(gram="exponential"))
    assert float(row(summary, "MAE of mean cosines")[0]) == pytest.approx(error, rel=1e-3)


def test_claims_are_listed_with_counts_of_heads(summary: Summary, finished: Finished):
    for key, claim in finished.tree.geostat.claims().iterrows():
        names = ("holds", "holds_trivially", "fails", "undetermined", "no_estimate")
        counts = [claim[name] for name in names]
        start = 3 if claim["of"] == "kv_head" else 2
        assert [int(cell) for cell in row(summary, key)[start : start + 5]] == counts


def test_the_two_meanings_of_eta_have_separate_rows(summary: Summary, finished: Finished):
    oscillating = int(finished.tree["weights"]["omega"].notnull().sum())
    assert row(summary, "eta, oscillation's size")[-1] == str(oscillating)


def test_missing_stages_are_omitted_with_a_note(finished: Finished):
    run = finished.tree
    captured = run.filter(lambda node: node.name == "capture")
    text = str(captured.geostat.summary())
    assert "Assumption" not in text
    assert "Fit it: fits = geostat.fit(run)." in text
    fits = run.filter(lambda node: node.name in ("norms", "similarity", "weights", "pooled"))
    assert "Assumption 3" in str(fits.geostat.summary())
    assert str(gs.summary(captured, fits)).count("Assumption") == 3
    part = str(run.geostat.sel(layer=1).geostat.summary())
    assert "pooled" not in part
    assert "A part of a run (layer 1): results do not describe the whole run." in part
    single = str(captured.isel(document=[0]).geostat.summary())
    assert "One document gives no standard errors" in single


@pytest.mark.parametrize("value", [None, xr.DataTree(), 5])
def test_a_value_that_is_not_a_run_is_refused(value):
    with pytest.raises(gs.InputError, match="DataTree with /capture"):
        gs.summary(value)


def test_names_from_the_store_are_escaped_in_every_format(hostile: Summary):
    text, html, latex = hostile.as_text(), hostile.as_html(), hostile.as_latex()
    assert not {"\x1b", "\u202e"} & set(text)
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert r"\input" not in latex
    assert r"\textbackslash{}input" in latex


@needs_latex
@pytest.mark.slow
def test_latex_compiles_with_a_hostile_name(hostile: Summary, tmp_path):
    head = r"\documentclass[landscape]{article}\usepackage{booktabs}\begin{document}\tiny"
    log = compiled(tmp_path, f"{head}\n{hostile.as_latex()}\n\\end{{document}}\n")
    assert pages(log) >= 1
    assert [line for line in log.splitlines() if line.startswith("! ")] == []
