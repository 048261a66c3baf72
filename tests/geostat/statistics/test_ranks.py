"""Ranks are scipy's, and an unknown value leaves its row without any."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata

from geostat.statistics.ranks import ranks


@pytest.mark.parametrize("kinds", [1, 3, 1000])
def test_ranks_are_scipys(kinds: int) -> None:
    values = np.random.default_rng(0).integers(0, kinds, size=(4, 5, 30)).astype(float)
    assert ranks(values).tolist() == rankdata(values, axis=-1).tolist()


def test_a_row_with_an_unknown_value_has_no_ranks() -> None:
    rows = np.array([[2.0, np.nan, 1.0], [2.0, 3.0, 1.0]])
    assert np.isnan(ranks(rows)[0]).all()
    assert ranks(rows)[1].tolist() == [2.0, 3.0, 1.0]


@pytest.mark.parametrize("length", [0, 1])
def test_short_rows(length: int) -> None:
    assert ranks(np.zeros((2, length))).tolist() == [[1.0] * length] * 2
