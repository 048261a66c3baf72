"""Numbers, tables and sentences that README.md and pages quote: they are those of a run."""

import re
from pathlib import Path

import pytest
from support.places import DOCS, ROOT
from support.spine import Finished

import geostat as gs
from docs.scripts import quoted_tables
from docs.scripts.quoted_tables import Quotation, differing, quotations
from docs.scripts.readme_numbers import (
    QUOTED,
    README,
    compared,
    main,
    quoted,
    section,
    unexplained,
)

REPORT = ROOT / "report"
FINDINGS = section(README.read_text(encoding="utf-8"))
TABLE = "| edition | P |\n|---|---:|\n| sharp | 79.8% (0.098) |\n| printed | -0.5 ± 0.1 |\n"
needs_report = pytest.mark.skipif(not (REPORT / "run.zarr").exists(), reason="make report")


def test_every_number_of_the_findings_comes_from_a_run():
    assert len(QUOTED) > 20
    assert unexplained(FINDINGS) == []
    assert unexplained(FINDINGS + " In 17% of heads.") == ["17%"]


def test_missing_words_are_refused():
    with pytest.raises(ValueError, match="does not say"):
        quoted(QUOTED[0], "nothing of the kind")


@pytest.mark.slow
def test_a_different_run_gives_different_numbers(
    finished: Finished, capsys: pytest.CaptureFixture[str]
):
    rows = compared(finished.tree, FINDINGS)
    values = {number.words: value for number, _, value in rows}
    precision = float(finished.tree["queries"]["precision"].sel(n=2).mean())
    assert values["Precision is {} at N = 2"].startswith(f"{precision:.3f} ± ")
    assert values["{} documents of"] == "3"
    count = main(str(finished.out))
    assert count == sum(quotation != value for _, quotation, value in rows) > 10
    assert capsys.readouterr().out.count("DIFFERS") == count


def test_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 65


@pytest.mark.parametrize(
    ("rows", "reported"),
    [
        (["| sharp bounds | 79.8% |", "| print | −0.5 ± 0.1 |"], []),
        (["| unknown | 79.9% |", "| of two rows | 79.8%, 0.1 |"], [0, 1]),
    ],
)
def test_rows_match_by_their_numbers_only(rows: list[str], reported: list[int]):
    found = differing(Quotation("a.md", "coverage", tuple(rows)), TABLE)
    assert found == [rows[index] for index in reported]


def test_a_comment_marks_a_quoted_table(tmp_path: Path):
    text = (
        "# A\n\n<!-- from norms -->\n\n| a | b |\n|---|---|\n| C | 1 |\n\n| no | 2 |\n|---|---|\n"
    )
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    assert quotations(tmp_path) == [Quotation("page.md", "norms", ("| C | 1 |",))]
    tables = {quotation.table for quotation in quotations()}
    assert tables >= {"coverage", "ingredients", "scoreboard", "sinks"}


@needs_report
@pytest.mark.slow
@pytest.mark.parametrize("check", [main, quoted_tables.main], ids=["README", "tables"])
def test_numbers_equal_those_of_the_run_at_report(check, capsys: pytest.CaptureFixture[str]):
    assert check(str(REPORT)) == 0, capsys.readouterr().out


@needs_report
@pytest.mark.slow
def test_quoted_sentences_equal_those_of_the_run_at_report():
    sentences = " ".join(gs.open(REPORT)["summary"].attrs["sentences"])
    page = (DOCS / "reference" / "sentences.md").read_text(encoding="utf-8")
    quotes = [
        " ".join(block.replace("\n> ", " ").removeprefix("> ").rstrip("… \n").split())
        for block in re.findall(r"(?:^> .*\n)+", page, re.MULTILINE)
    ]
    assert len(quotes) == 5
    assert [quote for quote in quotes if quote not in sentences] == []
