"""Figures, captions and tables of the experiments: they show the datasets' numbers, and a run
may lack any group.
"""

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import t as student
from support.experiments import experimented, full, with_typical_heads
from support.figures import assert_labels_stand_apart
from support.reports_tree import POSITIONS, run_tree

from geostat.display.experiments import separable_side
from reports.errors import InputError
from reports.figures import style
from reports.figures.captions import experiments
from reports.figures.captions.caption import figures_of
from reports.figures.contributions import ELEVATION, figure_contributions, figure_sphere
from reports.figures.every import FIGURES, plans
from reports.figures.experiments import (
    figure_regime_curves,
    figure_regime_depth,
    figure_regimes,
    figure_sink,
)
from reports.run import Run
from reports.tables.every import tables
from reports.tables.experiments import experiment_tables
from reports.tables.separability import beyond_nulls

TABLES = ["sink", "regimes", "regime_sweep", "separable"]


ALWAYS = tuple(plan for plan in FIGURES if not plan.group)
APART = {"", "predictive", "verdicts", "ingredients", "rivals"}
APART |= {"effective", "effective_layers", "heads_cut", "normaliser"}
DRAWN = tuple(plan for plan in FIGURES if plan.group not in APART)  # those are tested apart


@pytest.mark.parametrize(
    "made",
    [
        with_typical_heads,
        pytest.param(lambda: experimented(documents=1), marks=pytest.mark.slow),
        pytest.param(lambda: experimented(window=40)["40"], marks=pytest.mark.slow),
    ],
    ids=["full", "one document", "window"],
)
@pytest.mark.parametrize("plan", DRAWN, ids=lambda plan: plan.name)
def test_no_label_covers_another_or_leaves_the_figure(plan, made):
    tree = made()
    if plan not in plans(Run.of(tree)):
        assert plan.name == "sphere"
        assert not tree["capture"]["sink_visible"].all()
        return
    assert_labels_stand_apart(plan, Run.of(tree))
    assert_labels_stand_apart(plan, Run.of(tree), 3.25)


@pytest.mark.slow
@pytest.mark.parametrize("plan", DRAWN, ids=lambda plan: plan.name)
def test_labels_stand_apart_on_a_slide_too(plan):
    assert_labels_stand_apart(plan, Run.of(with_typical_heads()), look="slides")


def test_a_run_has_the_figures_of_its_groups():
    assert plans(Run.of(run_tree())) == ALWAYS
    assert plans(Run.of(full())) == tuple(plan for plan in FIGURES if plan in {*ALWAYS, *DRAWN})
    with pytest.raises(InputError, match="holds no /sink"):
        figure_sink(Figure().subplots(1, 2), Run.of(run_tree()))


def test_the_correlations_drawn_are_the_run_s():
    axes = Figure().subplots(1, 2)
    assert figure_sink(axes, Run.of(full())) is axes
    lines = {line.get_label(): line for axis in axes for line in axis.get_lines()}
    sink = full()["sink"].to_dataset()
    np.testing.assert_array_equal(
        lines["measured: Pearson"].get_ydata(), sink["correlation"].sel(measure="pearson")
    )
    np.testing.assert_array_equal(
        lines["Pearson, free of document noise"].get_ydata(),
        sink["unattenuated"].sel(measure="pearson"),
    )
    np.testing.assert_array_equal(
        lines["measured: given the sink’s weight"].get_ydata(),
        sink["correlation"].sel(measure="given_weight"),
    )
    for measure, colour in (("pearson", style.BLUE), ("spearman", style.ORANGE)):
        dotted = [
            line.get_ydata()
            for line in axes[0].get_lines()
            if (line.get_linestyle(), line.get_color()) == (":", colour)
        ]
        assert len(dotted) == 2
        for side, drawn in zip(("lower", "upper"), dotted, strict=True):
            np.testing.assert_array_equal(
                drawn, sink[f"correlation_boot_{side}"].sel(measure=measure)
            )


def test_the_heights_of_the_bars_are_the_counts():
    axes = Figure().subplots(3, 1)
    figure_regime_depth(axes, Run.of(full()))
    heads = full()["heads"].to_dataset()
    for axis, criterion in zip(axes, ("size", "alignment", "both"), strict=True):
        heights = {bars.get_label(): [bar.get_height() for bar in bars] for bars in axis.containers}
        for name, label in (
            ("retriever", "Retriever"),
            ("reset", "Reset"),
            ("unclassified", "unclassified"),
        ):
            assert (
                heights[label]
                == heads["count"].sel(criterion=criterion, regime=name).values.tolist()
            )


def test_a_regime_without_heads_has_no_curve():
    axes = Figure().subplots(1, 2)
    figure_regime_curves(axes, Run.of(full()))
    heads = full()["heads"]["heads"].sel(criterion="both")
    drawn = {line.get_label().split(" (")[0].lower() for line in axes[0].get_lines()}
    assert drawn == {str(name) for name in heads["regime"].values if int(heads.sel(regime=name))}


def test_captions_say_what_the_datasets_hold():
    run = Run.of(full())
    sink = full()["sink"].to_dataset()
    finding = experiments.sink(run).finding
    assert finding.startswith("Heads whose sink resembles the other tokens have more Recall")
    assert (
        f"at N = 3, {figures_of(float(sink['correlation'].sel(measure='pearson', n=3)))} as"
        " measured" in finding
    )
    heads = full()["heads"].to_dataset()
    assert (
        f"{int(heads['heads'].sel(criterion='both', regime='unclassified'))} unclassified"
        in experiments.regimes(run).finding
    )
    for plan in DRAWN:
        caption = plan.caption(run)
        assert "nan" not in (caption.text + caption.finding).lower()


def test_where_nothing_correlates_the_caption_does_not_claim_it():
    finding = experiments.sink(Run.of(experimented(like=False))).finding
    assert "more Recall" not in finding
    assert "not settled" in finding


def test_one_document_claims_no_interval():
    run = Run.of(experimented(documents=1))
    for plan in DRAWN:
        caption = plan.caption(run)
        assert "95%" not in caption.text + caption.finding
        assert "nan" not in (caption.text + caption.finding).lower()
    assert "One document" in experiments.sink(run).finding
    assert not [
        line
        for table in experiment_tables(run)
        for line in [table.markdown()]
        if "nan" in line.lower()
    ]


def test_tables_hold_the_datasets_numbers():
    made = {table.name: table for table in experiment_tables(Run.of(full()))}
    assert list(made) == TABLES
    sink = made["sink"].frame()
    at = full()["sink"].to_dataset().sel(measure="pearson", n=3)
    row = sink[(sink["coefficient"] == "Pearson") & (sink["N"].str.startswith("3"))].iloc[0]
    assert float(row["as measured"].split(" ±")[0]) == pytest.approx(
        float(at["correlation"]), rel=0.05
    )
    heads = full()["heads"].to_dataset()
    regimes = made["regimes"].frame()
    for criterion, words in (("size", "sizes"), ("alignment", "alignment"), ("both", "both agree")):
        rows = regimes[regimes["told by"] == words]
        assert rows["heads"].astype(int).sum() == 8
        assert int(rows[rows["regime"] == "reset"]["heads"].iloc[0]) == int(
            heads["heads"].sel(criterion=criterion, regime="reset")
        )
    separable = made["separable"].frame()
    chosen = separable[
        (separable["statistic"] == "Recall")
        & (separable["null"] == "random selection")
        & (separable["N"] == "4")
    ].iloc[0]
    gain = float(full()["separable"]["recall_gain"].sel(null="random_selection", n=4))
    assert float(chosen["measured − null"].split(" ±")[0]) == pytest.approx(gain, abs=0.01)


def test_a_run_without_experiments_has_no_such_tables():
    assert not set(TABLES) & set(tables(run_tree()))
    assert set(TABLES) <= set(tables(full()))
    part = full().copy()
    del part["sink"], part["separable"]
    assert {"regimes", "regime_sweep"} == set(TABLES) & set(tables(part))
    assert {plan.name for plan in plans(Run.of(part))} - {plan.name for plan in ALWAYS} == {
        "regimes",
        "contributions",
        "regime_depth",
        "regime_curves",
        "sphere",
    }


def test_sizes_beyond_a_null_are_told_as_stretches():
    data = full()["separable"].to_dataset().copy(deep=True)
    n = data["n"].values
    p = np.where((n > 1) & (n < POSITIONS), 1.0, np.nan)
    p[np.isin(n, [2, 3])] = 0.01
    p[n == 8] = 0.01
    data["recall_p_holm"][:] = p
    data["recall_gain"][:] = np.where(n < 8, -0.1, 0.1)
    said = beyond_nulls(data.assign(separable_side(data)))
    assert "Recall against random selection: above it at N = 8 and below it at N = 2 to 3." in said


def test_the_contributions_drawn_are_those_of_the_typical_head():
    tree = with_typical_heads()
    data, axes = tree["contributions"].to_dataset(), Figure().subplots(1, 3)
    assert figure_contributions(axes, Run.of(tree)) is axes
    assert [text.get_text() for text in axes[1].texts] == ["no head of this regime"]
    assert [axis.get_title(loc="left") + axis.get_title() for axis in axes] == [
        "Retriever: L1H2",
        "Mixer: none",
        "Reset: L0H3",
    ]
    for axis, regime in ((axes[0], "retriever"), (axes[2], "reset")):
        points = axis.collections[0].get_offsets()
        np.testing.assert_allclose(
            points[:, 1], data["contribution"].sel(regime=regime).values.ravel()
        )
        stars = next(line for line in axis.get_lines() if line.get_marker() == "*")
        np.testing.assert_allclose(stars.get_ydata(), data["last_contribution"].sel(regime=regime))


def test_points_on_the_sphere_are_drawn_where_they_lie():
    axes = Figure().subplots(1, 3)
    figure_sphere(axes, Run.of(full()))
    points = full()["sphere"]["point"].values
    for axis, panel in zip(axes, points, strict=True):
        drawn = np.concatenate([crowd.get_offsets() for crowd in axis.collections])
        assert len(drawn) == len(panel)
        lengths = np.linalg.norm(drawn, axis=1)
        assert (lengths <= 1 + 1e-9).all()  # none outside of the outline
        top = np.array([0.0, np.cos(ELEVATION)])  # where (0, 0, 1) is seen
        nearest = drawn[np.linalg.norm(drawn - top, axis=1).argmin()]
        highest = panel[panel[:, 2].argmax()]
        assert np.linalg.norm(nearest - top) <= np.linalg.norm(highest - [0, 0, 1]) + 1e-9


def test_a_typical_head_has_its_curves_with_their_bands():
    tree, axes = with_typical_heads(), Figure().subplots(2, 3)
    figure_regimes(axes, Run.of(tree))
    each = tree["capture"]["cosine_to_sink"].values[:, 1, 2]
    error = each.std(axis=0, ddof=1) / np.sqrt(len(each))
    low = each.mean(axis=0) - student.ppf(0.975, len(each) - 1) * error
    np.testing.assert_allclose(axes[1][0].get_lines()[0].get_ydata(), each.mean(axis=0))
    band = axes[1][0].collections[0].get_paths()[0].vertices
    np.testing.assert_allclose(band[:, 1].min(), low.min())
    np.testing.assert_allclose(
        tree["heads"]["typical_cosine_to_sink_lower"].sel(regime="retriever"), low
    )
