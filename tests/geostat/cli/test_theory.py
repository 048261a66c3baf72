"""`geostat theory`: every statement in every style, found by name or number, and the errata."""

import json

import pytest

from geostat.cli.theory import statement
from geostat.errors import InputError
from theory.errors import InputError as TheoryError
from theory.paper_tables import table_2
from theory.paper_tables.table_1 import ROWS
from theory.statements import catalogue, rendering


def test_the_list_contains_every_statement_once():
    lines = statement(None).splitlines()
    names = [line.split()[0] for line in lines[:-2]]
    assert names == [entry.name for entry in catalogue.entries()]
    assert len(set(names)) == len(names)
    assert "--errata" in lines[-1]


def test_a_statement_is_found_by_number_and_name_in_each_style():
    entries = catalogue.find("12")
    printed = {style: statement("12", style=style) for style in ("text", "latex", "python")}
    for style, text in printed.items():
        assert text == "\n\n".join(rendering.render(entry, style) for entry in entries)
        assert statement(entries[0].name, style=style) in text
    assert len(set(printed.values())) == 3


def test_json_parses_for_one_statement_all_statements_and_errata():
    one = json.loads(statement("precision_lower", style="json"))
    assert one["name"] == "precision_lower"
    every = json.loads(statement(None, style="json"))
    assert [entry["name"] for entry in every] == [entry.name for entry in catalogue.entries()]
    errata = json.loads(statement(None, style="json", errata=True))
    assert [erratum["number"] for erratum in errata] == [
        erratum.number for erratum in catalogue.errata()
    ]
    assert json.loads(statement("9", style="json", errata=True))["number"] == 9


def test_an_erratum_is_found_by_its_number_and_name():
    every = statement(None, errata=True)
    for erratum in catalogue.errata():
        alone = statement(f" {erratum.number} ", errata=True)
        assert erratum.title in alone
        assert alone in every
    for spelling in ("erratum 17", "Erratum17", "errata 17", "erratum #17"):
        assert statement(spelling) == statement("17", errata=True)
    assert statement("errata") == every


NO_ERRATUM = rf"no erratum has number 99, .* to {catalogue.errata()[-1].number}\."


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("unheard-of", {}, r"Close names: [^,]+, [^,]+, [^,]+\. `geostat theory` lists all"),
        ("theorem 3", {}, r"'theorem 3'\. Close names: Theorem"),
        ("99", {"errata": True}, NO_ERRATUM),
        ("erratum 99", {}, NO_ERRATUM),
        ("12", {"style": "runes"}, "--as runes: expected one of text, latex, python, json"),
    ],
)
def test_unknown_statements_and_errata_are_refused(name: str, options: dict, message: str):
    with pytest.raises((InputError, TheoryError), match=message):
        statement(name, **options)


@pytest.mark.parametrize(
    ("part", "numbers"),
    [*((name, ["35"]) for name in ("figure 3", "Fig. 3", "figure3")), ("§4.1", ["30", "34", "41"])],
)
def test_a_figure_or_a_section_without_statements_prints_its_errata(part: str, numbers: list[str]):
    assert statement(part) == "\n\n".join(statement(number, errata=True) for number in numbers)


def test_python_output_is_one_program_with_imports_first():
    source = statement(None, style="python")
    compile(source, "all", "exec")
    lines = source.splitlines()
    assert lines[:2] == ["import math", "import scipy.special"]
    assert not any(line.startswith("import") for line in lines[2:])


def test_tables_are_printed_with_their_verdicts():
    one, two = statement("table1"), statement("table 2")
    for row in ROWS:
        assert f"| {row.name} | {row.printed} |" in one
        assert f"| {row.verdict} | {row.corrected} |" in one
    assert table_2.markdown() in two
    for name, style in (("table 1 row d", "text"), ("table 1", "latex"), ("12", "text")):
        assert "| verdict |" not in statement(name, style=style)
