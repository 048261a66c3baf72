"""Bounds against measurement: each bound at its own document's weights, projected Grams, hidden
sinks, and what lies outside.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from support.families import WINDOW
from support.runs import loaded, random_windows
from support.spine import run_tree

import theory
from empirical.measure.convention import Convention
from empirical.measure.selection import separability
from empirical.tap.tap import tap
from geostat.bounds.by_document import envelope_grid, measured_curves
from geostat.bounds.envelope import envelope_dataset
from geostat.bounds.gaps import gap_error
from geostat.datasets.separability import ALL_BOUNDS, WITH_F
from geostat.errors import InputError
from theory.head.gram import LagGram, feasible_edge
from theory.head.similarity_decay import offset_exponential

LENGTH = 30
TABULATED = 2e-8
"""The vectorised bounds use a law tabulated to 1e-8; a mean over documents adds rounding."""


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> xr.DataTree:
    """Three documents, every position visible."""
    return run_tree(tmp_path_factory.mktemp("full") / "run.zarr", length=LENGTH)


@pytest.fixture(scope="module")
def windowed(tmp_path_factory: pytest.TempPathFactory) -> xr.DataTree:
    """Two documents; layers 0 and 2 see the last 24 positions only."""
    return run_tree(
        tmp_path_factory.mktemp("windowed") / "run.zarr",
        family="gemma2",
        documents=2,
        length=LENGTH,
    )


def planted(tree: xr.DataTree, **changes: dict) -> xr.DataTree:
    """A run with fits made by hand: the same for every kv_head but for `changes` by name,
    {(gram, layer, kv_head): value}.
    """
    capture = tree["capture"].to_dataset()
    layers, kv_heads = capture.sizes["layer"], capture.sizes["kv_head"]
    per_gram = {"beta": 0.3, "offset": 0.0, "feasible": 1.0}
    alone = {"C": 2.0, "lam": 0.5, "rho0": 0.1}
    values = {name: np.full((2, layers, kv_heads), value) for name, value in per_gram.items()}
    values["offset"][1], values["beta"][1] = 0.2, 0.6
    values |= {name: np.full((layers, kv_heads), value) for name, value in alone.items()}
    hidden = ~capture["sink_visible"].values
    values["lam"][hidden] = values["rho0"][hidden] = np.nan
    for name, cells in changes.items():
        for where, value in cells.items():
            values[name][where] = value
    dims = {
        name: ("gram", "layer", "kv_head") if name in per_gram else ("layer", "kv_head")
        for name in values
    }
    fits = xr.Dataset(
        {name: (dims[name], value) for name, value in values.items()},
        coords={"gram": ["exponential", "offset"]},
    )
    groups = {f"/{name}": tree[name].to_dataset() for name in tree.children}
    groups |= {
        "/norms": fits[["C", "lam"]],
        "/similarity": fits[["beta", "offset", "rho0", "feasible"]],
    }
    return xr.DataTree.from_dict(groups)


def exact(
    tree: xr.DataTree,
    layer: int,
    head: int,
    gram: LagGram,
    grid: np.ndarray,
    *,
    edition: str,
    alpha: np.ndarray | None = None,
) -> dict:
    """Mean over documents of the exact bounds of one head with C = 2, λ = 1/2; at one profile
    where `alpha` is given.
    """
    capture = tree["capture"].to_dataset()
    tokens = int(capture["tokens"][layer])
    sink = 0 if bool(capture["sink_visible"][layer]) else None
    rows = (
        capture["attention_weight"].values[:, layer, head, -tokens:].astype(float)
        if alpha is None
        else alpha[None]
    )
    norms = np.full(tokens, 2.0)
    if sink is not None:
        norms[0] = 1.0
    convention = capture.attrs["convention"] if edition == "sharp" else "paper"
    found = [
        theory.envelope(
            row, norms, gram, 16, grid, edition=edition, sink=sink, convention=convention
        )
        for row in rows
    ]
    return {name: np.mean([getattr(one, name) for one in found], axis=0) for name in ALL_BOUNDS}


def cell(
    found: xr.Dataset, edition: str, gram: str, layer: int, head: int
) -> dict[str, np.ndarray]:
    chosen = found.sel(edition=edition, gram=gram).isel(layer=layer, head=head)
    return {name: chosen[name].values for name in ALL_BOUNDS}


@pytest.mark.parametrize("edition", ["printed", "sharp"])
@pytest.mark.parametrize(
    ("gram", "beta", "offset"), [("exponential", 0.3, 0.0), ("offset", 0.6, 0.2)]
)
def test_bounds_are_exact_ones_at_each_documents_own_weights_then_averaged(
    full, edition, gram, beta, offset
):
    found = envelope_dataset(planted(full), points=6)
    grid = found["n_envelope"].values
    lagged = offset_exponential(beta, offset, 0.1, LENGTH)
    for layer, head in ((0, 0), (3, 2)):
        expected = exact(full, layer, head, lagged, grid, edition=edition)
        for name, values in cell(found, edition, gram, layer, head).items():
            np.testing.assert_allclose(
                values, expected[name], atol=TABULATED, rtol=1e-7, err_msg=name
            )


def test_bounds_at_the_mean_weights_are_others(full):
    found = envelope_dataset(planted(full), points=6)
    grid = found["n_envelope"].values
    mean = full["capture"]["attention_weight"].values[:, 0, 1].astype(float).mean(axis=0)
    at_mean = exact(
        full, 0, 1, offset_exponential(0.3, 0.0, 0.1, LENGTH), grid, edition="sharp", alpha=mean
    )
    assert (
        np.abs(
            cell(found, "sharp", "exponential", 0, 1)["precision_lower"]
            - at_mean["precision_lower"]
        ).max()
        > 0.01
    )


def test_a_gram_that_cannot_exist_is_moved_to_its_edge_flagged_and_counted(full):
    found = envelope_dataset(
        planted(full, rho0={(1, 0): 0.9, (2, 1): -0.95}, beta={(0, 1, 0): 0.8}), points=5
    )
    edge = feasible_edge(0.8, LENGTH - 1)
    assert edge < 0.9
    moved = found["projected"].sel(fitted_gram="exponential").values
    assert moved.sum() == 2
    assert moved[1, 0]
    assert moved[2, 1]
    distance = found["projection_distance"].sel(fitted_gram="exponential").values
    assert distance[1, 0] == pytest.approx(0.9 - edge)
    assert (distance[~moved] == 0).all()
    expected = exact(
        full,
        1,
        0,
        LagGram(np.exp(-0.8 * np.arange(LENGTH)), edge),
        found["n_envelope"].values,
        edition="sharp",
    )
    np.testing.assert_allclose(
        cell(found, "sharp", "exponential", 1, 0)["recall_lower"],
        expected["recall_lower"],
        atol=1e-6,
    )


def test_a_lag_part_that_cannot_exist_becomes_the_nearest_correlation_matrix(full):
    found = envelope_dataset(planted(full, offset={(1, 0, 0): -0.4}), points=4)
    assert found["projected"].values.sum() == 1
    assert bool(found["projected"].sel(fitted_gram="offset").values[0, 0])
    assert float(found["projection_distance"].sel(fitted_gram="offset").values[0, 0]) > 1
    bounds = cell(found, "sharp", "offset", 0, 0)
    assert np.isfinite(list(bounds.values())).all()


def test_decay_of_zero_is_one_direction_for_all(full):
    found = envelope_dataset(planted(full, beta={(0, 0, 0): 0.0}, rho0={(0, 0): 0.4}), points=4)
    expected = exact(
        full, 0, 0, LagGram(np.ones(LENGTH), 0.4), found["n_envelope"].values, edition="sharp"
    )
    np.testing.assert_allclose(
        cell(found, "sharp", "exponential", 0, 0)["precision_lower"],
        expected["precision_lower"],
        atol=1e-6,
    )


@pytest.mark.parametrize("name", ["C", "lam"])
def test_a_head_without_an_estimate_has_no_bounds_and_no_flags(full, name):
    found = envelope_dataset(planted(full, **{name: {(2, 1): np.nan}}), points=4)
    heads = found.isel(layer=2, head=[2, 3]).sel(gram=["exponential", "offset"])
    for bound in ALL_BOUNDS:
        assert heads[bound].isnull().all()
    for statistic in WITH_F:
        assert heads[f"{statistic}_excess"].isnull().all()
        assert not heads[f"{statistic}_outside"].any()
    others = (
        found["precision_lower"].sel(gram="exponential", edition="sharp").isel(layer=2, head=[0, 1])
    )
    assert others.notnull().all()
    assert found["precision_lower"].sel(gram="measured").notnull().all()


def test_in_a_sliding_window_only_visible_tokens_count_and_a_hidden_sink_is_none(windowed):
    found = envelope_dataset(planted(windowed), points=None)
    grid = found["n_envelope"].values
    assert (grid > WINDOW).any()
    lagged = offset_exponential(0.3, 0.0, 0.0, WINDOW)
    for edition in ("printed", "sharp"):
        expected = exact(windowed, 0, 3, lagged, grid, edition=edition)
        for name, values in cell(found, edition, "exponential", 0, 3).items():
            np.testing.assert_allclose(values, expected[name], atol=TABULATED, rtol=1e-7)
    beyond = found.isel(layer=[0, 2], n_envelope=grid > WINDOW)
    for name in (*ALL_BOUNDS, *WITH_F):
        assert beyond[name].isnull().all(), name
    assert not beyond["precision_outside"].any()
    assert found["precision_lower"].isel(layer=[1, 3]).notnull().all()


@pytest.mark.parametrize(("family", "layer"), [("llama", 1), ("gemma2", 0)])
@pytest.mark.parametrize("edition", ["printed", "sharp"])
def test_the_measured_envelope_is_theorys_on_the_heads_own_gram(
    full, windowed, family, layer, edition
):
    tree = full if family == "llama" else windowed
    tapped: list[tuple[torch.Tensor, torch.Tensor]] = []
    ids = torch.as_tensor(random_windows(1, LENGTH).token_ids.astype(np.int64))
    tap(loaded(family).model, ids, lambda view: tapped.append((view.alpha[0, 0], view.values[0])))
    tokens = int(tree["capture"]["tokens"][layer])
    alpha, values = (array.double().numpy() for array in tapped[layer])
    own = tree["measured_envelope"].to_dataset().isel(document=0, layer=layer).sel(edition=edition)
    for head in (0, 3):
        states = values[head // 2, -tokens:]
        norms = np.linalg.norm(states, axis=1)
        gram = (states / norms[:, None]) @ (states / norms[:, None]).T
        np.fill_diagonal(gram, 1.0)
        sink = 0 if tokens == LENGTH else None
        grid = own["n_envelope"].values
        expected = theory.envelope(
            alpha[head, -tokens:], norms, gram, 16, grid, edition=edition, sink=sink, feasible=True
        )
        for name in ALL_BOUNDS:
            np.testing.assert_allclose(
                own[name].values[head], getattr(expected, name), rtol=1e-5, atol=1e-6, err_msg=name
            )


def test_measured_bounds_are_averaged_over_documents_at_the_sizes_they_were_captured_at(full):
    found = envelope_dataset(planted(full), points=None)
    own = full["measured_envelope"].to_dataset()
    assert list(found["gram"].values) == ["exponential", "offset", "measured"]
    at = found.sel(edition="sharp", gram="measured", n_envelope=own["n_envelope"].values)
    expected = own.sel(edition="sharp")["recall_upper"].mean("document").values
    np.testing.assert_allclose(at["recall_upper"].values, expected, rtol=1e-6)
    fewer = xr.DataTree.from_dict(
        {f"/{name}": planted(full)[name].to_dataset() for name in planted(full).children}
    )
    fewer["measured_envelope"] = xr.DataTree(own.isel(n_envelope=slice(None, None, 2)))
    other = envelope_dataset(fewer, points=None).sel(edition="sharp", gram="measured")[
        "recall_upper"
    ]
    np.testing.assert_allclose(other[..., ::2], expected[..., ::2], rtol=1e-6)
    assert other[..., 1::2].isnull().all()
    without = xr.DataTree.from_dict(
        {
            f"/{name}": planted(full)[name].to_dataset()
            for name in ("capture", "norms", "similarity")
        }
    )
    assert list(envelope_dataset(without, points=3)["gram"].values) == ["exponential", "offset"]


def test_one_edition_alone_and_an_unknown_one(full):
    both, one = (
        envelope_dataset(planted(full), points=3),
        envelope_dataset(planted(full), editions=("sharp",), points=3),
    )
    assert list(one["edition"].values) == ["sharp"]
    xr.testing.assert_equal(
        one["precision_lower"].sel(edition="sharp"), both["precision_lower"].sel(edition="sharp")
    )
    with pytest.raises(InputError, match="edition 'repaired': expected one of printed, sharp"):
        envelope_dataset(planted(full), editions=("repaired",))


def test_progress_ends_with_all_the_work_done(full):
    seen: list[float] = []
    envelope_dataset(planted(full), points=2, progress=seen.append)
    assert seen == pytest.approx(np.arange(1, 17) / 16)


T_OF_TWO = 4.302653
"""Student's t, 97.5%, two degrees of freedom."""


def test_what_lies_outside_and_by_how_much_on_a_case_made_by_hand(full):
    tree = planted(full)
    capture = tree["capture"].to_dataset().copy(deep=True)
    capture["attention_weight"][:] = capture["attention_weight"].values[
        :1
    ]  # so that bounds are the same in every document
    tree["capture"] = xr.DataTree(capture)
    bounds = envelope_dataset(tree, editions=("sharp",), grams=("exponential",), points=None).sel(
        edition="sharp", gram="exponential"
    )
    n = 3
    lower, upper = (
        bounds[name].isel(layer=0, n_envelope=n).values
        for name in ("precision_lower", "recall_upper")
    )
    error, about = 0.01 / np.sqrt(3), np.array([-0.01, 0.0, 0.01])
    above = [0.3, (T_OF_TWO + 0.05) * error, (T_OF_TWO - 0.05) * error, 0.02]
    for head, gap in enumerate(above):
        capture["recall"][:, 0, head, n] = (
            upper[head] + gap + (about if head < 3 else 0.0)
        )  # the last agrees, which does not tell the mean exactly
        capture["precision"][:, 0, head, n] = lower[head] - 0.2 + about
    # Three documents near v below a bound ℓ would be met with probability ((1−ℓ)/(1−v))³ were a
    # share of texts at P = 1.
    surely = ((1 - lower) / (1 - lower + 0.2)) ** 3 < 0.025
    changed = xr.DataTree.from_dict(
        {
            "/capture": capture,
            "/norms": tree["norms"].to_dataset(),
            "/similarity": tree["similarity"].to_dataset(),
        }
    )
    found = envelope_dataset(changed, editions=("sharp",), grams=("exponential",), points=None)
    at = found.sel(edition="sharp", gram="exponential").isel(layer=0, n_envelope=n)
    np.testing.assert_allclose(at["recall_excess"], above, atol=1e-6)
    np.testing.assert_allclose(at["precision_excess"], 0.2, atol=1e-6)
    np.testing.assert_array_equal(at["recall_outside"], [True, True, False, False])
    np.testing.assert_array_equal(at["precision_outside"], surely)
    np.testing.assert_allclose(at["precision_se"], error, rtol=1e-5)
    np.testing.assert_allclose(at["precision_lower_gap_se"], error, rtol=1e-5)


def test_a_bound_that_moves_with_its_curve_is_held_against_the_gap(full):
    tree = planted(full)
    own = tree["measured_envelope"].to_dataset()
    capture = tree["capture"].to_dataset().copy(deep=True)
    both = np.isin(capture["n"].values, own["n_envelope"].values)
    edge = (
        own["recall_upper"]
        .sel(edition="sharp")
        .transpose("document", "layer", "head", "n_envelope")
        .values
    )
    capture["recall"][..., both] = edge + 0.005 + 1e-4 * np.arange(3)[:, None, None, None]
    tree["capture"] = xr.DataTree(capture)
    found = envelope_dataset(tree, editions=("sharp",), points=None).sel(
        edition="sharp", gram="measured", n_envelope=own["n_envelope"].values[1:4]
    )
    np.testing.assert_allclose(found["recall_upper_gap_se"], 1e-4 / np.sqrt(3), rtol=1e-3)
    spread = found["recall_se"].values > 1e-3
    assert spread.any()
    assert (
        found["recall_outside"].values[spread].all()
    )  # though the curve's own error is far larger


def test_one_document_has_no_standard_error_and_every_excess_is_outside(full):
    one = xr.DataTree.from_dict(
        {f"/{name}": planted(full)[name].to_dataset() for name in planted(full).children}
    )
    for name in ("capture", "measured_envelope"):
        one[name] = xr.DataTree(one[name].to_dataset().isel(document=[0]))
    found = envelope_dataset(one, points=6)
    assert found["precision_se"].isnull().all()
    assert found["precision_lower"].notnull().all()
    for statistic in WITH_F:
        excess = found[f"{statistic}_excess"]
        xr.testing.assert_equal(
            found[f"{statistic}_outside"].drop_attrs(), (excess > 0).drop_attrs()
        )
    assert found.attrs["documents"] == 1


def test_standard_errors_are_those_of_a_jackknife_over_documents(full):
    found = envelope_dataset(planted(full), points=5)
    curves = measured_curves(full["capture"].to_dataset(), found["n_envelope"].values)[
        "recall"
    ].values
    left_out = np.stack([np.delete(curves, k, axis=0).mean(axis=0) for k in range(3)])
    jackknife = np.sqrt(2 / 3 * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(found["recall_se"].values, jackknife, atol=1e-12)
    np.testing.assert_allclose(found["recall"].values, curves.mean(axis=0))


def curves_of(convention: str, precision: list[float], recall: list[float]) -> xr.Dataset:
    dims, n = ("document", "layer", "head", "n"), np.arange(1, len(precision) + 1)
    data = {
        name: (dims, np.array(values)[None, None, None])
        for name, values in (("precision", precision), ("recall", recall))
    }
    return measured_curves(
        xr.Dataset(data, coords={"n": n}, attrs={"convention": convention}), n
    ).squeeze()


def test_f_scores_follow_the_convention():
    # F = 2PR/(P+R); at the outer ball R = 1, at the inner one P = 1 (Corollary 1).
    paper = curves_of("paper", [1.0, 0.5, np.nan], [1.0, 0.25, np.nan])
    np.testing.assert_allclose(paper["f_outer"], [1, 2 / 3, np.nan])
    np.testing.assert_allclose(paper["f_inner"], [1, 2 / 5, np.nan])
    followup = curves_of("followup", [0.5, 0.0, np.nan], [0.25, 0.0, np.nan])
    np.testing.assert_allclose(followup["f_outer"], [1 / 3, 0, np.nan])
    np.testing.assert_allclose(followup["f_inner"], [1 / 3, 0, np.nan])


def test_a_followup_run_meets_bounds_of_its_own_convention(tmp_path: Path):
    tree = run_tree(
        tmp_path / "run.zarr",
        length=LENGTH,
        documents=1,
        null=False,
        convention=Convention.FOLLOWUP,
    )
    found = envelope_dataset(planted(tree), points=6)
    grid = found["n_envelope"].values
    expected = exact(tree, 0, 1, offset_exponential(0.3, 0.0, 0.1, LENGTH), grid, edition="sharp")
    for name, values in cell(found, "sharp", "exponential", 0, 1).items():
        np.testing.assert_allclose(values, expected[name], atol=TABULATED, err_msg=name)
    assert found["f_outer_lower"].sel(edition="printed").isnull().all()
    assert found["precision_lower"].sel(edition="printed").isel(n_envelope=2).notnull().all()
    alpha, states = [], []
    ids = torch.as_tensor(random_windows(1, LENGTH).token_ids.astype(np.int64))
    tap(
        loaded("llama").model,
        ids,
        lambda view: (alpha.append(view.alpha[0, 0]), states.append(view.values[0])),
    )
    own = separability(alpha[0], states[0], grid, convention="followup")
    np.testing.assert_allclose(found["f_inner"].values[0], own["f_inner"], rtol=1e-5)


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=200, unique=True), st.integers(1, 40))
def test_the_grid_is_taken_from_the_measured_sizes_with_both_ends(sizes, points):
    n = np.sort(np.array(sizes))
    grid = envelope_grid(n, points)
    assert set(grid) <= set(n)
    assert (np.diff(grid) > 0).all()
    assert grid[0] == n[0]
    assert len(grid) <= max(points, 1)
    if points > 1:
        assert grid[-1] == n[-1]


def test_the_grid_takes_all_when_asked_and_spreads_evenly_in_the_logarithm():
    n = np.arange(1, 1025)
    np.testing.assert_array_equal(envelope_grid(n, None), n)
    grid = envelope_grid(n, 11)
    np.testing.assert_array_equal(grid, 2 ** np.arange(11))


def test_an_infinite_bound_has_no_error_and_warns_of_nothing() -> None:
    bounds, curves = np.array([[0.2, np.inf], [0.1, 0.3]]), np.array([[0.5, 0.6], [0.5, 0.9]])
    np.testing.assert_allclose(gap_error(bounds, curves), [np.nan, 0.1])
