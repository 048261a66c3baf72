"""Theorem 2 and the exact law of a sum of random directions."""

from __future__ import annotations

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
    for lower in (found.printed_lower, found.sharp_lower):
        assert lower <= share + 1e-9
    for upper in (found.printed_upper, found.repaired_upper, found.sharp_upper):
        assert share <= upper + 1e-9


@pytest.mark.parametrize("d", [2, 3, 5, 64])
def test_two_steps_have_the_law_of_one_cosine(d: int) -> None:
    rng = np.random.default_rng(d)
    cosine = rng.normal(size=(200_000, d))
    cosine = cosine[:, 0] / np.linalg.norm(cosine, axis=1)
    length = np.sqrt(1 + 0.49 + 1.4 * cosine)
    for r in (0.5, 1.0, 1.3):
        seen = (length <= r).mean()
        error = max((seen * (1 - seen) / len(length)) ** 0.5, 1 / len(length))
        assert abs(share_within([1.0, 0.7], r, d) - seen) < 4 * error


@pytest.mark.parametrize("d", [8, 33, 128])
def test_many_steps_have_the_law_of_simulation(d: int) -> None:
    rng = np.random.default_rng(d)
    a = np.array([1.0, 0.2, 0.7, 0.7, 0.4])
    y = rng.normal(size=(20_000, 5, d))
    y *= (a / np.linalg.norm(y, axis=2))[:, :, None]
    length = np.linalg.norm(y.sum(axis=1), axis=1)
    rms = (a**2).sum() ** 0.5
    radii = rms * np.array([0.8, 0.95, 1.0, 1.1])
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
    rng = np.random.default_rng(d)
    a = np.array([0.3, 1.0, 0.5, 0.8])
    y = rng.normal(size=(200_000, 4, d))
    y *= (a / np.linalg.norm(y, axis=2))[:, :, None]
    square = ((y.sum(axis=1)[:, None] - y) ** 2).sum(axis=2)
    error = square.std(axis=0) / len(square) ** 0.5
    assert (np.abs(square.mean(axis=0) - mean_squares(a)) < 4 * error).all()
    away = (square - mean_squares(a)) ** 2
    error = away.std(axis=0) / len(square) ** 0.5
    assert (np.abs(away.mean(axis=0) - square_variances(a, d)) < 4 * error).all()
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
    members = {s.I_N: [0, 1, 2]}
    numbers = {s.radius: r, s.N: 3, s.d: d, x.norm_in: 1.5}
    numbers |= {s.a[i]: a[i] for i in range(3)}
    for i in range(3):
        numbers[x.rms[i]] = spell_out(x.RMS, members).subs(s.i, i).subs(numbers)
        numbers[x.variance[i]] = spell_out(x.VARIANCE, members).subs(s.i, i).subs(numbers)
    for name, expression in (
        ("printed_lower", x.SHARE_LOWER),
        ("printed_upper", x.SHARE_UPPER),
    ):
        value = float(spell_out(expression, members).subs(numbers))
        assert getattr(found, name)[0] == pytest.approx(value, rel=1e-12)
    upper = float(spell_out(x.SHARP_SHARE_UPPER, members).subs(numbers))
    lower = float(spell_out(x.SHARP_SHARE_LOWER, members).subs(numbers))
    assert found.sharp_upper[0] <= upper * (1 + 1e-9)
    assert found.sharp_lower[0] >= lower - 1e-9
    np.testing.assert_allclose(
        square_variances(np.array(a), d), [float(numbers[x.variance[i]]) for i in range(3)]
    )


@pytest.mark.parametrize(
    ("a", "r", "d"), [([0.0, 1.0], 1.0, 8), ([1.0, 1.0], 0.0, 8), ([1.0, 1.0], 1.0, 1)]
)
def test_what_has_no_meaning_is_refused(a: list[float], r: float, d: int) -> None:
    with pytest.raises(InputError, match="expected at least 2 and positive ones"):
        separability(a, [r], d, norm_max=1.0)


@pytest.mark.parametrize("d", [7, 129])
def test_dimensions_that_the_law_cannot_do_are_refused(d: int) -> None:
    with pytest.raises(InputError, match=f"dimension is {d}, expected 8 to 128 for 3 steps"):
        share_within([1.0, 1.0, 1.0], 1.0, d)
