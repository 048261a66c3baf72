from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from support.runs import small_run

from empirical.capture.observers import Baselines, Geometry, QueryMeans
from empirical.sources.queries import Queries
from geostat.bounds.overall import mean_and_error
from geostat.datasets.queries import AVERAGED, over_queries, queries_in_words
from geostat.experiments.moments import Table
from geostat.fits.weights.fit import layer_weights
from geostat.runs import stages
from geostat.runs.groups import joined, measured, tree_of


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> xr.DataTree:
    path = tmp_path_factory.mktemp("queries") / "run.zarr"
    observers = [Geometry(), Baselines(), QueryMeans()]
    return small_run(path, observers=observers, queries=Queries("last", 5)).tree()


def test_what_depends_on_the_query_is_its_mean_and_nothing_else(run: xr.DataTree) -> None:
    capture, means = run["capture"].to_dataset(), run["queries"].to_dataset()
    found = measured(run)
    for name in AVERAGED:
        np.testing.assert_array_equal(found[name].values, means[name].values)
    for name in set(capture.data_vars) - set(AVERAGED):
        xr.testing.assert_identical(found[name], capture[name])
    assert (found["precision"].values != capture["precision"].values).any()


def test_a_run_of_one_query_is_as_it_was_measured(run: xr.DataTree) -> None:
    capture = run["capture"].to_dataset()
    assert over_queries({"capture": capture}) is capture


def test_a_means_f_is_no_function_of_mean_precision(run: xr.DataTree) -> None:
    means = run["queries"].to_dataset()
    p, f = means["precision"].values, means["f_outer"].values
    assert np.nanmax(np.abs(f - 2 * p / (1 + p))) > 1e-3


def test_assumption_3_is_fitted_to_the_mean_logarithm(run: xr.DataTree) -> None:
    means = run["queries"].to_dataset()
    _, weight, logs = layer_weights(measured(run), 0)
    np.testing.assert_array_equal(weight, means["attention_weight"].values[:, 0].astype(float))
    np.testing.assert_array_equal(
        logs, means["log_attention_weight"].values[:, 0, :, 1:].astype(float)
    )
    assert (logs <= np.log(weight[..., 1:]) + 1e-6).all()  # Jensen


@pytest.mark.slow
def test_every_stage_is_of_the_means_but_bounds_and_regimes(run: xr.DataTree) -> None:
    alone = run.drop_nodes("queries")
    each = []
    for tree in (run, alone):
        fits = tree_of(stages.fitted(measured(tree)))
        whole = joined(tree, fits)
        each.append(
            joined(whole, tree_of(stages.confronted(whole, editions=("printed",), points=4)))
        )
    several, last = each
    level, _ = mean_and_error(run["queries"]["precision"], ("layer", "head"))
    np.testing.assert_allclose(several["summary"]["precision_mean"].values, level.values)
    recall = Table.of(measured(run)).recall
    assert recall.shape == Table.of(run["capture"].to_dataset()).recall.shape
    for group in ("norms", "similarity", "heads"):
        xr.testing.assert_identical(several[group].to_dataset(), last[group].to_dataset())
    for group, name in (("weights", "p_sink"), ("separable", "precision_gain"), ("sink", "slope")):
        assert not np.array_equal(
            several[group][name].values, last[group][name].values, equal_nan=True
        ), name
    for name in ("precision", "precision_lower"):  # of the last query, by its own weights
        xr.testing.assert_identical(several["envelope"][name], last["envelope"][name])
    sentences = several["summary"].attrs["sentences"]
    assert "at the last 5 queries, ± one standard error" in sentences[0]
    assert "at the last query" in sentences[4]


def test_which_queries_is_said(run: xr.DataTree) -> None:
    means = run["queries"].to_dataset()
    assert queries_in_words(means, 40) == "the last 5 queries"
    at = means[["query_position"]]
    assert queries_in_words(at - 5, 50) == "5 queries spread over the second half"
    apart = np.broadcast_to([15, 31, 47, 63, 79], at["query_position"].shape)
    every = at.copy(data={"query_position": apart})
    assert queries_in_words(every, 80) == "5 queries, one every 16 positions up to the last"
