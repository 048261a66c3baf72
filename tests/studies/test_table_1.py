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

VERDICTS = {row.name: row.verdict for row in ROWS}
POINT = Point(n=4, beta=2.0, eta=0.3)


def row(name: str):
    return next(row for row in ROWS if row.name == name)


def amounts(head: PointHead) -> np.ndarray:
    """Return the norms of weight times value."""
    return head.alpha * head.norms


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
    points = sample_points(10, seed=1)
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
