"""Table 1 by simulation: neighbouring heads and verdicts; elasticities in closed form."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.places import DOCS

from studies.neighbours import larger_least, larger_outside, longer, sample_points
from studies.table_1 import Effect, Share, effect, elasticities, markdown
from theory.arrays import selection_order
from theory.errata.neighbours import Point, PointHead, one_more, true_change
from theory.errors import InputError
from theory.paper_tables.table_1 import ROWS
from theory.symbolic import margins, symbols, theorems

VERDICTS = {row.name: row.verdict for row in ROWS}
POINT = Point(n=4, beta=2.0, eta=0.3)


def row(name: str):
    return next(row for row in ROWS if row.name == name)


def amounts(head: PointHead) -> np.ndarray:
    """Return the norms of weight times value."""
    return head.alpha * head.norms


def printed(head: PointHead, name: str) -> float:
    """Return one number of the printed bounds."""
    return float(getattr(head.bounds("printed"), name)[0])


def test_the_spelled_out_bound_is_the_printed_edition_in_numbers():
    found = POINT.head().bounds("printed")
    head = POINT.head()
    a = amounts(head)
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
    value = theorems.RECALL_LOWER.expression.subs(margins.SPELLED_OUT).subs(known)
    assert float(value) == pytest.approx(found.recall_lower[0], rel=1e-10)


@given(st.integers(0, 200))
@settings(max_examples=25)
def test_a_move_raises_its_parameter_and_keeps_the_rest(seed):
    (point,) = sample_points(1, seed)
    before = point.head()
    order, a = selection_order(before.alpha), amounts(before)
    content = [x for x in order[: point.n].tolist() if x]
    if (pair := larger_least(point)) is not None:
        after = amounts(pair[1])
        assert after[content].min() > a[content].min()
        assert after[content].sum() == pytest.approx(a[content].sum())
        np.testing.assert_array_equal(np.delete(after, content), np.delete(a, content))
    if (pair := larger_outside(point)) is not None:
        after = amounts(pair[1])
        assert after[order[point.n :]].max() == pytest.approx(1.1 * a[order[point.n :]].max())
        np.testing.assert_array_equal(after[order[: point.n]], a[order[: point.n]])
    if (pair := longer(point)) is not None:
        after = amounts(pair[1])
        selected = after[selection_order(pair[1].alpha)[: point.n]]
        np.testing.assert_array_equal(np.sort(selected), np.sort(a[order[: point.n]]))
        assert after.sum() > a.sum()
    if (pair := one_more(point, "peak")) is not None:
        entering = int(order[point.n])
        assert point.plateau_end < entering <= point.growth_start
        assert np.cos(point.omega * entering) > 0
        assert pair[1].point.n == point.n + 1


def test_shared_draws_sharpen_a_change():
    steeper = replace(POINT, beta=2.5)
    change = true_change(POINT.head(), steeper.head(), draws=1000, seed=3)
    apart = [
        point.head().draws(1000, seed).std(axis=1)[0] for point, seed in ((POINT, 3), (steeper, 4))
    ]
    assert change.precision_se < 0.7 * np.hypot(*apart) / np.sqrt(1000)
    same = true_change(POINT.head(), POINT.head(), draws=200, seed=0)
    assert same.precision == same.recall == 0
    # never below one part in the number of draws
    assert same.precision_se == same.recall_se == 1 / 200


def test_the_arrow_of_beta_is_right_on_the_bound_and_wrong_in_truth():
    # Δ, Δ₀ > 0 at β = 2 and β = 4: erratum 24.
    low, high = POINT.head(), replace(POINT, beta=4.0).head()
    for head in (low, high):
        assert min(printed(head, "margin"), printed(head, "margin_sink")) > 0
    assert printed(high, "recall_lower") > printed(low, "recall_lower")
    change = true_change(low, high, draws=3000, seed=5)
    assert change.precision < -8 * change.precision_se
    assert change.recall < -8 * change.recall_se


def test_a_larger_sink_helps_the_bound_and_harms_the_truth():
    low, high = replace(POINT, n=3).head(), replace(POINT, n=3, sink_ratio=1.0).head()
    assert printed(high, "recall_lower") > printed(low, "recall_lower")
    change = true_change(low, high, draws=3000, seed=5)
    assert change.precision < -8 * change.precision_se


def test_printed_lower_bounds_contain_no_sink_cosine_and_the_truth_does():
    low, high = (replace(POINT, rho0=rho0).head() for rho0 in (-0.1, 0.1))
    assert printed(high, "recall_lower") == printed(low, "recall_lower")
    weak = (replace(POINT, rho0=rho0, sink_ratio=0.05).head() for rho0 in (-0.1, 0.1))
    assert len({printed(head, "recall_upper") for head in weak}) == 2  # upper ones do, through M₀
    change = true_change(low, high, draws=3000, seed=5)
    assert change.recall > 8 * change.recall_se


def test_the_sinks_effect_reverses_where_it_is_not_selected():
    # A weak sink of a long value: outside I_3, and the nearer to s the larger ρ₀.
    curve = {"length": 12, "plateau_end": 2, "growth_start": 8, "n": 3, "dimension": 32}
    outside = Point(**curve, beta=2.0, eta=0.6, p_sink=0.1, sink_ratio=1.0)
    assert 0 not in selection_order(outside.head().alpha)[:3]
    low, high = (replace(outside, rho0=rho0).head() for rho0 in (-0.25, 0.25))
    change = true_change(low, high, draws=4000, seed=5)
    assert change.recall < -8 * change.recall_se
    assert change.precision < -8 * change.precision_se


def test_a_verdict_follows_from_the_simulated_shares():
    found = effect(row("a_max_out"), sample_points(12), draws=200)

    def verdict(truth: tuple[int, int], within: tuple[int, int], name: str = "a_max_out") -> str:
        shares = {
            part: Share(rose=counts[0], fell=counts[1], points=points)
            for part, counts, points in (("truth", truth, 20), ("within", within, 9))
        }
        return replace(found, row=row(name), **shares).verdict

    assert verdict((0, 9), (0, 5)) == "right"
    assert verdict((1, 9), (0, 5)) == "conditional"
    assert verdict((0, 9), (1, 5)) == "conditional"
    assert verdict((5, 5), (0, 5)) == verdict((0, 0), (0, 5)) == "true of the bound"
    assert verdict((5, 5), (1, 5)) == verdict((0, 0), (0, 0)) == "wrong"
    assert verdict((5, 5), (5, 0), "N") == "conditional"
    assert verdict((9, 0), (5, 0), "N") == "wrong"
    with pytest.raises(InputError, match="applies at none of 1 points"):
        effect(row("profile: valleys"), [POINT], draws=10)


def test_a_few_heads_already_separate_right_from_wrong():
    points = sample_points(20, seed=1)
    found = {name: effect(row(name), points, draws=300) for name in ("beta", "a_max_out")}
    assert found["beta"].truth.agrees("+") < 0.3
    assert found["beta"].within.agrees("+") == 1
    assert found["a_max_out"].truth.rose == 0
    text = markdown(list(found.values()))
    assert text.count("| beta |") == 2  # the arrow, and the elasticity
    assert "| true of the bound |" in text


def test_docs_hold_the_settled_verdicts():
    page = (DOCS / "studies" / "table1.md").read_text(encoding="utf-8")
    verdict = r"^\| ([^|]+?) \| .*\| (right|conditional|true of the bound|wrong) \|"
    assert dict(re.findall(verdict, page, re.MULTILINE)) == VERDICTS
    assert page.startswith("# Test of Table 1")


@pytest.mark.slow
def test_table_1_in_docs_equals_the_output_of_its_command():
    # After a change: .venv/bin/python -m studies.table_1 docs/studies/table1.md
    points = sample_points(80)
    found: list[Effect] = [effect(row, points, draws=1000) for row in ROWS]
    assert {effect.row.name: effect.verdict for effect in found} == VERDICTS
    assert markdown(found) == (DOCS / "studies" / "table1.md").read_text(encoding="utf-8")


def test_elasticities_of_the_printed_bound_are_its_derivative():
    # P_lo = 1/(1 + loss), loss = Σ counts·exp(−κ d m²/B²): d log P_lo / d log κ = P_lo Σ
    # counts·exp(−x)·x, and d moves the same way.
    point = replace(POINT, kappa=20.0)
    found = point.head().bounds("printed")
    exact = 0.0
    for margin, count in ((found.margin[0], 1.0), (found.margin_sink[0], 1 / point.n)):
        x = point.kappa * point.dimension * (margin / found.scale[0]) ** 2
        exact += count * (point.length - point.n) * np.exp(-x) * x
    exact *= found.precision_lower[0]
    seen = elasticities(point, "printed")
    assert seen["kappa"] == pytest.approx(exact, rel=1e-5)
    assert seen["norm"] == pytest.approx(2 * exact, rel=1e-5)  # erratum 1: Δ/B is a length
    assert seen["dimension"] == pytest.approx(exact, rel=0.05)
    assert np.isnan(seen["rho0"])


def test_elasticities_of_the_sharp_bound_are_free_of_units_and_of_kappa():
    seen = elasticities(POINT, "sharp")
    assert seen["kappa"] == 0
    assert seen["norm"] == pytest.approx(0, abs=1e-8)
    assert seen["dimension"] > 0 > seen["beta"]
    negative = elasticities(POINT, "printed", bound="recall_lower")
    assert np.isnan(negative["beta"])
    with pytest.raises(InputError, match="expected one of precision_lower"):
        elasticities(POINT, "sharp", bound="accuracy")
