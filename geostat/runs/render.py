"""Rendering of a confronted run: the page, its tables, its figures. Imports the reports room on
first use, and no torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import xarray as xr

from empirical.store.store import Store
from geostat.display.tree import with_display
from geostat.errors import InputError
from geostat.runs.console import QUIET, Console
from geostat.runs.files import commands_of, refuse_unwritable, seconds_of, timed
from geostat.verdicts.answers import refuse_older


def write_report(store: Store, out: Path, *, console: Console = QUIET) -> Path:
    """Write report.html, figures and tables of a confronted run below `out`; returns the page's
    path.
    """
    from reports.page.page import write_page

    refuse_unwritable(out)
    tree = _confronted(store)
    with timed(store.path, "report"):
        console.stage("report")
        path = store.path
        return write_page(tree, out, seconds=seconds_of(path), commands=commands_of(path))


def write_part(what: Literal["tables", "figures"], store: Store, out: Path) -> list[Path]:
    """Write the booktabs tables of a confronted run, or its figures as PDF and PNG, into `out`;
    returns their paths.
    """
    if what == "tables":
        from reports.tables.every import write_tables as write
    else:
        from reports.figures.every import write_figures as write
    refuse_unwritable(out)
    return write(_confronted(store), out)


def outdated(store: Store) -> str | None:
    """A line on what an earlier confrontation left beside the store, and the command that renews
    it; None where nothing lies there.
    """
    page, folder = store.path.with_name("report.html"), store.path.with_name("tables")
    if page.exists():
        return f"{page} is older than these numbers. Run `geostat report {store.path}` to renew it."
    if any(folder.glob("*.md")):
        return (
            f"The tables in {folder} are older than these numbers. Run `geostat tables"
            f" {store.path}` to renew them."
        )
    return None


def _confronted(store: Store) -> xr.DataTree:
    if "summary" not in store.results:
        raise InputError(
            f"{store.path}: has not been confronted with the theory yet. Run `geostat fit` and"
            " `geostat confront` on it first."
        )
    tree = store.tree()
    refuse_older(str(store.path), tree)
    return with_display(tree)
