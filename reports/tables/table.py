"""Table of cells, as a data frame, Markdown, HTML, CSV and JSON; `paper` writes its LaTeX. Imports
pandas.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from reports.tables.cells import Cell, estimate, header, limits, number, percentage, text, whole
from reports.text.latex import maths_apart, prose_html
from reports.text.printable import no_formula, printable, printable_data


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
    keys: int = 1
    """Number of leading columns that identify a row; LaTeX repeats them in every panel."""
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
