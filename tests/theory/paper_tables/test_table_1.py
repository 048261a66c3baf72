"""Table 1: symbolic signs, sampled bounds, simulated truth and the verdicts; elasticities
against closed forms.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from support.places import DOCS

from theory.arrays import selection_order
from theory.errors import InputError
from theory.paper_tables.neighbours import (
    Point,
    larger_least,
    larger_outside,
    longer,
    one_more,
    sample_points,
)
from theory.paper_tables.table_1 import ROWS, elasticities, markdown, settled
from theory.paper_tables.witnesses import (
    Effect,
    Share,
    effect,
    printed_partials,
    sign_of,
    true_change,
)
from theory.statements import catalogue
from theory.symbolic import margins, symbols, theorems
from theory.symbolic.meanings import MEANINGS

# THEORY of the paper settled: the sign of the printed lower bound where Δ, Δ₀ > 0.
SIGNS = {
    "d": "+",
    "kappa": "+",
    "L": "-",
    "N": "+",
    "N, true counts": "mixed",
    "a_0": "+",
    "a_0, sink in B": "mixed",
    "a_min_in": "+",
    "a_min_in, S_in moves": "mixed",
    "a_max_out": "-",
    "a_max_in": "-",
    "S_in": "-",
    "beta": "+",
    "rho_0": "0",
}

VERDICTS = {
    "d": "conditional",
    "L": "right",
    "N": "conditional",
    "a_0": "true of the bound",
    "a_min_in": "right",
    "a_max_out": "right",
    "beta": "true of the bound",
    "profile: peaks": "true of the bound",
    "profile: valleys": "wrong",
    "rho_0": "conditional",
}

POINT = Point(n=4, beta=2.0, eta=0.3)


def row(name: str):
    return next(one for one in ROWS if one.name == name)


def test_signs_of_the_printed_lower_bound_are_decided_by_sympy() -> None:
    assert {name: sign_of(terms) for name, terms in printed_partials().items()} == SIGNS


@pytest.mark.parametrize("name", ["d", "a_0", "a_min_in", "a_max_out", "beta", "L", "N"])
def test_chain_rule_terms_add_up_to_the_derivative_in_the_catalogue(name: str) -> None:
    (entry,) = catalogue.find(f"Table 1 row {name}")
    values = {
        "N": 3,
        "d": 16,
        "kappa": 0.5,
        "S_in": 0.9,
        "a_min_in": 0.7,
        "a_max_out": 0.2,
        "a_0": 0.8,
        "a_max_in": 0.9,
        "beta": 1.1,
        "L": 9,
    }
    values["rho_out"] = np.exp(-values["beta"])
    delta = values["a_min_in"] ** 2 - 2 * values["a_max_out"] * values["S_in"] * values["rho_out"]
    delta_0 = values["a_0"] ** 2 - (values["S_in"] * values["rho_out"]) ** 2
    plus = values | {"Delta": delta, "Delta_0": delta_0}
    by_name = {
        symbol: plus[symbol.name.removesuffix("_plus")]
        for term in printed_partials()[name]
        for symbol in term.free_symbols
        if symbol.name not in ("outside", "B")
    }
    extra = {
        sp.Symbol("outside", positive=True): 6,
        symbols.B: values["a_max_in"] + values["a_max_out"] + values["S_in"],
    }
    total = sum(float(term.subs(by_name | extra)) for term in printed_partials()[name])
    direct = entry.expression.subs({MEANINGS[key].symbol: value for key, value in values.items()})
    assert total == pytest.approx(float(direct), rel=1e-10)
    assert total != 0


def test_the_spelled_out_bound_is_the_printed_edition_in_numbers() -> None:
    found = POINT.head().bounds("printed")
    head = POINT.head()
    a = head.alpha * head.norms
    order = selection_order(head.alpha)
    inside, outside = [x for x in order[: POINT.n].tolist() if x], order[POINT.n :]
    gap = min(abs(x - y) for x in inside for y in outside.tolist() if y)
    known = {
        symbols.S_in: a[inside].sum(),
        symbols.a_min_in: a[inside].min(),
        symbols.a_max_out: a[outside].max(),
        symbols.a_max_in: a[order[: POINT.n]].max(),
        symbols.a_0: a[0],
        symbols.rho_out: np.exp(-POINT.beta * gap),
        symbols.L: POINT.length,
        symbols.N: POINT.n,
        symbols.d: POINT.dimension,
        symbols.kappa: POINT.kappa,
    }
    value = theorems.RECALL_LOWER.subs(margins.SPELLED_OUT).subs(known)
    assert float(value) == pytest.approx(found.recall_lower[0], rel=1e-10)


@given(st.integers(0, 200))
@settings(max_examples=25)
def test_a_move_raises_its_parameter_and_keeps_the_rest(seed: int) -> None:
    (point,) = sample_points(1, seed)
    before = point.head()
    order, a = selection_order(before.alpha), before.alpha * before.norms
    content = [x for x in order[: point.n].tolist() if x]
    if (pair := larger_least(point)) is not None:
        after = pair[1].alpha * pair[1].norms
        assert after[content].min() > a[content].min()
        assert after[content].sum() == pytest.approx(a[content].sum())
        np.testing.assert_array_equal(np.delete(after, content), np.delete(a, content))
    if (pair := larger_outside(point)) is not None:
        after = pair[1].alpha * pair[1].norms
        assert after[order[point.n :]].max() == pytest.approx(1.1 * a[order[point.n :]].max())
        np.testing.assert_array_equal(after[order[: point.n]], a[order[: point.n]])
    if (pair := longer(point)) is not None:
        after = pair[1].alpha * pair[1].norms
        np.testing.assert_array_equal(
            np.sort(after[selection_order(pair[1].alpha)[: point.n]]), np.sort(a[order[: point.n]])
        )
        assert after.sum() > a.sum()
    if (pair := one_more(point, "peak")) is not None:
        entering = int(order[point.n])
        assert point.plateau_end < entering <= point.growth_start
        assert np.cos(point.omega * entering) > 0
        assert pair[1].point.n == point.n + 1


def test_shared_draws_sharpen_a_change() -> None:
    change = true_change(POINT.head(), replace(POINT, beta=2.5).head(), draws=1000, seed=3)
    apart = [
        head.draws(1000, seed).std(axis=1)
        for head, seed in ((POINT.head(), 3), (replace(POINT, beta=2.5).head(), 4))
    ]
    assert change.precision_se < 0.7 * np.hypot(*(one[0] for one in apart)) / np.sqrt(1000)
    same = true_change(POINT.head(), POINT.head(), draws=200, seed=0)
    assert same.precision == same.recall == 0
    assert (
        same.precision_se == same.recall_se == 1 / 200
    )  # never below one part in the number of draws


def test_the_arrow_of_beta_is_right_on_the_bound_and_wrong_in_truth() -> None:
    # Δ, Δ₀ > 0 at β = 2 and β = 4: erratum 24.
    low, high = POINT.head(), replace(POINT, beta=4.0).head()
    assert all(
        head.bounds("printed").margin[0] > 0 and head.bounds("printed").margin_sink[0] > 0
        for head in (low, high)
    )
    assert high.bounds("printed").recall_lower[0] > low.bounds("printed").recall_lower[0]
    change = true_change(low, high, draws=3000, seed=5)
    assert change.precision < -8 * change.precision_se
    assert change.recall < -8 * change.recall_se


def test_a_larger_sink_helps_the_bound_and_harms_the_truth() -> None:
    low, high = replace(POINT, n=3).head(), replace(POINT, n=3, sink_ratio=1.0).head()
    assert high.bounds("printed").recall_lower[0] > low.bounds("printed").recall_lower[0]
    change = true_change(low, high, draws=3000, seed=5)
    assert change.precision < -8 * change.precision_se


def test_printed_lower_bounds_contain_no_sink_cosine_and_the_truth_does() -> None:
    low, high = (replace(POINT, rho0=rho0).head() for rho0 in (-0.1, 0.1))
    assert high.bounds("printed").recall_lower[0] == low.bounds("printed").recall_lower[0]
    weak = [
        replace(POINT, rho0=rho0, sink_ratio=0.05).head().bounds("printed").recall_upper[0]
        for rho0 in (-0.1, 0.1)
    ]
    assert weak[0] != weak[1]  # the upper ones do, through M₀
    change = true_change(low, high, draws=3000, seed=5)
    assert change.recall > 8 * change.recall_se


def test_the_sinks_effect_reverses_where_it_is_not_selected() -> None:
    # A weak sink of a long value: outside I_3, and the nearer to s the larger ρ₀.
    outside = Point(
        length=12,
        plateau_end=2,
        growth_start=8,
        n=3,
        beta=2.0,
        eta=0.6,
        p_sink=0.1,
        sink_ratio=1.0,
        dimension=32,
    )
    assert 0 not in selection_order(outside.head().alpha)[:3]
    low, high = (replace(outside, rho0=rho0).head() for rho0 in (-0.25, 0.25))
    change = true_change(low, high, draws=4000, seed=5)
    assert change.recall < -8 * change.recall_se
    assert change.precision < -8 * change.precision_se


def test_a_verdict_follows_from_its_witnesses() -> None:
    found = effect(row("a_max_out"), sample_points(12), draws=200)

    def verdict(truth: tuple[int, int], within: tuple[int, int], name: str = "a_max_out") -> str:
        made = replace(
            found,
            row=row(name),
            truth=Share(rose=truth[0], fell=truth[1], points=20),
            within=Share(rose=within[0], fell=within[1], points=9),
        )
        return made.verdict

    assert verdict((0, 9), (0, 5)) == "right"
    assert verdict((1, 9), (0, 5)) == "conditional"
    assert verdict((0, 9), (1, 5)) == "conditional"
    assert verdict((5, 5), (0, 5)) == verdict((0, 0), (0, 5)) == "true of the bound"
    assert verdict((5, 5), (1, 5)) == verdict((0, 0), (0, 0)) == "wrong"
    assert verdict((5, 5), (5, 0), "N") == "conditional"
    assert verdict((9, 0), (5, 0), "N") == "wrong"
    with pytest.raises(InputError, match="applies at none of 1 points"):
        effect(row("profile: valleys"), [POINT], draws=10)


def test_a_few_heads_already_separate_right_from_wrong() -> None:
    points = sample_points(20, seed=1)
    found = {name: effect(row(name), points, draws=300) for name in ("beta", "a_max_out")}
    assert found["beta"].truth.agrees("+") < 0.3
    assert found["beta"].within.agrees("+") == 1
    assert found["a_max_out"].truth.rose == 0
    text = markdown(list(found.values()))
    assert text.count("| beta |") == 2  # the arrow, and the elasticity
    assert "| true of the bound |" in text


def test_the_verdicts_of_docs_stand_with_the_rows() -> None:
    assert {one.name: one.verdict for one in ROWS} == VERDICTS
    assert all(f"| {one.verdict} | {one.settled} |" in settled() for one in ROWS)


def test_docs_hold_the_settled_verdicts() -> None:
    page = (DOCS / "studies" / "table1.md").read_text(encoding="utf-8")
    seen = {
        line.split(" | ")[0].lstrip("| "): line
        for line in page.splitlines()
        if re.search(r"\| (right|conditional|true of the bound|wrong) \|", line)
    }
    assert {
        name: re.search(r"\| (right|conditional|true of the bound|wrong) \|", line).group(1)
        for name, line in seen.items()
    } == VERDICTS
    assert page.startswith("# Table 1, put to the test")


@pytest.mark.slow
def test_table_1_in_docs_is_what_its_command_finds() -> None:
    # After a change: .venv/bin/python -m theory.paper_tables.table_1 docs/studies/table1.md
    points = sample_points(80)
    found: list[Effect] = [effect(one, points, draws=1000) for one in ROWS]
    assert {one.row.name: one.verdict for one in found} == VERDICTS
    assert markdown(found) == (DOCS / "studies" / "table1.md").read_text(encoding="utf-8")


def test_elasticities_of_the_printed_bound_are_its_derivative() -> None:
    # P_lo = 1/(1 + loss), loss = Σ counts·exp(−κ d m²/B²): d log P_lo / d log κ = P_lo Σ
    # counts·exp(−x)·x, and d moves the same way.
    point = replace(POINT, kappa=20.0)
    found = point.head().bounds("printed")
    outside = point.length - point.n
    steps = [
        point.kappa * point.dimension * (m / found.scale[0]) ** 2
        for m in (found.margin[0], found.margin_sink[0])
    ]
    exact = found.precision_lower[0] * sum(
        n * np.exp(-x) * x for n, x in zip((outside, outside / point.n), steps, strict=True)
    )
    seen = elasticities(point, "printed")
    assert seen["kappa"] == pytest.approx(exact, rel=1e-5)
    assert seen["norm"] == pytest.approx(2 * exact, rel=1e-5)  # erratum 1: Δ/B is a length
    assert seen["dimension"] == pytest.approx(exact, rel=0.05)
    assert np.isnan(seen["rho0"])


def test_elasticities_of_the_sharp_bound_are_free_of_units_and_of_kappa() -> None:
    seen = elasticities(POINT, "sharp")
    assert seen["kappa"] == 0
    assert seen["norm"] == pytest.approx(0, abs=1e-8)
    assert seen["dimension"] > 0 > seen["beta"]
    assert np.isnan(
        elasticities(POINT, "printed", bound="recall_lower")["beta"]
    )  # the bound is negative
    with pytest.raises(InputError, match="expected one of precision_lower"):
        elasticities(POINT, "sharp", bound="accuracy")
