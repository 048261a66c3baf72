"""Parts of `conditional`: laws against exact ones, averages over nodes, dependent events."""

from itertools import product

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import chndtr, stdtr
from support.heads import given_s, one_selection

from theory.editions.conditional.conditioning import (
    given_token,
    nearer_outside,
    residual_correlation,
    token_nodes,
)
from theory.editions.conditional.count_bounds import (
    Chances,
    comonotone,
    interpolated,
    none_bound,
    quadratic,
)
from theory.editions.conditional.distance_distribution import (
    Nodes,
    distance_table,
    radius_quantiles,
)
from theory.editions.conditional.kernels import Residuals, distance_rows
from theory.editions.conditional.one_token import SIDES_UPPER, Known, _from_rows
from theory.head.ranked import Ranked, Summary, ranked, summarise
from theory.statements import catalogue
from theory.symbolic import symbols
from theory.symbolic.operations import Mean, spell_out

# The law of a distance.


def probabilities(
    dimension: int, residuals: tuple[np.ndarray, ...], nodes: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """P{D_j ≤ δ} at every node, (nodes, tokens), and their sums, from (variance, pull, slope) of
    tokens and (radius, z, τ, excess) of nodes.
    """
    found, sums = np.empty((len(nodes[0]), len(residuals[0]))), np.empty((3, len(nodes[0])))
    table, radius = distance_table(dimension), nodes[0]
    distance_rows(table, dimension, Residuals(*residuals), Nodes(*nodes, radius), found, sums)
    return found, sums


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 8, 64, 512, 4096])
def test_tabulated_distance_law_is_the_noncentral_chi_square(dimension: int) -> None:
    rng = np.random.default_rng(0)
    variance, pull, slope = rng.random(300) ** 3, rng.random(300), rng.normal(size=300) * 0.5
    radius, z = 1 + rng.normal(size=50) * 0.1, rng.normal(size=50) * 0.3
    tau, distance = rng.random(50), rng.random(50) * 2
    nodes = (radius, z, tau, distance - radius**2)
    found, sums = probabilities(dimension, (variance, pull, slope), nodes)
    offset = ((1 - pull) * radius[:, None] - slope * z[:, None]) ** 2 + slope**2 * tau[:, None]
    # D = (v/d)·χ'²_d(dδ/v). 2e-7 from d = 3 on; at d = 2 the law has a kink that the table rounds
    # off.
    share = dimension / variance
    exact = chndtr(share * distance[:, None], float(dimension), share * offset)
    np.testing.assert_allclose(found, exact, atol=5e-5 if dimension == 2 else 3e-7)
    np.testing.assert_allclose(sums, [found.sum(axis=1), (found**2).sum(axis=1), found.max(axis=1)])


def test_known_distances_are_compared_and_ties_excluded() -> None:
    residuals = (np.array([0.0, 0.0, -1.0]), np.array([0.0, -1.0, 1.0]), np.zeros(3))
    found, _ = probabilities(8, residuals, (np.ones(1), np.zeros(1), np.zeros(1), np.zeros(1)))
    np.testing.assert_array_equal(found, [[1.0, 0.0, 0.0]])


def test_distances_of_tokens_of_no_weight_keep_their_digits() -> None:
    """D_i and D_j are both t up to 1e-18: what is left of their order is that of −2b t − 2√t
    z + …, whatever the scale.
    """
    rng = np.random.default_rng(1)
    pull, slope, radius = rng.random(40), rng.normal(size=40), np.array([1.1, 0.9])
    chances = []
    for scale in (1e-7, 1e-18):
        z, excess = np.array([0.3, -0.2]) * scale, np.array([0.5, -1.2]) * scale
        residuals = (np.full(40, scale**2), pull * scale, slope)
        chances.append(probabilities(16, residuals, (radius, z, z**2, excess))[0])
    assert 0.2 < chances[1].mean() < 0.8
    np.testing.assert_allclose(chances[0], chances[1], atol=1e-5)


@pytest.mark.parametrize("dimension", [1, 5, 64, 4096])
def test_radius_quantiles_have_the_moments_of_chi(dimension: int) -> None:
    scores, radius = radius_quantiles(dimension)
    weight = np.exp(-(scores**2) / 2) / np.exp(-(scores**2) / 2).sum()
    moments = [weight @ radius**2, weight @ radius**4]
    np.testing.assert_allclose(moments, [1, 1 + 2 / dimension], rtol=1e-6)


# What is known given Z_i = (s, y_i), by symbols.


def symbolic_selection() -> tuple[sp.Matrix, Ranked, Summary]:
    """Return C of T = 4 exactly, and the same head in numbers; N = 2."""
    a = [sp.Rational(1), sp.Rational(3, 4), sp.Rational(1, 2), sp.Rational(2, 5)]
    rho = sp.Matrix(
        4, 4, lambda k, m: 1 if k == m else sp.Rational(1, 3) ** abs(k - m) - sp.Rational(1, 20)
    )
    cosines = np.array(rho.tolist(), dtype=float)
    head = ranked(np.arange(4), np.array(a, dtype=float), cosines, 0)
    c = sp.Matrix(4, 4, lambda k, m: a[k] * a[m] * rho[k, m])
    return c, head, summarise(head, np.array([2]))


def test_conditional_mean_of_a_distance_is_the_noncentral_chi_squares() -> None:
    """E[D_l | s, y_i] from the Gaussian conditional law by Schur complement equals v_{l|i} +
    δ_l, whatever s, y_i are.
    """
    c, head, summary = symbolic_selection()
    known_s, _ = given_s(head, summary, 16)
    t, z, tau = sp.symbols("t z tau", positive=True)
    total = (c[:2, :2] * sp.ones(2, 1)).dot(sp.ones(2, 1))
    for i, j in product(range(2), range(2, 4)):
        row = sp.Matrix([[c[0, j] + c[1, j], c[i, j]]])
        b_i = (c[0, i] + c[1, i]) / total
        known = sp.Matrix([[total, c[0, i] + c[1, i]], [c[0, i] + c[1, i], c[i, i]]])
        weights = row * known.inv()
        s = sp.Matrix([sp.sqrt(t), 0])
        y_i = b_i * s + sp.Matrix([z, sp.sqrt(tau)])
        rest = s - weights[0] * s - weights[1] * y_i
        left = c[j, j] - (row * known.inv() * row.T)[0]
        mean = sp.expand(rest.dot(rest) + left)
        token = given_token(known_s, i, np.ones(2))
        pull, slope = known_s.pull[j], token.slope[j - 2]
        offset = ((1 - pull) * np.sqrt(1.7) - slope * 0.3) ** 2 + slope**2 * 0.9
        # The code's unit is σ_ss.
        found, stated = offset + token.variance[j - 2] * float(total), {t: 1.7, z: 0.3, tau: 0.9}
        np.testing.assert_allclose(found, float(mean.subs(stated)), rtol=1e-12)
        # Averaged over t, z, τ it is Γ_ll, the unconditional mean of D_l.
        v_i = c[i, i] - b_i**2 * total
        r, d = sp.symbols("r d")
        poly = sp.Poly(sp.expand(mean.subs(sp.sqrt(t), r).subs(t, r**2)), r, z, tau)
        moments = {(2, 0, 0): total, (1, 1, 0): 0, (0, 0, 0): 1}
        moments |= {(0, 2, 0): v_i / d, (0, 0, 1): v_i * (d - 1) / d}
        expected = sum(value * moments[power] for power, value in poly.terms())
        assert sp.simplify(expected - (total - 2 * (c[0, j] + c[1, j]) + c[j, j])) == 0


def test_upper_bound_of_one_count_by_symbols() -> None:
    """f(k) = f(κ) + N(κ−k)/(N+κ)² + f(k)(κ−k)²/(N+κ)², exactly."""
    n, k, kappa = sp.symbols("N k kappa", positive=True)
    value, at_mean = n / (n + k), n / (n + kappa)
    rest = (n * (kappa - k) + value * (kappa - k) ** 2) / (n + kappa) ** 2
    assert sp.simplify(at_mean + rest - value) == 0


# Averages over Z_i.


@pytest.mark.parametrize(("dimension", "off"), [(2, 2e-3), (16, 2e-4), (512, 2e-5)])
def test_average_over_the_nodes_is_the_exact_pairwise_law(dimension: int, off: float) -> None:
    head, summary = one_selection()
    known_s, law = given_s(head, summary, dimension, variance=False)
    for i in range(4):
        token = given_token(known_s, i, law[i])
        nodes = token_nodes(known_s, [token], 0, 2**12)
        chances = nearer_outside(known_s, [token], nodes).probability
        np.testing.assert_allclose(token.rotation @ token.rotation.T, np.eye(3), atol=1e-12)
        np.testing.assert_allclose(nodes.weight.mean(), 1, atol=1e-5)
        np.testing.assert_allclose(nodes.weight[0] @ chances[0] / 2**12, law[i], atol=off)
        exact = stdtr(dimension, -np.sqrt(dimension) * student_ratio(head, i))
        np.testing.assert_allclose(law[i], exact, rtol=1e-8)


def student_ratio(head: Ranked, i: int) -> np.ndarray:
    """Return (Γ_jj − Γ_ii)/(2√det) for N = 4 the long way."""
    c = head.a[:, None] * head.a * head.cosines
    w = np.concatenate([np.ones(4), np.zeros(head.tokens - 4)]) - np.eye(head.tokens)
    gamma = w @ c @ w.T
    own, cross = np.diagonal(gamma)[4:], gamma[i, 4:]
    return (own - gamma[i, i]) / (2 * np.sqrt(own * gamma[i, i] - cross**2))


def test_variance_of_the_count_given_the_node_is_below_its_bound() -> None:
    known_s, _ = given_s(*one_selection(), 12)
    token = given_token(known_s, 1, np.ones(21))
    nodes = token_nodes(known_s, [token], 0, 4)
    chances = nearer_outside(known_s, [token], nodes)
    correlation = residual_correlation(known_s, token)
    bound = quadratic(chances.probability[0], correlation)
    # Draw what is left of y_j given Z_i: e_j − g_j e_i has covariance C̃ − g gᵀ v_i over d.
    left = known_s.outside - np.outer(token.slope, token.slope) * known_s.residual[token.i]
    rng = np.random.default_rng(0)
    noise = rng.multivariate_normal(np.zeros(21), left / 12, size=(20_000, 12)).transpose(0, 2, 1)
    for k in range(4):
        known = np.zeros((21, 12))
        known[:, 0] = (1 - known_s.pull[4:]) * nodes.radius[0, k] - token.slope * nodes.z[0, k]
        known[:, 1] = -token.slope * np.sqrt(nodes.tau[0, k])
        distance = ((known - noise) ** 2).sum(axis=2)
        count = (distance <= nodes.radius[0, k] ** 2 + nodes.excess[0, k]).sum(axis=1)
        error = 5 * count.std() / np.sqrt(20_000) + 1e-3
        np.testing.assert_allclose(count.mean(), chances.expected[0, k], atol=error)
        assert count.var() * 0.95 <= bound[k]
    np.testing.assert_allclose(np.diagonal(correlation), 1, rtol=1e-6)


# Sums of dependent events.


def chances_of(each: np.ndarray) -> Chances:
    sums = {"expected": each.sum(axis=2), "squares": (each**2).sum(axis=2)}
    return Chances(probability=each, largest=each.max(axis=2), **sums)


def test_bounds_of_a_count_by_hand() -> None:
    each = np.array([[0.5, 0.25], [0.0, 0.0], [1.0, 1.0]])
    # V of the first row: 1/4 + 3/16 + 2·ρ·√(3/64) with ρ = 1/2; V/(V + 9/16) against 1 − 1/2.
    v = 1 / 4 + 3 / 16 + np.sqrt(3 / 64)
    found = none_bound(chances_of(each[None]), lambda group: np.array([[1, 0.5], [0.5, 1]]))
    np.testing.assert_allclose(found, [[min(0.5, v / (v + 9 / 16)), 1, 0]], rtol=1e-4)
    found = comonotone(np.sort(each, axis=1), 2)
    np.testing.assert_allclose(found, [1 - 0.5 / 3 - 0.25 / 6, 1, 0.5])
    found = interpolated(np.array([0.0, 0.5, 1.0, 1.5, 2.0]), 2)
    np.testing.assert_allclose(found, [1, 5 / 6, 2 / 3, 7 / 12, 1 / 2])


@pytest.mark.slow
@given(st.integers(1, 4), st.integers(1, 4), st.data())
@settings(max_examples=8)
def test_conditional_f_equals_its_symbols_at_rational_points(
    rows: int, columns: int, data: st.DataObject
) -> None:
    """At one node, whose mean is itself, what is computed from F_j, V_i and κ_i is what the
    statements say.
    """
    part = st.fractions(0, 1, max_denominator=30).map(sp.Rational)
    beat = [[data.draw(part) for _ in range(columns)] for _ in range(rows)]
    spread = [data.draw(part) + sp.Rational(1, 50) for _ in range(rows)]
    count = [sum(row) for row in beat]
    low = [max(0, 1 - total) for total in count]
    high = [
        min(1 - max(row), v / (v + k**2)) for row, v, k in zip(beat, spread, count, strict=True)
    ]
    best = [1 - interpolated(np.array([float(total)]), 2 * rows)[0] for total in count]
    means = np.array([low, high, [0] * rows, best], dtype=float).T
    known = Known(
        bounds=np.where(SIDES_UPPER, np.inf, -np.inf),
        loss=np.zeros(2),
        single=np.ones(rows, dtype=bool),
        order=np.argsort(np.array(count, dtype=float), kind="stable"),
        count=np.zeros(rows),
    )
    found = _from_rows(means, known)
    over = [comonotone(np.sort(np.array([row], dtype=float)), 2 * rows)[0] for row in beat]
    loose = [
        2 * rows / (2 * rows + float(total)) + float(v) / (2 * rows + float(total)) ** 2
        for v, total in zip(spread, count, strict=True)
    ]
    names = ("f_outer_lower", "f_inner_lower", "f_inner_upper")
    expected = dict(zip(names, found[[4, 6, 7]], strict=True))
    expected["f_outer_upper"] = np.minimum(over, loose).min()

    members = {symbols.I_N: list(range(rows)), symbols.J: list(range(rows, rows + columns))}
    values = {symbols.N: rows, symbols.T: rows + columns, symbols.safe_most: sum(high)}
    values |= {symbols.safe[m + 1]: value for m, value in enumerate(sorted(low, reverse=True))}
    for k in range(rows):
        values |= {symbols.count[k]: count[k], symbols.spread[k]: spread[k]}
        ranked_row = enumerate(sorted(beat[k], reverse=True), 1)
        values |= {symbols.beat_ranked[k, m]: value for m, value in ranked_row}
    for name, number in expected.items():
        statement = catalogue.statement(f"conditional_{name}").expression
        plain = statement.replace(Mean, lambda value: value)
        spelled = spell_out(plain, members).subs({symbols.N: rows, symbols.T: rows + columns})
        spelled = spelled.replace(sp.Sum, lambda *arguments: sp.Sum(*arguments).doit())
        assert float(spelled.subs(values)) == pytest.approx(number, rel=1e-10, abs=1e-13), name


def test_a_row_of_no_weight_is_left_with_its_plain_bound() -> None:
    chances = chances_of(np.full((1, 2, 4), 0.5))
    heavy, light = none_bound(chances, lambda group: np.eye(4), np.array([[1.0, 1e-4]]))[0]
    np.testing.assert_allclose([heavy, light], [1 / (1 + 4), 0.5], rtol=1e-4)
