"""Means over the analysed queries of a run: what is averaged, and what uses the means."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from support.runs import small_run

from empirical.capture.observers import Baselines, Geometry, QueryMeans
from empirical.sources.queries import Queries
from geostat.analyses.sink import Table
from geostat.bounds.overall import mean_and_error
from geostat.datasets.separability import AVERAGED, over_queries, queries_in_words
from geostat.fits.weights.fit import layer_weights
from geostat.runs import stages
from geostat.runs.groups import joined, measured, tree_of


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> xr.DataTree:
    path = tmp_path_factory.mktemp("queries") / "run.zarr"
    observers = [Geometry(), Baselines(), QueryMeans()]
    how = {"observers": observers, "queries": Queries("last", 5), "n": np.array([1, 2, 5, 9, 20])}
    return small_run(path, **how).tree()


@pytest.fixture(scope="module")
def means(run: xr.DataTree) -> xr.Dataset:
    return run["queries"].to_dataset()


def test_only_query_dependent_variables_are_averaged(run: xr.DataTree, means: xr.Dataset) -> None:
    capture, result = run["capture"].to_dataset(), measured(run)
    for name in AVERAGED:
        np.testing.assert_array_equal(result[name].values, means[name].values)
    for name in set(capture.data_vars) - set(AVERAGED):
        xr.testing.assert_identical(result[name], capture[name])
    assert (result["precision"].values != capture["precision"].values).any()


def test_a_run_of_one_query_is_unchanged(run: xr.DataTree) -> None:
    capture = run["capture"].to_dataset()
    assert over_queries({"capture": capture}) is capture


def test_mean_f_is_not_a_function_of_mean_precision(means: xr.Dataset) -> None:
    p, f = means["precision"].values, means["f_outer"].values
    assert np.nanmax(np.abs(f - 2 * p / (1 + p))) > 1e-3


def test_assumption_3_is_fitted_to_the_mean_logarithm(run: xr.DataTree, means: xr.Dataset) -> None:
    _, weight, logs = layer_weights(measured(run), 0)
    mean_weight, mean_log = (
        means[name].values[:, 0].astype(float)
        for name in ("attention_weight", "log_attention_weight")
    )
    np.testing.assert_array_equal(weight, mean_weight)
    np.testing.assert_array_equal(logs, mean_log[..., 1:])
    assert (logs <= np.log(weight[..., 1:]) + 1e-6).all()  # Jensen


def confronted(run: xr.DataTree) -> xr.DataTree:
    whole = joined(run, tree_of(stages.fitted(measured(run))))
    return joined(whole, tree_of(stages.confronted(whole, editions=("printed",), points=4)))


@pytest.mark.slow
def test_every_stage_except_bounds_and_regimes_uses_the_means(run: xr.DataTree) -> None:
    several, last = confronted(run), confronted(run.drop_nodes("queries"))
    level, _ = mean_and_error(run["queries"]["precision"], ("layer", "head"))
    np.testing.assert_allclose(several["summary"]["precision_mean"].values, level.values)
    recall = Table.of(measured(run)).recall
    assert recall.shape == Table.of(run["capture"].to_dataset()).recall.shape
    for group in ("norms", "similarity", "heads"):
        xr.testing.assert_identical(several[group].to_dataset(), last[group].to_dataset())
    for group, name in (("weights", "p_sink"), ("separable", "precision_gain"), ("sink", "slope")):
        of_means, of_last = several[group][name].values, last[group][name].values
        assert not np.array_equal(of_means, of_last, equal_nan=True), name
    for name in ("precision", "precision_lower"):  # bounds are evaluated at the last query
        xr.testing.assert_identical(several["envelope"][name], last["envelope"][name])
    sentences = several["summary"].attrs["sentences"]
    assert "at the last 5 queries, ± one standard error" in sentences[0]
    assert "at the last query" in sentences[4]


@pytest.mark.parametrize(
    ("queries", "tokens", "words"),
    [
        (range(35, 40), 40, "the last 5 queries"),
        (range(30, 35), 50, "5 queries spread over the second half"),
        (range(15, 80, 16), 80, "5 queries, one every 16 positions up to the last"),
    ],
)
def test_queries_are_described_in_words(
    means: xr.Dataset, queries, tokens: int, words: str
) -> None:
    positions = np.broadcast_to(queries, means["query_position"].shape)
    changed = means[["query_position"]].copy(data={"query_position": positions})
    assert queries_in_words(changed, tokens) == words
