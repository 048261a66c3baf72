"""Theorem 1: the summed distance of unselected tokens, its bounds, and means over random sets."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.normaliser_limits import random_sets, top_set
from theory.errors import InputError
from theory.normaliser import expressions as x
from theory.normaliser.distances import distances, farthest_pair
from theory.normaliser.normalisers import weights
from theory.symbolic import symbols as s


def head(seed: int, length: int = 7, dimension: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return weights(rng.normal(size=length) * 2), rng.normal(size=(length, dimension))


def by_definition(alpha: np.ndarray, values: np.ndarray, inside: np.ndarray) -> dict[str, float]:
    y = [weight * value for weight, value in zip(alpha, values, strict=True)]
    total = sum(y[i] for i in np.flatnonzero(inside))
    out, chosen = np.flatnonzero(~inside), np.flatnonzero(inside)
    share = alpha[chosen].sum()
    apart = max(np.linalg.norm(values[i] - values[j]) for i in out for j in chosen)
    longest = max(np.linalg.norm(values[j]) for j in chosen)
    return {
        "total": sum(np.linalg.norm(total - y[i]) for i in out),
        "printed": (1 - share) * apart + longest * (share * len(out) - (1 - share)),
        "repaired": (1 - share) * apart + longest * sum(abs(share - alpha[i]) for i in out),
        "apart": apart,
    }


@given(st.integers(0, 10**6), st.integers(1, 6), st.booleans())
def test_the_summed_distance_lies_within_its_bounds(seed: int, n: int, ranked: bool) -> None:
    alpha, values = head(seed)
    inside = top_set(alpha if ranked else np.random.default_rng(seed).random(7), n)
    found, expected = distances(alpha, values, inside), by_definition(alpha, values, inside)
    for name in ("total", "printed", "repaired"):
        assert getattr(found, name) == pytest.approx(expected[name], rel=1e-9)
    assert found.lower <= found.total * (1 + 1e-12)
    for bound in (found.repaired, found.upper, *([found.printed] if ranked else [])):
        assert found.total <= bound * (1 + 1e-9)
    assert bool(found.covered) or not ranked
    assert farthest_pair(values, inside) == pytest.approx(expected["apart"], rel=1e-9)


def test_the_printed_bound_is_attained_and_fails_of_one_norm() -> None:
    # Three flat tokens on a line, 1 selected: 2·|1/3 − 2/3| = (2/3)·1 + 1·[2/3 − 2/3].
    found = distances([1 / 3] * 3, [[1.0], [2.0], [2.0]], [True, False, False])
    assert found.total == pytest.approx(2 / 3)
    assert found.printed == pytest.approx(2 / 3)
    assert found.one_norm == pytest.approx(1)
    assert found.root == pytest.approx(2**0.5 / 3)


def test_heads_are_done_side_by_side() -> None:
    alpha, values = (np.stack(pair) for pair in zip(*(head(k) for k in range(4)), strict=True))
    found = distances(alpha, values, top_set(alpha, 3))
    for k in range(4):
        one = distances(alpha[k], values[k], top_set(alpha[k], 3))
        for name in ("total", "one_norm", "root", "printed", "repaired", "lower", "upper"):
            assert getattr(found, name)[k] == pytest.approx(float(getattr(one, name)), rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_means_over_all_sets_are_those_of_the_closed_form(n: int) -> None:
    alpha, values = head(5)
    sets = [np.isin(np.arange(7), chosen) for chosen in combinations(range(7), n)]
    found = [distances(alpha, values, inside) for inside in sets]
    exact = random_sets(alpha, values, n)
    squares = np.mean([one.root**2 for one in found])
    assert exact.squares == pytest.approx(squares, rel=1e-12)
    assert exact.lower <= np.mean([one.total for one in found]) <= exact.upper
    numbers = {x.length: 7, s.N: n, x.own: float(((alpha[:, None] * values) ** 2).sum())}
    numbers[x.Norm(x.whole)] = float(np.linalg.norm(alpha @ values))
    stated = float(x.RANDOM_SQUARES.expression.subs(numbers))
    assert stated == pytest.approx(squares, rel=1e-12)


def test_the_bound_of_print_equals_its_symbol() -> None:
    alpha, values = head(8)
    inside = top_set(alpha, 3)
    share, found = float(alpha[inside].sum()), distances(alpha, values, inside)
    numbers = {x.length: 7, s.N: 3, x.share_in: share}
    numbers[x.d_1] = float(farthest_pair(values, inside))
    numbers[x.norm_in] = float(np.linalg.norm(values[inside], axis=1).max())
    stated = float(x.DISTANCE_UPPER.expression.subs(numbers))
    assert stated == pytest.approx(float(found.printed), rel=1e-12)


@pytest.mark.parametrize("n", [0, 7])
def test_a_selection_of_none_or_all_is_refused(n: int) -> None:
    with pytest.raises(InputError, match=f"n is {n}, expected 1 to 6, fewer than the tokens"):
        random_sets(*head(1), n)
    with pytest.raises(InputError, match="selects no token or all of them"):
        distances(*head(1), np.full(7, bool(n)))


def test_unlike_shapes_are_refused() -> None:
    alpha, values = head(1)
    with pytest.raises(InputError, match=r"expected \(…, L\), \(…, L, d\) and \(…, L\)"):
        distances(alpha[1:], values, np.full(7, True))
