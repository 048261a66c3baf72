"""The catalogue: every numbered statement can be found and printed, every erratum shows itself."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError
from typing import get_args

import numpy as np
import pytest
import sympy as sp
from scipy.special import stdtr

from theory import bounds, catalogue, symbols
from theory.errors import InputError
from theory.printed import harmonic
from theory.simulate import simulate


@pytest.mark.parametrize("erratum", catalogue.errata(), ids=lambda item: f"{item.number}")
def test_every_erratum_is_shown_by_its_counterexample(erratum: catalogue.Erratum) -> None:
    found = erratum.counterexample()
    assert found.shown
    assert found.printed != found.true
    assert math.isfinite(found.printed)
    assert math.isfinite(found.true)


def test_errata_are_numbered_one_to_twenty() -> None:
    assert [item.number for item in catalogue.errata()] == list(range(1, 21))
    with pytest.raises(FrozenInstanceError):
        catalogue.errata()[0].title = "other"


# THEORY: numbers quoted in the errata's own words, by number: printed and true.
PINNED = {
    3: (1, 2),
    5: (-0.24, 0.25),
    8: (2 / 3, 1 / 2),
    12: (3 / 4, 1),
    14: (1, 2 / 3),
    15: (0.61, 0.91),
    17: (1, 391 / 432),
    19: (0.25, 0.3),
    20: (1, 0.5),
}


@pytest.mark.parametrize("number", sorted(PINNED))
def test_counterexamples_give_the_quoted_numbers(number: int) -> None:
    found = catalogue.errata()[number - 1].counterexample()
    assert (found.printed, found.true) == pytest.approx(PINNED[number], rel=1e-10)


def test_last_token_outside_by_simulation() -> None:
    # Erratum 17 and 8: E P = 391/432, E R = 227/288, E F(r_min) = 13/16 < f(E R) = 454/515, by integrals over ‖s‖² and one cosine.
    found = simulate([0.75, 1.0, 0.5], 1.0, np.eye(3), 3, [2], draws=60_000, directions="unit", sink=None)
    for seen, error, exact in (
        (found.precision, found.precision_se, 391 / 432),
        (found.recall, found.recall_se, 227 / 288),
        (found.f_inner, found.f_inner_se, 13 / 16),
    ):
        assert abs(seen[0] - exact) < 4 * error[0]
    assert harmonic(227 / 288) == pytest.approx(454 / 515)
    assert 454 / 515 > 13 / 16


def test_every_equation_from_7_to_17_has_a_statement() -> None:
    assert {str(number) for number in range(7, 18)} <= {entry.equation for entry in catalogue.entries()}
    assert len({entry.name for entry in catalogue.entries()}) == len(catalogue.entries())


@pytest.mark.parametrize("asked", ["12", "(12)", "eq. 12", "Eq.(12)", "precision_lower", "Precision-Lower"])
def test_a_statement_is_found_by_number_or_name(asked: str) -> None:
    assert [entry.name for entry in catalogue.find(asked)] == ["precision_lower"]


def test_one_number_may_hold_several_statements() -> None:
    assert {"Delta", "Delta_0_in", "B"} <= {entry.name for entry in catalogue.find("8")}


def test_a_missing_name_lists_near_ones_and_a_missing_number_all() -> None:
    with pytest.raises(InputError, match=r"Near it: precision_lower"):
        catalogue.find("precison_lower")
    with pytest.raises(InputError, match=r"expected one of 7, 8, 9"):
        catalogue.find("99")
    with pytest.raises(InputError, match="style is 'html'"):
        catalogue.render(catalogue.find("12")[0], "html")
    with pytest.raises(InputError, match="style is 'html'"):
        catalogue.render_erratum(catalogue.errata()[0], "html")


@pytest.mark.parametrize("entry", catalogue.entries(), ids=lambda entry: entry.name)
def test_every_statement_renders_in_every_style(entry: catalogue.Entry) -> None:
    assert "Over" not in catalogue.render(entry, "text")
    latex = catalogue.render(entry, "latex")
    assert latex.isascii()
    assert latex.count("{") == latex.count("}")
    compile(catalogue.render(entry, "python"), entry.name, "exec")
    record = json.loads(catalogue.render(entry, "json"))
    assert record["name"] == entry.name
    assert set(record["errata"]) <= set(range(1, 21))


def test_python_of_the_recall_bound_runs() -> None:
    (entry,) = catalogue.find("recall_upper")
    floors = {(0, 2): 0.1, (0, 3): 0.2, (1, 2): 0.4, (1, 3): 0.3}
    scope: dict = {"N": 2, "I_N": [0, 1], "J": [2, 3], "p_floor": floors}
    exec(catalogue.render(entry, "python"), scope)
    assert scope["recall_upper"] == pytest.approx((0.8 + 0.6) / 2)


def test_latex_of_the_margin() -> None:
    (entry,) = catalogue.find("Delta")
    assert catalogue.render(entry, "latex") == (
        r"\Delta = - 2 S_{\mathrm{in}} a_{\max}^{\mathrm{out}} \rho_{\mathrm{out}} + \left(a_{\min}^{\mathrm{in}}\right)^{2}"
    )


@pytest.mark.parametrize("style", get_args(catalogue.Style))
def test_every_erratum_renders(style: str) -> None:
    for erratum in catalogue.errata():
        text = catalogue.render_erratum(erratum, style)
        if style == "latex":
            assert text.isascii(), text
        elif style == "json":
            assert json.loads(text)["number"] == erratum.number
        else:
            assert text.startswith(f"{erratum.number}. ")


def test_pairwise_law_is_students_and_lies_below_its_chernoff_bound() -> None:
    for r in (-0.7, 0.0, 0.2, 0.9):
        for d in (1, 5, 64):
            law = float(bounds.PAIRWISE_LAW.subs({symbols.r: sp.Float(r, 30), symbols.d: d}).evalf())
            assert law == pytest.approx(stdtr(d, -np.sqrt(d) * r / np.sqrt(1 - r * r)), rel=1e-9)
            assert r <= 0 or law <= float(bounds.CHERNOFF.subs({symbols.r: r, symbols.d: d}))


def test_chernoff_bound_follows_from_the_generating_function_of_a_product() -> None:
    # X sums d products of two normals with variances A, B and covariance rS, S = √(AB): E e^{−θX} = (1 + 2θrS − θ²S²(1−r²))^{−d/2}.
    theta, scale, r, d = sp.Symbol("theta", positive=True), sp.Symbol("S", positive=True), symbols.r, symbols.d
    base = 1 + 2 * theta * r * scale - theta**2 * scale**2 * (1 - r**2)
    (best,) = sp.solve(sp.diff(base, theta), theta)
    assert sp.simplify(base.subs(theta, best) - 1 / (1 - r**2)) == 0
    assert sp.simplify(bounds.CHERNOFF - (1 - r**2) ** (d / 2)) == 0
    u, v = np.random.default_rng(0).standard_normal((2, 400_000))
    product = np.exp(-0.3 * u * (0.4 * u + np.sqrt(1 - 0.16) * v))
    exact = float(base.subs({theta: 0.3, scale: 1, r: 0.4})) ** -0.5
    assert abs(product.mean() - exact) < 4 * product.std() / np.sqrt(len(product))


def test_every_symbol_has_a_meaning_and_a_unit_of_norm() -> None:
    for name, meaning in symbols.MEANINGS.items():
        assert meaning.meaning, name
        assert meaning.unit in ("", "norm", "norm²"), name
        assert meaning.latex.isascii(), name
    used = {symbol.name for entry in catalogue.entries() for symbol in entry.expression.atoms(sp.Symbol)}
    assert used <= set(symbols.MEANINGS)


def test_sums_and_extremes_spell_out_over_distinct_tokens() -> None:
    pairs = symbols.MaxOver(symbols.rho[symbols.k, symbols.l], symbols.k, symbols.I_content, symbols.l, symbols.I_content)
    spelled = symbols.spell_out(pairs, {symbols.I_content: [1, 2]})
    assert spelled == sp.Max(symbols.rho[1, 2], symbols.rho[2, 1])
    assert str(pairs) == "max(rho[k, l] for k in I_content for l in I_content if k != l)"
    assert symbols.spell_out(symbols.SumOver(symbols.a[symbols.k], symbols.k, symbols.J), {symbols.J: []}) == 0
