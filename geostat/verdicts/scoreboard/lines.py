"""Key results as lines for a terminal, and claims as rows with their counts. Imports xarray,
and reports for numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from reports.text.key_result import number_in_words, states


def counted_claims(verdicts: xr.Dataset) -> list[dict[str, Any]]:
    """Return every claim of /verdicts: what it says, how many heads hold, fail, are undetermined or
    have no estimate, and the estimated share of heads of which it is true, with its 95% interval.

    Counts are sums over parts, where layers see different numbers of tokens; shares are not known
    then.
    """
    rows = []
    names = ("holds", "fails", "undetermined", "no_estimate")
    for claim in json.loads(verdicts.attrs["claims"]):
        at = verdicts.sel(claim=claim["key"])
        row = {name: claim[name] for name in ("key", "says", "of", "side", "tolerance", "units")}
        row |= {name: int(at[name].sum()) for name in names}
        for name in ("true_share", "true_share_lower", "true_share_upper"):
            row[name] = float(at[name]) if not at[name].ndim and np.isfinite(at[name]) else None
        rows.append(row)
    return rows


def as_line(result: Mapping[str, Any]) -> str:
    """A key result as one line for the terminal.

    >>> number = {"of": "CV", "value": 0.2168, "lower": 0.209, "upper": 0.225}
    >>> number |= {"expected": None, "tolerated": None}
    >>> counts = {"of": "heads", "holds": 0, "fails": 9, "undetermined": 1, "no_estimate": 0}
    >>> result = {"key": "norms", "answer": "fails", "verdict": "They vary.", "tokens": None}
    >>> as_line(result | {"number": number, "counts": counts})
    'norms         fails         They vary. CV: 0.217 (0.209 to 0.225); of 10 heads 0 hold, 9 fail'
    """
    counts = result["counts"]
    of = sum(counts[name] for name in ("holds", "fails", "undetermined", "no_estimate"))
    where = f"T = {result['tokens']:,}: " if result["tokens"] else ""
    line = f"{result['key']:13} {result['answer']:12}  {where}{result['verdict']}"
    line += f" {number_in_words(result['number'])}"
    if of:
        called = states(counts["of"])
        line += f"; of {of:,} {counts['of']}" + ",".join(
            f" {counts[name]:,} {called[name]}" for name in ("holds", "fails")
        )
    return line
