"""Each derivation of the theory as an identity that sympy proves, or a small case enumerated;
and the numbers against the symbols.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from theory.audit.simulate import separability_of_draws
from theory.editions.sharp.sharp_law import PairwiseLaw, best_bounds, pair_sums
from theory.statements import catalogue, rendering
from theory.symbolic import definitions, margins, symbols, theorems
from theory.symbolic.operations import Inner, spell_out
from theory.symbolic.symbols import I_N, I_content, J, M, a, a_0, i, j, l, rho, rho_0, y

INSIDE, OUTSIDE = [0, 1, 2], [3, 4]
SETS = {I_N: INSIDE, I_content: [1, 2], J: OUTSIDE}


def tidy(expression: sp.Expr) -> sp.Expr:
    """Cosines symmetric, 1 with oneself, ρ₀ with the sink; a[0] is a_0."""

    def cosine(node: sp.Indexed) -> sp.Expr:
        one, other = sorted(int(index) for index in node.indices)
        return sp.Integer(1) if one == other else rho_0 if one == 0 else rho[one, other]

    cosines = {node: cosine(node) for node in expression.atoms(sp.Indexed) if node.base == rho}
    return sp.expand(expression.subs(cosines).subs(a[0], a_0))


def inner(one: dict[int, int], other: dict[int, int]) -> sp.Expr:
    """Mean inner product of two combinations of contributions: E⟨y_k, y_l⟩ = a_k a_l ρ_kl."""
    return sum(
        (p * q * a[m] * a[n] * rho[m, n] for (m, p), (n, q) in product(one.items(), other.items())),
        sp.Integer(0),
    )


def mean_gap(inside: int, outside: int) -> sp.Expr:
    """E X_ij from the definition of D alone: D_l = ‖s − y_l‖²."""

    def distance(token: int) -> sp.Expr:
        away = {n: int(n in INSIDE) - int(n == token) for n in (*INSIDE, *OUTSIDE)}
        return inner(away, away)

    return tidy(distance(outside) - distance(inside))


@pytest.mark.parametrize(("inside", "outside"), list(product(INSIDE, OUTSIDE)))
def test_mean_gap_holds_the_sinks_and_the_own_terms(inside: int, outside: int) -> None:
    stated = tidy(spell_out(margins.MU_EXACT.subs({i: inside, j: outside}), SETS))
    assert sp.expand(stated - mean_gap(inside, outside)) == 0


@pytest.mark.parametrize(("inside", "outside"), list(product(INSIDE, OUTSIDE)))
def test_eq_25_is_the_difference_of_squared_distances(inside: int, outside: int) -> None:
    def mean_inner(one: sp.Expr, other: sp.Expr) -> sp.Expr:
        weights = [
            {int(n.indices[0]): int(v) for n, v in side.as_coefficients_dict().items()}
            for side in (one, other)
        ]
        return inner(*weights)

    written = spell_out(definitions.DIFFERENCE.subs({i: inside, j: outside}), SETS)
    assert sp.expand(tidy(written.replace(Inner, mean_inner)) - mean_gap(inside, outside)) == 0
    assert y in {node.base for node in written.atoms(sp.Indexed)}


@pytest.mark.parametrize(("inside", "outside"), list(product(INSIDE, OUTSIDE)))
def test_what_print_drops_is_the_sinks_part(inside: int, outside: int) -> None:
    # Errata 4 and 5.
    printed = margins.MU.subs({i: inside, j: outside})
    printed = printed.subs(
        {M[token]: spell_out(margins.M_J.subs(j, token), SETS) for token in (inside, outside)}
    )
    dropped = (
        2 * a_0 * rho_0 * (a[inside] - a[outside])
        if inside
        else 2 * a_0**2 - 2 * a_0 * rho_0 * a[outside]
    )
    assert sp.expand(mean_gap(inside, outside) - tidy(printed) - dropped) == 0


def test_minimising_over_the_token_outside_gives_rho_out() -> None:
    # Erratum 2.
    weight = sp.Symbol("weight", real=True)
    mean = a_0**2 + weight**2 - 2 * weight * symbols.S_in * symbols.rho_out
    (best,) = sp.solve(sp.diff(mean, weight), weight)
    assert sp.diff(mean, weight, 2).is_positive
    assert sp.expand(mean.subs(weight, best) - margins.DELTA_0_OUT) == 0
    assert sp.expand(mean.subs(weight, best) - margins.DELTA_0_IN) != 0


@pytest.mark.parametrize("token", [0, 1, 3])
def test_the_sinks_cosine_shifts_squared_distances_by_a_0(token: int) -> None:
    # Erratum 27, and (32)-(33): 2a₀ρ₀(S_in − a_l), 0 for the sink itself.
    away = {n: int(n in INSIDE) - int(n == token) for n in (*INSIDE, *OUTSIDE)}
    distance = tidy(inner(away, away))
    shift = sp.expand(distance - distance.subs(rho_0, 0))
    stated = (
        definitions.DISTANCE_SHIFT_EXACT.subs(l, token).subs(symbols.S_in, a[1] + a[2])
        if token
        else sp.Integer(0)
    )
    assert sp.expand(shift - stated) == 0


def test_the_change_of_delta_on_entry() -> None:
    before = margins.DELTA
    entering = symbols.a_max_out
    after = before.subs(
        {
            symbols.a_min_in: entering,
            symbols.S_in: symbols.S_in + entering,
            entering: symbols.a_next,
        },
        simultaneous=True,
    )
    assert sp.expand(after - before - margins.ENTRY_STEP) == 0


def test_the_count_of_pairs_rises_up_to_the_root_of_the_length() -> None:
    # Errata 3 and 25.
    slope = sp.diff(theorems.COUNT_OF_LOSSES, symbols.N)
    assert sp.simplify(slope - ((symbols.L + 1) / symbols.N**2 - 1)) == 0
    short = sp.factor(theorems.COUNT_OF_LOSSES - (symbols.L - symbols.N))
    assert sp.simplify(short * symbols.N - (2 * symbols.N - symbols.L - 1)) == 0


def test_separation_is_the_correlation_of_difference_and_sum() -> None:
    # D_j − D_i = ⟨w_j − w_i, w_j + w_i⟩.
    ii, jj, ij = symbols.Gamma_ii, symbols.Gamma_jj, symbols.Gamma_ij
    covariance = jj - ii
    variances = (ii + jj - 2 * ij) * (ii + jj + 2 * ij)
    assert sp.simplify(theorems.SEPARATION**2 - covariance**2 / variances) == 0
    assert sp.simplify(theorems.SEPARATION.subs({ii: 1, jj: 3, ij: 1}) - 2 / sp.sqrt(12)) == 0


def test_chernoff_bound_follows_from_the_generating_function_of_a_product() -> None:
    # X sums d products of two standard normals of correlation r: E e^{−θUV} = det(1 +
    # θΣS)^(−1/2), S swaps; its minimum over θ > 0.
    theta, r, d = sp.Symbol("theta", positive=True), symbols.r, symbols.d
    covariance, swap = sp.Matrix([[1, r], [r, 1]]), sp.Matrix([[0, 1], [1, 0]])
    base = sp.expand((sp.eye(2) + theta * covariance * swap).det())
    u = sp.Symbol("u", real=True)
    given_u = (
        -theta * r * u**2 + (theta * u) ** 2 * (1 - r**2) / 2
    )  # log E e^{−θuV}: V given U = u is N(ru, 1 − r²)
    assert sp.expand(u**2 / 2 - given_u - base * u**2 / 2) == 0
    (best,) = sp.solve(sp.diff(base, theta), theta)
    assert (
        sp.diff(base, theta, 2).subs(r, sp.Rational(1, 2)) < 0
    )  # base is largest, E e^{−θX} least
    assert (
        sp.simplify(base.subs(theta, best) ** (-d / 2) / theorems.CHERNOFF).subs(
            {r: sp.Rational(3, 5), d: 7}
        )
        == 1
    )
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
    n, count, below = (
        sp.Symbol("n", positive=True),
        sp.Symbol("count", nonnegative=True),
        sp.Symbol("below", nonnegative=True),
    )
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
    (found,) = catalogue.find(entry)
    for count in range(4):
        at = {symbols.N: 3, total: count}
        assert found.expression.subs(at) == FUNCTIONS[name][0](sp.Integer(3), sp.Integer(count))
        half = found.expression.subs({symbols.N: 3, total: count + sp.Rational(1, 2)})
        assert (
            half
            == sum(FUNCTIONS[name][0](sp.Integer(3), sp.Integer(count + step)) for step in (0, 1))
            / 2
        )


def extreme(value: list[float], marginals: list[float], sign: int) -> float:
    """Largest (sign 1) or least (−1) mean of value[number of events] over all joint laws of
    events with these probabilities.
    """
    atoms = list(product((0, 1), repeat=len(marginals)))
    equal = [
        [1.0] * len(atoms),
        *([float(atom[m]) for atom in atoms] for m in range(len(marginals))),
    ]
    cost = [-sign * value[sum(atom)] for atom in atoms]
    found = linprog(cost, A_eq=equal, b_eq=[1.0, *marginals], bounds=(0, 1))
    assert found.success
    return -sign * float(found.fun)


@given(st.lists(st.fractions(0, 1, max_denominator=12), min_size=1, max_size=4), st.integers(1, 5))
@settings(max_examples=60)
def test_comonotone_events_are_extremal(marginals: list[Fraction], n: int) -> None:
    ranked = sorted(marginals, reverse=True)
    for entry, name in (("sharp_precision_upper", "precision"), ("sharp_f_outer_upper", "f_outer")):
        value = [float(FUNCTIONS[name][0](n, count)) for count in range(len(ranked) + 1)]
        scope: dict = {"N": n, "T": n + len(ranked), "pi": dict(enumerate(ranked, 1))}
        exec(f"import builtins\n{rendering.render(catalogue.find(entry)[0], 'python')}", scope)
        assert float(scope[entry]) == pytest.approx(
            extreme(value, [float(x) for x in marginals], 1), abs=1e-9
        )


@given(st.lists(st.fractions(0, 1, max_denominator=12), min_size=1, max_size=4))
@settings(max_examples=60)
def test_comonotone_events_are_extremal_for_the_inner_f(marginals: list[Fraction]) -> None:
    # g is concave in the number kept: its least mean is the comonotone one, and its largest the
    # chord at the mean.
    n, ranked = len(marginals), sorted(marginals, reverse=True)
    value = [float(FUNCTIONS["f_inner"][0](n, count)) for count in range(n + 1)]
    scope: dict = {"N": n, "nu": dict(enumerate(ranked, 1)), "kept": sum(ranked)}
    for entry in ("sharp_f_inner_lower", "sharp_f_inner_upper"):
        exec(
            f"import builtins, math\n{rendering.render(catalogue.find(entry)[0], 'python')}", scope
        )
    plain = [float(x) for x in marginals]
    assert float(scope["sharp_f_inner_lower"]) == pytest.approx(extreme(value, plain, -1), abs=1e-9)
    assert float(scope["sharp_f_inner_upper"]) == pytest.approx(extreme(value, plain, 1), abs=1e-9)


SHARP = {
    "precision": ("sharp_precision_lower", "sharp_precision_upper"),
    "recall": ("sharp_recall_lower", "sharp_recall_upper"),
} | {name: (f"sharp_{name}_lower", f"sharp_{name}_upper") for name in ("f_outer", "f_inner")}


@given(st.integers(1, 4), st.integers(1, 4), st.data())
@settings(max_examples=40)
def test_sharp_numbers_equal_their_symbols_at_rational_points(
    rows: int, columns: int, data: st.DataObject
) -> None:
    cells = data.draw(
        st.lists(
            st.fractions(0, 1, max_denominator=20), min_size=rows * columns, max_size=rows * columns
        )
    )
    law = {(m, rows + n): cells[m * columns + n] for m in range(rows) for n in range(columns)}
    table = np.array(cells, dtype=float).reshape(rows, columns)
    found = best_bounds(
        pair_sums(PairwiseLaw(closed=table, strict=table), followup=False), followup=False
    )
    inside, outside = range(rows), range(rows, rows + columns)
    scope: dict = {
        "N": rows,
        "T": rows + columns,
        "I_N": inside,
        "J": outside,
        "p": law,
        "total": sum(min(1, sum(law[m, n] for m in inside)) for n in outside),
        "kept": sum(1 - max(law[m, n] for n in outside) for m in inside),
        "pi": dict(
            enumerate(sorted((max(law[m, n] for m in inside) for n in outside), reverse=True), 1)
        ),
        "nu": dict(
            enumerate(
                sorted((1 - min(1, sum(law[m, n] for n in outside)) for m in inside), reverse=True),
                1,
            )
        ),
    }
    for quantity, names in SHARP.items():
        for side, name in enumerate(names):
            exec(
                f"import builtins, math\n{rendering.render(catalogue.find(name)[0], 'python')}",
                scope,
            )
            assert getattr(found, quantity)[side] == pytest.approx(float(scope[name]), abs=1e-12)


@given(st.lists(st.integers(0, 6), min_size=3, max_size=7), st.data())
@settings(max_examples=80)
def test_the_reductions_hold_of_any_distances(distances: list[int], data: st.DataObject) -> None:
    # (19)-(24), and P, R by counting.
    n = data.draw(st.integers(1, len(distances) - 1))
    inside, outside = list(range(n)), list(range(n, len(distances)))
    scope: dict = {"D": distances, "I_N": inside, "J": outside, "N": n}

    def value(name: str, **known: int) -> float:
        exec(
            f"import math\n{rendering.render(catalogue.find(name)[0], 'python')}",
            scope | known,
            at := {},
        )
        return at[name]

    scope["r_max"], scope["r_min"] = value("r_max_squared") ** 0.5, value("r_min_squared") ** 0.5
    scope["r_max"], scope["r_min"] = (Root(scope[name]) for name in ("r_max", "r_min"))
    k_out, k_in = value("K_out"), value("K_in")
    assert k_out == sum(distances[token] <= max(distances[:n]) for token in outside)
    assert k_out <= value("K_out_at_most")
    assert n - k_in <= value("K_in_at_least")
    for token in outside:
        assert (distances[token] <= max(distances[:n])) <= value("outside_within_reach", j=token)
    for token in inside:
        assert (distances[token] > min(distances[n:])) <= value("inside_out_of_reach", i=token)


class Root(float):
    """A square root whose square is the whole number it came from."""

    def __pow__(self, power: int) -> float:
        return float(round(float(self) * float(self))) if power == 2 else float(self) ** power


def test_the_metrics_are_those_of_the_simulation() -> None:
    # (1)-(3) and (5) at the two radii, against `separability_of_draws`.
    generator = np.random.default_rng(3)
    alpha = np.sort(generator.random(7))[::-1]
    values = generator.standard_normal((7, 4))
    inside, outside = range(3), range(3, 7)
    scope: dict = {
        "alpha": alpha,
        "v": values,
        "I_N": inside,
        "J": outside,
        "N": 3,
        "norm": np.linalg.norm,
        "sum": sum,
    }

    def value(name: str) -> float:
        exec(rendering.render(catalogue.find(name)[0], "python"), scope)
        return scope[name]

    scope["s"] = value("representative")
    found = separability_of_draws(
        (alpha[:, None] * values)[:, None, :], np.arange(7), np.array([3])
    )[:4, 0, 0]
    seen = {}
    for name in ("r_max", "r_min"):
        scope["radius"] = value(name) * (1 + 1e-12)
        seen[name] = (value("precision"), value("recall"))
    assert found[0] == pytest.approx(seen["r_max"][0])
    assert found[1] == pytest.approx(seen["r_min"][1])
    assert seen["r_max"][1] == 1
    assert (
        seen["r_min"][0] < 1
    )  # erratum 14: the closed inner ball holds a token that is not selected
    scope |= {"P": seen["r_max"][0], "R": 1.0}
    assert found[2] == pytest.approx(value("f_score"))
