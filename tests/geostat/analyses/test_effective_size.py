import math

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import stdtrit

from geostat.analyses.effective_size import Cell, bracket, next_size, star
from geostat.experiments.effective.dataset import SETS, VARIABLES, cells_of, effective_dataset

TOKENS = 40
PLAIN = np.array([2.0, 1.0, 3.0])


def searched(
    rise: np.ndarray, taus: list[float], tokens: int, plain: np.ndarray = PLAIN
) -> dict[int, np.ndarray]:
    """Return the losses that a search evaluates; `rise[:, N − 1]` is the relative rise at N."""
    losses: dict[int, np.ndarray] = {}
    plain = plain[: len(rise)]
    while (size := next_size(plain, losses, taus, tokens)) is not None:
        assert 1 <= size < tokens
        assert size not in losses
        losses[size] = plain * (1 + rise[:, size - 1])
    return losses


@given(
    falls=st.lists(st.floats(0, 1), min_size=2, max_size=60),
    tau=st.floats(0.001, 3),
    second=st.floats(0.001, 3),
)
def test_n_star_of_a_decreasing_loss_is_the_smallest_n(falls, tau, second):
    tokens = len(falls) + 1
    rise = np.cumsum(falls[::-1])[::-1][None]  # at 1 … tokens − 1
    losses = searched(rise, [tau, second], tokens)
    mean = (PLAIN[0] * (1 + rise[0])) / PLAIN[0] - 1
    for share in (tau, second):
        expected = next((n for n in range(1, tokens) if mean[n - 1] <= share), tokens)
        assert float(star(PLAIN[:1], losses, share, tokens).value) == expected
    assert len(losses) <= 2 + 3 * math.ceil(math.log2(tokens))


def test_the_loss_is_within_tau_at_every_evaluated_n_above_n_star():
    chance = np.random.default_rng(0)
    for _ in range(50):
        rise = chance.normal(size=(3, TOKENS - 1)) * np.geomspace(3, 0.01, TOKENS - 1)
        losses = searched(rise, [0.1], TOKENS)
        found = int(star(PLAIN, losses, 0.1, TOKENS).value)
        mean = rise.mean(axis=0)
        assert all(mean[n - 1] <= 0.1 for n in losses if n >= found)
        if found > 1:
            assert found - 1 in losses
            assert mean[found - 2] > 0.1


def test_a_size_lies_within_its_interval():
    chance, outside = np.random.default_rng(2), 0
    for _ in range(50):
        rise = 0.6 * chance.normal(1, 0.05, size=(3, 1)) / np.arange(1, TOKENS)
        found = star(PLAIN, searched(rise, [0.05], TOKENS), 0.05, TOKENS)
        outside += not float(found.lower) <= float(found.value) <= float(found.upper)
    assert outside == 0


def test_n_star_of_one_in_every_replicate_has_no_interval():
    losses = searched(np.array([[0.05], [0.04], [0.03]]) / np.arange(1, TOKENS), [0.1], TOKENS)
    found = star(PLAIN, losses, 0.1, TOKENS)
    assert float(found.value) == 1
    assert math.isnan(float(found.lower))


def test_an_incomplete_search_has_no_n_star():
    losses = {n: PLAIN * (1 + 1 / n) for n in (1, 2, 4, 8, 16, 32)}
    assert bracket({n: 1 / n for n in losses}, 0.1, TOKENS) == (8, 16)
    begun = {1: PLAIN * 1.01}  # state of an interrupted search
    for known in (losses, begun):
        found = star(PLAIN, known, 0.1, TOKENS)
        assert np.isnan([found.value, found.se]).all()
    assert [float(star(PLAIN, losses, tau, TOKENS).value) for tau in (0.5, 5.0)] == [2, 1]


def test_the_interval_of_n_star_is_the_jackknife_of_the_crossing():
    sizes = np.arange(1, TOKENS)
    rise = np.array([[0.6], [1.0], [1.7]]) / sizes
    losses = searched(rise, [0.1], TOKENS)
    found = star(PLAIN, losses, 0.1, TOKENS)
    tried = np.array(sorted(losses))

    def crossing(mean: np.ndarray) -> float:
        values = mean[tried - 1]
        last = int(np.flatnonzero(values > 0.1)[-1])
        return float(np.interp(-0.1, -values[last : last + 2], np.log(tried[last : last + 2])))

    assert float(found.value) == 11
    logs = [crossing(np.delete(rise, k, axis=0).mean(axis=0)) for k in range(3)]
    se = math.sqrt(2 / 3 * sum((log - np.mean(logs)) ** 2 for log in logs))
    centre, half = crossing(rise.mean(axis=0)), stats.t.ppf(0.975, 2) * se
    assert float(found.se) == pytest.approx(11 * se)
    assert float(found.lower) == math.ceil(math.exp(centre - half))
    assert float(found.upper) == TOKENS < math.exp(centre + half)


@pytest.mark.parametrize("spread", [0.3, 0.8])
@pytest.mark.parametrize("documents", [3, 8])
def test_the_interval_of_n_star_has_nominal_coverage(documents, spread):
    # Documents whose rise is c/N, c lognormal: the true N* is that of the mean c.
    chance, inside, tau = np.random.default_rng(1), 0, 0.1
    sizes = np.arange(1, 200)
    trials = 300
    true = math.ceil(math.exp(spread**2 / 2) / tau)
    plain = np.ones(documents)
    for _ in range(trials):
        rise = chance.lognormal(sigma=spread, size=(documents, 1)) / sizes
        found = star(plain, searched(rise, [tau], 200, plain), tau, 200)
        inside += float(found.lower) <= true <= float(found.upper)
    assert abs(inside / trials - 0.95) < 4 * math.sqrt(0.95 * 0.05 / trials)


def dataset() -> xr.Dataset:
    rise = np.array([[0.6], [1.0], [1.7]]) / np.arange(1, TOKENS)
    losses = {
        Cell("all", "attention", "deletion", n): loss
        for n, loss in searched(rise, [0.1, 0.5], TOKENS).items()
    }
    losses[Cell("layer 3", "recent", "renormalisation", 4)] = PLAIN * 1.5
    losses[Cell("all", "attention", "deletion", 32)] = PLAIN * 1.08  # above the losses at smaller N
    held = Cell("all", "sparsemax", "deletion", 0)
    losses[held] = PLAIN * np.array([1.1, 1.2, 1.3])
    sizes = {held: np.array([2.0, 3.0, 4.0])}
    return effective_dataset(PLAIN, losses, sizes, taus=[0.1, 0.5], tokens=TOKENS, attributes={})


def test_the_dataset_has_every_loss_and_n_star():
    data = dataset()
    curve = data.sel(scope="all", rule="attention", mode="deletion")
    assert curve["n_star"].values.tolist() == [11.0, 3.0]
    assert curve["loss_rise"].sel(n=1).item() == pytest.approx(1.1)
    assert curve["loss_rise_se"].sel(n=1).item() == pytest.approx(
        np.std([0.6, 1.0, 1.7], ddof=1) / math.sqrt(3)
    )
    assert int(curve["steps_up"]) == 1
    before = max(n for n in curve["n"].values if n < 32 and curve["loss"].sel(n=n).notnull().all())
    assert float(curve["largest_step_up"]) == pytest.approx(0.08 - 1.1 / before)
    other = data.sel(scope="layer 3", rule="recent", mode="renormalisation")
    assert bool(other["n_star"].isnull().all())
    assert other["loss"].sel(n=4).values.tolist() == (PLAIN * 1.5).tolist()
    assert bool(other["loss"].sel(n=2).isnull().all())
    assert bool(other["steps_up"].isnull())
    for record in (*VARIABLES, *SETS):
        for part in record.parts().values():
            assert data[part.name].dims == part.dims, part.name
            assert data[part.name].attrs["long_name"]


def test_the_dataset_has_sets_with_t_intervals_of_their_loss():
    own = dataset().sel(scope="all", set_rule="sparsemax", mode="deletion")
    half = stdtrit(2, 0.975) * 0.1 / 3**0.5
    assert own["set_loss_rise"].item() == pytest.approx(0.2)
    assert own["set_loss_rise_lower"].item() == pytest.approx(0.2 - half)
    assert own["set_size"].values.tolist() == [2.0, 3.0, 4.0]
    held = Cell("all", "sparsemax", "deletion", 0)
    losses, sizes = {held: PLAIN[:2] * [0.9, 2.5]}, {held: np.ones(2)}
    few = effective_dataset(PLAIN[:2], losses, sizes, taus=[], tokens=9, attributes={})
    assert few["set_loss_rise_lower"].item() == -1.0  # 0.7 ± 0.8, with one degree of freedom
    assert few["set_loss_rise_upper"].item() > 10


def test_losses_are_read_back_from_a_dataset():
    data = dataset()
    losses, sizes = cells_of(data)
    plain = data["plain_loss"].values
    again = effective_dataset(plain, losses, sizes, taus=[0.1, 0.5], tokens=TOKENS, attributes={})
    xr.testing.assert_identical(again.sel(n=data["n"]), data)


def test_one_document_has_no_error():
    losses = {
        Cell("all", "attention", "deletion", n): PLAIN[:1] * (1 + 1 / n) for n in (1, 2, 3, 4, 8)
    }
    data = effective_dataset(PLAIN[:1], losses, {}, taus=[0.4], tokens=16, attributes={})
    assert float(data["n_star"].squeeze()) == 3
    assert np.isnan(data[["n_star_se", "n_star_lower"]].to_dataarray()).all()
