"""`run.geostat.summary()`: numbers of the datasets, in statsmodels' tables."""

import numpy as np
import pytest
import xarray as xr
from statsmodels.iolib.summary import Summary
from support.latex import compiled, needs_latex, pages
from support.spine import Finished

import geostat as gs

HOSTILE = "a_b%&#{}\\input{x}$<script>\x1b[31m\u202e\n"


@pytest.fixture(scope="module")
def summary(finished: Finished):
    return finished.tree.geostat.summary()


def row(text: str, name: str) -> list[str]:
    """The cells of the first line that begins with a name."""
    line = next(line for line in text.splitlines() if line.startswith(name))
    return line.removeprefix(name).split()


def test_it_is_a_summary_of_statsmodels_that_prints_itself(summary):
    assert isinstance(summary, Summary)
    assert repr(summary) == str(summary) == summary.as_text()
    assert summary._repr_html_() == summary.as_html()
    assert "C, content norm" in summary.as_csv()
    titles = [table.title for table in summary.tables]
    assert [title.split(":")[0] for title in titles] == [
        "Attention heads of a model",
        *(f"Assumption {number}" for number in "123"),
        "Claims, head by head",
    ]


def test_numbers_are_those_of_the_run(summary, finished: Finished):
    pooled, norms = (finished.tree[name].to_dataset() for name in ("pooled", "norms"))
    at = pooled.sel(parameter="C")
    low, middle, high = np.quantile(norms["C"], (0.25, 0.5, 0.75))
    expected = [*(float(at[f"whole{end}"]) for end in ("", "_se", "_lower", "_upper"))]
    expected += [middle, float(norms["C_se"].median()), low, high, norms["C"].size]
    np.testing.assert_allclose(
        [float(cell) for cell in row(str(summary), "C, content norm")], expected, rtol=1e-3
    )
    error = pooled["overall_mae_by_lag"].sel(gram="exponential")
    cells = row(str(summary), "MAE of mean cosines")
    assert float(cells[0]) == pytest.approx(float(error), rel=1e-3)


def test_claims_stand_with_their_counts(summary, finished: Finished):
    claims = finished.tree.geostat.claims()
    for key, claim in claims.iterrows():
        cells = row(str(summary), key)
        counts = [claim[name] for name in ("holds", "fails", "undetermined", "no_estimate")]
        start = 3 if claim["of"] == "kv_head" else 2
        assert [int(cell) for cell in cells[start : start + 4]] == counts


def test_eta_is_told_apart_where_it_means_another_thing(summary, finished: Finished):
    omega = finished.tree["weights"]["omega"]
    assert row(str(summary), "eta, oscillation's size")[-1] == str(int(omega.notnull().sum()))


def test_what_a_run_lacks_is_left_out_and_said(finished: Finished):
    run = finished.tree
    captured = run.drop_nodes([name for name in run.children if name != "capture"])
    text = str(captured.geostat.summary())
    assert "Assumption" not in text
    assert "Fit it: fits = geostat.fit(run)." in text
    fits = run.filter(lambda node: node.name in ("norms", "similarity", "weights", "pooled"))
    assert "Assumption 3" in str(fits.geostat.summary())
    assert str(gs.summary(captured, fits)).count("Assumption") == 3
    part = run.geostat.sel(layer=1).geostat.summary()
    assert "pooled" not in part.as_text()
    assert "A part of a run (layer 1): nothing here speaks of the whole." in part.as_text()
    one = captured.isel(document=[0]).geostat.summary()
    assert "One document gives no standard errors" in str(one)


@pytest.mark.parametrize("what", [None, xr.DataTree(), 5])
def test_what_is_no_run_is_refused(what):
    with pytest.raises(gs.InputError, match="DataTree with /capture"):
        gs.summary(what)


def hostile(run: xr.DataTree) -> xr.DataTree:
    changed = run.copy()
    changed.attrs = dict(run.attrs) | {"model": {"id": HOSTILE}}
    return changed


def test_foreign_names_are_escaped_everywhere(finished: Finished):
    made = hostile(finished.tree).geostat.summary()
    assert "\x1b" not in made.as_text()
    assert "\u202e" not in made.as_text()
    assert "<script>" not in made.as_html()
    assert "&lt;script&gt;" in made.as_html()
    assert r"\input" not in made.as_latex()
    assert r"\textbackslash{}input" in made.as_latex()


@needs_latex
@pytest.mark.slow
def test_latex_is_set_with_a_foreign_name(finished: Finished, tmp_path):
    body = hostile(finished.tree).geostat.summary().as_latex()
    head = r"\documentclass[landscape]{article}\usepackage{booktabs}\begin{document}\tiny"
    log = compiled(tmp_path, f"{head}\n{body}\n\\end{{document}}\n")
    assert pages(log) >= 1
    assert [line for line in log.splitlines() if line.startswith("! ")] == []
