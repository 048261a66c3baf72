import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from support.spine import LENGTH, Finished
from support.synthetic import capture_of

from empirical.measure.selection import DENSE as SELECTION_DENSE
from geostat.bounds.overall import overall
from geostat.datasets.separability import DENSE, RANGES, WITH_F

POSITIONS = 10


def constructed_run(documents: int = 3) -> xr.DataTree:
    """Return a run of two layers of two heads; the second layer sees 4 of 10 tokens.

    Bounds are 0.2 and 0.8 unless a test changes them.
    """
    n = np.array([1, 2, 5, 10])
    visible = (n <= np.array([[POSITIONS], [4]]))[:, None]
    chance = np.random.default_rng(0)
    values = np.where(visible, chance.uniform(0.3, 0.7, (documents, 2, 2, 4)), np.nan)
    curves, curve = {"precision": values, "recall": values.copy()}, ("layer", "head", "n_envelope")
    capture = capture_of(curves, {"n": n, "position": np.arange(POSITIONS)}, [POSITIONS, 4])
    grams = ["exponential", "offset"]
    coords = {"edition": ["sharp"], "gram": grams, "n_envelope": n}
    envelope = xr.Dataset(coords=coords | {"kv_head_of_head": ("head", [0, 1])})
    for statistic in WITH_F:
        envelope[statistic] = (curve, values.mean(axis=0))
        for part, value in (("lower", 0.2), ("upper", 0.8), ("excess", 0.0), ("outside", False)):
            cells = value if part == "outside" else np.where(visible, value, np.nan)
            cells = np.broadcast_to(cells, (1, 2, 2, 2, 4)).copy()
            envelope[f"{statistic}_{part}"] = (("edition", "gram", *curve), cells)
    return xr.DataTree.from_dict({"capture": capture, "envelope": envelope})


@pytest.fixture(scope="module")
def result(finished: Finished) -> xr.Dataset:
    return overall(finished.tree)


def test_curves_of_the_real_run_are_means_over_heads_and_documents(finished: Finished, result):
    tree = finished.tree
    for name in ("precision", "recall"):
        by_document = tree["queries"][name].values.astype(float).mean(axis=(1, 2))
        assert_allclose(result[f"{name}_mean"], by_document.mean(axis=0))
        error = by_document.std(axis=0, ddof=1) / np.sqrt(3)
        assert_allclose(result[f"{name}_se"], error, atol=1e-15)
        null = tree["null"][name].transpose("null", "n", ...).values.astype(float)
        assert_allclose(result[f"{name}_null"], null.mean(axis=(2, 3, 4)))
    assert_allclose(result["floor"], tree["capture"]["n"].values / LENGTH)
    for name, variable in result.data_vars.items():
        assert variable.attrs["long_name"], name
        assert "units" in variable.attrs, name


@pytest.mark.parametrize("edition", ["printed", "sharp"])
@pytest.mark.parametrize("gram", ["exponential", "offset", "measured"])
@pytest.mark.parametrize("statistic", ["precision", "recall"])
def test_coverage_of_the_real_run_counts_cells_between_one_and_t(
    finished: Finished, result, edition, gram, statistic
):
    envelope = finished.tree["envelope"].to_dataset().sel(edition=edition, gram=gram)
    n = envelope["n_envelope"].values
    cells = envelope.isel(n_envelope=(n > 1) & (n < LENGTH))
    lower, upper, value = (cells[f"{statistic}{part}"].values for part in ("_lower", "_upper", ""))
    inside = (lower <= value) & (value <= upper)
    excess = np.maximum(lower - value, value - upper)[~inside]
    mean, low, high = (array.mean(axis=(0, 1)) for array in (value, lower, upper))
    expected = {
        "cells": 16 * mean.size,
        "inside": inside.mean(),
        "width": (np.clip(upper, 0, 1) - np.clip(lower, 0, 1)).mean(),
        "excess": excess.mean() if excess.size else 0.0,
        "means_inside": ((low <= mean) & (mean <= high)).sum(),
        "means_counted": mean.size,
        "means_excess": max(0, (low - mean).max(), (mean - high).max()),
    }
    selected = result.sel(edition=edition, gram=gram)
    for name, number in expected.items():
        assert float(selected[f"{statistic}_{name}"]) == pytest.approx(number), name


def test_n_of_one_and_sizes_from_t_are_not_cells():
    tree = constructed_run()
    for statistic in WITH_F:
        excess = tree["envelope"][f"{statistic}_excess"]
        excess[..., [0, 3]] = 9.0  # bounds at N = 1 and N = T hold by definition
        excess[0, 0, 0, 1, 2] = 0.3
        excess[0, 0, 1, 0, 1] = 0.1
        tree["envelope"][f"{statistic}_outside"][0, 0, 0, 1, 2] = True
    result = overall(tree).sel(edition="sharp")
    # Layer 0 has N = 2 and 5, layer 1 (4 tokens) N = 2; two heads each.
    expected = {
        "precision_cells": [6, 6],
        "precision_inside": [4 / 6, 1],
        "precision_outside": [1 / 6, 0],
        "recall_excess": [0.2, 0],
        "f_inner_width": [0.6, 0.6],
        "precision_means_counted": [2, 2],
        "floor": [(0.1 + 0.25) / 2, (0.2 + 0.5) / 2, 0.5, 1.0],
    }
    for name, values in expected.items():
        assert_allclose(result[name], values, err_msg=name)
    assert "precision_null" not in result  # the run has no null baselines


def test_mean_curve_and_mean_bounds_use_the_same_heads():
    tree = constructed_run()
    envelope = tree["envelope"]
    envelope["precision"][:, 0] = 0.5
    envelope["precision"][:, 1] = 0.95  # outside, but these heads have no bounds
    for name in ("lower", "upper", "excess"):
        envelope[f"precision_{name}"][:, :, :, 1] = np.nan

    def means() -> tuple[int, float]:
        result = overall(tree).sel(edition="sharp", gram="exponential")
        assert int(result["precision_means_counted"]) == 2
        return int(result["precision_means_inside"]), float(result["precision_means_excess"])

    assert means() == (2, 0)
    # The mean with the other layer's head is (0.9 + 0.5)/2.
    envelope["precision"][0, 0, 1] = 0.9
    assert means() == (2, 0)
    envelope["precision"][:, 0, 1] = 0.9
    assert means() == (1, pytest.approx(0.1))


def test_without_any_bound_shares_are_missing_and_nothing_warns():
    tree = constructed_run(documents=1)
    for statistic in WITH_F:
        for name in ("lower", "upper", "excess"):
            tree["envelope"][f"{statistic}_{name}"][...] = np.nan
    result = overall(tree)
    for name in ("recall_inside", "recall_outside", "recall_width", "precision_se"):
        assert result[name].isnull().all(), name
    for name in ("recall_cells", "recall_means_counted"):
        assert (result[name] == 0).all(), name


def test_a_printed_bound_beyond_its_pole_is_ignored():
    tree = constructed_run()
    envelope = tree["envelope"].to_dataset().assign_coords(edition=["printed"])
    envelope["f_inner_lower"][...] = 2.3  # 2x/(1+x) of x = -7.7: above 1, and above the upper bound
    envelope["f_inner_excess"][...] = 1.5
    envelope["f_inner_outside"][...] = True
    envelope["recall_lower"][...] = -7.7
    result = overall(tree.assign({"envelope": xr.DataTree(envelope)}))
    for name in ("inside", "outside", "excess", "width", "lower", "means_excess"):
        assert result[f"f_inner_{name}"].isnull().all(), name
    assert (result["f_inner_cells"] == 0).all()
    assert (result["recall_cells"] == 6).all()
    sharp = envelope.assign_coords(edition=["sharp"])  # never masked
    assert (overall(tree.assign({"envelope": xr.DataTree(sharp)}))["f_inner_cells"] == 6).all()
    # One head has a positive bound of Recall that averages a document below the pole; another is
    # sound.
    envelope["recall_lower"][0, 0, 0] = 0.1
    envelope["f_inner_lower"][0, 0, 0, 1] = 0.2
    envelope["f_inner_excess"][0, 0, 0, 1] = 0.0
    result = overall(tree.assign({"envelope": xr.DataTree(envelope)})).sel(edition="printed")
    for name, values in {"cells": [2, 0], "inside": [1, np.nan], "width": [0.6, np.nan]}.items():
        assert_allclose(result[f"f_inner_{name}"], values)


def test_the_gap_of_drawn_and_measured_heads_is_clustered_by_kv_head(finished: Finished, result):
    difference = result["recall_drawn_inside"] - result["recall_inside"]
    assert_allclose(result["recall_drawn_gap"], difference, atol=1e-12)
    assert (result["recall_drawn_gap_se"].sel(gram="exponential") > 0).all()
    envelope = finished.tree["envelope"].to_dataset()
    drawn = {f"{name}_excess": envelope[f"{name}_drawn_excess"] for name in ("precision", "recall")}
    as_drawn = finished.tree.assign({"envelope": xr.DataTree(envelope.assign(drawn))})
    of_drawn = overall(as_drawn).sel(gram="exponential")
    for name in ("precision", "recall"):
        assert_array_equal(of_drawn[f"{name}_drawn_gap"], 0)
        gaps = of_drawn[f"{name}_by_n"].sel(measure="score_gap")
        assert_array_equal(gaps.where(gaps.notnull(), 0), 0)
        assert_allclose(of_drawn[f"{name}_inside_se"], of_drawn[f"{name}_drawn_inside_se"])


def test_curves_and_ranges_are_means_over_their_sizes(finished: Finished, result):
    envelope = finished.tree["envelope"].to_dataset()
    n = envelope["n_envelope"].values
    inner = (n > 1) & (n < LENGTH)
    for name in ("precision", "recall"):
        width = envelope[f"{name}_upper"].clip(0, 1) - envelope[f"{name}_lower"].clip(0, 1)
        cells = {
            "inside": (envelope[f"{name}_excess"] <= 0).astype(float),
            "width": width,
            "score": width + 40 * envelope[f"{name}_excess"],
            "drawn_score": width + 40 * envelope[f"{name}_drawn_excess"],
            "score_gap": 40 * (envelope[f"{name}_excess"] - envelope[f"{name}_drawn_excess"]),
        }
        for measure, values in cells.items():
            means = values.mean(("layer", "head")).sel(gram="exponential")
            by_n, by_range = (
                result[f"{name}_by_{along}"].sel(measure=measure, gram="exponential")
                for along in ("n", "range")
            )
            assert_allclose(by_n[..., inner], means[..., inner])
            assert by_n[..., ~inner].isnull().all()
            for label, (first, last) in RANGES.items():
                sizes = inner & (n >= first) & (n <= last)
                of_range = by_range.sel(size_range=label)
                expected = means[..., sizes].mean("n_envelope") if sizes.any() else np.nan
                assert_allclose(of_range, np.broadcast_to(expected, of_range.shape))


def test_every_size_lies_in_one_range():
    assert DENSE == SELECTION_DENSE
    for n in range(2, 2000):
        assert sum(first <= n <= last for first, last in RANGES.values()) == 1


def test_a_narrow_bound_that_is_nearly_right_has_a_better_score_than_a_wide_one():
    tree = constructed_run()
    for name, (lower, upper, excess) in {
        "precision": (0, 1, 0),
        "recall": (0.5, 0.6, 0.01),
    }.items():
        for part, value in (("lower", lower), ("upper", upper), ("excess", excess)):
            array = tree["envelope"][f"{name}_{part}"]
            array[...] = np.where(array.isnull(), np.nan, value)
    summary = overall(tree).isel(edition=0, gram=0)
    wide, narrow = (
        summary[f"{name}_by_range"].sel(size_range="N ≤ 4") for name in ("precision", "recall")
    )
    assert (float(wide.sel(measure="inside")), float(narrow.sel(measure="inside"))) == (1, 0)
    assert float(wide.sel(measure="score")) == 1
    assert float(narrow.sel(measure="score")) == pytest.approx(0.1 + 40 * 0.01)
    assert "drawn_gap" not in summary["measure"]  # no heads were drawn
