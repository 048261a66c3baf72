"""Assumptions 1 and 3: the normalised golden profile, its order of entry and regimes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.golden import array, number
from support.places import GOLDEN

from theory.arrays import selection_order
from theory.errors import InputError
from theory.head.attention_profile import WeightProfile, regimes, value_norm_profile

ALL = json.loads((GOLDEN / "theory.json").read_text())["cases"]
GOLDEN = next(case for case in ALL if case["kind"] == "profile")


def golden_profile() -> WeightProfile:
    given_values = GOLDEN["input"]
    return WeightProfile(
        length=given_values["L"],
        plateau_end=given_values["T1"],
        growth_start=given_values["T2"],
        p_sink=number(given_values["p_sink"]),
        eta=number(given_values["eta"]),
        omega=number(given_values["omega"]),
    )


def test_profile_equals_exact_arithmetic() -> None:
    profile, expected = golden_profile(), GOLDEN["expected"]
    np.testing.assert_allclose(profile.weights(), array(expected["alpha"]), rtol=1e-10)
    np.testing.assert_allclose(profile.base(), number(expected["p_base"]), rtol=1e-10)
    assert selection_order(profile.weights()).tolist() == expected["order"]
    found = regimes(profile)
    assert {key: getattr(found, key) for key in expected["regimes"]} == expected["regimes"]


@given(
    st.integers(0, 10),
    st.integers(0, 10),
    st.integers(0, 10),
    st.floats(0, 0.9),
    st.floats(0.01, 1),
    st.floats(0, 6),
)
@settings(max_examples=50)
def test_weights_sum_to_one_unless_the_base_is_given(
    plateau: int, wave: int, tail: int, sink: float, eta: float, omega: float
) -> None:
    length = plateau + wave + tail + 1
    profile = WeightProfile(
        length=length,
        plateau_end=plateau,
        growth_start=plateau + wave,
        p_sink=sink,
        eta=eta,
        omega=omega,
    )
    assert profile.weights().sum() == pytest.approx(1.0)
    assert profile.weights()[0] == sink
    fixed = WeightProfile(
        length=length,
        plateau_end=plateau,
        growth_start=plateau + wave,
        p_sink=sink,
        eta=eta,
        omega=omega,
        p_base=1e-3,
    )
    np.testing.assert_allclose(fixed.weights()[1:] / 1e-3, profile.weights()[1:] / profile.base())


@given(
    st.integers(1, 12),
    st.integers(3, 20),
    st.integers(2, 12),
    st.floats(0.05, 1),
    st.floats(0.3, 2.8),
)
@settings(max_examples=80)
def test_order_of_entry_is_tail_peaks_plateau_valleys(
    plateau: int, wave: int, tail: int, eta: float, omega: float
) -> None:
    # Table 2 lists valleys before the plateau: by size they come last. Tail above peaks, because
    # e^η > 1 + η.
    profile = WeightProfile(
        length=plateau + wave + tail,
        plateau_end=plateau,
        growth_start=plateau + wave,
        p_sink=0.999,
        eta=eta,
        omega=omega,
    )
    found = regimes(profile)
    assert found.sink_rank == 1
    order = selection_order(profile.weights())
    cosine = np.cos(omega * order)
    assert order[0] == 0
    assert set(order[1 : found.m1 - 1]) == set(range(plateau + wave + 1, plateau + wave + tail + 1))
    assert (cosine[found.m1 - 1 : found.m2 - 1] > 0).all()
    assert (cosine[found.m3 - 1 :] < 0).all()
    assert found.n_peaks + found.n_valleys <= wave


def test_growth_may_be_separate_from_the_oscillation() -> None:
    shared, separate = (
        WeightProfile(
            length=6, plateau_end=1, growth_start=3, p_sink=0.1, eta=0.4, omega=1.0, growth=growth
        )
        for growth in (None, 0.1)
    )
    assert shared.shape()[-1] == pytest.approx(np.exp(0.4 * 3))
    assert separate.shape()[-1] == pytest.approx(np.exp(0.1 * 3))
    np.testing.assert_array_equal(shared.shape()[:3], separate.shape()[:3])


def test_value_norms_follow_assumption_1() -> None:
    np.testing.assert_array_equal(value_norm_profile(3, norm=2.0, sink_ratio=0.1), [0.2, 2, 2])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"plateau_end": 9}, "Reorder"),
        ({"p_sink": 1.5}, "p_sink"),
        ({"eta": 3.0, "omega": 3.0}, "negative"),
        ({"length": 0}, "Reorder"),
    ],
)
def test_bad_profiles_are_refused(changes: dict, message: str) -> None:
    good = {
        "length": 10,
        "plateau_end": 2,
        "growth_start": 6,
        "p_sink": 0.5,
        "eta": 0.5,
        "omega": 2.0,
    }
    with pytest.raises(InputError, match=message):
        WeightProfile(**(good | changes))


def test_regimes_need_the_order_they_describe() -> None:
    with pytest.raises(InputError, match="0 < eta <= 1"):
        regimes(
            WeightProfile(length=10, plateau_end=2, growth_start=6, p_sink=0.5, eta=-0.2, omega=2.0)
        )
    with pytest.raises(InputError, match="norms >= 0"):
        value_norm_profile(3, norm=-1.0)
