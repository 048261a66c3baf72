import numpy as np
import pytest
from scipy.stats import rankdata

from geostat.statistics.arrays import ranks


@pytest.mark.parametrize("kinds", [1, 3, 1000])
@pytest.mark.parametrize("length", [0, 1, 30])
def test_ranks_equal_those_of_scipy(kinds, length):
    values = np.random.default_rng(0).integers(0, kinds, size=(4, 5, length)).astype(float)
    assert ranks(values).tolist() == rankdata(values, axis=-1).tolist()


def test_a_row_with_nan_has_nan_ranks():
    rows = np.array([[2.0, np.nan, 1.0], [2.0, 3.0, 1.0]])
    assert np.isnan(ranks(rows)[0]).all()
    assert ranks(rows)[1].tolist() == [2.0, 3.0, 1.0]
