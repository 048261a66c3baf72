from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from support.families import WINDOW
from support.model_g import gram_of
from support.runs import loaded, random_windows
from support.spine import run_tree

import theory
from empirical.measure.selection import Convention, separability
from empirical.tap.tap import tap
from geostat.bounds.by_document import envelope_grid, measured_curves
from geostat.bounds.envelope import envelope_dataset
from geostat.bounds.gaps import gap_error
from geostat.datasets.separability import ALL_BOUNDS, WITH_F
from geostat.errors import InputError
from theory.head.gram import LagGram, feasible_edge, offset_exponential

LENGTH = 30
SIZES = np.array([1, 2, 3, 5, 8, 13, 26, 30])
TABULATED = 2e-8
"""The vectorised bounds use a law tabulated to 1e-8; a mean over documents adds rounding."""
EXPONENTIAL = offset_exponential(0.3, 0.0, 0.1, LENGTH)
OFFSET = offset_exponential(0.6, 0.2, 0.1, LENGTH)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> xr.DataTree:
    """Three documents, every position visible."""
    return run_tree(tmp_path_factory.mktemp("full") / "run.zarr", length=LENGTH, n=SIZES)


@pytest.fixture(scope="module")
def windowed(tmp_path_factory: pytest.TempPathFactory) -> xr.DataTree:
    """One document; layers 0 and 2 see the last 24 positions only."""
    path = tmp_path_factory.mktemp("windowed") / "run.zarr"
    return run_tree(path, family="gemma2", documents=1, length=LENGTH, n=SIZES)


def planted(tree: xr.DataTree, **changes: dict) -> xr.DataTree:
    """Return a run with constructed fits, equal for all KV heads: those of EXPONENTIAL and OFFSET.

    `changes` maps names to {(gram, layer, kv_head): value}.
    """
    capture = tree["capture"].to_dataset()
    dims = ("layer", "kv_head")
    parameters = {"C": 2.0, "lam": 0.5, "rho0": 0.1}
    parameters |= {"beta": ("gram", [0.3, 0.6]), "offset": ("gram", [0.0, 0.2])}
    of_gram = xr.Dataset(parameters, {"gram": ["exponential", "offset"]})
    fits = of_gram * xr.DataArray(np.ones([capture.sizes[dim] for dim in dims]), dims=dims)
    for name in ("lam", "rho0"):
        fits[name][~capture["sink_visible"].values] = np.nan
    for name, cells in changes.items():
        for where, value in cells.items():
            fits[name][where] = value
    groups = {"norms": ["C", "lam"], "similarity": ["beta", "offset", "rho0"]}
    return tree.assign({group: xr.DataTree(fits[names]) for group, names in groups.items()})


@pytest.fixture(scope="module")
def result(full) -> xr.Dataset:
    return envelope_dataset(planted(full), points=6)


def assert_exact(result, tree, gram_name, layer, head, gram, edition="sharp", atol=TABULATED):
    """Assert that an envelope holds the mean over documents of the exact bounds of one head, with
    C = 2 and λ = 1/2, at this Gram.
    """
    capture = tree["capture"].to_dataset().isel(layer=layer, head=head)
    tokens, sink = int(capture["tokens"]), 0 if capture["sink_visible"] else None
    norms = np.full(tokens, 2.0)
    norms[0] = 2.0 if sink is None else 1.0
    convention = capture.attrs["convention"] if edition == "sharp" else "paper"
    how = {"edition": edition, "sink": sink, "convention": convention}
    exact = [
        theory.envelope(row[-tokens:], norms, gram, 16, result["n_envelope"].values, **how)
        for row in capture["attention_weight"].values.astype(float)
    ]
    selected = result.sel(edition=edition, gram=gram_name).isel(layer=layer, head=head)
    for name in ALL_BOUNDS:
        expected = np.mean([getattr(bounds, name) for bounds in exact], axis=0)
        assert_allclose(selected[name], expected, atol=atol, rtol=1e-7, err_msg=name)


@pytest.mark.parametrize("edition", ["printed", "sharp"])
@pytest.mark.parametrize(("name", "gram"), [("exponential", EXPONENTIAL), ("offset", OFFSET)])
def test_bounds_are_means_of_exact_bounds_over_documents(full, result, edition, name, gram):
    for layer, head in ((0, 0), (3, 2)):
        assert_exact(result, full, name, layer, head, gram, edition)


@pytest.mark.parametrize("name", ["full", "windowed"])
def test_bounds_by_rank_have_the_cosine_of_the_token_with_less_weight(request, name):
    """Each document has its own ranks; a head, its own law and dimension."""
    tree = planted(request.getfixturevalue(name))
    capture = tree["capture"].to_dataset()
    heads = [capture.sizes[dim] for dim in ("layer", "head")]
    level = np.linspace(0.1, 0.3, heads[0] * heads[1]).reshape(heads)
    law = {"first": level + 0.3, "limit": level, "exponent": 0 * level + 0.5}
    data = {f"coherence_{part}": (("layer", "head"), values) for part, values in law.items()}
    data["dimension"] = (("layer", "head"), np.round(100 * level))
    found = envelope_dataset(tree.assign(amended=xr.DataTree(xr.Dataset(data))), points=6)
    assert found["gram"].values.tolist()[:3] == ["exponential", "offset", "rank"]
    for layer, head in np.ndindex(*heads):
        of_head = capture.isel(layer=layer, head=head)
        tokens, seen = int(of_head["tokens"]), bool(of_head["sink_visible"])
        norms = np.full(tokens, 2.0)
        norms[0] = 1.0 if seen else 2.0
        expected = []
        for alpha in of_head["attention_weight"].values.astype(float)[:, -tokens:]:
            rank = np.ones(tokens)
            rank[np.argsort(-alpha[seen:]) + seen] = np.arange(1, tokens + 1 - seen)
            gram = level[layer, head] + 0.3 * np.maximum.outer(rank, rank) ** -0.5
            if seen:
                gram[0] = gram[:, 0] = 0.1
            np.fill_diagonal(gram, 1.0)
            how = {"edition": "sharp", "sink": 0 if seen else None}
            dimension = round(100 * level[layer, head])
            n = found["n_envelope"].values
            expected.append(theory.envelope(alpha, norms, gram, dimension, n, **how))
        selected = found.sel(edition="sharp", gram="rank").isel(layer=layer, head=head)
        for bound in ALL_BOUNDS:
            mean = np.mean([getattr(bounds, bound) for bounds in expected], axis=0)
            assert_allclose(selected[bound], mean, atol=TABULATED, rtol=1e-7, err_msg=bound)


@pytest.fixture(scope="module")
def changed(full) -> xr.Dataset:
    """Fits at the edge of what the bounds take, in a KV head each."""
    run = planted(
        full,
        beta={(0, 0, 0): 0.0, (0, 1, 0): 0.8},
        offset={(1, 3, 0): -0.4},
        rho0={(0, 0): 0.4, (1, 0): 0.9, (2, 1): -0.95},
        C={(2, 0): np.nan},
        lam={(3, 1): np.nan},
    )
    return envelope_dataset(run, points=5)


def test_an_infeasible_gram_is_projected_to_its_edge_and_flagged(full, changed):
    edge = feasible_edge(0.8, LENGTH - 1)
    assert edge < 0.9
    of_fit = changed.sel(fitted_gram="exponential")
    projected, distance = of_fit["projected"].values, of_fit["projection_distance"].values
    assert np.argwhere(projected).tolist() == [[1, 0], [2, 1]]
    assert distance[1, 0] == pytest.approx(0.9 - edge)
    assert (distance[~projected] == 0).all()
    gram = LagGram(np.exp(-0.8 * np.arange(LENGTH)), edge)
    assert_exact(changed, full, "exponential", 1, 0, gram, atol=1e-6)


def test_infeasible_cosines_by_lag_become_the_nearest_correlation_matrix(changed):
    of_head = changed.sel(fitted_gram="offset", gram="offset", edition="sharp").isel(layer=3)
    assert of_head["projected"][0]
    assert of_head["projection_distance"][0] > 1
    assert np.isfinite([of_head[name][0] for name in ALL_BOUNDS]).all()


def test_zero_decay_makes_all_tokens_parallel(full, changed):
    assert_exact(changed, full, "exponential", 0, 0, LagGram(np.ones(LENGTH), 0.4), atol=1e-6)


@pytest.mark.parametrize(("layer", "heads"), [(2, [0, 1]), (3, [2, 3])], ids=["C", "lam"])
def test_a_head_without_an_estimate_has_no_bounds_and_no_flags(changed, layer, heads):
    of_layer = changed.isel(layer=layer)
    missing = of_layer.isel(head=heads).sel(gram=["exponential", "offset"])
    for name in (*ALL_BOUNDS, *(f"{statistic}_excess" for statistic in WITH_F)):
        assert missing[name].isnull().all(), name
    for statistic in WITH_F:
        assert not missing[f"{statistic}_outside"].any(), statistic
    lower = of_layer["precision_lower"]
    others = [head for head in range(4) if head not in heads]
    assert lower.sel(gram="exponential", edition="sharp")[others].notnull().all()
    assert lower.sel(gram="measured").notnull().all()


def test_a_sliding_window_uses_visible_tokens_without_sink(windowed):
    result = envelope_dataset(planted(windowed), points=None)
    n = result["n_envelope"].values
    assert (n > WINDOW).any()
    gram = offset_exponential(0.3, 0.0, 0.0, WINDOW)
    for edition in ("printed", "sharp"):
        assert_exact(result, windowed, "exponential", 0, 3, gram, edition)
    beyond = result.isel(layer=[0, 2], n_envelope=n > WINDOW)
    for name in (*ALL_BOUNDS, *WITH_F):
        assert beyond[name].isnull().all(), name
    assert not beyond["precision_outside"].any()
    assert result["precision_lower"].isel(layer=[1, 3]).notnull().all()


def tapped(family: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return weights and value states of the first document, by layer."""
    layers: list[tuple[torch.Tensor, torch.Tensor]] = []
    ids = torch.as_tensor(random_windows(1, LENGTH).token_ids.astype(np.int64))
    tap(loaded(family).model, ids, lambda view: layers.append((view.alpha[0, 0], view.values[0])))
    return layers


@pytest.mark.parametrize(("family", "layer"), [("llama", 1), ("gemma2", 0)])
@pytest.mark.parametrize("edition", ["printed", "sharp"])
def test_the_measured_envelope_is_the_theory_at_the_measured_gram(request, family, layer, edition):
    tree = request.getfixturevalue("full" if family == "llama" else "windowed")
    tokens = int(tree["capture"]["tokens"][layer])
    alpha, values = (array.double().numpy()[:, -tokens:] for array in tapped(family)[layer])
    measured = tree["measured_envelope"].to_dataset().isel(document=0, layer=layer)
    n, sink = measured["n_envelope"].values, 0 if tokens == LENGTH else None
    for head in (0, 3):
        states = values[head // 2]
        norms = np.linalg.norm(states, axis=1)
        how = {"edition": edition, "sink": sink, "feasible": True}
        expected = theory.envelope(alpha[head], norms, gram_of(states), 16, n, **how)
        for name in ALL_BOUNDS:
            result = measured[name].sel(edition=edition)[head]
            assert_allclose(result, getattr(expected, name), rtol=1e-5, atol=1e-6, err_msg=name)


def test_measured_bounds_are_averaged_over_documents_at_captured_sizes(full):
    tree, measured = planted(full), full["measured_envelope"].to_dataset()
    expected = measured["recall_upper"].sel(edition="sharp").mean("document").values

    fewer = xr.DataTree(measured.isel(n_envelope=slice(None, None, 2)))
    run, sharp = tree.assign({"measured_envelope": fewer}), {"editions": ("sharp",)}
    result = envelope_dataset(run, **sharp, grams=("offset",), points=None)
    assert list(result["gram"].values) == ["offset", "measured"]
    upper = result["recall_upper"].sel(edition="sharp", gram="measured")
    upper = upper.sel(n_envelope=measured["n_envelope"].values).values
    assert_allclose(upper[..., ::2], expected[..., ::2], rtol=1e-6)
    assert np.isnan(upper[..., 1::2]).all()
    without = envelope_dataset(tree.drop_nodes("measured_envelope"), **sharp, points=3)
    assert list(without["gram"].values) == ["exponential", "offset"]


def test_one_edition_alone_equals_its_part_of_two(full, result):
    fractions: list[float] = []
    sharp = {"editions": ("sharp",), "points": 6}
    alone = envelope_dataset(planted(full), **sharp, progress=fractions.append)
    assert list(alone["edition"].values) == ["sharp"]
    xr.testing.assert_equal(
        alone["precision_lower"], result["precision_lower"].sel(edition=["sharp"])
    )
    assert fractions == pytest.approx(np.arange(1, 17) / 16)
    with pytest.raises(InputError, match="edition 'repaired': expected one of printed, sharp"):
        envelope_dataset(planted(full), editions=("repaired",))


T_OF_TWO = 4.302653
"""Student's t, 97.5%, two degrees of freedom."""


def test_excess_and_significance_of_a_constructed_case(full):
    tree = planted(full.map_over_datasets(lambda data: data.isel(layer=[0]) if data else data))
    capture = tree["capture"].to_dataset().copy(deep=True)
    # Equal weights give equal bounds in every document.
    capture["attention_weight"][:] = capture["attention_weight"].values[:1]
    n = 3

    def at_size() -> xr.Dataset:
        run = tree.assign({"capture": xr.DataTree(capture)})
        fitted = {"editions": ("sharp",), "grams": ("exponential",)}
        result = envelope_dataset(run, **fitted, points=None).isel(layer=0, n_envelope=n)
        return result.sel(edition="sharp", gram="exponential")

    bounds = at_size()
    lower, upper = (bounds[name].values for name in ("precision_lower", "recall_upper"))
    error, spread = 0.01 / np.sqrt(3), np.array([-0.01, 0.0, 0.01])
    above = [0.3, (T_OF_TWO + 0.05) * error, (T_OF_TWO - 0.05) * error, 0.02]
    for head, gap in enumerate(above):
        # Documents of the last head agree, which does not determine the mean exactly.
        capture["recall"][:, 0, head, n] = upper[head] + gap + (spread if head < 3 else 0.0)
        capture["precision"][:, 0, head, n] = lower[head] - 0.2 + spread
    # If a share of texts has P = 1, three documents near v below a bound ℓ occur with probability
    # ((1−ℓ)/(1−v))³.
    significant = ((1 - lower) / (1 - lower + 0.2)) ** 3 < 0.025
    selected = at_size()
    assert_allclose(selected["recall_excess"], above, atol=1e-6)
    assert_allclose(selected["precision_excess"], 0.2, atol=1e-6)
    assert_array_equal(selected["recall_outside"], [True, True, False, False])
    assert_array_equal(selected["precision_outside"], significant)
    assert_allclose(selected["precision_se"], error, rtol=1e-5)
    assert_allclose(selected["precision_lower_gap_se"], error, rtol=1e-5)


def test_the_test_uses_the_spread_of_the_gap_of_curve_and_bound(full):
    tree, measured = planted(full), full["measured_envelope"].to_dataset()
    capture, sizes = full["capture"].to_dataset().copy(deep=True), measured["n_envelope"].values
    edge = measured["recall_upper"].sel(edition="sharp").transpose("document", "layer", "head", ...)
    gap = 0.005 + 1e-4 * np.arange(3)[:, None, None, None]
    capture["recall"][..., np.isin(capture["n"].values, sizes)] = edge.values + gap
    run = tree.assign({"capture": xr.DataTree(capture)})
    result = envelope_dataset(run, editions=("sharp",), grams=("offset",), points=None).sel(
        edition="sharp", gram="measured", n_envelope=sizes[1:4]
    )
    assert_allclose(result["recall_upper_gap_se"], 1e-4 / np.sqrt(3), rtol=1e-3)
    spread = result["recall_se"].values > 1e-3
    assert spread.any()
    # The curve's error is far larger than that of the gap.
    assert result["recall_outside"].values[spread].all()


def test_one_document_has_no_standard_error_and_every_excess_is_outside(full):
    of_document = {
        name: xr.DataTree(full[name].to_dataset().isel(document=[0]))
        for name in ("capture", "measured_envelope")
    }
    sharp = {"editions": ("sharp",), "grams": ("offset",)}
    result = envelope_dataset(planted(full).assign(of_document), **sharp, points=6)
    assert result["precision_se"].isnull().all()
    assert result["precision_lower"].notnull().all()
    for statistic in WITH_F:
        assert_array_equal(result[f"{statistic}_outside"], result[f"{statistic}_excess"] > 0)
    assert result.attrs["documents"] == 1


@pytest.mark.parametrize(
    ("convention", "precision", "recall", "f_outer", "f_inner"),
    [
        # F = 2PR/(P+R); at the outer ball R = 1, at the inner one P = 1 (Corollary 1).
        ("paper", [1.0, 0.5, np.nan], [1.0, 0.25, np.nan], [1, 2 / 3, np.nan], [1, 2 / 5, np.nan]),
        ("followup", [0.5, 0, np.nan], [0.25, 0, np.nan], [1 / 3, 0, np.nan], [1 / 3, 0, np.nan]),
    ],
)
def test_f_scores_follow_the_convention(convention, precision, recall, f_outer, f_inner):
    n = np.arange(1, 4)
    curves = {"precision": precision, "recall": recall}
    capture = xr.Dataset(
        {
            name: (("document", "layer", "head", "n"), np.array(values)[None, None, None])
            for name, values in curves.items()
        },
        coords={"n": n},
        attrs={"convention": convention},
    )
    result = measured_curves(capture, n).squeeze()
    assert_allclose(result["f_outer"], f_outer)
    assert_allclose(result["f_inner"], f_inner)


def test_a_followup_run_uses_bounds_of_its_convention(tmp_path: Path):
    how = {"documents": 1, "null": False, "convention": Convention.FOLLOWUP}
    tree = run_tree(tmp_path / "run.zarr", length=LENGTH, n=SIZES, **how)
    result = envelope_dataset(planted(tree), grams=("exponential",), points=4)
    assert_exact(result, tree, "exponential", 0, 1, EXPONENTIAL)
    printed = result.sel(edition="printed")
    assert printed["f_outer_lower"].isnull().all()
    assert printed["precision_lower"].isel(n_envelope=2).notnull().all()
    alpha, states = tapped("llama")[0]
    expected = separability(alpha, states, result["n_envelope"].values, convention="followup")
    assert_allclose(result["f_inner"].values[0], expected["f_inner"], rtol=1e-5)


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=200, unique=True), st.integers(1, 40))
def test_the_grid_is_a_subset_of_measured_sizes_with_both_ends(sizes, points):
    n = np.sort(np.array(sizes))
    assert_array_equal(envelope_grid(n, None), n)
    grid = envelope_grid(n, points)
    assert set(grid) <= set(n)
    assert (np.diff(grid) > 0).all()
    assert grid[0] == n[0]
    assert len(grid) <= max(points, 1)
    if points > 1:
        assert grid[-1] == n[-1]


def test_an_infinite_bound_has_no_error_and_no_warning() -> None:
    bounds, curves = np.array([[0.2, np.inf], [0.1, 0.3]]), np.array([[0.5, 0.6], [0.5, 0.9]])
    assert_allclose(gap_error(bounds, curves), [np.nan, 0.1])
