import shutil

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from support.spine import Said, geostat
from support.synthetic import capture_of

from empirical.store.store import Store
from geostat.api import confront
from geostat.bounds.predictive.check import chosen_heads, chosen_sizes
from geostat.bounds.predictive.curves import predictive_curves, predictive_grid
from geostat.bounds.predictive.variables import mean_of_other_heads, noise_share, score
from geostat.errors import InputError
from geostat.statistics.jackknife import leave_one_out_mean
from theory.editions.predicted.predict import Prediction, predict_head
from theory.evaluate.simulate import simulate
from theory.head.gram import LagGram, offset_exponential
from theory.head.inputs import checked_input

TOKENS, DIMENSION, DOCUMENTS, LAYERS, HEADS, KV_HEADS = 40, 32, 4, 2, 4, 2
N = np.array([1, 2, 3, 4, 6, 8, 10, 20, 40])
BETA = np.array([[0.8, 1.5], [0.5, 1.0]])
OFFSET = np.array([[0.6, 0.0], [0.3, 0.1]])
RHO0 = np.array([[0.1, 0.05], [-0.1, 0.0]])
RATIO = np.array([[0.2, 0.4], [0.8, 0.3]])


def profile(layer: int, head: int) -> np.ndarray:
    """Return the weights of one head: a sink, and a tail that grows at a rate of that head."""
    content = np.exp(0.05 * (1 + layer + 2 * head) * np.arange(1, TOKENS))
    sink = 0.15 + 0.15 * head
    return np.r_[sink, (1 - sink) * content / content.sum()]


def values_of(layer: int, head: int) -> tuple[np.ndarray, LagGram]:
    kv = layer, head // 2
    gram = offset_exponential(BETA[kv], OFFSET[kv], RHO0[kv], TOKENS)
    return np.r_[RATIO[kv], np.ones(TOKENS - 1)], gram


def predicted(alpha: np.ndarray, layer: int, head: int, n: np.ndarray) -> Prediction:
    """Return the theory's prediction from these weights and a head's true norms and Gram."""
    return predict_head(
        checked_input(alpha, *values_of(layer, head), DIMENSION, n, sink=0), "paper"
    )


@pytest.fixture(scope="module")
def run() -> xr.DataTree:
    """A run drawn from Model G; offset fits are the truth, exponential fits are not."""
    curves = np.empty((2, DOCUMENTS, LAYERS, HEADS, len(N)))
    alpha = np.empty((LAYERS, HEADS, TOKENS))
    norm, by_lag = np.empty((LAYERS, KV_HEADS, TOKENS)), np.empty((LAYERS, KV_HEADS, TOKENS - 2))
    for layer, head in np.ndindex(LAYERS, HEADS):
        norms, gram = values_of(layer, head)
        norm[layer, head // 2], by_lag[layer, head // 2] = norms, gram.by_lag[1:-1]
        alpha[layer, head] = profile(layer, head)
        for document in range(DOCUMENTS):
            drawn = simulate(
                alpha[layer, head], norms, gram, DIMENSION, N, draws=150, seed=document
            )
            curves[:, document, layer, head] = drawn.precision, drawn.recall
    of_documents = {
        "attention_weight": alpha,
        "value_norm": norm,
        "sink_cosine": np.broadcast_to(RHO0[..., None], norm.shape),
        "cosine_mean": by_lag,
    }
    arrays = {name: np.stack([values] * DOCUMENTS) for name, values in of_documents.items()}
    arrays |= {"precision": curves[0], "recall": curves[1]}
    coords = {"n": N, "lag": np.arange(1, TOKENS - 1)}
    capture = capture_of(arrays, coords, dimension=DIMENSION, convention="paper")
    level = np.log(0.03)  # level of a mean of logarithms, which scaling to sum 1 corrects
    head, kv_head = ("layer", "head"), ("layer", "kv_head")
    fits = xr.Dataset(
        {
            "beta": (("gram", *kv_head), np.stack([np.full(BETA.shape, 0.02), BETA])),
            "offset": (("gram", *kv_head), np.stack([0 * OFFSET, OFFSET])),
            "rho0": (kv_head, RHO0),
            "C": (kv_head, np.ones(BETA.shape)),
            "lam": (kv_head, RATIO),
            "log_weight_model": ((*head, "position"), np.log(alpha) + level),
            "p_sink": (head, alpha[..., 0]),
        },
        coords={"gram": ["exponential", "offset"]},
    )
    groups = dict.fromkeys(("norms", "similarity", "weights"), fits)
    return xr.DataTree.from_dict({"capture": capture, **groups})


@pytest.fixture(scope="module")
def result(run: xr.DataTree) -> xr.Dataset:
    return predictive_curves(run, points=4, draws=400)


def measured_curves(run: xr.DataTree, name: str, result: xr.Dataset) -> np.ndarray:
    """Return the measured curves at the predicted sizes, (document, layer, head, n)."""
    return run["capture"][name].sel(n=result["n_predicted"].values).values


@pytest.mark.parametrize("name", ["precision", "recall"])
@pytest.mark.parametrize("source", ["offset", "all but weights", "measured"])
def test_true_parameters_predict_drawn_heads(result, name, source):
    selected = result.sel(source=source)
    assert abs(selected[f"{name}_slope"] - 1) < 0.08
    assert abs(selected[f"{name}_intercept"]) < 0.04
    assert selected[f"{name}_pooled_r2"] > 0.97
    assert selected[f"{name}_r2_median"] > 0.9
    assert selected[f"{name}_pooled_mae"] < 0.02
    assert selected[f"{name}_within"] > 0.6


@pytest.mark.parametrize("name", ["precision", "recall"])
def test_wrong_parameters_do_not_predict_drawn_heads(result, name):
    wrong, right = result.sel(source="exponential"), result.sel(source="offset")
    assert wrong[f"{name}_pooled_r2"] < 0.8
    assert wrong[f"{name}_pooled_mae"] > 4 * right[f"{name}_pooled_mae"]
    assert wrong[f"{name}_within"] < 0.4


def test_a_prediction_is_the_theory_at_the_fitted_parameters(result):
    expected = predicted(profile(1, 2), 1, 2, result["n_predicted"].values)
    # Measured ingredients equal the true ones here.
    for source in ("offset", "all but weights", "measured"):
        selected = result.sel(source=source).isel(layer=1, head=2)
        assert_allclose(selected["precision_predicted"], expected.precision, atol=1e-6)
        assert_allclose(selected["recall_predicted"], expected.recall, atol=1e-6)
        assert_array_equal(selected["flagged"], 1 - expected.reliable)


def test_measured_ingredients_use_the_weights_of_each_document(run):
    head = {"layer": [0], "head": [0], "kv_head": [0]}
    changed = run.map_over_datasets(lambda data: data.isel(head) if data else data).copy(deep=True)
    changed["capture"]["attention_weight"][: DOCUMENTS // 2] = profile(1, 3)
    curves = predictive_curves(changed, points=2, draws=2)
    n = curves["n_predicted"].values
    profiles = profile(1, 3), profile(0, 0)
    first, second = (predicted(alpha, 0, 0, n).precision for alpha in profiles)
    assert np.abs(first - second).max() > 0.02
    selected = curves["precision_predicted"].sel(source="measured").isel(layer=0, head=0)
    assert_allclose(selected, (first + second) / 2, atol=1e-6)


def test_baselines_are_the_mean_of_the_other_heads_and_n_over_t(run, result):
    by_source = result["recall_predicted"]
    measured = measured_curves(run, "recall", result).mean(axis=0)
    others = (measured.sum(axis=(0, 1)) - measured) / (LAYERS * HEADS - 1)
    assert_allclose(by_source.sel(source="heads"), others, atol=1e-12)
    floor = np.broadcast_to(result["n_predicted"].values / TOKENS, measured.shape)
    assert_allclose(by_source.sel(source="floor"), floor)
    error = np.abs(by_source.sel(source="offset").values - measured).mean(axis=-1)
    closer = error < np.abs(others - measured).mean(axis=-1)
    assert_allclose(result["recall_better"].sel(source="offset"), closer.mean())
    assert result["recall_better"].sel(source="floor") < 1


@pytest.mark.parametrize("name", ["precision", "recall"])
def test_the_simulation_check_summarises_its_cells(result, name):
    of_cells = {part: result[f"{name}_check_{part}"] for part in ("predicted", "simulated")}
    difference = np.abs(of_cells["predicted"] - of_cells["simulated"])
    assert difference.sizes == {"check": LAYERS * HEADS * 3}  # every head, three sizes each
    clearly_wrong = difference - 2 * result[f"{name}_check_simulated_se"] > 0.02
    expected = {
        "median": difference.median(),
        "worst": difference.max(),
        "far": (difference > 0.02).sum(),
        "surely_far": clearly_wrong.sum(),
        "caught": (clearly_wrong & result["check_flagged"]).sum(),
    }
    for part, value in expected.items():
        assert_allclose(result[f"{name}_check_{part}"], value, err_msg=part)
    assert difference.max() < 0.1
    assert difference.median() < 0.02
    where = {dim: result[f"check_{dim}"] for dim in ("source", "layer", "head")}
    curve = result[f"{name}_predicted"].isel(where).sel(n_predicted=result["check_n"])
    assert_allclose(of_cells["predicted"], curve, atol=1e-9)


def test_the_check_is_spread_over_layers_sources_and_sizes():
    cells = chosen_heads(30, 9, 4)
    assert len(set(cells)) == 16
    assert np.diff(sorted({layer for layer, _, _ in cells})).max() <= 2
    assert np.bincount([source for _, _, source in cells]).tolist() == [4, 4, 4, 4]
    sizes = np.bincount([k for index in range(16) for k in chosen_sizes(index, range(6))])
    assert (sizes.size, sizes.sum()) == (6, 48)
    assert sizes.max() - sizes.min() <= 1


def test_scores_equal_their_definitions():
    rng = np.random.default_rng(0)
    measured, predictions = rng.random((2, 3, 4, 5)), rng.random((2, 1, 3, 4, 5))
    known = rng.random((3, 4, 5)) < 0.8
    result = score(predictions, measured, known)

    def r2(x, y):
        return 1 - ((x - y) ** 2).sum() / ((y - y.mean()) ** 2).sum()

    x, y = predictions[1, 0][known], measured[1][known]
    slope, intercept = np.polyfit(x, y, 1)
    expected = {"slope": slope, "intercept": intercept, "pooled_r2": r2(x, y)}
    expected |= {"pooled_mae": np.abs(x - y).mean(), "pooled_bias": (x - y).mean()}
    for name, value in expected.items():
        assert result[name][1, 0] == pytest.approx(value), name
    cells = known[2, 1]
    x, y = predictions[0, 0, 2, 1][cells], measured[0, 2, 1][cells]
    assert result["r2"][0, 0, 2, 1] == pytest.approx(r2(x, y))
    assert result["bias"][0, 0, 2, 1] == pytest.approx((x - y).mean())
    noise = noise_share(measured[0], np.full((3, 4, 5), 0.1), known)[2, 1]
    assert noise == pytest.approx(0.01 * cells.sum() / ((y - y.mean()) ** 2).sum())


def test_errors_equal_the_jackknife_over_documents(run, result):
    without = leave_one_out_mean(measured_curves(run, "precision", result))
    selected = result.sel(source="offset")
    replicates = np.abs(selected["precision_predicted"].values - without).mean(axis=(1, 2, 3))
    expected = np.sqrt((DOCUMENTS - 1) * np.var(replicates))
    assert_allclose(selected["precision_pooled_mae_se"], expected, rtol=1e-6)


@pytest.mark.slow
def test_noisy_curves_are_not_settled_and_one_document_has_no_errors(run):
    noisy = run.copy(deep=True)
    noise = np.random.default_rng(1).normal(0, 2, (DOCUMENTS, len(N)))
    noisy["capture"]["precision"][:, 1, 0] += noise
    result = predictive_curves(noisy, points=4, draws=2)
    assert not result["precision_settled"][1, 0]
    assert result["precision_settled"].mean() > 0.5
    one_document = xr.DataTree(run["capture"].to_dataset().isel(document=[0]))
    alone = predictive_curves(run.assign({"capture": one_document}), points=2, draws=2)
    assert np.isfinite(alone["precision_pooled_mae"]).all()
    assert np.isnan(alone["precision_pooled_mae_se"]).all()
    assert np.isnan(alone["precision_within"]).all()
    assert not alone["precision_settled"].any()


def test_heads_without_a_fit_do_not_count(run):
    changed = run.copy(deep=True)
    changed["similarity"]["beta"][0, 1, 1] = np.nan
    changed["weights"]["log_weight_model"][0, 0] = np.nan
    result = predictive_curves(changed, grams=("exponential",), points=1, draws=2)
    assert int(result["recall_cells"]) == LAYERS * HEADS - 3
    assert np.isnan(result["recall_mae"][:, 1, 2:]).all()
    assert np.isfinite(result["recall_mae"][:, 1, :2]).all()


def test_sizes_go_from_2_to_a_quarter_of_the_tokens(run):
    capture = run["capture"].to_dataset()
    assert predictive_grid(capture, None).tolist() == [2, 3, 4, 6, 8, 10]
    assert predictive_grid(capture, 3).tolist() == [2, 4, 10]
    assert predictive_grid(capture.sel(n=[1, 20, 40]), None).tolist() == [20]
    with pytest.raises(InputError, match="holds N = 1, 40, expected some 1 < N < 40"):
        predictive_grid(capture.sel(n=[1, 40]), None)


def test_mean_of_other_heads_excludes_the_head():
    measured = np.array([[[[0.1], [0.3], [0.8]]]])
    known = np.array([[[True], [True], [False]]])
    assert_allclose(mean_of_other_heads(measured, known)[0, 0, :, 0], [0.3, 0.1, 0.2])


@pytest.mark.slow
def test_curves_are_predicted_with_the_option_and_dropped_without(finished, tmp_path):
    store, nothing = tmp_path / "run.zarr", Said(0, "", "")
    shutil.copytree(finished.store, store)
    confronting = ("confront", store, "--edition", "sharp", "--quiet")
    assert geostat(*confronting, "--predict") == nothing
    stored = Store.open(store).read("predictive")
    sources = ["exponential", "offset", "all but weights", "measured", "heads", "floor"]
    assert stored["source"].values.tolist() == sources
    assert int(stored["recall_cells"]) > 0
    for variable in stored.data_vars.values():
        assert {"long_name", "units", "symbol", "equation"} <= set(variable.attrs)
    assert geostat("tables", store, "--quiet").code == 0
    table = tmp_path / "tables" / "predictive.md"
    assert "only weights fitted" in table.read_text(encoding="utf-8")
    assert geostat(*confronting) == nothing
    assert "predictive" not in Store.open(store).results  # it would belong to another confrontation
    confronted = confront(finished.tree, finished.tree, editions=("sharp",), points=2, predict=True)
    slope = confronted["predictive"]["recall_slope"]
    assert_allclose(slope, stored["recall_slope"], equal_nan=True)
