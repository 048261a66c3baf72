"""The component of variance between kinds of text, against statsmodels and by simulation."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
import xarray as xr
from statsmodels.stats.anova import anova_lm

from geostat.experiments import kinds_of_text
from geostat.experiments.kinds_of_text import (
    QUANTITIES,
    VARIABLES,
    OneWay,
    between_kinds,
    contributions,
    kinds_of,
    rows_of,
)
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import document_mean

KINDS = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
"""Unequal counts."""


def scattered(share: float, kinds: np.ndarray, heads: int, seed: int) -> FloatArray:
    """(head, document): normal, `share` of the variance between kinds; heads go together."""
    random = np.random.default_rng(seed)
    loads = np.random.default_rng(0).normal(size=(heads, 3)) / np.sqrt(6)

    def noise(count: int) -> FloatArray:
        own = random.normal(size=(heads, count)) / np.sqrt(2)
        return loads @ random.normal(size=(3, count)) + own

    between, within = noise(kinds.max() + 1)[:, kinds], noise(len(kinds))
    return np.sqrt(share) * between + np.sqrt(1 - share) * within


def test_mean_squares_are_those_of_an_analysis_of_variance() -> None:
    given = scattered(0.4, KINDS, heads=1, seed=1)
    frame = pd.DataFrame({"y": given[0], "kind": KINDS})
    expected = anova_lm(smf.ols("y ~ C(kind)", frame).fit())["mean_sq"]
    between, within, size = OneWay(rows_of(given)[0], KINDS).squares()
    assert between == pytest.approx(expected["C(kind)"])
    assert within == pytest.approx(expected["Residual"])
    assert size == pytest.approx((9 - (9 + 4 + 16) / 9) / 2)


def test_of_more_heads_than_documents_the_triangle_tells_the_same() -> None:
    given = scattered(0.4, KINDS, heads=40, seed=1)
    rows, heads = rows_of(given)
    assert (rows.shape, heads) == ((9, 9), 40)
    each = [OneWay(rows_of(one[None])[0], KINDS).squares() for one in given]
    np.testing.assert_allclose(OneWay(rows, KINDS).squares(), np.mean(each, axis=0))


def test_the_share_is_that_of_the_method_of_moments_and_0_where_kinds_differ_less_than_chance():
    table = OneWay(rows_of(scattered(0.4, KINDS, heads=7, seed=1))[0], KINDS)
    between, within, size = table.squares()
    component = (between - within) / size
    assert float(table.share().value) == pytest.approx(component / (component + within))
    alike = np.tile([1.0, -1.0], 4)[None]
    assert float(OneWay(rows_of(alike)[0], np.repeat(range(4), 2)).share().value) == 0.0


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_the_share_is_found_and_its_interval_covers_it_also_where_heads_go_together(share: float):
    kinds, runs = np.repeat(range(4), 2), 300
    found = [
        OneWay(rows_of(scattered(share, kinds, 60, seed))[0], kinds).share() for seed in range(runs)
    ]
    covered = np.mean([one.lower <= share <= one.upper for one in found])
    error = np.sqrt(0.95 * 0.05 / runs)
    assert covered > 0.95 - 3 * error
    # Cut at 0, the share of no difference is too large, by 0.07 here.
    assert np.mean([one.value for one in found]) == pytest.approx(
        share, abs=0.1 if not share else 0.05
    )


def test_the_p_value_is_the_share_of_all_ways_to_deal_the_documents() -> None:
    kinds = np.array([0, 0, 0, 1, 1, 1])
    table = OneWay(rows_of(scattered(0.7, kinds, heads=5, seed=3))[0], kinds)
    own = table.squares()[0]
    exact = np.mean(
        [
            OneWay(table.rows, kinds[list(order)]).squares()[0] >= own * (1 - 1e-9)
            for order in permutations(range(6))
        ]
    )
    error = np.sqrt(exact * (1 - exact) / kinds_of_text.PERMUTATIONS)
    assert table.p_value() == pytest.approx(exact, abs=4 * error + 0.001)


def test_errors_with_kinds_as_strata_and_sampled_are_those_of_a_mean() -> None:
    table = OneWay(np.eye(8), np.repeat(range(4), 2))
    assert table.errors() == pytest.approx((1.0, 1.0))
    levels = np.repeat([3.0, 1.0, -1.0, -3.0], 2) + np.tile([0.1, -0.1], 4)
    strata, sample = OneWay(levels[:, None], np.repeat(range(4), 2)).errors()
    jackknife = levels.std(ddof=1) / np.sqrt(8)
    assert strata * jackknife == pytest.approx(np.sqrt(8 * 0.01 / 4 / 8))
    assert sample * jackknife == pytest.approx(levels.reshape(4, 2).mean(1).std(ddof=1) / 2)


def fitted(values: FloatArray) -> xr.Dataset:
    """A mean over documents as fits hold it."""
    mean = document_mean(values.T)
    return xr.Dataset(
        {
            "C": (("layer", "kv_head"), mean.value[None]),
            "C_without": (("layer", "kv_head", "document"), mean.without[None]),
        },
        coords={"document": [str(number) for number in range(values.shape[1])]},
    )


def test_of_a_mean_the_pseudo_values_are_the_documents_own() -> None:
    values = scattered(0.5, KINDS, heads=3, seed=4) + 10
    np.testing.assert_allclose(contributions(fitted(values), "C"), values)
    assert contributions(fitted(values), "lam").shape == (0, 9)


@pytest.mark.parametrize(
    ("kinds", "told"),
    [("aabbccdd", True), ("aaaaaaaa", False), ("abcdefgh", False), ("aab", False)],
)
def test_a_share_is_told_where_there_are_kinds_of_several_documents(kinds: str, told: bool):
    values = scattered(0.5, np.repeat(range(4), 2), heads=3, seed=5) + 10
    empty = xr.Dataset(coords={"document": list("12345678"), "gram": ["exponential", "offset"]})
    tree = xr.DataTree.from_dict(
        {"/norms": fitted(values), "/similarity": empty, "/weights": empty}
    )
    found = between_kinds(tree, list(kinds))
    assert ("between_share" in found) == told
    if told:
        parts = {part.name for record in VARIABLES for part in record.parts().values()}
        assert set(found.data_vars) == parts
        assert list(found["quantity"].values) == ["C"]
        assert float(found["between_heads"][0]) == 3
        assert str(found["between_words"].values[0]) == QUANTITIES["C"].words


def test_kinds_are_read_from_the_runs_own_record_of_its_documents() -> None:
    tree = xr.DataTree()
    assert kinds_of(tree) == []
    tree.attrs["manifest"] = {"documents": [{"name": "a", "kind": "code"}, {"name": "b"}]}
    assert kinds_of(tree) == ["code", ""]
