"""Figures, captions, tables and topic of cuts of heads and of single layers: they show the
dataset's numbers, and a run may lack it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from support.figures import assert_labels_stand_apart, shown_alone
from support.latex import compiled, complaints, needs_latex
from support.reports_tree import POSITIONS, run_tree

from geostat.experiments.ablation.budgets import WAYS
from geostat.experiments.ablation.context import plain_cell
from geostat.experiments.ablation.dataset import ablation_dataset, budget_cell
from geostat.experiments.ablation.head_facts import CURVES, Facts
from geostat.experiments.ablation.heads import head_cell
from geostat.experiments.ablation.words import answers
from geostat.experiments.effective_dataset import effective_dataset
from geostat.experiments.effective_size import PLAIN, Cell, next_size
from geostat.experiments.head_regime_rules import REGIMES
from reports.errors import InputError
from reports.figures.ablation import GIVEN, KNOWN, figure_ablation, figure_effective_layers
from reports.figures.captions.ablation import ablation as caption
from reports.figures.captions.ablation import effective_layers as caption_of_layers
from reports.figures.every import FIGURES
from reports.page.page import write_page
from reports.run import Run
from reports.tables.ablation import ablation_tables
from reports.tables.effective import effective_tables
from reports.tables.paper.document import document

LAYERS, HEADS, SIZES, BUDGETS, DRAWS = 20, 5, (1, 8), (8, 16), 4
PLANS = {plan.name: plan for plan in FIGURES if plan.name in ("ablation", "effective_layers")}


@cache
def measured(
    documents: int = 3,
    parts: str = "heads budgets regimes context",
    modes: tuple[str, ...] = ("deletion",),
) -> xr.Dataset:
    """Losses that rest on what is kept of the weights and nothing else."""
    chance = np.random.default_rng(2)
    shape = (documents, LAYERS, HEADS)
    mass = np.sort(chance.uniform(size=(*shape, POSITIONS)), axis=-1)
    facts = Facts(
        sizes=sorted({*SIZES, *BUDGETS}),
        curves={name: chance.uniform(size=(*shape, 3)) for name in CURVES},
        kept_mass=mass,
        entropy=chance.uniform(size=shape),
        lam=chance.uniform(size=shape[1:]),
        rho0=chance.uniform(size=shape[1:]),
        sharp_f=chance.uniform(size=(*shape[1:], 3)),
        label=chance.integers(0, len(REGIMES), shape[1:]).astype(float),
    )
    plain = 2 + chance.uniform(size=documents)
    losses = {PLAIN: plain}

    def add(cell: Cell, rise: np.ndarray) -> None:
        losses[cell] = plain * (1 + rise)

    curve: dict[int, np.ndarray]
    for mode in modes:
        if "heads" in parts:
            for layer, head in np.ndindex(LAYERS, HEADS):
                curve = {}
                own = 0.0004 * chance.uniform()
                while (n := next_size(plain, curve, [0.001], POSITIONS, first=SIZES)) is not None:
                    rise = 0.01 * (1 - mass[:, layer, head, n - 1]) + own
                    add(cell := head_cell(layer, head, mode, n, search=n not in SIZES), rise)
                    curve[n] = losses[cell]
        if "budgets" in parts:
            for budget in BUDGETS:
                for place, way in enumerate(WAYS):
                    each = 0.001 * (place - 1) * (1 + np.arange(documents))
                    add(budget_cell(way, mode, budget, "1,8"), 1 / budget + each)
    if "regimes" in parts:
        for regime in REGIMES[1:]:
            for mode, n in [*((mode, 8) for mode in modes), ("deletion", 0)]:
                for draw in range(-1, DRAWS):
                    name = f"{regime}, draw {draw}" if draw >= 0 else regime
                    rise = chance.uniform(size=documents)
                    add(Cell(name, "attention", mode, n), rise)
    if "context" in parts:
        for context in (16, 64):
            add(plain_cell(context), np.zeros(documents))
            curve = {}
            while (size := next_size(plain, curve, [0.05], context)) is not None:
                curve[size] = plain * (1 + 0.1 * context**0.5 / size)
                losses[Cell(plain_cell(context).scope, "attention", "deletion", size)] = curve[size]
    told = {"target": "last:9", "targets": 9, "tokens": POSITIONS}
    told |= {"greedy_sizes": "1,8", "context_tau": 0.05}
    return ablation_dataset(losses, facts, tau=0.001, told=told)


def of_layers(modes: tuple[str, ...] = ("deletion", "renormalisation")) -> xr.Dataset:
    """N* of single layers, of which deeper ones need less."""
    plain, taus, losses = np.array([2.0, 1.0, 3.0]), [0.01, 0.05], {}
    for layer in range(LAYERS):
        for mode in modes:
            rise = 4 / (1 + layer) * np.array([0.6, 1.0, 1.7])
            curve: dict[int, np.ndarray] = {}
            while (size := next_size(plain, curve, taus, POSITIONS)) is not None:
                curve[size] = plain * (1 + rise * (1 / size - 1 / POSITIONS))
            losses |= {Cell(f"layer {layer}", "attention", mode, n): v for n, v in curve.items()}
    told = {"target": "all", "targets": 9}
    return effective_dataset(plain, losses, {}, taus=taus, tokens=POSITIONS, told=told)


def with_group(**groups: xr.Dataset) -> xr.DataTree:
    tree = run_tree().copy()
    for name, data in groups.items():
        tree[name] = xr.DataTree(data)
    return tree


@cache
def whole() -> Run:
    return Run.of(with_group(ablation=measured(), effective=of_layers()))


@pytest.mark.parametrize(
    "made",
    [
        lambda: {"ablation": measured()},
        pytest.param(
            lambda: {"ablation": measured(1, modes=("deletion", "renormalisation"))},
            marks=pytest.mark.slow,
        ),
        pytest.param(lambda: {"ablation": measured(parts="budgets")}, marks=pytest.mark.slow),
        lambda: {"ablation": measured(parts="heads")},
        lambda: {"effective": of_layers()},
        pytest.param(lambda: {"effective": of_layers(("deletion",))}, marks=pytest.mark.slow),
    ],
    ids=["all", "one document", "budgets alone", "heads alone", "layers", "layers, one mode"],
)
def test_labels_stand_apart(made: Callable[[], dict[str, xr.Dataset]]) -> None:
    groups = made()
    run = Run.of(with_group(**groups))
    plan = PLANS["ablation" if "ablation" in groups else "effective_layers"]
    for width, look in ((None, "paper"), (3.25, "paper"), (None, "slides")):
        assert_labels_stand_apart(plan, run, width, look)


def test_what_is_drawn_are_the_dataset_s_numbers() -> None:
    data = whole().ablation
    axes = Figure().subplots(1, 2)
    figure_ablation(axes, whole())
    assert [tick.get_text() for tick in axes[0].get_yticklabels()] == list(KNOWN.values())
    here = data.sel(mode="deletion", outcome="rise at N = 8")
    for given, container in zip(GIVEN, axes[0].containers, strict=True):
        at = here.sel(given=given)
        np.testing.assert_array_equal(container.lines[0].get_xdata(), at["rank_correlation"])
        bars = [segment[:, 0] for segment in container.lines[2][0].get_segments()]
        known = np.isfinite(at["rank_correlation"].values)
        limits = np.stack(
            [at[f"rank_correlation_{side}"].values for side in ("lower", "upper")], axis=1
        )
        np.testing.assert_allclose([bars[at] for at in np.flatnonzero(known)], limits[known])
    for way, container in zip(WAYS, axes[1].containers, strict=True):
        at = data["budget_rise"].sel(mode="deletion", way=way)
        np.testing.assert_allclose(container.lines[0].get_ydata(), at)
    axes = Figure().subplots(1, 2)
    figure_effective_layers(axes, whole())
    star = whole().effective["n_star"].sel(rule="attention", mode="deletion", tau=0.01)
    drawn = axes[0].containers[0].lines[0]
    np.testing.assert_allclose(drawn.get_xdata(), np.arange(LAYERS), atol=0.11)  # beside others
    np.testing.assert_array_equal(drawn.get_ydata(), star)


def test_layers_that_were_not_cut_have_no_line_and_a_mode_without_any_says_so() -> None:
    data = of_layers()
    few = data.isel(scope=[2, 3, 9])
    few = few.where(few["mode"] == "deletion").assign_attrs(data.attrs)
    assert "renormalisation" in few["mode"]
    run = Run.of(with_group(effective=few))
    axes = Figure().subplots(1, 2)
    figure_effective_layers(axes, run)
    drawn = axes[0].containers[0].lines[0]
    np.testing.assert_allclose(drawn.get_xdata(), np.arange(2, 10), atol=0.11)
    assert np.isfinite(drawn.get_ydata()).tolist() == [True, True, *[False] * 5, True]
    assert [text.get_text() for text in axes[1].texts] == ["not measured"]
    assert not axes[1].lines


def test_the_answer_is_of_the_interval() -> None:
    data = whole().ablation
    adds = data.sel(mode="deletion", outcome="rise at N = 8", told_by="geometry adds")
    said, of_budgets = data.attrs["answers"]
    assert float(adds["told_lower"]) < 0  # the loss rests on mass alone
    assert said.startswith("Geometry tells nothing that shows of what the model loses by a head")
    assert f"of {LAYERS * HEADS} heads" in said
    assert caption(whole()).finding == f"{said} {of_budgets}"
    assert f"geometry adds {float(adds['told']):.2f} (95%: " in said
    found = caption_of_layers(whole()).finding
    assert found.startswith("By deletion at 1.0%, layer 0 needs most: ")
    at = whole().effective.sel(scope="layer 0", rule="attention", mode="deletion", tau=0.01)
    ends = [int(at[f"n_star{part}"]) for part in ("", "_lower", "_upper")]
    assert found.endswith(f"{ends[0]} tokens ({ends[1]} to {ends[2]}).")


def test_of_one_document_nothing_is_answered() -> None:
    (said,) = measured(1).attrs["answers"]
    assert said.startswith("Whether geometry tells more of what the model loses by a head")
    assert "cannot be told of one document" in said
    few = measured().copy()
    few["told"] = few["told"] * np.nan
    assert "cannot be told: 100 heads, or their layers, are too few" in answers(few)[0]


def test_the_tables_hold_every_number() -> None:
    data = whole().ablation
    frames = [table.frame() for table in ablation_tables(whole())]
    function, told, needs, budgets, regimes, contexts = frames
    star = data["head_n_star"].sel(mode="deletion").values
    assert needs.iloc[:, 1].tolist() == ["All", "Retriever", "Mixer", "Reset"]
    first = needs.iloc[0].tolist()
    assert first[:3] == ["deletion", "All", str(LAYERS * HEADS)]
    assert float(first[3].split(" ± ")[0]) == pytest.approx((star == 1).mean(), abs=1e-3)
    half, most = np.sort(star.ravel())[[49, 89]]
    assert first[5].startswith(f"{half:.0f} [")
    assert first[6].startswith(f"{most:.0f} [")
    assert most > half > 1
    assert len(function) == data.sizes["known"]
    assert len(told) == int(data["told"].notnull().any("told_by").sum()) == len(SIZES) + 1
    assert len(budgets) == len(BUDGETS) * len(WAYS)
    assert len(regimes) == 3 * 2
    assert contexts.iloc[:, 1].tolist() == ["16", "64"]
    assert contexts.iloc[0, 3] == str(int(data["context_n_star"][0, 0]))
    power = float(contexts.iloc[0, 5].split(" ± ")[0])
    assert power == pytest.approx(float(data["context_power"][0]), abs=0.01)
    mass = budgets[budgets.iloc[:, 2] == "equal kept mass"]
    assert set(mass.iloc[:, 4]) == {"n/a"} or set(mass.iloc[:, 4]) == {"—"}
    row = budgets.iloc[0].tolist()
    assert row[:3] == ["deletion", "8", "all heads alike"]
    less = data["budget_less_mass"].sel(mode="deletion", budget=8, way="uniform")
    assert float(row[4].split(" ± ")[0].replace("−", "-")) == pytest.approx(float(less), abs=1e-3)
    first = regimes.iloc[0].tolist()
    assert first[:3] == ["Retriever", str(int(data["regime_heads"][0])), "keep 8, deletion"]
    assert [table.name for table in ablation_tables(Run.of(run_tree()))] == []
    parts = Run.of(with_group(ablation=measured(parts="budgets")))
    assert [table.name for table in ablation_tables(parts)] == ["budgets"]


@needs_latex
def test_the_tables_compile_without_a_complaint(tmp_path: Path) -> None:
    made = [*ablation_tables(whole()), *effective_tables(whole())]
    assert complaints(compiled(tmp_path, document(made))) == []


def test_the_page_shows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown_alone(monkeypatch, *PLANS)
    tree = with_group(ablation=measured(), effective=of_layers())
    page = write_page(tree, tmp_path).read_text(encoding="utf-8")
    for name in ("head_told", "head_function", "head_needs", "budgets", "regime_cuts", "contexts"):
        assert f'id="table-{name}"' in page
    assert measured().attrs["answers"][0] in page
    for name in PLANS:
        assert (tmp_path / f"figures/{name}.pdf").exists()
    alone = write_page(with_group(ablation=measured()), tmp_path / "alone")
    assert "What is it good for" in alone.read_text(encoding="utf-8")


def test_a_run_without_them_says_how_they_are_measured() -> None:
    for draw, command in (
        (figure_ablation, "geostat ablate"),
        (figure_effective_layers, "geostat effective --each layer"),
    ):
        with pytest.raises(InputError, match=f"Measure them with `{command}`"):
            draw(Figure().subplots(1, 2), Run.of(run_tree()))
    contexts = Run.of(with_group(ablation=measured(parts="context")))
    assert contexts.heads_cut is None  # no figure of two empty panels
    assert [table.name for table in ablation_tables(contexts)] == ["contexts"]
    one = of_layers().isel(scope=[3])
    assert Run.of(with_group(effective=one)).effective_layers is None
