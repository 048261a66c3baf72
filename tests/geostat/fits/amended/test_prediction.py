"""Prediction by rank: heads drawn from the amended assumptions are predicted without bias."""

import numpy as np
import pytest
import xarray as xr

from empirical.measure.queries import Row
from empirical.measure.ranks import measure_layer, ranks
from empirical.schema import RANKS
from empirical.selection import separability
from geostat.datasets.parts import tree_of
from geostat.errors import InputError
from geostat.fits.amended import prediction as module
from geostat.fits.amended.prediction import RUNGS, fitted_separability

TOKENS, DOCUMENTS, QUERIES, KINDS = 200, 24, 1, 40
SIZES = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256])
HEADS = [  # c₁, c∞, d, spread of log α
    (0.8, 0.05, 48, 2.0),
    (0.3, 0.30, 12, 1.0),
    (0.6, 0.02, 20, 2.5),
    (0.2, 0.10, 60, 1.5),
    (0.5, 0.40, 30, 2.0),
    (0.1, 0.00, 8, 1.2),
]
REPEAT = 0.5


def values_of(head: tuple, alpha: np.ndarray, ids: np.ndarray, draw: np.random.Generator):
    """Values by rank coherence at γ = 0.5; equal tokens have correlated residuals."""
    first, limit, dimension, _ = head
    rank = np.empty(TOKENS, int)
    rank[np.argsort(-alpha)] = np.arange(TOKENS)  # the sink has rank 0
    octave = np.log2(np.maximum(rank, 1)).astype(int)
    coherence = limit + (first - limit) * (1.5 * 2.0 ** np.arange(octave.max() + 1) - 0.5) ** -0.5

    def vectors(count: int) -> np.ndarray:
        return draw.normal(size=(count, dimension)) / np.sqrt(dimension)

    steps = np.sqrt(np.append(-np.diff(coherence), coherence[-1]))
    shared = (steps[:, None] * vectors(len(steps)))[::-1].cumsum(axis=0)[::-1]
    residual = np.sqrt(REPEAT) * vectors(KINDS)[ids] + np.sqrt(1 - REPEAT) * vectors(TOKENS)
    values = shared[octave] + np.sqrt(1 - coherence[octave])[:, None] * residual
    values[0] = 0.1 * vectors(1)[0]
    return np.pad(values, ((0, 0), (0, 64 - dimension)))


@pytest.fixture(scope="module")
def run() -> xr.DataTree:
    """A run of one layer whose heads have own values; the ranking is the same for every query."""
    draw, measured, curves = np.random.default_rng(1), [], []
    for _ in range(DOCUMENTS):
        ids, alphas, values = draw.integers(KINDS, size=TOKENS), [], []
        for head in HEADS:
            alpha = np.exp(head[3] * draw.normal(size=TOKENS))
            alpha[0] = alpha.sum()
            alphas.append(alpha / alpha.sum())
            values.append(values_of(head, alpha, ids, draw))
        alpha, states = np.array(alphas, np.float32), np.array(values, np.float32)
        rows = [Row(position=TOKENS - 1, first=0, alpha=alpha)] * QUERIES
        measured.append(measure_layer(rows, states, ids))
        found = separability(alpha, states, SIZES)
        curves.append([np.asarray(found[name]) for name in ("precision", "recall")])
    data = {
        name: (("document", *RANKS[name].dims), np.stack([one[name][None] for one in measured]))
        for name in measured[0]
    }
    truth = np.array(curves)[:, :, None]
    dims = ("document", "layer", "head", "n")
    capture = xr.Dataset(
        {"precision": (dims, truth[:, 0]), "recall": (dims, truth[:, 1])},
        {"n": SIZES},
        {"dimension": 64},
    )
    return tree_of({"ranks": xr.Dataset(data, {"rank": ranks(TOKENS)}), "capture": capture})


def test_drawn_heads_are_predicted(run):
    found = fitted_separability(run, draws=8)
    assert found["rung"].values.tolist() == list(RUNGS)
    amended = found.sel(rung="amended")
    for name in ("precision", "recall"):
        assert found[f"{name}_r2"].sel(rung="one curve") == pytest.approx(0, abs=1e-9)
        assert amended[f"{name}_r2"] > 0.7
        assert amended[f"{name}_r2"] > found[f"{name}_r2"].sel(rung="one cosine")
        assert abs(amended[f"{name}_bias"]) < 0.02
        assert (found[f"{name}_band"].sel(rung=list(RUNGS[1:])) > 0).all()
        assert found[name].shape == found[f"{name}_fitted"].shape == (1, len(HEADS), 12)
    again = fitted_separability(run, draws=8)
    xr.testing.assert_identical(found, again)


def test_predictive_bands_cover_new_documents():
    """Errors of all heads have one distribution at each N."""
    draw = np.random.default_rng(2)
    truth = draw.normal(size=(8, 3, 20, 4)) * [1.0, 2.0, 1.0, 0.5]
    found = module._band(truth, np.zeros_like(truth))
    assert found["covered"] == pytest.approx(0.95, abs=0.02)
    assert found["band"] == pytest.approx(1.96 * 4.5 / 4, rel=0.05)
    shifted = np.where(np.arange(8)[:, None, None, None] == 3, 9.0, truth)  # one odd document
    assert module._band(shifted, np.zeros_like(truth))["covered"] < 0.9
    truth[0, 0, 0] = np.nan
    assert np.isfinite([*module._band(truth, np.zeros_like(truth)).values()]).all()


def test_a_query_counts_where_it_is_measured(run):
    """Queries without a measured value, as those that see fewer than N tokens, are left out."""
    groups = {name: run[name].to_dataset() for name in run.children}
    dims = ("document", "layer", "head", "query", "n")
    by_query = {
        f"{name}_by_query": (dims, groups["capture"][name].values[:, :, :, None].repeat(2, axis=3))
        for name in ("precision", "recall")
    }
    queries = xr.Dataset(by_query, {"n": SIZES})
    two = xr.concat([groups["ranks"]] * 2, "query", data_vars="minimal")
    whole = fitted_separability(tree_of(groups | {"queries": queries, "ranks": two}), draws=2)
    for values in queries.data_vars.values():
        values[:, :, :, 1, SIZES > 8] = np.nan
    part = fitted_separability(tree_of(groups | {"queries": queries, "ranks": two}), draws=2)
    small = whole["n_fitted"] <= 8
    np.testing.assert_allclose(part["precision"], whole["precision"])
    same = part["precision_fitted"] == whole["precision_fitted"]
    assert same[..., small.values].all()
    assert not same[..., ~small.values].all()


def test_a_document_is_predicted_from_the_others(run):
    ranks = run["ranks"].to_dataset()
    changed = ranks.copy(deep=True)
    for name in ("octave_product", "octave_square", "residual_along_s", "class_cosine"):
        changed[name][0] *= 0.1
    flat = ranks.copy(deep=True)
    flat["log_weight"][0] *= 0.5

    def predicted(data: xr.Dataset) -> np.ndarray:
        found, law = module.parameters(data), module.weights.fit_weights(data).logs
        capture = run["capture"].to_dataset()
        return module._of_head(data, capture, found, law, SIZES, 2, 0, (0, 0))

    before, after, other = predicted(ranks), predicted(changed), predicted(flat)
    np.testing.assert_array_equal(before[:, :, 0], after[:, :, 0])
    assert (before[:, :, 1:] != after[:, :, 1:]).any()
    # the law's weights are those of another document
    np.testing.assert_array_equal(before[-1, :, 0], other[-1, :, 0])
    assert (before[-1] != other[-1]).any()
    assert (before[:-1, :, 0] != other[:-1, :, 0]).any()


def test_a_row_has_the_weights_of_the_query(run):
    data = run["ranks"].to_dataset().isel(document=0, layer=0, head=0)
    own = {"square": np.ones(8), "class_norm_ratio": 0.1}
    rows = {name: data[name].values[0] for name in module.OF_QUERY}
    row = module.Row.of(rows, data["rank"].values, own, True)
    assert len(row.alpha) == TOKENS
    assert row.alpha.sum() == pytest.approx(1, abs=0.01)
    assert (np.diff(row.alpha) <= 0).all()
    assert row.is_sink.tolist() == [True] + [False] * (TOKENS - 1)
    assert row.norms[0] == pytest.approx(0.1)


def test_leaders_stand_above_and_have_none(run):
    data = run["ranks"].to_dataset().isel(document=0, layer=0, head=0)
    rows = {name: data[name].values[0] for name in module.OF_QUERY}
    own = {"square": np.ones(8), "class_norm_ratio": 0.1}
    row = module.Row.of(rows, data["rank"].values, own, True)
    count = np.maximum(data["octave_tokens"].values, 1)[:, None]
    leaders = row.leaders(data["octave_repeats"].values / count, np.random.default_rng(0))
    has = np.flatnonzero(leaders >= 0)
    assert len(has) > TOKENS / 2
    assert (leaders[has] < has).all()
    assert (leaders[leaders[has]] == -1).all()


def test_a_run_that_cannot_be_predicted_is_refused(run):
    with pytest.raises(InputError, match=r"has no /ranks.* Capture it again"):
        fitted_separability(tree_of({"capture": run["capture"].to_dataset()}))
    one = tree_of({name: run[name].to_dataset().isel(document=[0]) for name in run.children})
    with pytest.raises(InputError, match="one document, expected at least 2"):
        fitted_separability(one)
    groups = {name: run[name].to_dataset() for name in run.children}
    short = groups["ranks"].assign(residual_along_s=groups["ranks"]["residual_along_s"] * np.nan)
    with pytest.raises(InputError, match="at least 33 content tokens"):
        fitted_separability(tree_of(groups | {"ranks": short}))
    large = tree_of(groups | {"capture": groups["capture"].isel(n=[0])})
    with pytest.raises(InputError, match="no size N from 2 to 256"):
        fitted_separability(large)
