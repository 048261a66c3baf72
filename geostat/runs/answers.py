"""Answers of a confronted run: its key results, claims, scoreboard and sentences; numbers of one
head.
"""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import xarray as xr

from empirical.store.store import Store
from geostat.datasets.parts import of_parts
from geostat.display.one_head import head_numbers
from geostat.errors import shown_whole
from geostat.runs.groups import group_of
from geostat.verdicts.scoreboard.lines import as_line, counted_claims


def answers(store: Store, *, everything: bool = False) -> dict[str, Any]:
    """Return the key results as lines for a terminal; as records, with every claim, the scoreboard
    of each part and the five sentences, if `everything`.
    """
    summary = store.read("summary")
    with shown_whole(store.path):
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
    verdicts = group_of(env, "verdicts")
    shares = dict.fromkeys(("true_share", "true_share_lower", "true_share_upper"), float)
    with shown_whole("the run"):
        return pd.DataFrame(counted_claims(verdicts)).set_index("key").astype(shares)


def head(run: xr.DataTree, name: str) -> xr.Dataset:
    """The numbers of one head of a run: fitted parameters with errors, Precision and Recall by N,
    its regime and the verdicts on it; what the run lacks is left out.

    Args:
        run: a run that is captured, fitted or confronted.
        name: of the head, such as L5H3.

    Returns:
        value, se, lower and upper (95%) by `parameter`, such as norms.C or similarity.beta.offset;
        precision and recall, means over documents and the analysed queries, with their 95% limits
        by `n`; answer, estimate, claim_lower, claim_upper and tolerance by `claim`; regime by
        `criterion`.

    Raises:
        InputError: for a name that is none of the run's.

    >>> import geostat as gs
    >>> one = head(gs.open("report"), "L1H3")
    >>> one["regime"].sel(criterion="both").item()
    'unclassified'
    >>> one[["value", "se"]].sel(parameter="similarity.beta.offset").to_array().size
    2
    """
    group_of(run, "capture")
    with shown_whole("the run"):
        return head_numbers({key: node.to_dataset() for key, node in run.children.items()}, name)
