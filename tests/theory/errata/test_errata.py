"""Errata: each has a grade, a computed example and a place in the docs."""

import math
from dataclasses import FrozenInstanceError, replace
from typing import get_args

import numpy as np
import pytest
from scipy.special import betainc
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
    assert [item.number for item in record.ERRATA] == list(range(1, 45))
    with pytest.raises(FrozenInstanceError):
        record.ERRATA[0].title = "other"


GRADES = {
    "false": {1, 4, 5, 6, 7, 8, 16, 18, 19, 22, 23, 27, 41},
    "undefined": {2, 3, 12, 13, 15, 17, 20, 21, 32, 37, 38, 39, 44},
    "gap": {9, 14, 28, 30, 33, 34, 36, 40, 42, 43},
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


def test_no_statement_of_an_unread_paper_is_graded_false() -> None:
    assert {item.grade for item in record.OF_NORMALISER}.isdisjoint({"false"})


def test_every_erratum_has_a_place_and_is_listed_by_the_statements_there() -> None:
    carried = {number for entry in catalogue.entries() for number in entry.errata}
    unstated = ("Figure", "Section 2", "Section 3.3", "Section 4", "Section 5", "abstract")
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
    **{43: (-0.5, 0), 44: (6, 10)},
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


def test_no_kappa_makes_the_printed_tail_and_the_upper_bound_of_recall_true() -> None:
    # Erratum 7, by simulation of its head, and by the exact law of a cosine for (31).
    largest, fails = (counterexamples.lower_tail().quoted[name] for name in ("largest", "fails"))
    head = (counterexamples.SPLIT, 1.0, np.eye(4), 64, [2])
    found = simulate(*head, draws=60_000, directions="unit", sink=None)
    exact = counterexamples.recall_of_two(counterexamples.SPLIT, 64)
    assert abs(found.recall[0] - exact) < 4 * found.recall_se[0]
    at = [envelope(*head, edition="printed", kappa=k).recall_upper[0] for k in (largest, fails)]
    assert at[0] < exact - 0.001
    assert at[1] == pytest.approx(exact, rel=1e-9)
    needed = [-36 * np.log(betainc((d - 1) / 2, 0.5, 0.75) / 2) / d for d in (64, 512, 2048)]
    assert largest < needed[2] < needed[1] < needed[0]
    assert needed[2] == pytest.approx(largest, rel=0.02)


def test_the_upper_bound_of_recall_depends_on_kappa_times_the_squared_norm() -> None:
    head = (np.array(counterexamples.SPLIT), np.eye(4), 64, [2])
    at = [
        envelope(head[0], norm, *head[1:], edition="printed", kappa=kappa).recall_upper[0]
        for kappa, norm in ((0.125, 1.0), (5.0, 0.025**0.5))
    ]
    assert at[0] == pytest.approx(at[1], rel=1e-12)


def test_half_needs_a_median_of_at_most_the_mean() -> None:
    # Erratum 11: the chain by simulation, in a finite dimension.
    rng = np.random.default_rng(0)
    draws, count, d = 400, 20, 2000
    units = np.empty((count + 1, draws, d))
    for k in range(count + 1):
        new = rng.normal(size=(draws, d))
        new /= np.linalg.norm(new, axis=1, keepdims=True)
        again = (rng.random(draws) < 0.54)[:, None] & (k > 0)
        units[k] = np.where(again, units[k - 1], new)
    alone = rng.normal(size=(draws, d)) / d**0.5
    s = alone + 0.9 * units[1:].sum(axis=0)
    x = ((s - 0.8 * units[0]) ** 2).sum(axis=-1) - ((s - alone) ** 2).sum(axis=-1)
    mean, chance = counterexamples.below_the_mean()
    assert mean < 0
    assert (x <= 0).mean() == pytest.approx(chance, abs=0.1)


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
