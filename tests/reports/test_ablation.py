"""Ablation of heads and of single layers: figures, captions and tables show the numbers."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from support.optional_groups import (
    ABLATED_HEADS,
    ABLATED_LAYERS,
    BUDGETS,
    SIZES,
    ablation,
    effective_layers,
    run_with,
)

from geostat.experiments.ablation.budgets import WAYS
from geostat.experiments.ablation.dataset import answers
from reports.run import Run
from reports.topics.ablation import (
    CONTROLS,
    FEATURES_OF_HEADS,
    caption_ablation,
    figure_ablation,
    tables,
)
from reports.topics.effective import caption_effective_layers, figure_effective_layers


@pytest.fixture(scope="module")
def run() -> Run:
    return run_with(ablation=ablation(), effective=effective_layers())


def test_drawn_numbers_equal_the_dataset(run: Run) -> None:
    axes = Figure().subplots(1, 2)
    figure_ablation(axes, run)
    on_figure = [words for words, _ in FEATURES_OF_HEADS.values()]
    assert [tick.get_text() for tick in axes[0].get_yticklabels()] == on_figure
    by_controls = run.optional["ablation"].sel(mode="deletion", outcome="rise at N = 8")
    for controls, container in zip(CONTROLS, axes[0].containers, strict=True):
        selected = by_controls.sel(controls=controls)
        value, low, high = (
            selected[f"rank_correlation{end}"].values for end in ("", "_lower", "_upper")
        )
        np.testing.assert_array_equal(container.lines[0].get_xdata(), value)
        bars = np.array([segment[:, 0] for segment in container.lines[2][0].get_segments()])
        known = np.isfinite(value)
        np.testing.assert_allclose(bars[known], np.stack([low, high], axis=1)[known])
    for way, container in zip(WAYS, axes[1].containers, strict=True):
        selected = run.optional["ablation"]["budget_rise"].sel(mode="deletion", way=way)
        np.testing.assert_allclose(container.lines[0].get_ydata(), selected)


def test_unmeasured_layers_have_no_line_and_an_unmeasured_mode_is_stated() -> None:
    data = effective_layers()
    few = data.isel(scope=[2, 3, 9])
    few = few.where(few["mode"] == "deletion").assign_attrs(data.attrs)
    assert "renormalisation" in few["mode"]
    axes = Figure().subplots(1, 2)
    figure_effective_layers(axes, run_with(effective=few))
    drawn = axes[0].containers[0].lines[0]
    np.testing.assert_allclose(drawn.get_xdata(), np.arange(2, 10), atol=0.11)  # against overlap
    star = data["n_star"].sel(rule="attention", mode="deletion", tau=0.01)
    expected = star.where(star["scope"].isin(few["scope"]))[2:10]
    np.testing.assert_array_equal(drawn.get_ydata(), expected)
    assert [text.get_text() for text in axes[1].texts] == ["not measured"]
    assert not axes[1].lines


def test_the_finding_depends_on_the_interval(run: Run) -> None:
    data = run.optional["ablation"]
    adds = data.sel(mode="deletion", outcome="rise at N = 8", predictor="geometry adds")
    sentence, of_budgets = data.attrs["answers"]
    assert float(adds["r2_held_out_layers_lower"]) < 0  # the loss depends on mass only
    assert "not significantly more than 0" in sentence
    assert f"{ABLATED_LAYERS * ABLATED_HEADS} heads" in sentence
    assert f"geometry adds {float(adds['r2_held_out_layers']):.2f} (95%: " in sentence
    assert caption_ablation(run).finding == f"{sentence} {of_budgets}"
    finding = caption_effective_layers(run).finding
    selected = run.optional["effective"].sel(
        scope="layer 0", rule="attention", mode="deletion", tau=0.01
    )
    star, low, high = (int(selected[f"n_star{end}"]) for end in ("", "_lower", "_upper"))
    assert finding == (
        f"Under deletion at τ = 1.0%, layer 0 has the largest N*: {star} tokens ({low} to {high})."
    )


def test_one_document_and_few_heads_give_no_interval() -> None:
    (sentence,) = ablation(1, parts="heads").attrs["answers"]
    assert "One document gives no interval" in sentence
    few = ablation().copy()
    few["r2_held_out_layers"] = few["r2_held_out_layers"] * np.nan
    assert "cannot be estimated: 100 heads, or their layers, are too few" in answers(few)[0]


def first_number(cell: str) -> float:
    return float(cell.split(" ± ")[0].replace("−", "-"))


def test_the_tables_contain_every_number(run: Run) -> None:
    data = run.optional["ablation"]
    frames = [table.frame() for table in tables(run)]
    function, prediction, needs, budgets, regimes, contexts = frames
    assert len(function) == data.sizes["feature"]
    outcomes = int(data["r2_held_out_layers"].notnull().any("predictor").sum())
    assert len(prediction) == outcomes == len(SIZES) + 1

    star = data["head_n_star"].sel(mode="deletion").values
    assert needs.iloc[:, 1].tolist() == ["All", "Retriever", "Mixer", "Reset"]
    first = needs.iloc[0].tolist()
    assert first[:3] == ["deletion", "All", str(ABLATED_LAYERS * ABLATED_HEADS)]
    assert first_number(first[3]) == pytest.approx((star == 1).mean(), abs=1e-3)
    half, most = np.sort(star.ravel())[[49, 89]]
    assert most > half > 1
    assert first[5].startswith(f"{half:.0f} [")
    assert first[6].startswith(f"{most:.0f} [")

    assert len(budgets) == len(BUDGETS) * len(WAYS)
    assert set(budgets[budgets.iloc[:, 2] == "equal selected mass"].iloc[:, 4]) == {"n/a"}
    row = budgets.iloc[0].tolist()
    assert row[:3] == ["deletion", "8", "equal for all heads"]
    difference = float(data["budget_less_mass"].sel(mode="deletion", budget=8, way="uniform"))
    assert first_number(row[4]) == pytest.approx(difference, abs=1e-3)

    assert len(regimes) == 3 * 2
    heads = str(int(data["regime_heads"][0]))
    assert regimes.iloc[0].tolist()[:3] == ["Retriever", heads, "keep 8, deletion"]

    assert contexts.iloc[:, 1].tolist() == ["16", "64"]
    assert contexts.iloc[0, 3] == str(int(data["context_n_star"][0, 0]))
    power = float(data["context_power"][0])
    assert first_number(contexts.iloc[0, 5]) == pytest.approx(power, abs=0.01)


def test_a_part_of_the_group_has_its_tables_and_no_empty_figure() -> None:
    for part, heads in (("budgets", True), ("context", False)):
        run = run_with(ablation=ablation(parts=part))
        assert [table.name for table in tables(run)] == [{"context": "contexts"}.get(part, part)]
        assert (run.heads_cut is not None) == heads
    assert run_with(effective=effective_layers().isel(scope=[3])).effective_layers is None
