"""Kinds of text: variance component between kinds; main quantities by kind."""

from __future__ import annotations

import math
from typing import Final

import xarray as xr

from reports.run import Run, each, with_limits
from reports.tables.table import (
    Cell,
    Column,
    Table,
    labels,
    missing,
    mixed,
    numbers,
    p_value,
    percentages,
    share,
    wholes,
)
from reports.text.number import percent

HEADERS: Final = {
    "C": "$C$, relative",
    "lam": "$\\lambda$",
    "cv_token": "CV",
    "rho0": "$\\rho_0$",
    "beta": "$\\beta$, relative",
    "mae": "MAE",
    "offset": "$c$",
    "p_sink": "$p_{\\mathrm{sink}}$",
    "growth": "growth",
    "misfit": "misfit",
}
"""Headers of the quantities by kind."""


def tables(run: Run) -> list[Table]:
    """Return the tables; none of those that the run lacks."""
    return [*_by_kind(run), *_between(run)]


def _by_kind(run: Run) -> list[Table]:
    """Return the main quantities by kind; none if documents have a single kind."""
    if "kind_estimate" not in run.summary:
        return []
    columns = (
        labels("kind of text", "text_kind"),
        wholes("documents", "kind_documents"),
        *(
            numbers(HEADERS[name], "kind_estimate", kind_quantity=name)
            for name in run.summary["kind_quantity"].values
        ),
    )
    caption = (
        "Main quantities by kind of text: median over heads (KV heads for norms and similarity) of"
        " the mean over the documents of the kind. Quantities that are fitted to all documents"
        " together give each document’s pseudo-value. C and β are divided by the head’s"
        " estimate from all documents. One or two documents of a kind do not show how much"
        " documents of this kind differ."
    )
    rows = each(run.summary, "text_kind")
    return [Table.of("kind_estimates", "Main quantities by kind of text", caption, columns, rows)]


def _between(run: Run) -> list[Table]:
    """Return the shares of the variance; none if documents have one kind, or all their own."""
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
