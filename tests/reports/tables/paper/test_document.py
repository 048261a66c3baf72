"""LaTeX of tables: floats, longtables, panels, and rows of even width."""

import re

import pytest
from support.reports_tree import run_tree
from support.verdicts import judged

from reports.tables.cells import number, text, whole
from reports.tables.every import tables
from reports.tables.paper.document import document, latex
from reports.tables.paper.layout import BESIDE, PLACES, layout, widths
from reports.tables.table import Table

MADE = tables(run_tree()) | tables(judged())


def table(rows, headers=("h",), **more) -> Table:
    return Table("one_two", "Title", "A note on v_L.", list(map(text, headers)), rows, **more)


def body(written: str) -> list[str]:
    """The rows of all tabulars."""
    return [
        line
        for line in written.splitlines()
        if re.search(r" \\\\(\[2pt\])?$", line)
        and "multicolumn" not in line
        and "caption" not in line
    ]


@pytest.mark.parametrize("columns", PLACES)
@pytest.mark.parametrize("name", [name for name, one in MADE.items() if not one.only_page])
def test_latex_is_safe_and_of_even_rows(name: str, columns: int):
    one = MADE[name].narrow or MADE[name]
    plan, written = layout(one, columns), latex(MADE[name], columns)
    heads = 2 if plan.long else 1
    widths = [len(panel) for panel in plan.panels for _ in range(len(one.rows) + heads)]
    assert set().union(*plan.panels) == set(range(len(one.headers)))
    assert written.count(r"\bottomrule") == len(plan.panels)
    for row, width in zip(body(written), widths, strict=True):
        bare = re.sub(r"(?<!\\)\$.*?(?<!\\)\$", "", row)
        assert len(re.findall(r"(?<!\\)&", bare)) == width - 1
        assert not re.search(r"(?<!\\)[_^#%]", bare)
        assert not re.search(r"[^\x00-\x7f\u00a1-\u017f]", row)
        assert len(re.findall(r"(?<!\\)\$", row)) % 2 == 0


def test_a_table_has_a_caption_a_label_and_notes():
    written = latex(table([[text("a"), number(0.671, 0.005)]], ("x", "y"), align="lr"))
    assert r"\caption{Title.}\label{tab:geostat-one-two}" in written
    assert r"A note on v$_{\mathrm{L}}$. In brackets behind a number" in written
    assert r"\begin{tabular}{@{}l S[table-format=1.3(1)]@{}}" in written
    assert written.index("caption") < written.index("toprule") < written.index("A note")
    bare = latex(table([[text("a"), number(0.671)]], ("x", "y"), align="lr"))
    assert "In brackets" not in bare


@pytest.mark.parametrize(("columns", "places"), [(1, ("table", "table")), (2, ("table", "table*"))])
def test_a_table_goes_where_it_has_room(columns: int, places: tuple[str, str]):
    for letters, place in zip((10, 40), places, strict=True):
        written = latex(table([[text("m" * letters)]] * 2, align="l"), columns)
        assert rf"\begin{{{place}}}" in written


def test_what_is_longer_than_a_page_breaks_over_pages():
    long = table([[whole(index)] for index in range(80)], align="r")
    assert r"\begin{longtable}{@{}S[table-format=2]@{}}" in latex(long)
    assert r"\begin{table" not in latex(long)
    assert r"\clearpage\onecolumn" in latex(long, 2)
    assert r"\begin{table}" in latex(table(long.rows[:20], align="r"), 2)
    sentences = table([[text("word " * 20)]] * 80, align="p")
    assert r"\begin{xltabular}{\linewidth}" in latex(sentences)


def test_columns_that_do_not_fit_stand_in_panels_behind_those_that_name_a_row():
    rows = [[text("row"), *(text("m" * 10) for _ in range(6))]]
    many = table(rows, ("key", *"abcdef"), align="l" + "r" * 6)
    plan = layout(many, 1)
    assert [panel[0] for panel in plan.panels] == [0] * len(plan.panels)
    assert [index for panel in plan.panels for index in panel[1:]] == list(range(1, 7))
    assert [len(panel) for panel in plan.panels] == [4, 4]


def test_sentences_take_what_other_columns_leave():
    cells = [text("word " * 10), text("words " * 5), text("m m m m m m m m m m m m"), whole(1)]
    plan = layout(table([cells], "abcd", align="pprr"), 1)
    found = widths(plan.columns, range(4), plan.place.room)
    others = sum(plan.columns[index].wanted for index in (2, 3))
    assert sum(found.values()) == pytest.approx(plan.place.room - others - 3 * BESIDE)
    assert found[0] > found[1] >= plan.columns[1].least


def test_a_narrow_form_stands_on_paper_alone():
    narrow = table([[text("short")]], align="l")
    wide = table([[text("a long sentence")]], align="p", narrow=narrow)
    assert "short" in latex(wide)
    assert "sentence" not in latex(wide)
    assert "sentence" in wide.markdown()


def test_verdicts_have_signs_and_short_names_on_paper():
    written = latex(MADE["verdict_heads"])
    assert "0 & 0 & + & + \\\\" in written
    assert r"0 & 2 & $-$ & $-$ \\" in written
    assert "1 norms.cv; 2 bounds.sharp" in written
    assert r"norms.cv$^\dagger$ ($\le$~0.05) & 1 & 1 & 1 & 0 & 1 & 50{\%} & 32--68\%" in latex(
        MADE["verdicts"]
    )


def test_a_document_loads_what_its_tables_need():
    written = document([MADE["norms"], MADE["errata"]], 2)
    assert written.startswith(r"\documentclass[twocolumn]{article}")
    for name in ("booktabs", "siunitx", "xltabular"):
        assert rf"\usepackage{{{name}}}" in written
    assert written.count(r"\caption") == 2
