"""Infeasible cosines by lag are projected to feasible ones; feasible ones are unchanged."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import eigvalsh, toeplitz

from theory.errors import InputError
from theory.head.projection import clip_spectrum


@given(st.lists(st.floats(-1, 1), max_size=40))
def test_vectors_with_the_cosines_that_are_returned_exist(rest: list[float]):
    by_lag = np.array([1.0, *rest])
    found = clip_spectrum(by_lag)
    assert found.by_lag.shape == by_lag.shape
    assert found.by_lag[0] == pytest.approx(1)
    assert eigvalsh(toeplitz(found.by_lag))[0] >= -1e-9
    assert np.abs(found.by_lag).max() <= 1 + 1e-9


@given(st.floats(0.01, 5), st.floats(0, 0.9))
def test_a_decay_that_exists_is_left_alone(beta: float, offset: float):
    by_lag = offset + (1 - offset) * np.exp(-beta * np.arange(50))
    found = clip_spectrum(by_lag)
    assert np.array_equal(found.by_lag, by_lag)
    assert found.distance == 0


def test_the_distance_is_the_root_mean_squared_change_over_pairs():
    by_lag = np.array([1.0, 0.9, -0.9, 0.2])
    found = clip_spectrum(by_lag)
    change = toeplitz(found.by_lag) - toeplitz(by_lag)
    assert found.distance == pytest.approx(np.sqrt((change**2).mean()))
    assert 0 < found.distance < 1


@pytest.mark.parametrize("by_lag", [[], [0.5, 0.1], [1.0, np.nan], [[1.0]]])
def test_what_is_no_sequence_of_cosines_is_refused(by_lag: object):
    with pytest.raises(InputError, match=r"expected a finite sequence of cosines .* Prepend 1"):
        clip_spectrum(np.array(by_lag, dtype=float))
