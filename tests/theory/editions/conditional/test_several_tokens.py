"""Bounds of E P from several selected tokens jointly: law by simulation, nodes, edge cases."""

import numpy as np
import pytest
from support.heads import given_s, one_selection, profile_head, simulated_distances
from support.model_g import assert_holds, gram_of

from theory.editions.conditional import conditional_edition
from theory.editions.conditional import several_tokens as conditional_crowd
from theory.editions.conditional.conditional_edition import conditional_bounds
from theory.editions.conditional.conditioning import GivenSum
from theory.editions.conditional.quadrature_error import WITHIN
from theory.editions.conditional.several_tokens import crowd_bounds, given_crowd
from theory.evaluate.envelopes import envelope
from theory.evaluate.simulate import simulate


def given_selection(n: int, length: int, dimension: int) -> tuple[GivenSum, np.ndarray]:
    """A selection given s, and simulated squared distances in its units (T, draws)."""
    head, summary = one_selection(n=n, length=length, rho0=-0.5, p_sink=0.1)
    known, _ = given_s(head, summary, dimension)
    return known, simulated_distances(head, n, dimension, draws=6000)


@pytest.mark.parametrize("dimension", [3, 16, 200])
def test_triangles_have_the_moments_of_a_wishart_gram(dimension: int) -> None:
    parts = conditional_crowd._draws(dimension, 2)
    radius, u, pairs = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("radius", "u", "inner")
    )
    inner = u @ u.transpose(0, 2, 1)
    np.testing.assert_allclose(pairs, inner[:, [0, 1, 1], [0, 0, 1]], rtol=1e-12)
    np.testing.assert_allclose((radius**2).mean(), 1, rtol=2e-3)
    np.testing.assert_allclose(inner.mean(axis=0), np.eye(2), atol=5e-3)
    np.testing.assert_allclose(inner.var(axis=0), np.array([[2, 1], [1, 2]]) / dimension, rtol=0.05)
    np.testing.assert_allclose((radius[:, None] * u[:, :, 0]).var(axis=0), 1 / dimension, rtol=0.05)


@pytest.mark.parametrize(
    ("dimension", "chosen"), [(2, [3]), (12, [0, 2, 5]), (64, [1, 2, 3, 4, 5])]
)
def test_average_count_is_that_of_the_simulation(dimension: int, chosen: list[int]) -> None:
    given, distance = given_selection(6, 24, dimension)
    crowd = given_crowd(given, np.array(chosen))
    draws = conditional_crowd._draws(dimension, crowd.factor.shape[1])
    found = np.mean(
        [conditional_crowd._chances(given, crowd, part).mean(axis=0) for part in draws], axis=0
    )
    seen = (distance[6:] <= distance[chosen].max(axis=0)).mean(axis=1)
    np.testing.assert_allclose(found, seen, atol=5 * 0.5 / np.sqrt(6000))


@pytest.mark.parametrize("dimension", [4, 32])
def test_all_of_a_selection_bounds_precision_on_both_sides(dimension: int) -> None:
    given, distance = given_selection(6, 24, dimension)
    value, off = crowd_bounds(given, np.arange(6)[: max(1, dimension - 1)])
    assert off.max() <= WITHIN
    count = (distance[6:] <= distance[:6].max(axis=0)).sum(axis=0)
    for k, size in enumerate((6, 12)):
        p = size / (size + count)
        error = 4 * p.std() / np.sqrt(6000)
        if dimension > 6:
            assert value[2 * k] - off[2 * k] <= p.mean() + error
            assert value[2 * k + 1] - value[2 * k] < 0.15
        assert value[2 * k + 1] + off[2 * k + 1] >= p.mean() - error


def test_more_tokens_of_a_selection_bound_it_better() -> None:
    given, _ = given_selection(6, 24, 16)
    upper = [crowd_bounds(given, np.arange(6)[:m])[0][1] for m in (1, 3, 6)]
    assert upper[0] > upper[1] + 0.002
    assert upper[2] < upper[1] + 0.001  # rounding of the nodes


def test_the_residual_covariance_is_the_schur_complement() -> None:
    given, _ = given_selection(6, 24, 16)
    chosen = np.array([0, 3, 4])
    crowd = given_crowd(given, chosen)
    cross, own = given.rows[chosen, 6:], given.rows[np.ix_(chosen, chosen)]
    assert given.outside is not None
    left = given.outside - cross.T @ np.linalg.solve(own, cross)
    np.testing.assert_allclose(crowd.variance, np.diagonal(left), rtol=1e-8)
    np.testing.assert_allclose(crowd.factor @ crowd.factor.T, own, rtol=1e-10)
    assert crowd.correlation is not None
    np.testing.assert_allclose(
        crowd.correlation,
        np.abs(left) / np.sqrt(np.outer(crowd.variance, crowd.variance)),
        atol=1e-7,
    )


def test_duplicates_within_and_across_the_cut() -> None:
    directions = np.random.default_rng(5).normal(size=(16, 10)) + 0.3
    directions[[4, 12]] = directions[2]
    case = (np.full(16, 1 / 16), 1.0, gram_of(directions), 24, [3, 6, 13])
    narrow = envelope(*case, edition="conditional", sink=None)
    assert_holds(narrow, simulate(*case, draws=6000, sink=None), ["precision"])


def test_without_convergence_the_other_bounds_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    head, summary = one_selection(n=5)
    full, error = conditional_bounds(head, summary, 0, 16, followup=False)
    far_off = (np.full(4, 0.5), np.full(4, 2 * WITHIN))
    monkeypatch.setattr(conditional_edition, "crowd_bounds", lambda given, chosen: far_off)
    left, error_left = conditional_bounds(head, summary, 0, 16, followup=False)
    monkeypatch.setattr(conditional_edition, "sphere_bounds", lambda given: far_off)
    _, error_neither = conditional_bounds(head, summary, 0, 16, followup=False)
    assert max(error, error_left) <= WITHIN < error_neither
    assert left[0] < full[0] + 1e-9
    assert left[1] > full[1] - 1e-9


def test_a_long_head_is_cheap_and_bounded() -> None:
    case = (*profile_head(700, 0.2, 0.2, 0.5, 0.3), 64, [12])
    found = envelope(*case, edition="conditional")
    assert_holds(found, simulate(*case, draws=400), ["precision"])
