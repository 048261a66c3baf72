"""Predicted curves: true parameters predict heads that were drawn from them, wrong ones do not,
and every score is what it says.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support.spine import Finished, Said, geostat

from empirical.store.store import Store
from geostat.api import confront
from geostat.bounds.predictive.check import chosen_heads, chosen_sizes
from geostat.bounds.predictive.curves import predictive_curves, predictive_grid
from geostat.bounds.predictive.scores import (
    mean_of_other_heads,
    noise_share,
    score,
    with_replicates,
)
from geostat.errors import InputError
from theory.audit.simulate import simulate
from theory.editions.predicted.predict import predict
from theory.head.similarity_decay import offset_exponential

TOKENS, DIMENSION, DOCUMENTS, LAYERS, HEADS, KV_HEADS = 40, 32, 6, 2, 4, 2
N = np.array([1, 2, 3, 4, 6, 8, 10, 20, 40])
BETA, OFFSET, RHO0 = (
    np.array(rows)
    for rows in ([[0.8, 1.5], [0.5, 1.0]], [[0.6, 0.0], [0.3, 0.1]], [[0.1, 0.05], [-0.1, 0.0]])
)
RATIO = np.array([[0.2, 0.4], [0.8, 0.3]])
DRAWS_A_DOCUMENT = 150


def profile(layer: int, head: int) -> np.ndarray:
    """Weights of one head: a sink and a tail that grows at a pace of the head's own."""
    log = 0.05 * (1 + layer + 2 * head) * np.arange(TOKENS)
    weights = np.exp(log - log.max())
    weights[0] = 0.0
    sink = 0.15 + 0.15 * head
    weights *= (1 - sink) / weights.sum()
    weights[0] = sink
    return weights


def model_g_run(seed: int = 0) -> xr.DataTree:
    """A run drawn from Model G: its offset fits and weights are the truth, its exponential fits
    are far from it.
    """
    curves = np.empty((2, DOCUMENTS, LAYERS, HEADS, len(N)))
    alpha = np.empty((LAYERS, HEADS, TOKENS))
    by_lag = np.empty((LAYERS, KV_HEADS, TOKENS - 2))
    for layer, head in np.ndindex(LAYERS, HEADS):
        kv = head // 2
        gram = offset_exponential(BETA[layer, kv], OFFSET[layer, kv], RHO0[layer, kv], TOKENS)
        alpha[layer, head], by_lag[layer, kv] = profile(layer, head), gram.by_lag[1:-1]
        norms = np.r_[RATIO[layer, kv], np.ones(TOKENS - 1)]
        for document in range(DOCUMENTS):
            more = {"draws": DRAWS_A_DOCUMENT, "seed": 1000 * seed + document}
            found = simulate(alpha[layer, head], norms, gram, DIMENSION, N, **more)
            curves[:, document, layer, head] = found.precision, found.recall
    capture = xr.Dataset(
        {
            "attention_weight": (
                ("document", "layer", "head", "position"),
                np.broadcast_to(alpha, (DOCUMENTS, *alpha.shape)).copy(),
            ),
            "value_norm": (
                ("document", "layer", "kv_head", "position"),
                np.ones((DOCUMENTS, LAYERS, KV_HEADS, TOKENS)),
            ),
            "sink_cosine": (
                ("document", "layer", "kv_head", "position"),
                np.empty((DOCUMENTS, LAYERS, KV_HEADS, TOKENS)),
            ),
            "cosine_mean": (
                ("document", "layer", "kv_head", "lag"),
                np.broadcast_to(by_lag, (DOCUMENTS, *by_lag.shape)).copy(),
            ),
            **{
                name: (("document", "layer", "head", "n"), curves[k])
                for k, name in enumerate(("precision", "recall"))
            },
        },
        coords={
            "document": [f"text {k}" for k in range(DOCUMENTS)],
            "layer": np.arange(LAYERS),
            "head": np.arange(HEADS),
            "kv_head": np.arange(KV_HEADS),
            "n": N,
            "lag": np.arange(1, TOKENS - 1),
            "tokens": ("layer", [TOKENS] * LAYERS),
            "sink_visible": ("layer", [True] * LAYERS),
            "kv_head_of_head": ("head", np.arange(HEADS) // 2),
        },
        attrs={"dimension": DIMENSION, "convention": "paper"},
    )
    capture["sink_cosine"][...] = RHO0[None, :, :, None]
    capture["value_norm"][..., 0] = RATIO
    own = ("layer", "kv_head")
    wrong = np.full(BETA.shape, 0.02)
    similarity = xr.Dataset(
        {
            "beta": (("gram", *own), np.stack([wrong, BETA])),
            "offset": (("gram", *own), np.stack([0 * OFFSET, OFFSET])),
            "rho0": (own, RHO0),
        },
        coords={"gram": ["exponential", "offset"]},
    )
    level = np.log(0.03)  # of a mean of logarithms: the sum is to put it right
    weights = xr.Dataset(
        {
            "log_weight_model": (("layer", "head", "position"), np.log(alpha) + level),
            "p_sink": (("layer", "head"), alpha[..., 0]),
        }
    )
    norms = xr.Dataset({"C": (own, np.ones(BETA.shape)), "lam": (own, RATIO)})
    groups = {"capture": capture, "norms": norms, "similarity": similarity, "weights": weights}
    return xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})


@pytest.fixture(scope="module")
def run() -> xr.DataTree:
    return model_g_run()


@pytest.fixture(scope="module")
def found(run: xr.DataTree) -> xr.Dataset:
    return predictive_curves(run, points=None, draws=400)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["precision", "recall"])
@pytest.mark.parametrize("source", ["offset", "all but weights", "measured"])
def test_true_parameters_predict_heads_that_were_drawn_from_them(
    found: xr.Dataset, name: str, source: str
):
    at = found.sel(source=source)
    assert abs(float(at[f"{name}_slope"]) - 1) < 0.08
    assert abs(float(at[f"{name}_intercept"])) < 0.04
    assert float(at[f"{name}_pooled_r2"]) > 0.97
    assert float(at[f"{name}_r2_median"]) > 0.9
    assert float(at[f"{name}_pooled_mae"]) < 0.02
    assert float(at[f"{name}_within"]) > 0.6


@pytest.mark.parametrize("name", ["precision", "recall"])
def test_wrong_parameters_do_not(found: xr.Dataset, name: str):
    wrong, right = found.sel(source="exponential"), found.sel(source="offset")
    assert float(wrong[f"{name}_pooled_r2"]) < 0.8
    assert float(wrong[f"{name}_pooled_mae"]) > 4 * float(right[f"{name}_pooled_mae"])
    assert float(wrong[f"{name}_within"]) < 0.4


def test_a_prediction_is_the_theorys_at_the_fitted_parameters(run: xr.DataTree, found: xr.Dataset):
    layer, head = 1, 2
    gram = offset_exponential(BETA[1, 1], OFFSET[1, 1], RHO0[1, 1], TOKENS)
    norms = np.r_[RATIO[1, 1], np.ones(TOKENS - 1)]
    n = found["n_predicted"].values
    expected = predict(profile(layer, head), norms, gram, DIMENSION, n)
    for source in (
        "offset",
        "all but weights",
        "measured",
    ):  # the measured ingredients are the true ones here
        at = found.sel(source=source).isel(layer=layer, head=head)
        np.testing.assert_allclose(at["precision_predicted"], expected.precision, atol=1e-6)
        np.testing.assert_allclose(at["recall_predicted"], expected.recall, atol=1e-6)
        np.testing.assert_array_equal(at["flagged"], 1 - expected.reliable)


def test_measured_ingredients_take_each_documents_own_weights(run: xr.DataTree):
    groups = {f"/{name}": tree.to_dataset().copy(deep=True) for name, tree in run.children.items()}
    weights = groups["/capture"]["attention_weight"]
    weights[:3, 0, 0] = profile(1, 3)
    at = (
        predictive_curves(xr.DataTree.from_dict(groups), points=2, draws=2)
        .sel(source="measured")
        .isel(layer=0, head=0)
    )
    gram = offset_exponential(BETA[0, 0], OFFSET[0, 0], RHO0[0, 0], TOKENS)
    norms = np.r_[RATIO[0, 0], np.ones(TOKENS - 1)]
    each = [
        predict(alpha, norms, gram, DIMENSION, at["n_predicted"].values).precision
        for alpha in (profile(1, 3), profile(0, 0))
    ]
    assert np.abs(each[0] - each[1]).max() > 0.02
    np.testing.assert_allclose(at["precision_predicted"], np.mean(each, axis=0), atol=1e-6)


def test_baselines_are_the_other_heads_mean_and_the_floor(run: xr.DataTree, found: xr.Dataset):
    n = found["n_predicted"].values
    measured = (
        run["capture"]
        .to_dataset()["recall"]
        .mean("document")
        .sel(n=n)
        .transpose("layer", "head", "n")
        .values
    )
    others = (measured.sum(axis=(0, 1)) - measured) / (LAYERS * HEADS - 1)
    np.testing.assert_allclose(found["recall_predicted"].sel(source="heads"), others, atol=1e-12)
    np.testing.assert_allclose(
        found["recall_predicted"].sel(source="floor"), np.broadcast_to(n / TOKENS, measured.shape)
    )
    nearer = np.abs(found["recall_predicted"].sel(source="offset") - measured).mean(
        axis=-1
    ) < np.abs(others - measured).mean(axis=-1)
    assert float(found["recall_better"].sel(source="offset")) == pytest.approx(float(nearer.mean()))
    assert float(found["recall_better"].sel(source="floor")) < 1


def test_simulation_bears_the_prediction_out_and_says_how_well(found: xr.Dataset):
    for name in ("precision", "recall"):
        away = np.abs(found[f"{name}_check_predicted"] - found[f"{name}_check_simulated"]).values
        assert len(away) == found.sizes["check"] == 8 * 3  # every head, three sizes each
        assert float(found[f"{name}_check_median"]) == pytest.approx(float(np.median(away)))
        assert float(found[f"{name}_check_worst"]) == away.max() < 0.1
        assert int(found[f"{name}_check_far"]) == (away > 0.02).sum()
        surely = away - 2 * found[f"{name}_check_simulated_se"].values > 0.02
        assert int(found[f"{name}_check_surely_far"]) == surely.sum()
        assert int(found[f"{name}_check_caught"]) == (surely & found["check_flagged"].values).sum()
    assert float(found["recall_check_median"]) < 0.02
    for k in range(found.sizes["check"]):
        at = found.isel(check=k)
        where = {
            "source": int(at["check_source"]),
            "layer": int(at["check_layer"]),
            "head": int(at["check_head"]),
        }
        curve = found["recall_predicted"].isel(where).sel(n_predicted=int(at["check_n"]))
        assert float(at["recall_check_predicted"]) == pytest.approx(float(curve), abs=1e-9)


def test_the_check_is_spread_over_layers_sources_and_sizes():
    cells = chosen_heads(30, 9, 4)
    assert len(set(cells)) == 16
    assert np.diff(sorted({layer for layer, _, _ in cells})).max() <= 2
    assert np.bincount([source for _, _, source in cells]).tolist() == [4, 4, 4, 4]
    sizes = np.bincount([k for at in range(16) for k in chosen_sizes(at, range(6))], minlength=6)
    assert sizes.sum() == 48
    assert sizes.max() - sizes.min() <= 1


def test_scores_are_their_definitions():
    rng = np.random.default_rng(0)
    measured, predicted = rng.random((2, 3, 4, 5)), rng.random((2, 1, 3, 4, 5))
    known = rng.random((3, 4, 5)) < 0.8
    found = score(predicted, measured, known)
    x, y = predicted[1, 0][known], measured[1][known]
    slope, intercept = np.polyfit(x, y, 1)
    assert found["slope"][1, 0] == pytest.approx(slope)
    assert found["intercept"][1, 0] == pytest.approx(intercept)
    assert found["pooled_mae"][1, 0] == pytest.approx(np.abs(x - y).mean())
    assert found["pooled_bias"][1, 0] == pytest.approx((x - y).mean())
    assert found["pooled_r2"][1, 0] == pytest.approx(
        1 - ((x - y) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    )
    of = known[2, 1]
    x, y = predicted[0, 0, 2, 1][of], measured[0, 2, 1][of]
    assert found["r2"][0, 0, 2, 1] == pytest.approx(
        1 - ((x - y) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    )
    assert found["bias"][0, 0, 2, 1] == pytest.approx((x - y).mean())
    error = np.full((3, 4, 5), 0.1)
    assert noise_share(measured[0], error, known)[2, 1] == pytest.approx(
        0.01 * of.sum() / ((y - y.mean()) ** 2).sum()
    )


def test_errors_are_jackknifes_over_documents(run: xr.DataTree, found: xr.Dataset):
    n = found["n_predicted"].values
    each = (
        run["capture"]
        .to_dataset()["precision"]
        .sel(n=n)
        .transpose("document", "layer", "head", "n")
        .values
    )
    guess = found["precision_predicted"].sel(source="offset").values
    left = [
        np.abs(guess - np.delete(each, k, axis=0).mean(axis=0)).mean() for k in range(DOCUMENTS)
    ]
    expected = np.sqrt((DOCUMENTS - 1) * np.var(left))
    assert float(found["precision_pooled_mae_se"].sel(source="offset")) == pytest.approx(expected)
    assert with_replicates(each).shape[0] == DOCUMENTS + 1


@pytest.mark.slow
def test_noise_hides_a_curve_and_one_document_has_no_errors(run: xr.DataTree):
    groups = {f"/{name}": tree.to_dataset().copy(deep=True) for name, tree in run.children.items()}
    noise = np.random.default_rng(1).normal(0, 2, (DOCUMENTS, len(N)))
    groups["/capture"]["precision"][:, 1, 0] += noise
    found = predictive_curves(xr.DataTree.from_dict(groups), points=4, draws=2)
    assert not bool(found["precision_settled"][1, 0])
    assert float(found["precision_settled"].mean()) > 0.5
    groups["/capture"] = run["capture"].to_dataset().isel(document=[0])
    alone = predictive_curves(xr.DataTree.from_dict(groups), points=2, draws=2)
    assert np.isfinite(alone["precision_pooled_mae"]).all()
    assert np.isnan(alone["precision_pooled_mae_se"]).all()
    assert np.isnan(alone["precision_within"]).all()
    assert not alone["precision_settled"].any()


def test_heads_that_could_not_be_fitted_count_nowhere(run: xr.DataTree):
    groups = {f"/{name}": tree.to_dataset().copy(deep=True) for name, tree in run.children.items()}
    groups["/similarity"]["beta"][0, 1, 1] = np.nan
    groups["/weights"]["log_weight_model"][0, 0] = np.nan
    found = predictive_curves(xr.DataTree.from_dict(groups), points=2, draws=2)
    assert int(found["recall_cells"]) == (LAYERS * HEADS - 3) * 2
    assert np.isnan(found["recall_mae"].values[:, 1, 2:]).all()
    assert np.isfinite(found["recall_mae"].values[:, 1, :2]).all()


def test_sizes_go_from_2_to_a_quarter_of_the_tokens(run: xr.DataTree):
    capture = run["capture"].to_dataset()
    assert predictive_grid(capture, None).tolist() == [2, 3, 4, 6, 8, 10]
    assert predictive_grid(capture, 3).tolist() == [2, 4, 10]
    assert predictive_grid(capture.sel(n=[1, 20, 40]), None).tolist() == [20]
    with pytest.raises(InputError, match=r"^the run holds N = 1, 40, expected some 1 < N < 40\."):
        predictive_grid(capture.sel(n=[1, 40]), None)


def test_other_heads_leave_the_head_out():
    measured = np.array([[[[0.1], [0.3], [0.8]]]])
    known = np.array([[[True], [True], [False]]])
    np.testing.assert_allclose(mean_of_other_heads(measured, known)[0, 0, :, 0], [0.3, 0.1, 0.2])


@pytest.mark.slow
def test_curves_are_predicted_where_asked_and_dropped_where_not(finished: Finished, tmp_path: Path):
    store = tmp_path / "run.zarr"
    shutil.copytree(finished.store, store)
    assert geostat("confront", store, "--predict", "--edition", "sharp", "--quiet") == Said(
        0, "", ""
    )
    kept = Store.open(store).read("predictive")
    assert kept["source"].values.tolist() == [
        "exponential",
        "offset",
        "all but weights",
        "measured",
        "heads",
        "floor",
    ]
    assert int(kept["recall_cells"]) > 0
    for variable in kept.data_vars.values():
        assert {"long_name", "units", "symbol", "equation"} <= set(variable.attrs)
    assert geostat("tables", store, "--quiet").code == 0
    assert "only weights fitted" in (tmp_path / "tables" / "predictive.md").read_text(
        encoding="utf-8"
    )
    assert geostat("confront", store, "--edition", "sharp", "--quiet") == Said(0, "", "")
    assert "predictive" not in Store.open(store).results  # it would be of another confrontation
    laid = confront(finished.tree, finished.tree, editions=("sharp",), points=2, predict=True)
    np.testing.assert_allclose(
        laid["predictive"]["recall_slope"], kept["recall_slope"], equal_nan=True
    )
