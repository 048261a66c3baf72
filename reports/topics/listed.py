"""Registry of figures, tables and page entries of all topics, in the report's order; writing of
figures and tables of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import xarray as xr

from reports.errors import refuse_unknown
from reports.figures import style
from reports.figures.plan import KINDS, PLANS, Plan, draw, write_caption, write_figure
from reports.files import replaced
from reports.run import Run, parts
from reports.tables.paper import document
from reports.tables.table import Table
from reports.tables.writing import DOCUMENT, write_table
from reports.topics import (
    ablation,
    amended,
    assumptions,
    bounds,
    contributions,
    effective,
    heads,
    kinds,
    normaliser,
    pooled,
    predictive,
    rivals,
    separability,
    sink_and_regimes,
    sinks,
    verdicts,
)
from reports.topics.entry import Entry

_FIGURES: Final = (
    *("idea", "claims", "norms", "similarity", "rank_and_lag", "weights", "rivals"),
    *("separability", "sphere"),
    *("coverage", "costs", "heads", "sink", "regimes", "contributions", "regime_depth"),
    *("regime_curves", "effective", "effective_layers", "ablation", "normaliser", "predictive"),
    "ladder",
)
_TABLES: Final = (
    *("scoreboard", "verdicts", "verdict_layers", "verdict_heads", "norms", "compressed"),
    *("sinks", "sink_tokens", "similarity", "cosine_forms", "amended"),
    *("weights", "rivals", "depth", "pooled"),
    *("separability", "coverage_by_range", "coverage", "costs_by_n", "ingredients"),
    *("predictive", "predictive_check", "amended_prediction", "weight_forms", "sink"),
    *("regimes", "regime_sweep", "separable", "effective", "effective_sets", "effective_curves"),
    *("head_function", "head_prediction", "head_needs", "budgets", "regime_cuts", "contexts"),
    *(
        "normaliser",
        "kind_estimates",
        "kinds",
        "heads",
        "heads_norms",
        "heads_similarity",
        "heads_weights",
    ),
    *("errata", "paper_table_1", "paper_table_2"),
)
"""Names in the report's order."""

TOPICS: Final = (
    *(verdicts, assumptions, sinks, amended, rivals, pooled, separability, bounds, predictive),
    *(sink_and_regimes, contributions, effective, ablation, normaliser, kinds, heads),
)
"""Modules of topics."""
FIGURES: Final[tuple[Plan, ...]] = tuple(
    sorted(PLANS.values(), key=lambda plan: _FIGURES.index(plan.name))
)
"""All figures, in the report's order."""
ENTRIES: Final[tuple[Entry, ...]] = (
    *assumptions.ENTRIES,
    *separability.ENTRIES[:1],
    *bounds.ENTRIES,
    *sink_and_regimes.ENTRIES,
    *effective.ENTRIES,
    *normaliser.ENTRIES,
    *separability.ENTRIES[1:],
)
"""Entries of the page, in the order of the paper."""
REST: Final = Entry(
    key="reach",
    short="All heads",
    question="What do pooled heads show, and how far do the results generalise?",
    tables=("pooled", "depth", "kind_estimates", "kinds"),
    rows=("families",),
)
"""Last entry: every figure and table of no other topic."""


def plans(run: Run) -> tuple[Plan, ...]:
    """Return the `FIGURES` whose group is in the run."""
    return tuple(p for p in FIGURES if not p.group or run.group(p.group) is not None)


def tables(tree: xr.DataTree) -> dict[str, Table]:
    """Return every table of a confronted run, by name, in the report's order.

    Raises:
        InputError: if the run lacks a group.
    """
    run = Run.of(tree)
    by_name = {
        table.name: table
        for topic in TOPICS
        if hasattr(topic, "tables")
        for table in topic.tables(run)
        if table.rows
    }
    return {name: by_name[name] for name in sorted(by_name, key=_TABLES.index)}


def write_tables(
    tree: xr.DataTree,
    out: Path,
    *,
    only: Sequence[str] = (),
    formats: Sequence[str] = ("latex", "markdown"),
    columns: int = 1,
    standalone: bool = False,
) -> list[Path]:
    """Write tables of a confronted run and return the files' paths, in the report's order.

    Args:
        tree: the run, as `geostat.display.tree.with_display` returns it.
        out: folder.
        only: names of tables; empty for all.
        formats: of FORMATS.
        columns: number of text columns of the paper, 1 or 2.
        standalone: whether to write DOCUMENT, a LaTeX document with these tables, as well.

    Raises:
        InputError: if the run lacks a group or a table in `only`, or the folder cannot be written.
    """
    by_part = {folder: tables(part) for folder, part in parts(tree).items()}
    refuse_unknown(only, [name for by_name in by_part.values() for name in by_name], "table")
    written = []
    for folder, by_name in by_part.items():
        selected = [table for table in by_name.values() if not only or table.name in only]
        for table in selected:
            written += write_table(table, out, formats, columns, part=folder)
        on_paper = [table for table in selected if not table.only_page]
        if standalone and on_paper:
            written.append(replaced(out / folder / DOCUMENT, document(on_paper, columns, folder)))
    return written


def write_figures(
    tree: xr.DataTree,
    out: Path,
    *,
    only: Sequence[str] = (),
    kinds: Sequence[str] = KINDS,
    width: float | None = None,
    look: style.Look = "paper",
) -> list[Path]:
    """Write figures of a confronted run with their captions and return the files' paths, in the
    report's order.

    Args:
        tree: the run, as `geostat.display.tree.with_display` returns it.
        out: folder.
        only: names of figures, or numbers of their counterparts in the paper; empty for all.
        kinds: file formats: pdf, png, svg.
        width: inches; the default depends on `look`.
        look: style for paper or slides.

    Raises:
        InputError: if the run lacks a group or a figure in `only`, or the folder cannot be written.
    """
    runs = {folder: Run.of(part) for folder, part in parts(tree).items()}
    available = [plan for run in runs.values() for plan in plans(run)]
    numbers = {plan.paper.removeprefix("Figure "): plan.name for plan in available if plan.paper}
    selected = [numbers.get(name, name) for name in only]
    refuse_unknown(selected, [plan.name for plan in available], "figure")
    return [
        path
        for folder, run in runs.items()
        for plan in plans(run)
        if not selected or plan.name in selected
        for path in (
            *write_figure(plan.name, draw(plan, run, width, look), out / folder, kinds),
            *write_caption(plan, plan.caption(run), out, part=folder),
        )
    ]
