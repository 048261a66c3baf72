"""Means over the analysed queries of a document.

Documents are the sampling unit, and quantities that depend on the query are averaged within a
document first (`empirical.measure.queries`). Quantities evaluated at one query's weights, such as
bounds, are compared with the curves of that query in /capture. Imports xarray.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import xarray as xr

from geostat.datasets.separability import WITH_F

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
