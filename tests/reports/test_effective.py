"""Figure, caption, tables and topic of effective attention set sizes: they show the dataset's
numbers, and a run may lack it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from support.figures import assert_labels_stand_apart, shown_alone
from support.latex import compiled, complaints, needs_latex
from support.reports_tree import POSITIONS, run_tree

from geostat import paper
from geostat.experiments.effective_dataset import cells_of, effective_dataset
from geostat.experiments.effective_geometry import over_sizes
from geostat.experiments.effective_size import Cell, next_size
from reports.errors import InputError
from reports.figures.captions.effective import effective as caption
from reports.figures.effective import FLOOR, MODES, figure_effective
from reports.figures.every import FIGURES
from reports.page.page import write_page
from reports.run import Run
from reports.tables.effective import effective_tables
from reports.tables.paper.document import document

PLAN = next(plan for plan in FIGURES if plan.name == "effective")
PLAIN, TAUS = np.array([2.0, 1.0, 3.0]), [0.01, 0.05, 0.1]


def measured(
    rules: tuple[str, ...] = ("attention", "recent"),
    *,
    documents: int = 3,
    scope: str = "all",
    taus: list[float] = TAUS,
) -> xr.Dataset:
    """What a model gives whose loss rises by c/N, more by deletion."""
    plain, losses, sizes = PLAIN[:documents], {}, {}
    for place, rule in enumerate(rules):
        for mode, least in (("deletion", 4.0), ("renormalisation", 0.4)):
            rise = least * (1 + 2 * place) * np.array([0.6, 1.0, 1.7])[:documents]
            curve: dict[int, np.ndarray] = {}
            while (size := next_size(plain, curve, taus, POSITIONS)) is not None:
                curve[size] = plain * (1 + rise * (1 / size - 1 / POSITIONS))
            losses |= {Cell(scope, rule, mode, n): loss for n, loss in curve.items()}
    own = Cell(scope, "sparsemax", "deletion", 0)
    losses[own], sizes[own] = plain * 1.25, np.full(documents, 3.5)
    told = {"target": "last:9", "targets": 9}
    return effective_dataset(plain, losses, sizes, taus=taus, tokens=POSITIONS, told=told)


def with_effective(data: xr.Dataset) -> xr.DataTree:
    tree = run_tree().copy()
    losses, _ = cells_of(data)
    captured = tree["capture"].to_dataset()
    for name, score in (("f_outer", "precision"), ("f_inner", "recall")):
        captured[name] = 2 * captured[score] / (1 + captured[score])
    some = captured.isel(document=slice(data.sizes["document"]))
    curves = over_sizes(some, data["plain_loss"].values, losses)
    tree["effective"] = xr.DataTree(data if curves is None else data.merge(curves))
    return tree


@cache
def whole() -> Run:
    return Run.of(with_effective(measured()))


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda: measured(), marks=pytest.mark.slow),
        pytest.param(lambda: measured(documents=1), marks=pytest.mark.slow),
        lambda: measured(
            ("attention", "contribution", "recent", "sink-recent", "sink-orthogonal", "random")
        ),
        pytest.param(lambda: measured(scope="layer 3"), marks=pytest.mark.slow),
        lambda: measured((), scope="L1H2"),
    ],
    ids=["two rules", "one document", "many rules", "a layer", "sets alone"],
)
def test_labels_stand_apart(made: Callable[[], xr.Dataset]) -> None:
    data = made()
    run = Run.of(with_effective(data))
    for width, look in ((None, "paper"), (3.25, "paper"), (None, "slides")):
        assert_labels_stand_apart(PLAN, run, width, look)


def test_the_curves_drawn_are_those_of_the_dataset_and_the_paper_s_mark_is_labelled() -> None:
    axes = Figure().subplots(1, 2)
    figure_effective(axes, whole())
    for axis, mode in zip(axes, MODES, strict=True):
        lines = {line.get_label(): line for line in axis.get_lines()}
        curve = whole().effective.sel(scope="all", rule="attention", mode=mode)
        known = np.isfinite(curve["loss_rise"].values)
        drawn = lines["weight $\\alpha$"]
        np.testing.assert_array_equal(drawn.get_xdata(), curve["n"].values[known])
        rises = np.maximum(curve["loss_rise"].values[known], FLOOR)
        np.testing.assert_allclose(drawn.get_ydata(), rises)
        marks = [line for line in axis.get_lines() if line.get_marker() == "o"]
        np.testing.assert_array_equal(marks[0].get_xdata(), curve["n_star"].values)
        (bars,) = axis.containers[0].lines[2]
        for segment, tau in zip(bars.get_segments(), TAUS, strict=True):
            at = curve.sel(tau=tau)
            limits = [float(at["n_star_lower"]), float(at["n_star_upper"])]
            np.testing.assert_allclose(segment, [[limits[0], tau], [limits[1], tau]])
        star, label = paper.EFFECTIVE[mode], "Gemma-7B in arXiv 2609.37879"
        if star <= POSITIONS:
            assert list(lines[label].get_xdata()) == [star]
            assert list(lines[label].get_ydata()) == [0.05]
        else:
            assert label not in lines
        later = marks[1].get_ydata() / np.array(TAUS)  # of another rule: beside the first's
        assert (later > 1.05).all()
    assert axes[0].get_ylim() == axes[1].get_ylim()


def test_a_mode_that_was_not_measured_says_so_and_has_no_part_in_the_axis() -> None:
    data = whole().effective
    one = replace(whole(), effective=data.sel(mode=["renormalisation"]))
    axes = Figure().subplots(1, 2)
    figure_effective(axes, one)
    assert [text.get_text() for text in axes[0].texts] == ["not measured"]
    assert axes[0].get_legend() is None
    assert axes[1].get_legend() is not None
    rises = data["loss_rise"].sel(mode="renormalisation").max()
    assert axes[1].get_ylim()[1] < 2 * float(rises)
    part = replace(whole(), effective=measured(scope="layer 3"))
    alone = Figure().subplots(1, 2)
    figure_effective(alone, part)
    labels = [label for axis in alone for label in axis.get_legend_handles_labels()[1]]
    assert not any("Gemma" in label for label in labels)  # what they report is of all layers


def test_the_caption_s_finding_is_of_the_numbers() -> None:
    found = caption(whole())
    stars = whole().effective["n_star"].sel(scope="all", rule="attention", tau=0.05)
    deleted, rescaled = (int(stars.sel(mode=mode)) for mode in MODES)
    assert found.finding == (
        f"Chosen by weight, {deleted} tokens a query keep the loss within 5% where the others are"
        f" deleted, and {rescaled} tokens a query keep the loss within 5% where kept ones are"
        " rescaled."
    )
    assert [quoted.value for quoted in found.numbers] == [deleted, 0.05, rescaled, 0.05]
    assert "9 next tokens a document" in found.text
    assert "report of Gemma-7B at 5%, 226 and 7 tokens" in found.text
    assert "in all layers and heads at once" in found.text
    assert "in layer 3 alone" in caption(Run.of(with_effective(measured(scope="layer 3")))).text
    assert caption(Run.of(with_effective(measured(("recent",))))).finding == ""


def test_the_tables_hold_every_size_and_what_the_authors_report() -> None:
    stars, sets, curves = effective_tables(whole())
    frame = stars.frame()
    assert len(frame) == 2 * 2 + 2
    for row in frame.itertuples(index=False):
        if row[0] != "all":
            continue
        at = whole().effective.sel(scope="all", rule=row[1], mode=row[2])
        for place, tau in enumerate(TAUS):
            one = at.sel(tau=tau)
            limits = f"[{float(one['n_star_lower']):.0f}, {float(one['n_star_upper']):.0f}]"
            assert row[3 + place] == f"{int(one['n_star'])} {limits}"
    assert frame.iloc[-1].tolist()[:3] == [
        "Gemma-7B",
        "attention",
        "renormalisation",
    ]
    assert frame.iloc[-1].tolist()[4] == "7"
    assert frame.iloc[-2].tolist()[4] == "226"
    assert "Last rows" in stars.caption
    assert "mean loss of the last 9 tokens of a window of" in stars.caption
    every = replace(whole(), effective=whole().effective.assign_attrs(target="all"))
    assert "mean loss of all tokens but the first of a window" in effective_tables(every)[0].caption
    other = whole().effective.sel(tau=[tau for tau in TAUS if tau != paper.EFFECTIVE["tau"]])
    others, *_ = effective_tables(replace(whole(), effective=other))
    assert len(others.frame()) == 2 * 2
    assert "Last rows" not in others.caption
    assert sets.frame().iloc[0].tolist()[:5] == [
        "all",
        "sparsemax",
        "deletion",
        "3.50",
        "0.250 ± 0.000",
    ]
    told = whole().effective["rank_correlation"]
    assert len(curves.frame()) == int(told.notnull().sum()) > 0
    first = curves.frame().iloc[0].tolist()
    at = told.sel(mode="deletion", statistic="precision", range="all")
    assert first[:3] == ["deletion", "Precision $P$", "all"]
    assert float(first[4].split(" ± ")[0].replace("−", "-")) == pytest.approx(float(at), abs=0.05)
    assert "reports -0.70 (F with" in curves.caption


@needs_latex
def test_the_tables_compile_without_a_complaint(tmp_path: Path) -> None:
    assert complaints(compiled(tmp_path, document(effective_tables(whole())))) == []


def test_a_topic_of_the_page_shows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown_alone(monkeypatch, "effective")
    page = write_page(with_effective(measured()), tmp_path).read_text(encoding="utf-8")
    assert "What is it good for: how many tokens does a query need?" in page
    assert 'id="table-effective"' in page
    assert 'id="figure-effective"' in page or 'id="effective"' in page
    assert (tmp_path / "figures/effective.pdf").exists()
    assert (tmp_path / "tables/effective_sets.tex").exists()
    plain = write_page(run_tree(), tmp_path / "plain").read_text(encoding="utf-8")
    assert "how many tokens does a query need" not in plain
    with pytest.raises(InputError, match="Measure them with `geostat effective`"):
        figure_effective(Figure().subplots(1, 2), Run.of(run_tree()))
