"""Table: headers and rows of cells, as a data frame, LaTeX tabulars, Markdown, HTML, CSV and JSON.

The LaTeX needs booktabs, and amssymb where it has blackboard letters; without them it stops with an
error. Imports pandas, whose Styler writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

import pandas as pd
from markupsafe import Markup

from reports.tables.cells import Cell
from reports.text.latex import prose_html, text_latex

LATEX_ROWS = 40
"""Rows of a LaTeX tabular: longer tables go on in another one, as a tabular does not break over
pages.
"""

PACKAGES = {
    "booktabs": ("cmidrule", r"\\toprule\b"),
    "amssymb": ("lesssim", r"\\(?:mathbb|lesssim|gtrsim)\b"),
}
"""Packages beyond LaTeX itself: a command that only each one defines, and what a table has that
needs it.
"""

_WRAPPED = (
    "\\renewcommand*{\\arraystretch}{1.3}\n"
    "\\newcommand*{\\toleft}{\\raggedright\\let\\\\\\tabularnewline}\n\\newcommand*{\\toright}{\\raggedleft\\let\\\\\\tabularnewline}\n"
)
"""Ragged cells in columns of fixed width, known within the table's own group only; they keep the
end of a row.
"""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its caption, headers, rows of cells, and how wide LaTeX makes the columns that
    hold sentences.
    """

    name: str
    title: str
    caption: str
    headers: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    align: str
    """One letter a column: l, r or p for sentences."""
    _: KW_ONLY
    widths: dict[int, str] = field(default_factory=dict)
    """LaTeX widths of columns that paper may wrap, by index: all p columns, and right-aligned
    ones that would be too wide.
    """
    on_paper: Sequence[Sequence[int]] = ()
    """Which columns stand side by side on paper, one tabular after another; all in one where
    empty.
    """
    paper_rows: int = LATEX_ROWS
    """Rows of a LaTeX tabular at most: fewer than LATEX_ROWS where rows have several lines."""
    only_latex: bool = False
    """Whether the page leaves it out, because a wider table there says the same."""
    only_page: bool = False
    """Whether it is too wide for paper: no LaTeX."""

    def __post_init__(self) -> None:
        assert len(self.align) == len(self.headers)
        assert all(len(row) == len(self.headers) for row in self.rows)
        assert all(index in self.widths for index, letter in enumerate(self.align) if letter == "p")

    def frame(self, form: str = "plain") -> pd.DataFrame:
        """The table as strings, plain, html or latex; headers may repeat."""
        data = [[str(getattr(cell, form)) for cell in row] for row in self.rows]
        return pd.DataFrame(
            data, columns=[str(getattr(cell, form)) for cell in self.headers], dtype=object
        )

    def latex(self) -> str:
        """Booktabs tabulars, no wider than the text of a plain article, with the caption as a
        comment.

        A comment names the packages that it needs, of PACKAGES; without one of them it says so as
        an error, and sets nothing. Columns that do not fit side by side, and rows that do not fit
        on a page, go on in another tabular.
        """
        groups = self.on_paper or [range(len(self.headers))]
        pieces = [
            self._tabular(columns, self.rows[first : first + self.paper_rows])
            for columns in groups
            for first in range(0, max(1, len(self.rows)), self.paper_rows)
        ]
        note = "".join(f"% {line}\n" for line in text_latex(self.caption).split("\n"))
        lengths = "\\setlength{\\tabcolsep}{3.4pt}\\setlength{\\parindent}{0pt}"
        opening = f"\\begingroup\\footnotesize{lengths}\n"
        body = "\n\\par\\medskip\n".join(pieces)
        return f"{note}{_needs(body)}{opening}{_WRAPPED if self.widths else ''}{body}\n\\endgroup\n"

    def _tabular(self, columns: Sequence[int], rows: Sequence[Sequence[Cell]]) -> str:
        """One tabular of some columns and rows, without space beside its outer columns."""
        sides = {
            index: r"\toright " if self.align[index] == "r" else r"\toleft "
            for index in self.widths
        }
        headers = [sides.get(index, "") + self.headers[index].latex for index in columns]
        labels = [
            header.replace("{", "{{").replace("}", "}}") for header in headers
        ]  # relabel_index formats its labels
        data = [[sides.get(index, "") + row[index].latex for index in columns] for row in rows]
        kinds = "".join(
            f"p{{{self.widths[index]}}}" if index in self.widths else self.align[index]
            for index in columns
        )
        styler = pd.DataFrame(data, columns=pd.RangeIndex(len(columns)), dtype=object).style
        return (
            styler.hide(axis="index")
            .relabel_index(labels, axis="columns")
            .to_latex(hrules=True, column_format=f"@{{}}{kinds}@{{}}")
            .strip()
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

    def json(self) -> str:
        """Name, title, caption, columns, and rows of cells, each with what the page shows and the
        number that it holds, if any.
        """
        rows = [[{"text": cell.plain, "value": _number(cell)} for cell in row] for row in self.rows]
        told = {"name": self.name, "title": self.title, "caption": self.caption}
        columns = [cell.plain for cell in self.headers]
        return json.dumps(
            told | {"columns": columns, "rows": rows}, ensure_ascii=False, indent=1, allow_nan=False
        )


def _number(cell: Cell) -> float | None:
    return float(cell.sort) if isinstance(cell.sort, (int, float)) else None


def _needs(body: str) -> str:
    """The lines that name the packages a table needs, and leave it out with an error where one
    is not loaded.
    """
    needed = [name for name, (_, pattern) in PACKAGES.items() if re.search(pattern, body)]
    guards = "".join(
        rf"\ifdefined\{PACKAGES[name][0]}\else\errmessage{{This table needs"
        rf" \string\usepackage{{{name}}}}}\endinput\fi"
        "\n"
        for name in needed
    )
    return rf"% needs \usepackage{{{','.join(needed)}}}" "\n" + guards


def _markdown(cell: Cell) -> str:
    """One cell for Markdown, in which mathematics between dollar signs is understood."""
    plain = cell.plain
    if cell.maths:
        return " ".join(plain.replace(r"\|", r"\Vert ").replace("|", r"\vert ").split())
    for character in "\\`*_<>|$[]":
        plain = plain.replace(character, "\\" + character)
    return " ".join(plain.split())
