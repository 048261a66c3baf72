"""Kinds of text: variance component between kinds."""

from __future__ import annotations

import math

import xarray as xr

from reports.run import Run, each, with_limits
from reports.tables.table import (
    Cell,
    Column,
    Table,
    missing,
    mixed,
    numbers,
    p_value,
    percentages,
    share,
    wholes,
)
from reports.text.number import percent


def tables(run: Run) -> list[Table]:
    """Return the table; none if documents have a single kind, or all different kinds."""
    if "between_share" not in run.summary:
        return []
    columns = (
        Column("estimate", lambda row: mixed(row["between_words"].item()), "p"),
        wholes("heads", "between_heads"),
        percentages("between kinds", "between_share", digits=0),
        Column("95% interval", _limits),
        Column("p", lambda row: p_value(float(row["between_p"]))),
        numbers("error with kinds as strata", "between_error_strata", digits=2),
        numbers("error with kinds sampled", "between_error_sample", digits=2),
    )
    caption = (
        "Share of the variance over documents that lies between kinds of text"
        f" ({run.counted('document')} of {len(kinds(run))} kinds): one-way random effects of the"
        " documents’ pseudo-values, heads pooled. Interval: of the share, jackknife over kinds. p:"
        " permutation test, documents assigned to kinds at random. Standard errors in this report"
        " treat all documents as exchangeable. The last two columns give, as multiples of them, the"
        " error over new documents of the same kinds (strata) and over new kinds (kinds as a random"
        " sample)."
    )
    title, rows = "Differences between kinds of text", each(run.summary, "quantity")
    return [Table.of("kinds", title, caption, columns, rows)]


def _limits(row: xr.Dataset) -> Cell:
    """Return a cell with the limits of the share, n/a if unknown."""
    _, low, high = with_limits(row, "between_share")
    if not (math.isfinite(low) and math.isfinite(high)):
        return missing()
    return share(low, f"{percent(low, 0)} to {percent(high, 0)}")


def kinds(run: Run) -> list[str]:
    """Return each kind of text with its number of documents, in order of appearance: `code 2`."""
    rows = run.attrs.get("manifest", {}).get("documents", [])
    by_document = [str(row["kind"]) for row in rows if row.get("kind")]
    return [f"{kind} {by_document.count(kind)}" for kind in dict.fromkeys(by_document)]
