"""LaTeX of a table: a float or longtable with caption, label and notes; and a document that
compiles by itself.

Packages: booktabs, siunitx, tabularx and xltabular, and amssymb where there are blackboard letters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.tables.paper.columns import Column, breakable
from reports.tables.paper.layout import BESIDE, Layout, layout, widths
from reports.tables.table import Table
from reports.text.latex import prose_latex, text_latex

PACKAGES: Final = ("amssymb", "booktabs", "siunitx", "tabularx", "xltabular")
_SIZES: Final = (
    f"\\footnotesize\\setlength{{\\tabcolsep}}{{{BESIDE / 2}pt}}\n"
    "\\sisetup{group-digits=integer,table-align-text-post=false,table-align-exponent=false}\n"
)
"""Type and space between columns; no thin spaces among decimals, and what stands behind a number
follows at once.
"""
_ERRORS: Final = "In brackets behind a number: its standard error, in units of the last digit."
LABEL: Final = "tab:geostat-{}"


def latex(table: Table, paper_columns: int = 1, part: str = "") -> str:
    r"""A table for a paper of one column or two: a `table`, or a `table*` across both columns where
    one is too narrow, or pages of their own where it is longer than a page. The label of a table
    of a part of a run ends in the part.

    >>> from reports.tables.cells import number, text
    >>> rows = [[text("a"), number(0.671, 0.005)]]
    >>> written = latex(Table("t", "T", "C.", [text("x"), text("y")], rows, "lr"))
    >>> [line for line in written.splitlines() if "&" in line]
    ['x & {y} \\\\', 'a & 0.671(5) \\\\']
    """
    shown = table.narrow or table
    plan = layout(shown, paper_columns)
    pieces = [_Piece(shown, plan, panel) for panel in plan.panels]
    notes = _notes(shown, plan.columns)
    needs = f"% needs \\usepackage{{{','.join(PACKAGES)}}}\n"
    if plan.long:
        return needs + _long(pieces, notes, _caption(table, part), paper_columns)
    body = "\n\\par\\medskip\n".join(piece.short() for piece in pieces)
    environment = plan.place.environment
    return (
        f"{needs}\\begin{{{environment}}}[tbp]\n\\centering{_SIZES}{_caption(table, part)}\n"
        f"\\par\\smallskip\n{body}\n"
        f"\\par\\smallskip\n{notes}\\end{{{environment}}}\n"
    )


def document(tables: Sequence[Table], paper_columns: int = 1, part: str = "") -> str:
    """A document that holds tables and compiles by itself."""
    option = "[twocolumn]" if paper_columns == 2 else ""
    loaded = "".join(f"\\usepackage{{{name}}}\n" for name in PACKAGES)
    body = "\\clearpage\n".join(latex(table, paper_columns, part) for table in tables)
    return (
        f"\\documentclass{option}{{article}}\n\\usepackage[T1]{{fontenc}}\n\\usepackage{{lmodern}}\n"
        f"{loaded}\\begin{{document}}\n{body}\\end{{document}}\n"
    )


@dataclass(frozen=True, slots=True)
class _Piece:
    """Columns of a table that stand side by side."""

    table: Table
    plan: Layout
    panel: Sequence[int]

    @property
    def wide(self) -> dict[int, float]:
        """Points of columns of sentences, which fill the line; none where there are none."""
        return widths(self.plan.columns, self.panel, self.plan.place.room)

    @property
    def preamble(self) -> str:
        """What LaTeX is told of the columns: of sentences, how wide they are beside each other."""
        mean = sum(self.wide.values()) / max(1, len(self.wide))
        kinds = [
            rf">{{\hsize={self.wide[index] / mean:.3f}\hsize\raggedright\arraybackslash}}X"
            if index in self.wide
            else f"S[{self.plan.columns[index].options}]"
            if self.plan.columns[index].kind == "S" and not (self.wide and index == self.panel[0])
            # xltabular takes the caption for a number where the first column is S
            else self.plan.columns[index].kind.replace("S", "r")
            for index in self.panel
        ]
        return f"@{{}}{' '.join(kinds)}@{{}}"

    @property
    def head(self) -> str:
        """The headers between their rules."""
        headers = self._row([self.plan.columns[index].header for index in self.panel])
        return f"\\toprule\n{headers}\n\\midrule"

    @property
    def rows(self) -> str:
        """The rows, apart from one another where they have several lines."""
        end = "[2pt]" if self.wide else ""
        return "\n".join(
            self._row([self.plan.columns[index].cells[row] for index in self.panel]) + end
            for row in range(len(self.table.rows))
        )

    @staticmethod
    def _row(cells: Sequence[str]) -> str:
        return " & ".join(cells) + r" \\"

    def short(self) -> str:
        """A tabular on one page."""
        name = "tabularx" if self.wide else "tabular"
        room = r"{\linewidth}" * bool(self.wide)
        body = f"{self.head}\n{self.rows}\n\\bottomrule"
        return f"\\begin{{{name}}}{room}{{{self.preamble}}}\n{body}\n\\end{{{name}}}"

    def long(self, caption: str) -> str:
        """A tabular over several pages, with its headers on each."""
        name = "xltabular" if self.wide else "longtable"
        room = r"{\linewidth}" * bool(self.wide)
        over = rf"\multicolumn{{{len(self.panel)}}}{{@{{}}l@{{}}}}"
        again = rf"{over}{{\tablename~\thetable, continued}} \\"
        return (
            f"\\begin{{{name}}}{room}{{{self.preamble}}}\n"
            f"{caption or again[:-3]} \\\\\n{self.head}\n\\endfirsthead\n"
            f"{again}\n{self.head}\n\\endhead\n"
            f"\\midrule\n{over}{{continued on the next page}} \\\\\n\\endfoot\n"
            f"\\bottomrule\n\\endlastfoot\n{self.rows}\n\\end{{{name}}}\n"
        )


def _long(pieces: Sequence[_Piece], notes: str, caption: str, paper_columns: int) -> str:
    """The longtables of a table, which stand in one column only."""
    body = "".join(piece.long("" if index else caption) for index, piece in enumerate(pieces))
    lengths = f"{_SIZES}\\setlength{{\\LTcapwidth}}{{\\linewidth}}\n"
    inner = f"\\begingroup{lengths}{body}{notes}\\endgroup\n"
    if paper_columns == 1:
        return inner
    return f"\\clearpage\\onecolumn\n{inner}\\clearpage\\twocolumn\n"


def _caption(table: Table, part: str) -> str:
    label = LABEL.format("-".join(filter(None, (table.name, part))).replace("_", "-"))
    end = "" if table.title.endswith("?") else "."
    return rf"\caption{{{text_latex(table.title)}{end}}}\label{{{label}}}"


def _notes(table: Table, made: Sequence[Column]) -> str:
    """What stands below a table."""
    errors = any(
        re.match(r"[-\d.]+\(", cell)
        for column in made
        if column.kind == "S"
        for cell in column.cells
    )
    words = f"{table.caption} {_ERRORS}" if errors else table.caption
    return rf"{{\raggedright\noindent {breakable(prose_latex(words))}\par}}" "\n"
