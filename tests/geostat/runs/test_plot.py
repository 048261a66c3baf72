"""`geostat.plot`: every figure of the report on given axes, or on its own; nothing is shown."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from support.experiments import full
from support.reports_tree import plain_tree
from support.spine import Finished

import geostat as gs
from reports.figures.every import FIGURES
from reports.run import Run

ELSEWHERE = {"predictive", "effective", "effective_layers", "heads_cut", "normaliser"}
THERE = [plan for plan in FIGURES if plan.group not in ELSEWHERE]


def test_every_figure_of_the_report_is_a_function():
    assert gs.plot.__all__ == [*(plan.name for plan in FIGURES), "whatif"]
    for plan in FIGURES:
        function = getattr(gs.plot, plan.name)
        assert function.__name__ == plan.name
        assert function.__doc__.startswith("Draw")


@pytest.mark.parametrize("plan", THERE, ids=lambda plan: plan.name)
def test_a_figure_is_drawn_on_given_axes(finished: Finished, plan):
    given = Figure().subplots(*plan.grid)
    returned = getattr(gs.plot, plan.name)(finished.tree, ax=given)
    assert returned is given
    for axes in np.ravel(given):
        assert axes.has_data() or axes.texts or not axes.axison


def test_axes_may_be_a_plain_list_and_keep_the_figure_s_type(finished: Finished):
    figure = Figure()
    flat = [figure.add_subplot(2, 3, place) for place in range(1, 7)]
    assert gs.plot.regimes(finished.tree, ax=flat) is flat
    assert flat[0].get_title(loc="left") + flat[0].get_title()


def test_without_axes_a_figure_of_its_own_is_made_in_the_report_s_shape(finished: Finished):
    axes = gs.plot.norms(finished.tree)
    assert axes.shape == (2,)
    assert axes[0].figure.get_size_inches().tolist() == [7.4, 3.5]
    assert isinstance(gs.plot.claims(finished.tree), Axes)


@pytest.mark.parametrize(
    ("ax", "seen"),
    [(1, "3 × Axes"), (0, "1 × int"), ("none", "none")],
)
def test_other_axes_are_refused(finished: Finished, ax, seen: str):
    given = {1: Figure().subplots(3), 0: 5, "none": []}[ax]
    told = f"ax of norms: {seen}, expected 1 × 2 axes. Make them with figure.subplots(1, 2),"
    with pytest.raises(gs.InputError, match=re.escape(told)):
        gs.plot.norms(finished.tree, ax=given)


def test_what_a_run_lacks_is_said_in_python_s_words(finished: Finished):
    with pytest.raises(gs.InputError, match=r"holds no /predictive.* again with predict=True"):
        gs.plot.ladder(finished.tree)
    with pytest.raises(gs.InputError, match=r"holds no /norms.*Fit and confront it first"):
        gs.plot.norms(finished.tree.drop_nodes("norms"))
    with pytest.raises(gs.InputError, match=r"expected an xarray\.DataTree with /capture"):
        gs.plot.norms(finished.out)


@pytest.mark.slow
def test_layers_that_see_different_numbers_of_tokens_are_drawn_apart():
    tree = plain_tree(window=40)
    for tokens, most in ((None, 64), (40, 40), (64, 64)):
        axes = gs.plot.weights(tree, tokens=tokens)
        low, high = axes[0].get_xlim()
        assert high - low == pytest.approx(1.04 * most)
    with pytest.raises(gs.InputError, match="no layer sees so many, expected one of 64, 40"):
        gs.plot.weights(tree, tokens=7)


def test_what_is_drawn_is_the_run_s():
    axes = gs.plot.coverage(full())
    drawn = [axis.collections[0].get_array() for axis in axes]
    run = Run.of(full())
    for values, name in zip(drawn, ("precision", "recall"), strict=True):
        share = run.envelope[f"{name}_inside_by_size"].stack(row=("edition", "gram")).T
        known = np.isfinite(share.values).any(axis=0)
        np.testing.assert_allclose(np.ma.filled(values, np.nan), share.values[:, known])


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


def test_plots_come_lightly_and_without_pyplot():
    code = (
        "import sys, geostat; assert 'matplotlib' not in sys.modules; geostat.plot.norms;"
        " found = {'torch', 'lmfit', 'matplotlib.pyplot'} & set(sys.modules);"
        " assert not found, found"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=Path.cwd())
