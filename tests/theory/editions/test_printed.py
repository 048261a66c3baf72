"""Editions `printed` and `repaired` against exact goldens and their symbolic expressions."""

import numpy as np
import pytest
import sympy as sp
from hypothesis import assume, given, settings
from scipy.special import ndtr
from support.golden import CASES, array, given_selection, names_of, number
from support.model_g import assert_same
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
from theory.editions.profile_kernels import floors_of_head
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
from theory.head.results import BOUNDS
from theory.statements import catalogue
from theory.symbolic import margins, symbols, theorems
from theory.symbolic.operations import spell_out
from theory.symbolic.record import MEANINGS

THEORY = names_of("theory")
RUNS = [(name, run) for name in THEORY for run in range(len(CASES[name]["runs"]))]


def close(seen: object, expected: object, rtol: float = 1e-10, atol: float = 1e-290) -> None:
    # Tail probabilities below 1e-290 are 0 in float64.
    np.testing.assert_allclose(seen, expected, rtol=rtol, atol=atol)


def printed_gaps(head: Ranked, summary: Summary) -> np.ndarray:
    """μ_ij of print, (N, M), from the levels of eq. (11)."""
    n, levels = int(summary.n[0]), pair_levels(head, summary, 0)
    return levels[None, n:] - levels[:n, None]


@pytest.mark.parametrize("name", THEORY)
def test_margins_equal_exact_arithmetic(name: str) -> None:
    head, summary = given_selection(CASES[name]["input"])
    expected, n = CASES[name]["expected_margins"], int(summary.n[0])
    for key in ("S_in", "a_min_in", "a_max_out", "rho_in", "rho_out"):
        if key in expected:
            close(getattr(summary, key.lower())[0], number(expected[key]))
    for delta0 in ("out", "in"):
        for sink_in_b, label in ((True, "B_incl"), (False, "B_excl")):
            found = printed_margins(summary, delta0=delta0, sink_in_b=sink_in_b, sink_visible=True)
            close(found.margin_sink[0], number(expected[f"Delta0_{delta0}"]), atol=0)
            close(found.scale[0], number(expected[label]))
            close(found.margin[0], number(expected["Delta"]) if "Delta" in expected else np.nan)
    close(printed_gaps(head, summary), array(expected["mu_printed"]), atol=1e-13)
    close(exact_means(head, summary, 0), array(expected["mu_exact"]), atol=1e-13)
    out = printed_margins(summary, delta0="out", sink_in_b=True, sink_visible=True)
    known = {symbols.Delta: out.margin[0], symbols.Delta_0: out.margin_sink[0]}
    known |= {symbols.a_min_out: head.a[n:].min(), symbols.a_0: summary.a_sink.item()}
    known[symbols.rho_0] = head.cosines[head.sink, n]
    for key in ("S_in", "a_min_in", "a_max_in", "a_max_out"):
        known[getattr(symbols, key)] = getattr(summary, key.lower())[0]
    for key, statement in (
        ("Delta_corr", margins.DELTA_WITH_SINK),
        ("Delta0_corr", margins.DELTA_0_WITH_SINK),
    ):
        if key in expected:
            close(float(statement.expression.subs(known)), number(expected[key]))


@pytest.mark.parametrize(("name", "run"), RUNS)
def test_printed_and_repaired_bounds_equal_exact_arithmetic(name: str, run: int) -> None:
    head, summary = given_selection(CASES[name]["input"])
    args, expected = CASES[name]["runs"][run]["args"], CASES[name]["runs"][run]["expected"]
    d, kappa = int(args["d"]), number(args["kappa"])
    sink_in_b = args.get("B", "incl") == "incl"
    scale = printed_margins(
        summary, delta0=args.get("delta0", "out"), sink_in_b=sink_in_b, sink_visible=True
    )
    names = ["P_lo_12", "P_hi_13", "R_lo_14", "R_hi_15"]
    names += ["F_rmax_lo_17", "F_rmax_hi_17", "F_rmin_lo_16", "F_rmin_hi_16"]
    found = printed_bounds(head, summary, scale, d, kappa)
    close(found[:, 0], [number(expected[key]) for key in names])
    sigma = float(scale.scale[0] / np.sqrt(2 * kappa * d))
    close(sigma, number(expected["sigma"]))
    xi = printed_gaps(head, summary) / sigma
    close(xi, array(expected["xi"]), atol=1e-10)
    close(floor_probability(xi), array(expected["p_minus"]), rtol=1e-9)
    means = exact_means(head, summary, 0)
    pair = union_bounds(tails(means, np.full_like(means, scale.scale[0]), d, kappa))
    close(pair, [number(expected["P_lo_pair"]), number(expected["R_lo_pair"])], atol=1e-15)
    names = ["P_lo_hom", "R_lo_hom", "F_rmax_lo_hom", "F_rmin_lo_hom"]
    repaired = repaired_bounds(head, summary, 0, d, 0.125)
    close(repaired[::2], [number(expected[key]) for key in names])


@pytest.mark.parametrize("name", names_of("variance"))
def test_pair_variance_and_repaired_upper_equal_exact_arithmetic(name: str) -> None:
    head, summary = given_selection(CASES[name]["input"])
    d, expected = int(CASES[name]["input"]["d"]), CASES[name]["expected"]
    close(pair_variances(head, summary, 0, d), array(expected["var_X"]))
    found = repaired_bounds(head, summary, 0, d, 0.125)
    close(found[1:4:2], [number(expected[key]) for key in ("P_hi", "R_hi")])


def test_pair_variance_equals_its_trace_on_random_heads() -> None:
    rng = np.random.default_rng(0)
    cosines = np.corrcoef(rng.normal(size=(7, 9)))
    a = np.sort(rng.random(7))[::-1].copy()
    head = ranked(np.arange(7), a, cosines, 2)
    found = pair_variances(head, summarise(head, np.array([3])), 0, 50)
    for i in range(3):
        for j in range(3, 7):
            w = np.zeros((7, 7))
            for k in range(3):
                w[k, j] = w[j, k] = w[k, j] - a[k] * a[j]
                if k != i:
                    w[k, i] = w[i, k] = w[k, i] + a[k] * a[i]
            m = w - np.diag((w * cosines).sum(axis=1))
            close(found[i, j - 3], 2 / 50 * np.trace(m @ cosines @ m @ cosines))


def test_scalars_equal_exact_arithmetic() -> None:
    floor = CASES["S1_p_minus"]["expected"]
    close(floor_probability(array(CASES["S1_p_minus"]["input"]["xi"])), array(floor["p_minus"]))
    close(FLOOR_PEAK, number(floor["argmax"]))
    close(floor_probability(FLOOR_PEAK), number(floor["max"]))
    close(harmonic(array(CASES["S2_f"]["input"]["x"])), array(CASES["S2_f"]["expected"]["f"]))
    for length, beta, edge in CASES["S3_feasible_rho0"]["expected"]:
        close(feasible_edge(number(beta), int(length)), number(edge))


def test_the_shift_by_the_sinks_cosine_equals_exact_arithmetic() -> None:
    given_values = CASES["S4_sink_shift"]["input"]
    a, n = array(given_values["a"]), len(given_values["I"])

    def mean_distances(rho0: float) -> np.ndarray:
        gram = 0.25 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
        gram[0, 1:] = gram[1:, 0] = rho0
        head = ranked(np.arange(4), a, gram, 0)
        summary = summarise(head, np.array([n]))
        return summary.sigma_ss[0] + head.a**2 - 2 * summary.sigma[0]

    shift = mean_distances(number(given_values["rho0"])) - mean_distances(0.0)
    close(shift, array(CASES["S4_sink_shift"]["expected"]["shift_D"]), atol=1e-15)


def exact_head(head: RationalHead) -> tuple[Ranked, Summary, dict, dict]:
    """Return the numeric head, its summary, the members of each set, and the values of every
    indexed symbol.
    """
    tokens = len(head.a)
    a, rho = np.array(head.a, dtype=float), np.array(head.rho, dtype=float)
    numeric = ranked(np.arange(tokens), a, rho, head.sink)
    inside = list(range(head.n))
    members = {
        symbols.I_N: inside,
        symbols.I_content: [k for k in inside if k != head.sink],
        symbols.J: list(range(head.n, tokens)),
    }
    values = {symbols.a[k]: sp.Rational(x) for k, x in enumerate(head.a)}
    for k, row in enumerate(head.rho):
        values |= {symbols.rho[k, q]: sp.Rational(x) for q, x in enumerate(row)}
    return numeric, summarise(numeric, np.array([head.n])), members, values


def at(expression: sp.Expr, values: dict) -> float:
    """The expression at numbers, by `xreplace` in a tenth of the time of `subs`."""
    return float(expression.xreplace({symbol: sp.sympify(x) for symbol, x in values.items()}))


def value(expression: sp.Expr, members: dict, values: dict) -> float:
    return at(spell_out(expression, members), values)


@given(rational_heads())
@settings(max_examples=20)
def test_sums_and_margins_equal_their_symbols(case: RationalHead) -> None:
    head, summary, members, values = exact_head(case)
    stated = {
        "s_in": margins.S_IN,
        "a_max_out": margins.A_MAX_OUT,
        "a_max_in_with_sink": margins.A_MAX_IN_WITH_SINK,
    }
    content = len(members[symbols.I_content])
    if content:
        stated |= {
            "a_min_in": margins.A_MIN_IN,
            "a_max_in": margins.A_MAX_IN_WITHOUT_SINK,
            "rho_out": margins.RHO_OUT,
        }
    if content > 1:
        stated["rho_in"] = margins.RHO_IN
    for name, statement in stated.items():
        close(getattr(summary, name)[0], value(statement.expression, members, values))
    if not content:
        return
    scalars = {symbols.a_0: float(head.a[case.sink])}
    for name in ("S_in", "a_max_out", "a_min_in", "rho_out", "rho_in"):
        scalars[getattr(symbols, name)] = getattr(summary, name.lower())[0]
    for delta0, statement in (("out", margins.DELTA_0_OUT), ("in", margins.DELTA_0_IN)):
        found = printed_margins(summary, delta0=delta0, sink_in_b=True, sink_visible=True)
        close(found.margin[0], at(margins.DELTA.expression, scalars), atol=1e-14)
        close(found.margin_sink[0], at(statement.expression, scalars), atol=1e-14)
    for sink_in_b, largest in ((True, summary.a_max_in_with_sink), (False, summary.a_max_in)):
        found = printed_margins(summary, delta0="out", sink_in_b=sink_in_b, sink_visible=True)
        known = scalars | {symbols.a_max_in: largest[0]}
        close(found.scale[0], at(margins.SCALE.expression, known))


@given(rational_heads())
@settings(max_examples=12)
def test_pair_means_and_widths_equal_their_symbols(case: RationalHead) -> None:
    head, summary, members, values = exact_head(case)
    printed, exact = printed_gaps(head, summary), exact_means(head, summary, 0)
    widths = pair_widths(head, case.n)
    means = {
        symbols.M[t]: value(margins.M_J.expression.subs(symbols.j, t), members, values)
        for t in range(head.tokens)
    }
    for row in members[symbols.I_N]:
        for column in members[symbols.J]:
            pair, place = {symbols.i: row, symbols.j: column}, (row, column - case.n)
            stated = at(margins.MU.expression.subs(pair), means | values)
            close(printed[place], stated, rtol=1e-9, atol=1e-13)
            stated = value(margins.MU_EXACT.expression.subs(pair), members, values)
            close(exact[place], stated, rtol=1e-9, atol=1e-13)
            close(widths[place], value(margins.WIDTH.expression.subs(pair), members, values))


def of_pairs(symbol: sp.IndexedBase, table: np.ndarray) -> dict[sp.Indexed, float]:
    """Values of a symbol of a selected token and one outside, from a table (N, M)."""
    n = len(table)
    return {symbol[i, n + j]: table[i, j] for i in range(n) for j in range(table.shape[1])}


@given(rational_heads())
@settings(max_examples=25)
def test_printed_bounds_equal_their_symbols(case: RationalHead) -> None:
    head, summary, members, _ = exact_head(case)
    found = printed_margins(summary, delta0="out", sink_in_b=True, sink_visible=True)
    numeric = dict(zip(BOUNDS, printed_bounds(head, summary, found, 24, 0.25)[:, 0], strict=True))
    scalars = {symbols.L: head.tokens - 1, symbols.N: case.n, symbols.d: 24, symbols.kappa: 0.25}
    scalars |= {symbols.B: found.scale[0], symbols.Delta_0: found.margin_sink[0]}
    # Print leaves Δ undefined when only the sink is selected; its term is then dropped.
    scalars[symbols.Delta] = sp.oo if np.isnan(found.margin[0]) else found.margin[0]
    close(numeric["precision_lower"], at(theorems.PRECISION_LOWER.expression, scalars))
    low = at(theorems.RECALL_LOWER.expression, scalars)
    close(numeric["recall_lower"], low, atol=1e-13)
    f_low = at(theorems.F_INNER_LOWER.expression, {symbols.R_lower: low})
    close(numeric["f_inner_lower"], f_low, rtol=1e-8)
    xi = printed_gaps(head, summary) / at(margins.SIGMA.expression, scalars)
    known: dict = {symbols.N: case.n}
    for pair, ratio in of_pairs(symbols.p_floor, xi).items():
        known[pair] = margins.P_FLOOR.expression.subs(symbols.xi, sp.Float(ratio))
    for name in ("PRECISION_UPPER", "RECALL_UPPER"):
        close(numeric[name.lower()], value(getattr(theorems, name).expression, members, known))


STANDS_FOR = {
    f"{letter}_{side}": f"repaired_{of}_{side}"
    for letter, of in (("P", "precision"), ("R", "recall"))
    for side in ("lower", "upper")
}
"""What the symbols of the bounds on F are, in the repaired edition."""


@given(rational_heads())
@settings(max_examples=25)
def test_repaired_values_equal_their_symbols(case: RationalHead) -> None:
    head, summary, members, _ = exact_head(case)
    means = exact_means(head, summary, 0)
    spread = np.sqrt(np.maximum(pair_variances(head, summary, 0, 24), 0.0))
    assume((spread > 0).all())
    tail, chance = tails(means, pair_widths(head, case.n), 24, 0.125), ndtr(-means / spread)
    found: dict[str, float] = {}
    for name in (f"repaired_{bound}" for bound in BOUNDS):
        known = of_pairs(symbols.p, tail if name.endswith("lower") else chance)
        known |= {MEANINGS[key].symbol: found[of] for key, of in STANDS_FOR.items() if of in found}
        known[symbols.N] = case.n
        found[name] = value(catalogue.statement(name).expression, members, known)
    close(repaired_bounds(head, summary, 0, 24, 0.125), list(found.values()), atol=1e-13)


@given(heads(min_tokens=2, max_tokens=20))
@settings(max_examples=60)
def test_floors_by_bisection_and_compiled_are_the_maximum_over_all_pairs(case: DrawnHead) -> None:
    gram = case.gram.matrix(case.tokens, sink=case.sink)
    head = rank_tokens(case.alpha, case.norms, gram, case.sink)
    summary = summarise(head, np.arange(1, case.tokens))
    sink = -1 if head.sink is None else head.sink
    own = (head.a, summary.sigma, sink, head.cosines[sink], summary.n)
    for sigma in (0.0, 1e-3, 0.1, 10.0, np.inf, np.nan):
        compiled = np.empty((2, len(summary.n)))
        floors_of_head(*own, np.full(len(summary.n), sigma), compiled)
        for index, n in enumerate(summary.n):
            rows = floor_by_row(head, summary, index, sigma)
            close(compiled[:, index], [rows.max(), rows.mean()], rtol=1e-12, atol=1e-300)
            if 0 < sigma < np.inf:
                levels = pair_levels(head, summary, index)
                every = floor_probability((levels[None, n:] - levels[:n, None]) / sigma)
                close(rows, every.max(axis=1), rtol=1e-12, atol=1e-300)


def test_printed_bounds_move_when_values_are_rescaled_and_repaired_ones_do_not() -> None:
    # Erratum 1: Δ is a squared length, B a length. The golden T3 is T1 with every value ten times
    # as long.
    expected = [
        number(CASES[name]["runs"][0]["expected"]["P_lo_12"])
        for name in ("T1_basic_N2", "T3_scale")
    ]
    assert expected[1] - expected[0] > 0.3
    alpha, gram = np.array([0.5, 0.05, 0.1, 0.6]), array(CASES["T1_basic_N2"]["input"]["rho"])
    printed, repaired = (
        [envelope(alpha, scale, gram, 128, [2], edition=edition) for scale in (1.0, 10.0)]
        for edition in ("printed", "repaired")
    )
    close([found.precision_lower[0] for found in printed], expected)
    assert_same(*repaired, BOUNDS[::2], rtol=1e-12)
