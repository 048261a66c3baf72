"""Table of the component of variance between kinds of text. Imports this room's cells and run."""

from __future__ import annotations

import math

from reports.run import Run
from reports.tables.cells import (
    Cell,
    header,
    missing,
    mixed,
    number,
    p_value,
    percentage,
    share,
    whole,
)
from reports.tables.table import Table
from reports.text.number import percent


def kinds_tables(run: Run) -> list[Table]:
    """The table; none where the run's documents are of one kind, or no two are of the same."""
    data = run.summary
    if "between_share" not in data:
        return []
    rows: list[list[Cell]] = []
    for index in range(data.sizes["quantity"]):
        at = {name: data[f"between_{name}"].values[index] for name in COLUMNS}
        rows.append(
            [
                mixed(at["words"]),
                whole(float(at["heads"])),
                percentage(float(at["share"]), 0),
                _limits(float(at["share_lower"]), float(at["share_upper"])),
                p_value(float(at["p"])),
                number(float(at["error_strata"]), digits=2),
                number(float(at["error_sample"]), digits=2),
            ]
        )
    return [
        Table(
            "kinds",
            "Differences between kinds of text",
            CAPTION.format(kinds=len(kinds(run)), documents=run.counted("document")),
            header(
                "estimate",
                "heads",
                "between kinds",
                "95% interval",
                "p",
                "error with kinds as strata",
                "error with kinds sampled",
            ),
            rows,
            "prrrrrr",
        )
    ]


COLUMNS = (
    "words",
    "heads",
    "share",
    "share_lower",
    "share_upper",
    "p",
    "error_strata",
    "error_sample",
)
"""Of what is called between_… in /summary."""

CAPTION = (
    "How much of the variance over documents, whose root is the error of every estimate, lies"
    " between kinds of text ({documents} of {kinds} kinds): one-way random effects of the"
    " documents’ pseudo-values, heads pooled. Interval: jackknife over kinds, of the share. p: how"
    " often kinds differ as much when documents are dealt to them at random. Errors of this report"
    " take all documents as exchangeable. In multiples of them stand the error over further"
    " documents of these same kinds (strata), and over further kinds, of which these would be a"
    " sample."
)


def _limits(low: float, high: float) -> Cell:
    """A cell that holds the limits of a share; n/a where unknown."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return missing()
    return share(low, f"{percent(low, 0)} to {percent(high, 0)}")


def kinds(run: Run) -> list[str]:
    """Each kind of the run's documents with how many are of it, in the order of their first:
    `code 2`.
    """
    rows = run.attrs.get("manifest", {}).get("documents", [])
    given = [str(row["kind"]) for row in rows if row.get("kind")]
    return [f"{kind} {given.count(kind)}" for kind in dict.fromkeys(given)]
