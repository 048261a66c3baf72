r"""LaTeX of a table: a float or longtable with caption, label and notes; and a standalone document.

A table takes one column of the paper if it fits, otherwise the width of the page. A wider table is
split into panels, and a table higher than a page breaks over pages. Column widths are estimates in
points at \footnotesize; columns of sentences share the remaining width.

Packages: booktabs, siunitx, tabularx and xltabular, and amssymb for blackboard letters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import numpy as np

from reports.tables.table import Cell, Table
from reports.text.latex import prose_latex, text_latex

PACKAGES: Final = ("amssymb", "booktabs", "siunitx", "tabularx", "xltabular")
PLACES: Final = {1: (("table", 344.5),), 2: (("table", 229.0), ("table*", 468.5))}
r"""Environments and their width in points by number of columns, minus half a point: \linewidth of
an article is 345 points; in two columns it is 229.5 per column and 469 for both.
"""
PAGE: Final = 500.0
"""Largest height of a float in points; a page of an article has 550."""
AROUND: Final = 44.0
"""Height in points of caption, rules and their spacing."""
LINE: Final = 9.5
r"""Line height in points at \footnotesize."""
GAP: Final = 7.6
"""Space between two columns in points."""
LETTER: Final = 4.5
"""Width of a letter or digit in points."""
NARROW: Final = 3.45
"""Width of a narrow character, such as f, t or a bracket, in points."""
WIDE: Final = 7.2
"""Width of a wide character, a sign, or a command that prints one, in points."""
NARROWEST: Final = 52.0
"""Smallest width of a column of sentences in points."""
LONG: Final = 80.0
"""Width in points from which a text cell is wrapped."""
MOST_LINES: Final = 4
"""Most lines of a sentence in a cell before a wider environment is used."""
MOST_ZEROS: Final = 5
"""Largest power of ten in a column of numbers without scientific notation."""
ALLOW: Final = r"\allowbreak{}"
LABEL: Final = "tab:geostat-{}"

_SIZES: Final = (
    f"\\footnotesize\\setlength{{\\tabcolsep}}{{{GAP / 2}pt}}\n"
    "\\sisetup{group-digits=integer,table-align-text-post=false,table-align-exponent=false}\n"
)
"""Font size and column spacing; siunitx without thin spaces in decimals, and with text directly
after a number.
"""
_ERRORS: Final = "In brackets after a number: its standard error, in units of the last digit."
_NUMBER: Final = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:\((\d+)\))?(?:e(-?)(\d+))?")
_CHUNK: Final = re.compile(r"(?:\\mbox\{[^}]*\}|\\.|~|\$[^$]*\$|[^\s$\\])+")
"""Unbreakable parts of a line."""
_INVISIBLE: Final = re.compile(
    r"\\(?:math[a-z]+|mbox|allowbreak|left|right|t?frac)(?![a-z])|\\(?=log|max|min|exp|cos)|[{}$^_]"
)
_WIDE: Final = re.compile(r"\\[A-Za-z]+|[A-Zmw%&@+=<>-]")
_NARROW: Final = re.compile(r"[fijlrst.,:;'|()\[\]! ]")


def width(latex: str) -> float:
    r"""Estimate the width of a line of LaTeX at \footnotesize in points, rather too large than too
    small.

    >>> round(width(r"$0.67 \pm 0.05$")), round(width("lag"))
    (48, 12)
    """
    visible = _INVISIBLE.sub("", re.sub(r"\\[^A-Za-z]", "W", latex))
    visible, wide = _WIDE.subn("", visible)
    visible, narrow = _NARROW.subn("", visible)
    return WIDE * wide + NARROW * narrow + LETTER * len(visible)


@dataclass(frozen=True, slots=True)
class Column:
    """A LaTeX column; widths are in points."""

    kind: str
    """S for numbers, l, r or c for text, X for sentences."""
    options: str
    """siunitx options of a column S; alignment of a column X."""
    header: str
    cells: Sequence[str]
    least: float
    """Smallest width without overflow."""
    full: float = 0.0
    """Width of the longest sentence on one line; 0 for other columns."""


def column(header: Cell, cells: Sequence[Cell], letter: str) -> Column:
    """Return one column: S if at least half of the known cells are numbers, X for sentences and
    long text cells.
    """
    known = [cell for cell in cells if cell.sort != ""]
    if letter == "r" and known and 2 * sum(bool(cell.number) for cell in known) >= len(known):
        return _numbers(header, cells)
    body = max((width(cell.latex) for cell in cells), default=0.0)
    if letter == "p" or (letter == "r" and body > LONG):
        return _sentences(header, cells, r"\raggedright" if letter == "p" else r"\raggedleft")
    top, least = _wrapped(header.latex, body, letter)
    return Column(letter, "", top, [_safe(cell.latex) for cell in cells], least)


def _sentences(header: Cell, cells: Sequence[Cell], ragged: str) -> Column:
    """Return a column of sentences, at least as wide as its longest word."""
    written = [breakable(cell.latex) for cell in cells]
    words = [
        part
        for sentence in (header.latex, *written)
        for word in _CHUNK.findall(sentence)
        for part in re.split(r"\\allowbreak\{\}|(?<=[a-z]-)(?=\w)", word)
    ]
    least = max(NARROWEST, *map(width, words)) + 2
    full = max(least, *map(width, written))
    return Column("X", ragged, header.latex, [_safe(table) for table in written], least, full)


def _numbers(header: Cell, cells: Sequence[Cell]) -> Column:
    """Return a column S whose format fits the most digits of each part of its numbers."""
    numbers = [cell.number for cell in cells]
    powers_of_ten = [int(number.partition("e")[2]) for number in numbers if "e" in number]
    if powers_of_ten:
        large = max(map(abs, powers_of_ten)) > MOST_ZEROS
        numbers = [(scientific if large else plain)(number) for number in numbers]
    parts = [match.groups(default="") for match in map(_NUMBER.fullmatch, numbers) if match]
    longest = [max(group, key=len) for group in zip(*parts, strict=True)]
    sign, whole, decimals, error, minus, power = longest
    form = f"{sign}{len(whole)}" + f".{len(decimals)}" * bool(decimals)
    form += f"({len(error)})" * bool(error) + f"e{minus}{len(power)}" * bool(power)
    suffix = max((cell.after for cell in cells), key=width)
    options = f"table-format={form}" + f",table-space-text-post={{{suffix}}}" * bool(suffix)
    widest = rf"{sign}{whole}.{decimals}({error})" + rf"\times 10{minus}{power}" * bool(power)
    words = [cell.latex for cell in cells if not cell.number]
    body = max(map(width, (widest + suffix, *words)))
    top, least = _wrapped(header.latex, body, "c")
    written = [
        number + f"{{{cell.after}}}" * bool(cell.after) if cell.number else f"{{{cell.latex}}}"
        for cell, number in zip(cells, numbers, strict=True)
    ]
    return Column("S", options, f"{{{top}}}", written, least)


def plain(number: str) -> str:
    """Return a number without a power of ten, with the same digits.

    >>> plain("9.8(12)e-4"), plain("5")
    ('0.00098(12)', '5')
    """
    value, _, power = number.partition("e")
    digits, bracket, error = value.partition("(")
    return f"{Decimal(digits).scaleb(int(power)):f}{bracket}{error}" if power else number


def scientific(number: str) -> str:
    """Return a number in scientific notation, with the same digits.

    >>> scientific("0.00123(12)"), scientific("1.0e-5"), scientific("0")
    ('1.23(12)e-3', '1.0e-5', '0')
    """
    digits, bracket, error = number.partition("(")
    if not number or "e" in number or not (value := Decimal(digits)) or not value.adjusted():
        return number
    mantissa, power = f"{value:.{len(value.as_tuple().digits) - 1}e}".split("e")
    return f"{mantissa}{bracket}{error}e{int(power)}"


def breakable(latex: str) -> str:
    r"""Allow line breaks in long names, after a slash, an underscore and every 24 letters, and
    forbid them in N = 2.

    >>> print(breakable(r"org/my\_model at N = 2"))
    org/\allowbreak{}my\_\allowbreak{}model at N~=~2
    """
    marked = re.sub(r"(?<=\w\w)(?:/|\\_)(?=\w)", lambda match: match[0] + ALLOW, latex)
    marked = re.sub(r"(?<=[\w)]) = (?=\S)", "~=~", marked)
    marked = re.sub(r"(\$\\(?:le|ge|approx)\$) (?=[\d$])", r"\1~", marked)
    return re.sub(r"[A-Za-z0-9]{24}(?=[A-Za-z0-9])", lambda match: match[0] + ALLOW, marked)


def _wrapped(header: str, room: float, letter: str) -> tuple[str, float]:
    """Return a header wrapped to the width of a column, and that width."""
    chunks = _CHUNK.findall(header)
    room = max(room, *map(width, chunks), 0.0)
    lines: list[str] = []
    for chunk in chunks:
        if lines and width(f"{lines[-1]} {chunk}") <= room:
            lines[-1] += f" {chunk}"
        else:
            lines.append(chunk)
    if len(lines) < 2:
        return header, room
    inner = r"\\ ".join(map(_safe, lines))
    return rf"\begin{{tabular}}[b]{{@{{}}{letter}@{{}}}}{inner}\end{{tabular}}", room


def _safe(latex: str) -> str:
    """Protect a leading bracket or star, which would belong to the end of the previous row."""
    return "{}" + latex if latex[:1] in ("[", "*") else latex


def latex(table: Table, paper_columns: int = 1, part: str = "") -> str:
    r"""Return a table for a paper of one or two columns: a `table`, a `table*` across both columns
    if one is too narrow, or a longtable if it is longer than a page. The label ends in `part`, if
    any.

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
    for place in PLACES[paper_columns]:
        environment, room = place
        panels = [columns]
        height = _height(shown, panels, room)
        if _needed(columns, MOST_LINES) <= room and height <= PAGE:
            break
    else:
        panels = _panels(columns, shown.keys, room)
        height = _height(shown, panels, room)
    needs = f"% needs \\usepackage{{{','.join(PACKAGES)}}}\n"
    label = LABEL.format("-".join(filter(None, (table.name, part))).replace("_", "-"))
    end = "" if table.title.endswith("?") else "."
    caption = rf"\caption{{{text_latex(table.title)}{end}}}\label{{{label}}}"
    notes = _notes(shown, columns)
    if height > PAGE:
        body = "".join(
            _long(panel, room, "" if index else caption) for index, panel in enumerate(panels)
        )
        lengths = f"{_SIZES}\\setlength{{\\LTcapwidth}}{{\\linewidth}}\n"
        inner = f"\\begingroup{lengths}{body}{notes}\\endgroup\n"
        return needs + (
            inner
            if paper_columns == 1
            else f"\\clearpage\\onecolumn\n{inner}\\clearpage\\twocolumn\n"
        )
    body = "\n\\par\\medskip\n".join(_short(panel, room) for panel in panels)
    return (
        f"{needs}\\begin{{{environment}}}[tbp]\n\\centering{_SIZES}{caption}\n"
        f"\\par\\smallskip\n{body}\n"
        f"\\par\\smallskip\n{notes}\\end{{{environment}}}\n"
    )


def document(tables: Sequence[Table], paper_columns: int = 1, part: str = "") -> str:
    """Return a standalone LaTeX document with tables."""
    option = "[twocolumn]" if paper_columns == 2 else ""
    loaded = "".join(f"\\usepackage{{{name}}}\n" for name in PACKAGES)
    body = "\\clearpage\n".join(latex(table, paper_columns, part) for table in tables)
    return (
        f"\\documentclass{option}{{article}}\n\\usepackage[T1]{{fontenc}}\n\\usepackage{{lmodern}}\n"
        f"{loaded}\\begin{{document}}\n{body}\\end{{document}}\n"
    )


def _needed(panel: Sequence[Column], lines: float = math.inf) -> float:
    """Return the total width of columns in points, with sentences of at most `lines` lines."""
    widths = (max(column.least, column.full / lines) for column in panel)
    return sum(widths) + GAP * (len(panel) - 1)


def _panels(columns: Sequence[Column], keys: int, room: float) -> list[list[Column]]:
    """Split columns into the fewest panels that fit, each with the identifying columns first."""
    names, others = list(columns[:keys]), range(keys, len(columns))
    for count in range(1, max(len(others), 1) + 1):
        parts = np.array_split(np.array(others, dtype=int), count)
        panels = [[*names, *(columns[index] for index in part)] for part in parts]
        if all(_needed(panel) <= room for panel in panels):
            break
    return panels


def _shares(panel: Sequence[Column], room: float) -> list[float]:
    """Return the width of each column in points; sentences share the remaining width by length."""
    extra = max(room - _needed(panel), 0.0) / max(sum(column.full for column in panel), 1.0)
    return [column.least + extra * column.full for column in panel]


def _height(table: Table, panels: Sequence[Sequence[Column]], room: float) -> float:
    """Return the height of a table with caption and notes, in points."""
    lines = width(table.caption) / room + 1
    for panel in panels:
        shares = _shares(panel, room)
        rows = [
            max(
                math.ceil(width(column.cells[row]) / share) if column.kind == "X" else 1
                for column, share in zip(panel, shares, strict=True)
            )
            for row in range(len(table.rows))
        ]
        lines += sum(rows) + 3 + (0.2 * len(rows) if _filled(panel) else 0.0)
    return AROUND + LINE * lines


def _filled(panel: Sequence[Column]) -> bool:
    """Return whether columns of sentences fill the line."""
    return any(column.kind == "X" for column in panel)


def _tabular(panel: Sequence[Column], room: float) -> tuple[str, str, list[str]]:
    """Return preamble, header lines and rows of columns side by side."""
    shares = _shares(panel, room)
    sentences = [share for column, share in zip(panel, shares, strict=True) if column.kind == "X"]
    kinds = []
    for column, share in zip(panel, shares, strict=True):
        if column.kind == "X":
            size = share * len(sentences) / sum(sentences)
            kinds.append(rf">{{\hsize={size:.3f}\hsize{column.options}\arraybackslash}}X")
        elif column.kind == "S" and (kinds or not sentences):
            kinds.append(f"S[{column.options}]")
        else:  # xltabular takes the caption for a number where the first column is S
            kinds.append(column.kind.replace("S", "r"))
    headers, *rows = (
        " & ".join(cells) + r" \\"
        for cells in zip(*([column.header, *column.cells] for column in panel), strict=True)
    )
    end = "[2pt]" if _filled(panel) else ""
    head = f"\\toprule\n{headers}\n\\midrule"
    return f"@{{}}{' '.join(kinds)}@{{}}", head, [row + end for row in rows]


def _short(panel: Sequence[Column], room: float) -> str:
    """Return a tabular on one page."""
    preamble, head, rows = _tabular(panel, room)
    name, size = ("tabularx", r"{\linewidth}") if _filled(panel) else ("tabular", "")
    body = "\n".join([head, *rows, r"\bottomrule"])
    return f"\\begin{{{name}}}{size}{{{preamble}}}\n{body}\n\\end{{{name}}}"


def _long(panel: Sequence[Column], room: float, caption: str) -> str:
    """Return a tabular over several pages, with headers on each."""
    preamble, head, rows = _tabular(panel, room)
    name, size = ("xltabular", r"{\linewidth}") if _filled(panel) else ("longtable", "")
    span = rf"\multicolumn{{{len(panel)}}}{{@{{}}l@{{}}}}"
    continued = rf"{span}{{\tablename~\thetable, continued}}"
    body = "\n".join(rows)
    return (
        f"\\begin{{{name}}}{size}{{{preamble}}}\n"
        f"{caption or continued} \\\\\n{head}\n\\endfirsthead\n"
        f"{continued} \\\\\n{head}\n\\endhead\n"
        f"\\midrule\n{span}{{continued on the next page}} \\\\\n\\endfoot\n"
        f"\\bottomrule\n\\endlastfoot\n{body}\n\\end{{{name}}}\n"
    )


def _notes(table: Table, columns: Sequence[Column]) -> str:
    """Return the notes below a table."""
    errors = any(
        re.match(r"[-\d.]+\(", cell)
        for column in columns
        if column.kind == "S"
        for cell in column.cells
    )
    words = f"{table.caption} {_ERRORS}" if errors else table.caption
    return rf"{{\raggedright\noindent {breakable(prose_latex(words))}\par}}" "\n"
