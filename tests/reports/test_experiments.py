"""Sink, regimes and null baselines: figures, captions and tables show the datasets' numbers."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from scipy.stats import t as student
from support.experiments import experimented, full, with_typical_heads
from support.reports_tree import POSITIONS, run_tree

from geostat.display.results import separable_side
from reports.figures import style
from reports.figures.plan import figures_of
from reports.run import Run
from reports.topics import separability, sink_and_regimes
from reports.topics.contributions import ELEVATION, figure_contributions, figure_sphere
from reports.topics.listed import plans, tables
from reports.topics.separability import beyond_nulls, fewest
from reports.topics.sink_and_regimes import (
    caption_regimes,
    caption_sink,
    figure_regime_curves,
    figure_regime_depth,
    figure_regimes,
    figure_sink,
)

TABLES = ["sink", "regimes", "regime_sweep", "separable"]
DRAWN = ("sphere", "sink", "regimes", "contributions", "regime_depth", "regime_curves")


def group(name: str) -> xr.Dataset:
    return full()[name].to_dataset()


def shown(run) -> list[str]:
    """Names of the figures and tables of a run that not every run has."""
    figures = [plan.name for plan in plans(Run.of(run)) if plan.group]
    return figures + [name for name in tables(run) if name not in tables(run_tree())]


def test_a_run_has_the_figures_and_tables_of_its_groups():
    assert shown(full()) == [*DRAWN, *TABLES]
    assert shown(run_tree()) == []
    part = full().copy()
    del part["sink"], part["separable"]
    assert shown(part) == [name for name in [*DRAWN, *TABLES] if name not in ("sink", "separable")]


def test_drawn_correlations_equal_the_run():
    axes = Figure().subplots(1, 2)
    assert figure_sink(axes, Run.of(full())) is axes
    lines = {line.get_label(): line for axis in axes for line in axis.get_lines()}
    for label, name, measure in (
        ("measured: Pearson", "correlation", "pearson"),
        ("Pearson, disattenuated", "unattenuated", "pearson"),
        ("measured: controlling for sink weight", "correlation", "given_weight"),
    ):
        expected = group("sink")[name].sel(measure=measure)
        np.testing.assert_array_equal(lines[label].get_ydata(), expected)
    for measure, colour in (("pearson", style.BLUE), ("spearman", style.ORANGE)):
        dotted = [
            line.get_ydata()
            for line in axes[0].get_lines()
            if (line.get_linestyle(), line.get_color()) == (":", colour)
        ]
        limits = [
            group("sink")[f"correlation_boot_{side}"].sel(measure=measure)
            for side in ("lower", "upper")
        ]
        np.testing.assert_array_equal(dotted, limits)


def test_bar_heights_equal_the_counts_and_a_regime_without_heads_has_no_curve():
    axes = Figure().subplots(3, 1)
    figure_regime_depth(axes, Run.of(full()))
    for axis, criterion in zip(axes, ("size", "alignment", "both"), strict=True):
        heights = {bars.get_label(): [bar.get_height() for bar in bars] for bars in axis.containers}
        for label in ("Retriever", "Reset", "unclassified"):
            counts = group("heads")["count"].sel(criterion=criterion, regime=label.lower())
            assert heights[label] == counts.values.tolist()
    axes = Figure().subplots(1, 2)
    figure_regime_curves(axes, Run.of(full()))
    counts = group("heads")["heads"].sel(criterion="both")
    drawn = {line.get_label().split(" (")[0].lower() for line in axes[0].get_lines()}
    assert drawn == {str(name) for name in counts["regime"].values if int(counts.sel(regime=name))}


def test_captions_state_the_datasets_numbers():
    run = Run.of(full())
    finding = caption_sink(run).finding
    assert finding.startswith("Heads with a sink more similar to other tokens have higher Recall")
    correlation = figures_of(float(group("sink")["correlation"].sel(measure="pearson", n=3)))
    assert f"at N = 3, {correlation} as measured" in finding
    unclassified = int(group("heads")["heads"].sel(criterion="both", regime="unclassified"))
    assert f"{unclassified} unclassified" in caption_regimes(run).finding
    without = caption_sink(Run.of(experimented(like=False))).finding
    assert "higher Recall" not in without
    assert "undetermined" in without


@pytest.mark.parametrize("documents", [1, 6])
def test_captions_and_tables_print_no_nan_and_one_document_claims_no_interval(documents: int):
    run = Run.of(experimented(documents=documents))
    captions = [plan.caption(run) for plan in plans(run) if plan.name in DRAWN]
    words = " ".join(caption.text + caption.finding for caption in captions)
    assert ("95%" in words) == (documents > 1)
    assert ("One document" in caption_sink(run).finding) == (documents == 1)
    written = [*sink_and_regimes.tables(run), *separability.tables(run)]
    words += " ".join(table.markdown() for table in written)
    assert "nan" not in words.lower()


def test_tables_contain_the_datasets_numbers():
    by_name = tables(full())
    sink = by_name["sink"].frame()
    row = sink[(sink["coefficient"] == "Pearson") & (sink["N"].str.startswith("3"))].iloc[0]
    correlation = float(group("sink")["correlation"].sel(measure="pearson", n=3))
    assert float(row["as measured"].split(" ±")[0]) == pytest.approx(correlation, rel=0.05)
    regimes = by_name["regimes"].frame()
    for criterion, words in (("size", "sizes"), ("alignment", "alignment"), ("both", "both agree")):
        rows = regimes[regimes["classified by"] == words]
        assert rows["heads"].astype(int).sum() == 8
        resets = int(rows[rows["regime"] == "reset"]["heads"].iloc[0])
        assert resets == int(group("heads")["heads"].sel(criterion=criterion, regime="reset"))
    separable = by_name["separable"].frame().set_index(["statistic", "null", "N"])
    measured = separable.loc[("Recall", "random selection", "4"), "measured − null"]
    gain = float(full()["separable"]["recall_gain"].sel(null="random_selection", n=4))
    assert float(measured.split(" ±")[0]) == pytest.approx(gain, abs=0.01)


def test_sizes_beyond_a_null_are_printed_as_ranges():
    data = full()["separable"].to_dataset().copy(deep=True)
    n = data["n"].values
    p = np.where((n > 1) & (n < POSITIONS), 1.0, np.nan)
    p[np.isin(n, [2, 3, 8])] = 0.01
    data["recall_p_holm"][:] = p
    data["recall_gain"][:] = np.where(n < 8, -0.1, 0.1)
    sentence = "Recall against random selection: above it at N = 8 and below it at N = 2 to 3."
    assert sentence in beyond_nulls(data.assign(separable_side(data)))


@pytest.mark.parametrize(
    ("heads", "documents", "words"),
    [
        (270, 8, "; with 8 documents it finds none in fewer than 43 heads"),  # 270/128/0.05 = 42.2
        (270, 16, ""),
        (270, 3, ""),
        (np.nan, 8, ""),
    ],
)
def test_the_fewest_heads_that_a_sign_flip_test_can_find(heads, documents, words):
    data = xr.Dataset({"precision_heads": ("n", [heads])}, attrs={"false_discovery_rate": 0.05})
    run = Run.of(run_tree(documents=documents))
    assert fewest(run, data) == words


def test_drawn_contributions_are_of_the_typical_head():
    tree = with_typical_heads()
    data, axes = tree["contributions"].to_dataset(), Figure().subplots(1, 3)
    assert figure_contributions(axes, Run.of(tree)) is axes
    assert [text.get_text() for text in axes[1].texts] == ["no head of this regime"]
    titles = [axis.get_title(loc="left") + axis.get_title() for axis in axes]
    assert titles == ["Retriever: L1H2", "Mixer: none", "Reset: L0H3"]
    for axis, regime in ((axes[0], "retriever"), (axes[2], "reset")):
        selected, points = data.sel(regime=regime), axis.collections[0].get_offsets()
        np.testing.assert_allclose(points[:, 1], selected["contribution"].values.ravel())
        stars = next(line for line in axis.get_lines() if line.get_marker() == "*")
        np.testing.assert_allclose(stars.get_ydata(), selected["last_contribution"])


def test_points_on_the_sphere_are_projected():
    axes = Figure().subplots(1, 3)
    figure_sphere(axes, Run.of(full()))
    for axis, panel in zip(axes, full()["sphere"]["point"].values, strict=True):
        drawn = np.concatenate([points.get_offsets() for points in axis.collections])
        assert len(drawn) == len(panel)
        assert (np.linalg.norm(drawn, axis=1) <= 1 + 1e-9).all()  # within the outline
        top = np.array([0.0, np.cos(ELEVATION)])  # projection of (0, 0, 1)
        nearest = np.linalg.norm(drawn - top, axis=1).min()
        highest = panel[panel[:, 2].argmax()]
        assert nearest <= np.linalg.norm(highest - [0, 0, 1]) + 1e-9


def test_a_typical_head_has_curves_with_bands():
    tree, axes = with_typical_heads(), Figure().subplots(2, 3)
    figure_regimes(axes, Run.of(tree))
    by_document = tree["capture"]["cosine_to_sink"].values[:, 1, 2]
    mean = by_document.mean(axis=0)
    error = by_document.std(axis=0, ddof=1) / len(by_document) ** 0.5
    low = mean - student.ppf(0.975, len(by_document) - 1) * error
    np.testing.assert_allclose(axes[1][0].get_lines()[0].get_ydata(), mean)
    band = axes[1][0].collections[0].get_paths()[0].vertices
    np.testing.assert_allclose(band[:, 1].min(), low.min())
    lower = tree["heads"]["typical_cosine_to_sink_lower"].sel(regime="retriever")
    np.testing.assert_allclose(lower, low)
