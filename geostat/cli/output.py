"""What a command prints: names with values, lines or a table; as JSON; and the version."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer


def write(result: dict[str, Any], *, as_json: bool = False, quiet: bool = False) -> None:
    """Print a command's result: as JSON, or, unless quiet, a name with its value, its lines or a
    table. A run at a URL is told by that.
    """
    if "run" in result and Path(str(result["run"])).suffix == ".zarr":
        from empirical.store.remote.origin import called

        result = result | {"run": called(Path(str(result["run"])))}
    if as_json:
        from reports.text.printable import printable_data

        sys.stdout.write(json.dumps(printable_data(result), indent=1, allow_nan=False) + "\n")
        return
    if quiet:
        return
    from empirical.sources.paths import shown  # a name that is not UTF-8 can be printed
    from geostat.errors import printable

    for name, value in result.items():
        several = isinstance(value, list)
        lines = _columns(value) if several and value and isinstance(value[0], dict) else value
        parts = [printable(shown(str(one))) for one in (lines if several else [value])]
        text = "".join(f"\n  {part}" for part in parts) if several else f" {parts[0]}"
        sys.stdout.write(f"{name}:{text}\n")


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    """Rows of the same names as lines of aligned columns; what is not there is n/a."""
    cells = [list(rows[0])] + [
        ["n/a" if value is None else f"{value}" for value in row.values()] for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.rjust, row, widths)) for row in cells]


def version(asked: bool) -> None:
    """Print the version and end."""
    if asked:
        from importlib.metadata import version as installed

        sys.stdout.write(f"geostat {installed('attention-geostat')}\n")
        raise typer.Exit
