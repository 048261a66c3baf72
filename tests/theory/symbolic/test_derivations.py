"""Derivations as identities that sympy proves or small cases enumerated; numbers and symbols."""

import builtins
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from theory.editions.sharp.sharp_law import PairwiseLaw, pairwise_bounds
from theory.evaluate.simulate import separability_of_draws
from theory.head.results import BOUNDS
from theory.statements import catalogue, rendering
from theory.symbolic import definitions, margins, symbols, theorems
from theory.symbolic.operations import Inner, spell_out
from theory.symbolic.symbols import I_N, I_content, J, M, a, a_0, i, j, l, rho, rho_0, y

INSIDE, OUTSIDE = [0, 1, 2], [3, 4]
SETS = {I_N: INSIDE, I_content: [1, 2], J: OUTSIDE}
PAIRS = pytest.mark.parametrize(("inside", "outside"), list(product(INSIDE, OUTSIDE)))


def tidy(expression: sp.Expr) -> sp.Expr:
    """Cosines symmetric, 1 with oneself, ρ₀ with the sink; a[0] is a_0."""

    def cosine(node: sp.Indexed) -> sp.Expr:
        one, other = sorted(int(index) for index in node.indices)
        return sp.Integer(1) if one == other else rho_0 if one == 0 else rho[one, other]

    cosines = {node: cosine(node) for node in expression.atoms(sp.Indexed) if node.base == rho}
    return sp.expand(expression.subs(cosines).subs(a[0], a_0))


def inner(one: dict[int, int], other: dict[int, int]) -> sp.Expr:
    """Mean inner product of two combinations of contributions: E⟨y_k, y_l⟩ = a_k a_l ρ_kl."""
    terms = product(one.items(), other.items())
    return sum((p * q * a[m] * a[n] * rho[m, n] for (m, p), (n, q) in terms), sp.Integer(0))


def distance(token: int) -> sp.Expr:
    """E D_l from its definition alone: D_l = ‖s − y_l‖²."""
    away = {n: int(n in INSIDE) - int(n == token) for n in (*INSIDE, *OUTSIDE)}
    return tidy(inner(away, away))


@PAIRS
def test_mean_gap_includes_the_terms_of_the_sink_and_of_the_token(
    inside: int, outside: int
) -> None:
    stated = tidy(spell_out(margins.MU_EXACT.expression.subs({i: inside, j: outside}), SETS))
    assert sp.expand(stated - distance(outside) + distance(inside)) == 0


@PAIRS
def test_eq_25_is_the_difference_of_squared_distances(inside: int, outside: int) -> None:
    def mean_inner(one: sp.Expr, other: sp.Expr) -> sp.Expr:
        weights = [
            {int(n.indices[0]): int(v) for n, v in side.as_coefficients_dict().items()}
            for side in (one, other)
        ]
        return inner(*weights)

    written = spell_out(definitions.DIFFERENCE.expression.subs({i: inside, j: outside}), SETS)
    stated = tidy(written.replace(Inner, mean_inner))
    assert sp.expand(stated - distance(outside) + distance(inside)) == 0
    assert y in {node.base for node in written.atoms(sp.Indexed)}


@PAIRS
def test_what_print_drops_is_the_sinks_part(inside: int, outside: int) -> None:
    # Errata 4 and 5.
    moments = {k: spell_out(margins.M_J.expression.subs(j, k), SETS) for k in (inside, outside)}
    printed = margins.MU.expression.subs({i: inside, j: outside})
    printed = tidy(printed.subs({M[token]: moment for token, moment in moments.items()}))
    dropped = 2 * a_0 * (rho_0 * a[inside] if inside else a_0) - 2 * a_0 * rho_0 * a[outside]
    assert sp.expand(distance(outside) - distance(inside) - printed - dropped) == 0


def test_minimising_over_the_token_outside_gives_rho_out() -> None:
    # Erratum 2.
    weight = sp.Symbol("weight", real=True)
    mean = a_0**2 + weight**2 - 2 * weight * symbols.S_in * symbols.rho_out
    (best,) = sp.solve(sp.diff(mean, weight), weight)
    assert sp.diff(mean, weight, 2).is_positive
    assert sp.expand(mean.subs(weight, best) - margins.DELTA_0_OUT.expression) == 0
    assert sp.expand(mean.subs(weight, best) - margins.DELTA_0_IN.expression) != 0


@pytest.mark.parametrize("token", [0, 1, 3])
def test_the_sinks_cosine_shifts_squared_distances_by_a_0(token: int) -> None:
    # Erratum 27, and (32)-(33): 2a₀ρ₀(S_in − a_l), 0 for the sink itself.
    shift = sp.expand(distance(token) - distance(token).subs(rho_0, 0))
    stated = definitions.DISTANCE_SHIFT_EXACT.expression.subs(l, token)
    assert sp.expand(shift - (stated.subs(symbols.S_in, a[1] + a[2]) if token else 0)) == 0


def test_the_change_of_delta_on_entry() -> None:
    before, entering = margins.DELTA.expression, symbols.a_max_out
    moves = {symbols.a_min_in: entering, symbols.S_in: symbols.S_in + entering}
    after = before.subs({**moves, entering: symbols.a_next}, simultaneous=True)
    assert sp.expand(after - before - margins.ENTRY_STEP) == 0


def test_the_count_of_pairs_rises_up_to_the_root_of_the_length() -> None:
    # Errata 3 and 25.
    slope = sp.diff(theorems.COUNT_OF_LOSSES.expression, symbols.N)
    assert sp.simplify(slope - ((symbols.L + 1) / symbols.N**2 - 1)) == 0
    short = sp.factor(theorems.COUNT_OF_LOSSES.expression - (symbols.L - symbols.N))
    assert sp.simplify(short * symbols.N - (2 * symbols.N - symbols.L - 1)) == 0


def test_separation_is_the_correlation_of_difference_and_sum() -> None:
    # D_j − D_i = ⟨w_j − w_i, w_j + w_i⟩.
    ii, jj, ij = symbols.Gamma_ii, symbols.Gamma_jj, symbols.Gamma_ij
    variances = (ii + jj - 2 * ij) * (ii + jj + 2 * ij)
    separation = theorems.SEPARATION.expression
    assert sp.simplify(separation**2 - (jj - ii) ** 2 / variances) == 0
    assert sp.simplify(separation.subs({ii: 1, jj: 3, ij: 1}) - 2 / sp.sqrt(12)) == 0


def test_chernoff_bound_follows_from_the_generating_function_of_a_product() -> None:
    # X sums d products of two standard normals of correlation r: E e^{−θUV} = det(1 +
    # θΣS)^(−1/2), S swaps; its minimum over θ > 0.
    theta, r, d = sp.Symbol("theta", positive=True), symbols.r, symbols.d
    covariance, swap = sp.Matrix([[1, r], [r, 1]]), sp.Matrix([[0, 1], [1, 0]])
    base = sp.expand((sp.eye(2) + theta * covariance * swap).det())
    # log E e^{−θuV}: V given U = u is N(ru, 1 − r²).
    u = sp.Symbol("u", real=True)
    given_u = -theta * r * u**2 + (theta * u) ** 2 * (1 - r**2) / 2
    assert sp.expand(u**2 / 2 - given_u - base * u**2 / 2) == 0
    # There base is largest, E e^{−θX} least.
    (best,) = sp.solve(sp.diff(base, theta), theta)
    assert sp.diff(base, theta, 2).subs(r, sp.Rational(1, 2)) < 0
    ratio = base.subs(theta, best) ** (-d / 2) / theorems.CHERNOFF.expression
    assert sp.simplify(ratio).subs({r: sp.Rational(3, 5), d: 7}) == 1
    one, other = np.random.default_rng(0).standard_normal((2, 400_000))
    seen = np.exp(-0.3 * one * (0.4 * one + np.sqrt(1 - 0.16) * other))
    exact = float(base.subs({theta: 0.3, r: 0.4})) ** -0.5
    assert abs(seen.mean() - exact) < 4 * seen.std() / np.sqrt(len(seen))


FUNCTIONS = {
    "precision": (lambda n, count: n / (n + count), 1),
    "f_outer": (lambda n, count: 2 * n / (2 * n + count), 1),
    "f_inner": (lambda n, count: 2 * count / (n + count), -1),
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_jensen_on_the_integers(name: str) -> None:
    # h(k) − chord of h through m, m + 1 is (k−m)(k−m−1) times a factor of one sign: ≥ 0 at every
    # integer k where h is convex.
    value, sign = FUNCTIONS[name]
    n, (count, below) = sp.Symbol("n", positive=True), sp.symbols("count below", nonnegative=True)
    chord = value(n, below) + (count - below) * (value(n, below + 1) - value(n, below))
    rest = sp.simplify((value(n, count) - chord) / ((count - below) * (count - below - 1)))
    assert sp.factor(sign * rest).is_positive


@pytest.mark.parametrize(
    ("entry", "name", "total"),
    [
        ("sharp_precision_lower", "precision", symbols.total),
        ("sharp_f_outer_lower", "f_outer", symbols.total),
        ("sharp_f_inner_upper", "f_inner", symbols.kept),
    ],
)
def test_the_chord_of_the_sharp_edition_meets_the_function_at_integers(
    entry: str, name: str, total: sp.Symbol
) -> None:
    chord = catalogue.statement(entry).expression.subs(symbols.N, 3)
    value = [FUNCTIONS[name][0](sp.Integer(3), sp.Integer(count)) for count in range(5)]
    for count in range(4):
        assert chord.subs(total, count) == value[count]
        half = chord.subs(total, count + sp.Rational(1, 2))
        assert half == (value[count] + value[count + 1]) / 2


def extreme(value: list[float], marginals: list[float], sign: int) -> float:
    """Largest (sign 1) or least (−1) mean of value[number of events] over all joint laws of
    events with these probabilities.
    """
    atoms = list(product((0, 1), repeat=len(marginals)))
    equal = [[1] * len(atoms), *zip(*atoms, strict=True)]
    cost = [-sign * value[sum(atom)] for atom in atoms]
    found = linprog(cost, A_eq=equal, b_eq=[1.0, *marginals], bounds=(0, 1))
    assert found.success
    return -sign * float(found.fun)


def evaluated(name: str, scope: dict) -> float:
    """The Python of a statement where its names have these values."""
    found = {**scope, "math": math, "builtins": builtins}
    exec(rendering.render(catalogue.find(name)[0], "python"), found)
    return float(found[name])


MARGINALS = st.lists(st.fractions(0, 1, max_denominator=12), min_size=1, max_size=4)


@given(MARGINALS, st.integers(1, 5))
@settings(max_examples=30)
def test_comonotone_events_are_extremal(marginals: list[Fraction], n: int) -> None:
    ranked = sorted(marginals, reverse=True)
    for name in ("precision", "f_outer"):
        value = [float(FUNCTIONS[name][0](n, count)) for count in range(len(ranked) + 1)]
        scope = {"N": n, "T": n + len(ranked), "pi": dict(enumerate(ranked, 1))}
        largest = extreme(value, [float(x) for x in marginals], 1)
        assert evaluated(f"sharp_{name}_upper", scope) == pytest.approx(largest, abs=1e-9)


@given(MARGINALS)
@settings(max_examples=30)
def test_comonotone_events_are_extremal_for_the_inner_f(marginals: list[Fraction]) -> None:
    # g is concave in the number kept: its least mean is the comonotone one, and its largest the
    # chord at the mean.
    n, ranked = len(marginals), sorted(marginals, reverse=True)
    value = [float(FUNCTIONS["f_inner"][0](n, count)) for count in range(n + 1)]
    scope = {"N": n, "nu": dict(enumerate(ranked, 1)), "kept": sum(ranked)}
    for side, sign in (("lower", -1), ("upper", 1)):
        exact = extreme(value, [float(x) for x in marginals], sign)
        assert evaluated(f"sharp_f_inner_{side}", scope) == pytest.approx(exact, abs=1e-9)


@given(st.integers(1, 4), st.integers(1, 4), st.data())
@settings(max_examples=40)
def test_sharp_numbers_equal_their_symbols_at_rational_points(
    rows: int, columns: int, data: st.DataObject
) -> None:
    size, part = rows * columns, st.fractions(0, 1, max_denominator=20)
    cells = data.draw(st.lists(part, min_size=size, max_size=size))
    table = np.array(cells, dtype=object).reshape(rows, columns)
    numbers = table.astype(float)
    found = pairwise_bounds(PairwiseLaw(closed=numbers, strict=numbers), followup=False)
    by_row, by_column = table.sum(axis=1), table.sum(axis=0)
    kept = sorted((1 - min(1, total) for total in by_row), reverse=True)
    scope = {
        "N": rows,
        "T": rows + columns,
        "I_N": range(rows),
        "J": range(rows, rows + columns),
        "p": {(m, rows + n): table[m, n] for m, n in np.ndindex(rows, columns)},
        "total": sum(min(1, total) for total in by_column),
        "kept": sum(1 - row.max() for row in table),
        "pi": dict(enumerate(sorted(table.max(axis=0), reverse=True), 1)),
        "nu": dict(enumerate(kept, 1)),
    }
    for bound, value in zip(BOUNDS, found, strict=True):
        assert value == pytest.approx(evaluated(f"sharp_{bound}", scope), abs=1e-12)


@given(st.lists(st.integers(0, 6), min_size=3, max_size=7), st.data())
@settings(max_examples=80)
def test_the_reductions_hold_of_any_distances(distances: list[int], data: st.DataObject) -> None:
    # (19)-(24), and P, R by counting.
    n = data.draw(st.integers(1, len(distances) - 1))
    inside, outside = list(range(n)), list(range(n, len(distances)))
    scope: dict = {"D": distances, "I_N": inside, "J": outside, "N": n}
    for radius in ("r_max", "r_min"):
        scope[radius] = Root(evaluated(f"{radius}_squared", scope) ** 0.5)
    k_out, k_in = evaluated("K_out", scope), evaluated("K_in", scope)
    assert k_out == sum(distances[token] <= max(distances[:n]) for token in outside)
    assert k_out <= evaluated("K_out_at_most", scope)
    assert n - k_in <= evaluated("K_in_at_least", scope)
    for token in outside:
        reach = evaluated("outside_within_reach", scope | {"j": token})
        assert (distances[token] <= max(distances[:n])) <= reach
    for token in inside:
        reach = evaluated("inside_out_of_reach", scope | {"i": token})
        assert (distances[token] > min(distances[n:])) <= reach


class Root(float):
    """A square root whose square is the whole number it came from."""

    def __pow__(self, power: int) -> float:
        return float(round(float(self) * float(self))) if power == 2 else float(self) ** power


def test_the_metrics_are_those_of_the_simulation() -> None:
    # (1)-(3) and (5) at the two radii, against `separability_of_draws`.
    generator = np.random.default_rng(3)
    alpha = np.sort(generator.random(7))[::-1]
    values = generator.standard_normal((7, 4))
    scope: dict = {"alpha": alpha, "v": values, "I_N": range(3), "J": range(3, 7), "N": 3}
    scope |= {"norm": np.linalg.norm, "sum": sum}

    def value(name: str) -> float:
        exec(rendering.render(catalogue.find(name)[0], "python"), scope)
        return scope[name]

    scope["s"] = value("representative")
    y_drawn = (alpha[:, None] * values)[:, None, :]
    found = separability_of_draws(y_drawn, np.arange(7), np.array([3]))[:4, 0, 0]
    seen = {}
    for name in ("r_max", "r_min"):
        scope["radius"] = value(name) * (1 + 1e-12)
        seen[name] = (value("precision"), value("recall"))
    assert found[0] == pytest.approx(seen["r_max"][0])
    assert found[1] == pytest.approx(seen["r_min"][1])
    assert seen["r_max"][1] == 1
    # Erratum 14: the closed inner ball holds a token that is not selected.
    assert seen["r_min"][0] < 1
    scope |= {"P": seen["r_max"][0], "R": 1.0}
    assert found[2] == pytest.approx(value("f_score"))
