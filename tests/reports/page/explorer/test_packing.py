"""Arrays packed into a page, read back as the page reads them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from reports.page.explorer.packing import Pack, unpacked

NUMBERS = st.floats(-1e6, 1e6) | st.just(np.nan)
TINY = np.finfo(np.float64).tiny
"""Below it a float64 has no full precision, nor has a step."""


@given(arrays.arrays(np.float64, arrays.array_shapes(max_dims=3, max_side=6), elements=NUMBERS))
def test_a_curve_is_kept_to_half_a_step_of_its_range_and_what_is_not_known_stays_so(values):
    pack = Pack()
    pack.exactly("before", np.arange(3))
    pack.coarsely({"curve": values})
    back = unpacked(pack.directory, pack.base64(), "curve")
    np.testing.assert_array_equal(np.isnan(back), np.isnan(values))
    known = values[~np.isnan(values)]
    if known.size:
        step = (known.max() - known.min()) / 65534
        error = np.abs(back - values)[~np.isnan(values)].max()
        assert error <= 0.5 * step * (1 + 1e-6) + 1e-9 * np.abs(known).max() + TINY


def test_weights_of_many_orders_of_magnitude_keep_their_relative_size():
    values = np.array([1e-9, 3e-5, 0.5, 0.0, np.nan])
    pack = Pack()
    pack.coarsely({"weight": values}, logarithm=True)
    back = unpacked(pack.directory, pack.base64(), "weight")
    np.testing.assert_allclose(back[:3], values[:3], rtol=2e-4)
    assert np.isnan(back[3:]).all()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_arrays_behind_one_of_odd_length_start_where_float32_may(size):
    pack = Pack()
    pack.coarsely({"curve": np.arange(size)})
    pack.exactly("value", np.array([[1.5, np.nan]]))
    assert pack.directory["value"]["start"] % 4 == 0
    np.testing.assert_array_equal(unpacked(pack.directory, pack.base64(), "value"), [[1.5, np.nan]])


def test_limits_stay_on_their_side_of_a_value():
    rng = np.random.default_rng(0)
    value = rng.random(2000)
    width = rng.random(2000) * 1e-5
    pack = Pack()
    pack.coarsely({"x": value, "low": value - width, "high": value + 3 * width})
    x, low, high = (unpacked(pack.directory, pack.base64(), name) for name in ("x", "low", "high"))
    assert (low <= x).all()
    assert (x <= high).all()


def test_a_limit_beyond_a_float32_is_not_finite_and_no_warning():
    pack = Pack()
    pack.exactly("upper", np.array([1.5, 1e300]))
    assert unpacked(pack.directory, pack.base64(), "upper").tolist() == [1.5, np.inf]
