"""`geostat theory`: every statement in every style, found by name or number, and the errata."""

import json

import pytest

from geostat.errors import InputError
from geostat.statements import statement
from theory import catalogue


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
    assert by_number == "\n\n".join(catalogue.render(entry, style) for entry in entries)
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
    assert [erratum["number"] for erratum in errata] == [erratum.number for erratum in catalogue.errata()]
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
    last = len(list(catalogue.errata()))
    with pytest.raises(InputError, match=rf"--errata 99: expected a number from 1 to {last}"):
        statement("99", errata=True)
    with pytest.raises(InputError, match="--as runes: expected one of text, latex, python, json"):
        statement("12", style="runes")
