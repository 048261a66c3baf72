"""Swapped ingredients: each bound is the theory's at the ingredients it names, and what returns
into the bounds is counted right.
"""

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from support.spine import Finished

from geostat.bounds.by_document import bounds_of_layer
from geostat.bounds.cost_of_assumptions import SWAPS, swap_ingredients
from geostat.bounds.head import NEEDED, fitted_head, value_head
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


def shares(tree: xr.DataTree, swapped: xr.Dataset, keep: np.ndarray) -> np.ndarray:
    """The share of Recall inside by swap, of the documents kept, all of which carry weights."""
    found = []
    n = swapped["n_envelope"].values
    for swap in SWAPS:
        inside = []
        for layer, head in np.ndindex(
            tree["capture"].sizes["layer"], tree["capture"].sizes["head"]
        ):
            at = tree["capture"].to_dataset()["recall"].sel(n=n)[:, layer, head].values[keep]
            low, high = rows_of(tree, swap, layer, head, n)
            low, high = (x if len(x) == 1 else x[keep] for x in (low, high))
            curve = at.astype(float).mean(axis=0)
            inside.append((low.mean(axis=0) <= curve) & (curve <= high.mean(axis=0)))
        found.append(np.mean(inside))
    return np.array(found)


def rows_of(tree, swap, layer, head, n) -> tuple[np.ndarray, np.ndarray]:
    """Both bounds of Recall of one head, by document where the weights are measured."""
    groups = {name: tree[name].to_dataset() for name in NEEDED}
    capture = groups["capture"]
    kv_head = int(capture["kv_head_of_head"][head])
    fitted = fitted_head(groups, "exponential", layer, kv_head)
    measured = value_head(groups, layer, kv_head, np.array([head]))
    taken = SWAPS[swap]
    weights = measured.weights if "weights" in taken else measured.weight_model[None]
    found = bounds_of_layer(
        capture,
        layer,
        weights,
        measured.norms if "norms" in taken else fitted.norms,
        measured.gram if "similarity" in taken else fitted.gram,
        n,
        editions=["sharp"],
        names=("recall_lower", "recall_upper"),
    )[0]
    return found[0][:, 0], found[1][:, 0]


@pytest.mark.slow
def test_shares_costs_and_their_errors_are_of_the_document_jackknife(
    tree: xr.DataTree, swapped: xr.Dataset
):
    documents = tree["capture"].sizes["document"]
    every = np.arange(documents)
    whole = shares(tree, swapped, every)
    each = np.array([shares(tree, swapped, every != k) for k in every])
    np.testing.assert_allclose(swapped["recall_inside"], whole)
    cost, costs = whole[0] - whole, each[:, :1] - each
    np.testing.assert_allclose(swapped["recall_cost"], cost)
    away = costs - costs.mean(axis=0)
    se = np.sqrt((documents - 1) / documents * (away**2).sum(axis=0))
    np.testing.assert_allclose(swapped["recall_cost_se"], se, atol=1e-12)
    assert float(swapped["recall_cost"].sel(swap="all")) == 0.0
    first, second = np.sort(cost[1:4])[::-1][:2]
    assert float(swapped["recall_lead"]) == pytest.approx(first - second)
    order = 1 + np.argsort(-cost[1:4])
    leads = costs[:, order[0]] - costs[:, order[1]]
    se = np.sqrt((documents - 1) / documents * ((leads - leads.mean()) ** 2).sum())
    assert float(swapped["recall_lead_se"]) == pytest.approx(se, abs=1e-12)
    half = stats.t(documents - 1).ppf(0.975) * se
    assert float(swapped["recall_lead_lower"]) == pytest.approx(first - second - half)


def test_sizes_lie_between_one_and_all(tree: xr.DataTree, swapped: xr.Dataset):
    n, tokens = swapped["n_envelope"].values, tree["capture"].sizes["position"]
    assert n.min() > 1
    assert n.max() < tokens
    width = (swapped["recall_upper"] - swapped["recall_lower"]).clip(0, 1)
    np.testing.assert_allclose(
        swapped["recall_width"], width.mean(("layer", "head", "n_envelope")), atol=1e-9
    )


def test_a_run_of_no_size_between_has_no_shares(tree: xr.DataTree):
    short = tree.map_over_datasets(
        lambda data: data.isel(n=[0]) if "n" in data.dims else data  # N = 1 alone
    )
    found = swap_ingredients(short)
    assert found.sizes["n_envelope"] == 0
    assert np.isnan(found["recall_inside"]).all()
    assert np.isnan(found["recall_lead"])


def test_norms_that_are_as_fitted_cost_nothing(tree: xr.DataTree):
    groups = {f"/{name}": tree[name].to_dataset().copy(deep=True) for name in NEEDED}
    norms = groups["/norms"]
    as_fitted = norms["C"].transpose("layer", "kv_head").values[..., None] * np.ones(
        tree["capture"].sizes["position"]
    )
    as_fitted[..., 0] *= norms["lam"].transpose("layer", "kv_head").values
    value_norm = groups["/capture"]["value_norm"].transpose(
        "document", "layer", "kv_head", "position"
    )
    groups["/capture"]["value_norm"] = value_norm * 0 + as_fitted.astype(np.float32)
    found = swap_ingredients(xr.DataTree.from_dict(groups), points=3)
    at = found.sel(swap="all but norms")
    assert float(at["recall_cost"]) == pytest.approx(0, abs=0.02)
    assert float(at["recall_cost_se"]) == pytest.approx(0, abs=0.02)
    for side in ("lower", "upper"):
        bound = found[f"recall_{side}"]
        np.testing.assert_allclose(
            bound.sel(swap="all but norms"), bound.sel(swap="all"), atol=1e-6
        )


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
    assert np.isfinite(found["recall_lower"].sel(swap="all but weights").values[0, heads]).all()


def test_a_head_that_could_not_be_fitted_has_no_bounds(tree: xr.DataTree):
    groups = {
        f"/{name}": tree[name].to_dataset().copy(deep=True)
        for name in ("capture", "norms", "similarity", "weights")
    }
    groups["/norms"]["C"][0, 0] = np.nan
    groups["/weights"]["log_weight_model"][1, 3] = np.nan
    found = swap_ingredients(xr.DataTree.from_dict(groups), points=3)
    assert np.isnan(found["recall_lower"].values[:, 0, 0]).all()
    assert np.isnan(found["recall_lower"].sel(swap="none").values[1, 3]).all()
    assert np.isfinite(found["recall_lower"].sel(swap="all").values[1, 3]).all()


def test_a_lag_without_a_cosine_in_some_documents_is_of_the_others_and_in_all_leaves_a_head_out(
    tree: xr.DataTree, swapped: xr.Dataset
):
    """A value vector of length 0 at either end of a window has the only cosine at a long lag."""

    def without(documents: list[int]) -> xr.Dataset:
        groups = {f"/{name}": tree[name].to_dataset().copy(deep=True) for name in NEEDED}
        last = tree["capture"].sizes["position"] - 3
        groups["/capture"]["cosine_mean"][documents, 0, 0, last] = np.nan
        return swap_ingredients(xr.DataTree.from_dict(groups), points=8)

    heads = tree["capture"]["kv_head_of_head"].values == 0
    some, none = without([1]), without(list(range(tree["capture"].sizes["document"])))
    assert np.isfinite(some["recall_lower"].sel(swap="all").values[0, heads]).all()
    assert np.isfinite(some["moved"][0, 0])
    assert np.isnan(none["recall_lower"].values[:, 0, heads]).all()
    assert np.isnan(none["moved"][0, 0])
    rest = {"layer": slice(1, None)}
    for found in (some, none):
        xr.testing.assert_equal(
            found["recall_lower"].isel(rest), swapped["recall_lower"].isel(rest)
        )
        assert np.isfinite(found["recall_cost"]).all()


def test_a_cell_counts_in_every_swap_or_in_none(tree: xr.DataTree):
    """Of heads without fitted weights nothing is known of what these cost."""
    groups = {f"/{name}": tree[name].to_dataset().copy(deep=True) for name in NEEDED}
    groups["/weights"]["log_weight_model"][:, 1:] = np.nan
    found = swap_ingredients(xr.DataTree.from_dict(groups), points=3)
    few = {
        name: data.isel(head=[0]) if "head" in data.dims else data for name, data in groups.items()
    }
    alone = swap_ingredients(xr.DataTree.from_dict(few), points=3)
    for name in ("recall_inside", "recall_cost", "precision_cost_se", "recall_width"):
        np.testing.assert_allclose(found[name], alone[name], atol=1e-12)
