"""Growth of the effective set size with context length, on synthetic losses."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import xarray as xr

from geostat.analyses.effective_size import Cell, next_size
from geostat.experiments.ablation.context import context_dataset, plain_cell
from geostat.experiments.ablation.dataset import summary
from geostat.statistics.arrays import FloatArray

POWERS = [2**exponent for exponent in range(10)]
PLAIN, TAU = np.array([2.0, 1.0, 3.0, 2.5]), 0.05


def searched(
    rise: Callable[[float, int], FloatArray | float], contexts: Sequence[int] = (64, 256, 1024)
) -> dict[Cell, FloatArray]:
    """Return the losses that a search evaluates, with the relative rise by N and context."""
    out: dict[Cell, FloatArray] = {}
    for context in contexts:
        plain = plain_cell(context)
        out[plain] = PLAIN
        curve: dict[int, FloatArray] = {}
        while (size := next_size(PLAIN, curve, [TAU], context)) is not None:
            curve[size] = PLAIN * (1 + rise(size, context))
            out[Cell(plain.scope, "attention", "deletion", size)] = curve[size]
    return out


def losses(power: float, contexts: Sequence[int] = (64, 256, 1024)) -> dict[Cell, FloatArray]:
    """Return losses with rise (share · L^power)/N, so N* is 20 · share · L^power."""
    share = np.array([0.11, 0.10, 0.09, 0.10])
    return searched(lambda size, context: share * context**power / size, contexts)


def dataset(losses: dict[Cell, FloatArray]) -> xr.Dataset:
    data = context_dataset(losses, TAU)
    assert data is not None
    return data


@pytest.mark.parametrize("power", [0.0, 0.5, 0.8])
def test_the_power_is_found(power):
    data = dataset(losses(power))
    stars = data["context_n_star"].sel(mode="deletion").values
    expected = np.ceil(2 * np.array([64, 256, 1024]) ** power)
    assert stars == pytest.approx(expected, abs=1)
    assert float(data["context_power"][0]) == pytest.approx(power, abs=0.05)
    assert float(data["context_power_se"][0]) < 0.05
    if power:
        assert float(data["context_power_lower"][0]) > 0


def test_what_is_not_settled_is_not_told():
    whole = losses(0.5)
    assert context_dataset(losses(0.5, (64,)), TAU) is None
    last = [cell for cell in whole if cell.scope == "last 1024 tokens" and cell.n]
    del whole[last[-1]]
    data = dataset(whole)
    assert np.isfinite(data["context_n_star"].values[0]).tolist() == [True, True, False]
    # from the other two contexts
    assert float(data["context_power"][0]) == pytest.approx(0.5, abs=0.05)


def test_the_power_is_of_places_that_are_not_rounded_up():
    place = {64: 2.06, 256: 3.95}
    data = dataset(searched(lambda size, context: TAU * (place[context] / size) ** 2, (64, 256)))
    assert data["context_n_star"].values.tolist() == [[3, 4]]
    expected = np.log(3.95 / 2.06) / np.log(4)
    assert float(data["context_power"][0]) == pytest.approx(expected, abs=0.04)


def test_no_power_is_told_where_one_token_is_enough_in_every_context():
    out = {
        cell: PLAIN * 1.01 if cell.n else PLAIN for cell in losses(0.0) if cell.n in (0, *POWERS)
    }
    data = dataset(out)
    assert (data["context_n_star"] == 1).all()
    assert np.isnan(float(data["context_power"][0]))
    assert np.isnan(float(data["context_power_lower"][0]))
    (line,) = summary(data.assign_attrs(context_tau=TAU))["ablation"]
    assert line == "deletion: 1 of 64, 1 of 256, 1 of 1024 tokens keep the loss within 5%"


def test_modes_of_other_contexts_stand_side_by_side():
    both = losses(0.5, (64, 256))
    for cell, loss in losses(0.5, (32, 128)).items():
        both[cell._replace(mode="renormalisation") if cell.n else cell] = loss
    data = dataset(both)
    found = np.isfinite(data["context_n_star"]).values.tolist()
    assert found == [[False, True, False, True], [True, False, True, False]]
    assert np.isfinite(data["context_power"]).all()
