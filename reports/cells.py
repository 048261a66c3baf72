"""A table as this room knows it: cells that can be written in plain text, HTML and LaTeX, and how a whole table is.

The LaTeX needs booktabs, amsmath and amssymb only. Imports pandas and markupsafe.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pandas as pd
from markupsafe import Markup, escape

from reports.number import MISSING, Number, rounded
from reports.symbols import math_html, mixed_html, mixed_latex, text_latex

LATEX_ROWS = 40
"""Rows of a LaTeX tabular: longer tables go on in another one, as a tabular does not break over pages."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in one place of a table. `sort` is what the page sorts by: a number, or text."""

    plain: str
    html: Markup
    latex: str
    sort: float | str = ""
    maths: bool = False
    """Whether `plain` is our own text, in which dollar signs enclose LaTeX."""


def text(value: object) -> Cell:
    """A cell of foreign text: escaped everywhere, dollar signs included."""
    plain = str(value)
    return Cell(plain, escape(plain), text_latex(plain), plain)


def mixed(value: object) -> Cell:
    """A cell of our own words, in which mathematics may stand between dollar signs."""
    plain = str(value)
    return Cell(plain, mixed_html(plain), mixed_latex(plain), plain, maths=True)


def symbol(latex: str) -> Cell:
    """A cell that holds a symbol, given as LaTeX without dollar signs; empty for an empty one."""
    return Cell(f"${latex}$", math_html(latex), f"${latex}$", latex, maths=True) if latex else Cell("", Markup(""), "")


def stacked(*lines: str) -> Cell:
    """A header of our own words, which paper sets on several lines."""
    one = mixed(" ".join(lines))
    return replace(one, latex=r"\shortstack[r]{" + r"\\ ".join(mixed_latex(line) for line in lines) + "}")


def whole(value: float) -> Cell:
    """A cell that holds a count or an index."""
    if not math.isfinite(value):
        return missing()
    return Cell(
        f"{int(value)}", Markup(f"{int(value):,}") if abs(value) >= 10_000 else Markup(f"{int(value)}"), f"${int(value)}$", float(value)
    )


def number(value: float, error: float | None = None, *, digits: int = 3) -> Cell:
    """A cell that holds a number, with its standard error if it has one (see `rounded`)."""
    return _of(rounded(value, error, digits=digits), value)


def between(middle: float, low: float, high: float) -> Cell:
    """A cell that holds a median with its quartiles in brackets."""
    parts = [rounded(part) for part in (middle, low, high)]
    if parts[0].value is None:
        return missing()
    a, b, c = parts
    html = Markup(f'<span class="whole">{a.html}</span> <span class="whole">[{b.html}, {c.html}]</span>')
    return Cell(f"{a.plain} [{b.plain}, {c.plain}]", html, f"{a.latex} [{b.latex}, {c.latex}]", middle)


def share(value: float, plain: str) -> Cell:
    """A cell that holds a share, written as percent by the caller."""
    return Cell(plain, escape(plain), text_latex(plain), value if math.isfinite(value) else "")


def missing() -> Cell:
    """A cell for what was not measured."""
    return Cell(MISSING, Markup(MISSING), MISSING, "")


def _of(shown: Number, value: float) -> Cell:
    return Cell(shown.plain, Markup(shown.html), shown.latex, float(value) if math.isfinite(value) else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table: its caption, headers, rows of cells, and how wide LaTeX makes the columns that hold sentences."""

    name: str
    title: str
    caption: str
    headers: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    align: str
    """One letter a column: l, r or p for sentences."""
    widths: dict[int, str] = field(default_factory=dict)
    """LaTeX widths of the p columns, by index."""
    only_latex: bool = False
    """Whether the page leaves it out, because a wider table there says the same."""
    only_page: bool = False
    """Whether it is too wide for paper: no LaTeX."""

    def __post_init__(self) -> None:
        assert len(self.align) == len(self.headers)
        assert all(len(row) == len(self.headers) for row in self.rows)

    def frame(self, form: str = "plain") -> pd.DataFrame:
        """The table as strings.

        Args:
            form: plain, html or latex.

        Returns:
            A data frame; headers may repeat.
        """
        data = [[str(getattr(cell, form)) for cell in row] for row in self.rows]
        return pd.DataFrame(data, columns=[str(getattr(cell, form)) for cell in self.headers], dtype=object)

    def latex(self) -> str:
        """Booktabs tabulars of at most LATEX_ROWS rows, with the caption as a comment; compiles with booktabs, amsmath and amssymb."""
        whole_frame = self.frame("latex")
        columns = "".join(f"p{{{self.widths.get(index, '4cm')}}}" if letter == "p" else letter for index, letter in enumerate(self.align))
        headers = [header.replace("{", "{{").replace("}", "}}") for header in whole_frame.columns]  # relabel_index formats its labels
        pieces = []
        for first in range(0, max(1, len(whole_frame)), LATEX_ROWS):
            part = whole_frame.iloc[first : first + LATEX_ROWS].reset_index(drop=True)
            part.columns = pd.RangeIndex(part.shape[1])
            styler = part.style.hide(axis="index").relabel_index(headers, axis="columns")
            pieces.append(styler.to_latex(hrules=True, column_format=columns))
        note = "".join(f"% {line}\n" for line in text_latex(self.caption).split("\n"))
        setting = "% needs \\usepackage{booktabs,amsmath,amssymb}\n"
        body = "\n\\par\\medskip\n".join(piece.strip() for piece in pieces)
        return f"{note}{setting}\\begingroup\\footnotesize\\setlength{{\\tabcolsep}}{{4pt}}\n{body}\n\\endgroup\n"

    def markdown(self) -> str:
        """A Markdown table under its caption."""
        lines = [self.caption, ""]
        for place, row in enumerate([self.headers, *self.rows]):
            lines.append("| " + " | ".join(_markdown(cell) for cell in row) + " |")
            if place == 0:
                lines.append("|" + "|".join("---:" if letter == "r" else "---" for letter in self.align) + "|")
        return "\n".join(lines) + "\n"


def _markdown(cell: Cell) -> str:
    """One cell for Markdown, in which mathematics between dollar signs is understood."""
    plain = cell.plain
    if cell.maths:
        return " ".join(plain.replace(r"\|", r"\Vert ").replace("|", r"\vert ").split())
    for character in "\\`*_<>|$[]":
        plain = plain.replace(character, "\\" + character)
    return " ".join(plain.split())
