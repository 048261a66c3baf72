"""report.json: numbers of a page for programs, described by `report.schema.json` in this folder.

Equal runs give equal files, byte for byte: wall times are excluded. Curves and values of single
heads are variables of the run and are not repeated. Imports numpy and xarray.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr

from reports.figures.plan import Quoted
from reports.page import header
from reports.page.cards import Card
from reports.page.svg import Shown
from reports.page.topics import Topic
from reports.run import Run, claims_of, codes_of, column, key_results, listed
from reports.tables.table import Table
from reports.text.printable import printable_data

FORMAT: Final = "geostat-report-1"
"""Name and version of the format; incompatible changes increase the version."""
SCHEMA: Final = Path(__file__).with_name("report.schema.json")
SHARES: Final = ("true_share", "true_share_lower", "true_share_upper")
ANSWERS: Final = {
    "holds": "holds",
    "holds_trivially": "holds trivially",
    "fails": "fails",
    "undetermined": "undetermined",
    "no_estimate": "no estimate",
}
"""Names of counts, and the counted answers."""


def of_page(
    run: Run, parts: Sequence[Mapping[str, Any]], errata: Table | None, commands: Sequence[str]
) -> dict[str, Any]:
    """Return the content of report.json: facts on all parts from the first part's `run`, and the
    parts from `of_part`.
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
    """Return the numbers of a run, or of one of its parts."""
    return {
        "folder": folder,
        "tokens": run.tokens,
        "layers": run.capture["layer"].values.tolist(),
        "heads": run.heads,
        "kv_heads": run.kv_heads,
        "key_results": key_results(run.summary.attrs),
        "short_sentences": {card.key: card.sentence for card in cards},
        "sentences": listed(run.summary.attrs, "sentences"),
        "topics": [of_topic(topic) for topic in topics],
        "claims": claims(run),
        "figures": [of_figure(figure) for figure in figures],
        "tables": [table.record() for table in tables.values()],
    }


def claims(run: Run) -> list[dict[str, Any]]:
    """Return every claim with counts of heads, overall and by layer, and the estimated share of
    heads for which it is true; empty without verdicts.
    """
    data = run.verdicts
    if data is None:
        return []
    codes = codes_of(data)
    rows = []
    for claim in claims_of(data):
        answers, selected = column(data, claim), data.sel(claim=claim["key"])
        by_layer = {
            name: (answers == codes.get(word)).sum(axis=1).tolist()
            for name, word in ANSWERS.items()
        }
        about = ("key", "says", "short", "of", "side", "tolerance", "units", "source")
        rows.append(
            {name: claim.get(name) for name in about}
            | {name: sum(counts) for name, counts in by_layer.items()}
            | {name: _known(selected[name]) if name in selected else None for name in SHARES}
            | {"by_layer": by_layer}
        )
    return rows


def of_topic(topic: Topic) -> dict[str, Any]:
    """Return the text of a topic, and the names of its figures and tables."""
    return {
        "key": topic.key,
        "question": topic.entry.question,
        "said": topic.remarks,
        "answers": topic.answers,
        "sure": topic.sure,
        "again": topic.again,
        "figures": [figure.plan.name for figure in topic.figures],
        "tables": [table.name for table in topic.tables],
    }


def of_figure(shown: Shown) -> dict[str, Any]:
    """Return a figure's caption, and the unrounded numbers of its finding."""
    plan, caption = shown.plan, shown.caption
    return {
        "name": plan.name,
        "number": shown.number,
        "title": plan.title,
        "paper": plan.paper,
        "caption": caption.text,
        "finding": caption.finding,
        "numbers": [_quoted(number) for number in caption.numbers],
    }


def as_text(record: Mapping[str, Any]) -> str:
    """Return a record as JSON; equal records give equal text, and missing numbers are null."""
    plain = printable_data(record)
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def _pairs(pairs: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in pairs]


def _quoted(number: Quoted) -> dict[str, Any]:
    value = number.value if math.isfinite(number.value) else None
    return {"name": number.name, "value": value, "text": number.text}


def _known(value: xr.DataArray) -> float | None:
    return float(value) if value.ndim == 0 and np.isfinite(value) else None
