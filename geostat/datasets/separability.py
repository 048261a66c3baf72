"""Separability statistics and their bounds: names, symbols, equations; means over analysed queries.

Documents are the sampling unit, and quantities that depend on the query are averaged within a
document first (`empirical.measure.queries`). Quantities evaluated at one query's weights, such as
bounds, are compared with the curves of that query in /capture. Source: arXiv 2602.01893,
Definitions 1-2, eq. (12)-(17). Imports xarray.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import xarray as xr

from geostat.paper import WORKING_SIZE

STATISTICS: Final = ("precision", "recall")
WITH_F: Final = (*STATISTICS, "f_outer", "f_inner")
"""Precision and Recall, and F = 2PR/(P+R) at the outer and the inner radius."""
SIDES: Final = ("lower", "upper")
DENSE: Final = 64
"""Largest N up to which the default grid is dense (`empirical.measure.selection`)."""
RANGES: Final[dict[str, tuple[float, float]]] = {
    f"N ≤ {WORKING_SIZE}": (2, WORKING_SIZE),
    f"{WORKING_SIZE + 1} ≤ N ≤ {DENSE}": (WORKING_SIZE + 1, DENSE),
    f"N > {DENSE}": (DENSE + 1, float("inf")),
}
"""Ranges of N, first and last size, that are reported apart: coverage and costs of bounds depend on
N. The first holds the paper's working sizes, where N = 1 is trivial; the second the other sizes
that the default grid measures one by one; the third the rest. Every size above 1 is in one of them.
"""
BOUNDS: Final = tuple(f"{statistic}_{side}" for statistic in STATISTICS for side in SIDES)
ALL_BOUNDS: Final = tuple(f"{statistic}_{side}" for statistic in WITH_F for side in SIDES)
LETTERS: Final = {
    "precision": "P",
    "recall": "R",
    "f_outer": r"F(r_{\max})",
    "f_inner": r"F(r_{\min})",
}
"""LaTeX symbols."""
LABELS: Final = {
    "precision": "precision",
    "recall": "recall",
    "f_outer": "F at the outer radius",
    "f_inner": "F at the inner radius",
}
"""Words for a statistic in long names."""
_EQUATIONS: Final = {
    "precision": "(12)-(13)",
    "recall": "(14)-(15)",
    "f_outer": "(17)",
    "f_inner": "(16)",
}


def statistic_of(bound: str) -> str:
    """Return the statistic of a bound such as `f_outer_lower`.

    >>> statistic_of("f_outer_lower")
    'f_outer'
    """
    return bound.rpartition("_")[0]


def statistic_attributes(statistic: str) -> dict[str, Any]:
    """Return the attributes that a measured statistic shares with its bounds.

    The equation is that of the bounds.
    """
    return {"units": "1", "symbol": LETTERS[statistic], "equation": _EQUATIONS[statistic]}


def bound_attributes(bound: str) -> dict[str, Any]:
    """Return the attributes of a bound variable such as `precision_lower`.

    >>> bound_attributes("recall_lower")["long_name"]
    'lower bound on expected recall'
    """
    statistic, _, side = bound.rpartition("_")
    words = {"long_name": f"{side} bound on expected {LABELS[statistic]}"}
    return (
        words | statistic_attributes(statistic) | {"symbol": rf"\mathbb{{E}}{LETTERS[statistic]}"}
    )


AVERAGED: Final = (*WITH_F, "attention_weight", "log_attention_weight")
"""Variables averaged over the queries of a document."""
MEASURED: Final = ("capture", "queries")
"""Groups that `over_queries` reads."""


def over_queries(groups: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Return /capture with means over each document's queries, if /queries holds them.

    A run with one analysed query returns /capture unchanged.
    """
    capture = groups["capture"]
    if "queries" not in groups:
        return capture
    means = groups["queries"][list(AVERAGED)].reset_coords(drop=True)
    return capture.assign({name: means[name].variable for name in AVERAGED})


def queries_in_words(queries: xr.Dataset | None, positions: int) -> str:
    """Describe the analysed queries of a document in words.

    >>> queries_in_words(None, 1024)
    'the last query'
    """
    if queries is None:
        return "the last query"
    position = queries["query_position"].values
    number, first = position.shape[-1], int(position.min())
    if first == positions - number:
        return f"the last {number} queries"
    if first < positions // 2:
        step = int(position.flat[1] - position.flat[0])
        return f"{number} queries, one every {step} positions up to the last"
    return f"{number} queries spread over the second half"
