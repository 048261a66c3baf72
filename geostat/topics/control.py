"""Untrained control: what the same architecture shows with its initial weights.

/control holds its key results and scoreboard, by the rules of the run's own. A claim that it
satisfies as well is not called a finding. Imports xarray.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import xarray as xr

GROUP: Final = "control"
SATISFIED: Final = ("holds", "confirmed")
"""Answers that are a finding, unless the untrained model gives them too."""


def untrained_results(tree: xr.DataTree) -> dict[tuple[str, int | None], dict[str, Any]]:
    """Return the key results of the untrained model by key and T, and by key and None; empty
    without a control.
    """
    control = [json.loads(line) for line in _attributes(tree).get("key_results", ())]
    kept = [
        {name: result[name] for name in ("key", "tokens", "answer", "number", "also", "counts")}
        for result in reversed(control)
    ]
    by_key = {(result["key"], None): result for result in kept}
    return by_key | {(result["key"], result["tokens"]): result for result in kept}


def with_untrained(rows: Sequence[dict[str, str]], tree: xr.DataTree) -> list[dict[str, str]]:
    """Return the rows of a scoreboard, each with what the `untrained` model shows; "" without a
    control.
    """
    control = {row["key"]: row for row in json.loads(_attributes(tree).get("scoreboard", "[]"))}
    return [row | {"untrained": _in_words(row, control.get(row["key"]))} for row in rows]


def _attributes(tree: xr.DataTree) -> Mapping[Any, Any]:
    return tree[GROUP].attrs if GROUP in tree.children else {}


def _in_words(row: Mapping[str, str], other: Mapping[str, str] | None) -> str:
    if other is None:
        return ""
    same = row["answer"] in SATISFIED and other["answer"] in SATISFIED
    return f"{other['answer']}: {other['here']}" + "; it needs no training" * same
