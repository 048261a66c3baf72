"""Effective attention set sizes: figure, caption and tables show the dataset's numbers."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from support.optional_groups import TAUS, effective, run_with
from support.reports_tree import POSITIONS, cells

from geostat import paper
from reports.run import Run
from reports.topics.effective import FLOOR, MODES, caption_effective, figure_effective, tables


@pytest.fixture(scope="module")
def run() -> Run:
    return run_with(effective=effective())


def drawn(run: Run):
    axes = Figure().subplots(1, 2)
    figure_effective(axes, run)
    return axes


def test_drawn_curves_equal_the_dataset_and_the_mark_of_the_paper_is_labelled(run: Run):
    axes = drawn(run)
    for axis, mode in zip(axes, MODES, strict=True):
        lines = {line.get_label(): line for line in axis.get_lines()}
        curve = run.optional["effective"].sel(scope="all", rule="attention", mode=mode)
        known = np.isfinite(curve["loss_rise"].values)
        line = lines["weight $\\alpha$"]
        np.testing.assert_array_equal(line.get_xdata(), curve["n"].values[known])
        rises = np.maximum(curve["loss_rise"].values[known], FLOOR)
        np.testing.assert_allclose(line.get_ydata(), rises)
        marks = [line for line in axis.get_lines() if line.get_marker() == "o"]
        np.testing.assert_array_equal(marks[0].get_xdata(), curve["n_star"].values)
        (bars,) = axis.containers[0].lines[2]
        ends = np.array(bars.get_segments())
        np.testing.assert_allclose(ends[:, 0, 0], curve["n_star_lower"])
        np.testing.assert_allclose(ends[:, 1, 0], curve["n_star_upper"])
        np.testing.assert_allclose(ends[:, :, 1], np.stack([TAUS, TAUS], axis=1))
        star, label = paper.EFFECTIVE[mode], "Gemma-7B in arXiv 2609.37879"
        assert (label in lines) == (star <= POSITIONS)
        if label in lines:
            np.testing.assert_array_equal(lines[label].get_xydata(), [[star, 0.05]])
        later = marks[1].get_ydata() / np.array(TAUS)  # further rules are drawn above τ
        assert (later > 1.05).all()
    assert axes[0].get_ylim() == axes[1].get_ylim()


def test_an_unmeasured_mode_is_stated_and_does_not_affect_the_axis(run: Run):
    axes = drawn(run_with(effective=run.optional["effective"].sel(mode=["renormalisation"])))
    assert [text.get_text() for text in axes[0].texts] == ["not measured"]
    assert axes[0].get_legend() is None
    assert axes[1].get_legend() is not None
    rises = run.optional["effective"]["loss_rise"].sel(mode="renormalisation").max()
    assert axes[1].get_ylim()[1] < 2 * float(rises)


def test_a_single_layer_is_named_and_not_compared_with_the_paper():
    run = run_with(effective=effective(scope="layer 3"))
    labels = [label for axis in drawn(run) for label in axis.get_legend_handles_labels()[1]]
    assert not any("Gemma" in label for label in labels)  # reported for all layers only
    assert "in layer 3 alone" in caption_effective(run).text


def test_the_finding_quotes_the_numbers(run: Run):
    caption = caption_effective(run)
    stars = run.optional["effective"]["n_star"].sel(scope="all", rule="attention", tau=0.05)
    deleted, rescaled = (int(stars.sel(mode=mode)) for mode in MODES)
    assert caption.finding == (
        f"Selected by weight, {deleted} tokens per query keep the loss increase within 5% if the"
        f" other tokens are deleted, and {rescaled} tokens per query keep the loss increase within"
        " 5% if the selected weights are rescaled."
    )
    assert [quoted.value for quoted in caption.numbers] == [deleted, 0.05, rescaled, 0.05]
    for fragment in (
        "9 next tokens per document",
        "by the authors for Gemma-7B at 5%: 226 and 7 tokens",
        "in all layers and heads at once",
    ):
        assert fragment in caption.text
    assert caption_effective(run_with(effective=effective(("recent",)))).finding == ""


def test_the_table_has_every_size_and_the_reported_values(run: Run):
    table, *_ = tables(run)
    frame = table.frame()
    assert len(frame) == 2 * 2 + 2
    for row in frame.iloc[:4].itertuples(index=False):
        star = run.optional["effective"].sel(scope=row[0], rule=row[1], mode=row[2])
        ends = (star[f"n_star{end}"].values for end in ("", "_lower", "_upper"))
        shown = [f"{n:.0f} [{low:.0f}, {high:.0f}]" for n, low, high in zip(*ends, strict=True)]
        assert list(row[3 : 3 + len(TAUS)]) == shown
    for row, mode, star in ((-2, "deletion", "226"), (-1, "renormalisation", "7")):
        reported = frame.iloc[row].tolist()
        assert [*reported[:3], reported[4]] == ["Gemma-7B", "attention", mode, star]
    assert "Last rows" in table.caption
    assert "mean loss of the last 9 tokens of a window of" in table.caption
    other = run.optional["effective"].sel(tau=[0.01, 0.1]).assign_attrs(target="all")
    others, *_ = tables(run_with(effective=other))
    assert len(others.rows) == 2 * 2
    assert "Last rows" not in others.caption
    assert "mean loss of all tokens but the first of a window" in others.caption


def test_the_tables_have_sparse_sets_and_correlations_over_sizes(run: Run):
    _, sets, curves = tables(run)
    assert cells(sets)[0].startswith("all | sparsemax | deletion | 3.50 | 0.250 ± 0.000 | ")
    correlations = run.optional["effective"]["rank_correlation"]
    assert len(curves.rows) == int(correlations.notnull().sum()) > 0
    first = curves.frame().iloc[0].tolist()
    assert first[:3] == ["deletion", "Precision $P$", "all"]
    expected = float(correlations.sel(mode="deletion", statistic="precision", range="all"))
    shown = float(first[4].split(" ± ")[0].replace("−", "-"))
    assert shown == pytest.approx(expected, abs=0.05)
    assert "reports -0.70 (F with" in curves.caption
