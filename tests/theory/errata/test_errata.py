"""Errata: each has a grade, a computed example and a place in the docs."""

import math
from dataclasses import FrozenInstanceError, replace
from typing import get_args

import numpy as np
import pytest
from support.places import DOCS

from theory.editions.printed import harmonic
from theory.errata import counterexamples, record
from theory.evaluate.envelopes import envelope
from theory.evaluate.simulate import simulate
from theory.head.gram import exponential
from theory.paper_tables.table_2 import figure_4_profile
from theory.statements import catalogue
from theory.symbolic import symbols, theorems
from theory.symbolic.margins import SPELLED_OUT


@pytest.mark.parametrize("erratum", record.ERRATA, ids=lambda item: f"{item.number}")
def test_every_erratum_has_a_valid_example(erratum: record.Erratum) -> None:
    found = erratum.counterexample()
    assert found.shown
    assert found.printed != found.true
    assert math.isfinite(found.printed)
    assert math.isfinite(found.true)


def test_errata_are_numbered_without_gaps() -> None:
    assert [item.number for item in record.ERRATA] == list(range(1, 38))
    with pytest.raises(FrozenInstanceError):
        record.ERRATA[0].title = "other"


# THEORY, §6, "Grades", line by line.
GRADES = {
    "false": {1, 3, 4, 5, 6, 7, 8, 16, 17, 18, 19, 22, 23, 27},
    "undefined": {2, 12, 13, 15, 20, 21, 32, 37},
    "gap": {9, 14, 28, 30, 33, 34, 36},
    "true of the bound, not of the quantity": {24, 25, 26, 29},
    "remark": {10, 11, 31, 35},
}


def test_every_erratum_has_its_grade_and_unknown_grades_are_refused() -> None:
    assert set(GRADES) == set(get_args(record.Grade))
    for grade, numbers in GRADES.items():
        assert {item.number for item in record.ERRATA if item.grade == grade} == numbers
        assert f"*{grade}*:" in record.PREFACE[2]
    with pytest.raises(ValueError, match="erratum 1 has grade 'bad', expected one of false, undef"):
        replace(record.ERRATA[0], grade="bad")


def test_every_erratum_has_a_place_and_is_listed_by_the_statements_there() -> None:
    carried = {number for entry in catalogue.entries() for number in entry.errata}
    unstated = ("Figure", "Section 3.3", "Section 4.1", "abstract")
    for item in record.ERRATA:
        stated = [place for place in item.equations if not place.startswith(unstated)]
        assert (item.number in carried) == bool(stated), item.number
        assert item.equations
        for place in item.equations:
            assert item in catalogue.errata_at(place)
        for place in stated:
            assert catalogue.find(place), place


def test_the_report_in_docs_equals_the_output_of_its_command() -> None:
    # After a change to an erratum: .venv/bin/python -m theory.errata docs/reference/errata.md
    assert (DOCS / "reference" / "errata.md").read_text(encoding="utf-8") == record.markdown()


def test_the_report_gives_place_statement_reason_correction_and_numbers() -> None:
    report = record.markdown()
    assert record.COMMAND in report
    for item in record.ERRATA:
        index = report.index(f"## {item.number}. {item.title}")
        section = report[index : report.index("\n## ", index + 1)]
        sentence = record.example_sentence(item)
        for text in (item.where, item.grade, item.printed, item.why, item.true, sentence):
            assert text in section
        assert not any(f"{{{name}" in sentence for name in ("error", "edge", "norm", "before"))


# THEORY: numbers quoted in the errata's own words, by number: the printed one and that beside it.
PINNED = {
    **{3: (1, 2), 5: (-0.24, 0.25), 6: (0.33, 0.19), 8: (454 / 515, 13 / 16), 12: (3 / 4, 1)},
    **{14: (1, 2 / 3), 15: (0.61, 0.91), 17: (1, 391 / 432), 19: (0.25, 0.3), 20: (1, 0.5)},
    **{21: (23, 33), 22: (6853, 0), 25: (-2, 254), 27: (-0.036, -0.15), 28: (1, 99), 33: (0, -0.5)},
}


@pytest.mark.parametrize("number", sorted(PINNED))
def test_examples_give_the_quoted_numbers(number: int) -> None:
    found = record.ERRATA[number - 1].counterexample()
    assert (found.printed, found.true) == pytest.approx(PINNED[number], rel=1e-10)


def test_last_token_outside_by_simulation() -> None:
    # Erratum 17 and 8: E P = 391/432, E R = 227/288, E F(r_min) = 13/16 < f(E R) = 454/515, by
    # integrals over ‖s‖² and one cosine.
    head = ([0.75, 1.0, 0.5], 1.0, np.eye(3), 3, [2])
    found = simulate(*head, draws=60_000, directions="unit", sink=None)
    for name, exact in (("precision", 391 / 432), ("recall", 227 / 288), ("f_inner", 13 / 16)):
        assert abs(getattr(found, name)[0] - exact) < 4 * getattr(found, f"{name}_se")[0]
    assert harmonic(227 / 288) == pytest.approx(454 / 515)
    assert counterexamples.last_outside(1.0) == pytest.approx(41 / 144, rel=1e-12)
    assert counterexamples.last_outside(9 / 16) == pytest.approx(5 / 36, rel=1e-12)


def test_the_upper_bound_of_recall_fails_at_any_kappa_for_some_norm() -> None:
    # Erratum 7: κ and the norm enter (15) as κC².
    a, gram = np.array([0.01, 0.6, 0.4, 0.05]), np.eye(4)
    at = [
        envelope(a, norm, gram, 64, [2], edition="printed", kappa=kappa).recall_upper[0]
        for kappa, norm in ((0.125, 1.0), (5.0, 0.025**0.5), (80.0, 0.125 / 10))
    ]
    assert at[0] == pytest.approx(at[1], rel=1e-12)
    low = envelope(a, 0.125 / 10, gram, 64, [2], edition="sharp").recall_lower[0]
    assert at[2] < low - 0.02
    quoted = counterexamples.lower_tail().quoted
    assert quoted["fails"] == pytest.approx(4.53, abs=0.01)
    assert quoted["holds"] == pytest.approx(5.52, abs=0.01)


def test_the_lower_bound_of_recall_holds_no_cosine_of_the_sink() -> None:
    # Erratum 30, with the sink selected: the maxima of (7) then leave it out.
    spelled = theorems.RECALL_LOWER.expression.subs(SPELLED_OUT)
    assert symbols.rho_0 not in spelled.free_symbols
    head = [0.5, 0.1, 0.1, 0.1, 0.2], [0.2, 1, 1, 1, 1]
    with_sink, opposed = (
        envelope(*head, exponential(1.0, rho0, 5), 64, [3], edition="printed")
        for rho0 in (0.3, -0.3)
    )
    assert with_sink.recall_lower[0] == opposed.recall_lower[0]
    assert with_sink.recall_upper[0] != opposed.recall_upper[0]


@pytest.mark.parametrize(("size", "least"), [(2, 752), (4, 2124)])
def test_the_lower_bound_of_recall_is_positive_from_that_scale_on(size: int, least: int) -> None:
    # Erratum 31, THEORY: κC² ≥ 752 at N = 2 and 2,124 at N = 4, by the printed edition itself. The
    # sink is not selected at these sizes; without it the printed term of the sink is left out.
    scale = counterexamples.least_scale(size)
    assert int(scale) == least
    head = (figure_4_profile().weights(), 1.0, np.eye(1025), 128, [size])
    below, above = (
        envelope(*head, edition="printed", kappa=kappa, sink=None).recall_lower[0]
        for kappa in (scale * (1 - 1e-9), scale * (1 + 1e-9))
    )
    assert below < 0 < above


@pytest.mark.parametrize("dimension", [8, 128])
def test_a_chain_of_repeated_directions_needs_the_stated_proxy(dimension: int) -> None:
    # Erratum 32: the cosine of neighbours is 1 with chance e^{−β} = 1/4 and else that of two
    # uniform directions; its mean is 1/4, as Assumption 2 has it.
    rng = np.random.default_rng(0)
    draws = 100_000
    first, other = rng.normal(size=(2, draws, dimension))
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(other, axis=1)
    cosine = np.einsum("ij,ij->i", first, other) / lengths
    cosine = np.where(rng.random(draws) < 0.25, 1.0, cosine)
    assert abs(cosine.mean() - 0.25) < 4 * cosine.std() / draws**0.5
    x = 0.2**2 + 0.1**2 - 2 * 0.2 * 0.1 * cosine
    seen = dimension * x.var() / (0.2 + 0.1 + 0.2) ** 2
    assert seen == pytest.approx(counterexamples.proxy_of_a_chain(dimension), rel=0.02)


def test_widths_stay_below_the_printed_scale_without_the_sink_where_weights_sum_to_one() -> None:
    # What stands needs no sink in a_max_in: w_ij ≤ B wherever Σa ≤ 1 and some content is selected.
    rng = np.random.default_rng(1)
    for _ in range(2000):
        tokens = int(rng.integers(3, 9))
        a = rng.dirichlet(np.full(tokens, rng.choice([0.2, 1.0, 5.0])))
        size = int(rng.integers(2, tokens))
        inside, outside = a[:size], a[size:]  # the sink is the first
        scale = inside[1:].max() + outside.max() + inside[1:].sum()
        width = inside.sum() * (inside[:, None] + outside) - inside[:, None] ** 2
        assert (width <= scale + 1e-12).all()
