"""One reference, two executions: torch on a device, the CPU among them, against the compiled loops,
in float32.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import loops
from support.devices import DEVICES
from support.layers import Layer, layers

from empirical.measure import layer as reference
from empirical.measure import queries as reference_queries
from empirical.measure.device import layer, nulls, queries
from empirical.measure.nulls import seeds_of
from empirical.measure.permutations import Permutations, permuted, small_sizes
from empirical.measure.queries import Row
from empirical.measure.selection import MEASURES, Convention, Selection, order_by_weight
from empirical.schema import NULLS

EPS = float(np.finfo(np.float32).eps)
EDGE = 2.0**-20 + 1e-6
"""How near to an edge of the histogram, or to 0, a cosine may be taken for one on the other side:
what the module says, and the rounding of the product itself.
"""
COUNTED = {"precision", "recall", "f_outer", "f_inner"}


def arrays(measured: dict) -> dict[str, np.ndarray]:
    return {
        name: one.cpu().numpy() if isinstance(one, torch.Tensor) else one
        for name, one in measured.items()
    }


def expect_close(one: np.ndarray, other: np.ndarray, slack: np.ndarray | float, name: str) -> None:
    assert one.shape == other.shape, name
    assert one.dtype == other.dtype, name
    np.testing.assert_array_equal(np.isnan(one), np.isnan(other), err_msg=name)
    allowed = 1e-5 * (1 + np.abs(other)) + slack
    apart = np.abs(one.astype(np.float64) - other)
    assert not (apart > allowed).any(), (name, float(np.nanmax(apart - allowed)))


def rounding(alpha: np.ndarray, values: np.ndarray, chosen: list[int]) -> float:
    """How far float32 may take D − ‖s‖² of any token from the truth: each of the products' terms
    is rounded, and so are contributions.
    """
    a = np.abs(alpha.astype(np.float64)) * np.linalg.norm(values.astype(np.float64), axis=1)
    return float(EPS * (values.shape[1] + 4) * a.max(initial=0) * (a.max() + 2 * a[chosen].sum()))


def slack_of_cell(
    alpha: np.ndarray, values: np.ndarray, order: list[int], n: int, convention: str
) -> dict[str, float]:
    """By how much two executions may differ at one N; 0 of P and R where no two compared distances
    lie within rounding.
    """
    y = (alpha[:, None] * values).astype(np.float64)
    inside, outside = order[:n], order[n:]
    d = ((y[inside].sum(axis=0) - y) ** 2).sum(axis=1)
    if not outside:
        return dict.fromkeys(MEASURES, 0.0)
    near = 2 * rounding(alpha, values, inside)
    outer, inner = max(d[inside]), min(d[outside])
    surely, possibly = loops.count_range(d[outside], outer, near)
    kept, maybe = loops.count_range(d[inside], inner, near)
    # Where a token may be taken for the farthest or the nearest, the radius may be its own.
    far = d[inside][d[inside] >= outer - near]
    close = d[outside][d[outside] <= inner + near]
    return {
        "precision": n / (n + surely) - n / (n + possibly),
        "recall": (maybe - kept) / n,
        "r_max": float(np.sqrt(outer) - np.sqrt(far.min())),
        "r_min": float(np.sqrt(close.max()) - np.sqrt(inner)),
    }


def slacks(of: Layer, orders: np.ndarray, values: np.ndarray | None = None) -> dict:
    """`slack_of_cell` of every head and N, (head, n) by name."""
    out = {name: np.zeros((len(of.alpha), len(of.sizes))) for name in MEASURES}
    values = of.values if values is None else values
    group = len(of.alpha) // len(values)
    for head, order in enumerate(orders.tolist()):
        for place, n in enumerate(of.sizes[:-1]):
            own = slack_of_cell(of.alpha[head], values[head // group], order, n, of.convention)
            for name, slack in own.items():
                out[name][head, place] = slack
    return out


def expect_separability(one: dict, other: dict, slack: dict) -> None:
    """P and R exactly equal where no two distances lie within rounding, else within what may be
    counted otherwise.
    """
    for name in MEASURES:
        if name in COUNTED:
            sure = slack[name] == 0
            np.testing.assert_array_equal(one[name][sure], other[name][sure], err_msg=name)
        expect_close(one[name], other[name], slack[name], name)


def expect_cosines(one: dict, other: dict, of: Layer) -> None:
    """Sums by lag within 1e-5, counts but for cosines within rounding of an edge or of 0."""
    bins = reference.lag_bins(of.positions, sink=of.sink or of.positions > of.tokens)
    edges = reference.cosine_bins()[1:-1]
    for k, states in enumerate(of.values):
        found = loops.pairs(states, sink=of.sink)
        for place, (start, stop) in enumerate(bins):
            cosines = np.array([c for i, j, c in found if start <= j - i <= stop])
            doubtful = (np.abs(cosines[:, None] - edges) < EDGE).any(axis=1).sum()
            counts = (side["cosine_histogram"][k, place].astype(int) for side in (one, other))
            assert np.abs(np.subtract(*counts)).sum() <= 2 * doubtful
            assert one["cosine_histogram"][k, place].sum() == len(cosines)
        for lag in range(one["cosine_negative_fraction"].shape[1]):
            here = np.array([c for i, j, c in found if j - i == lag + 1])
            share = (np.abs(here) < EDGE).mean() if here.size else 0.0
            name = "cosine_negative_fraction"
            expect_close(one[name][k, lag], other[name][k, lag], share, name)


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=40)
@given(of=layers(), budget=st.sampled_from([1 << 29, 1 << 12, 1]))
def test_a_layer_matches_the_reference(device, of, budget):
    expected = reference.measure_layer(of.alpha, of.values, of.sizes, **of.options)
    alpha, values = (torch.from_numpy(one).to(device) for one in (of.alpha, of.values))
    found = arrays(layer.measure_layer(alpha, values, of.sizes, **of.options, budget=budget))
    assert set(found) == set(expected)
    expect_separability(found, expected, slacks(of, order_by_weight(of.alpha)))
    expect_cosines(found, expected, of)
    counted = {*MEASURES, "cosine_histogram", "cosine_negative_fraction"}
    for name in set(expected) - counted:
        expect_close(found[name], expected[name], 0.0, name)


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=30)
@given(of=layers(most=24), seed=st.integers(0, 10**6))
def test_baselines_of_equal_draws_match_the_reference(device, of, seed):
    generator = np.random.default_rng(seed)
    orders = np.stack([generator.permutation(of.tokens) for _ in of.alpha])
    drawn = nulls.with_norms(
        torch.from_numpy(generator.normal(size=of.values.shape).astype(np.float32)),
        torch.from_numpy(of.values),
    )
    first = 0 if of.sink else of.positions - of.tokens
    draw = Permutations.draw(np.random.SeedSequence(seed), len(of.values), of.tokens + first)
    behind = np.zeros((len(of.values), first, of.values.shape[-1]), np.float32)  # not visible
    position = first + of.tokens - 1

    def whole(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.concatenate([behind, values], axis=1)).to(device)

    found = nulls.measure_drawn(
        [Row(position=position, first=first, alpha=torch.from_numpy(of.alpha).to(device))],
        whole(of.values),
        of.sizes,
        orders=[torch.from_numpy(orders).to(device)],
        drawn=whole(drawn.numpy()),
        permutations=[draw],
        convention=of.convention,
    )
    moved = permuted(
        torch.from_numpy(of.alpha),
        torch.linalg.vector_norm(torch.from_numpy(of.values), dim=-1),
        draw.seen(first, position + 1),
        sink=first == 0,
    )
    ways = {
        "random_selection": (of.alpha, orders, of.values),
        "random_directions": (of.alpha, order_by_weight(of.alpha), drawn.numpy()),
    } | {
        name: (weight.numpy(), order.numpy(), of.values) for name, (weight, order) in moved.items()
    }
    convention, group = Convention(of.convention), len(of.alpha) // len(of.values)
    for name, (weights, order, values) in ways.items():
        sizes = of.sizes if name.startswith("random") else small_sizes(np.array(of.sizes))
        reference_heads = Selection(weights, values, sizes, convention, order)
        for task in reference_heads.tasks():
            task()
        expected = reference_heads.named()
        one = {
            measure: array[:, NULLS.index(name)].cpu().numpy() for measure, array in found.items()
        }
        if name == "other_head":
            one = {measure: np.roll(array, group, axis=0) for measure, array in one.items()}
        expect_separability(one, expected, slacks(replace(of, alpha=weights), order, values))


def some_rows(
    window: int | None, *positions: int, device: str = "cpu"
) -> tuple[list[Row], torch.Tensor]:
    """Queries of random heads that see `window` tokens or all; none has two distances that are
    nearly equal.
    """
    generator = np.random.default_rng(3)
    values = generator.normal(size=(2, 60, 8)).astype(np.float32)
    rows = []
    for position in positions:
        first = 0 if window is None else max(position + 1 - window, 0)
        alpha = generator.dirichlet(np.full(position + 1 - first, 0.3), size=4)
        alpha[:, -2] = 0
        own = torch.from_numpy((alpha / alpha.sum(1, keepdims=True)).astype(np.float32))
        rows.append(Row(position=position, first=first, alpha=own.to(device)))
    return rows, torch.from_numpy(values).to(device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("convention", ["paper", "followup"])
@pytest.mark.parametrize("window", [None, 20])
def test_query_means_match_the_reference(window, convention, device):
    positions = (10, 45, 58, 59)
    rows, values = some_rows(window, *positions)
    sizes = [1, 2, 5, 11, 20, 21, 59, 60, 61]
    expected = reference_queries.measure_layer(rows, values, sizes, convention=convention)
    rows, values = some_rows(window, *positions, device=device)
    found = arrays(queries.measure_layer(rows, values, sizes, convention=convention))
    assert set(found) == set(expected)
    for name, array in expected.items():
        expect_close(found[name], array, 0.0, name)


@pytest.mark.parametrize("device", DEVICES)
def test_baselines_of_several_queries_are_means_of_each_at_the_draws_of_the_seed(device):
    rows, values = some_rows(None, 30, 45, 59, device=device)
    sizes = [1, 2, 5, 31, 59]
    found = nulls.measure_layer(rows, values, sizes, seeds=[(1, 2)])
    source = nulls.generator((1, 2), values.device)
    drawn = nulls.random_directions(values, source)
    draw = Permutations.draw(seeds_of((1, 2), 2)[-1], *values.shape[:2])
    each = []
    for row in rows:
        orders = [nulls.random_orders(row.alpha, source)]
        draws = {"orders": orders, "drawn": drawn, "permutations": [draw]}
        each.append(nulls.measure_drawn([row], values, sizes, **draws))
    for name, array in found.items():
        mean = np.nanmean(np.stack([one[name].cpu().numpy() for one in each]), axis=0)
        np.testing.assert_allclose(array.cpu().numpy(), mean, rtol=1e-6)
