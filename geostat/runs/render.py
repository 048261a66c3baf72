"""Rendering of a confronted run: the page, its tables, its figures. Imports the reports room on
first use, and no torch.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

import xarray as xr

from empirical.store.remote.origin import called
from empirical.store.stored_run import StoredRun
from geostat.display.tree import with_display
from geostat.errors import InputError, refuse_unknown, shown_whole
from geostat.runs.console import QUIET, Console
from geostat.runs.files import commands_of, page_place, refuse_unwritable, seconds_of
from geostat.verdicts.answers import refuse_older


def write_report(store: StoredRun, out: Path | None = None, *, console: Console = QUIET) -> Path:
    """Write report.html, report.json, figures and tables of a confronted run below `out`, unless
    told in `page_place`; returns the page's path.
    """
    from reports.page.page import write_page

    out = _place(out, page_place(store.named), "figures", "tables")
    tree = _confronted(store)
    with shown_whole(store.path):
        console.stage("report")
        path = store.path
        return write_page(
            with_display(tree),
            out,
            seconds=seconds_of(path),
            commands=commands_of(path),
            path=_as_given(path),
        )


def _as_given(path: Path) -> str:
    """A store as a command is given it: by its folder, where it has the usual name.

    >>> _as_given(Path("report/run.zarr")), _as_given(Path("run.zarr")), _as_given(Path("a.zarr"))
    ('report', 'run.zarr', 'a.zarr')
    """
    if (name := called(path)) != str(path):
        return name
    return str(path.parent if path.name == "run.zarr" and path.parent.name else path)


FORMATS: Final = {
    "tables": ("latex", "markdown", "html", "csv", "json"),
    "figures": ("pdf", "png", "svg"),
}
"""What tables and figures can be written as; the first two, unless others are asked for."""
COLUMNS: Final = (1, 2)
"""Columns that a paper may have."""
INCHES: Final = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}
"""Units of a width; points are those of TeX."""
LOOKS: Final = ("paper", "slides")
"""What figures are made for; the first, unless told."""
NARROWEST, LEAST_SLIDE, WIDEST = 2.5, 8.0, 14.0
"""Inches that a figure may be wide; between them, what a slide is at least."""


def write_part(
    what: Literal["tables", "figures"],
    store: StoredRun,
    out: Path | None = None,
    *,
    only: str = "",
    formats: str = "",
    width: str = "",
    style: str = "",
    columns: int = 1,
    standalone: bool = False,
) -> list[Path]:
    """Write tables or figures of a confronted run into `out`, unless told into a folder named after
    them in `page_place`; returns their paths.

    `only` and `formats` name some, with commas between. Of figures, `width` is such as 3.25in, and
    `style` is paper or slides; of tables, `columns` are those of the paper that LaTeX is for, and
    `standalone` adds a document.

    Raises:
        InputError: for a name, a format, a width, a style or columns that mean nothing.
    """
    kinds = _words(formats) or list(FORMATS[what][:2])
    for kind in kinds:
        refuse_unknown(kind, FORMATS[what], f"--format {kind}:")
    if columns not in COLUMNS:
        raise InputError(f"--columns {columns}: expected 1 or 2. Give the columns of your paper.")
    if standalone and "latex" not in kinds:
        raise InputError(
            f"--standalone --format {formats}: expected latex among the formats, of which the"
            " document is. Add it, or leave --standalone out."
        )
    names, inches = _words(only), _inches(width) if width else None
    if style:
        refuse_unknown(style, LOOKS, f"--style {style}:")
    if style == "slides" and inches is not None and inches < LEAST_SLIDE:
        raise InputError(
            f"--width {width}: expected at least {LEAST_SLIDE:g} inches for --style slides, whose"
            " type is of 14 points. Use --width 10in, or --style paper."
        )
    out = _place(out, page_place(store.named) / what)
    tree = _confronted(store)
    with shown_whole(store.path):
        shown = with_display(tree)
        if what == "tables":
            from reports.tables.every import write_tables

            return write_tables(
                shown, out, only=names, formats=kinds, columns=columns, standalone=standalone
            )
        from reports.figures.every import write_figures

        look: Literal["paper", "slides"] = "slides" if style == "slides" else "paper"
        return write_figures(shown, out, only=names, kinds=kinds, width=inches, look=look)


def _place(asked: Path | None, usual: Path, *below: str) -> Path:
    """The folder to write in, which was asked for or is the usual one. Refused where it cannot be
    written, or where a link, which may have come with the run, would lead files elsewhere; a folder
    that was asked for by name may be a link.
    """
    folder = asked or usual
    refuse_unwritable(folder)
    written = [folder / name for name in below] or [folder]
    for path in (*written, *(one for into in written for one in into.glob("tokens_*"))):
        if path.is_symlink() and path != asked:
            raise InputError(
                f"{path}: is a link, expected a folder to write in. Remove it, or choose another"
                " folder with --out."
            )
    return folder


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _inches(width: str) -> float:
    """Read a width.

    >>> _inches("8.255cm")
    3.25
    """
    match = re.fullmatch(rf"\s*([0-9.]+)\s*({'|'.join(INCHES)})\s*", width)
    try:
        found = float(match[1]) * INCHES[match[2]] if match else 0.0
    except ValueError:
        found = 0.0
    if not NARROWEST <= found <= WIDEST:
        raise InputError(
            f"--width {width}: expected {NARROWEST:g} to {WIDEST:g} inches, as a number with in,"
            " cm, mm or pt. Use for example --width 3.25in."
        )
    return found


def outdated(store: StoredRun) -> str | None:
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


def _confronted(store: StoredRun) -> xr.DataTree:
    if "summary" not in store.results:
        raise InputError(
            f"{store.path}: has not been confronted with the theory yet. Run `geostat fit` and"
            " `geostat confront` on it first."
        )
    tree = store.tree()
    with shown_whole(store.path):
        refuse_older(str(store.path), tree)
    return tree
