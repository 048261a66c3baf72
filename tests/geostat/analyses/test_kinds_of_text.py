from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
import xarray as xr
from statsmodels.stats.anova import anova_lm

from geostat.analyses import kinds_of_text
from geostat.analyses.kinds_of_text import OneWay, rows_of
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import document_mean

KINDS = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
"""Kinds with unequal counts."""
PAIRS = np.repeat(range(4), 2)


def of_values(values: FloatArray, kinds: np.ndarray = KINDS) -> OneWay:
    return OneWay(rows_of(values)[0], kinds)


def scattered(share: float, kinds: np.ndarray, heads: int, seed: int) -> FloatArray:
    """Return normal values, (head, document), with `share` of the variance between kinds."""
    random = np.random.default_rng(seed)
    loads = np.random.default_rng(0).normal(size=(heads, 3)) / np.sqrt(6)

    def noise(count: int) -> FloatArray:
        own = random.normal(size=(heads, count)) / np.sqrt(2)
        return loads @ random.normal(size=(3, count)) + own

    between, within = noise(kinds.max() + 1)[:, kinds], noise(len(kinds))
    return np.sqrt(share) * between + np.sqrt(1 - share) * within


def test_mean_squares_are_those_of_an_analysis_of_variance():
    given = scattered(0.4, KINDS, heads=1, seed=1)
    frame = pd.DataFrame({"y": given[0], "kind": KINDS})
    expected = anova_lm(smf.ols("y ~ C(kind)", frame).fit())["mean_sq"]
    between, within, size = of_values(given).squares()
    assert between == pytest.approx(expected["C(kind)"])
    assert within == pytest.approx(expected["Residual"])
    assert size == pytest.approx((9 - (9 + 4 + 16) / 9) / 2)


def test_the_qr_factor_gives_the_same_mean_squares():
    given = scattered(0.4, KINDS, heads=40, seed=1)
    rows, heads = rows_of(given)
    assert (rows.shape, heads) == ((9, 9), 40)
    expected = np.mean([of_values(head[None]).squares() for head in given], axis=0)
    np.testing.assert_allclose(OneWay(rows, KINDS).squares(), expected)


def test_the_share_is_that_of_the_method_of_moments_and_at_least_0():
    table = of_values(scattered(0.4, KINDS, heads=7, seed=1))
    between, within, size = table.squares()
    component = (between - within) / size
    assert float(table.share().value) == pytest.approx(component / (component + within))
    alike = np.tile([1.0, -1.0], 4)[None]
    assert float(of_values(alike, PAIRS).share().value) == 0.0


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_the_interval_covers_the_share_even_for_correlated_heads(share):
    kinds, runs = PAIRS, 300
    found = [of_values(scattered(share, kinds, 60, seed), kinds).share() for seed in range(runs)]
    covered = np.mean([estimate.lower <= share <= estimate.upper for estimate in found])
    assert covered > 0.95 - 3 * np.sqrt(0.95 * 0.05 / runs)
    # The estimate is at least 0, so it is biased by 0.07 if there is no difference.
    within = 0.05 if share else 0.1
    assert np.mean([estimate.value for estimate in found]) == pytest.approx(share, abs=within)


def test_the_p_value_is_that_of_all_permutations():
    kinds = np.array([0, 0, 0, 1, 1, 1])
    table = of_values(scattered(0.7, kinds, heads=5, seed=3), kinds)
    permuted = [
        OneWay(table.rows, kinds[list(order)]).squares()[0] for order in permutations(range(6))
    ]
    exact = np.mean(np.array(permuted) >= table.squares()[0] * (1 - 1e-9))
    error = np.sqrt(exact * (1 - exact) / kinds_of_text.PERMUTATIONS)
    assert table.p_value() == pytest.approx(exact, abs=4 * error + 0.001)


def test_errors_for_fixed_and_random_kinds_are_those_of_a_mean():
    assert OneWay(np.eye(8), PAIRS).errors() == pytest.approx((1.0, 1.0))
    levels = np.repeat([3.0, 1.0, -1.0, -3.0], 2) + np.tile([0.1, -0.1], 4)
    strata, sample = OneWay(levels[:, None], PAIRS).errors()
    jackknife = levels.std(ddof=1) / np.sqrt(8)
    assert strata * jackknife == pytest.approx(np.sqrt(8 * 0.01 / 4 / 8))
    assert sample * jackknife == pytest.approx(levels.reshape(4, 2).mean(1).std(ddof=1) / 2)


def fitted(values: FloatArray) -> xr.Dataset:
    """Return a mean over documents in the format of fits."""
    mean = document_mean(values.T)
    return xr.Dataset(
        {
            "C": (("layer", "kv_head"), mean.value[None]),
            "C_without": (("layer", "kv_head", "document"), mean.without[None]),
        },
        coords={"document": [str(number) for number in range(values.shape[1])]},
    )


def test_pseudo_values_of_a_mean_are_the_values_of_documents():
    values = scattered(0.5, KINDS, heads=3, seed=4) + 10
    np.testing.assert_allclose(kinds_of_text.contributions(fitted(values), "C"), values)
    assert kinds_of_text.contributions(fitted(values), "lam").shape == (0, 9)


@pytest.mark.parametrize(
    ("kinds", "known"),
    [("aabbccdd", True), ("aaaaaaaa", False), ("abcdefgh", False), ("aab", False)],
)
def test_a_share_needs_kinds_with_several_documents(kinds, known):
    values = scattered(0.5, PAIRS, heads=3, seed=5) + 10
    empty = xr.Dataset(coords={"document": list("12345678"), "gram": ["exponential", "offset"]})
    groups = {"/norms": fitted(values), "/similarity": empty, "/weights": empty}
    tree = xr.DataTree.from_dict(groups)
    found = kinds_of_text.between_kinds(tree, list(kinds))
    assert ("between_share" in found) == known
    if known:
        parts = {
            part.name for record in kinds_of_text.VARIABLES for part in record.parts().values()
        }
        assert set(found.data_vars) == parts
        assert list(found["quantity"].values) == ["C"]
        assert float(found["between_heads"][0]) == 3
        assert str(found["between_words"].values[0]) == kinds_of_text.QUANTITIES["C"].words


def test_quantities_by_kind_are_medians_over_heads_of_means_over_documents():
    values = scattered(0.5, PAIRS, heads=3, seed=5) + 10
    empty = xr.Dataset(coords={"document": list("12345678"), "gram": ["exponential", "offset"]})
    groups = {"/norms": fitted(values), "/similarity": empty, "/weights": empty}
    tree = xr.DataTree.from_dict(groups)
    found = kinds_of_text.by_kind(tree, list("bbaaaccc"))
    assert found["text_kind"].values.tolist() == ["b", "a", "c"]
    assert found["kind_documents"].values.tolist() == [2, 3, 3]
    relative = values / values.mean(axis=1, keepdims=True)  # C is relative
    expected = [np.median(part.mean(axis=1)) for part in np.split(relative, [2, 5], axis=1)]
    np.testing.assert_allclose(found["kind_estimate"].sel(kind_quantity="C"), expected)
    assert set(found.data_vars) == {record.name for record in kinds_of_text.BY_KIND}
    for kinds in ("aaaaaaaa", "aab"):
        assert not kinds_of_text.by_kind(tree, list(kinds))
    assert kinds_of_text.by_kind(tree, list("abcdefgh")).sizes["text_kind"] == 8


def test_kinds_are_read_from_the_manifest():
    tree = xr.DataTree()
    assert kinds_of_text.kinds_of(tree) == []
    tree.attrs["manifest"] = {"documents": [{"name": "a", "kind": "code"}, {"name": "b"}]}
    assert kinds_of_text.kinds_of(tree) == ["code", ""]
