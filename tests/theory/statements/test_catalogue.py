"""Catalogue: every numbered statement and erratum can be found and printed."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import get_args

import numpy as np
import pytest
import sympy as sp
from scipy.special import stdtr

import theory
from theory.errors import InputError
from theory.statements import catalogue, dimensions, rendering
from theory.symbolic import margins, symbols, theorems
from theory.symbolic.operations import MaxOver, Over, SumOver, spell_out
from theory.symbolic.record import MEANINGS


def test_the_legend_names_the_tokens_of_each_index_by_the_sum_that_binds_it() -> None:
    for entry in catalogue.entries():
        sets = [pair for over in entry.expression.atoms(Over) for pair in over.pairs()]
        bound = {str(index): f"a token of {members}" for index, members in sets}
        legend = json.loads(rendering.render(entry, "json"))["symbols"]
        lines = rendering.render(entry, "text").splitlines()
        assert bound.keys() <= legend.keys()
        for index in {"i", "j", "k", "l"} & set(legend):
            assert legend[index] == bound.get(index, "a token"), entry.name
            assert f"  {index}: {legend[index]}" in lines, entry.name
    # Of a selected token and one outside.
    for name in ("xi", "mu", "mu_exact", "width", "tail_repaired"):
        assert "i ∈ I_N, j ∈ J" in catalogue.statement(name).conditions


@pytest.mark.parametrize("number", range(1, 34))
def test_every_equation_is_found_by_its_number(number: int) -> None:
    found = catalogue.find(str(number))
    assert {entry.equation for entry in found} == {str(number)}
    assert all(f"eq. ({number})" in entry.source for entry in found)


SPELLINGS = {
    "Theorem 1": "theorem1; Theorem (1); thm. 1; thm1; THEOREM 1; theorem_1",
    "Corollary 1": "corollary 1; corollary1; cor. 1",
    "Assumption 2": "assumption 2; assumption2; ass. 2; Assumption-2",
    "Assumption 2.1": "assumption 2.1; assumption2.1",
    "Definition 1": "definition 1; definition1; def. 1",
    "Table 1": "table 1; table1; tab. 1; table_1; Table-1",
    "Table 2": "table 2; table2",
    "Table 1 row beta": "table 1, row beta; table 1 beta; table1 row β; table_1_row_beta",
    "Table 2 row IV": "Table 2, row IV; table 2 iv; table2 row IV",
    "Section 3.4": "section 3.4; §3.4; sec. 3.4",
    "Appendix A.1": "appendix a.1; Appendix A.1; app. A.1",
}


@pytest.mark.parametrize("part", sorted(SPELLINGS))
def test_a_part_is_found_however_it_is_spelled(part: str) -> None:
    expected = catalogue.find(part)
    assert all(entry.part.startswith(part) for entry in expected)
    for spelling in SPELLINGS[part].split("; "):
        assert catalogue.find(spelling) == expected, spelling


def test_one_statement_or_erratum_is_had_in_one_step() -> None:
    assert theory.statement(12).name == "precision_lower"
    assert theory.find("theorem 1") == catalogue.find("Theorem 1")
    for name in (17, "17", "erratum 17", " Erratum17 "):
        assert theory.find_erratum(name).number == 17
    assert theory.render(theory.statement("Δ"), "latex").startswith(r"\Delta =")


PARTS = {
    "Definition": "1 2 3",
    "Assumption": "1 1.1 1.2 2 2.1 2.2 3",
    "Table 1 row": "d L N a_0 a_min_in a_max_out beta β a₀ profile",
    "Table 2 row": "I II III IV V",
}


@pytest.mark.parametrize("kind", PARTS)
def test_every_part_of_the_paper_is_found_by_its_name(kind: str) -> None:
    for number in PARTS[kind].split():
        found = catalogue.find(f"{kind} {number}")
        assert all(entry.edition == "printed" for entry in found)
        assert all(entry.part.startswith(kind) for entry in found)
        assert len(found) == 1 or " row" not in kind


def test_parts_hold_what_the_paper_puts_there() -> None:
    assert [entry.equation for entry in catalogue.find("Theorem 1")] == ["12", "13"]
    assert [entry.equation for entry in catalogue.find("Theorem 2")] == ["14", "15"]
    assert [entry.equation for entry in catalogue.find("Corollary 1")] == ["16", "16", "17", "17"]
    assert {"Delta", "Delta_0_in", "B"} <= {entry.name for entry in catalogue.find("8")}
    assert len(catalogue.find("Table 1")) == 8
    assert len(catalogue.find("Table 2")) == 5
    assert [entry.name for entry in catalogue.find("Δ₀")] == ["Delta_0_in", "Delta_0_out"]
    assert len({entry.name for entry in catalogue.entries()}) == len(catalogue.entries())


# Erratum 1: the widths (10) and (30), the exponents of (12), (14) and (31), and Table 1, which
# differentiates (14). Nothing else.
UNLIKE = {"sigma", "variance_proxy", "precision_lower", "recall_lower", "tail", "tail_sink"}


def test_the_dimension_check_reports_only_erratum_1() -> None:
    checked = {entry.name: dimensions.check(entry) for entry in catalogue.entries()}
    faults = {name: found for name, found in checked.items() if found}
    table = {entry.name for entry in catalogue.find("Table 1")} - {"table_1_row_profile"}
    assert set(faults) == UNLIKE | table
    equations = {catalogue.statement(name).equation for name in UNLIKE}
    assert equations == {"10", "12", "14", "30", "31"}
    for name in faults:
        assert 1 in catalogue.statement(name).errata
    d, kappa, scale = symbols.d, symbols.kappa, symbols.B
    exponents = {-kappa * d * (margin / scale) ** 2 for margin in (symbols.Delta, symbols.Delta_0)}
    for name in ("precision_lower", "recall_lower"):
        assert {fault.where for fault in faults[name]} == exponents
        (what,) = {fault.what for fault in faults[name]}
        assert what == "an argument of exp in norm^2, expected a pure number"
    assert faults["sigma"][0].what == "the right side is in norm^1, the left in norm^2"
    assert faults["variance_proxy"][0].what == "the right side is in norm^2, the left in norm^4"


def test_squaring_the_scale_mends_the_dimensions() -> None:
    scale = margins.SCALE.expression.doit()
    for name in (*UNLIKE, "table_1_row_d"):
        entry = catalogue.statement(name)
        mended = entry.expression.subs({symbols.B: symbols.B**2, scale: scale**2})
        assert dimensions.check(replace(entry, expression=mended)) == (), name


def test_the_dimension_check_sees_sums_comparisons_and_conditions_of_unlike_terms() -> None:
    delta, a_0 = catalogue.statement("Delta"), symbols.a_0
    for wrong in (
        a_0,
        a_0**2 + a_0,
        sp.Max(a_0**2, symbols.B),
        sp.Piecewise((symbols.Delta, a_0 > symbols.Delta), (symbols.Delta_0, True)),
        symbols.Delta * sp.cos(a_0),
        SumOver(symbols.a[symbols.k] + symbols.D[symbols.k], symbols.k, symbols.J),
        symbols.Delta**a_0,
    ):
        assert dimensions.check(replace(delta, expression=wrong)), wrong
    right = symbols.Delta + a_0 * symbols.B
    assert dimensions.check(replace(delta, expression=right)) == ()
    first, *_ = dimensions.check(replace(delta, expression=symbols.kappa**a_0))
    assert first.what == "an exponent in norm^1, expected a pure number"


def test_a_statement_is_found_by_number_or_name() -> None:
    spelled = "(12); 012; eq. 12; Eq.(12); eqn 12; equation (12); Precision-Lower; precision_lower"
    for name in (12, *spelled.split("; ")):
        assert [entry.name for entry in catalogue.find(name)] == ["precision_lower"], name


@pytest.mark.parametrize(
    ("name", "first"),
    [
        *(("12.5", "12"), ("-3", "1"), ("Theorem 3", "Theorem"), ("?", "")),
        ("precison_lower", "precision_lower"),
    ],
)
def test_of_a_missing_name_a_few_near_ones_are_offered_the_nearest_first(
    name: str, first: str
) -> None:
    with pytest.raises(InputError, match="expected a name or an equation number") as raised:
        catalogue.find(name)
    near = str(raised.value).split("Near it: ")[1].rstrip(".").split(", ")
    assert 1 <= len(near) <= 8
    assert near[0].startswith(first)
    for name in near:
        assert catalogue.find(name)


SEVERAL = r"8 holds 6 statements, expected one\. Name one of rho_in, a_max_in, .*, or use find"
NOTHING = r"no name was given, expected one, or an equation number from 1 to 33\. `geostat theory`"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: catalogue.find(""), NOTHING),
        (lambda: catalogue.find("  "), NOTHING),
        (lambda: catalogue.find("99"), r"number 99, expected 1 to 33\."),
        (lambda: catalogue.statement(8), SEVERAL),
        (lambda: rendering.render(catalogue.statement(12), "html"), "style is 'html'"),
        (lambda: rendering.render_erratum(catalogue.errata()[0], "html"), "style is 'html'"),
        *(
            (lambda wrong=wrong: catalogue.find_erratum(wrong), f"{wrong}, expected 1 to 44")
            for wrong in (0, 45, "seventeen", "")
        ),
    ],
)
def test_bad_names_and_styles_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


# As printed in arXiv 2602.01893: signs, order of terms, and middle terms.
TAILS = r"\left(L - N\right) e^{- \kappa d \left(\frac{\Delta}{B}\right)^{2}}"
SINKS = r"\frac{L - N}{N} e^{- \kappa d \left(\frac{\Delta_0}{B}\right)^{2}}"
FLOOR = r"j \notin I_N} {\underline{p}}_{i,j}"
IN_PRINT = {
    "Delta": r"\Delta = \left(a_{\min}^{\mathrm{in}}\right)^{2} - 2 a_{\max}^{\mathrm{out}} "
    r"S_{\mathrm{in}} \rho_{\mathrm{out}}",
    "precision_lower": rf"P(r_{{\max}}, N) \gtrsim \left(1 + {TAILS} + {SINKS}\right)^{{-1}}",
    "precision_upper": r"\lesssim 1 - \frac{1}{N + 1} \max_{i \in I_N,\," + FLOOR,
    "recall_lower": rf"\ge 1 - {TAILS} - {SINKS}",
    "recall_upper": r"\lesssim \frac{1}{N} \sum_{i \in I_N} \left(1 - \max_{" + FLOOR,
    "f_inner_lower": r"\ge \frac{2 R_{\min}}{1 + R_{\min}}",
    "f_outer_upper": r"\le \frac{2 P_{\max}}{1 + P_{\max}}",
    "precision_inside": r"\equiv 1",
    "p_floor": r"\frac{\varphi\left(\xi_{ij}\right)}{\xi_{ij} + \frac{1}{\xi_{ij}}}",
    "xi": r"\xi_{ij} = \frac{\mu_{ij}}{\sigma_{ij}}",
    "sigma": r"= \frac{B}{\sqrt{2 \kappa d}}",
    "inside_out_of_reach": r"\mathbf{1}\left\{{D}_{i} \geq {D}_{j}\right\} = \sum_{j \notin I_N}",
    "K_in_at_least": r"N - K_{\mathrm{in}} = \sum_{i \in I_N} \mathbf{1}",
    "mean_gap": r"\mu_{ij} := \mathbb{E}\left[{X}_{i,j}\right] \ge \Delta := \left(a_{\min}",
    "mean_gap_sink": r"\mu_{0j} \ge \Delta'_0 := a_0^{2} - \left(S'_{\mathrm{in}}",
    "recall_as_distribution": r"= F_{\mathrm{in}}(r)",
    "recall_shift": r"\Delta r < 0",
}


@pytest.mark.parametrize("name", sorted(IN_PRINT))
def test_statements_have_the_papers_form(name: str) -> None:
    assert IN_PRINT[name] in rendering.render(catalogue.statement(name), "latex")


def test_rows_of_table_2_say_what_each_column_prints() -> None:
    (row,) = catalogue.find("Table 2 row II")
    for cell in (
        "composition of I_N: {0} + top of tail",
        "trend of Δ/B: ↑ (large α_(N), small S_in)",
        "effect on statistics: Δ > 0 and large ⇒ bounds near 1",
    ):
        assert cell in row.title


def test_the_upper_bounds_and_the_lower_one_of_f_name_no_condition_that_makes_them_true() -> None:
    entries = {entry.name: entry.conditions for entry in catalogue.entries()}
    for name in ("precision_upper", "recall_upper", "f_inner_lower"):
        assert "no listed condition makes it true" in entries[name]
    for name in ("precision_lower", "recall_lower", "f_outer_lower"):
        for needed in ("N < L", "Σα ≤ 1", "κ ≤ 1/8"):
            assert needed in entries[name]


@pytest.mark.parametrize("style", get_args(rendering.Style))
def test_every_erratum_renders(style: str) -> None:
    assert rendering.preface("latex").isascii()
    for erratum in catalogue.errata():
        text = rendering.render_erratum(erratum, style)
        if style == "latex":
            assert text.isascii(), text
        elif style == "json":
            assert json.loads(text)["number"] == erratum.number
        else:
            assert text.removeprefix("# ").startswith(f"{erratum.number}. ")
        if style == "python":
            compile(text, erratum.title, "exec")


def test_pairwise_law_is_students_and_lies_below_its_chernoff_bound() -> None:
    for r, d in product((-0.7, 0.0, 0.2, 0.9), (1, 5, 64)):
        point = {symbols.r: sp.Float(r, 30), symbols.d: d}
        law = float(theorems.PAIRWISE_LAW.expression.subs(point).evalf())
        assert law == pytest.approx(stdtr(d, -np.sqrt(d) * r / np.sqrt(1 - r * r)), rel=1e-9)
        assert r <= 0 or law <= float(theorems.CHERNOFF.expression.subs(point))


def test_every_symbol_has_a_meaning_and_a_unit_of_norm() -> None:
    for name, meaning in MEANINGS.items():
        assert meaning.meaning, name
        assert meaning.unit in dimensions.POWERS, name
        assert meaning.latex.isascii(), name
    used = [symbol for entry in catalogue.entries() for symbol in entry.expression.atoms(sp.Symbol)]
    assert {symbol.name for symbol in used} <= set(MEANINGS)


def test_sums_and_extremes_spell_out_over_distinct_tokens() -> None:
    k, other, content = symbols.k, symbols.l, symbols.I_content
    pairs = MaxOver(symbols.rho[k, other], k, content, other, content)
    spelled = spell_out(pairs, {content: [1, 2]})
    assert spelled == sp.Max(symbols.rho[1, 2], symbols.rho[2, 1])
    assert str(pairs) == "max(rho[k, l] for k in I_content for l in I_content if k != l)"
    assert spell_out(SumOver(symbols.a[k], k, symbols.J), {symbols.J: []}) == 0
