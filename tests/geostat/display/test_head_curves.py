"""Curves of every head: blocks, means over documents, fitted curves."""

import numpy as np
import pytest
import xarray as xr
from support.reports_tree import plain_tree

from geostat.display.head_curves import ALONE, LAG_BLOCKS, head_curves, lag_blocks, position_blocks
from geostat.statistics.jackknife import document_mean

BY_POSITION = ("document", "layer", ..., "position")


@pytest.mark.parametrize("positions", [1, 2, 2 * ALONE, 2 * ALONE + 1, 100, 1024, 100_000])
def test_positions_at_both_ends_are_not_averaged(positions):
    starts = position_blocks(positions)
    sizes = np.diff(starts, append=positions)
    alone = min(ALONE, positions)
    assert starts[0] == 0
    assert (sizes > 0).all()
    assert sizes[:alone].tolist() == sizes[-alone:].tolist() == [1] * alone
    assert starts.size < 140


@pytest.mark.parametrize("lags", [0, 1, 2, 5, 1022, 50_000])
def test_blocks_of_lags_cover_all_and_grow(lags):
    starts = lag_blocks(np.arange(1, lags + 1))
    assert starts.size <= min(LAG_BLOCKS, lags)
    assert starts.size == 0 or starts[0] == 0
    assert (np.diff(starts) > 0).all()


@pytest.fixture(scope="module")
def groups() -> dict[str, xr.Dataset]:
    return {name: node.to_dataset() for name, node in plain_tree().children.items()}


@pytest.fixture(scope="module")
def curves(groups) -> xr.Dataset:
    return head_curves(groups)


def block_means(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return means over blocks of the last axis."""
    blocks = np.split(values, starts[1:], axis=-1)
    return np.stack([block.mean(-1, dtype=float) for block in blocks], axis=-1)


def test_a_block_is_the_mean_of_its_positions_each_document_first(groups, curves):
    norm = groups["capture"]["value_norm"].transpose(*BY_POSITION).values
    starts = position_blocks(norm.shape[-1])
    by_document = block_means(norm, starts)
    expected = document_mean(by_document)
    np.testing.assert_allclose(curves["norm"], by_document.mean(0), rtol=1e-6)
    np.testing.assert_allclose(curves["norm_lower"], expected.lower, rtol=1e-6)
    np.testing.assert_allclose(curves["norm_upper"], expected.upper, rtol=1e-6)
    middle = block_means(np.arange(norm.shape[-1]), starts)
    np.testing.assert_allclose(curves["position_mean"], middle)


def test_fitted_norms_follow_assumption_1_at_visible_positions(groups, curves):
    norms = groups["norms"].transpose("layer", "kv_head", ...)
    content = norms["C"].values[..., None] * np.ones(curves.sizes["block"] - 1)
    np.testing.assert_allclose(curves["norm_fitted"][..., 1:], content)
    np.testing.assert_allclose(curves["norm_fitted"][..., 0], norms["C"] * norms["lam"])
    windowed = groups["capture"].assign_coords(
        tokens=("layer", [8, 64]), sink_visible=("layer", [False, True])
    )
    windowed_curves = head_curves({**groups, "capture": windowed})
    known = np.isfinite(windowed_curves["norm_fitted"].values).all(axis=1)
    assert known[0].sum() == 8
    assert not known[0, 0]
    assert known[1].all()


def test_the_fitted_exponential_is_the_mean_of_its_block(groups, curves):
    lag = groups["capture"]["lag"].values
    beta = groups["similarity"]["beta"].sel(gram="exponential").transpose("layer", "kv_head")
    expected = block_means(np.exp(-beta.values[..., None] * lag), lag_blocks(lag))
    fitted = curves["cosine_fitted"].sel(form="exponential")
    np.testing.assert_allclose(fitted, expected, rtol=1e-9)


def test_weights_are_geometric_means_without_zeros(groups):
    capture = groups["capture"].copy(deep=True)
    capture["attention_weight"][0, 0, 0, 5] = 0.0
    result = head_curves({**groups, "capture": capture})
    known = capture["attention_weight"].transpose(*BY_POSITION).values[1:, 0, 0, 5].astype(float)
    np.testing.assert_allclose(result["weight"][0, 0, 5], np.exp(np.log(known).mean()), rtol=1e-6)
    assert np.isfinite(result["weight"]).all()


def test_scores_lie_between_0_and_1_with_their_limits(curves):
    for name in ("precision", "precision_lower", "precision_upper", "recall_random_selection"):
        assert float(curves[name].min()) >= 0
        assert float(curves[name].max()) <= 1


def test_the_interval_of_a_score_has_a_width_where_the_documents_of_a_head_agree(groups):
    capture = groups["capture"].copy(deep=True)
    precision, size = capture["precision"], groups["envelope"]["n_envelope"].values[2]
    precision.loc[{"n": size, "layer": 0, "head": 0}] = 1.0
    curves = head_curves({**groups, "capture": capture})
    low, high = (curves[f"precision_{side}"].sel(layer=0, head=0)[2] for side in ("lower", "upper"))
    assert float(low) < 1 - 1e-4
    assert float(high) == pytest.approx(1)
