"""Figures of assumptions and separability equal the run; their files and captions."""

import re

import numpy as np
import pytest
import xarray as xr
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from support.experiments import with_typical_heads
from support.latex import compiled, complaints, needs_latex
from support.places import DOCS
from support.reports_tree import N, group, run_tree, with_groups

from geostat.display.results import CONTRIBUTIONS, SELECTED
from reports.errors import InputError
from reports.figures import style
from reports.figures.plan import PLANS, Caption, draw, figures_of, write_caption
from reports.run import Run
from reports.topics import listed
from reports.topics.assumptions import caption_weights, figure_weights
from reports.topics.listed import FIGURES, plans, write_figures
from reports.topics.separability import caption_separability, figure_separability


@pytest.fixture(scope="module")
def run() -> Run:
    return Run.of(run_tree())


def test_the_panel_of_precision_has_the_measured_line_nulls_and_bounds_within_the_unit_interval(
    run,
):
    axes, summary = Figure().subplots(1, 2), run.summary
    figure_separability(axes, run)
    lines = {line.get_label(): line for line in axes[0].get_lines()}
    measured = lines["measured, 95% document band"].get_ydata()
    np.testing.assert_allclose(measured, summary["precision_mean"].values)
    nulls = {"random selection", "random directions", "permuted values"}
    assert {f"null: {null}" for null in nulls} <= set(lines)
    assert min(np.min(line.get_ydata()) for line in lines.values()) >= 0
    for name in ("bounds: printed, exponential Gram", "bounds: sharp, offset Gram"):
        drawn = lines[name].get_xdata()  # not at one token nor at all tokens
        np.testing.assert_array_equal(drawn, summary["n_envelope"].values[1:-1])
        assert lines[name].get_marker() == "."
    labels = [label.get_text() for label in axes[0].get_xticklabels()]
    assert labels == ["1", "2", "4", "8", "16", "32", "64"]
    assert axes[0].get_xlim()[1] > N[-1]


def test_missing_null_baselines_have_no_lines():
    axes, run = Figure().subplots(1, 2), Run.of(run_tree(null=False))
    figure_separability(axes, run)
    assert not [line for line in axes[0].get_lines() if line.get_label().startswith("null")]
    assert "random selection" not in caption_separability(run).text


def test_panels_are_stacked_in_a_column(run):
    for width, below in ((style.WIDTH, False), (3.25, True)):
        first, second = (axes.get_position() for axes in draw(PLANS["norms"], run, width).axes)
        assert (second.y1 < first.y0) == below
        assert (second.x0 > first.x1) != below


def test_a_run_without_fits_is_refused_with_a_remedy():
    tree = run_tree()
    del tree["weights"]
    with pytest.raises(InputError, match=r"has no /weights.*[Cc]onfront"):
        Run.of(tree)


def test_every_figure_is_written_as_pdf_and_png(tmp_path, monkeypatch):
    monkeypatch.setattr(listed, "FIGURES", FIGURES[:1] + FIGURES[2:3])
    paths = write_figures(run_tree(), tmp_path / "new")
    drawn = [path for path in paths if path.suffix in (".pdf", ".png")]
    assert [path.name for path in drawn] == ["idea.pdf", "idea.png", "norms.pdf", "norms.png"]
    assert all(path.stat().st_size > 1000 for path in drawn)
    assert not [path for path in (tmp_path / "new").iterdir() if path not in paths]


def test_selected_figures_are_written(tmp_path):
    paths = write_figures(run_tree(), tmp_path, only=["5", "norms"], kinds=["svg"], width=3.25)
    assert [path.name for path in paths] == [
        f"{name}{kind}"
        for name in ("norms", "separability")
        for kind in (".svg", "_caption.txt", "_caption.tex")
    ]
    with pytest.raises(InputError, match="'nor' is no figure of this run, expected some of idea,"):
        write_figures(run_tree(), tmp_path, only=["nor"])
    assert len([*tmp_path.iterdir()]) == 6


def test_captions_are_written_as_text_and_safe_latex(tmp_path):
    caption = Caption("Weights α_i at 50% & T₁.", "‖v_0‖ is 3×10⁻⁴.")
    plain, latex = (path.read_text() for path in write_caption(PLANS["weights"], caption, tmp_path))
    assert plain == (
        "Do weights have four phases? (Figure 4 of the paper)\n\n"
        "Weights α_i at 50% & T₁.\n\n‖v_0‖ is 3×10⁻⁴.\n"
    )
    assert latex == (
        r"\caption[Do weights have four phases?]{Weights $\alpha$$_{\mathrm{i}}$ at 50\% \& T$_1$."
        r" \textbf{$\|$v$_{\mathrm{0}}$$\|$ is 3$\times$10$^-$$^4$.}}"
        "\n\\label{fig:geostat-weights}\n"
    )


@needs_latex
def test_captions_compile_in_latex(tmp_path):
    run = Run.of(with_typical_heads())
    written = [write_caption(plan, plan.caption(run), tmp_path)[1] for plan in plans(run)]
    figures = "".join(
        rf"\begin{{figure}}\input{{{path.stem}}}\end{{figure}}\clearpage " for path in written
    )
    latex = rf"\documentclass{{article}}\begin{{document}}{figures}\end{{document}}"
    assert [line for line in complaints(compiled(tmp_path, latex)) if line[0] == "!"] == []
    assert not [path for path in written if "[U+" in path.read_text()]


def test_the_docs_list_every_figure_and_its_counterpart():
    page = (DOCS / "how_to" / "figures_for_slides.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (Figure \d+|) ?\| (`[a-z_`, ]+`) \|", page, re.MULTILINE)
    listed_papers = {name.strip("` "): paper for paper, names in rows for name in names.split(",")}
    assert listed_papers == {plan.name: plan.paper for plan in FIGURES}


def test_every_caption_has_its_documents_and_a_finding_with_numbers(run):
    for plan in plans(run)[1:]:
        caption = plan.caption(run)
        assert "3 documents" in caption.text
        assert "Look for: " in caption.text
        assert any(character.isdigit() for character in caption.finding)
        assert caption.finding.endswith(".")


def test_a_measurement_significantly_below_a_null_baseline_is_stated():
    summary = group("summary")
    errors = xr.where((summary["n"] >= 2) & (summary["n"] <= 4), 4.4, 4.2)  # t(2) reaches 4.303
    level = summary["precision_mean"] + errors * summary["precision_se"]
    summary["precision_null"] = level.expand_dims(null=summary["null"].values)
    summary["recall_null"] = 0 * summary["recall_null"]
    finding = caption_separability(Run.of(with_groups(summary=summary))).finding
    assert "Precision is significantly below a random selection at N = 2 to 4." in finding
    assert "Recall is significantly below" not in finding


def test_the_schematic_example_states_precision_and_recall_and_shows_all_circles_and_tokens(run):
    distance = np.linalg.norm(CONTRIBUTIONS - CONTRIBUTIONS[:SELECTED].sum(axis=0), axis=1)
    precision = f"{SELECTED}/{(distance <= distance[:SELECTED].max()).sum()}"
    recall = f"{(distance[:SELECTED] <= distance[SELECTED:].min()).sum()}/{SELECTED}"
    figure = draw(PLANS["idea"], run)
    FigureCanvasAgg(figure).draw()
    picture, beside = figure.axes
    words = " ".join(text.get_text() for text in beside.texts)
    assert f"Precision = {precision}" in words
    assert f"Recall = {recall}" in words
    inside = picture.get_window_extent()
    for circle in picture.patches:
        box = circle.get_window_extent()
        assert inside.x0 <= box.x0 < box.x1 <= inside.x1, circle
        assert inside.y0 <= box.y0 < box.y1 <= inside.y1, circle
        assert box.width == pytest.approx(box.height)
    low, high = picture.transData.inverted().transform([inside.p0, inside.p1])
    assert (low < CONTRIBUTIONS).all()
    assert (high > CONTRIBUTIONS).all()


def test_the_drawn_head_has_the_same_name_in_figure_and_caption():
    weights = group("weights")
    misfit = np.random.default_rng(3).permutation(np.linspace(0.5, 1.4, 8)).reshape(2, 4)
    weights["rmse"].values[...] = misfit
    run = Run.of(with_groups(weights=weights))
    layer, head = run.display.attrs["weights_head"]
    from_median = np.abs(misfit - np.median(misfit))
    assert from_median[layer, head] == from_median.min()
    axes = Figure().subplots(1, 2)
    figure_weights(axes, run)
    title = axes[1].get_title(loc="left") + axes[1].get_title()
    assert title == f"Head of median misfit: layer {layer}, head {head}"
    rmse = f"(layer {layer}, head {head}; RMSE {figures_of(misfit[layer, head])} nats)"
    assert f"in the head of median misfit {rmse}" in caption_weights(run).text
    drawn = axes[1].get_lines()[0].get_ydata()
    np.testing.assert_allclose(drawn, np.exp(run.weights["log_weight_mean"].values[layer, head]))
