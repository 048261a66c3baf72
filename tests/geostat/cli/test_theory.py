"""`geostat theory`: every statement in every style, found by name or number, and the errata."""

import json

import pytest

from geostat.cli.progress import Console
from geostat.cli.theory import statement, trial
from geostat.errors import InputError
from theory.errors import InputError as TheoryError
from theory.paper_tables import table_1, table_2
from theory.paper_tables.table_1 import ROWS
from theory.statements import catalogue, rendering


def test_the_list_names_every_statement_once():
    lines = statement(None).splitlines()
    names = [line.split()[0] for line in lines[:-2]]
    assert names == [entry.name for entry in catalogue.entries()]
    assert len(set(names)) == len(names)
    assert "--errata" in lines[-1]


@pytest.mark.parametrize("style", ["text", "latex", "python"])
def test_a_statement_is_found_by_number_and_by_name_and_said_in_each_style(style):
    by_number = statement("12", style=style)
    entries = catalogue.find("12")
    assert by_number == "\n\n".join(rendering.render(entry, style) for entry in entries)
    assert statement(entries[0].name, style=style) in by_number


def test_styles_differ():
    assert len({statement("12", style=style) for style in ("text", "latex", "python", "json")}) == 4
    assert "\\" in statement("12", style="latex")


def test_json_parses_for_one_for_all_and_for_errata():
    one = json.loads(statement("precision_lower", style="json"))
    assert one["name"] == "precision_lower"
    every = json.loads(statement(None, style="json"))
    assert [entry["name"] for entry in every] == [entry.name for entry in catalogue.entries()]
    errata = json.loads(statement(None, style="json", errata=True))
    assert [erratum["number"] for erratum in errata] == [
        erratum.number for erratum in catalogue.errata()
    ]
    assert json.loads(statement("9", style="json", errata=True))["number"] == 9


def test_an_erratum_is_found_by_its_number():
    every = statement(None, errata=True)
    for erratum in catalogue.errata():
        alone = statement(f" {erratum.number} ", errata=True)
        assert erratum.title in alone
        assert alone in every


def test_what_is_not_there_is_said_in_one_line():
    with pytest.raises(InputError, match=r"unheard-of.*`geostat theory` lists all"):
        statement("unheard-of")
    last = catalogue.errata()[-1].number
    for asked, errata in (("99", True), ("erratum 99", False)):
        with pytest.raises(TheoryError, match=rf"no erratum has number 99, .* to {last}\."):
            statement(asked, errata=errata)
    with pytest.raises(InputError, match=r"'theorem 3'\. Near it: Theorem"):
        statement("theorem 3")
    with pytest.raises(InputError, match="--as runes: expected one of text, latex, python, json"):
        statement("12", style="runes")


@pytest.mark.parametrize("spelling", ["erratum 17", "Erratum17", "errata 17", "erratum #17"])
def test_an_erratum_is_found_by_its_name(spelling):
    assert statement(spelling) == statement("17", errata=True)
    assert statement("errata") == statement(None, errata=True)
    assert json.loads(statement(spelling, style="json"))["number"] == 17


@pytest.mark.parametrize("spelling", ["figure 3", "Fig. 3", "figure3"])
def test_a_figure_is_told_by_its_errata(spelling):
    assert statement(spelling) == statement("35", errata=True)


def test_a_section_that_states_nothing_is_told_by_its_errata():
    told = [statement(number, errata=True) for number in ("30", "34")]
    assert statement("§4.1") == "\n\n".join(told)


def test_all_statements_in_python_are_one_program_with_its_imports_first():
    source = statement(None, style="python")
    compile(source, "all", "exec")
    lines = source.splitlines()
    assert lines[:2] == ["import math", "import scipy.special"]
    assert not any(line.startswith("import") for line in lines[2:])


def test_tables_come_with_what_was_found_of_them():
    one, two = statement("table1"), statement("table 2")
    for row in ROWS:
        assert f"| {row.name} | {row.printed} |" in one
        assert f"| {row.verdict} | {row.settled} |" in one
    assert table_2.markdown() in two
    for name, style in (("table 1 row d", "text"), ("table 1", "latex"), ("12", "text")):
        assert "| verdict |" not in statement(name, style=style)


def test_a_table_is_put_to_the_test_anew(monkeypatch: pytest.MonkeyPatch):
    far: list[float] = []
    monkeypatch.setattr(table_1, "POINTS", 24)
    found = trial(
        "table1", draws=40, console=Console(fraction=lambda stage, fraction: far.append(fraction))
    )
    assert "at 24 heads of Assumptions 1-3 (those where the move applies), 40 draws a head" in found
    assert all(f"| {row.name} | " in found for row in ROWS)
    assert far == pytest.approx([(count + 1) / len(ROWS) for count in range(len(ROWS))])
    assert trial("table 2", draws=2, console=Console()) == table_2.markdown()
    for name in ("12", None):
        with pytest.raises(
            InputError, match=r"expected table 1 or table 2\. Use `geostat theory table 1 --test`"
        ):
            trial(name, draws=2, console=Console())
    with pytest.raises(InputError, match="--draws 1: expected at least 2"):
        trial("table 1", draws=1, console=Console())
