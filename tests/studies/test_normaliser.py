"""Study of the normaliser: claimed statements hold, printed ones fail where the errata say so."""

import pytest
from support.places import DOCS

from studies.normaliser import PRINTED, Cell, Tally, check_statements, document, main
from theory.errata.record import OF_NORMALISER
from theory.statements import catalogue

ROWS = 60
STATEMENTS = [entry for entry in catalogue.entries() if entry.paper == "arXiv 2508.17821"]
BOUNDS = {entry.name for entry in STATEMENTS if entry.relation in ("<=", ">=")}
BY_CELL = ("distance_sum_upper", "share_within_upper", "jacobian_norm_upper")
"""Statements with several readings."""


@pytest.fixture(scope="module")
def tally() -> Tally:
    return check_statements(ROWS, seed=7, draws=200)


def test_no_claimed_statement_is_violated(tally):
    claimed = {key: cells for key, cells in tally.cells.items() if key[0] not in BY_CELL}
    assert len(claimed) > 25
    assert [key for key, cells in claimed.items() if any(cell.beyond for cell in cells)] == []


def test_printed_statements_hold_or_fail_as_in_the_errata(tally):
    count = {key: sum(cell.beyond for cell in cells) for key, cells in tally.cells.items()}
    assert count["distance_sum_upper", "sum of norms"] == 0
    assert count["share_within_upper", "M of values"] == 0
    assert count["jacobian_norm_upper", "spectral norm"] > ROWS / 5  # erratum 106
    assert count["jacobian_norm_upper", "largest entry"] > 0  # erratum 107
    assert count["distance_sum_upper", "α_i > ᾱ outside"] > 0  # erratum 103


def test_a_bound_that_is_too_narrow_is_detected():
    tally = Tally()
    tally.most(("exact", ""), 1.0, 1.0 - 1e-6)
    tally.least(("noisy", ""), 0.5, 0.7, error=0.04)
    tally.equal(("within noise", ""), 0.5, 0.6, error=0.04)
    tally.most(("rounding", ""), 1.0 + 1e-12, 1.0)
    seen = {key[0]: cells[0].beyond for key, cells in tally.cells.items()}
    assert seen == {"exact": True, "noisy": True, "within noise": False, "rounding": False}
    assert tally.beyond()
    assert Cell(excess=-0.5, error=0.0, size=2.0).slack == 0.25


def test_every_bound_in_the_catalogue_is_checked(tally):
    tried = {name for name, _ in tally.cells}
    assert tried >= BOUNDS
    printed = {entry.name for entry in STATEMENTS if entry.edition == "printed"}
    assert printed & tried == {entry.name for entry in STATEMENTS} & tried & set(PRINTED)


def test_statements_are_found_by_the_parts_of_their_paper():
    first, *others = (entry.name for entry in catalogue.find("Normaliser Theorem 1"))
    assert first == "distance_sum"
    assert "distance_sum_upper" in others
    assert {entry.part for entry in catalogue.find("normaliser lemma 2")} == {"Normaliser Lemma 2"}
    found = catalogue.statement("share_within_upper")
    assert found.source == "arXiv 2508.17821, Normaliser Theorem 2"
    beside = catalogue.statement("sharp_share_within_upper").source
    assert beside == "not in print; sharp edition, extends arXiv 2508.17821"
    assert "2602" not in " ".join(entry.source for entry in STATEMENTS)


@pytest.mark.parametrize("erratum", OF_NORMALISER, ids=lambda item: f"{item.number}")
def test_every_erratum_has_a_valid_example_and_is_listed_by_its_statements(erratum):
    found = erratum.counterexample()
    assert found.shown
    assert found.printed != found.true
    assert catalogue.find_erratum(erratum.number) == erratum
    (place,) = erratum.equations
    assert erratum in catalogue.errata_at(place)
    assert erratum.number in {number for one in catalogue.find(place) for number in one.errata}
    assert erratum.where.startswith("arXiv 2508.17821, ")


def test_errata_of_the_normaliser_are_numbered_from_101():
    numbers = [item.number for item in OF_NORMALISER]
    assert numbers == list(range(101, 101 + len(numbers)))


def test_the_document_is_written(tally, tmp_path):
    text = document(tally, rows=ROWS, seed=7, draws=200)
    assert "Target: none violated. Found: 0 of" in text
    main([str(tmp_path / "page.md"), "--rows", "2", "--draws", "20", "--seed", "3"])
    assert (tmp_path / "page.md").read_text(encoding="utf-8").startswith("# Normaliser against")
    with pytest.raises(SystemExit):
        main([str(tmp_path / "page.md"), "--rows", "0"])


def test_the_page_in_docs_counts_two_thousand_rows_and_meets_its_target():
    # Written by .venv/bin/python -m studies.normaliser docs/studies/normaliser.md
    page = (DOCS / "studies" / "normaliser.md").read_text(encoding="utf-8")
    assert "**Rows.** 2,000 each, seed 0" in page
    assert "Target: none violated. Found: 0 of" in page
    for name in BOUNDS:
        assert f"| {name} |" in page
