"""LaTeX of tables: columns of numbers, text and sentences; floats and their rows."""

import re

import pytest
from support.reports_tree import run_tree
from support.verdicts import judged

from reports.tables import paper
from reports.tables.paper import Column, latex
from reports.tables.table import Table, between, missing, mixed, number, percentage, text, whole
from reports.topics.listed import tables


def column_of(*cells, letter="r") -> Column:
    return paper.column(mixed("x"), cells, letter)


@pytest.mark.parametrize(
    ("cells", "kind", "written"),
    [
        (
            [number(0.671, 0.005), number(-12.3, 1.2), number(float("nan"), 1.0)],
            "S[table-format=-2.3(2)]",
            ["0.671(5)", "-12.3(12)", "{n/a}"],
        ),
        ([number(0.5, float("nan")), number(-0.0)], "S[table-format=1.3]", ["0.500", "0"]),
        (
            [number(1e-12, 1e-13), number(0.5, 0.1)],
            "S[table-format=1.2(2)e-2]",
            ["1.00(10)e-12", "0.50(10)"],
        ),
        (
            [percentage(0.25), percentage(1e-9), percentage(1.0)],
            r"table-space-text-post={\%}",
            [r"25.0{\%}", r"{$<$ 0.1\%}", r"100{\%}"],
        ),
        ([text("a"), text("b"), whole(3)], "r", ["a", "b", "$3$"]),
        ([missing(), missing()], "r", ["n/a", "n/a"]),
    ],
    ids=["errors", "no error", "powers of ten", "shares", "mostly text", "missing"],
)
def test_a_column_fits_its_widest_parts(cells, kind: str, written: list[str]):
    result = column_of(*cells)
    assert kind in result.kind
    assert (result.kind == "r") == (kind == "r")
    assert result.cells == written
    assert result.header == ("x" if kind == "r" else "{x}")


def test_a_long_text_cell_wraps():
    result = column_of(between(-0.0553, -0.00895, 0.0341))
    assert result.kind.endswith("p{3cm}")
    assert "raggedleft" in result.kind


def test_a_header_wraps_to_its_column():
    wrapped = paper.column(mixed("better than other heads"), [whole(1)], "r")
    lines = r"better than\\ other heads"
    assert wrapped.header == rf"{{\begin{{tabular}}[b]{{@{{}}c@{{}}}}{lines}\end{{tabular}}}}"


@pytest.mark.parametrize("letter", ["l", "p"])
def test_brackets_and_stars_at_the_start_of_a_row_are_protected(letter: str):
    assert column_of(text("[a"), text("*a"), letter=letter).cells == ["{}[a", "{}*a"]


def table(rows, headers=("h",), **kwargs) -> Table:
    return Table("one_two", "Title", "A note on v_L.", list(map(text, headers)), rows, **kwargs)


def parts(written: str) -> list[list[str]]:
    """Return the rows of each tabular, headers first."""
    bodies = re.findall(r"\\toprule\n(.*?)\\bottomrule", written, re.DOTALL)
    return [re.findall(r"^.*\\\\(?:\[2pt\])?$", body, re.MULTILINE) for body in bodies]


@pytest.mark.parametrize("columns", [1, 2])
def test_latex_is_escaped_and_rows_have_equal_length(columns: int):
    every = (tables(run_tree()) | tables(judged())).values()
    for wide in (each for each in every if not each.only_page):
        shown_table, shown = wide.narrow or wide, parts(latex(wide, columns))
        assert sum(len(rows) - 1 for rows in shown) == len(shown_table.rows), wide.name
        for row in (row for rows in shown for row in rows):
            bare = re.sub(r"(?<!\\)\$.*?(?<!\\)\$", "", row)
            assert len(re.findall(r"(?<!\\)&", bare)) + 1 == len(shown_table.headers), row
            assert not re.search(r"(?<!\\)[_^#%]", bare)
            assert not re.search(r"[^\x00-\x7f\u00a1-\u017f]", row)
            assert len(re.findall(r"(?<!\\)\$", row)) % 2 == 0


def test_a_table_has_a_caption_a_label_and_notes():
    written = latex(table([[text("a"), number(0.671, 0.005)]], ("x", "y"), align="lr"))
    assert r"\caption{Title.}\label{tab:geostat-one-two}" in written
    assert r"A note on v$_{\mathrm{L}}$. In brackets after a number" in written
    assert r"\begin{tabular}{@{}l S[table-format=1.3(1)]@{}}" in written
    assert written.index("caption") < written.index("toprule") < written.index("A note")
    bare = latex(table([[text("a"), number(0.671)]], ("x", "y"), align="lr"))
    assert "In brackets" not in bare


@pytest.mark.parametrize("columns", [1, 2])
def test_a_wide_table_takes_both_columns_or_lies_sideways(columns: int):
    stars = "*" * (columns == 2)
    for count, place in ((2, "table"), (4, f"table{stars}"), (8, f"sidewaystable{stars}")):
        shown = table([[text("m" * 20)] * count] * 2, ["h"] * count, align="l" * count)
        assert rf"\begin{{{place}}}" in latex(shown, columns)


def test_a_table_longer_than_a_page_goes_on_in_further_floats():
    shown = table([[whole(index)] for index in range(90)], align="r")
    written = latex(shown)
    assert [len(rows) - 1 for rows in parts(written)] == [40, 40, 10]
    assert written.count(r"\caption") == written.count("A note") == 1
    assert written.count(r"\tablename~\thetable, continued") == 2
    sentences = table([[text("word " * 20)]] * 20, align="p")
    assert [len(rows) - 1 for rows in parts(latex(sentences))] == [10, 10]


def test_a_narrow_form_is_only_for_latex():
    narrow = table([[text("short")]], align="l")
    wide = table([[text("a long sentence")]], align="p", narrow=narrow)
    assert "short" in latex(wide)
    assert "sentence" not in latex(wide)
    assert "sentence" in wide.markdown()
