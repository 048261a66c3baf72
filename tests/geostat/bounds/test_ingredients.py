"""Swapped ingredients: each bound is the theory's at the ingredients it names, and what returns
into the bounds is counted right.
"""

import numpy as np
import pytest
import xarray as xr
from support.spine import Finished

from geostat.bounds.envelope import envelope_dataset
from geostat.bounds.head import NEEDED, fitted_head
from geostat.bounds.ingredients import SWAPS, swap_ingredients
from theory.evaluate.envelopes import envelope as bounds_of
from theory.head.gram import LagGram

LAYER, HEAD = 1, 2


@pytest.fixture(scope="module")
def tree(finished: Finished) -> xr.DataTree:
    return finished.tree


@pytest.fixture(scope="module")
def swapped(tree: xr.DataTree) -> xr.Dataset:
    return swap_ingredients(tree, points=8)


def by_hand(tree: xr.DataTree, swap: str, n: np.ndarray) -> dict[str, np.ndarray]:
    """The sharp bounds of one head with some ingredients measured, one theory call a profile."""
    groups = {name: tree[name].to_dataset() for name in NEEDED}
    capture, norms, _, weights = (groups[name] for name in NEEDED)
    kv_head = int(capture["kv_head_of_head"][HEAD])
    fitted = fitted_head(groups, "exponential", LAYER, kv_head)
    assert fitted is not None
    tokens = capture.sizes["position"]
    measured = SWAPS[swap]
    alpha = capture["attention_weight"].values[:, LAYER, HEAD].astype(float)
    if "weights" not in measured:
        alpha = np.exp(weights["log_weight_model"].values[LAYER, HEAD])[None]
        alpha[0, 0] = weights["p_sink"].values[LAYER, HEAD]
        alpha[0, 1:] *= (1 - alpha[0, 0]) / alpha[0, 1:].sum()
    norm = capture["value_norm"].values[:, LAYER, kv_head].astype(float).mean(axis=0)
    if "norms" not in measured:
        norm = np.r_[float(norms["lam"][LAYER, kv_head]), np.ones(tokens - 1)] * float(
            norms["C"][LAYER, kv_head]
        )
    gram = fitted.gram
    if "similarity" in measured:
        by_lag = capture["cosine_mean"].values[:, LAYER, kv_head].astype(float).mean(axis=0)
        rho0 = float(
            np.nanmean(capture["sink_cosine"].values[:, LAYER, kv_head].astype(float)[:, 1:])
        )
        gram = LagGram(np.r_[1.0, by_lag], rho0)
    found = [
        bounds_of(row, norm, gram, int(capture.attrs["dimension"]), n, edition="sharp")
        for row in alpha
    ]
    return {
        name: np.mean([getattr(one, name) for one in found], axis=0)
        for name in ("precision_lower", "recall_upper")
    }


@pytest.mark.parametrize("swap", list(SWAPS))
def test_a_swap_evaluates_the_theory_at_the_ingredients_it_names(
    tree: xr.DataTree, swapped: xr.Dataset, swap: str
):
    kv_head = int(tree["capture"].to_dataset()["kv_head_of_head"][HEAD])
    if "similarity" in SWAPS[swap] and float(swapped["moved"][LAYER, kv_head]) > 0:
        pytest.skip("the measured cosines of this head had to be moved")
    at = swapped.sel(swap=swap).isel(layer=LAYER, head=HEAD)
    for name, expected in by_hand(tree, swap, swapped["n_envelope"].values).items():
        np.testing.assert_allclose(at[name].values, expected, atol=2e-7)


def test_measured_weights_alone_are_the_bounds_of_the_confrontation(
    tree: xr.DataTree, swapped: xr.Dataset
):
    laid = envelope_dataset(tree, editions=("sharp",), points=8).sel(
        edition="sharp", gram="exponential"
    )
    for name in ("precision_lower", "precision_upper", "recall_lower", "recall_upper"):
        np.testing.assert_allclose(
            swapped[name].sel(swap="weights").values, laid[name].values, atol=1e-12
        )


def test_what_returns_into_the_bounds_is_counted(tree: xr.DataTree, swapped: xr.Dataset):
    n = swapped["n_envelope"].values
    tokens = tree["capture"].sizes["position"]
    measured = (
        tree["capture"]
        .to_dataset()["recall"]
        .astype(float)
        .mean("document")
        .sel(n=n)
        .transpose("layer", "head", "n")
        .values
    )
    inner = (n > 1) & (n < tokens)
    inside = (swapped["recall_lower"].values <= measured) & (
        measured <= swapped["recall_upper"].values
    )
    inside = inside[..., inner]
    lost = ~inside[0]
    assert int(swapped["recall_lost"]) == lost.sum()
    np.testing.assert_allclose(swapped["recall_inside"], inside.mean(axis=(1, 2, 3)))
    expected = (
        [(one & lost).sum() / lost.sum() for one in inside]
        if lost.any()
        else np.full(len(inside), np.nan)
    )
    np.testing.assert_allclose(swapped["recall_regained"], expected)
    width = (swapped["recall_upper"] - swapped["recall_lower"]).values[..., inner]
    np.testing.assert_allclose(swapped["recall_width"], width.mean(axis=(1, 2, 3)), atol=1e-12)


def test_cosines_that_no_vectors_have_are_moved_and_said_to_be(tree: xr.DataTree):
    groups = {
        f"/{name}": tree[name].to_dataset().copy(deep=True)
        for name in ("capture", "norms", "similarity", "weights")
    }
    cosines = groups["/capture"]["cosine_mean"]
    cosines[:, 0, 0] = np.resize([0.9, -0.9, -0.9], cosines.shape[-1])
    found = swap_ingredients(xr.DataTree.from_dict(groups), points=3)
    assert float(found["moved"][0, 0]) > 0.1
    heads = np.flatnonzero(groups["/capture"]["kv_head_of_head"].values == 0)
    assert np.isfinite(found["recall_lower"].sel(swap="similarity").values[0, heads]).all()


def test_a_head_that_could_not_be_fitted_has_no_bounds(tree: xr.DataTree):
    groups = {
        f"/{name}": tree[name].to_dataset().copy(deep=True)
        for name in ("capture", "norms", "similarity", "weights")
    }
    groups["/norms"]["C"][0, 0] = np.nan
    groups["/weights"]["log_weight_model"][1, 3] = np.nan
    found = swap_ingredients(xr.DataTree.from_dict(groups), points=3)
    assert np.isnan(found["recall_lower"].values[:, 0, 0]).all()
    assert np.isnan(found["recall_lower"].sel(swap="norms").values[1, 3]).all()
    assert np.isfinite(found["recall_lower"].sel(swap="weights").values[1, 3]).all()
