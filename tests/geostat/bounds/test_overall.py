"""The run in a few curves: heads averaged within a document, documents as the sampling unit,
coverage counted cell by cell.
"""

import numpy as np
import pytest
import xarray as xr
from support.spine import Finished

from geostat.bounds.overall import mean_and_error, overall
from geostat.datasets.separability import WITH_F

POSITIONS = 10
WORDS = {"units": "1", "symbol": "P", "equation": "(2)"}


def made_by_hand(documents: int = 3, *, null: bool = False) -> xr.DataTree:
    """Two layers of two heads; the second layer sees 4 tokens of 10. Bounds are 0.2 and 0.8 but
    for what a test changes.
    """
    n, tokens = np.array([1, 2, 5, 10]), np.array([POSITIONS, 4])
    visible = n <= tokens[:, None]
    chance = np.random.default_rng(0)
    values = np.where(visible[:, None], chance.uniform(0.3, 0.7, (documents, 2, 2, 4)), np.nan)
    dims = ("document", "layer", "head", "n")
    coords = {"n": n, "tokens": ("layer", tokens), "sink_visible": ("layer", [True, False])}
    capture = xr.Dataset(
        {name: (dims, values.copy(), WORDS) for name in ("precision", "recall")}, coords=coords
    )
    capture = capture.assign_coords(position=np.arange(POSITIONS))
    own = ("edition", "gram", "layer", "head", "n_envelope")
    shape = (1, 2, 2, 2, 4)
    envelope = xr.Dataset(
        coords={"edition": ["sharp"], "gram": ["exponential", "offset"], "n_envelope": n}
    )
    mean = values.mean(axis=0)
    for statistic in WITH_F:
        envelope[statistic] = (own[2:], mean, WORDS)
        envelope[f"{statistic}_lower"] = (
            own,
            np.broadcast_to(np.where(visible[:, None], 0.2, np.nan), shape).copy(),
        )
        envelope[f"{statistic}_upper"] = (
            own,
            np.broadcast_to(np.where(visible[:, None], 0.8, np.nan), shape).copy(),
        )
        envelope[f"{statistic}_excess"] = (
            own,
            np.broadcast_to(np.where(visible[:, None], 0.0, np.nan), shape).copy(),
        )
        envelope[f"{statistic}_outside"] = (own, np.zeros(shape, dtype=bool))
    groups = {"/capture": capture, "/envelope": envelope}
    if null:
        drawn = xr.Dataset(
            {
                name: (
                    ("document", "layer", "head", "null", "n"),
                    values[:, :, :, None] / [[1], [2]],
                )
                for name in ("precision", "recall")
            }
        )
        groups["/null"] = drawn.assign_coords(n=n, null=["random_selection", "random_directions"])
    return xr.DataTree.from_dict(groups)


def test_documents_and_not_heads_are_the_sample():
    values = xr.DataArray([[0.0, 1.0], [2.0, 5.0], [4.0, 4.0]], dims=("document", "head"))
    mean, error = mean_and_error(values, ["head"])
    # Document means 0.5, 3.5, 4: mean 8/3, and the spread of these three over the root of three.
    assert float(mean) == pytest.approx(8 / 3)
    assert float(error) == pytest.approx(np.std([0.5, 3.5, 4.0], ddof=1) / np.sqrt(3))
    assert np.isnan(mean_and_error(values[:1], ["head"])[1])


def test_curves_of_the_real_run_are_means_over_heads_and_documents(finished: Finished):
    tree = finished.tree
    found = overall(tree)
    for name in ("precision", "recall"):
        values = tree["queries"][name].values.astype(float)
        each = values.mean(axis=(1, 2))
        np.testing.assert_allclose(found[f"{name}_mean"], each.mean(axis=0))
        np.testing.assert_allclose(
            found[f"{name}_se"], each.std(axis=0, ddof=1) / np.sqrt(3), atol=1e-15
        )
        null = tree["null"][name].transpose("null", "n", ...).values.astype(float)
        np.testing.assert_allclose(found[f"{name}_null"], null.mean(axis=(2, 3, 4)))
    np.testing.assert_allclose(found["floor"], tree["capture"]["n"].values / 40)
    for name, variable in found.data_vars.items():
        assert variable.attrs["long_name"], name
        assert "units" in variable.attrs, name


def test_coverage_of_the_real_run_counts_the_cells_between_one_and_all(finished: Finished):
    found, envelope = overall(finished.tree), finished.tree["envelope"].to_dataset()
    n = envelope["n_envelope"].values
    between = (n > 1) & (n < 40)
    for edition in ("printed", "sharp"):
        for gram in ("exponential", "offset", "measured"):
            at, cells = (
                found.sel(edition=edition, gram=gram),
                envelope.sel(edition=edition, gram=gram),
            )
            for statistic in ("precision", "recall"):
                lower, upper = (
                    cells[f"{statistic}_{side}"].values[..., between] for side in ("lower", "upper")
                )
                value = cells[statistic].values[..., between]
                inside = (lower <= value) & (value <= upper)
                assert int(at[f"{statistic}_cells"]) == inside.size == 16 * between.sum()
                assert float(at[f"{statistic}_inside"]) == pytest.approx(inside.mean())
                assert float(at[f"{statistic}_width"]) == pytest.approx(
                    (np.clip(upper, 0, 1) - np.clip(lower, 0, 1)).mean()
                )
                excess = np.maximum(lower - value, value - upper)[~inside]
                assert float(at[f"{statistic}_excess"]) == pytest.approx(
                    excess.mean() if excess.size else 0.0
                )
                mean, low, high = (array.mean(axis=(0, 1)) for array in (value, lower, upper))
                assert (
                    int(at[f"{statistic}_means_inside"]) == ((low <= mean) & (mean <= high)).sum()
                )
                assert int(at[f"{statistic}_means_counted"]) == between.sum()
                assert float(at[f"{statistic}_means_excess"]) == pytest.approx(
                    max(0, (low - mean).max(), (mean - high).max())
                )


def test_ends_of_the_range_and_sizes_beyond_a_window_are_no_cells():
    tree = made_by_hand()
    for statistic in WITH_F:
        excess, outside = (
            tree["envelope"][f"{statistic}_{name}"] for name in ("excess", "outside")
        )
        excess[..., [0, 3]] = 9.0  # N = 1 and N = T hold by definition
        excess[0, 0, 0, 1, 2], outside[0, 0, 0, 1, 2] = 0.3, True
        excess[0, 0, 1, 0, 1] = 0.1
    found = overall(tree).sel(edition="sharp")
    # Layer 0: N = 2 and 5; layer 1: N = 2 alone, of 4 tokens; two heads each.
    assert list(found["precision_cells"].values) == [6, 6]
    np.testing.assert_allclose(found["precision_inside"], [4 / 6, 1])
    np.testing.assert_allclose(found["precision_outside"], [1 / 6, 0])
    np.testing.assert_allclose(found["recall_excess"], [0.2, 0])
    np.testing.assert_allclose(found["f_inner_width"], [0.6, 0.6])
    assert list(found["precision_means_counted"].values) == [2, 2]
    np.testing.assert_allclose(found["floor"], [(0.1 + 0.25) / 2, (0.2 + 0.5) / 2, 0.5, 1.0])


def test_bounds_count_as_wide_as_zero_to_one_at_most():
    tree = made_by_hand()
    tree["envelope"]["precision_lower"][...] = -3.0
    assert overall(tree)["precision_width"].values == pytest.approx(0.8)


def test_the_mean_curve_is_laid_over_the_mean_bounds_of_the_same_heads():
    tree = made_by_hand()
    envelope = tree["envelope"]
    envelope["precision"][:, 0] = 0.5
    envelope["precision"][:, 1] = 0.95  # outside, but these heads have no bounds
    for name in ("lower", "upper", "excess"):
        envelope[f"precision_{name}"][:, :, :, 1] = np.nan
    found = overall(tree).sel(edition="sharp", gram="exponential")
    assert int(found["precision_means_inside"]) == int(found["precision_means_counted"]) == 2
    assert float(found["precision_means_excess"]) == 0
    envelope["precision"][0, 0, 1] = 0.9
    found = overall(tree).sel(edition="sharp", gram="exponential")
    assert (
        int(found["precision_means_inside"]) == 2
    )  # (0.9 + 0.5)/2 with the head of the other layer
    envelope["precision"][:, 0, 1] = 0.9
    found = overall(tree).sel(edition="sharp", gram="exponential")
    assert int(found["precision_means_inside"]) == 1
    assert float(found["precision_means_excess"]) == pytest.approx(0.1)


def test_without_any_bound_shares_are_missing_and_nothing_warns():
    tree = made_by_hand(documents=1)
    for statistic in WITH_F:
        for name in ("lower", "upper", "excess"):
            tree["envelope"][f"{statistic}_{name}"][...] = np.nan
    found = overall(tree)
    for name in ("inside", "outside", "width"):
        assert found[f"recall_{name}"].isnull().all()
    assert (found["recall_cells"] == 0).all()
    assert (found["recall_means_counted"] == 0).all()
    assert found["precision_se"].isnull().all()


def test_null_baselines_are_there_only_when_measured():
    assert "precision_null" not in overall(made_by_hand())
    found = overall(made_by_hand(null=True))
    np.testing.assert_allclose(
        found["recall_null"].sel(null="random_directions"), found["recall_mean"] / 2
    )


def test_a_printed_bound_beyond_its_pole_counts_nowhere():
    tree = made_by_hand()
    envelope = tree["envelope"].to_dataset().assign_coords(edition=["printed"])
    envelope["f_inner_lower"][...] = 2.3  # 2x/(1+x) of x = -7.7: above 1, and above the upper bound
    envelope["f_inner_excess"][...] = 1.5
    envelope["f_inner_outside"][...] = True
    envelope["recall_lower"][...] = -7.7
    found = overall(
        xr.DataTree.from_dict({"/capture": tree["capture"].to_dataset(), "/envelope": envelope})
    )
    for name in ("inside", "outside", "excess", "width", "lower", "means_excess"):
        assert found[f"f_inner_{name}"].isnull().all(), name
    assert (found["f_inner_cells"] == 0).all()
    assert (found["recall_cells"] == 6).all()
    # One head with a bound of Recall that can be read, but an average over documents of which one
    # lay below the pole; and one that is sound.
    envelope["recall_lower"][0, 0, 0] = 0.1
    envelope["f_inner_lower"][0, 0, 0, 1] = 0.2
    envelope["f_inner_excess"][0, 0, 0, 1] = 0.0
    found = overall(
        xr.DataTree.from_dict({"/capture": tree["capture"].to_dataset(), "/envelope": envelope})
    ).sel(edition="printed")
    assert list(found["f_inner_cells"].values) == [2, 0]
    np.testing.assert_allclose(found["f_inner_inside"], [1, np.nan])
    np.testing.assert_allclose(found["f_inner_width"], [0.6, np.nan])


def test_a_sharp_bound_is_read_whatever_its_value():
    tree = made_by_hand()
    tree["envelope"]["recall_lower"][...] = -0.5
    assert (overall(tree)["f_inner_cells"] == 6).all()


def test_drawn_heads_are_compared_with_measured_ones_value_head_by_value_head(finished: Finished):
    """The gap of two shares of the same cells; measured curves that are themselves drawn have none
    beyond its error.
    """
    tree, envelope = finished.tree, finished.tree["envelope"].to_dataset()
    found = overall(tree)
    np.testing.assert_allclose(
        found["recall_drawn_gap"], found["recall_drawn_inside"] - found["recall_inside"], atol=1e-12
    )
    assert (found["recall_drawn_gap_se"].sel(gram="exponential") > 0).all()
    names = [f"{name}_excess" for name in ("precision", "recall")]
    same = envelope.assign({name: envelope[name.replace("_", "_drawn_")] for name in names})
    drawn = overall(tree.assign({"envelope": xr.DataTree(same)})).sel(gram="exponential")
    for name in ("precision", "recall"):
        np.testing.assert_array_equal(drawn[f"{name}_drawn_gap"], 0)
        np.testing.assert_allclose(drawn[f"{name}_inside_se"], drawn[f"{name}_drawn_inside_se"])
