import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy import stats
from support.spine import Finished

from geostat.bounds.by_document import bounds_of_layer
from geostat.bounds.cost_of_assumptions import SWAPS, swap_ingredients
from geostat.bounds.head import NEEDED, fitted_head, kv_head_of
from theory.evaluate.envelopes import envelope as bounds_of
from theory.head.gram import LagGram

LAYER, HEAD = 1, 2


@pytest.fixture(scope="module")
def tree(finished: Finished) -> xr.DataTree:
    return finished.tree


@pytest.fixture(scope="module")
def swapped(tree: xr.DataTree) -> xr.Dataset:
    return swap_ingredients(tree, points=5)


def copied(tree: xr.DataTree) -> xr.DataTree:
    """Return the groups of the ingredients, to be modified."""
    return xr.DataTree.from_dict({name: tree[name].to_dataset() for name in NEEDED}).copy(deep=True)


@pytest.mark.parametrize("swap", list(SWAPS))
def test_a_swap_evaluates_the_theory_at_its_ingredients(tree, swapped, swap):
    groups, measured = {name: tree[name].to_dataset() for name in NEEDED}, SWAPS[swap]
    capture, norms, _, weights = groups.values()
    kv_head = int(capture["kv_head_of_head"][HEAD])
    assert swapped["moved"][LAYER, kv_head] == 0  # its measured cosines are feasible

    def of_kv_head(name: str) -> np.ndarray:
        return capture[name].values[:, LAYER, kv_head].astype(float)

    alpha = capture["attention_weight"].values[:, LAYER, HEAD].astype(float)
    if "weights" not in measured:
        alpha = np.exp(weights["log_weight_model"].values[LAYER, HEAD])[None]
        alpha[0, 0] = weights["p_sink"].values[LAYER, HEAD]
        alpha[0, 1:] *= (1 - alpha[0, 0]) / alpha[0, 1:].sum()
    norm = of_kv_head("value_norm").mean(axis=0)
    if "norms" not in measured:
        level, lam = (float(norms[name][LAYER, kv_head]) for name in ("C", "lam"))
        norm = level * np.r_[lam, np.ones(norm.size - 1)]
    gram = fitted_head(groups, "exponential", LAYER, kv_head).gram
    if "similarity" in measured:
        rho0 = float(np.nanmean(of_kv_head("sink_cosine")[:, 1:]))
        gram = LagGram(np.r_[1.0, of_kv_head("cosine_mean").mean(axis=0)], rho0)
    arguments = (norm, gram, int(capture.attrs["dimension"]), swapped["n_envelope"].values)
    bounds = [bounds_of(row, *arguments, edition="sharp") for row in alpha]
    for name in ("precision_lower", "recall_upper"):
        expected = np.mean([getattr(of_document, name) for of_document in bounds], axis=0)
        result = swapped[name].sel(swap=swap)[LAYER, HEAD]
        assert_allclose(result, expected, atol=2e-7, err_msg=name)


def recall_of(tree: xr.DataTree, layer: int, head: int, n: np.ndarray) -> list[np.ndarray]:
    """Return both bounds of Recall of one head by swap, (bound, document or 1, n)."""
    groups = {name: tree[name].to_dataset() for name in NEEDED}
    kv_head = int(groups["capture"]["kv_head_of_head"][head])
    fitted = fitted_head(groups, "exponential", layer, kv_head)
    measured = kv_head_of(groups, layer, kv_head, np.array([head]))
    how = {"editions": ["sharp"], "names": ("recall_lower", "recall_upper")}
    by_swap = []
    for names in SWAPS.values():
        weights = measured.weights if "weights" in names else measured.weight_model[None]
        norms = measured.norms if "norms" in names else fitted.norms
        gram = measured.gram if "similarity" in names else fitted.gram
        result = bounds_of_layer(groups["capture"], layer, weights, norms, gram, n, **how)
        by_swap.append(result[0][:, :, 0])
    return by_swap


@pytest.mark.slow
def test_shares_costs_and_errors_equal_the_document_jackknife(tree, swapped):
    n, recall = swapped["n_envelope"].values, tree["capture"]["recall"]
    curves = recall.sel(n=n).transpose("layer", "head", "document", "n").values.astype(float)
    heads = list(np.ndindex(curves.shape[:2]))
    bounds = {place: recall_of(tree, *place, n) for place in heads}
    documents = np.arange(curves.shape[2])

    def by_n(keep: np.ndarray) -> np.ndarray:
        """Return the share of Recall inside by swap and N, over some documents."""
        inside = []
        for place in heads:
            curve = curves[place][keep].mean(axis=0)
            ends = ((x if x.shape[1] == 1 else x[:, keep]).mean(axis=1) for x in bounds[place])
            inside.append([(low <= curve) & (curve <= high) for low, high in ends])
        return np.mean(inside, axis=0)

    def error(replicates: np.ndarray) -> np.ndarray:
        deviation = replicates - replicates.mean(axis=0)
        return np.sqrt((len(documents) - 1) / len(documents) * (deviation**2).sum(axis=0))

    whole, without = by_n(documents >= 0), np.array([by_n(documents != k) for k in documents])
    assert_allclose(swapped["recall_inside_by_n"], whole)
    cost, costs = whole[0] - whole, without[:, :1] - without
    assert_allclose(swapped["recall_cost_by_n"], cost, atol=1e-12)
    assert_allclose(swapped["recall_cost_by_n_se"], error(costs), atol=1e-12)
    half_width = stats.t(len(documents) - 1).ppf(0.5 + 0.95 ** (1 / n.size) / 2) * error(costs)
    assert_allclose(swapped["recall_cost_by_n_upper"], cost + half_width, atol=1e-9)
    first, second = 1 + np.argsort(-cost[1:4], axis=0)[:2]
    lead = cost[first, np.arange(n.size)] - cost[second, np.arange(n.size)]
    assert_allclose(swapped["recall_lead_by_n"], lead, atol=1e-12)
    all_documents, replicates = whole.mean(axis=-1), without.mean(axis=-1)
    assert_allclose(swapped["recall_inside"], all_documents)
    cost, costs = all_documents[0] - all_documents, replicates[:, :1] - replicates
    assert_allclose(swapped["recall_cost"], cost)
    assert_allclose(swapped["recall_cost_se"], error(costs), atol=1e-12)
    assert float(swapped["recall_cost"].sel(swap="all")) == 0.0
    first, second = 1 + np.argsort(-cost[1:4])[:2]
    lead, se = cost[first] - cost[second], error(costs[:, first] - costs[:, second])
    assert_allclose(swapped["recall_lead"], lead, atol=1e-12)
    assert_allclose(swapped["recall_lead_se"], se, atol=1e-12)
    half_width = stats.t(len(documents) - 1).ppf(0.975) * se
    assert_allclose(swapped["recall_lead_lower"], lead - half_width, atol=1e-9)


def test_sizes_lie_between_one_and_t(tree, swapped):
    n = swapped["n_envelope"].values
    assert 1 < n.min() <= n.max() < tree["capture"].sizes["position"]
    width = (swapped["recall_upper"] - swapped["recall_lower"]).clip(0, 1)
    expected = width.mean(("layer", "head", "n_envelope"))
    assert_allclose(swapped["recall_width"], expected, atol=1e-9)


def test_a_run_without_sizes_between_one_and_t_has_no_shares(tree):
    short = tree.map_over_datasets(
        lambda data: data.isel(n=[0]) if "n" in data.dims else data  # N = 1 alone
    )
    result = swap_ingredients(short)
    assert result.sizes["n_envelope"] == 0
    assert np.isnan(result["recall_inside"]).all()
    assert np.isnan(result["recall_lead"])


def test_norms_equal_to_the_fit_cost_nothing(tree):
    changed = copied(tree)
    norm, fit = changed["capture"]["value_norm"], changed["norms"]
    sink = norm["position"] == 0
    fitted = fit["C"] * xr.where(sink, fit["lam"], 1.0) * xr.ones_like(norm)
    norm[...] = fitted.transpose(*norm.dims).values
    result = swap_ingredients(changed, points=3)
    selected = result.sel(swap="all but norms")
    assert float(selected["recall_cost"]) == pytest.approx(0, abs=0.02)
    assert float(selected["recall_cost_se"]) == pytest.approx(0, abs=0.02)
    for side in ("recall_lower", "recall_upper"):
        assert_allclose(selected[side], result[side].sel(swap="all"), atol=1e-6)


def test_infeasible_cosines_are_projected_and_reported(tree):
    changed = copied(tree)
    cosines = changed["capture"]["cosine_mean"]
    cosines[:, 0, 0] = np.resize([0.9, -0.9, -0.9], cosines.shape[-1])
    result = swap_ingredients(changed, points=3)
    assert float(result["moved"][0, 0]) > 0.1
    heads = changed["capture"]["kv_head_of_head"].values == 0
    assert np.isfinite(result["recall_lower"].sel(swap="all but weights")[0, heads]).all()


def test_a_head_that_could_not_be_fitted_has_no_bounds(tree):
    changed = copied(tree)
    changed["norms"]["C"][0, 0] = np.nan
    changed["weights"]["log_weight_model"][1, 3] = np.nan
    lower = swap_ingredients(changed, points=3)["recall_lower"]
    assert np.isnan(lower[:, 0, 0]).all()
    assert np.isnan(lower.sel(swap="none")[1, 3]).all()
    assert np.isfinite(lower.sel(swap="all")[1, 3]).all()


def test_a_lag_is_averaged_over_the_documents_that_know_it_and_needs_one(tree, swapped):
    """The only cosine at a long lag is missing if a value vector at either end has length 0."""
    capture = tree["capture"]
    heads = capture["kv_head_of_head"].values == 0

    def without(documents: list[int] | slice) -> tuple[np.ndarray, xr.DataArray]:
        changed = copied(tree)
        changed["capture"]["cosine_mean"][documents, 0, 0, capture.sizes["position"] - 3] = np.nan
        result = swap_ingredients(changed, points=5)
        others = {"layer": slice(1, None)}
        unchanged = swapped["recall_lower"].isel(others)
        xr.testing.assert_equal(result["recall_lower"].isel(others), unchanged)
        assert np.isfinite(result["recall_cost"]).all()
        return result["recall_lower"].values[:, 0, heads], result["moved"][0, 0]

    lower, moved = without([1])
    assert np.isfinite(lower[0]).all()
    assert np.isfinite(moved)
    lower, moved = without(slice(None))
    assert np.isnan(lower).all()
    assert np.isnan(moved)


def test_a_cell_counts_in_all_swaps_or_in_none(tree):
    """Heads without fitted weights do not count in the cost of any assumption."""
    changed = copied(tree)
    changed["weights"]["log_weight_model"][:, 1:] = np.nan
    result = swap_ingredients(changed, points=3)
    first_head = changed.map_over_datasets(
        lambda data: data.isel(head=[0]) if "head" in data.dims else data
    )
    alone = swap_ingredients(first_head, points=3)
    for name in ("recall_inside", "recall_cost", "precision_cost_se", "recall_width"):
        assert_allclose(result[name], alone[name], atol=1e-12)


def test_the_mean_of_costs_over_n_is_the_cost(swapped):
    for statistic in ("precision", "recall"):
        by_n = swapped[f"{statistic}_cost_by_n"]
        assert by_n.dims == ("swap", "n_envelope")
        assert_allclose(by_n.mean("n_envelope"), swapped[f"{statistic}_cost"], atol=1e-12)
        assert_allclose(by_n.sel(swap="all"), 0)
        pointwise = stats.t(2).ppf(0.975) * swapped[f"{statistic}_cost_by_n_se"]
        width = swapped[f"{statistic}_cost_by_n_upper"] - by_n
        assert (width >= pointwise - 1e-12).all()  # simultaneous over five sizes
        assert (width[1:] > 1.5 * pointwise[1:]).any()
