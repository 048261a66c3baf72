"""Algorithms 1-5 on one head: sizes, null baseline, radii, and sensitivity to logits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.model_g import assert_same

from studies.normaliser_limits import top_set
from theory.arrays import selection_order
from theory.errors import InputError
from theory.normaliser.distances import distances
from theory.normaliser.measured import (
    bounds_within,
    difference,
    nested,
    response,
    share_by_chance,
    steepest,
)
from theory.normaliser.normalisers import jacobian, weights
from theory.normaliser.separability import separability


def head(seed: int, length: int = 12, dimension: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return weights(2 * rng.normal(size=length)), rng.normal(size=(length, dimension))


@given(st.integers(0, 10**6))
def test_nested_selections_are_those_of_each_size(seed: int) -> None:
    alpha, values = head(seed)
    sizes = [1, 2, 5, 11]
    found = nested(alpha, values, selection_order(alpha), sizes)
    y = alpha[:, None] * values
    for index, n in enumerate(sizes):
        inside = top_set(alpha, n)
        one = distances(alpha, values, inside)
        assert found.total[index] == pytest.approx(float(one.total), rel=1e-6)
        assert found.bound[index] == pytest.approx(float(one.printed), rel=1e-9)
        s = y[inside].sum(axis=0)
        assert found.radius[index] == pytest.approx(np.linalg.norm(s))
        near = np.linalg.norm(s - y[inside], axis=1) <= np.linalg.norm(s) * (1 + 1e-12)
        assert found.within[index] == pytest.approx(near.mean())
    assert (found.total <= found.bound * (1 + 1e-6)).all()


def test_a_selection_in_another_order_has_no_bound() -> None:
    alpha, values = head(3)
    order = np.random.default_rng(0).permutation(12)
    found = nested(alpha, values, order, [4], bounded=False)
    inside = np.isin(np.arange(12), order[:4])
    assert found.total[0] == pytest.approx(float(distances(alpha, values, inside).total))
    assert np.isnan(found.bound).all()
    with pytest.raises(InputError, match=r"n is \[12\], expected 1 to 11"):
        nested(alpha, values, order, [12])


def test_bounds_are_those_of_the_selected_at_the_measured_radius() -> None:
    alpha, values = head(4)
    chosen = selection_order(alpha)[:5]
    y = alpha[chosen, None] * values[chosen]
    radius, norm_max = np.linalg.norm(y.sum(axis=0)), np.linalg.norm(values[chosen], axis=1).max()
    expected = separability(np.linalg.norm(y, axis=1), [radius], 4, norm_max=norm_max)
    names = ("printed_lower", "printed_upper", "sharp_lower", "sharp_upper")
    assert_same(bounds_within(alpha, values, 5), expected, names, rtol=1e-12)
    assert bounds_within(alpha, values, 1).sharp_lower == 1


@pytest.mark.parametrize("n", [3, 40])
def test_the_share_by_chance_of_flat_weights_follows_the_cosine_with_the_rest(n: int) -> None:
    # ‖s − y_i‖ ≤ ‖s‖ where cos(u_i, rest) ≥ −a/(2‖rest‖): here by drawing both on their own.
    rng = np.random.default_rng(n)
    rest = rng.normal(size=(20_000, n - 1, 16))
    rest /= np.linalg.norm(rest, axis=2, keepdims=True)
    length = np.linalg.norm(rest.sum(axis=1), axis=1)
    way = rng.normal(size=(20_000, 16))
    cosine = way[:, 0] / np.linalg.norm(way, axis=1)
    seen = (cosine >= -0.5 / length).mean()
    found = share_by_chance(np.ones(n), 16, 4000, rng)
    error = (seen * (1 - seen) * (1 / 20_000 + 1 / 4000)) ** 0.5
    assert abs(found - seen) < 4 * error
    one, seven = (
        share_by_chance(np.full(n, unit), 16, 4000, np.random.default_rng(1)) for unit in (1.0, 7.0)
    )
    assert one == pytest.approx(seven)


def test_the_critical_size_is_the_first_without_a_significant_difference() -> None:
    rng = np.random.default_rng(0)
    apart, alike = rng.normal(size=(2, 200, 4)), np.array([3.0, 1.0, 0.0, 0.0])
    found = difference(apart[0] + alike, apart[1], [1, 2, 4, 8])
    assert found.critical == 4
    assert (found.p_value[:2] < 0.05).all()
    assert found.statistic[0] > found.statistic[1] > found.statistic[2]
    assert np.isnan(difference(apart[0] + 9, apart[1], [1, 2, 4, 8]).critical)


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=8))
def test_the_steepest_direction_attains_the_norm_of_the_jacobian(logits: list[float]) -> None:
    slopes = jacobian(weights(logits))
    way = steepest(weights(logits))
    assert np.linalg.norm(way) == pytest.approx(1)
    norm = np.linalg.norm(slopes, 2)
    assert np.linalg.norm(slopes @ way) == pytest.approx(norm, rel=0.02)
    assert np.linalg.norm(slopes @ way) <= norm * (1 + 1e-9)


@pytest.mark.parametrize("cold", [0.05, 0.5, 2.0])
def test_responses_are_the_norm_at_that_temperature_and_stay_below_their_limit(
    cold: float,
) -> None:
    alpha, _ = head(6)
    norm = np.linalg.norm(jacobian(weights(np.log(alpha), cold), cold), 2)
    assert response(alpha, cold) == pytest.approx(norm, rel=0.02)
    assert response(alpha, cold) <= 1 / (2 * cold) * (1 + 1e-9)
    without = np.append(alpha, 0.0)  # a token that the query does not weigh changes nothing
    assert response(without, cold) == pytest.approx(float(response(alpha, cold)), rel=1e-6)
    pair = response([0.5, 0.5], cold)
    assert pair == pytest.approx(1 / (2 * cold), rel=1e-3)
    assert pair > 1 / (4 * cold)  # erratum 106
