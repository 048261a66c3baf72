"""Summary of a run in the manner of statsmodels: tables of fitted parameters and claims that print
themselves as text, HTML, LaTeX or CSV. Imports statsmodels' tables.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any, Final

import xarray as xr
from markupsafe import escape
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

from geostat.errors import printable
from geostat.runs.groups import group_of, joined
from geostat.runs.methods.contents import Contents, contents
from reports.text.latex import text_latex
from reports.text.printable import no_formula

WIDTH: Final = 100
"""Columns of a note."""


class RunSummary(Summary):
    """A run's summary: statsmodels' `Summary` with `tables`, `as_text()`, `as_html()`,
    `as_latex()` and `as_csv()`, in each of which foreign names are escaped.

    LaTeX needs the package booktabs.
    """

    def __init__(self, said: Contents) -> None:
        super().__init__()
        self._said = said
        self._fill(printable)

    def __repr__(self) -> str:
        return self.as_text()

    def as_html(self) -> str:
        """The tables as HTML."""
        return str(self._with(lambda text: str(escape(printable(text))), Summary.as_html))

    def as_csv(self) -> str:
        """The tables as comma-separated values, one below the other."""
        return str(self._with(_csv, Summary.as_csv))

    def as_latex(self) -> str:
        """The tables as LaTeX, one below the other."""
        as_tabular: dict[str, Any] = {"replacements": {}}  # `text_latex` has escaped all

        def tables(self: Summary) -> str:
            parts = [
                rf"\textbf{{{table.title}}}\par" + "\n" + table.as_latex_tabular(**as_tabular)
                for table in self.tables
            ]
            return "\n\n".join([*parts, *self.extra_txt.splitlines()])

        return str(self._with(_latex, tables))

    def _with(self, safe: Callable[[str], str], write: Callable[[Summary], str]) -> str:
        """Write the summary with every text made safe for a language."""
        made = RunSummary(self._said)
        made._fill(safe)
        return write(made)

    def _fill(self, safe: Callable[[str], str]) -> None:
        self.tables = [_header(self._said.facts, safe)]
        for block in self._said.blocks:
            self.tables.append(
                SimpleTable(
                    [[safe(cell) for cell in row[1:]] for row in block.rows],
                    headers=[safe(one) for one in block.header],
                    stubs=[safe(row[0]) for row in block.rows],
                    title=safe(block.title),
                    txt_fmt=fmt_params | {"data_fmts": ["%s"], "data_aligns": "r"},
                )
            )
        notes = [
            textwrap.wrap(f"[{number}] {note}", WIDTH, subsequent_indent="    ")
            for number, note in enumerate(self._said.notes, start=1)
        ]
        self.add_extra_txt(["Notes:", *(safe(line) for lines in notes for line in lines)])


def _header(facts: list[tuple[str, str]], safe: Callable[[str], str]) -> SimpleTable:
    """Facts in two columns, as statsmodels heads a summary."""
    half = -(-len(facts) // 2)
    left, right = facts[:half], [*facts[half:], *[("", "")] * (len(facts) % 2)]
    rows = [
        [safe(text) for text in (value, f"{name}:" if name else "", other)]
        for (_, value), (name, other) in zip(left, right, strict=True)
    ]
    stubs = [safe(f"{name}:") for name, _ in left]
    txt = fmt_2cols | {"data_fmts": ["%s", "   %s", "%s"], "data_aligns": "rlr"}
    return SimpleTable(rows, stubs=stubs, title=safe("Attention heads of a model"), txt_fmt=txt)


def _csv(text: str) -> str:
    """A cell of a spreadsheet, in quotes where it holds a comma or quote."""
    plain = no_formula(printable(text))
    return '"' + plain.replace('"', '""') + '"' if set(',"') & set(plain) else plain


def _latex(text: str) -> str:
    """Escape for LaTeX; statsmodels would take two dollar signs in a row for its own."""
    return text_latex(text).replace("$$", "${}$")


def summarised(run: xr.DataTree, fits: xr.DataTree | None = None) -> RunSummary:
    """Return the summary of a run, and of fits that it does not hold: `geostat.summary`."""
    from importlib.metadata import version

    if not isinstance(run, xr.DataTree) or not run.children:
        group_of(run, "capture")
    if fits is not None:
        run = joined(run, fits)
    return RunSummary(contents(run, version("attention-geostat")))
