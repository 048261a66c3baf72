"""Answers of a confronted run: its key results, claims, scoreboard and sentences."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import xarray as xr

from empirical.store.store import Store
from geostat.datasets.parts import of_parts
from geostat.runs.groups import group_of
from geostat.verdicts.scoreboard.lines import as_line, counted_claims


def answers(store: Store, *, everything: bool = False) -> dict[str, Any]:
    """Return the key results as lines for a terminal; as records, with every claim, the scoreboard
    of each part and the five sentences, if `everything`.
    """
    summary = store.read("summary")
    results = [json.loads(line) for line in summary.attrs["key_results"]]
    if not everything:
        return {"verdict": [as_line(one) for one in results]}
    return {
        "key_results": results,
        "claims": counted_claims(store.read("verdicts")),
        "scoreboard": [json.loads(text) for text in of_parts(summary, "scoreboard")],
        "sentences": list(summary.attrs["sentences"]),
    }


def claims(env: xr.DataTree) -> pd.DataFrame:
    """Every claim of a confronted run as a row: what it says (`says`), of what (`of`: kv_head or
    head), its tolerance, how many heads hold, fail, are undetermined or have no estimate, and the
    estimated share of heads of which it is true with its 95% interval.

    >>> import geostat as gs
    >>> int(claims(gs.open("report")).loc["norms.cv", "fails"])
    8
    """
    rows = counted_claims(group_of(env, "verdicts"))
    return (
        pd.DataFrame(rows)
        .set_index("key")
        .astype({name: float for name in ("true_share", "true_share_lower", "true_share_upper")})
    )
