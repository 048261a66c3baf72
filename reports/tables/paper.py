r"""LaTeX of a table, as floats with caption, label and notes; and a standalone document.

siunitx aligns numbers, and adjustbox scales a table wider than the line down to it. A wide table
takes both columns of a paper (`table*`) or lies sideways; a long one goes on in further floats.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.tables.table import Cell, Table
from reports.text.latex import prose_latex, text_latex

PACKAGES: Final = ("adjustbox", "amssymb", "booktabs", "rotating", "siunitx")
ACROSS, SIDEWAYS = 60, 140
"""Letters from which a table takes both columns of a paper, and lies sideways."""
UPRIGHT, TURNED = (40, 0.75), (24, 0.5)
"""Most lines of a table on one page, and its greatest height in heights of the page."""
SENTENCE: Final = 22
"""Letters on a line of a cell; a longer text is wrapped."""
WRAPPED: Final = 28
"""Letters on a line of a wrapped cell, about 3.7 cm."""
HEADER: Final = 12
"""Letters on a line of a header."""
ALLOW: Final = r"\allowbreak{}"
LABEL: Final = "tab:geostat-{}"

_SIZES: Final = (
    "\\footnotesize\\setlength{\\tabcolsep}{3.8pt}\n"
    "\\sisetup{group-digits=integer,table-align-text-post=false,table-align-exponent=false}\n"
)
"""Font size and column spacing; siunitx without thin spaces in decimals, and with text directly
after a number.
"""
_ERRORS: Final = "In brackets after a number: its standard error, in units of the last digit."
_NUMBER: Final = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:\((\d+)\))?(?:e(-?)(\d+))?")
_UNBREAKABLE: Final = re.compile(r"(?:\\mbox\{[^}]*\}|\\.|~|\$[^$]*\$|[^\s$\\])+")


@dataclass(frozen=True, slots=True)
class Column:
    """A LaTeX column."""

    kind: str
    """Its letter with options: S for numbers, l, r or c for text, p for sentences."""
    header: str
    cells: Sequence[str]


def column(header: Cell, cells: Sequence[Cell], letter: str) -> Column:
    """Return one column: S if at least half of the known cells are numbers, p for long texts."""
    known = [cell for cell in cells if cell.sort != ""]
    numbers = sum(bool(cell.number) for cell in known)
    if letter == "r" and numbers and 2 * numbers >= len(known):
        return _numbers(header, cells)
    written = [_safe(breakable(cell.latex)) for cell in cells]
    if letter in "pr" and max((len(cell.plain) for cell in cells), default=0) > SENTENCE:
        ragged, width = ("right", "3.7cm") if letter == "p" else ("left", "3cm")
        kind = rf">{{\ragged{ragged}\arraybackslash\hspace{{0pt}}}}p{{{width}}}"
        return Column(kind, header.latex, written)
    kind = "l" if letter == "p" else letter
    return Column(kind, _wrapped(header.latex, kind), written)


def _numbers(header: Cell, cells: Sequence[Cell]) -> Column:
    """Return a column S whose format fits the most digits of each part of its numbers."""
    matches = [_NUMBER.fullmatch(cell.number) for cell in cells]
    parts = [match.groups(default="") for match in matches if match]
    sign, whole, decimals, error, minus, power = (
        max(group, key=len) for group in zip(*parts, strict=True)
    )
    form = f"{sign}{len(whole)}" + f".{len(decimals)}" * bool(decimals)
    form += f"({len(error)})" * bool(error) + f"e{minus}{len(power)}" * bool(power)
    suffix = max((cell.after for cell in cells), key=len)
    options = f"table-format={form}" + f",table-space-text-post={{{suffix}}}" * bool(suffix)
    written = [
        cell.number + f"{{{cell.after}}}" * bool(cell.after) if cell.number else f"{{{cell.latex}}}"
        for cell in cells
    ]
    return Column(f"S[{options}]", f"{{{_wrapped(header.latex, 'c')}}}", written)


def breakable(latex: str) -> str:
    r"""Allow line breaks in long names, after a slash, an underscore and every 20 letters, and
    forbid them in N = 2.

    >>> print(breakable(r"org/my\_model at N = 2"))
    org/\allowbreak{}my\_\allowbreak{}model at N~=~2
    """
    marked = re.sub(r"(?<=\w\w)(?:/|\\_)(?=\w)", lambda match: match[0] + ALLOW, latex)
    marked = re.sub(r"(?<=[\w)]) = (?=\S)", "~=~", marked)
    marked = re.sub(r"(\$\\(?:le|ge|approx)\$) (?=[\d$])", r"\1~", marked)
    return re.sub(r"[A-Za-z0-9]{20}(?=[A-Za-z0-9])", lambda match: match[0] + ALLOW, marked)


def _wrapped(header: str, letter: str) -> str:
    """Return a header on lines of about `HEADER` letters."""
    lines: list[str] = []
    for chunk in _UNBREAKABLE.findall(header):
        if lines and len(lines[-1]) + len(chunk) < HEADER:
            lines[-1] += f" {chunk}"
        else:
            lines.append(chunk)
    if len(lines) < 2:
        return header
    inner = r"\\ ".join(map(_safe, lines))
    return rf"\begin{{tabular}}[b]{{@{{}}{letter}@{{}}}}{inner}\end{{tabular}}"


def _safe(latex: str) -> str:
    """Protect a leading bracket or star, which would belong to the end of the previous row."""
    return "{}" + latex if latex[:1] in ("[", "*") else latex


def latex(table: Table, paper_columns: int = 1, part: str = "") -> str:
    r"""Return a table for a paper of one or two columns, as one float, or as several if it is
    longer than a page. The label ends in `part`, if any.

    >>> from reports.tables.table import number, text
    >>> rows = [[text("a"), number(0.671, 0.005)]]
    >>> written = latex(Table("t", "T", "C.", [text("x"), text("y")], rows, "lr"))
    >>> [line for line in written.splitlines() if "&" in line]
    ['x & {y} \\\\', 'a & 0.671(5) \\\\']
    """
    shown = table.narrow or table
    columns = [
        column(header, [row[index] for row in shown.rows], letter)
        for index, (header, letter) in enumerate(zip(shown.headers, shown.align, strict=True))
    ]
    letters = _letters(shown)
    lines, height = TURNED if letters > SIDEWAYS else UPRIGHT
    environment = "sideways" * (letters > SIDEWAYS) + "table"
    environment += "*" * (paper_columns == 2 and letters > ACROSS)
    label = LABEL.format("-".join(filter(None, (table.name, part))).replace("_", "-"))
    end = "" if table.title.endswith("?") else "."
    above = rf"\caption{{{text_latex(table.title)}{end}}}\label{{{label}}}"
    floats = []
    for rows in _pages(shown, lines):
        notes = _notes(shown, columns) if rows.stop == len(shown.rows) else ""
        floats.append(
            f"\\begin{{{environment}}}\n\\centering{_SIZES}{above}\n\\par\\smallskip\n"
            f"{_tabular(columns, rows, height)}\\par\\smallskip\n{notes}\\end{{{environment}}}\n"
        )
        above = r"\tablename~\thetable, continued"
    return f"% needs \\usepackage{{{','.join(PACKAGES)}}}\n" + "\\clearpage\n".join(floats)


def document(tables: Sequence[Table], paper_columns: int = 1, part: str = "") -> str:
    """Return a standalone LaTeX document with tables."""
    option = "[twocolumn]" if paper_columns == 2 else ""
    loaded = "".join(f"\\usepackage{{{name}}}\n" for name in PACKAGES)
    body = "\\clearpage\n".join(latex(table, paper_columns, part) for table in tables)
    return (
        f"\\documentclass{option}{{article}}\n\\usepackage[T1]{{fontenc}}\n\\usepackage{{lmodern}}\n"
        f"{loaded}\\begin{{document}}\n{body}\\end{{document}}\n"
    )


def _letters(table: Table) -> int:
    """Return about how many letters fit on a line of the table."""
    rows = [[len(cell.number + cell.after or cell.plain) for cell in row] for row in table.rows]
    headers = [min(len(cell.plain), HEADER) for cell in table.headers]
    return sum(2 + min(max(column), SENTENCE) for column in zip(headers, *rows, strict=True))


def _pages(table: Table, most: int) -> list[range]:
    """Return the rows of each page, of at most `most` lines by the longest text of each row."""
    pages, start, lines = [], 0, 0
    for index, row in enumerate(table.rows):
        height = max(1 + (len(cell.plain) - 1) // WRAPPED for cell in row)
        if lines and lines + height > most:
            pages.append(range(start, index))
            start, lines = index, 0
        lines += height
    return [*pages, range(start, len(table.rows))]


def _tabular(columns: Sequence[Column], rows: range, height: float) -> str:
    """Return some rows of a table, scaled down if they are wider than the line or too high."""
    preamble = " ".join(column.kind for column in columns)
    end = r" \\" + "[2pt]" * ("p{" in preamble)
    lines = [
        rf"\begin{{adjustbox}}{{max width=\linewidth,max totalheight={height}\textheight}}",
        rf"\begin{{tabular}}{{@{{}}{preamble}@{{}}}}",
        r"\toprule",
        " & ".join(_safe(column.header) for column in columns) + r" \\",
        r"\midrule",
        *(" & ".join(column.cells[row] for column in columns) + end for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{adjustbox}",
    ]
    return "\n".join(lines) + "\n"


def _notes(table: Table, columns: Sequence[Column]) -> str:
    """Return the notes below a table."""
    errors = any(
        re.match(r"[-\d.]+\(", cell)
        for column in columns
        if column.kind.startswith("S")
        for cell in column.cells
    )
    words = f"{table.caption} {_ERRORS}" if errors else table.caption
    return rf"{{\raggedright\noindent {breakable(prose_latex(words))}\par}}" "\n"
