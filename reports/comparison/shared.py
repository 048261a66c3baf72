"""What tables and figures of several runs share: their letters, a table with a column for each run,
and what the paper reports.

What the paper reports stands in columns of its own, labelled so, and never among measurements.
Imports this room's cells.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import xarray as xr

from reports.run import listed
from reports.tables.cells import Cell, mixed, text
from reports.tables.table import Table
from reports.text.number import MISSING

STATISTICS = {"precision": "Precision", "recall": "Recall"}
REPORTED = "reported in the paper"
"""Header of every column that holds no measurement of ours."""
Row = tuple[Sequence[Cell], Sequence[Cell], Sequence[Cell]]
"""Words at the left, a cell for each run, and words at the right."""


def letters(data: xr.Dataset) -> list[str]:
    """What runs are called in headers and figures."""
    return listed(data.attrs, "letters")


def reported_by_paper(data: xr.Dataset) -> list[dict[str, Any]]:
    """What the paper reports, as the comparison carries it."""
    return list(json.loads(str(data.attrs["reported"])))


def beside(data: xr.Dataset, key: str) -> Cell:
    """What the paper reports of a quantity, with its models and source; a dash where it reports
    nothing of the kind.
    """
    lines = [
        f"reported: {row['says']} ({row['models'].split(' (')[0].split(';')[0]}; {row['source']})"
        for row in reported_by_paper(data)
        if key in row["beside"]
    ]
    return mixed("; ".join(lines)) if lines else text("–")


def key_of(data: xr.Dataset) -> str:
    """Which letter is which run, in foreign words."""
    return "; ".join(
        f"{letter}: {name}" for letter, name in zip(letters(data), data["run"].values, strict=True)
    )


def each_run(data: xr.Dataset, cell: Callable[[xr.Dataset], Cell]) -> list[Cell]:
    """A cell for each run."""
    return [cell(data.isel(run=index)) for index in range(data.sizes["run"])]


def known(rows: list[Row]) -> list[Row]:
    """The rows of which some run has a value."""
    return [row for row in rows if any(cell.plain != MISSING for cell in row[1])]


def wide(
    data: xr.Dataset,
    name: str,
    title: str,
    caption: str,
    lead: Sequence[str],
    rows: Sequence[Row],
    last: Sequence[str] = (),
) -> Table:
    """A table with words at the left, a column for each run, and perhaps words at the right. The
    caption opens with the key of letters.
    """
    names, first = letters(data), len(lead)
    headers = [
        *(mixed(word) for word in lead),
        *(text(letter) for letter in names),
        *(mixed(word) for word in last),
    ]
    align = "p" + "l" * (first - 1) + "r" * len(names) + "p" * len(last)
    return Table(
        f"comparison_{name}",
        title,
        f"{key_of(data)}. {caption}",
        headers,
        [[*a, *b, *c] for a, b, c in rows],
        align,
        keys=first,
    )
