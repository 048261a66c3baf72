"""Figures: drawn on given axes, equal for equal data, without what a run lacks, and nothing left
open.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from fontTools import subset
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from support.experiments import with_typical_heads
from support.figures import assert_labels_stand_apart
from support.reports_tree import N, run_tree

from geostat.display.separability import CONTRIBUTIONS, SELECTED
from geostat.display.tree import with_display
from reports.errors import InputError
from reports.figures import every, rendering, style
from reports.figures.assumptions import figure_norms, figure_weights
from reports.figures.captions import assumptions, separability
from reports.figures.captions.caption import Caption, figures_of
from reports.figures.every import draw, plans, write_figures
from reports.figures.separability import figure_separability
from reports.run import Run

TREE = run_tree()
FIGURES = plans(Run.of(TREE))
FONTS = style.STYLE["pdf.fonttype"]
"""What users get; the tests at large draw the letters instead, which is quicker."""


@pytest.mark.parametrize(
    "run",
    [TREE, pytest.param(run_tree(window=40)["40"], marks=pytest.mark.slow)],
    ids=["all seen", "window"],
)
@pytest.mark.parametrize("plan", FIGURES, ids=lambda plan: plan.name)
def test_no_label_covers_another_or_leaves_the_figure(plan, run):
    assert_labels_stand_apart(plan, Run.of(run))


@pytest.mark.parametrize("plan", FIGURES, ids=lambda plan: plan.name)
def test_labels_stand_apart_in_a_column_too_and_can_be_read(plan):
    figure = assert_labels_stand_apart(plan, Run.of(TREE), 3.25)
    assert figure.get_figwidth() == 3.25
    assert smallest(figure) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("plan", FIGURES, ids=lambda plan: plan.name)
def test_labels_stand_apart_on_a_slide_too_and_can_be_read_from_afar(plan):
    figure = assert_labels_stand_apart(plan, Run.of(TREE), look="slides")
    assert figure.get_size_inches().tolist() == [10, 5.625]
    assert smallest(figure) >= 14


def smallest(figure):
    """The smallest type of a figure, in points."""
    return min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text().strip())


@pytest.mark.parametrize("plan", FIGURES, ids=lambda plan: plan.name)
def test_no_legend_says_what_another_says(plan):
    figure = draw(plan, Run.of(TREE))
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    words = [text.get_text() for legend in legends if legend for text in legend.get_texts()]
    assert len(set(words)) == len(words)


def test_at_one_token_and_between_the_last_size_and_all_tokens_no_bound_is_drawn():
    axes = Figure().subplots(1, 2)
    figure_separability(axes, Run.of(TREE))
    sizes = TREE["summary"]["n_envelope"].values
    assert sizes[-1] == 64
    for line in axes[0].get_lines():
        if line.get_label().startswith("bounds"):
            np.testing.assert_array_equal(line.get_xdata(), sizes[1:-1])
            assert line.get_marker() == "."


def test_panels_side_by_side_stand_below_one_another_in_a_column():
    plan = next(plan for plan in FIGURES if plan.name == "norms")
    for width, below in ((style.WIDTH, False), (3.25, True)):
        first, second = (axes.get_position() for axes in draw(plan, Run.of(TREE), width).axes)
        assert (second.y1 < first.y0) == below
        assert (second.x0 > first.x1) != below


def test_figures_are_written_as_asked(tmp_path):
    paths = write_figures(TREE, tmp_path, only=["5", "norms"], kinds=["svg"], width=3.25)
    assert [path.name for path in paths] == [
        f"{name}{kind}"
        for name in ("norms", "separability")
        for kind in (".svg", "_caption.txt", "_caption.tex")
    ]
    with pytest.raises(InputError, match="'nor' is no figure of this run, expected some of idea,"):
        write_figures(TREE, tmp_path, only=["nor"])
    assert len([*tmp_path.iterdir()]) == 6


def test_captions_lie_beside_figures_as_text_and_safe_for_latex(tmp_path):
    plan = next(plan for plan in FIGURES if plan.name == "weights")
    caption = Caption("Weights α_i at 50% & T₁.", "‖v_0‖ is 3×10⁻⁴.")
    texts = [path.read_text() for path in every.write_caption(plan, caption, tmp_path)]
    assert texts[0] == (
        "Do weights have four phases? (Figure 4 of the paper)\n\n"
        "Weights α_i at 50% & T₁.\n\n‖v_0‖ is 3×10⁻⁴.\n"
    )
    assert texts[1] == (
        r"\caption[Do weights have four phases?]{Weights $\alpha$$_{\mathrm{i}}$ at 50\% \& T$_1$."
        r" \textbf{$\|$v$_{\mathrm{0}}$$\|$ is 3$\times$10$^-$$^4$.}}"
        "\n\\label{fig:geostat-weights}\n"
    )


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX is installed (pdflatex)")
def test_captions_are_set_by_latex(tmp_path):
    run, names = Run.of(with_typical_heads()), []
    for plan in plans(run):
        every.write_caption(plan, plan.caption(run), tmp_path)
        names.append(plan.name)
    figures = "".join(
        rf"\begin{{figure}}\input{{{name}_caption}}\end{{figure}}\clearpage " for name in names
    )
    text = rf"\documentclass{{article}}\begin{{document}}{figures}\end{{document}}"
    (tmp_path / "all.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout.decode("latin-1")[-1500:]
    assert not [name for name in names if "[U+" in (tmp_path / f"{name}_caption.tex").read_text()]


def test_a_table_in_the_docs_names_every_figure_and_its_counterpart():
    page = (Path(__file__).parents[3] / "docs" / "how_to" / "figures_for_slides.md").read_text(
        encoding="utf-8"
    )
    rows = re.findall(r"^\| (Figure \d+|) ?\| (`[a-z_`, ]+`) \|", page, re.MULTILINE)
    told = {name.strip("` "): paper for paper, names in rows for name in names.split(",")}
    assert told == {plan.name: plan.paper for plan in every.FIGURES}


def test_a_figure_draws_on_given_axes_and_returns_them():
    axes = Figure().subplots(1, 2)
    assert figure_norms(axes, Run.of(TREE)) is axes
    assert all(axis.has_data() for axis in axes)


def test_drawing_needs_no_pyplot():
    code = (
        "import sys, reports.page, reports.figures; assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_figure_is_written_as_pdf_and_png(tmp_path, monkeypatch):
    monkeypatch.setattr(every, "FIGURES", FIGURES[:2])
    paths = write_figures(TREE, tmp_path / "new")
    drawn = [path for path in paths if path.suffix in (".pdf", ".png")]
    assert [path.name for path in drawn] == ["idea.pdf", "idea.png", "norms.pdf", "norms.png"]
    assert all(path.stat().st_size > 1000 for path in drawn)
    assert not [path for path in (tmp_path / "new").iterdir() if path not in paths]


@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_equal_runs_give_equal_files(kind, monkeypatch):
    monkeypatch.setitem(style.STYLE, "pdf.fonttype", FONTS)
    plan = next(plan for plan in FIGURES if plan.name == "weights")
    assert rendering.rendered(draw(plan, Run.of(run_tree())), kind) == rendering.rendered(
        draw(plan, Run.of(run_tree())), kind
    )


def test_fonts_in_pdf_files_are_truetype_as_publishers_ask(monkeypatch):
    monkeypatch.setitem(style.STYLE, "pdf.fonttype", FONTS)
    written = rendering.rendered(draw(FIGURES[1], Run.of(TREE)), "pdf")
    assert b"/FontFile2" in written
    assert b"/Type3" not in written


@pytest.mark.slow
def test_fonts_in_pdf_files_are_cut_without_the_tables_that_lay_text_out(monkeypatch):
    monkeypatch.setitem(style.STYLE, "pdf.fonttype", FONTS)
    figure, known = draw(FIGURES[1], Run.of(TREE)), subset.Options().drop_tables
    short = rendering.rendered(figure, "pdf")
    assert subset.Options().drop_tables == known
    monkeypatch.setattr(rendering, "_LAYOUT", ())
    assert len(short) < len(rendering.rendered(figure, "pdf"))


def test_the_measured_line_is_the_run_s(tmp_path):
    axes = Figure().subplots(1, 2)
    figure_separability(axes, Run.of(TREE))
    lines = {line.get_label(): line for line in axes[0].get_lines()}
    np.testing.assert_allclose(
        lines["measured, 95% document band"].get_ydata(), TREE["summary"]["precision_mean"].values
    )
    assert {
        "null: random selection",
        "null: random directions",
        "bounds: printed, exponential Gram",
        "bounds: sharp, offset Gram",
    } <= set(lines)


def test_without_null_baselines_their_lines_are_left_out():
    axes = Figure().subplots(1, 2)
    figure_separability(axes, Run.of(run_tree(null=False)))
    assert not [line for line in axes[0].get_lines() if line.get_label().startswith("null")]
    assert "random selection" not in separability.separability(Run.of(run_tree(null=False))).text


def test_the_envelope_is_cut_to_what_a_share_can_be():
    axes = Figure().subplots(1, 2)
    figure_separability(axes, Run.of(TREE))
    assert min(np.min(line.get_ydata()) for line in axes[0].get_lines()) >= 0


def test_every_caption_ends_with_a_finding_made_of_numbers():
    run = Run.of(TREE)
    for plan in FIGURES[1:]:
        caption = plan.caption(run)
        assert "3 documents" in caption.text
        assert "Look for: " in caption.text
        assert any(character.isdigit() for character in caption.finding)
        assert caption.finding.endswith(".")


def test_a_measurement_below_a_null_baseline_by_more_than_its_interval_is_told():
    tree = run_tree()
    summary = tree["summary"].to_dataset()
    errors = xr.where((summary["n"] >= 2) & (summary["n"] <= 4), 4.4, 4.2)  # t(2) reaches 4.303
    level = summary["precision_mean"] + errors * summary["precision_se"]
    summary["precision_null"] = level.expand_dims(null=summary["null"].values)
    summary["recall_null"] = 0 * summary["recall_null"]
    tree["summary"] = xr.DataTree(summary)
    finding = separability.separability(Run.of(with_display(tree))).finding
    assert "Precision is below that of a random selection at N = 2 to 4." in finding
    assert "Recall is below" not in finding


def test_the_toy_picture_tells_precision_and_recall_right():
    centre = CONTRIBUTIONS[:SELECTED].sum(axis=0)
    distance = np.linalg.norm(CONTRIBUTIONS - centre, axis=1)
    axes = Figure().subplots(1, 2)
    FIGURES[0].draw(axes, Run.of(TREE))
    words = " ".join(text.get_text() for text in axes[1].texts)
    assert f"Precision = {SELECTED}/{(distance <= distance[:SELECTED].max()).sum()}" in words
    assert (
        f"Recall = {(distance[:SELECTED] <= distance[SELECTED:].min()).sum()}/{SELECTED}" in words
    )


def test_a_run_without_fits_is_refused_with_a_remedy():
    tree = run_tree()
    del tree["weights"]
    with pytest.raises(InputError, match=r"holds no /weights.*confront"):
        draw(FIGURES[1], Run.of(tree))


def test_sizes_of_the_run_label_the_axis():
    axes = Figure().subplots(1, 2)
    figure_separability(axes, Run.of(TREE))
    assert [label.get_text() for label in axes[0].get_xticklabels()] == [
        "1",
        "2",
        "4",
        "8",
        "16",
        "32",
        "64",
    ]
    assert axes[0].get_xlim()[1] > N[-1]


def test_the_toy_picture_shows_its_circles_and_tokens_whole():
    figure = draw(FIGURES[0], Run.of(TREE))
    FigureCanvasAgg(figure).draw()
    picture = figure.axes[0]
    inside = picture.get_window_extent()
    for circle in picture.patches:
        box = circle.get_window_extent()
        assert inside.x0 <= box.x0, circle
        assert inside.y0 <= box.y0, circle
        assert box.x1 <= inside.x1, circle
        assert box.y1 <= inside.y1, circle
        assert box.width == pytest.approx(box.height)
    low, high = picture.transData.inverted().transform([inside.p0, inside.p1])
    assert (low < CONTRIBUTIONS).all()
    assert (high > CONTRIBUTIONS).all()


def test_the_head_that_stands_for_all_is_named_the_same_in_picture_and_caption():
    tree = run_tree()
    tree["weights"]["rmse"].values[...] = (
        np.random.default_rng(3).permutation(np.linspace(0.5, 1.4, 8)).reshape(2, 4)
    )
    tree = with_display(tree)
    run = Run.of(tree)
    layer, head = run.display.attrs["weights_head"]
    misfit = run.weights["rmse"].values
    assert abs(misfit[layer, head] - np.median(misfit)) == np.abs(misfit - np.median(misfit)).min()
    axes = Figure().subplots(1, 2)
    figure_weights(axes, run)
    assert (
        axes[1].get_title(loc="left") + axes[1].get_title()
        == f"Head of median misfit: layer {layer}, head {head}"
    )
    assert (
        f"in the head of median misfit (layer {layer}, head {head}; root mean square"
        f" {figures_of(misfit[layer, head])} nats)" in assumptions.weights(run).text
    )
    np.testing.assert_allclose(
        axes[1].get_lines()[0].get_ydata(),
        np.exp(run.weights["log_weight_mean"].values[layer, head]),
    )
