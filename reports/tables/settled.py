"""Tables 1 and 2 of the paper, settled: what is printed, and what is true.

Imports this room's cells and run; what is printed travels in /summary's attribute
`paper_tables`.
"""

from __future__ import annotations

import json
from typing import Final

from reports.run import Run
from reports.tables.cells import Cell, header, mixed, symbol
from reports.tables.table import Table

SYMBOLS: Final = {
    "a_0": "a_0",
    "a_min_in": r"a_{\mathrm{min,in}}",
    "a_max_out": r"a_{\mathrm{max,out}}",
    "beta": r"\beta",
    "rho_0": r"\rho_0",
}
"""What a parameter's name stands for; other names are symbols or words themselves."""
CAPTION: Final = (
    "Table {number} of arXiv 2602.01893 as printed, and what is true of each row; settled by proof"
    " and simulation for the theory, not by this run. Conditional: true under a condition that"
    " print leaves out.{more} What decided: geostat theory table {number}."
)


def settled_tables(run: Run) -> list[Table]:
    """Both tables, which the page leaves out; none of a run that an earlier geostat confronted."""
    told = json.loads(str(run.summary.attrs.get("paper_tables", "{}")))
    if not told:
        return []
    first = [
        [_parameter(row["raised"]), *(_words(row[key]) for key in ("printed", "verdict", "true"))]
        for row in told["table_1"]
    ]
    columns = ("row", "sizes", "composition", "trend", "effect", "verdict", "true")
    second = [[_words(row[key]) for key in columns] for row in told["table_2"]]
    on_bounds = " True of the bound: of the printed bounds, not of Precision and Recall themselves."
    return [
        Table(
            "paper_table_1",
            "What each parameter does (Table 1 of the paper, settled)",
            CAPTION.format(number=1, more=on_bounds),
            header("raised", "printed", "verdict", "settled"),
            first,
            "lplp",
            only_latex=True,
        ),
        Table(
            "paper_table_2",
            "Regimes of N (Table 2 of the paper, settled)",
            CAPTION.format(number=2, more=""),
            header(
                "", "N", "composition of $I_N$", r"trend of $\Delta/B$", "effect", "verdict", "true"
            ),
            second,
            "llppplp",
            only_latex=True,
        ),
    ]


def _parameter(name: str) -> Cell:
    return symbol(SYMBOLS[name]) if name in SYMBOLS else _words(name)


def _words(words: str) -> Cell:
    """Words of the theory, with the N-th largest weight as a symbol."""
    return mixed(words.replace("α_(N)", r"$\alpha_{(N)}$"))
