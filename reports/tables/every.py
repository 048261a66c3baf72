"""The tables of a report: parameters with uncertainties, separability, coverage, all heads, errata;
as HTML, booktabs LaTeX and Markdown.

One more table: a function that returns a `Table`, and its name in `tables`. Numbers are rounded to
their errors by reports.text.number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import xarray as xr

from reports.errors import refuse_unknown
from reports.files import replaced
from reports.run import Run, parts
from reports.tables.ablation import ablation_tables
from reports.tables.bounds import coverage, ingredient_tables
from reports.tables.cells import header, mixed, whole
from reports.tables.effective import effective_tables
from reports.tables.experiments import experiment_tables
from reports.tables.fitted.parameters import compressed_tables, norms, similarity, weights
from reports.tables.fitted.pooled import pooled_tables
from reports.tables.fitted.rivals import rival_tables
from reports.tables.heads import head_tables
from reports.tables.kinds import kinds_tables
from reports.tables.normaliser import normaliser_tables
from reports.tables.paper.document import document, latex
from reports.tables.predictive import predictive_tables
from reports.tables.scoreboard import scoreboard_tables
from reports.tables.separability import separability
from reports.tables.settled import settled_tables
from reports.tables.sinks import sink_tables
from reports.tables.table import Table
from reports.tables.verdicts import verdict_tables


def tables(tree: xr.DataTree) -> dict[str, Table]:
    """Every table of a confronted run, by name, in the report's order; each has a caption and
    `frame()`.

    Raises:
        InputError: if the run lacks a group.
    """
    run = Run.of(tree)
    fitted = [
        norms(run),
        *compressed_tables(run),
        *sink_tables(run),
        similarity(run),
        weights(run),
        *rival_tables(run),
        *pooled_tables(run),
    ]
    measured = [
        separability(run),
        coverage(run),
        *ingredient_tables(run),
        *predictive_tables(run),
        *experiment_tables(run),
        *effective_tables(run),
        *ablation_tables(run),
        *normaliser_tables(run),
        *kinds_tables(run),
    ]
    made = [
        *scoreboard_tables(run),
        *verdict_tables(run),
        *fitted,
        *measured,
        *head_tables(run),
        errata(run),
        *settled_tables(run),
    ]
    return {table.name: table for table in made if table.rows}


def errata(run: Run) -> Table:
    """What is wrong in print and matters for reading the report."""
    result = json.loads(run.summary.attrs.get("errata") or "[]")
    rows = [
        [
            whole(float(row.get("number", 0))),
            *(mixed(str(row.get(key) or "")) for key in ("title", "printed", "true", "reading")),
        ]
        for row in result
    ]
    headers = header("no.", "what", "printed", "true", "why it matters here")
    caption = (
        "Statements of arXiv 2602.01893 that are wrong or undefined in print and matter for"
        " reading this report."
    )
    return Table(
        "errata",
        "Errata",
        caption,
        headers,
        rows,
        "rpppp",
    )


FORMATS: Final[dict[str, tuple[str, Callable[[Table], str]]]] = {
    "latex": ("tex", latex),
    "markdown": ("md", Table.markdown),
    "html": ("html", Table.html),
    "csv": ("csv", Table.csv),
    "json": ("json", Table.json),
}
"""What a table can be written as: the end of the file's name, and what writes it."""
DOCUMENT: Final = "tables.tex"
"""Name of the document that holds tables and compiles by itself."""


def write_tables(
    tree: xr.DataTree,
    out: Path,
    *,
    only: Sequence[str] = (),
    formats: Sequence[str] = ("latex", "markdown"),
    columns: int = 1,
    standalone: bool = False,
) -> list[Path]:
    """Write tables of a confronted run; returns the files' paths, in the report's order.

    Args:
        tree: the run, as `geostat.display.tree.with_display` returns it.
        out: folder.
        only: names of tables; all where empty.
        formats: of FORMATS.
        columns: of the paper that LaTeX is for, 1 or 2.
        standalone: whether to write DOCUMENT too, which holds these tables.

    Raises:
        InputError: if the run lacks a group or a table that is asked for, or the folder cannot be
            written.
    """
    made = {folder: tables(part) for folder, part in parts(tree).items()}
    refuse_unknown(only, [name for every in made.values() for name in every], "table")
    written = []
    for folder, every in made.items():
        chosen = [table for table in every.values() if not only or table.name in only]
        for table in chosen:
            written += write_table(table, out, formats, columns, part=folder)
        on_paper = [table for table in chosen if not table.only_page]
        if standalone and on_paper:
            written.append(replaced(out / folder / DOCUMENT, document(on_paper, columns, folder)))
    return written


def write_table(
    table: Table,
    out: Path,
    formats: Sequence[str] = ("latex", "markdown"),
    columns: int = 1,
    *,
    part: str = "",
) -> list[Path]:
    """Write one table into a folder, that of a part of a run into a folder in it, with a label of
    its own; one that is too wide for paper not as LaTeX.
    """
    written, folder = [], out / part
    for name in formats:
        kind, content = FORMATS[name]
        if name != "latex":
            written.append(replaced(folder / f"{table.name}.{kind}", content(table)))
        elif not table.only_page:
            written.append(replaced(folder / f"{table.name}.{kind}", latex(table, columns, part)))
    return written
