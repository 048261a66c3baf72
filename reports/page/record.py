"""report.json: the numbers of a page as data, for programs. `report.schema.json` beside this file
describes it.

Equal runs give equal files, byte for byte: wall times are left out. Curves that are drawn, and what
the explorer shows of single heads, are variables of the run and stay there. Imports numpy and
xarray.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr

from reports.figures.captions.caption import Quoted
from reports.page import header
from reports.page.cards import Card
from reports.page.svg import Shown
from reports.page.topics import Topic
from reports.run import Run, column, key_results, listed, words_of
from reports.tables.table import Table
from reports.text.printable import printable_data

FORMAT: Final = "geostat-report-1"
"""Name and version of the format; the number grows when a reader of the last one would stumble."""
SCHEMA: Final = Path(__file__).with_name("report.schema.json")
SHARES: Final = ("true_share", "true_share_lower", "true_share_upper")
ANSWERS: Final = {
    "holds": "holds",
    "fails": "fails",
    "undetermined": "undetermined",
    "no_estimate": "no estimate",
}
"""Names of counts, and the words of the answers that are counted."""


def of_page(
    run: Run, parts: Sequence[Mapping[str, Any]], errata: Table | None, commands: Sequence[str]
) -> dict[str, Any]:
    """Return what report.json holds: of the first part's `run` what is said of all, and every part
    as `of_part` gives it.
    """
    return {
        "format": FORMAT,
        "model": header.model_name(run),
        "documents": run.documents,
        "positions": run.positions,
        "queries": run.queries,
        "commands": list(commands),
        "facts": _pairs(header.header(run, None)),
        "warnings": header.warnings(run),
        "parts": list(parts),
        "errata": errata.record() if errata else None,
        "parity": header.parity_numbers(run.attrs),
        "provenance": _pairs(header.entries(run.attrs)),
    }


def of_part(
    run: Run,
    folder: str,
    cards: Sequence[Card],
    topics: Sequence[Topic],
    figures: Sequence[Shown],
    tables: Mapping[str, Table],
) -> dict[str, Any]:
    """Return the numbers of a run, or of the layers of one that see equally many tokens."""
    return {
        "folder": folder,
        "tokens": run.tokens,
        "layers": run.capture["layer"].values.tolist(),
        "heads": run.heads,
        "value_heads": run.kv_heads,
        "key_results": key_results(run.summary.attrs),
        "short_sentences": {card.key: card.sentence for card in cards},
        "sentences": listed(run.summary.attrs, "sentences"),
        "topics": [of_topic(topic) for topic in topics],
        "claims": claims(run),
        "figures": [of_figure(one) for one in figures],
        "tables": [table.record() for table in tables.values()],
    }


def claims(run: Run) -> list[dict[str, Any]]:
    """Return every claim with its counts of heads, in all and by layer, and the estimated share of
    heads of which it is true; none of a run without verdicts.
    """
    data = run.verdicts
    if data is None:
        return []
    codes = {word: code for code, word in words_of(data).items()}
    rows = []
    for claim in json.loads(str(data.attrs["claims"])):
        answers, at = column(data, claim), data.sel(claim=claim["key"])
        by_layer = {
            name: (answers == codes[word]).sum(axis=1).tolist() for name, word in ANSWERS.items()
        }
        about = ("key", "says", "short", "of", "side", "tolerance", "units", "source")
        rows.append(
            {name: claim.get(name) for name in about}
            | {name: sum(counts) for name, counts in by_layer.items()}
            | {name: _known(at[name]) if name in at else None for name in SHARES}
            | {"by_layer": by_layer}
        )
    return rows


def of_topic(topic: Topic) -> dict[str, Any]:
    """Return what a topic says, and the names of its figures and tables."""
    return {
        "key": topic.key,
        "question": topic.plan.question,
        "said": topic.said,
        "answers": topic.answers,
        "sure": topic.sure,
        "again": topic.again,
        "figures": [one.plan.name for one in topic.figures],
        "tables": [table.name for table in topic.tables],
    }


def of_figure(shown: Shown) -> dict[str, Any]:
    """Return a figure's caption, and each number of its finding in full."""
    plan, caption = shown.plan, shown.caption
    return {
        "name": plan.name,
        "number": shown.number,
        "title": plan.title,
        "paper": plan.paper,
        "caption": caption.text,
        "finding": caption.finding,
        "numbers": [_quoted(one) for one in caption.numbers],
    }


def as_text(record: Mapping[str, Any]) -> str:
    """Write a record as JSON; equal ones give equal text, and no number is missing as NaN."""
    plain = printable_data(record)
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def _pairs(pairs: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in pairs]


def _quoted(one: Quoted) -> dict[str, Any]:
    value = one.value if math.isfinite(one.value) else None
    return {"name": one.name, "value": value, "text": one.text}


def _known(value: xr.DataArray) -> float | None:
    return float(value) if value.ndim == 0 and np.isfinite(value) else None
