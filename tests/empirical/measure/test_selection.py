from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import loops
from support.places import GOLDEN

from empirical.errors import InputError
from empirical.measure.convention import Convention
from empirical.measure.selection import order_by_weight, separability
from empirical.measure.sizes import default_n

CASES = [
    case
    for case in json.loads((GOLDEN / "metrics.json").read_text())["cases"]
    if case["kind"] == "metrics"
]
MEASURES = ("precision", "recall", "r_min", "r_max", "f_outer", "f_inner")


def number(text: str) -> float:
    return float(Fraction(text))


def random_head(
    seed: int, tokens: int, dimension: int, *, kind: type = np.float64
) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    alpha = np.exp(2 * generator.normal(size=tokens))
    return (alpha / alpha.sum()).astype(kind), generator.normal(size=(tokens, dimension)).astype(
        kind
    )


heads = st.builds(random_head, st.integers(0, 2**32 - 1), st.integers(2, 40), st.integers(1, 19))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_golden_metrics(case: dict) -> None:
    # tests/golden/metrics.json: exact rational arithmetic; relative tolerance 1e-10.
    # M1 is Figure 1 of arXiv 2602.01893: Precision 3/8, Recall 2/3.
    given_, expected = case["input"], case["expected"]
    alpha = np.array([number(x) for x in given_["alpha"]])
    values = np.array([[number(x) for x in row] for row in given_["V"]])
    n = given_["N"]
    assert order_by_weight(alpha)[:n].tolist() == expected["I"]
    paper = separability(alpha, values, [n])
    for name, golden in (
        ("precision", "P_rmax"),
        ("recall", "R_rmin"),
        ("r_max", "r_max"),
        ("r_min", "r_min"),
        ("f_outer", "F_rmax"),
        ("f_inner", "F_rmin"),
    ):
        assert paper[name].item() == pytest.approx(number(expected[golden]), rel=1e-10)
    followup = separability(alpha, values, [n], convention="followup")
    precision, recall = number(expected["P_rmax"]), expected["K_in_open"] / n
    assert followup["precision"].item() == pytest.approx(precision, rel=1e-10)
    assert followup["recall"].item() == pytest.approx(recall, rel=1e-10)
    assert (
        followup["f_outer"].item()
        == followup["f_inner"].item()
        == pytest.approx(2 * precision * recall / (precision + recall), rel=1e-10)
    )


@pytest.mark.parametrize("convention", list(Convention))
@settings(max_examples=60)
@given(head=heads)
def test_float64_equals_the_definitions_at_every_n(
    head: tuple[np.ndarray, np.ndarray], convention: Convention
) -> None:
    alpha, values = head
    measured = separability(alpha, values, np.arange(1, len(alpha) + 2), convention=convention)
    for index in range(len(alpha) + 1):
        expected = loops.separability(alpha, values, index + 1, convention=convention.value)
        for name in MEASURES:
            assert measured[name][index] == pytest.approx(
                expected[name], rel=1e-10, abs=1e-14, nan_ok=True
            ), (name, index + 1)


@pytest.mark.parametrize(("tokens", "dimension"), [(300, 64), (129, 80), (65, 3)])
def test_float32_differs_from_float64_only_where_distances_nearly_tie(
    tokens: int, dimension: int
) -> None:
    alpha, values = random_head(tokens, tokens, dimension, kind=np.float32)
    n = np.arange(1, tokens)
    measured = separability(alpha, values, n)
    order = loops.by_weight(alpha)
    for index, size in enumerate(n):
        d2 = loops.distances(alpha, values, order[:size]) ** 2
        slack = 1e-5 * d2.max()
        inside, outside = d2[order[:size]], d2[order[size:]]
        low, high = loops.count_range(outside, inside.max(), slack)
        assert (
            size / (size + high) - 1e-6
            <= measured["precision"][index]
            <= size / (size + low) + 1e-6
        )
        low, high = loops.count_range(inside, outside.min(), slack)
        assert low / size - 1e-6 <= measured["recall"][index] <= high / size + 1e-6
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
def test_equal_contributions_tie_exactly_wherever_they_stand(
    seed: int, tokens: int, dimension: int, kind: type, data: st.DataObject
) -> None:
    # N tokens are selected, the last of them and one outside are copies of each other: neither may
    # be nearer to s than the other.
    alpha, values = random_head(seed, tokens, dimension, kind=kind)
    order = loops.by_weight(alpha)
    n = data.draw(st.integers(1, tokens - 1))
    inside, outside = order[n - 1], order[n]
    alpha[outside] = alpha[inside]
    values[outside] = values[inside]
    paper = separability(alpha, values, [n])
    d = loops.distances(alpha, values, loops.by_weight(alpha)[:n])
    if d[inside] == d[loops.by_weight(alpha)[:n]].max():
        assert paper["precision"].item() < 1
    if d[inside] == d[loops.by_weight(alpha)[n:]].min():
        strict = separability(alpha, values, [n], convention="followup")
        assert paper["recall"].item() > strict["recall"].item()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("tokens", [2, 5, 16, 17, 130, 1025])
def test_all_tokens_equal(tokens: int, kind: type) -> None:
    alpha = np.full(tokens, 1 / tokens, kind)
    values = np.tile(np.random.default_rng(tokens).normal(size=64).astype(kind), (tokens, 1))
    n = np.arange(1, tokens)
    paper, followup = (
        separability(alpha, values, n),
        separability(alpha, values, n, convention="followup"),
    )
    assert (paper["precision"] == (n / tokens).astype(kind)).all()
    assert (paper["recall"] == 1).all()
    assert (followup["recall"] == 0).all()
    assert paper["r_max"].tolist() == paper["r_min"].tolist()


def test_ties_of_weight_go_to_the_lower_index() -> None:
    assert order_by_weight(np.array([0.1, 0.4, 0.1, 0.4], np.float32)).tolist() == [1, 3, 0, 2]


@settings(max_examples=40)
@given(head=heads, power=st.integers(-20, 20))
def test_separability_does_not_change_when_values_are_rescaled(
    head: tuple[np.ndarray, np.ndarray], power: int
) -> None:
    alpha, values = head
    one, other = (separability(alpha, scale * values) for scale in (1.0, 2.0**power))
    for name in ("precision", "recall", "f_outer", "f_inner"):
        np.testing.assert_array_equal(one[name], other[name])
    for name in ("r_min", "r_max"):
        np.testing.assert_array_equal(one[name] * 2.0**power, other[name])


@settings(max_examples=40)
@given(head=heads, seed=st.integers(0, 1000))
def test_separability_does_not_depend_on_where_tokens_stand(
    head: tuple[np.ndarray, np.ndarray], seed: int
) -> None:
    alpha, values = head
    shuffled = np.random.default_rng(seed).permutation(len(alpha))
    one, other = separability(alpha, values), separability(alpha[shuffled], values[shuffled])
    for name in MEASURES:
        np.testing.assert_array_equal(one[name], other[name])


@settings(max_examples=40)
@given(head=heads)
def test_f_scores_follow_from_precision_and_recall(head: tuple[np.ndarray, np.ndarray]) -> None:
    alpha, values = head
    paper, followup = (
        separability(alpha, values),
        separability(alpha, values, convention="followup"),
    )
    # Corollary 1: F(r_max) = 2P/(1+P), F(r_min) = 2R/(1+R); follow-up: one F of both.
    np.testing.assert_allclose(paper["f_outer"], 2 / (1 / paper["precision"] + 1), rtol=1e-12)
    np.testing.assert_allclose(
        paper["f_inner"], 2 * paper["recall"] / (1 + paper["recall"]), rtol=1e-12
    )
    p, r = followup["precision"], followup["recall"]
    np.testing.assert_allclose(followup["f_outer"], 2 * p * r / (p + r), rtol=1e-12)
    np.testing.assert_array_equal(followup["f_outer"], followup["f_inner"])
    assert np.isnan(followup["f_outer"][-1])
    assert np.isnan(followup["precision"][-1])
    assert not np.isnan(followup["precision"][:-1]).any()


def test_one_token_selected_is_always_separable() -> None:
    alpha, values = random_head(5, 200, 64, kind=np.float32)
    measured = separability(alpha, values, [1])
    assert (measured["precision"].item(), measured["recall"].item(), measured["r_max"].item()) == (
        1.0,
        1.0,
        0.0,
    )


def test_all_tokens_selected() -> None:
    alpha, values = random_head(6, 7, 5)
    measured = separability(alpha, values, [7])
    assert measured["precision"].item() == measured["recall"].item() == 1.0
    assert np.isnan(measured["r_min"].item())
    assert measured["r_max"].item() > 0


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_zero_weights(kind: type) -> None:
    # Two tokens carry all weight; the others lie at the origin of contributions, at equal distance
    # ‖s‖.
    alpha = np.array([0, 0.75, 0, 0.25, 0], kind)
    values = np.array([[9, 9], [1, 0], [8, 1], [0, 1], [3, 3]], kind)
    for n in range(1, 6):
        expected = loops.separability(alpha, values, n)
        for name, measured in separability(alpha, values, [n]).items():
            assert measured.item() == pytest.approx(expected[name], rel=1e-6, nan_ok=True)


def test_grouped_heads_equal_repeated_values() -> None:
    generator = np.random.default_rng(0)
    alpha = generator.dirichlet(np.ones(33), size=(2, 6)).astype(np.float32)
    values = generator.normal(size=(2, 3, 33, 8)).astype(np.float32)
    grouped = separability(alpha, values)
    repeated = separability(alpha, np.repeat(values, 2, axis=1))
    single = separability(alpha[1, 5], values[1, 2])
    for name in MEASURES:
        assert grouped[name].shape == (2, 6, 33)
        np.testing.assert_array_equal(grouped[name], repeated[name])
        np.testing.assert_array_equal(grouped[name][1, 5], single[name])


def test_sizes_come_back_in_the_order_asked_for() -> None:
    alpha, values = random_head(1, 10, 4)
    every = separability(alpha, values, np.arange(1, 11))["precision"]
    some = separability(alpha, values, [11, 3, 10, 3, 1])["precision"]
    np.testing.assert_array_equal(some, [np.nan, every[2], every[9], every[2], every[0]])


def test_only_sizes_beyond_the_tokens() -> None:
    alpha, values = random_head(1, 4, 4)
    assert np.isnan(separability(alpha, values, [5, 9])["precision"]).all()


def test_a_size_is_measured_alike_in_any_grid() -> None:
    alpha, values = random_head(2, 200, 64, kind=np.float32)
    every = separability(alpha, values, np.arange(1, 201))
    for name, measured in separability(alpha, values, [7, 64, 101, 199]).items():
        np.testing.assert_array_equal(measured, every[name][[6, 63, 100, 198]])


def test_tensors_give_tensors() -> None:
    alpha, values = random_head(3, 12, 6, kind=np.float32)
    expected = separability(alpha, values)
    given_ = torch.tensor(alpha, requires_grad=True), torch.tensor(values).T.contiguous().T
    for name, measured in separability(*given_).items():
        assert isinstance(measured, torch.Tensor)
        assert measured.dtype == torch.float32
        np.testing.assert_array_equal(measured.numpy(), expected[name])
    assert (
        separability(
            torch.tensor(alpha, dtype=torch.bfloat16), torch.tensor(values, dtype=torch.bfloat16)
        )["recall"].dtype
        == torch.float32
    )
    assert separability(*random_head(3, 12, 6))["recall"].dtype == np.float64


@pytest.mark.parametrize("tokens", [1, 2, 3, 63, 64, 65, 100, 257, 1025, 8192])
def test_default_grid(tokens: int) -> None:
    n = default_n(tokens)
    assert n.dtype == np.int64
    assert n[0] == 1
    assert n[-1] == tokens
    assert (np.diff(n) > 0).all()
    assert n[:64].tolist() == list(range(1, min(tokens, 64) + 1))
    assert len(n) <= 160


@pytest.mark.parametrize(
    ("alpha", "values", "n", "message"),
    [
        (
            np.ones((3, 5)),
            np.ones((2, 5, 4)),
            None,
            r"alpha \(3, 5\), values \(2, 5, 4\): expected .* heads a multiple of kv_heads",
        ),
        (
            np.ones((2, 5)),
            np.ones((2, 6, 4)),
            None,
            r"values \(2, 6, 4\): expected \(head, token\)",
        ),
        (
            np.ones((2, 5)),
            np.array([[[np.nan]] * 5, [[1.0]] * 5]),
            None,
            "kv_head 0: NaN or infinity among its value states",
        ),
        (
            np.array([[1.0, 0], [np.inf, 0]]),
            np.ones((1, 2, 2)),
            None,
            "head 1: NaN or infinity among its attention weights",
        ),
        (np.array([0.5, -0.25]), np.ones((2, 2)), None, "head 0: weight -0.25 is negative"),
        (np.ones(3), np.ones((3, 2)), [0, 1], r"n = \[0, 1\]: expected a list of integers from 1"),
        (np.ones(3), np.ones((3, 2)), [1.5], r"n = \[1.5\]: expected a list of integers from 1"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    alpha: np.ndarray, values: np.ndarray, n: list | None, message: str
) -> None:
    with pytest.raises(InputError, match=message) as refused:
        separability(alpha, values, n)
    assert "\n" not in str(refused.value)


OUTSIDE = (1e16, 1e20, 1e30, 1e38, 1e-16, 3e-21, 1e-30, 1e-44)
"""Scales beyond which float32 squares nothing."""


@pytest.mark.parametrize("scale", OUTSIDE)
def test_values_that_float32_cannot_square_are_refused_and_float64_can(scale: float) -> None:
    alpha, values = np.array([0.5, 0.3, 0.2]), np.array([[1.0, 0.0], [-0.5, 0.5], [1.0, 0.2]])
    with pytest.raises(InputError, match=r"its largest value state is .*, expected one from 9e-16"):
        separability(alpha, (values * scale).astype(np.float32))
    with pytest.raises(InputError, match="kv_head 0: its largest"):
        separability(torch.tensor(alpha), torch.tensor(values * scale, dtype=torch.float32))
    wide, plain = separability(alpha, values * scale), separability(alpha, values)
    for name in ("precision", "recall"):
        np.testing.assert_array_equal(wide[name], plain[name])


@settings(max_examples=40)
@given(head=heads, scale=st.sampled_from([1e-14, 1e-12, 1e12, 1e14]))
def test_what_is_not_refused_has_the_numbers_of_exact_squares(
    head: tuple[np.ndarray, np.ndarray], scale: float
) -> None:
    alpha, values = (array.astype(np.float32) for array in head)
    if not values.any():
        return
    power = np.float32(2.0 ** np.round(np.log2(scale / np.abs(values).max())))
    one, other = separability(alpha, values), separability(alpha, values * power)
    for name in ("precision", "recall"):
        np.testing.assert_array_equal(one[name], other[name])


def test_no_tokens_have_no_grid() -> None:
    with pytest.raises(InputError, match="0 tokens"):
        default_n(0)
