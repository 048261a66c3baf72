"""Predicted curves on the page: the table says what the group holds, the figure draws its cells,
and a run without the group has neither.
"""

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import PolyCollection
from support.reports_tree import HEADS, LAYERS, run_tree

from geostat.display.tree import with_display
from reports.errors import InputError
from reports.figures.captions.predictive import predictive
from reports.figures.every import draw, plans
from reports.figures.predictive import figure_predictive
from reports.run import Run
from reports.tables.every import tables

SOURCES = ["exponential", "offset", "all but weights", "measured", "heads", "floor"]
N = np.arange(2, 33)


def group() -> xr.Dataset:
    rng = np.random.default_rng(0)
    curve, by_source = ("layer", "head", "n_predicted"), ("source", "layer", "head", "n_predicted")
    data: dict[str, object] = {"flagged_share": ("source", [0.25, 0.1, 0.05, 0.0, np.nan, np.nan])}
    for name, short in (("precision", 0.5), ("recall", 0.4)):
        measured = rng.uniform(0, 1, (LAYERS, HEADS, N.size))
        guess = np.stack(
            [
                np.full(measured.shape, short),
                0.9 * measured,
                0.95 * measured,
                measured,
                0 * measured,
                0 * measured + 0.3,
            ]
        )
        data |= {name: (curve, measured), f"{name}_predicted": (by_source, guess)}
        data[f"{name}_settled"] = (
            ("layer", "head"),
            np.arange(LAYERS * HEADS).reshape(LAYERS, HEADS) > 2,
        )
        for place, key in enumerate(("pooled_mae", "pooled_bias", "slope", "intercept")):
            data |= {
                f"{name}_{key}": ("source", (short + 0.1 * place) * np.arange(6)),
                f"{name}_{key}_se": ("source", np.full(6, 0.012)),
            }
        data |= {
            f"{name}_{key}": ("source", [0.1, 0.2, 0.3, 0.3, 0.4, np.nan])
            for key in ("better", "r2_median")
        }
        data[f"{name}_pooled_bias"][1][4] = data[f"{name}_pooled_bias_se"][1][4] = 1e-17
        data[f"{name}_within"] = ("source", [0.2, 0.3, 0.4, 0.4, 0.5, np.nan])
        checked = {
            "median": 0.004,
            "ninety": 0.019,
            "worst": 0.07,
            "noise": 0.008,
            "far": 3,
            "surely_far": 2,
            "caught": 1,
        }
        data |= {f"{name}_check_{key}": ((), value) for key, value in checked.items()}
    data["check_flagged"] = ("check", [True, False, False])
    coords = {
        "source": np.array(SOURCES, dtype=object),
        "n_predicted": N,
        "layer": np.arange(LAYERS),
        "head": np.arange(HEADS),
    }
    return xr.Dataset(data, coords=coords, attrs={"draws": 1000, "documents": 3})


@pytest.fixture
def run() -> xr.DataTree:
    tree = run_tree()
    tree["predictive"] = xr.DataTree(group())
    return with_display(tree)


def test_the_table_says_how_well_each_source_predicts(run: xr.DataTree):
    table = tables(run)["predictive"]
    rows = table.frame().to_numpy().tolist()
    assert [row[:2] for row in rows[:6]] == [
        ["$P$", "all fitted, exponential"],
        ["$P$", "all fitted, offset"],
        ["$P$", "only weights fitted"],
        ["$P$", "all measured"],
        ["$P$", "other heads’ mean"],
        ["$P$", "$N/T$"],
    ]
    assert rows[1] == [
        "$P$",
        "all fitted, offset",
        "0.20",
        "0.500 ± 0.012",
        "0.600 ± 0.012",
        "20.0%",
        "0.700 ± 0.012",
        "0.800 ± 0.012",
        "30.0%",
        "10.0%",
    ]
    assert rows[4][4] == "0"
    assert rows[11][2] == rows[11][5] == rows[11][9] == "n/a"
    assert "8 heads at 31 sizes N from 2 to 32" in table.caption
    assert "(5 for P, 5 for R)" in table.caption


def test_the_table_of_the_check_counts_what_simulation_contradicts(run: xr.DataTree):
    table = tables(run)["predictive_check"]
    assert table.frame().to_numpy().tolist()[1] == [
        "$R$",
        "0.0040",
        "0.019",
        "0.070",
        "0.0080",
        "3",
        "2",
        "1",
    ]
    assert "3 (head, N) cells" in table.caption
    assert table.caption.endswith("1 cell is flagged.")
    tree = run_tree()
    tree["predictive"] = xr.DataTree(group().isel(check=slice(0, 0)))
    assert "predictive_check" not in tables(with_display(tree))


def test_the_figure_draws_every_cell_once_in_each_panel(run: xr.DataTree):
    plan = next(plan for plan in plans(Run.of(run)) if plan.name == "predictive")
    figure = draw(plan, Run.of(run))
    assert [axis.get_title(loc="left") for axis in figure.axes[:4]] == [
        "Exponential fit",
        "Offset fit",
        "Weights fitted",
        "All measured",
    ]
    for at, axis in enumerate(figure.axes):
        crowd = next(
            one
            for one in axis.collections
            if isinstance(one, PolyCollection) and one.get_array() is not None
        )
        assert round(float(np.exp(crowd.get_array()).sum())) == LAYERS * HEADS * N.size, at
    assert [axis.get_xlabel() for axis in figure.axes] == [""] * 4 + ["predicted"] * 4
    precise, recall = figure.axes[3], figure.axes[7]
    for axis in (precise, recall):  # measured = predicted: the medians lie on the line of equals
        middle = next(
            line for line in axis.lines if line.get_marker() == "o" and len(line.get_xdata())
        )
        np.testing.assert_allclose(middle.get_xdata(), middle.get_ydata())
    assert len(figure.legends[0].get_texts()) == 3


def test_the_caption_says_how_far_the_predictions_are(run: xr.DataTree):
    said = predictive(Run.of(run))
    assert (
        said.finding
        == "Mean distance of predicted from measured: Precision is missed by 0.0 with the"
        " exponential fit, 0.50 with the offset, 1.0 with only the weights fitted, 1.5 with all"
        " measured, 2.0 by the mean of the other heads; Recall is missed by 0.0 with the"
        " exponential fit, 0.40 with the offset, 0.80 with only the weights fitted, 1.2 with all"
        " measured, 1.6 by the mean of the other heads."
    )


def test_a_run_without_predictions_has_neither():
    tree = run_tree()
    assert "predictive" not in tables(tree)
    assert "predictive" not in [plan.name for plan in plans(Run.of(tree))]
    with pytest.raises(
        InputError,
        match=(
            r"^the run holds no /predictive; expected predicted curves\. Confront it again with"
            r" --predict\.$"
        ),
    ):
        figure_predictive(None, Run.of(tree))


def test_a_run_without_a_source_leaves_its_panels_empty():
    tree = run_tree()
    tree["predictive"] = xr.DataTree(group().sel(source=["offset", "measured", "heads", "floor"]))
    shown = Run.of(with_display(tree))
    figure = draw(next(plan for plan in plans(shown) if plan.name == "predictive"), shown)
    assert [axis.get_visible() for axis in figure.axes] == [True, True, False, False] * 2
