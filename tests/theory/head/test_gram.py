"""Gram matrices: feasibility in closed form and by eigenvalue, the edge of ρ₀, projection."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.errors import InputError
from theory.head.gram import (
    LagGram,
    as_matrix,
    constant,
    decaying,
    exponential,
    feasible_edge,
    is_feasible,
    offset_exponential,
    rank_coherence,
    rank_coherence_edge,
    smallest_eigenvalue,
)
from theory.head.projection import nearest_correlation, project


@given(st.integers(2, 40), st.floats(0.02, 4), st.floats(0, 0.95))
@settings(max_examples=50)
def test_closed_form_edge_is_where_the_smallest_eigenvalue_vanishes(
    content: int, beta: float, offset: float
) -> None:
    edge = feasible_edge(beta, content, offset=offset)
    at_edge = offset_exponential(beta, offset, edge, content + 1)
    assert abs(smallest_eigenvalue(at_edge, content + 1)) < 1e-9
    assert is_feasible(offset_exponential(beta, offset, 0.99 * edge, content + 1), content + 1)
    if edge < 0.98:
        beyond = offset_exponential(beta, offset, 1.02 * edge, content + 1)
        assert not is_feasible(beyond, content + 1)
        assert not is_feasible(beyond.matrix(content + 1), content + 1)


@pytest.mark.parametrize(
    ("by_lag", "edge"),
    [
        (offset_exponential(0.3, 0.2, 0.0, 30).by_lag, feasible_edge(0.3, 30, offset=0.2)),
        # Singular, and the all-ones vector is outside its range: no room for a sink.
        ([1.0, -1.0, 1.0, -1.0], 0.0),
        (np.cos(0.3 * np.arange(6)), 0.0),
        ([1.0] * 5, 1.0),
        ([1.0, -0.9, -0.9], np.nan),
    ],
    ids=["closed form", "alternating", "rank two", "all equal", "infeasible"],
)
def test_edge_of_a_sequence(by_lag: list[float], edge: float) -> None:
    found = LagGram(np.array(by_lag)).edge(len(by_lag))
    assert found == pytest.approx(edge, rel=1e-9, abs=0, nan_ok=True)


def test_an_offset_far_below_zero_leaves_no_edge() -> None:
    assert np.isnan(feasible_edge(3.0, 20, offset=-0.5))
    assert not is_feasible(offset_exponential(3.0, -0.5, 0.0, 21), 21)
    assert smallest_eigenvalue(offset_exponential(3.0, -0.5, 0.0, 21), 21) < 0


@pytest.mark.parametrize("cosine", [-0.04, 0.0, 0.3, 0.9])
def test_a_constant_cosine_has_its_edge_in_closed_form(cosine: float) -> None:
    content = 20
    gram = constant(cosine, 0.0, content + 1)
    np.testing.assert_array_equal(gram.by_lag, [1.0] + [cosine] * content)
    edge = gram.edge(content)
    assert edge == pytest.approx(np.sqrt(cosine + (1 - cosine) / content))
    assert edge == pytest.approx(LagGram(gram.by_lag).edge(content), rel=1e-9)
    at_edge = constant(cosine, edge, content + 1)
    assert is_feasible(at_edge, content + 1)
    assert abs(smallest_eigenvalue(at_edge, content + 1)) < 1e-9
    assert not is_feasible(constant(cosine, edge * 1.01, content + 1), content + 1)
    assert not is_feasible(constant(-1.01 / (content - 1), 0.0, content), content, sink=None)


@pytest.mark.parametrize("offset", [-0.02, 0.0, 0.3])
def test_an_offset_adds_its_share_to_the_squared_edge_of_any_decay(offset: float) -> None:
    content = 30
    plain = decaying("power", 0.6, content + 1)
    raised = decaying("power", 0.6, content + 1, offset=offset)
    np.testing.assert_allclose(raised.by_lag, offset + (1 - offset) * plain.by_lag)
    # 1ᵀA⁻¹1 of c11ᵀ + (1−c)P by Sherman and Morrison.
    expected = np.sqrt(offset + (1 - offset) * plain.edge(content) ** 2)
    assert raised.edge(content) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("first", "limit", "gamma"), [(0.6, 0.1, 0.7), (1.0, 0.0, 2.0), (0.3, 0.3, 1.0), (0.5, 0.2, 0)]
)
def test_rank_coherence_is_a_sum_of_nonnegative_parts(first, limit, gamma) -> None:
    content = 12
    c = [limit + (first - limit) * r**-gamma for r in range(1, content + 1)]
    expected = np.diag([1 - value for value in c])
    for k in range(1, content + 1):
        step = c[k - 1] - (c[k] if k < content else 0.0)
        assert step >= 0
        for row in range(k):
            for column in range(k):
                expected[row, column] += step
    edge = np.sqrt(c[-1])  # sufficient: the sink lies in the part common to all
    for rho0 in (0.0, edge, -edge):
        gram = rank_coherence(first, limit, gamma, rho0, content + 1)
        np.testing.assert_allclose(gram[1:, 1:], expected, atol=1e-15)
        np.testing.assert_array_equal(gram[0, 1:], rho0)
        assert is_feasible(gram, content + 1)
    largest = rank_coherence_edge(first, limit, gamma, content)
    solved = np.linalg.solve(expected + 1e-13 * np.eye(content), np.ones(content))
    assert largest == pytest.approx(solved.sum() ** -0.5, rel=1e-6)
    for rho0, feasible in ((largest - 1e-6, True), (-largest - 1e-4, False)):
        gram = rank_coherence(first, limit, gamma, rho0, content + 1)
        assert is_feasible(gram, content + 1) == feasible


@pytest.mark.parametrize("outside", [(0.2, 0.3, 1), (0.2, -0.1, 1), (1.1, 0.1, 1), (0.2, 0.1, -1)])
def test_rank_coherence_that_is_not_one_is_refused(outside) -> None:
    assert np.isnan(rank_coherence_edge(*outside, 5))
    with pytest.raises(InputError, match="expected 0 <= limit <= first <= 1"):
        rank_coherence(*outside, 0.0, 5)


def test_matrix_layout() -> None:
    gram = LagGram(np.array([1.0, 0.5, 0.25]), -0.1)
    content = np.array([[1, 0.5, 0.25], [0.5, 1, 0.5], [0.25, 0.5, 1]])
    np.testing.assert_array_equal(gram.matrix(3, sink=None), content)
    np.testing.assert_array_equal(gram.matrix(4)[1:, 1:], content)
    np.testing.assert_array_equal(gram.matrix(4)[0], [1, -0.1, -0.1, -0.1])
    np.testing.assert_array_equal(gram.matrix(4)[:, 0], [1, -0.1, -0.1, -0.1])


def test_projection_moves_rho0_to_its_edge() -> None:
    found = project(exponential(0.5, -0.9, 50), 50)
    assert found.kind == "sink"
    assert isinstance(found.gram, LagGram)
    assert found.gram.rho0 == pytest.approx(-feasible_edge(0.5, 49))
    assert found.distance == pytest.approx(0.9 - feasible_edge(0.5, 49))
    assert is_feasible(found.gram, 50)
    assert project(found.gram, 50).kind == "none"


def test_projection_of_a_matrix_is_the_nearest_correlation_matrix() -> None:
    # Higham (2002): the nearest correlation matrix to tridiag(1, 1, 1) of size 3.
    before = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    found = project(before, 3)
    assert found.kind == "nearest"
    nearest = [[1, 0.7607, 0.1573], [0.7607, 1, 0.7607], [0.1573, 0.7607, 1]]
    np.testing.assert_allclose(found.gram, nearest, atol=5e-5)
    assert found.distance == pytest.approx(np.linalg.norm(found.gram - before))
    assert is_feasible(found.gram, 3)


def test_no_feasible_gram_is_nearer_than_the_projection() -> None:
    rng = np.random.default_rng(2)
    noisy = np.corrcoef(rng.normal(size=(12, 30))) + 0.3 * rng.normal(size=(12, 12))
    noisy = (noisy + noisy.T) / 2
    np.fill_diagonal(noisy, 1.0)
    found = nearest_correlation(noisy)
    distance = np.linalg.norm(found - noisy)
    assert np.linalg.eigvalsh(found)[0] > -1e-10
    for _ in range(200):
        other = 0.9 * found + 0.1 * np.corrcoef(rng.normal(size=(12, 20)))
        assert np.linalg.norm(other - noisy) >= distance


def test_infeasible_lag_part_is_projected_as_a_matrix() -> None:
    gram = LagGram(np.array([1.0, -0.9, -0.9]), 0.0)
    found = project(gram, 3, sink=None)
    assert found.kind == "nearest"
    np.testing.assert_allclose(found.gram, project(gram.matrix(3, sink=None), 3).gram)


def test_measured_float32_cosines_are_feasible() -> None:
    values = np.random.default_rng(3).normal(size=(200, 16)).astype(np.float32)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    assert is_feasible(values @ values.T, 200)


@given(st.data(), st.integers(2, 80), st.sampled_from([np.float64, np.float32]))
@settings(max_examples=60)
def test_one_asymmetric_pair_anywhere_is_refused(
    data: st.DataObject, tokens: int, dtype: type
) -> None:
    pairs = st.lists(st.integers(0, tokens - 1), min_size=2, max_size=2, unique=True)
    row, column = data.draw(pairs)
    matrix = exponential(0.3, 0.1, tokens).matrix(tokens).astype(dtype)
    matrix[row, column] += data.draw(st.sampled_from([-0.0009, 0.0009]))
    # Within a thousandth: rounding.
    np.testing.assert_array_equal(as_matrix(matrix, tokens), matrix)
    matrix[row, column] = matrix[column, row] + data.draw(st.sampled_from([-0.0011, 0.0011]))
    with pytest.raises(InputError, match="not symmetric"):
        as_matrix(matrix, tokens)


def test_an_asymmetry_that_one_vector_does_not_see_is_refused() -> None:
    # cos(11) and cos(33) are small: a product with cos(1), cos(2), … hardly moves.
    matrix = exponential(0.3, 0.05, 65).matrix(65)
    matrix[10, 32] += 0.07
    with pytest.raises(InputError, match="not symmetric"):
        as_matrix(matrix, 65)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LagGram(np.array([0.5, 0.2])), "Prepend 1"),
        (lambda: LagGram(np.array([[1.0]])), "1-d sequence"),
        (lambda: LagGram(np.array([1.0, 1.5])), "outside"),
        (lambda: LagGram(np.array([1.0]), 2.0), "outside"),
        (lambda: exponential(0.0, 0.1, 5), "beta is 0"),
        (lambda: feasible_edge(1.0, 0), "at least one token"),
    ],
)
def test_bad_grams_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
