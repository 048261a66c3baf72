"""How the effective set size grows with the context, on losses that are made to grow so."""

from __future__ import annotations

import numpy as np
import pytest

from geostat.experiments.ablation.context import context_dataset, plain_cell
from geostat.experiments.effective_size import Cell, next_size
from geostat.runs.ablation.told import told
from geostat.statistics.arrays import FloatArray

POWERS = [2**exponent for exponent in range(10)]
PLAIN, TAU = np.array([2.0, 1.0, 3.0, 2.5]), 0.05


def losses(power: float, contexts: tuple[int, ...] = (64, 256, 1024)) -> dict[Cell, FloatArray]:
    """A rise of (share of L^power)/N: N* is 20 times that share of L^power."""
    out: dict[Cell, FloatArray] = {}
    share = np.array([0.11, 0.10, 0.09, 0.10])
    for context in contexts:
        out[plain_cell(context)] = PLAIN
        curve: dict[int, FloatArray] = {}
        while (size := next_size(PLAIN, curve, [TAU], context)) is not None:
            curve[size] = PLAIN * (1 + share * context**power / size)
        scope = plain_cell(context).scope
        out |= {Cell(scope, "attention", "deletion", n): loss for n, loss in curve.items()}
    return out


@pytest.mark.parametrize("power", [0.0, 0.5, 0.8])
def test_the_power_is_found(power: float) -> None:
    data = context_dataset(losses(power), TAU)
    assert data is not None
    stars = data["context_n_star"].sel(mode="deletion").values
    expected = np.ceil(2 * np.array([64, 256, 1024]) ** power)
    assert stars == pytest.approx(expected, abs=1)
    assert float(data["context_power"][0]) == pytest.approx(power, abs=0.05)
    assert float(data["context_power_se"][0]) < 0.05
    if power:
        assert float(data["context_power_lower"][0]) > 0


def test_what_is_not_settled_is_not_told() -> None:
    whole = losses(0.5)
    assert context_dataset(losses(0.5, (64,)), TAU) is None
    last = [cell for cell in whole if cell.scope == "last 1024 tokens" and cell.n]
    del whole[last[-1]]
    data = context_dataset(whole, TAU)
    assert data is not None
    assert np.isfinite(data["context_n_star"].values[0]).tolist() == [True, True, False]
    assert float(data["context_power"][0]) == pytest.approx(0.5, abs=0.05)  # of the other two


def test_the_power_is_of_places_that_are_not_rounded_up() -> None:
    out: dict[Cell, FloatArray] = {}
    for context, place in ((64, 2.06), (256, 3.95)):
        out[plain_cell(context)] = PLAIN
        curve: dict[int, FloatArray] = {}
        while (size := next_size(PLAIN, curve, [TAU], context)) is not None:
            curve[size] = PLAIN * (1 + TAU * (place / size) ** 2)
        scope = plain_cell(context).scope
        out |= {Cell(scope, "attention", "deletion", n): loss for n, loss in curve.items()}
    data = context_dataset(out, TAU)
    assert data is not None
    assert data["context_n_star"].values.tolist() == [[3, 4]]
    expected = np.log(3.95 / 2.06) / np.log(4)
    assert float(data["context_power"][0]) == pytest.approx(expected, abs=0.04)


def test_no_power_is_told_where_one_token_is_enough_in_every_context() -> None:
    out = {
        cell: PLAIN * 1.01 if cell.n else PLAIN for cell in losses(0.0) if cell.n in (0, *POWERS)
    }
    data = context_dataset(out, TAU)
    assert data is not None
    assert (data["context_n_star"] == 1).all()
    assert np.isnan(float(data["context_power"][0]))
    assert np.isnan(float(data["context_power_lower"][0]))
    (line,) = told(data.assign_attrs(context_tau=TAU))["ablation"]
    assert line == "deletion: 1 of 64, 1 of 256, 1 of 1024 tokens keep the loss within 5%"


def test_modes_of_other_contexts_stand_side_by_side() -> None:
    both = losses(0.5, (64, 256))
    for cell, loss in losses(0.5, (32, 128)).items():
        both[cell._replace(mode="renormalisation") if cell.n else cell] = loss
    data = context_dataset(both, TAU)
    assert data is not None
    found = np.isfinite(data["context_n_star"]).values.tolist()
    assert found == [[False, True, False, True], [True, False, True, False]]
    assert np.isfinite(data["context_power"]).all()
