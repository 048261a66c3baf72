"""Tables that pages quote: their rows are those of a report."""

import re
from pathlib import Path

import pytest
from support.places import DOCS, ROOT

import geostat as gs
from docs.scripts.quoted_tables import Quotation, differing, main, quotations

REPORT = "| edition | P |\n|---|---:|\n| sharp | 79.8% (0.098) |\n| printed | -0.5 ± 0.1 |\n"


def test_rows_are_found_whatever_stands_between_their_numbers():
    quoted = Quotation("a.md", "coverage", ("| sharp bounds | 79.8% |", "| print | −0.5 ± 0.1 |"))
    assert differing(quoted, REPORT) == []


def test_a_number_that_is_in_no_row_is_found_and_so_is_one_of_another_row():
    other, mixed = "| sharp | 79.9% |", "| sharp | 79.8%, 0.1 |"
    assert differing(Quotation("a.md", "coverage", (other, mixed)), REPORT) == [other, mixed]


def test_tables_are_found_by_the_comment_before_them(tmp_path: Path):
    text = (
        "# A\n\n<!-- from norms -->\n\n| a | b |\n|---|---|\n| C | 1 |\n\n| no | 2 |\n|---|---|\n"
    )
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    assert quotations(tmp_path) == [Quotation("page.md", "norms", ("| C | 1 |",))]
    assert {one.table for one in quotations()} >= {"coverage", "ingredients", "scoreboard", "sinks"}


@pytest.mark.slow
def test_pages_quote_what_the_report_holds(capsys: pytest.CaptureFixture[str]):
    if not (ROOT / "report" / "tables").exists():
        pytest.skip("there is no report at report/: make report")
    assert main(str(ROOT / "report")) == 0, capsys.readouterr().out


@pytest.mark.slow
def test_a_page_quotes_the_sentences_of_the_report():
    if not (ROOT / "report" / "run.zarr").exists():
        pytest.skip("there is no run at report/: make report")
    said = " ".join(gs.open(ROOT / "report")["summary"].attrs["sentences"])
    page = (DOCS / "reference" / "sentences.md").read_text(encoding="utf-8")
    quoted = [
        " ".join(block.replace("\n> ", " ").removeprefix("> ").rstrip("… \n").split())
        for block in re.findall(r"(?:^> .*\n)+", page, re.MULTILINE)
    ]
    assert len(quoted) == 5
    assert [one for one in quoted if one not in said] == []
