"""Separability of one head, against exact numbers, plain loops and its invariances."""

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import loops
from support.places import GOLDEN
from support.raising import refused

from empirical.measure.selection import Convention, default_n, order_by_weight, separability

CASES = [
    case
    for case in json.loads((GOLDEN / "metrics.json").read_text())["cases"]
    if case["kind"] == "metrics"
]
GOLDEN_NAMES = {
    "precision": "P_rmax",
    "recall": "R_rmin",
    "r_max": "r_max",
    "r_min": "r_min",
    "f_outer": "F_rmax",
    "f_inner": "F_rmin",
}
Head = tuple[np.ndarray, np.ndarray]


def number(text: str) -> float:
    return float(Fraction(text))


def random_head(
    seed: int, tokens: int, dimension: int, *, zeros: list[int] | None = None, kind: Any = float
) -> Head:
    """Weights of a wide range, 0 at some tokens, and random values."""
    generator = np.random.default_rng(seed)
    alpha = np.exp(2 * generator.normal(size=tokens))
    values = generator.normal(size=(tokens, dimension))
    alpha[[zero for zero in zeros or [] if zero < tokens - 1]] = 0
    return (alpha / alpha.sum()).astype(kind), values.astype(kind)


heads = st.builds(
    random_head,
    st.integers(0, 2**32 - 1),
    st.integers(2, 40),
    st.integers(1, 19),
    zeros=st.lists(st.integers(0, 39), max_size=3),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_golden_metrics(case):
    # tests/golden/metrics.json: exact rational arithmetic; relative tolerance 1e-10.
    # M1 is Figure 1 of arXiv 2602.01893: Precision 3/8, Recall 2/3.
    given_, expected = case["input"], case["expected"]
    alpha = np.array([number(x) for x in given_["alpha"]])
    values = np.array([[number(x) for x in row] for row in given_["V"]])
    n = given_["N"]
    assert order_by_weight(alpha)[:n].tolist() == expected["I"]
    paper = separability(alpha, values, [n])
    for name, golden in GOLDEN_NAMES.items():
        assert paper[name].item() == pytest.approx(number(expected[golden]), rel=1e-10), name
    followup = separability(alpha, values, [n], convention="followup")
    p, r = number(expected["P_rmax"]), expected["K_in_open"] / n
    f = 2 * p * r / (p + r)
    for name, value in {"precision": p, "recall": r, "f_outer": f, "f_inner": f}.items():
        assert followup[name].item() == pytest.approx(value, rel=1e-10), name


@pytest.mark.parametrize("convention", list(Convention))
@settings(max_examples=60)
@given(head=heads)
@example(head=random_head(0, 5, 2, zeros=[0, 2, 3]))
def test_float64_equals_the_definitions_at_every_n(head, convention):
    alpha, values = head
    measured = separability(alpha, values, np.arange(1, len(alpha) + 2), convention=convention)
    for index in range(len(alpha) + 1):
        expected = loops.separability(alpha, values, index + 1, convention=convention.value)
        for name, value in expected.items():
            same = pytest.approx(value, rel=1e-10, abs=1e-14, nan_ok=True)
            assert measured[name][index] == same, (name, index + 1)


@pytest.mark.parametrize(("tokens", "dimension"), [(129, 80), (65, 3)])
def test_float32_differs_from_float64_only_where_distances_nearly_tie(tokens, dimension):
    alpha, values = random_head(tokens, tokens, dimension, kind=np.float32)
    n = np.arange(1, tokens)
    measured = separability(alpha, values, n)
    order = loops.by_weight(alpha)
    for index, size in enumerate(n):
        d2 = loops.distances(alpha, values, order[:size]) ** 2
        slack = 1e-5 * d2.max()
        inside, outside = d2[order[:size]], d2[order[size:]]
        low, high = loops.count_range(outside, inside.max(), slack)
        precision, recall = measured["precision"][index], measured["recall"][index]
        assert size / (size + high) - 1e-6 <= precision <= size / (size + low) + 1e-6
        low, high = loops.count_range(inside, outside.min(), slack)
        assert low / size - 1e-6 <= recall <= high / size + 1e-6
        assert measured["r_max"][index] == pytest.approx(np.sqrt(inside.max()), rel=1e-5, abs=1e-9)
        assert measured["r_min"][index] == pytest.approx(np.sqrt(outside.min()), rel=1e-5)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    tokens=st.integers(3, 150),
    dimension=st.integers(1, 70),
    kind=st.sampled_from([np.float32, np.float64]),
    data=st.data(),
)
def test_equal_contributions_tie_exactly_wherever_they_stand(seed, tokens, dimension, kind, data):
    # N tokens are selected, the last of them and one outside are copies of each other: neither may
    # be nearer to s than the other.
    alpha, values = random_head(seed, tokens, dimension, kind=kind)
    order = loops.by_weight(alpha)
    n = data.draw(st.integers(1, tokens - 1))
    inside, outside = order[n - 1], order[n]
    alpha[outside], values[outside] = alpha[inside], values[inside]
    order = loops.by_weight(alpha)
    paper = separability(alpha, values, [n])
    d = loops.distances(alpha, values, order[:n])
    if d[inside] == d[order[:n]].max():
        assert paper["precision"].item() < 1
    if d[inside] == d[order[n:]].min():
        strict = separability(alpha, values, [n], convention="followup")
        assert paper["recall"].item() > strict["recall"].item()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("tokens", [2, 17, 1025])
def test_all_tokens_equal(tokens, kind):
    alpha = np.full(tokens, 1 / tokens, kind)
    values = np.tile(np.random.default_rng(tokens).normal(size=64).astype(kind), (tokens, 1))
    n = np.arange(1, tokens)
    paper, followup = (separability(alpha, values, n, convention=name) for name in Convention)
    assert (paper["precision"] == (n / tokens).astype(kind)).all()
    assert (paper["recall"] == 1).all()
    assert (followup["recall"] == 0).all()
    assert paper["r_max"].tolist() == paper["r_min"].tolist()


def test_ties_of_weight_go_to_the_lower_index():
    assert order_by_weight(np.array([0.1, 0.4, 0.1, 0.4], np.float32)).tolist() == [1, 3, 0, 2]


@settings(max_examples=40)
@given(head=heads, power=st.integers(-20, 20), seed=st.integers(0, 1000))
def test_separability_changes_neither_with_scale_nor_with_the_order_of_tokens(head, power, seed):
    alpha, values = head
    shuffled = np.random.default_rng(seed).permutation(len(alpha))
    one = separability(alpha, values)
    other = separability(alpha, values * 2.0**power)
    moved = separability(alpha[shuffled], values[shuffled])
    for name, expected in one.items():
        scale = 2.0**power if name in ("r_min", "r_max") else 1.0
        np.testing.assert_array_equal(other[name], expected * scale)
        np.testing.assert_array_equal(moved[name], expected)


def test_one_token_selected_is_always_separable():
    measured = separability(*random_head(5, 200, 64, kind=np.float32), [1])
    assert [measured[name].item() for name in ("precision", "recall", "r_max")] == [1.0, 1.0, 0.0]


def test_grouped_heads_equal_repeated_values():
    generator = np.random.default_rng(0)
    alpha = generator.dirichlet(np.ones(33), size=(2, 6)).astype(np.float32)
    values = generator.normal(size=(2, 3, 33, 8)).astype(np.float32)
    repeated = separability(alpha, np.repeat(values, 2, axis=1))
    single = separability(alpha[1, 5], values[1, 2])
    for name, grouped in separability(alpha, values).items():
        assert grouped.shape == (2, 6, 33)
        np.testing.assert_array_equal(grouped, repeated[name])
        np.testing.assert_array_equal(grouped[1, 5], single[name])


def test_a_size_has_equal_results_in_any_grid_and_order():
    alpha, values = random_head(2, 200, 64, kind=np.float32)
    every = separability(alpha, values, np.arange(1, 202))
    sizes = np.array([201, 7, 199, 64, 7, 1])
    for name, measured in separability(alpha, values, sizes).items():
        np.testing.assert_array_equal(measured, every[name][sizes - 1])
        assert np.isnan(separability(alpha, values, [201, 300])[name]).all()


def test_tensors_give_tensors():
    alpha, values = random_head(3, 12, 6, kind=np.float32)
    expected = separability(alpha, values)
    given_ = torch.tensor(alpha, requires_grad=True), torch.tensor(values).T.contiguous().T
    for name, measured in separability(*given_).items():
        assert isinstance(measured, torch.Tensor)
        assert measured.dtype == torch.float32
        np.testing.assert_array_equal(measured.numpy(), expected[name])
    halves = [torch.tensor(array, dtype=torch.bfloat16) for array in (alpha, values)]
    assert separability(*halves)["recall"].dtype == torch.float32
    assert separability(*random_head(3, 12, 6))["recall"].dtype == np.float64


@pytest.mark.parametrize("tokens", [1, 2, 3, 63, 64, 65, 100, 257, 1025, 8192])
def test_default_grid(tokens):
    n = default_n(tokens)
    assert n.dtype == np.int64
    assert (n[0], n[-1]) == (1, tokens)
    assert (np.diff(n) > 0).all()
    assert n[:64].tolist() == list(range(1, min(tokens, 64) + 1))
    assert len(n) <= 160


ONE, NAN = np.ones((3, 2)), np.array([[[np.nan]] * 5, [[1.0]] * 5])


@pytest.mark.parametrize(
    ("alpha", "values", "n", "line"),
    [
        (np.ones((3, 5)), np.ones((2, 5, 4)), None, r"alpha \(3, 5\), .* a multiple of kv_heads"),
        (np.ones((2, 5)), np.ones((2, 6, 4)), None, r"\(2, 6, 4\): expected \(head, token\)"),
        (np.ones((2, 5)), NAN, None, "kv_head 0: NaN or infinity among its value states"),
        (np.array([[1.0, 0], [np.inf, 0]]), np.ones((1, 2, 2)), None, "head 1: NaN or infinity"),
        (np.array([0.5, -0.25]), np.ones((2, 2)), None, "head 0: weight -0.25 is negative"),
        (np.ones(3), ONE, [0, 1], r"n = \[0, 1\]: expected a list of integers from 1"),
        (np.ones(3), ONE, [1.5], r"n = \[1.5\]: expected a list of integers from 1"),
    ],
)
def test_bad_input_is_refused_in_one_line(alpha, values, n, line):
    with refused(line):
        separability(alpha, values, n)


@pytest.mark.parametrize("scale", [1e16, 1e20, 1e30, 1e38, 1e-16, 3e-21, 1e-30, 1e-44])
def test_values_that_float32_cannot_square_are_refused_and_float64_can(scale):
    alpha, values = np.array([0.5, 0.3, 0.2]), np.array([[1.0, 0.0], [-0.5, 0.5], [1.0, 0.2]])
    with refused("kv_head 0: its largest value state is .*, expected 9e-16"):
        separability(alpha, (values * scale).astype(np.float32))
    with refused("kv_head 0: its largest value state"):
        separability(torch.tensor(alpha), torch.tensor(values * scale, dtype=torch.float32))
    wide, plain = separability(alpha, values * scale), separability(alpha, values)
    for name in ("precision", "recall"):
        np.testing.assert_array_equal(wide[name], plain[name])


@settings(max_examples=40)
@given(head=heads, scale=st.sampled_from([1e-14, 1e-12, 1e12, 1e14]))
def test_accepted_values_match_exact_squares(head, scale):
    alpha, values = (array.astype(np.float32) for array in head)
    if not values.any():
        return
    power = np.float32(2.0 ** np.round(np.log2(scale / np.abs(values).max())))
    one, other = separability(alpha, values), separability(alpha, values * power)
    for name in ("precision", "recall"):
        np.testing.assert_array_equal(one[name], other[name])


def test_no_tokens_have_no_grid():
    with refused("0 tokens"):
        default_n(0)
