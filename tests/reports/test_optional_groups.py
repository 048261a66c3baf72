"""Optional groups on the page; without one its figure is refused with the command. Figures,
captions and tables of the normaliser and of predicted curves show their groups.
"""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from support import optional_groups as made_up
from support.optional_groups import run_with
from support.reports_tree import HEADS, LAYERS, POSITIONS, cells, run_tree, with_groups

from reports.errors import InputError
from reports.figures.plan import PLANS
from reports.figures.plan import draw as drawn
from reports.page import page as page_module
from reports.run import Run
from reports.tables.table import Table
from reports.topics.ablation import figure_ablation
from reports.topics.effective import figure_effective, figure_effective_layers
from reports.topics.listed import FIGURES, tables
from reports.topics.normaliser import caption_normaliser, figure_normaliser
from reports.topics.predictive import caption_predictive, figure_predictive
from reports.topics.sink_and_regimes import figure_sink


def test_the_page_has_questions_figures_and_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    groups = ("ablation", "effective", "normaliser")
    shown = [plan for plan in FIGURES if plan.name in groups]
    monkeypatch.setattr(page_module, "plans", lambda run: shown)
    tree = with_groups(**{name: getattr(made_up, name)() for name in groups})
    page = page_module.write_page(tree, tmp_path).read_text(encoding="utf-8")
    assert "How many tokens does a query need?" in page
    assert "How do weights decay with length" in page
    for name in (
        *("head_prediction", "head_function", "head_needs", "budgets", "regime_cuts", "contexts"),
        *("effective", "effective_sets", "effective_curves", "normaliser"),
    ):
        assert f'id="table-{name}"' in page
        assert (tmp_path / f"tables/{name}.tex").exists()
    for name in groups:
        before, figure, _ = page.partition(f'id="figure-{name}"')
        assert figure
        assert 'id="about-reach"' not in before  # the topic of what has no other
        assert (tmp_path / f"figures/{name}.pdf").exists()


@pytest.fixture(scope="module")
def tree() -> xr.DataTree:
    return with_groups(normaliser=made_up.normaliser(), predictive=made_up.predictive())


@pytest.fixture(scope="module")
def run(tree: xr.DataTree) -> Run:
    return Run.of(tree)


@pytest.fixture(scope="module")
def by_name(tree: xr.DataTree) -> dict[str, Table]:
    return tables(tree)


@pytest.mark.parametrize(
    ("draw", "remedy"),
    [
        (figure_sink, "has no /sink; expected results of a confrontation"),
        (figure_ablation, "Measure them with `geostat ablate`"),
        (figure_effective, "Measure them with `geostat effective`"),
        (figure_effective_layers, "Measure them with `geostat effective --each layer`"),
        (figure_normaliser, "Measure them with `geostat normaliser`"),
        (figure_predictive, "expected predicted curves. Confront it again with --predict."),
    ],
)
def test_a_run_without_the_group_is_refused_with_the_command(draw, remedy: str):
    with pytest.raises(InputError) as raised:
        draw(Figure().subplots(1, 2), Run.of(run_tree()))
    assert remedy in str(raised.value)


def test_curves_of_the_normaliser_equal_the_dataset(run: Run):
    axes, data = Figure().subplots(1, 2), run.optional["normaliser"]
    assert figure_normaliser(axes, run) is axes
    decays, shares = (
        {container.get_label(): container.lines[0] for container in axis.containers}
        | {line.get_label(): line for line in axis.get_lines()}
        for axis in axes
    )
    largest = np.exp(data["log_largest"].values)
    for panel, label, x, y in (
        (decays, "measured weight, geometric mean", data["length"], largest),
        (
            decays,
            "decay as $1/L$",
            data["length"],
            largest[0] * made_up.LENGTHS[0] / np.array(made_up.LENGTHS),
        ),
        (shares, "measured share", data["n"], data["within"]),
        (shares, "random directions", data["n"], data["within_chance"]),
        (shares, "random directions, flat weights", data["n"], data["within_flat"]),
    ):
        np.testing.assert_allclose(panel[label].get_xdata(), x, err_msg=label)
        np.testing.assert_allclose(panel[label].get_ydata(), y, err_msg=label)
    assert list(shares["GPT-2 in arXiv 2508.17821"].get_ydata()) == [0.70, 0.70]
    (bars,) = axes[1].containers[0].lines[2]
    value, error = (float(data[name][0]) for name in ("within", "within_se"))
    np.testing.assert_allclose(bars.get_segments()[0][:, 1], [value - error, value + error])


def test_the_finding_on_the_normaliser_quotes_its_numbers(run: Run):
    caption = caption_normaliser(run)
    assert caption.finding == (
        f"The largest weight decays as L to the power −0.30 from L = 16 to {POSITIONS}."
    )
    assert [quoted.value for quoted in caption.numbers] == pytest.approx([16, POSITIONS, 0.3])
    unknown = made_up.normaliser().assign(power=np.nan * run.optional["normaliser"]["power"])
    assert caption_normaliser(run_with(normaliser=unknown)).finding == ""


def test_the_table_of_the_normaliser_has_measured_values_bounds_and_reported_values(
    run: Run, by_name
):
    table = by_name["normaliser"]
    rows = {row[0]: row[1:] for row in table.frame().itertuples(index=False)}
    data = run.optional["normaliser"]
    near = data.sel(n=round(0.06 * POSITIONS))
    share, response = rows[f"$N_s/N$, $N = {int(near['n'])}$"], rows["response, $T = 0.1$"]
    assert rows[r"power $\gamma$"][0].startswith("0.30")
    assert rows["critical $N/L$"][0].startswith("0.50")
    assert rows["critical $N/L$"][3] == "near 0.06"
    assert rows["the same, flat weights"][3] == "0.70 to 0.85"
    assert response[1] == "5"
    for shown, expected, tolerance in (
        (rows["the same, flat weights"][2], near["within_flat"], 1e-3),
        (share[0], near["within"], 0.01),
        (share[2], near["within_chance"], 0.01),
        (response[0], data["response"][1], 0.05),
    ):
        assert float(shown.split(" ± ")[0]) == pytest.approx(float(expected), abs=tolerance)


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
    unchecked = made_up.predictive().isel(check=slice(0, 0))
    assert "predictive_check" not in tables(with_groups(predictive=unchecked))


def test_each_panel_draws_every_cell_once(run: Run):
    figure = drawn(PLANS["predictive"], run)
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
        assert counted == LAYERS * HEADS * made_up.N_PREDICTED.size, index
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
    some = made_up.predictive().sel(source=["offset", "measured", "heads", "floor"])
    figure = drawn(PLANS["predictive"], run_with(predictive=some))
    assert [axis.get_visible() for axis in figure.axes] == [True, True, False, False] * 2
