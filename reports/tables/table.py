"""Table of cells, as a data frame, Markdown, HTML, CSV and JSON; `paper` writes its LaTeX.

A cell is a number, a share, an interval, a symbol or text, in plain text, HTML and LaTeX. Imports
pandas, markupsafe and xarray.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from markupsafe import Markup, escape

from reports.run import with_limits
from reports.text.latex import (
    is_expression,
    math_html,
    maths_apart,
    mixed_html,
    mixed_latex,
    prose_html,
    text_latex,
)
from reports.text.number import MISSING, percent, rounded
from reports.text.printable import no_formula, printable, printable_data


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table. `sort` is the sort key on the page: a number, or text."""

    plain: str
    html: Markup
    latex: str
    sort: float | str = ""
    maths: bool = False
    """Whether `plain` is geostat's text, in which dollar signs enclose LaTeX."""
    number: str = ""
    """Number for siunitx, such as 0.671(5); empty for text."""
    after: str = ""
    """LaTeX after that number, such as a percent sign."""


def text(value: object) -> Cell:
    """Return a cell of foreign text, escaped in every format, including dollar signs."""
    plain = printable(str(value))
    return Cell(plain, escape(plain), text_latex(plain), plain)


def mixed(value: object) -> Cell:
    """Return a cell of geostat's text, with mathematics between dollar signs."""
    plain = printable(str(value))
    return Cell(plain, mixed_html(plain), mixed_latex(plain), plain, maths=True)


def symbol(latex: str) -> Cell:
    """Return a cell with a symbol, given as LaTeX without dollar signs; foreign text if it is not
    an expression.
    """
    if not is_expression(latex):
        return text(latex)
    return (
        Cell(f"${latex}$", math_html(latex), f"${latex}$", latex, maths=True)
        if latex
        else Cell("", Markup(""), "")
    )


def whole(value: float) -> Cell:
    """Return a cell with a count or an index."""
    if not math.isfinite(value):
        return missing()
    html = Markup(f"{int(value):,}" if abs(value) >= 10_000 else f"{int(value)}")
    digits = f"{int(value)}"
    return Cell(digits, html, f"${digits}$", float(value), number=digits)


def whole_with_limits(data: xr.Dataset, name: str) -> Cell:
    """Return a cell with a count and its interval in brackets, from scalar variables."""
    value, low, high = with_limits(data, name)
    if not np.isfinite([value, low, high]).all():
        return whole(value)
    ends = f"[{low:.0f}, {high:.0f}]"
    return Cell(
        f"{value:.0f} {ends}",
        Markup(f"{value:.0f} {ends}"),
        rf"${value:.0f}$ \mbox{{{ends}}}",
        value,
    )


def number(value: float, error: float | None = None, *, digits: int = 3) -> Cell:
    """Return a cell with a number and its standard error, if it has one (see `rounded`)."""
    shown = rounded(value, error, digits=digits)
    return Cell(
        shown.plain,
        Markup(shown.html),
        shown.latex,
        float(value) if math.isfinite(value) else "",
        number=shown.siunitx,
    )


def estimate(data: xr.Dataset, name: str) -> Cell:
    """Return a cell with a number and its standard error, from scalar variables."""
    return number(float(data[name]), float(data[f"{name}_se"]))


def between(middle: float, low: float, high: float) -> Cell:
    """Return a cell with a median and its quartiles in brackets."""
    parts = [rounded(part) for part in (middle, low, high)]
    if parts[0].value is None:
        return missing()
    a, b, c = parts
    html = Markup(
        f'<span class="whole">{a.html}</span> <span class="whole">[{b.html}, {c.html}]</span>'
    )
    bracket = f"[{b.latex}, {c.latex}]"  # on one line if short enough for a column
    latex = f"{a.latex} {bracket}" if b.power or c.power else rf"{a.latex} \mbox{{{bracket}}}"
    return Cell(f"{a.plain} [{b.plain}, {c.plain}]", html, latex, middle)


def share(value: float, plain: str) -> Cell:
    """Return a cell with a share that the caller formatted as percent."""
    digits, sign, more = plain.partition("%")
    alone = bool(sign) and not more and digits.replace(".", "", 1).isdecimal()
    return Cell(
        plain,
        escape(plain),
        text_latex(plain),
        value if math.isfinite(value) else "",
        number=digits if alone else "",
        after=r"\%" if alone else "",
    )


def percentage(value: float, digits: int = 1) -> Cell:
    """Return a cell with a share as percent; n/a if unknown.

    >>> percentage(0.25).plain, percentage(float("nan")).plain
    ('25.0%', 'n/a')
    """
    return share(value, percent(value, digits)) if math.isfinite(value) else missing()


def p_value(value: float) -> Cell:
    """Return a cell with a p-value to two digits, or "<0.0001".

    >>> p_value(0.0123).plain, p_value(1e-9).plain
    ('0.012', '<0.0001')
    """
    if math.isfinite(value) and value < 1e-4:
        return Cell("<0.0001", escape("<0.0001"), "$<0.0001$", value)
    return number(value, digits=2)


def interval(low: float, high: float) -> Cell:
    """Return a cell with the limits of an interval; n/a if unknown.

    >>> interval(-0.5, 0.25).plain
    '-0.50 to 0.25'
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return missing()
    a, b = rounded(low, digits=2), rounded(high, digits=2)
    plain = f"{a.plain} to {b.plain}"
    return Cell(plain, escape(plain.replace("-", "−")), f"{a.latex} to {b.latex}", low)


def limits(data: xr.Dataset, name: str) -> Cell:
    """Return a cell with the limits of an interval, from scalar variables."""
    return interval(float(data[f"{name}_lower"]), float(data[f"{name}_upper"]))


def header(*words: str) -> list[Cell]:
    """Return a row of headers of geostat's text."""
    return [mixed(word) for word in words]


def missing() -> Cell:
    """Return a cell for a missing value."""
    return Cell(MISSING, Markup(MISSING), MISSING, "")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its header in geostat's text, the cell of a row, and its letter in
    `Table.align`.
    """

    header: str
    cell: Callable[[Any], Cell]
    align: str = "r"


def labels(header: str, name: str) -> Column:
    """Return a column of a text variable or coordinate."""
    return Column(header, lambda row: text(row[name].item()), "l")


def wholes(header: str, name: str, **at: Any) -> Column:
    """Return a column of a count, at labels of further dimensions."""
    return Column(header, lambda row: whole(float(row[name].sel(at))))


def numbers(header: str, name: str, digits: int = 3, **at: Any) -> Column:
    """Return a column of a variable without error, at labels of further dimensions."""
    return Column(header, lambda row: number(float(row[name].sel(at)), digits=digits))


def percentages(header: str, name: str, digits: int = 1) -> Column:
    """Return a column of a share as percent."""
    return Column(header, lambda row: percentage(float(row[name]), digits))


def estimates(header: str, name: str, **at: Any) -> Column:
    """Return a column of a variable with its standard error, at labels of further dimensions."""
    return Column(header, lambda row: estimate(row.sel(at), name))


def intervals(header: str, name: str, **at: Any) -> Column:
    """Return a column of the interval of a variable, at labels of further dimensions."""
    return Column(header, lambda row: limits(row.sel(at), name))


@dataclass(frozen=True, slots=True)
class Table:
    """A table: caption, headers and rows of cells."""

    name: str
    title: str
    caption: str
    headers: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    align: str
    """One letter per column: l, c, r, or p for sentences."""
    _: KW_ONLY
    narrow: Table | None = None
    """Replacement in LaTeX, with fewer columns and shorter text."""
    only_latex: bool = False
    """Whether the page omits the table, because another one there has the same content."""
    only_page: bool = False
    """Whether the table is too wide for LaTeX."""

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        caption: str,
        columns: Sequence[Column],
        rows: Iterable[Any],
        **options: Any,
    ) -> Table:
        """Return a table with one row of cells for each item of `rows`."""
        return cls(
            name,
            title,
            caption,
            header(*(column.header for column in columns)),
            [[column.cell(row) for column in columns] for row in rows],
            "".join(column.align for column in columns),
            **options,
        )

    def __post_init__(self) -> None:
        assert len(self.align) == len(self.headers)
        assert all(len(row) == len(self.headers) for row in self.rows)

    def frame(self, form: str = "plain") -> pd.DataFrame:
        """Return the table as strings (plain, html or latex); headers may repeat."""
        data = [[str(getattr(cell, form)) for cell in row] for row in self.rows]
        return pd.DataFrame(
            data, columns=[str(getattr(cell, form)) for cell in self.headers], dtype=object
        )

    def markdown(self) -> str:
        """Return a Markdown table below its caption."""
        lines = [_words(printable(self.caption)), ""]
        for index, row in enumerate([self.headers, *self.rows]):
            lines.append("| " + " | ".join(_markdown(cell) for cell in row) + " |")
            if index == 0:
                lines.append(
                    "|"
                    + "|".join("---:" if letter == "r" else "---" for letter in self.align)
                    + "|"
                )
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """Return an HTML table with its caption, without a page."""
        head = Markup("").join(
            Markup('<th scope="col">{}</th>').format(header.html) for header in self.headers
        )
        rows = [
            Markup("").join(Markup("<td>{}</td>").format(cell.html) for cell in row)
            for row in self.rows
        ]
        body = Markup("\n").join(Markup("<tr>{}</tr>").format(row) for row in rows)
        return str(
            Markup(
                "<table>\n<caption>{}</caption>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}\n</tbody>\n"
                "</table>\n"
            ).format(prose_html(self.caption), head, body)
        )

    def csv(self) -> str:
        """Return comma-separated values as shown on the page; text that a spreadsheet would
        evaluate is prefixed by a quote.
        """
        data = [[_csv(cell) for cell in row] for row in self.rows]
        names = list(map(_csv, self.headers))
        return pd.DataFrame(data, columns=names, dtype=object).to_csv(index=False)

    def record(self) -> dict[str, Any]:
        """Return name, title, caption, columns, and rows of cells (text and number, if any)."""
        rows = [[{"text": cell.plain, "value": _number(cell)} for cell in row] for row in self.rows]
        head = {"name": self.name, "title": self.title, "caption": self.caption}
        return head | {"columns": [cell.plain for cell in self.headers], "rows": rows}

    def json(self) -> str:
        """Return the record as JSON."""
        plain = printable_data(self.record())
        return json.dumps(plain, ensure_ascii=False, indent=1, allow_nan=False)


def _csv(cell: Cell) -> str:
    """Return a cell of a spreadsheet: numbers unchanged, text without formulas."""
    return no_formula(cell.plain) if isinstance(cell.sort, str) else cell.plain


def _number(cell: Cell) -> float | None:
    return float(cell.sort) if isinstance(cell.sort, (int, float)) else None


def _markdown(cell: Cell) -> str:
    """Return a Markdown cell, with mathematics between dollar signs."""
    if not cell.maths:
        plain = "".join("\\" * (character in "\\`*_<>|$[]") + character for character in cell.plain)
        return " ".join(plain.split())
    written = ""
    for kind, words in maths_apart(cell.plain):
        maths = words.replace(r"\|", r"\Vert ").replace("|", r"\vert ")
        written += f"${maths}$" if kind == "maths" else _words(words).replace("|", r"\|")
    return " ".join(written.split())


def _words(text: str) -> str:
    """Escape geostat's text for Markdown, so foreign parts make no link, image or tag."""
    return re.sub(r"[\\`$]|<(?=[A-Za-z/!?])|(?<=\])\(", r"\\\g<0>", text)
