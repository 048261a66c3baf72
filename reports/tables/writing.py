"""Writing of tables as LaTeX, Markdown, HTML, CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from reports.files import replaced
from reports.tables.paper import latex
from reports.tables.table import Table

FORMATS: Final[dict[str, tuple[str, Callable[[Table], str]]]] = {
    "latex": ("tex", latex),
    "markdown": ("md", Table.markdown),
    "html": ("html", Table.html),
    "csv": ("csv", Table.csv),
    "json": ("json", Table.json),
}
"""File suffix and writer of each format."""
DOCUMENT: Final = "tables.tex"
"""Name of the standalone LaTeX document of all tables."""


def write_table(
    table: Table,
    out: Path,
    formats: Sequence[str] = ("latex", "markdown"),
    columns: int = 1,
    *,
    part: str = "",
) -> list[Path]:
    """Write one table into a folder, or into the subfolder `part` with the part in its label, and
    return the files' paths. Tables that are too wide for paper get no LaTeX.
    """
    written, folder = [], out / part
    for name in formats:
        kind, content = FORMATS[name]
        if name != "latex":
            written.append(replaced(folder / f"{table.name}.{kind}", content(table)))
        elif not table.only_page:
            written.append(replaced(folder / f"{table.name}.{kind}", latex(table, columns, part)))
    return written
