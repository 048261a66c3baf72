"""LaTeX of tables: columns of numbers, text and sentences; floats, longtables and panels."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reports_tree import run_tree
from support.verdicts import judged

from reports.tables import paper
from reports.tables.paper import PLACES, Column, latex, plain, scientific
from reports.tables.table import Table, between, missing, mixed, number, percentage, text, whole
from reports.topics.listed import tables

ALL_TABLES = tables(run_tree()) | tables(judged())


# \\settowidth in \\footnotesize of a plain article, pdfTeX 1.40.24.
WIDTHS = {
    **{r"$0.67 \pm 0.05$": 40.6, "exponential": 42.7, "median CV 0.2 within a document": 128.7},
    **{r"$1.25\times 10^{-6}$": 43.9, "HuggingFaceTB/SmolLM2-135M": 123.1, r"$\rho_0$": 8.5},
    **{r"$p_{\mathrm{base}}$": 18.7, r"$\le$ 0.05": 24.6, r"$\log\alpha$": 17.9},
    **{r"$\mathrm{CV}$ profile": 38.6, r"$-0.5$": 18.0, r"90--100\%": 32.6},
}


@pytest.mark.parametrize("written", WIDTHS)
def test_estimated_widths_are_at_least_those_of_tex(written: str):
    assert WIDTHS[written] <= paper.width(written) <= 1.4 * WIDTHS[written] + 4


def column_of(*cells, letter="r") -> Column:
    return paper.column(mixed("x"), cells, letter)


def test_a_column_of_numbers_fits_the_widest_parts():
    result = column_of(number(0.671, 0.005), number(-12.3, 1.2), number(float("nan"), 1.0))
    assert (result.kind, result.options, result.header) == ("S", "table-format=-2.3(2)", "{x}")
    assert result.cells == ["0.671(5)", "-12.3(12)", "{n/a}"]


def test_an_unknown_error_is_omitted_and_zero_has_no_sign():
    assert column_of(number(0.5, float("nan")), number(-0.0)).cells == ["0.500", "0"]


def test_a_column_uses_scientific_notation_for_all_numbers_or_none():
    assert column_of(number(1e-12, 1e-13), number(0.5, 0.1)).cells == ["1.00(10)e-12", "5.0(10)e-1"]
    assert column_of(number(5e-4), number(0.5)).cells == ["0.000500", "0.500"]


def test_shares_keep_their_percent_sign():
    result = column_of(percentage(0.25), percentage(1e-9), percentage(1.0))
    assert result.cells == [r"25.0{\%}", r"{$<$ 0.1\%}", r"100{\%}"]
    assert r"table-space-text-post={\%}" in result.options


def test_a_column_of_mostly_text_is_not_a_column_of_numbers():
    result = column_of(text("a"), text("b"), whole(3))
    assert (result.kind, result.cells) == ("r", ["a", "b", "$3$"])
    assert column_of(missing(), missing()).kind == "r"


def test_a_long_text_cell_wraps():
    result = column_of(between(-0.0553, -0.00895, 0.0341))
    assert (result.kind, result.options) == ("X", r"\raggedleft")
    assert result.least < result.full


def test_a_header_wraps_to_its_column():
    wrapped = paper.column(mixed("better than other heads"), [whole(1)], "r")
    lines = r"better\\ than\\ other\\ heads"
    assert wrapped.header == rf"{{\begin{{tabular}}[b]{{@{{}}c@{{}}}}{lines}\end{{tabular}}}}"


@pytest.mark.parametrize("letter", ["l", "p"])
def test_brackets_and_stars_at_the_start_of_a_row_are_protected(letter: str):
    assert column_of(text("[a"), text("*a"), letter=letter).cells == ["{}[a", "{}*a"]


def in_full(written: str) -> Decimal:
    """Return the value of a printed number, without its error."""
    digits, _, power = written.partition("e")
    return Decimal(digits.partition("(")[0]).scaleb(int(power or 0))


@given(st.floats(-1e9, 1e9), st.one_of(st.none(), st.floats(1e-9, 1e9)))
def test_plain_and_scientific_notation_give_the_value(value: float, error: float | None):
    known = number(value, error).number
    for written in (plain(known), scientific(known)):
        assert in_full(written) == in_full(known)
        assert re.findall(r"\((\d+)\)", written) == re.findall(r"\((\d+)\)", known)


def table(rows, headers=("h",), **kwargs) -> Table:
    return Table("one_two", "Title", "A note on v_L.", list(map(text, headers)), rows, **kwargs)


def panels(written: str) -> list[list[str]]:
    """Return the rows of each tabular, headers first, without repeated headers."""
    whole = re.sub(r"\\endfirsthead.*?\\endlastfoot", "", written, flags=re.DOTALL)
    body = r"\\toprule\n(.*?)(?=\\end\{(?:tabularx?|longtable|xltabular)\}$)"
    bodies = re.findall(body, whole, re.DOTALL | re.MULTILINE)
    return [re.findall(r"^.*\\\\(?:\[2pt\])?$", body, re.MULTILINE) for body in bodies]


@pytest.mark.parametrize("columns", PLACES)
@pytest.mark.parametrize("name", [name for name in ALL_TABLES if not ALL_TABLES[name].only_page])
def test_latex_is_escaped_and_rows_have_equal_length(name: str, columns: int):
    shown_table = ALL_TABLES[name].narrow or ALL_TABLES[name]
    written = latex(ALL_TABLES[name], columns)
    shown = panels(written)
    assert written.count(r"\bottomrule") == len(shown)
    widths = []
    for rows in shown:
        assert len(rows) == len(shown_table.rows) + 1
        bare = [re.sub(r"(?<!\\)\$.*?(?<!\\)\$", "", row) for row in rows]
        (cells,) = {len(re.findall(r"(?<!\\)&", row)) + 1 for row in bare}
        widths.append(cells)
        for row, without in zip(rows, bare, strict=True):
            assert not re.search(r"(?<!\\)[_^#%]", without)
            assert not re.search(r"[^\x00-\x7f\u00a1-\u017f]", row)
            assert len(re.findall(r"(?<!\\)\$", row)) % 2 == 0
    repeated = shown_table.keys if len(shown) > 1 else 0
    assert sum(cells - repeated for cells in widths) + repeated == len(shown_table.headers)


def test_a_table_has_a_caption_a_label_and_notes():
    written = latex(table([[text("a"), number(0.671, 0.005)]], ("x", "y"), align="lr"))
    assert r"\caption{Title.}\label{tab:geostat-one-two}" in written
    assert r"A note on v$_{\mathrm{L}}$. In brackets after a number" in written
    assert r"\begin{tabular}{@{}l S[table-format=1.3(1)]@{}}" in written
    assert written.index("caption") < written.index("toprule") < written.index("A note")
    bare = latex(table([[text("a"), number(0.671)]], ("x", "y"), align="lr"))
    assert "In brackets" not in bare


@pytest.mark.parametrize(("columns", "places"), [(1, ("table", "table")), (2, ("table", "table*"))])
def test_a_table_uses_the_narrowest_environment_that_fits(columns: int, places: tuple[str, str]):
    for letters, place in zip((10, 40), places, strict=True):
        written = latex(table([[text("m" * letters)]] * 2, align="l"), columns)
        assert rf"\begin{{{place}}}" in written


def test_a_table_longer_than_a_page_breaks_over_pages():
    long = table([[whole(index)] for index in range(80)], align="r")
    assert r"\begin{longtable}{@{}S[table-format=2]@{}}" in latex(long)
    assert r"\begin{table" not in latex(long)
    assert r"\clearpage\onecolumn" in latex(long, 2)
    assert r"\begin{table}" in latex(table(long.rows[:20], align="r"), 2)
    sentences = table([[text("word " * 20)]] * 80, align="p")
    assert r"\begin{xltabular}{\linewidth}" in latex(sentences)


def test_columns_that_do_not_fit_are_split_into_panels_with_key_columns():
    rows = [[text("row"), *(text("m" * 10) for _ in range(6))]]
    shown = panels(latex(table(rows, ("key", *"abcdef"), align="l" + "r" * 6)))
    assert [rows[0] for rows in shown] == [r"key & a & b & c \\", r"key & d & e & f \\"]


def test_sentences_share_the_remaining_width_by_length():
    cells = [text("word " * 20), text("words " * 10), whole(1)]
    written = latex(table([cells], "abc", align="ppr"))
    preamble = re.search(r"tabularx\}\{\\linewidth\}\{(.*)\}$", written, re.MULTILINE)
    first, second = (float(size) for size in re.findall(r"\\hsize=([\d.]+)\\hsize", preamble[1]))
    assert first + second == pytest.approx(2, abs=0.002)
    assert first > second
    assert preamble[1].endswith("S[table-format=1]@{}")


def test_a_narrow_form_is_only_for_latex():
    narrow = table([[text("short")]], align="l")
    wide = table([[text("a long sentence")]], align="p", narrow=narrow)
    assert "short" in latex(wide)
    assert "sentence" not in latex(wide)
    assert "sentence" in wide.markdown()
