"""Editions `printed` and `repaired` against exact goldens and against their own symbols."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sympy as sp
from hypothesis import assume, given, settings
from scipy.special import ndtr
from support.golden import array, given_selection, number
from support.places import GOLDEN
from support.strategies import DrawnHead, RationalHead, heads, rational_heads

from theory.editions.printed import (
    FLOOR_PEAK,
    floor_by_row,
    floor_probability,
    harmonic,
    pair_levels,
    printed_bounds,
    printed_margins,
)
from theory.editions.printed_kernels import floors_of_head
from theory.editions.repaired import (
    exact_means,
    pair_variances,
    pair_widths,
    repaired_bounds,
    tails,
    union_bounds,
)
from theory.evaluate.envelopes import envelope
from theory.head.gram import feasible_edge
from theory.head.ranked import Ranked, Summary, rank_tokens, ranked, summarise
from theory.head.results import QUANTITIES
from theory.statements import catalogue
from theory.symbolic import margins, symbols, theorems
from theory.symbolic.meanings import MEANINGS
from theory.symbolic.operations import spell_out

ALL = json.loads((GOLDEN / "theory.json").read_text())["cases"]
CASES = {case["id"]: case for case in ALL}
THEORY = [case["id"] for case in ALL if case["kind"] == "theory"]
RUNS = [(name, run) for name in THEORY for run in range(len(CASES[name]["runs"]))]


def close(seen: object, expected: object) -> None:
    # 1e-10 relative; 1e-9 for tail probabilities below 1e-290, which are 0 in float64.
    np.testing.assert_allclose(seen, expected, rtol=1e-10, atol=1e-290)


@pytest.mark.parametrize("name", THEORY)
def test_margins_equal_exact_arithmetic(name: str) -> None:
    case = CASES[name]
    head, summary = given_selection(case["input"])
    expected, n = case["expected_margins"], int(summary.n[0])
    for key in ("S_in", "a_min_in", "a_max_out", "rho_in", "rho_out"):
        if key in expected:
            close(getattr(summary, key.lower())[0], number(expected[key]))
    for delta0 in ("out", "in"):
        for sink_in_b, label in ((True, "B_incl"), (False, "B_excl")):
            found = printed_margins(summary, delta0=delta0, sink_in_b=sink_in_b, sink_visible=True)
            np.testing.assert_allclose(
                found.margin_sink[0], number(expected[f"Delta0_{delta0}"]), rtol=1e-10
            )
            close(found.scale[0], number(expected[label]))
            if "Delta" in expected:
                close(found.margin[0], number(expected["Delta"]))
            else:
                assert np.isnan(found.margin[0])
    levels = pair_levels(head, summary, 0)
    np.testing.assert_allclose(
        levels[None, n:] - levels[:n, None], array(expected["mu_printed"]), rtol=1e-10, atol=1e-13
    )
    np.testing.assert_allclose(
        exact_means(head, summary, 0), array(expected["mu_exact"]), rtol=1e-10, atol=1e-13
    )
    out = printed_margins(summary, delta0="out", sink_in_b=True, sink_visible=True)
    known = {
        symbols.Delta: out.margin[0],
        symbols.Delta_0: out.margin_sink[0],
        symbols.a_min_out: head.a[n:].min(),
        symbols.a_0: summary.a_sink.item(),
    }
    known |= {
        getattr(symbols, key): getattr(summary, key.lower())[0]
        for key in ("S_in", "a_min_in", "a_max_in", "a_max_out")
    }
    known[symbols.rho_0] = head.cosines[head.sink, n]
    for key, statement in (
        ("Delta_corr", margins.DELTA_WITH_SINK),
        ("Delta0_corr", margins.DELTA_0_WITH_SINK),
    ):
        if key in expected:
            close(float(statement.subs(known)), number(expected[key]))


@pytest.mark.parametrize(("name", "run"), RUNS)
def test_printed_and_repaired_bounds_equal_exact_arithmetic(name: str, run: int) -> None:
    case = CASES[name]
    head, summary = given_selection(case["input"])
    args, expected = case["runs"][run]["args"], case["runs"][run]["expected"]
    d, kappa, n = int(args["d"]), number(args["kappa"]), int(summary.n[0])
    scale = printed_margins(
        summary,
        delta0=args.get("delta0", "out"),
        sink_in_b=args.get("B", "incl") == "incl",
        sink_visible=True,
    )
    found = printed_bounds(head, summary, scale, d, kappa)
    close(found.precision[0][0], number(expected["P_lo_12"]))
    close(found.precision[1][0], number(expected["P_hi_13"]))
    close(found.recall[0][0], number(expected["R_lo_14"]))
    close(found.recall[1][0], number(expected["R_hi_15"]))
    close(found.f_inner[0][0], number(expected["F_rmin_lo_16"]))
    close(found.f_inner[1][0], number(expected["F_rmin_hi_16"]))
    close(found.f_outer[0][0], number(expected["F_rmax_lo_17"]))
    close(found.f_outer[1][0], number(expected["F_rmax_hi_17"]))
    sigma = float(scale.scale[0] / np.sqrt(2 * kappa * d))
    close(sigma, number(expected["sigma"]))
    levels = pair_levels(head, summary, 0)
    xi = (levels[None, n:] - levels[:n, None]) / sigma
    np.testing.assert_allclose(xi, array(expected["xi"]), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        floor_probability(xi), array(expected["p_minus"]), rtol=1e-9, atol=1e-290
    )
    pair = union_bounds(
        tails(
            exact_means(head, summary, 0), np.full((n, head.tokens - n), scale.scale[0]), d, kappa
        )
    )
    np.testing.assert_allclose(
        pair, [number(expected["P_lo_pair"]), number(expected["R_lo_pair"])], rtol=1e-10, atol=1e-15
    )
    repaired = repaired_bounds(head, summary, 0, d, 0.125)
    close(repaired.precision[0], number(expected["P_lo_hom"]))
    close(repaired.recall[0], number(expected["R_lo_hom"]))
    close(repaired.f_outer[0], number(expected["F_rmax_lo_hom"]))
    close(repaired.f_inner[0], number(expected["F_rmin_lo_hom"]))


@pytest.mark.parametrize("name", [case["id"] for case in ALL if case["kind"] == "variance"])
def test_pair_variance_and_repaired_upper_equal_exact_arithmetic(name: str) -> None:
    case = CASES[name]
    head, summary = given_selection(case["input"])
    close(
        pair_variances(head, summary, 0, int(case["input"]["d"])), array(case["expected"]["var_X"])
    )
    found = repaired_bounds(head, summary, 0, int(case["input"]["d"]), 0.125)
    close(
        [found.precision[1], found.recall[1]],
        [number(case["expected"]["P_hi"]), number(case["expected"]["R_hi"])],
    )


def test_pair_variance_equals_its_trace_on_random_heads() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(7, 9))
    cosines = np.corrcoef(vectors)
    a = np.sort(rng.random(7))[::-1].copy()
    head = ranked(np.arange(7), a, np.ones(7), cosines, 2)
    summary = summarise(head, np.array([3]))
    found = pair_variances(head, summary, 0, 50)
    for i in range(3):
        for j in range(3, 7):
            w = np.zeros((7, 7))
            for k in range(3):
                w[k, j] = w[j, k] = w[k, j] - a[k] * a[j]
                if k != i:
                    w[k, i] = w[i, k] = w[k, i] + a[k] * a[i]
            m = w - np.diag((w * cosines).sum(axis=1))
            np.testing.assert_allclose(
                found[i, j - 3], 2 / 50 * np.trace(m @ cosines @ m @ cosines), rtol=1e-10
            )


def test_scalars_equal_exact_arithmetic() -> None:
    floor = CASES["S1_p_minus"]
    np.testing.assert_allclose(
        floor_probability(array(floor["input"]["xi"])),
        array(floor["expected"]["p_minus"]),
        rtol=1e-10,
    )
    np.testing.assert_allclose(FLOOR_PEAK, number(floor["expected"]["argmax"]), rtol=1e-10)
    np.testing.assert_allclose(
        floor_probability(FLOOR_PEAK), number(floor["expected"]["max"]), rtol=1e-10
    )
    close(harmonic(array(CASES["S2_f"]["input"]["x"])), array(CASES["S2_f"]["expected"]["f"]))
    for length, beta, edge in CASES["S3_feasible_rho0"]["expected"]:
        close(feasible_edge(number(beta), int(length)), number(edge))
    shift = CASES["S4_sink_shift"]
    a, rho0, inside = (
        array(shift["input"]["a"]),
        number(shift["input"]["rho0"]),
        shift["input"]["I"],
    )
    cosines = {
        r: np.array(
            [
                [1.0 if k == q else r if 0 in (k, q) else 0.25 ** abs(k - q) for q in range(4)]
                for k in range(4)
            ]
        )
        for r in (0.0, rho0)
    }
    mean = {}
    for r, gram in cosines.items():
        head = ranked(np.arange(4), a, np.ones(4), gram, 0)
        summary = summarise(head, np.array([len(inside)]))
        mean[r] = summary.sigma_ss[0] + head.a**2 - 2 * summary.sigma[0]
    np.testing.assert_allclose(
        mean[rho0] - mean[0.0], array(shift["expected"]["shift_D"]), rtol=1e-10, atol=1e-15
    )


def exact_head(head: RationalHead) -> tuple[Ranked, Summary, dict, dict]:
    """Return the numeric head, its summary, the members of each set, and the values of every
    indexed symbol.
    """
    tokens = len(head.a)
    numeric = ranked(
        np.arange(tokens),
        np.array(head.a, dtype=float),
        np.ones(tokens),
        np.array(head.rho, dtype=float),
        head.sink,
    )
    inside = list(range(head.n))
    members = {
        symbols.I_N: inside,
        symbols.I_content: [k for k in inside if k != head.sink],
        symbols.J: list(range(head.n, tokens)),
    }
    values = {symbols.a[k]: sp.Rational(x.numerator, x.denominator) for k, x in enumerate(head.a)}
    values |= {
        symbols.rho[k, q]: sp.Rational(x.numerator, x.denominator)
        for k, row in enumerate(head.rho)
        for q, x in enumerate(row)
    }
    return numeric, summarise(numeric, np.array([head.n])), members, values


def value(expression: sp.Expr, members: dict, values: dict) -> float:
    return float(spell_out(expression, members).subs(values))


@given(rational_heads())
@settings(max_examples=20)
def test_sums_and_margins_equal_their_symbols(case: RationalHead) -> None:
    head, summary, members, values = exact_head(case)
    defined = len(members[symbols.I_content]) > 0
    close(summary.s_in[0], value(margins.S_IN, members, values))
    close(summary.a_max_out[0], value(margins.A_MAX_OUT, members, values))
    close(summary.a_max_in_with_sink[0], value(margins.A_MAX_IN_WITH_SINK, members, values))
    scalars = {
        symbols.a_0: float(head.a[case.sink]),
        symbols.S_in: summary.s_in[0],
        symbols.a_max_out: summary.a_max_out[0],
    }
    if defined:
        close(summary.a_min_in[0], value(margins.A_MIN_IN, members, values))
        close(summary.a_max_in[0], value(margins.A_MAX_IN_WITHOUT_SINK, members, values))
        close(summary.rho_out[0], value(margins.RHO_OUT, members, values))
        if len(members[symbols.I_content]) > 1:
            close(summary.rho_in[0], value(margins.RHO_IN, members, values))
        scalars |= {
            symbols.a_min_in: summary.a_min_in[0],
            symbols.rho_out: summary.rho_out[0],
            symbols.rho_in: summary.rho_in[0],
        }
        for delta0, statement in (("out", margins.DELTA_0_OUT), ("in", margins.DELTA_0_IN)):
            found = printed_margins(summary, delta0=delta0, sink_in_b=True, sink_visible=True)
            np.testing.assert_allclose(
                found.margin[0], float(margins.DELTA.subs(scalars)), rtol=1e-10, atol=1e-14
            )
            np.testing.assert_allclose(
                found.margin_sink[0], float(statement.subs(scalars)), rtol=1e-10, atol=1e-14
            )
        for sink_in_b, largest in (
            (True, summary.a_max_in_with_sink[0]),
            (False, summary.a_max_in[0]),
        ):
            found = printed_margins(summary, delta0="out", sink_in_b=sink_in_b, sink_visible=True)
            close(found.scale[0], float(margins.SCALE.subs(scalars | {symbols.a_max_in: largest})))


@given(rational_heads())
@settings(max_examples=12)
def test_pair_means_and_widths_equal_their_symbols(case: RationalHead) -> None:
    head, summary, members, values = exact_head(case)
    levels, exact, widths = (
        pair_levels(head, summary, 0),
        exact_means(head, summary, 0),
        pair_widths(head, case.n),
    )
    means = {
        symbols.M[t]: spell_out(margins.M_J.subs(symbols.j, t), members).subs(values)
        for t in range(head.tokens)
    }
    for row in members[symbols.I_N]:
        for column in members[symbols.J]:
            at = {symbols.i: row, symbols.j: column}
            printed = margins.MU.subs(at).subs(means).subs(values)
            np.testing.assert_allclose(
                levels[column] - levels[row], float(printed), rtol=1e-9, atol=1e-13
            )
            np.testing.assert_allclose(
                exact[row, column - case.n],
                value(margins.MU_EXACT.subs(at), members, values),
                rtol=1e-9,
                atol=1e-13,
            )
            close(widths[row, column - case.n], value(margins.WIDTH.subs(at), members, values))


@given(rational_heads())
@settings(max_examples=25)
def test_printed_bounds_equal_their_symbols(case: RationalHead) -> None:
    head, summary, members, _ = exact_head(case)
    found = printed_margins(summary, delta0="out", sink_in_b=True, sink_visible=True)
    numeric = printed_bounds(head, summary, found, 24, 0.25)
    scalars = {
        symbols.L: head.tokens - 1,
        symbols.N: case.n,
        symbols.d: 24,
        symbols.kappa: 0.25,
        symbols.B: found.scale[0],
    }
    scalars[symbols.Delta_0] = found.margin_sink[0]
    # Print leaves Δ undefined when only the sink is selected; its term is then dropped.
    scalars[symbols.Delta] = sp.oo if np.isnan(found.margin[0]) else found.margin[0]
    low = float(theorems.RECALL_LOWER.subs(scalars))
    np.testing.assert_allclose(
        numeric.precision[0][0], float(theorems.PRECISION_LOWER.subs(scalars)), rtol=1e-10
    )
    np.testing.assert_allclose(numeric.recall[0][0], low, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(
        numeric.f_inner[0][0], float(theorems.F_INNER_LOWER.subs(symbols.R_lower, low)), rtol=1e-8
    )
    levels = pair_levels(head, summary, 0)
    sigma = float(margins.SIGMA.subs(scalars))
    floors = {
        symbols.p_floor[row, column]: margins.P_FLOOR.subs(
            symbols.xi, sp.Float((levels[column] - levels[row]) / sigma)
        )
        for row in members[symbols.I_N]
        for column in members[symbols.J]
    }
    size = {symbols.N: case.n}
    close(
        numeric.precision[1][0],
        float(spell_out(theorems.PRECISION_UPPER, members).subs(floors).subs(size)),
    )
    close(
        numeric.recall[1][0],
        float(spell_out(theorems.RECALL_UPPER, members).subs(floors).subs(size)),
    )


@given(rational_heads())
@settings(max_examples=25)
def test_repaired_values_equal_their_symbols(case: RationalHead) -> None:
    head, summary, members, _ = exact_head(case)
    numeric = repaired_bounds(head, summary, 0, 24, 0.125)
    means, spread = (
        exact_means(head, summary, 0),
        np.sqrt(np.maximum(pair_variances(head, summary, 0, 24), 0.0)),
    )
    assume((spread > 0).all())
    tail, chance = tails(means, pair_widths(head, case.n), 24, 0.125), ndtr(-means / spread)
    found: dict[str, float] = {}
    for name in (
        f"repaired_{quantity}_{side}" for quantity in QUANTITIES for side in ("lower", "upper")
    ):
        each = tail if name.endswith("lower") else chance
        given_p = {
            symbols.p[row, column]: each[row, column - case.n]
            for row in members[symbols.I_N]
            for column in members[symbols.J]
        }
        known = {MEANINGS[key].symbol: found[of] for key, of in STANDS_FOR.items() if of in found}
        spelled = spell_out(catalogue.statement(name).expression, members)
        found[name] = float(spelled.subs(given_p | known | {symbols.N: case.n}))
    for quantity in QUANTITIES:
        expected = [found[f"repaired_{quantity}_{side}"] for side in ("lower", "upper")]
        np.testing.assert_allclose(
            getattr(numeric, quantity), expected, rtol=1e-10, atol=1e-13, err_msg=quantity
        )


STANDS_FOR = {
    f"{letter}_{side}": f"repaired_{of}_{side}"
    for letter, of in (("P", "precision"), ("R", "recall"))
    for side in ("lower", "upper")
}
"""What the symbols of the bounds on F are, in the repaired edition."""


@given(heads(min_tokens=3, max_tokens=20))
@settings(max_examples=60)
def test_floor_by_bisection_is_the_maximum_over_all_pairs(case: DrawnHead) -> None:
    order = np.argsort(-case.alpha, kind="stable")
    head = ranked(
        order,
        (case.alpha * case.norms)[order],
        case.norms[order],
        case.gram.matrix(case.tokens, sink=case.sink),
        case.sink,
    )
    summary = summarise(head, np.arange(1, case.tokens))
    for at in range(len(summary.n)):
        n, levels = int(summary.n[at]), pair_levels(head, summary, at)
        for sigma in (1e-3, 0.1, 10.0):
            every = floor_probability((levels[None, n:] - levels[:n, None]) / sigma).max(axis=1)
            np.testing.assert_allclose(
                floor_by_row(head, summary, at, sigma), every, rtol=1e-12, atol=1e-300
            )


@given(heads(min_tokens=2, max_tokens=20))
@settings(max_examples=60)
def test_compiled_floors_are_those_by_bisection(case: DrawnHead) -> None:
    gram = case.gram.matrix(case.tokens, sink=case.sink)
    head = rank_tokens(case.alpha, case.norms, gram, case.sink)
    summary = summarise(head, np.arange(1, case.tokens))
    sink = -1 if head.sink is None else head.sink
    own = (head.a, summary.sigma, sink, head.cosines[sink], summary.n)
    for deviation in (0.0, 1e-3, 0.1, 10.0, np.inf, np.nan):
        found = np.empty((2, len(summary.n)))
        floors_of_head(*own, np.full(len(summary.n), deviation), found)
        for at in range(len(summary.n)):
            rows = floor_by_row(head, summary, at, deviation)
            expected = [rows.max(), rows.mean()]
            np.testing.assert_allclose(found[:, at], expected, rtol=1e-12, atol=1e-300)


def test_printed_bounds_move_when_values_are_rescaled() -> None:
    # Erratum 1: Δ is a squared length, B a length. The golden T3 is T1 with every value ten times
    # as long.
    one, ten = (
        number(CASES[name]["runs"][0]["expected"]["P_lo_12"])
        for name in ("T1_basic_N2", "T3_scale")
    )
    assert ten - one > 0.3
    alpha, gram = np.array([0.5, 0.05, 0.1, 0.6]), array(CASES["T1_basic_N2"]["input"]["rho"])
    found = [envelope(alpha, scale, gram, 128, [2], edition="printed") for scale in (1.0, 10.0)]
    np.testing.assert_allclose([float(x.precision_lower[0]) for x in found], [one, ten], rtol=1e-10)
    fixed = [envelope(alpha, scale, gram, 128, [2], edition="repaired") for scale in (1.0, 10.0)]
    for quantity in QUANTITIES:
        np.testing.assert_allclose(
            getattr(fixed[0], f"{quantity}_lower"),
            getattr(fixed[1], f"{quantity}_lower"),
            rtol=1e-12,
        )
