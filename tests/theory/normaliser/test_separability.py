"""Theorem 2 and the exact law of a sum of random directions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import InputError
from theory.normaliser import expressions as x
from theory.normaliser.direction_sums import share_within
from theory.normaliser.separability import (
    expected_share,
    mean_lengths_below,
    mean_squares,
    separability,
    square_variances,
)
from theory.symbolic import symbols as s
from theory.symbolic.operations import spell_out

WEIGHTS = st.lists(st.floats(0.01, 3), min_size=2, max_size=8)


@given(WEIGHTS, st.floats(0.1, 2), st.integers(8, 64))
def test_the_exact_share_lies_within_all_bounds(a: list[float], rho: float, d: int) -> None:
    radius = rho * float(np.sqrt(np.mean(mean_squares(np.array(a)))))
    found = separability(a, [radius], d, norm_max=float(np.linalg.norm(a)))
    share = expected_share(a, [radius], d)
    assert max(found.printed_lower, found.sharp_lower) <= share + 1e-9
    assert share <= min(found.printed_upper, found.repaired_upper, found.sharp_upper) + 1e-9


def random_steps(a: list[float], draws: int, d: int) -> np.ndarray:
    """Vectors of these lengths in uniform directions, (draws, N, d)."""
    y = np.random.default_rng(d).normal(size=(draws, len(a), d))
    return y * (np.array(a) / np.linalg.norm(y, axis=2))[:, :, None]


@pytest.mark.parametrize(
    ("a", "d", "radii"),
    [
        *(([1.0, 0.7], d, [0.5, 1.0, 1.3]) for d in (2, 3, 5, 64)),
        *(([1.0, 0.2, 0.7, 0.7, 0.4], d, [1.19, 1.41, 1.48, 1.63]) for d in (8, 33, 128)),
    ],
)
def test_sums_of_steps_have_the_law_of_simulation(
    a: list[float], d: int, radii: list[float]
) -> None:
    draws = 100_000 if len(a) == 2 else 20_000
    length = np.linalg.norm(random_steps(a, draws, d).sum(axis=1), axis=1)
    for r, share in zip(radii, share_within(a, radii, d), strict=True):
        seen = (length <= r).mean()
        error = max((seen * (1 - seen) / len(length)) ** 0.5, 1 / len(length))
        assert abs(share - seen) < 4 * error


def test_the_law_of_three_dimensions_of_two_equal_steps_is_quadratic() -> None:
    # In d = 3 cosines are uniform: P{R ≤ r} = r²/4 for unit steps.
    r = np.linspace(0, 2, 9)
    np.testing.assert_allclose(share_within([1.0, 1.0], r, 3), r**2 / 4, atol=1e-12)


def test_the_law_ends_where_steps_do_and_rises_between() -> None:
    r = np.linspace(0.0, 4.2, 40)
    share = share_within([1.0, 1.0, 1.0, 1.0], r, 16)
    assert share[0] == 0
    assert (share[r >= 4] == 1).all()
    assert (np.diff(share) > -1e-12).all()
    assert share_within([0.0, 2.0], 1.9, 16) == 0
    assert share_within([0.0, 2.0], 2.0, 16) == 1


@pytest.mark.parametrize("d", [2, 6])
def test_variance_and_mean_of_a_distance(d: int) -> None:
    a = np.array([0.3, 1.0, 0.5, 0.8])
    y = random_steps(a.tolist(), 200_000, d)
    square = ((y.sum(axis=1)[:, None] - y) ** 2).sum(axis=2)
    away = (square - mean_squares(a)) ** 2
    for seen, expected in ((square, mean_squares(a)), (away, square_variances(a, d))):
        error = seen.std(axis=0) / len(seen) ** 0.5
        assert (np.abs(seen.mean(axis=0) - expected) < 4 * error).all()
    assert (mean_lengths_below(a, d) < np.sqrt(square).mean(axis=0)).all()


def test_of_two_tokens_distances_are_certain() -> None:
    # R_i is the other one's weight: within 0.5 lies the token whose partner has 0.25.
    found = separability([0.5, 0.25], [0.25, 0.4, 0.5], 16, norm_max=1.0)
    np.testing.assert_allclose(found.sharp_lower, [0.5, 0.5, 1.0])
    np.testing.assert_allclose(found.sharp_upper, [0.5, 0.5, 1.0], atol=1e-12)
    np.testing.assert_allclose(expected_share([0.5, 0.25], [0.25, 0.4, 0.5], 16), [0.5, 0.5, 1.0])


def test_the_printed_upper_bound_follows_from_cantelli() -> None:
    # The step that stands in the place of print's: 1/(1 + (1−ρ²)²) ≤ exp(−(1−ρ)²/2) on [0, 1].
    rho = np.linspace(0, 1, 10_001)
    assert (1 / (1 + (1 - rho**2) ** 2) <= np.exp(-((1 - rho) ** 2) / 2) + 1e-15).all()


def test_bounds_equal_their_symbols() -> None:
    a, r, d = [0.5, 0.3, 0.4], 0.45, 12
    found = separability(a, [r], d, norm_max=1.5)
    numbers = {s.radius: r, s.N: 3, s.d: d, x.norm_in: 1.5, **{s.a[i]: a[i] for i in range(3)}}

    def stated(statement: Any, token: int | None = None) -> float:
        spelled = spell_out(statement.expression, {s.I_N: [0, 1, 2]})
        return float(spelled.subs({} if token is None else {s.i: token}).subs(numbers))

    numbers |= {x.rms[i]: stated(x.RMS, i) for i in range(3)}
    variances = [stated(x.VARIANCE, i) for i in range(3)]
    np.testing.assert_allclose(square_variances(np.array(a), d), variances)
    numbers |= {x.variance[i]: variances[i] for i in range(3)}
    assert found.printed_lower[0] == pytest.approx(stated(x.SHARE_LOWER), rel=1e-12)
    assert found.printed_upper[0] == pytest.approx(stated(x.SHARE_UPPER), rel=1e-12)
    assert found.sharp_upper[0] <= stated(x.SHARP_SHARE_UPPER) * (1 + 1e-9)
    assert found.sharp_lower[0] >= stated(x.SHARP_SHARE_LOWER) - 1e-9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: separability([0.0, 1.0], [1.0], 8, norm_max=1.0), "least weight 0.* positive"),
        (lambda: separability([1.0, 1.0], [0.0], 8, norm_max=1.0), "least radius 0.* positive"),
        (lambda: separability([1.0, 1.0], [1.0], 1, norm_max=1.0), "dimension is 1.* at least 2"),
        (lambda: share_within([1.0] * 3, 1.0, 7), "dimension is 7, expected 8 to 128 for 3 steps"),
        (lambda: share_within([1.0] * 3, 1.0, 129), "dimension is 129, expected 8 to 128"),
    ],
)
def test_bad_input_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
