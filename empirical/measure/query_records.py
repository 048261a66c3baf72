"""What /queries holds: names, dimensions, units and symbols of what is averaged over the queries
of a document, and of the curves of each. Source: the definitions (2), (3) and Assumption 3 of
arXiv 2602.01893.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from empirical.schema import F_SCORES, SEPARABILITY, variable

_curve = partial(variable, "layer head n")
_WITHIN = "mean over the queries of a document"
BY_QUERY: Final = ("precision", "recall")
"""The curves that are kept of every query: F-scores follow from them."""

QUERIES: Final = {
    "query_position": variable(
        "query", "position of the analysed query", "1", "", "", dtype="int32"
    ),
    "counted": variable(
        "layer n", "queries that see at least N tokens", "1", "", "", dtype="int32"
    ),
    **{
        name: replace(one, long_name=f"{one.long_name}, {_WITHIN}")
        for name, one in (SEPARABILITY | F_SCORES).items()
        if name in ("precision", "recall", "f_outer", "f_inner")
    },
    "precision_sd": _curve(
        "standard deviation of Precision over the queries of a document",
        "1",
        r"\mathrm{sd}\,P",
        "(2)",
    ),
    "recall_sd": _curve(
        "standard deviation of Recall over the queries of a document",
        "1",
        r"\mathrm{sd}\,R",
        "(3)",
    ),
    **{
        f"{name}_by_query": replace(
            SEPARABILITY[name],
            dims=("layer", "head", "query", "n"),
            long_name=f"{SEPARABILITY[name].long_name}, of each query",
        )
        for name in BY_QUERY
    },
    "attention_weight": variable(
        "layer head position",
        f"attention weight, {_WITHIN}, aligned at both ends",
        "1",
        r"\overline{\alpha_i}",
        "§2",
        invisible=0.0,
    ),
    "log_attention_weight": variable(
        "layer head position",
        f"logarithm of the attention weight, {_WITHIN}, aligned at both ends",
        "nats",
        r"\overline{\log\alpha_i}",
        "Assumption 3",
    ),
    "weight_queries": variable(
        "layer", "queries whose weights are averaged", "1", "", "", dtype="int32"
    ),
    "sink_weight_sd": variable(
        "layer head",
        "standard deviation of the sink's weight over the queries of a document",
        "1",
        r"\mathrm{sd}\,\alpha_0",
        "Assumption 3",
    ),
}
"""Every variable of /queries, for runs that analyse more than one query of a document."""
