"""Table: headers and rows of cells, as a data frame, Markdown, HTML, CSV and JSON; its LaTeX is
written by `paper`. Imports pandas.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from reports.tables.cells import Cell
from reports.text.latex import prose_html


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its caption, headers and rows of cells."""

    name: str
    title: str
    caption: str
    headers: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    align: str
    """One letter a column: l, r or p for sentences."""
    _: KW_ONLY
    keys: int = 1
    """How many of the first columns name a row: paper repeats them where not all others fit beside
    them.
    """
    narrow: Table | None = None
    """What paper has in its place: fewer columns, shorter words."""
    only_latex: bool = False
    """Whether the page leaves it out, because another table there says the same, or no run does."""
    only_page: bool = False
    """Whether it is too wide for paper: no LaTeX."""

    def __post_init__(self) -> None:
        assert len(self.align) == len(self.headers)
        assert all(len(row) == len(self.headers) for row in self.rows)

    def frame(self, form: str = "plain") -> pd.DataFrame:
        """The table as strings, plain, html or latex; headers may repeat."""
        data = [[str(getattr(cell, form)) for cell in row] for row in self.rows]
        return pd.DataFrame(
            data, columns=[str(getattr(cell, form)) for cell in self.headers], dtype=object
        )

    def markdown(self) -> str:
        """A Markdown table under its caption."""
        lines = [self.caption, ""]
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
        """An HTML table with its caption, in no page."""
        head = Markup("").join(
            Markup('<th scope="col">{}</th>').format(one.html) for one in self.headers
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
        """Comma-separated values, as the page shows them."""
        return self.frame().to_csv(index=False)

    def record(self) -> dict[str, Any]:
        """Name, title, caption, columns, and rows of cells, each with what the page shows and the
        number that it holds, if any.
        """
        rows = [[{"text": cell.plain, "value": _number(cell)} for cell in row] for row in self.rows]
        told = {"name": self.name, "title": self.title, "caption": self.caption}
        return told | {"columns": [cell.plain for cell in self.headers], "rows": rows}

    def json(self) -> str:
        """The record as JSON."""
        return json.dumps(self.record(), ensure_ascii=False, indent=1, allow_nan=False)


def _number(cell: Cell) -> float | None:
    return float(cell.sort) if isinstance(cell.sort, (int, float)) else None


def _markdown(cell: Cell) -> str:
    """One cell for Markdown, in which mathematics between dollar signs is understood."""
    plain = cell.plain
    if cell.maths:
        return " ".join(plain.replace(r"\|", r"\Vert ").replace("|", r"\vert ").split())
    for character in "\\`*_<>|$[]":
        plain = plain.replace(character, "\\" + character)
    return " ".join(plain.split())
