"""Means over the analysed queries of a document, in place of what the last query alone shows.

Documents are the sampling unit: what depends on the query is averaged within a document first
(`empirical.measure.queries`). What is evaluated at one query's own weights, such as bounds, is laid
over that query's curves, those of /capture as it is. Imports xarray.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import xarray as xr

from geostat.datasets.separability import WITH_F

AVERAGED: Final = (*WITH_F, "attention_weight", "log_attention_weight")
"""What a document's queries are averaged of."""
MEASURED: Final = ("capture", "queries")
"""The groups that `over_queries` reads."""


def over_queries(groups: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Return /capture with the means over each document's queries where /queries holds them; as
    it is where one query was analysed.
    """
    capture = groups["capture"]
    if "queries" not in groups:
        return capture
    means = groups["queries"][list(AVERAGED)].reset_coords(drop=True)
    return capture.assign({name: means[name].variable for name in AVERAGED})


def queries_in_words(queries: xr.Dataset | None, positions: int) -> str:
    """Say which queries of a document were analysed.

    >>> queries_in_words(None, 1024)
    'the last query'
    """
    if queries is None:
        return "the last query"
    at = queries["query_position"].values
    number, first = at.shape[-1], int(at.min())
    if first == positions - number:
        return f"the last {number} queries"
    if first < positions // 2:
        step = int(at.flat[1] - at.flat[0])
        return f"{number} queries, one every {step} positions up to the last"
    return f"{number} queries spread over the second half"
