"""What is derived for the page: curves, coverage, signs and counts are those of the run they
come from.
"""

import numpy as np
import pytest
import xarray as xr
from scipy.stats import t as student
from support.experiments import full
from support.reports_tree import POSITIONS, run_tree

from geostat import paper
from geostat.display.assumptions import weight_means
from geostat.display.experiments import (
    LEAST_CELLS,
    form_counts,
    predictive_quartiles,
    separable_side,
)
from geostat.display.tree import with_display

TREE = run_tree()


def test_coverage_counts_cells_between_one_and_t():
    envelope = TREE["envelope"].to_dataset().sel(edition="printed", gram="exponential")
    printed = envelope["precision_inside_by_size"]
    expected = np.where(
        (printed["n_envelope"] > 1) & (printed["n_envelope"] < POSITIONS),
        np.arange(printed.size) < 3,
        np.nan,
    )
    np.testing.assert_array_equal(printed.values, expected)
    inner = int(np.isfinite(expected).sum())
    np.testing.assert_allclose(
        envelope["precision_inside_by_head"].values, np.nansum(expected) / inner
    )


def test_weights_are_averaged_where_they_are_visible():
    tree = run_tree(window=40)["40"]
    capture = tree["capture"].to_dataset()
    weight = capture["attention_weight"].values.astype(np.float64)
    arithmetic, geometric = weight_means(capture, tree["weights"].to_dataset())
    np.testing.assert_allclose(arithmetic[60], weight[..., 60].mean(), rtol=1e-5)
    assert np.isnan(arithmetic[5])
    seen = weight[:, :, :, 60][weight[:, :, :, 60] > 0]
    np.testing.assert_allclose(geometric[60], np.exp(np.log(seen).mean()), rtol=1e-4)


def test_bands_are_of_student_s_t():
    summary = TREE["summary"].to_dataset()
    half = student.ppf(0.975, 2) * summary["recall_se"]
    np.testing.assert_allclose(summary["recall_band_lower"], summary["recall_mean"] - half)
    np.testing.assert_allclose(summary["recall_band_upper"], summary["recall_mean"] + half)
    assert np.isnan(run_tree(documents=1)["summary"]["recall_band_lower"]).all()


def test_the_drawn_fit_is_the_fitted_form_of_the_median_head():
    display, similarity = TREE["display"].to_dataset(), TREE["similarity"].to_dataset()
    layer, kv_head = display.attrs["similarity_head"]
    at = similarity.sel(gram="offset").isel(layer=layer, kv_head=kv_head)
    lag, c = TREE["capture"]["lag"].values, float(at["offset"])
    np.testing.assert_allclose(
        display["cosine_fitted"].sel(form="offset"), c + (1 - c) * np.exp(-float(at["beta"]) * lag)
    )
    misfit = similarity["mae_by_lag"].sel(gram="exponential").values
    assert (
        abs(misfit[layer, kv_head] - np.median(misfit)) == np.abs(misfit - np.median(misfit)).min()
    )


@pytest.mark.parametrize(("beta", "level"), [(0.0, 1.0), (np.nan, np.nan)])
def test_a_fit_without_decay_stays_at_one_and_one_that_failed_is_not_drawn(
    beta: float, level: float
):
    tree = run_tree()
    similarity = tree["similarity"].to_dataset()
    similarity["beta"] = similarity["beta"] * 0 + beta
    tree["similarity"] = xr.DataTree(similarity)
    np.testing.assert_array_equal(
        with_display(tree)["display"]["cosine_fitted"].sel(form="exponential"), level
    )


def test_signs_are_those_of_the_intervals():
    sink = full()["sink"].to_dataset()
    for name in ("correlation", "unattenuated"):
        sign, low, high = (sink[f"{name}_{part}"].values for part in ("sign", "lower", "upper"))
        np.testing.assert_array_equal(sign == 1, low > 0)
        np.testing.assert_array_equal(sign == -1, high < 0)
        np.testing.assert_array_equal(np.isnan(sign), np.isnan(low))


def test_regimes_have_the_depth_and_the_contributions_of_their_heads():
    heads = full()["heads"].to_dataset()
    for criterion in heads["criterion"].values:
        for code, name in enumerate(heads["regime"].values):
            own = heads["label"].sel(criterion=criterion).values == code
            expected = np.median(heads["contribution_last"].values[own]) if own.any() else np.nan
            drawn = heads["contribution"].sel(criterion=criterion, regime=name, part="last")
            assert float(drawn) == pytest.approx(expected, nan_ok=True)
            if criterion == "both":
                expected = np.nonzero(own)[0].mean() if own.any() else np.nan
                assert float(heads["mean_depth"].sel(regime=name)) == pytest.approx(
                    expected, nan_ok=True
                )
    assert (
        len({float(value) for value in heads["contribution"].values.ravel() if np.isfinite(value)})
        > 3
    )
    label = heads["label"].sel(criterion="both").values
    assert int(heads["labelled"]) == int((label > 0).sum())


def test_the_lowest_bic_is_counted_where_it_is_known():
    fits = xr.Dataset(
        {"bic": (("gram", "layer", "head"), [[[3.0, 1.0, np.nan]], [[2.0, 5.0, np.nan]]])}
    )
    counts = form_counts(fits, "", "gram")
    assert counts["lowest_bic"].values.tolist() == [1, 1]
    assert not form_counts(fits * np.nan, "", "gram")
    assert not form_counts(fits, "none_", "gram")


def test_a_bin_of_few_cells_has_no_quartiles():
    predicted = np.concatenate([np.full(LEAST_CELLS, 0.05), np.full(LEAST_CELLS - 1, 0.55)])
    curve, measured = (
        ("layer", "head", "n_predicted"),
        np.arange(predicted.size, dtype=float)[None, None] / 100,
    )
    data = {name: (curve, measured) for name in ("precision", "recall")}
    data |= {
        f"{name}_predicted": (("source", *curve), predicted[None, None, None])
        for name in ("precision", "recall")
    }
    found = predictive_quartiles(xr.Dataset(data, coords={"source": ["offset"]})).isel(source=0)
    assert found["recall_predicted_median"].values[0] == 0.05
    np.testing.assert_allclose(
        found["recall_measured_quartile"].values[:, 0],
        np.quantile(measured[0, 0, :LEAST_CELLS], (0.25, 0.5, 0.75)),
    )
    assert np.isnan(found["recall_predicted_median"].values[1:]).all()


def test_what_is_derived_is_derived_anew():
    tree = run_tree()
    tree["display"]["norm"].values[...] = 0
    for name, node in with_display(tree).children.items():
        xr.testing.assert_identical(node.to_dataset(), TREE[name].to_dataset())


def test_a_run_that_lacks_a_group_is_left_to_the_renderer():
    tree = run_tree()
    del tree["weights"]
    assert with_display(tree) is tree


def test_the_side_of_a_null_is_told_where_it_is_tested():
    p = xr.DataArray([[0.01, 0.01, 0.2, np.nan]], dims=("null", "n"))
    gain = xr.DataArray([[0.1, -0.1, 0.1, 0.1]], dims=("null", "n"))
    data = {
        f"{name}_{part}": values
        for name in ("precision", "recall")
        for part, values in (("p_holm", p), ("gain", gain))
    }
    np.testing.assert_array_equal(
        separable_side(xr.Dataset(data))["recall_side"].values, [[1, -1, 0, np.nan]]
    )


def test_the_paper_s_figures_travel_with_the_run():
    # arXiv 2602.01893, Figures 2 and 3, section 4.1
    attrs = TREE["display"].attrs
    assert (attrs["paper_cv_range"], attrs["paper_mae"], attrs["paper_correlation_sizes"]) == (
        (0.02, 0.03),
        0.09,
        (3, 6),
    )
    assert (
        attrs["paper_correlations"]
        == "about 0.6 near N = 3 for Gemma and Mistral, about 0.25 near N = 6 for LLaMA-2"
    )
    assert paper.WORKING_SIZE == 4
