"""Rendering of a confronted run: page, tables and figures.

Imports `reports` on first use, and no torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import xarray as xr

from empirical.store.remote import called
from empirical.store.stored_run import StoredRun
from geostat.display.tree import with_display
from geostat.errors import InputError, shown_whole
from geostat.runs.console import QUIET, Console
from geostat.runs.files import commands_of, default_report_folder, refuse_unwritable, seconds_of
from geostat.runs.options import FiguresOptions, TablesOptions
from geostat.topics.verdicts import refuse_older


def write_report(store: StoredRun, out: Path | None = None, *, console: Console = QUIET) -> Path:
    """Write report.html, report.json, figures and tables of a confronted run; return the page's
    path.

    out: folder; by default `default_report_folder`.
    """
    from reports.page.page import write_page

    out = _checked_folder(out, default_report_folder(store.named), "figures", "tables")
    path = store.path
    with _displayed(store, console) as tree:
        return write_page(
            tree,
            out,
            seconds=seconds_of(path),
            commands=commands_of(path),
            path=_argument(path),
        )


def _argument(path: Path) -> str:
    """Return the command-line argument for a store: the folder of a run.zarr, else the store.

    >>> _argument(Path("report/run.zarr")), _argument(Path("run.zarr")), _argument(Path("a.zarr"))
    ('report', 'run.zarr', 'a.zarr')
    """
    if (name := called(path)) != str(path):
        return name
    return str(path.parent if path.name == "run.zarr" and path.parent.name else path)


def write_tables(store: StoredRun, options: TablesOptions) -> list[Path]:
    """Write tables of a confronted run and return their paths.

    The default folder is tables/ in `default_report_folder`.
    """
    from reports.topics.listed import write_tables as write

    out = _checked_folder(options.out, default_report_folder(store.named) / "tables")
    with _displayed(store) as tree:
        return write(
            tree,
            out,
            only=options.names,
            formats=options.kinds,
            columns=options.columns,
            standalone=options.standalone,
        )


def write_figures(store: StoredRun, options: FiguresOptions) -> list[Path]:
    """Write figures of a confronted run and return their paths.

    The default folder is figures/ in `default_report_folder`.
    """
    from reports.topics.listed import write_figures as write

    out = _checked_folder(options.out, default_report_folder(store.named) / "figures")
    with _displayed(store) as tree:
        return write(
            tree,
            out,
            only=options.names,
            kinds=options.kinds,
            width=options.inches,
            look="slides" if options.style == "slides" else "paper",
        )


def _checked_folder(out: Path | None, default: Path, *subfolders: str) -> Path:
    """Return the folder to write in, `out` or the default one.

    Links inside the folder are refused: a downloaded run could redirect files through them. `out`
    itself may be a link.

    Raises:
        InputError: if the folder cannot be written or holds a link.
    """
    folder = out or default
    refuse_unwritable(folder)
    targets = [folder / name for name in subfolders] or [folder]
    for path in (*targets, *(stale for target in targets for stale in target.glob("tokens_*"))):
        if path.is_symlink() and path != out:
            raise InputError(
                f"{path}: is a link, expected a folder to write in. Remove it, or choose another"
                " folder with --out."
            )
    return folder


def outdated(store: StoredRun) -> str | None:
    """Return a message on an outdated page or outdated tables in the store's folder; None without.

    The message names the command that renews them.
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


@contextmanager
def _displayed(store: StoredRun, console: Console = QUIET) -> Iterator[xr.DataTree]:
    """Yield a confronted run with its display groups, to render in the block."""
    if "summary" not in store.results:
        raise InputError(
            f"{store.path}: has not been confronted with the theory yet. Run `geostat fit` and"
            " `geostat confront` on it first."
        )
    tree = store.tree()
    with shown_whole(store.path):
        refuse_older(str(store.path), tree)
        console.stage("report")
        yield with_display(tree)
