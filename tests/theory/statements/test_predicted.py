"""Edition `predicted` in numbers equals its statements, at random rational points."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import sympy as sp

from theory.arrays import FloatArray
from theory.editions.predicted.clark import Law, covariances, larger_of_two, largest
from theory.editions.predicted.counts import (
    Counted,
    all_below,
    independent_counts,
    of_count,
    shared_variance,
    waves_at,
)
from theory.editions.predicted.predict import conditional_law, squared_sum_nodes
from theory.evaluate.envelopes import envelope
from theory.head.ranked import rank_tokens, summarise
from theory.statements import catalogue, dimensions, rendering
from theory.symbolic import approximations as x
from theory.symbolic import symbols as s
from theory.symbolic.operations import spell_out
from theory.symbolic.record import latex

SEEDS = (0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4)))


def rational(rng: np.random.Generator, low: int, high: int, over: int = 16) -> sp.Rational:
    return sp.Rational(int(rng.integers(low, high)), over)


def number(expression: sp.Expr, given: dict[sp.Basic, Any]) -> float:
    """The expression at numbers, its sums and indices already spelled out."""
    return float(expression.subs(given).evalf(25))


def head_at(seed: int) -> tuple[Any, Any, FloatArray]:
    """Five tokens of random weights and norms, the three heaviest selected; cosines of random
    directions.
    """
    rng = np.random.default_rng(seed)
    directions = rng.integers(-4, 9, (5, 7)).astype(float) + np.eye(5, 7)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    cosines = directions @ directions.T
    np.fill_diagonal(cosines, 1.0)
    head = rank_tokens(
        rng.permutation(np.arange(1, 6)) / 16, rng.integers(8, 20, 5) / 16, cosines, 0
    )
    return head, summarise(head, np.array([3])), cosines


def moments(head: Any, summary: Any, ratio: float, d: int) -> dict[str, Any]:
    """The law given t by the statements alone."""
    ranks, pairs = range(5), list(product(range(5), repeat=2))
    total = summary.sigma_ss[0]
    given = {s.sigma_ss: total, x.t: ratio * total, s.d: d}
    given |= {s.a[m]: head.a[m] for m in ranks}
    given |= {s.sigma_of[m]: summary.sigma[0, m] for m in ranks}
    given |= {s.rho[pair]: head.cosines[pair] for pair in pairs}

    def of_rank(statement: Any) -> list[float]:
        return [number(statement.expression.subs(s.l, m), given) for m in ranks]

    def of_pair(statement: Any) -> FloatArray:
        found = [number(statement.expression.subs({s.k: m, s.l: n}), given) for m, n in pairs]
        return np.reshape(found, (5, 5))

    given |= dict(zip((x.share[m] for m in ranks), of_rank(x.SHARE), strict=True))
    residual = of_pair(x.RESIDUAL)
    given |= {x.residual[pair]: residual[pair] for pair in pairs}
    mean, cov = of_rank(x.MEAN_GIVEN_T), of_pair(x.COVARIANCE_GIVEN_T)
    given |= {x.D_mean[m]: mean[m] for m in ranks} | {x.D_cov[pair]: cov[pair] for pair in pairs}
    root, root_cov = of_rank(x.CUBE_ROOT_MEAN), of_pair(x.CUBE_ROOT_COVARIANCE)
    return {"mean": mean, "cov": cov, "root": root, "root_cov": root_cov}


def all_covariances(law: Law) -> FloatArray:
    found = np.empty((len(law.a), len(law.a)))
    for k in range(len(law.a)):
        covariances(law, k, 0, found[k])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_moments_given_t_and_of_cube_roots_equal_the_statements(seed: int) -> None:
    head, summary, _ = head_at(seed)
    ratio, d = 0.5 + seed / 4, 4 + seed
    stated = moments(head, summary, ratio, d)
    plain, root = (
        conditional_law(head, summary, 0, ratio, d, power=power) for power in (1.0, 1 / 3)
    )
    np.testing.assert_allclose((1 + plain.mean) * plain.t, stated["mean"], rtol=1e-10)
    np.testing.assert_allclose(
        all_covariances(plain) * plain.t**2, stated["cov"], rtol=1e-9, atol=1e-13
    )
    np.testing.assert_allclose(root.mean, stated["root"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(all_covariances(root), stated["root_cov"], rtol=1e-9, atol=1e-13)


def clark(
    mean: Any, variance: Any, next_mean: Any, next_variance: Any, covariance: Any
) -> dict[sp.Basic, Any]:
    """Spread and ratio of one step of the recursion, and what they are of."""
    given = {x.Y_mean: mean, x.Y_std: sp.sqrt(variance), x.Y_cov[0]: covariance}
    given |= {x.W_mean[0]: next_mean, x.W_cov[0, 0]: next_variance}
    given[x.theta] = x.CLARK_SPREAD.expression.subs(s.k, 0).subs(given)
    given[x.z] = x.CLARK_RATIO.expression.subs(s.k, 0).subs(given)
    return given


@pytest.mark.parametrize("seed", SEEDS)
def test_the_larger_of_two_is_clarks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mean, next_mean = rational(rng, -20, 20), rational(rng, -20, 20)
    variance, next_variance = rational(rng, 8, 30), rational(rng, 8, 30)
    covariance = rational(rng, -7, 8)
    given = clark(mean, variance, next_mean, next_variance, covariance)
    larger = number(x.CLARK_MEAN.expression.subs(s.k, 0), given)
    square = number(x.CLARK_SQUARE.expression.subs(s.k, 0), given)
    moments_given = (float(value) for value in (variance, next_variance, covariance))
    above, spread, kept, new = larger_of_two(float(mean - next_mean), *moments_given)
    assert float(next_mean) + above == pytest.approx(larger, rel=1e-12)
    assert spread == pytest.approx(square - larger**2, rel=1e-10)
    stated = (number(x.Phi(x.z), given), number(x.Phi(-x.z), given))
    assert (kept, new) == pytest.approx(stated, rel=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_recursion_over_three_tokens_is_the_statements(seed: int) -> None:
    head, summary, _ = head_at(seed)
    law = conditional_law(head, summary, 0, 1.0, 5 + seed)
    covariance = all_covariances(law)
    rows = np.empty((3, 5))
    found, load = largest(law, np.array([1, 0, 2]), rows, np.empty(3)), rows[0]
    mean, variance, along = law.mean[1], law.variance[1], covariance[1]
    for k in (0, 2):
        given = clark(mean, variance, law.mean[k], law.variance[k], along[k])
        mean = number(x.CLARK_MEAN.expression.subs(s.k, 0), given)
        variance = number(x.CLARK_SQUARE.expression.subs(s.k, 0), given) - mean**2
        step = x.CLARK_COVARIANCE.expression.subs(s.k, 0)
        points = [{x.Y_cov[s.l]: along[m], x.W_cov[0, s.l]: covariance[k, m]} for m in range(5)]
        along = np.array([number(step, given | point) for point in points])
    assert found == pytest.approx((mean, variance), rel=1e-8)
    np.testing.assert_allclose(load, along, rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_count_given_the_largest_equals_the_statements(seed: int) -> None:
    head, summary, _ = head_at(seed)
    law = conditional_law(head, summary, 0, 1.0, 5 + seed)
    covariance, outside = all_covariances(law), (3, 4)
    rows = np.empty((3, 5))
    mean, variance = largest(law, np.array([0, 1, 2]), rows, np.empty(3))
    load = rows[0]
    edge = float(law.mean[3] + 0.3 * np.sqrt(law.variance[3]))
    given = {x.Y_mean: mean, x.Y_std: np.sqrt(variance), x.edge: edge}
    given |= {x.Y_cov[m]: load[m] for m in outside} | {x.W_mean[m]: law.mean[m] for m in outside}
    given |= {x.W_cov[m, n]: covariance[m, n] for m in outside for n in outside}
    given |= {x.rest[m]: number(x.REST.expression.subs(s.j, m), given) for m in outside}
    h = {x.h[m]: number(x.STANDARDISED.expression.subs(s.j, m), given) for m in outside}
    pairs = [(m, n) for m in outside for n in outside if m != n]

    def of_pair(statement: Any, pair: tuple[int, int]) -> float:
        return number(statement.expression.subs({s.j: pair[0], s.k: pair[1]}), given)

    given |= h
    given |= {x.R_res[pair]: of_pair(x.RESIDUAL_CORRELATION, pair) for pair in pairs}
    given |= {x.K_cov[pair]: of_pair(x.PAIR_COVARIANCE, pair) for pair in pairs}
    stated = [
        number(spell_out(statement.expression, {s.J: list(outside)}), given)
        for statement in (x.COUNT_MEAN, x.COUNT_VARIANCE)
    ]
    deviation = float(np.sqrt(variance))
    along = load[3:] / deviation
    rest = np.array([given[x.rest[m]] for m in outside])
    node, certain = np.array([(edge - mean) / deviation]), np.zeros(2, dtype=np.bool_)
    heights = np.array([[h[x.h[m]] for m in outside]])
    waves = np.empty((1, 4, 2))
    counted = Counted(3, mean, deviation, along, rest, certain, True)
    count, alone = independent_counts(law, counted, node, heights)
    waves_at(heights[0], rest, certain, waves[0])
    shared = shared_variance(law, 3, along[None], rest[None], np.array([0, 1]), waves)
    assert count[0] == pytest.approx(stated[0], rel=1e-8)
    assert alone[0] + shared[0] == pytest.approx(stated[1], rel=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rival_below_moves_the_threshold_as_stated(seed: int) -> None:
    rng = np.random.default_rng(seed)
    g, h, follow = (float(rational(rng, -9, 9)) / 10 for _ in range(3))
    stated = number(x.SHIFTED.expression, {x.below: g, x.h[s.j]: h, x.R_below[s.j]: follow})
    counted = np.array([h])
    all_below(np.array([g]), np.eye(1), counted, np.array([[follow]]))
    assert counted[0] == pytest.approx(stated, rel=1e-12)


@pytest.mark.parametrize("correlation", [-0.75, -0.25, 0.0, 0.25, 0.875, 1.0])
def test_the_covariance_of_two_counts_is_the_series_and_exact_at_its_end(
    correlation: float,
) -> None:
    first, second, cosines = 0.25, -0.5, np.array([[1.0, correlation], [correlation, 1.0]])
    # Under a huge t and a tiny slope the covariance is linear in the cosine, and so is the
    # correlation.
    zero, one = np.zeros(2), np.ones(2)
    law = Law(cosines, one, zero, one, np.full(2, 1e-6), zero, np.full(2, 4.0), 1e12, 1.0)
    row = np.empty(2)
    covariances(law, 0, 0, row)
    h = np.array([first, second])
    below = np.array([math.erfc(-value / math.sqrt(2)) / 2 for value in h])
    waves = np.empty((1, 4, 2))
    waves_at(h, one, np.zeros(2, dtype=np.bool_), waves[0])
    rest = np.full((1, 2), math.sqrt(row[0]))
    found = shared_variance(law, 0, np.zeros((1, 2)), rest, np.array([0, 1]), waves)
    given = {x.h[s.j]: first, x.h[s.k]: second, x.R_res[s.j, s.k]: correlation}
    stated = number(x.PAIR_COVARIANCE.expression, given)
    assert found[0] / 2 == pytest.approx(stated, rel=1e-6, abs=1e-12)
    if correlation == 1.0:
        assert found[0] / 2 == pytest.approx(below[1] * (1 - below[0]), rel=1e-6)


def counted(mean: float, variance: float, size: int, *statements: Any) -> list[float]:
    """Means of functions of a count with these moments, as stated."""
    given = {s.N: size, x.K_mean: mean, x.K_var: variance}
    return [number(statement.expression.args[0], given) for statement in statements]


@pytest.mark.parametrize("seed", SEEDS)
def test_means_of_a_count_are_the_statements_where_it_is_large_or_of_selected_tokens(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    size, mean = int(rng.integers(50, 400)), float(rng.integers(20_000, 60_000))
    law = (mean, float(rng.integers(5_000, 20_000)))
    stated = counted(*law, size, x.PRECISION, x.F_OUTER)
    assert of_count(*law, 100_000, size, False) == pytest.approx(stated, rel=1e-12)
    law = (float(rational(rng, 1, 120)), float(rational(rng, 1, 9)))
    stated = counted(*law, 12, x.RECALL, x.F_INNER)
    assert of_count(*law, 12, 12, True) == pytest.approx(stated, rel=1e-12)


def test_a_small_count_of_the_beta_binomial_law_is_near_the_second_order() -> None:
    stated = counted(3.0, 4.0, 20, x.PRECISION)[0]
    assert of_count(3.0, 4.0, 40, 20, False)[0] == pytest.approx(stated, abs=2e-3)


def test_a_prediction_is_the_mean_over_its_nodes_of_what_is_stated() -> None:
    # Two selected tokens, one outside, no cosines: K_out is 0 or 1, and everything is a mean over t
    # and Y of the statements.
    d = 24
    arguments = ([0.5, 0.4, 0.3], 1.0, np.eye(3), d, [2])
    found = envelope(*arguments, edition="predicted", sink=None)
    head = rank_tokens(np.array([0.5, 0.4, 0.3]), np.ones(3), np.eye(3), None)
    summary, total = summarise(head, np.array([2])), 0.0
    for ratio, weight in zip(*squared_sum_nodes(d), strict=True):
        law = conditional_law(head, summary, 0, float(ratio), d)
        covariance, rows = all_covariances(law), np.empty((2, 3))
        mean, variance = largest(law, np.array([0, 1]), rows, np.empty(2))
        load = rows[0]
        deviation = float(np.sqrt(variance))
        nodes, weights = np.polynomial.hermite_e.hermegauss(40)
        rest = np.sqrt(covariance[2, 2] - (load[2] / deviation) ** 2)
        h = (mean + deviation * nodes - law.mean[2] - load[2] / deviation * nodes) / rest
        beaten = np.array([number(x.Phi(x.z), {x.z: value}) for value in h])
        total += weight * float((weights / weights.sum()) @ (1 - beaten / 3))  # N/(N+K) is 1 or 2/3
    assert found.precision_lower[0] == pytest.approx(total, abs=2e-3)


def test_every_statement_of_the_edition_keeps_its_dimension_and_is_no_bound() -> None:
    entries = [entry for entry in catalogue.entries() if entry.edition == "predicted"]
    assert len(entries) == 23
    for entry in entries:
        assert dimensions.check(entry) == (), entry.name
        assert entry.relation in {"=", "~"}, entry.name
        assert entry.source == "not in print; predicted edition"
    assert [entry.relation for entry in entries if entry.name.startswith("predicted_")] == ["~"] * 4


def test_functions_of_the_normal_law_are_printed_and_evaluated() -> None:
    assert str(x.Phi(x.z)) == "Phi(z)"
    assert str(x.NormalDensity(x.z)) == "phi(z)"
    both = x.Phi(x.z) * x.NormalDensity(x.z)
    assert latex(both) == r"\varphi\left(z_k\right) \Phi\left(z_k\right)"
    assert number(x.Phi(x.z), {x.z: 1}) == pytest.approx(0.8413447460685429, rel=1e-14)
    assert number(x.NormalDensity(x.z), {x.z: 1}) == pytest.approx(0.24197072451914337, rel=1e-14)
    scope: dict[str, Any] = {"math": math, "Y_mean": 1.0, "theta": 2.0, "z": 0.5, "k": 0}
    scope["W_mean"] = [3.0]
    exec(rendering.render(catalogue.statement("clark_mean"), "python"), scope)
    expected = 1.0 * 0.6914624612740131 + 3.0 * 0.3085375387259869 + 2 * 0.3520653267642995
    assert scope["clark_mean"] == pytest.approx(expected)
