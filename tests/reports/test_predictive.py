"""Predicted curves: tables, figure and caption show the group."""

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from support.optional_groups import N_PREDICTED, predictive, run_with
from support.reports_tree import HEADS, LAYERS, cells, with_groups

from reports.figures.plan import PLANS, draw
from reports.run import Run
from reports.topics.listed import tables
from reports.topics.predictive import caption_predictive


@pytest.fixture(scope="module")
def by_name():
    return tables(with_groups(predictive=predictive()))


@pytest.fixture(scope="module")
def run() -> Run:
    return run_with(predictive=predictive())


def test_the_table_has_the_scores_of_each_source(by_name):
    table = by_name["predictive"]
    rows = cells(table)
    assert [row.split(" | ")[1] for row in rows[:6]] == [
        *("all fitted, exponential", "all fitted, offset", "only weights fitted"),
        *("all measured", "other heads’ mean", "$N/T$"),
    ]
    assert [row.split(" | ")[0] for row in rows] == ["$P$"] * 6 + ["$R$"] * 6
    assert rows[1] == (
        "$P$ | all fitted, offset | 0.20 | 0.500 ± 0.012 | 0.600 ± 0.012 | 20.0% | 0.700 ± 0.012"
        " | 0.800 ± 0.012 | 30.0% | 10.0%"
    )
    assert rows[4].split(" | ")[4] == "0"
    last = rows[11].split(" | ")
    assert last[2] == last[5] == last[9] == "n/a"
    assert "8 heads at 31 sizes N from 2 to 32" in table.caption
    assert "(5 for P, 5 for R)" in table.caption


def test_the_table_of_the_check_counts_deviations_from_simulation(by_name):
    table = by_name["predictive_check"]
    assert cells(table)[1] == "$R$ | 0.0040 | 0.019 | 0.070 | 0.0080 | 3 | 2 | 1"
    assert "3 (head, N) cells" in table.caption
    assert table.caption.endswith("1 cell is flagged.")
    unchecked = predictive().isel(check=slice(0, 0))
    assert "predictive_check" not in tables(with_groups(predictive=unchecked))


def test_each_panel_draws_every_cell_once(run: Run):
    figure = draw(PLANS["predictive"], run)
    assert [axis.get_title(loc="left") for axis in figure.axes[:4]] == [
        *("Exponential fit", "Offset fit", "Weights fitted", "All measured")
    ]
    for index, axis in enumerate(figure.axes):
        (density,) = (
            collection
            for collection in axis.collections
            if isinstance(collection, PolyCollection) and collection.get_array() is not None
        )
        counted = round(float(np.exp(density.get_array()).sum()))
        assert counted == LAYERS * HEADS * N_PREDICTED.size, index
    assert [axis.get_xlabel() for axis in figure.axes] == [""] * 4 + ["predicted"] * 4
    for axis in (figure.axes[3], figure.axes[7]):
        # measured = predicted: the medians lie on the line of equality
        middle = next(
            line for line in axis.lines if line.get_marker() == "o" and len(line.get_xdata())
        )
        np.testing.assert_allclose(middle.get_xdata(), middle.get_ydata())
    assert len(figure.legends[0].get_texts()) == 3


def test_the_caption_states_the_errors_of_predictions(run: Run):
    assert caption_predictive(run).finding == (
        "Mean absolute error of predictions. Precision: 0.0 with the exponential fit, 0.50 with the"
        " offset, 1.0 with only the weights fitted, 1.5 with all measured, 2.0 by the mean of the"
        " other heads; Recall: 0.0 with the exponential fit, 0.40 with the offset, 0.80 with only"
        " the weights fitted, 1.2 with all measured, 1.6 by the mean of the other heads."
    )


def test_missing_sources_leave_panels_empty():
    some = predictive().sel(source=["offset", "measured", "heads", "floor"])
    figure = draw(PLANS["predictive"], run_with(predictive=some))
    assert [axis.get_visible() for axis in figure.axes] == [True, True, False, False] * 2
