"""Assumptions 1 and 3: the normalised golden profile, its order of entry and regimes."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.golden import CASES, array, number
from support.heads import phases

from theory.arrays import selection_order
from theory.errors import InputError
from theory.head.attention_profile import WeightProfile, regimes, value_norm_profile


def test_profile_equals_exact_arithmetic() -> None:
    case, expected = CASES["P1_profile"]["input"], CASES["P1_profile"]["expected"]
    shape = {name: number(case[name]) for name in ("p_sink", "eta", "omega")}
    profile = WeightProfile(
        length=case["L"], plateau_end=case["T1"], growth_start=case["T2"], **shape
    )
    np.testing.assert_allclose(profile.weights(), array(expected["alpha"]), rtol=1e-10)
    np.testing.assert_allclose(profile.base(), number(expected["p_base"]), rtol=1e-10)
    assert selection_order(profile.weights()).tolist() == expected["order"]
    found = regimes(profile)
    assert {key: getattr(found, key) for key in expected["regimes"]} == expected["regimes"]


LENGTHS = st.tuples(st.integers(0, 10), st.integers(0, 10), st.integers(1, 11))


@given(LENGTHS, st.floats(0, 0.9), st.floats(0.01, 1), st.floats(0, 6))
def test_weights_sum_to_one_unless_the_base_is_given(
    lengths: tuple[int, int, int], p_sink: float, eta: float, omega: float
) -> None:
    shape = {"p_sink": p_sink, "eta": eta, "omega": omega}
    profile, fixed = phases(*lengths, **shape), phases(*lengths, **shape, p_base=1e-3)
    assert profile.weights().sum() == pytest.approx(1.0)
    assert profile.weights()[0] == p_sink
    np.testing.assert_allclose(fixed.weights()[1:] / 1e-3, profile.weights()[1:] / profile.base())


def test_growth_may_be_separate_from_the_oscillation() -> None:
    shared, separate = (
        phases(1, 2, 3, p_sink=0.1, eta=0.4, omega=1.0, growth=growth).shape()
        for growth in (None, 0.1)
    )
    assert (shared[-1], separate[-1]) == pytest.approx((np.exp(0.4 * 3), np.exp(0.1 * 3)))
    np.testing.assert_array_equal(shared[:3], separate[:3])


def profile(**changes: float) -> WeightProfile:
    shape = {"length": 10, "plateau_end": 2, "growth_start": 6, "p_sink": 0.5}
    return WeightProfile(**{**shape, "eta": 0.5, "omega": 2.0, **changes})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: profile(plateau_end=9), "Reorder"),
        (lambda: profile(length=0), "Reorder"),
        (lambda: profile(p_sink=1.5), "p_sink"),
        (lambda: profile(eta=3.0, omega=3.0), "negative"),
        (lambda: regimes(profile(eta=-0.2)), "0 < eta <= 1"),
        (lambda: value_norm_profile(3, norm=-1.0), "norms >= 0"),
    ],
)
def test_bad_profiles_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
