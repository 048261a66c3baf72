"""`geostat.plot`: every figure of the report, on given axes or a new figure."""

import re

import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from support.experiments import full
from support.reports_tree import plain_tree
from support.spine import Finished

import geostat as gs
from geostat.display.tree import with_display
from geostat.runs import plot
from reports.run import Run
from reports.topics.listed import FIGURES

ELSEWHERE = {"predictive", "effective", "effective_layers", "heads_cut", "normaliser"}
THERE = [plan for plan in FIGURES if plan.group not in ELSEWHERE]


@pytest.fixture(scope="module")
def shown(finished: Finished) -> xr.DataTree:
    return with_display(finished.tree)


@pytest.fixture(autouse=True)
def displayed(finished: Finished, shown: xr.DataTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The display groups of the finished run are computed once."""
    computed = plot.with_display
    monkeypatch.setattr(
        plot, "with_display", lambda tree: shown if tree is finished.tree else computed(tree)
    )


def test_every_figure_of_the_report_has_a_plot_function():
    assert gs.plot.__all__ == [*(plan.name for plan in FIGURES), "whatif"]
    for plan in FIGURES:
        function = getattr(gs.plot, plan.name)
        assert function.__name__ == plan.name
        assert function.__doc__.startswith("Draw")


@pytest.mark.parametrize("plan", THERE, ids=lambda plan: plan.name)
def test_a_figure_is_drawn_on_given_axes(finished: Finished, plan):
    given = Figure().subplots(*plan.grid)
    assert getattr(gs.plot, plan.name)(finished.tree, ax=given) is given
    for axes in np.ravel(given):
        assert axes.has_data() or axes.texts or not axes.axison


def test_axes_may_be_a_list_and_keep_the_figure_fonts(finished: Finished):
    figure = Figure()
    flat = [figure.add_subplot(2, 3, place) for place in range(1, 7)]
    assert gs.plot.regimes(finished.tree, ax=flat) is flat
    assert flat[0].get_title(loc="left") + flat[0].get_title()


def test_without_axes_a_figure_in_the_report_style_is_created(finished: Finished):
    axes = gs.plot.norms(finished.tree)
    assert axes.shape == (2,)
    assert axes[0].figure.get_size_inches().tolist() == [7.4, 3.5]
    assert isinstance(gs.plot.claims(finished.tree), Axes)


@pytest.mark.parametrize(
    ("ax", "shown"), [(Figure().subplots(3), "3 × Axes"), (5, "1 × int"), ([], "none")]
)
def test_wrong_axes_are_refused(finished: Finished, ax, shown: str):
    message = f"ax of norms: {shown}, expected 1 × 2 axes. Make them with figure.subplots(1, 2),"
    with pytest.raises(gs.InputError, match=re.escape(message)):
        gs.plot.norms(finished.tree, ax=ax)


def test_missing_results_are_refused_with_the_python_call(finished: Finished):
    with pytest.raises(gs.InputError, match=r"has no /predictive.* again with predict=True"):
        gs.plot.ladder(finished.tree)
    with pytest.raises(gs.InputError, match=r"has no /norms.*Fit and confront it first"):
        gs.plot.norms(finished.tree.drop_nodes("norms"))
    with pytest.raises(gs.InputError, match=r"expected an xarray\.DataTree with /capture"):
        gs.plot.norms(finished.out)


@pytest.mark.slow
def test_layers_that_see_different_numbers_of_tokens_are_drawn_separately():
    tree = plain_tree(window=40)
    for tokens, most in ((None, 64), (40, 40), (64, 64)):
        low, high = gs.plot.weights(tree, tokens=tokens)[0].get_xlim()
        assert high - low == pytest.approx(1.04 * most)
    with pytest.raises(gs.InputError, match=r"no layer sees .* tokens, expected one of 64, 40"):
        gs.plot.weights(tree, tokens=7)


def test_drawn_values_are_those_of_the_run():
    axes, envelope = gs.plot.coverage(full()), Run.of(full()).envelope
    for row, name in zip(axes, ("precision", "recall"), strict=True):
        for axis, gram in zip(row[:2], ("exponential", "offset"), strict=True):
            for edition in ("printed", "sharp"):
                share = envelope[f"{name}_inside_by_size"].sel(edition=edition, gram=gram)
                share = share[np.isfinite(share.values)]
                [line] = [x for x in axis.lines if x.get_label() == f"measured, {edition} bounds"]
                np.testing.assert_allclose(line.get_xdata(), share["n_envelope"])
                np.testing.assert_allclose(line.get_ydata(), share)


def test_a_what_if_study_is_drawn_on_given_axes():
    study = gs.whatif(N=[2, 4, 8], beta=np.linspace(0.1, 1, 6), L=64)
    axes = Figure().subplots()
    assert gs.plot.whatif(study, ax=axes, bound="recall_lower") is axes
    assert len(axes.get_lines()) == 3
    assert isinstance(gs.plot.whatif(study), Axes)
    wide = gs.whatif(N=[2, 4, 8, 16, 32], beta=np.linspace(0.1, 1, 6), L=64)
    assert len(gs.plot.whatif(wide, ax=Figure().subplots()).collections) >= 1
    deep = gs.whatif(N=[2, 4], beta=[0.1, 1.0], L=64, d=[32, 64])
    assert len(gs.plot.whatif(deep)) == 2
    with pytest.raises(gs.InputError, match="varies along 3 axes, expected one to two to draw"):
        gs.plot.whatif(deep, ax=axes)
