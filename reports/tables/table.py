"""Table: headers and rows of cells, as a data frame, Markdown, HTML, CSV and JSON; its LaTeX is
written by `paper`. Imports pandas.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from reports.tables.cells import Cell
from reports.text.latex import maths_apart, prose_html
from reports.text.printable import no_formula, printable, printable_data


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
        """Comma-separated values, as the page shows them; text that a spreadsheet would evaluate
        stands behind a quote.
        """
        data = [[_csv(cell) for cell in row] for row in self.rows]
        names = list(map(_csv, self.headers))
        return pd.DataFrame(data, columns=names, dtype=object).to_csv(index=False)

    def record(self) -> dict[str, Any]:
        """Name, title, caption, columns, and rows of cells, each with what the page shows and the
        number that it holds, if any.
        """
        rows = [[{"text": cell.plain, "value": _number(cell)} for cell in row] for row in self.rows]
        told = {"name": self.name, "title": self.title, "caption": self.caption}
        return told | {"columns": [cell.plain for cell in self.headers], "rows": rows}

    def json(self) -> str:
        """The record as JSON."""
        plain = printable_data(self.record())
        return json.dumps(plain, ensure_ascii=False, indent=1, allow_nan=False)


def _csv(cell: Cell) -> str:
    """A cell of a spreadsheet: a number with its error or limits as it stands, text as text."""
    return no_formula(cell.plain) if isinstance(cell.sort, str) else cell.plain


def _number(cell: Cell) -> float | None:
    return float(cell.sort) if isinstance(cell.sort, (int, float)) else None


def _markdown(cell: Cell) -> str:
    """One cell for Markdown, in which mathematics between dollar signs is understood."""
    if not cell.maths:
        plain = "".join("\\" * (one in "\\`*_<>|$[]") + one for one in cell.plain)
        return " ".join(plain.split())
    written = ""
    for kind, words in maths_apart(cell.plain):
        maths = words.replace(r"\|", r"\Vert ").replace("|", r"\vert ")
        written += f"${maths}$" if kind == "maths" else _words(words).replace("|", r"\|")
    return " ".join(written.split())


def _words(text: str) -> str:
    """Our own words for Markdown: what stands in them of others makes no link, picture or tag."""
    return re.sub(r"[\\`$]|<(?=[A-Za-z/!?])|(?<=\])\(", r"\\\g<0>", text)
