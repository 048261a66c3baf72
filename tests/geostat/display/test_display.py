"""Display groups: curves, coverage, signs and counts agree with the run."""

import numpy as np
import pytest
import xarray as xr
from scipy.stats import t as student
from support.experiments import full
from support.reports_tree import POSITIONS, run_tree

from geostat.display.head_curves import weight_means
from geostat.display.results import (
    LEAST_CELLS,
    form_summary,
    predictive_quartiles,
    separable_side,
)
from geostat.display.tree import with_display

TREE = run_tree()


def test_coverage_counts_cells_between_one_and_t():
    envelope = TREE["envelope"].to_dataset().sel(edition="printed", gram="exponential")
    by_size, n = envelope["precision_inside_by_size"], envelope["n_envelope"]
    expected = np.where((n > 1) & (n < POSITIONS), np.arange(n.size) < 3, np.nan)
    np.testing.assert_array_equal(by_size.values, expected)
    np.testing.assert_allclose(
        envelope["precision_inside_by_head"].values,
        np.nansum(expected) / np.isfinite(expected).sum(),
    )


def test_weights_are_averaged_over_visible_positions():
    tree = run_tree(window=40)["40"]
    capture = tree["capture"].to_dataset()
    weight = capture["attention_weight"].values[..., 60].astype(np.float64)
    arithmetic, geometric = weight_means(capture, tree["weights"].to_dataset())
    np.testing.assert_allclose(arithmetic[60], weight.mean(), rtol=1e-5)
    np.testing.assert_allclose(geometric[60], np.exp(np.log(weight[weight > 0]).mean()), rtol=1e-4)
    assert np.isnan(arithmetic[5])


def test_bands_use_student_t():
    summary = TREE["summary"].to_dataset()
    half = student.ppf(0.975, 2) * summary["recall_se"]
    np.testing.assert_allclose(summary["recall_band_lower"], summary["recall_mean"] - half)
    np.testing.assert_allclose(summary["recall_band_upper"], summary["recall_mean"] + half)
    assert np.isnan(run_tree(documents=1)["summary"]["recall_band_lower"]).all()


def test_the_drawn_fit_is_the_fitted_form_of_the_median_head():
    display, similarity = TREE["display"].to_dataset(), TREE["similarity"].to_dataset()
    layer, kv_head = display.attrs["similarity_head"]
    selected = similarity.sel(gram="offset").isel(layer=layer, kv_head=kv_head)
    lag, c = TREE["capture"]["lag"].values, float(selected["offset"])
    expected = c + (1 - c) * np.exp(-float(selected["beta"]) * lag)
    np.testing.assert_allclose(display["cosine_fitted"].sel(form="offset"), expected)
    misfit = similarity["mae_by_lag"].sel(gram="exponential").values
    apart = np.abs(misfit - np.median(misfit))
    assert apart[layer, kv_head] == apart.min()


@pytest.mark.parametrize(("beta", "level"), [(0.0, 1.0), (np.nan, np.nan)])
def test_a_fit_without_decay_is_one_and_a_failed_fit_is_not_drawn(beta: float, level: float):
    tree = run_tree()
    similarity = tree["similarity"].to_dataset()
    tree["similarity"] = xr.DataTree(similarity.assign(beta=similarity["beta"] * 0 + beta))
    fitted = with_display(tree)["display"]["cosine_fitted"].sel(form="exponential")
    np.testing.assert_array_equal(fitted, level)


@pytest.mark.parametrize("name", ["correlation", "unattenuated"])
def test_signs_are_those_of_the_intervals(name: str):
    sink = full()["sink"].to_dataset()
    sign, low, high = (sink[f"{name}_{part}"].values for part in ("sign", "lower", "upper"))
    np.testing.assert_array_equal(sign == 1, low > 0)
    np.testing.assert_array_equal(sign == -1, high < 0)
    np.testing.assert_array_equal(np.isnan(sign), np.isnan(low))


def test_regimes_have_the_depth_and_the_contributions_of_their_heads():
    heads = full()["heads"].to_dataset()
    last = heads["contribution_last"].values
    for criterion in heads["criterion"].values:
        for code, name in enumerate(heads["regime"].values):
            members = heads["label"].sel(criterion=criterion).values == code
            expected = np.median(last[members]) if members.any() else np.nan
            drawn = heads["contribution"].sel(criterion=criterion, regime=name, part="last")
            assert float(drawn) == pytest.approx(expected, nan_ok=True)
            if criterion == "both":
                depth = np.nonzero(members)[0].mean() if members.any() else np.nan
                drawn = float(heads["mean_depth"].sel(regime=name))
                assert drawn == pytest.approx(depth, nan_ok=True)
    drawn = heads["contribution"].values
    assert len(set(drawn[np.isfinite(drawn)])) > 3
    assert int(heads["labelled"]) == int((heads["label"].sel(criterion="both") > 0).sum())


def test_forms_without_a_bic_have_no_summary():
    fits = xr.Dataset({"bic": (("gram", "layer", "head"), [[[3.0, 1.0]], [[2.0, 5.0]]])})
    assert not form_summary(fits * np.nan, "", "gram", {})
    assert not form_summary(fits, "none_", "gram", {})


def test_a_bin_of_few_cells_has_no_quartiles():
    predicted = np.concatenate([np.full(LEAST_CELLS, 0.05), np.full(LEAST_CELLS - 1, 0.55)])
    measured, curve = np.arange(predicted.size) / 100, ("layer", "head", "n_predicted")
    data = {}
    for name in ("precision", "recall"):
        data[name] = curve, measured[None, None]
        data[f"{name}_predicted"] = ("source", *curve), predicted[None, None, None]
    result = predictive_quartiles(xr.Dataset(data, coords={"source": ["offset"]})).isel(source=0)
    assert result["recall_predicted_median"].values[0] == 0.05
    np.testing.assert_allclose(
        result["recall_measured_quartile"].values[:, 0],
        np.quantile(measured[:LEAST_CELLS], (0.25, 0.5, 0.75)),
    )
    assert np.isnan(result["recall_predicted_median"].values[1:]).all()


def test_display_groups_are_recomputed():
    tree = run_tree()
    tree["display"]["norm"].values[...] = 0
    for name, node in with_display(tree).children.items():
        xr.testing.assert_identical(node.to_dataset(), TREE[name].to_dataset())


def test_a_run_without_a_needed_group_is_returned_unchanged():
    tree = run_tree()
    del tree["weights"]
    assert with_display(tree) is tree


def test_the_side_of_a_null_is_nan_where_untested():
    parts = {"p_holm": [0.01, 0.01, 0.2, np.nan], "gain": [0.1, -0.1, 0.1, 0.1]}
    separable = xr.Dataset(
        {
            f"{name}_{part}": (("null", "n"), [values])
            for name in ("precision", "recall")
            for part, values in parts.items()
        }
    )
    side = separable_side(separable)["recall_side"].values
    np.testing.assert_array_equal(side, [[1, -1, 0, np.nan]])
