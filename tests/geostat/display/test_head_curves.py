"""Curves of every head: blocks, means over documents, fitted curves."""

import numpy as np
import pytest
from support.reports_tree import plain_tree

from geostat.display.head_curves import ALONE, LAG_BLOCKS, head_curves, lag_blocks, position_blocks
from geostat.statistics.jackknife import document_mean


@pytest.mark.parametrize("positions", [1, 2, 2 * ALONE, 2 * ALONE + 1, 100, 1024, 100_000])
def test_blocks_of_positions_are_single_at_both_ends(positions):
    starts = position_blocks(positions)
    ends = np.append(starts[1:], positions)
    assert starts[0] == 0
    assert (ends > starts).all()
    alone = min(ALONE, positions)
    assert (ends - starts)[:alone].tolist() == [1] * alone
    assert (ends - starts)[-alone:].tolist() == [1] * alone
    assert starts.size < 140


@pytest.mark.parametrize("lags", [0, 1, 2, 5, 1022, 50_000])
def test_blocks_of_lags_cover_all_and_grow(lags):
    starts = lag_blocks(np.arange(1, lags + 1))
    assert starts.size <= min(LAG_BLOCKS, lags)
    assert starts.size == 0 or starts[0] == 0
    assert (np.diff(starts) > 0).all()


@pytest.fixture(scope="module")
def groups():
    return {name: node.to_dataset() for name, node in plain_tree().children.items()}


def test_a_block_is_the_mean_of_its_positions_each_document_first(groups):
    found = head_curves(groups)
    capture = groups["capture"]
    starts = position_blocks(capture.sizes["position"])
    rows = capture["value_norm"].transpose("document", "layer", "kv_head", "position").values
    ends = np.append(starts[1:], capture.sizes["position"])
    pairs = list(zip(starts, ends, strict=True))
    each = np.stack([rows[..., a:b].mean(-1, dtype=float) for a, b in pairs], axis=-1)
    expected = document_mean(each)
    np.testing.assert_allclose(found["norm"], each.mean(0), rtol=1e-6)
    np.testing.assert_allclose(found["norm_lower"], expected.lower, rtol=1e-6)
    np.testing.assert_allclose(found["norm_upper"], expected.upper, rtol=1e-6)
    middle = [np.arange(a, b).mean() for a, b in pairs]
    np.testing.assert_allclose(found["position_mean"], middle)


def test_fitted_norms_are_those_of_assumption_1_where_the_query_sees(groups):
    found, norms = head_curves(groups), groups["norms"].transpose("layer", "kv_head", ...)
    content = norms["C"].values[..., None] * np.ones(found.sizes["block"] - 1)
    np.testing.assert_allclose(found["norm_fitted"][..., 1:], content)
    np.testing.assert_allclose(found["norm_fitted"][..., 0], norms["C"] * norms["lam"])
    windowed = groups["capture"].assign_coords(
        tokens=("layer", [8, 64]), sink_visible=("layer", [False, True])
    )
    found = head_curves({**groups, "capture": windowed})
    known = np.isfinite(found["norm_fitted"].values).all(axis=1)
    assert known[0].sum() == 8
    assert not known[0, 0]
    assert known[1].all()


def test_the_fitted_exponential_is_the_mean_of_its_block(groups):
    found, lag = head_curves(groups), groups["capture"]["lag"].values
    starts = lag_blocks(lag)
    beta = groups["similarity"]["beta"].sel(gram="exponential").transpose("layer", "kv_head")
    curve = np.exp(-beta.values[..., None] * lag)
    ends = np.append(starts[1:], lag.size)
    expected = [curve[..., a:b].mean(-1) for a, b in zip(starts, ends, strict=True)]
    fitted = found["cosine_fitted"].sel(form="exponential")
    np.testing.assert_allclose(fitted, np.stack(expected, axis=-1), rtol=1e-9)


def test_weights_are_geometric_means_and_one_of_zero_is_left_out(groups):
    capture = groups["capture"].copy(deep=True)
    capture["attention_weight"][0, 0, 0, 5] = 0.0
    found = head_curves({**groups, "capture": capture})
    weight = capture["attention_weight"].transpose("document", "layer", "head", "position").values
    known = weight[1:, 0, 0, 5].astype(float)
    np.testing.assert_allclose(found["weight"][0, 0, 5], np.exp(np.log(known).mean()), rtol=1e-6)
    assert np.isfinite(found["weight"]).all()


def test_scores_lie_between_0_and_1_with_their_limits(groups):
    found = head_curves(groups)
    for name in ("precision", "precision_lower", "precision_upper", "recall_random_selection"):
        assert float(found[name].min()) >= 0
        assert float(found[name].max()) <= 1
