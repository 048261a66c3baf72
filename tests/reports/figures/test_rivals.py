"""Figures of rival forms, of costs and of the ladder: counts, costs and intervals are the run's."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from support.figures import assert_labels_stand_apart
from support.spine import Finished

from geostat.display.tree import with_display
from reports.figures.captions import rivals
from reports.figures.every import FIGURES, plans
from reports.figures.rivals import figure_costs, figure_ladder, figure_rivals
from reports.run import Run


@pytest.fixture(scope="module")
def run(finished: Finished) -> Run:
    return Run.of(with_display(finished.tree))


@pytest.fixture
def predicted(run: Run) -> Run:
    sources = ["exponential", "offset", "all but weights", "measured", "heads"]
    data = {
        f"{score}_pooled_mae{part}": ("source", level + shift + 0.1 * np.arange(5.0)[::-1])
        for score, level in (("precision", 0.2), ("recall", 0.1))
        for part, shift in (("", 0.0), ("_lower", -0.05), ("_upper", 0.07))
    }
    return replace(run, predictive=xr.Dataset(data, coords={"source": sources}))


@pytest.mark.parametrize("name", ["rivals", "costs", "ladder"])
def test_no_label_covers_another_or_leaves_the_figure(predicted: Run, name: str):
    plan = next(plan for plan in FIGURES if plan.name == name)
    assert_labels_stand_apart(plan, predicted)
    assert_labels_stand_apart(plan, predicted, 3.25)
    assert_labels_stand_apart(plan, predicted, look="slides")


def test_bars_and_marks_are_the_counts(run: Run):
    axes = Figure().subplots(1, 2)
    assert figure_rivals(axes, run) is axes
    for axis, data, chosen in (
        (axes[0], run.similarity, "chosen"),
        (axes[1], run.weights, "preferred"),
    ):
        bars = {bar.get_label(): [one.get_width() for one in bar] for bar in axis.containers}
        assert bars["lowest loss left out"] == data["lowest_loss"].values.tolist()
        assert bars["clearly lowest"] == data["clearly_lowest"].values.tolist()
        marks = {line.get_label(): line.get_xdata() for line in axis.get_lines()}
        assert marks["lowest BIC"].tolist() == data["lowest_bic"].values.tolist()
        codes = data[chosen].values
        simplest = [int((codes == form).sum()) for form in range(len(marks["lowest BIC"]))]
        assert marks["simplest within 1 SE"].tolist() == simplest


def test_the_caption_counts_the_best_and_the_printed_form(run: Run):
    data = run.similarity.copy(deep=True)
    data["lowest_loss"][:], data["clearly_lowest"][:] = [1, 5, 0, 0, 0, 2], [0, 3, 0, 0, 0, 0]
    finding = rivals.rivals(replace(run, similarity=data)).finding
    assert finding.startswith(
        "Of similarity, the lowest loss is that of “exponential with an offset” in 5 of"
        f" {run.kv_heads} value heads (clearly in 3), of the printed form in 1. Of weights,"
    )


def test_costs_are_drawn_with_their_intervals(run: Run):
    axes = Figure().subplots()
    figure_costs(axes, run)
    rows = ["all but norms", "all but similarity", "all but weights", "none"]
    for container, score in zip(axes.containers, ("recall", "precision"), strict=True):
        at = run.needed("ingredients").sel(swap=rows)
        level, _, (bars,) = container
        np.testing.assert_allclose(level.get_xdata(), at[f"{score}_cost"])
        ends = np.array([segment[:, 0] for segment in bars.get_segments()])
        np.testing.assert_allclose(ends[:, 0], at[f"{score}_cost_lower"])
        np.testing.assert_allclose(ends[:, 1], at[f"{score}_cost_upper"])
    assert "(" in rivals.costs(run).finding


def test_the_ladder_has_a_rung_for_each_source(predicted: Run):
    axes = Figure().subplots()
    figure_ladder(axes, predicted)
    np.testing.assert_allclose(axes.containers[0][0].get_xdata(), [0.5, 0.4, 0.3, 0.2, 0.1])
    assert rivals.ladder(predicted).finding.endswith(
        "0.10 by the mean of the other heads. 0 rungs of 4 are nearer than the mean of the other"
        " heads."
    )


def test_a_run_without_them_has_no_such_figures(run: Run):
    bare = replace(run, ingredients=None, similarity=run.similarity.drop_vars("lowest_bic"))
    assert {"rivals", "costs", "ladder"} & {plan.name for plan in plans(bare)} == set()
