"""Hostile run: every displayed text is replaced by one that becomes code, or moves its
surroundings, unless it is escaped. The digests match these texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from empirical.store.store import Store
from geostat.runs.files import STAGES

CANARY = "canary"
"""File that TeX would typeset, and the name that a script would leave in the page."""
TEXTS = (
    rf"\input{{{CANARY}}}",
    rf"\include{{{CANARY}}}\verbatiminput{{{CANARY}}}",
    rf"\newread\x\open{'in'}\x={CANARY} \read\x to\y \y",
    rf"\immediate\write18{{touch {CANARY}}}",
    rf"\catcode`\%=12 ^^5cinput{{{CANARY}}}",
    rf"$\input{{{CANARY}}}$",
    rf"x}}}}\input{{{CANARY}}}{{{{",
    rf"\csname input\endcsname {CANARY} ",
    r"$\frac$ and $\nosuchcommand{x}$ and $x_{1_2}$",
    "100% & # ~ _ ^ { $ a\\",
    f"</script><script>window.{CANARY}=1</script>",
    f"<!--<script>window.{CANARY}=1",
    f'"><img src=x onerror="window.{CANARY}=1">',
    f"' onmouseover='window.{CANARY}=1",
    f"javascript:window.{CANARY}=1",
    f"[x](javascript:window.{CANARY}=1) ![x](https://example.invalid/x.png)",
    "{{ 7 * 7 }}{% raw %}",
    "=cmd|' /C calc'!A0",
    "@SUM(1+1)",
    "+1+1",
    "-1+1",
    "\t=1+1",
    "\r=1+1",
    "=1+1",
    "first\nsecond\r\n\n=1+1",
    "\x1b[31mred\x07\x9b1m",
    "abc\u202edef\u2066ghi\u200f",
    "a\u2028b\u2029c\x85d\x0ce\x00f",
    "half \ud83d of a character",
    "中文 \U0001f600 \u0301",
    "`rm` **bold** | a | b |",
)
SHOWN = frozenset(
    (
        *("about", "averaging", "between_words", "claim", "composition", "convention"),
        *("correction",),
        *("criteria", "device", "dtype", "effect", "equation", "estimate", "family", "here", "id"),
        *("interval", "kind", "latex", "long_name", "measure", "measures", "name", "note", "over"),
        *("paper", "population", "printed", "queries", "raised", "reading", "revision", "row"),
        *("rule", "says", "second_test", "sentences", "short", "sizes", "source", "symbol"),
        *("text", "title", "token_text", "trend", "true", "unit", "units", "verdict", "where"),
        *("why", "geostat_version", "git_commit"),
    )
)
"""Names of attributes and variables whose texts are shown, and are no names of anything else."""
NAMES_OF_RESULTS = ("verdict", "of")
"""Those of a key result; its claim and answer are names of other things."""


def texts(first: int = 0) -> Iterator[str]:
    """Yield hostile texts endlessly, from any start."""
    return (TEXTS[place % len(TEXTS)] for place in count(first))


def hostile(value: Any, given: Iterator[str], name: str = "", *, result: bool = False) -> Any:
    """Return the same data with other texts, including JSON within texts."""
    if isinstance(value, dict):
        result = result or {"key", "counts"} <= value.keys()
        return {key: hostile(one, given, key, result=result) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [hostile(one, given, name, result=result) for one in value]
    if not isinstance(value, str):
        return value
    if value[:2] in ('{"', "[{"):
        return json.dumps(hostile(json.loads(value), given, name))
    shown = name in NAMES_OF_RESULTS if result else name in SHOWN
    return next(given) if shown else value


def hostile_dataset(data: xr.Dataset, given: Iterator[str]) -> xr.Dataset:
    data = data.copy()
    data.attrs = hostile(dict(data.attrs), given)
    for name, variable in data.variables.items():
        variable.attrs = hostile(dict(variable.attrs), given)
        if variable.dtype.kind in "OUT" and (
            name == "document" or (name in SHOWN and name not in data.dims)
        ):
            # an array of a store holds no half characters
            words = [next(given).encode("utf-8", "replace").decode() for _ in range(variable.size)]
            array = np.array(words, dtype=object).reshape(variable.shape)
            replaced = {name: xr.Variable(variable.dims, array, variable.attrs)}
            coordinate = name in data.coords
            data = data.assign_coords(replaced) if coordinate else data.assign(replaced)
    return data


def hostile_tree(tree: xr.DataTree, first: int = 0) -> xr.DataTree:
    given = texts(first)
    groups = {f"/{name}": node.to_dataset() for name, node in tree.children.items()}
    named = groups.pop("/capture")
    made = {
        name: hostile_dataset(data.drop_vars("document", errors="ignore"), given)
        for name, data in groups.items()
    }
    made["/capture"] = hostile_dataset(named, given)
    for name, data in made.items():
        if "document" in data.dims and name != "/capture":
            made[name] = data.assign_coords(document=made["/capture"]["document"].values)
    whole = xr.DataTree.from_dict(made)
    whole.attrs = hostile(dict(tree.attrs), given)
    return whole


def make_hostile(path: Path, tree: xr.DataTree) -> dict[str, xr.Dataset]:
    """Put other texts into the attributes of a store, and other commands into its record; return
    the results of the run, which is in `tree`, with other texts.
    """
    given, store = texts(), Store.open(path)
    results = {name: hostile_dataset(tree[name].to_dataset(), given) for name in store.results}
    with store.alone():
        kept = {"manifest": store.attributes["manifest"]}
        store.note(**(hostile(dict(store.attributes), given) | kept))
        for row in store.attributes["manifest"]["documents"]:
            row["kind"] = next(given)
        store._save()
    record = path.with_suffix(".json")
    known = json.loads(record.read_text(encoding="utf-8"))
    commands = ("run a\nrm -r ~", "$(rm -r ~)", "run a; rm -r ~", "run 'a\u202eb'", "run 'a")
    lines = (*(f"geostat {words}" for words in commands), *TEXTS)
    known["commands"] = dict(zip(STAGES, lines, strict=False))
    record.write_text(json.dumps(known), encoding="utf-8")
    return results
