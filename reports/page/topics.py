"""Topics of a page, in the order of the paper: question, answer, uncertainty, commands that
reproduce it, figures and tables.

Answers are key results of the run, or rows of the scoreboard for topics without a key result.
Imports numpy.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from markupsafe import Markup

from reports.page.cards import ANSWERED, Card, curve_of
from reports.page.svg import Shown
from reports.run import Run
from reports.tables.table import Table
from reports.text.number import count, rounded
from reports.topics.entry import Entry
from reports.topics.kinds import kinds
from reports.topics.listed import ENTRIES, REST
from reports.topics.verdicts import where_in_words

OF_BANDS: Final = ("separability", "geometry")
"""Topics whose number is a maximum over N, with a simultaneous band."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as shown on the page. `card` is its key result, if it has one."""

    entry: Entry
    card: Card | None
    remarks: list[str]
    """Layers in which the claim holds or fails, and further sentences."""
    answers: list[dict[str, str]]
    """Rows of the scoreboard, each with its `symbol`."""
    figures: list[Shown]
    curve: Markup | None
    """Curve of its card, if the topic has no figure."""
    tables: list[Table]
    sure: list[str]
    again: list[str]

    @property
    def key(self) -> str:
        """Name in links."""
        return self.entry.key


def topics(
    run: Run,
    cards: Sequence[Card],
    figures: Sequence[Shown],
    tables: Mapping[str, Table],
    path: str,
) -> list[Topic]:
    """Return the topics with content in a run.

    Args:
        run: the run, or its layers of one T.
        cards: its key results.
        figures: figures of topics.
        tables: tables of topics, by name.
        path: path of the run in commands.
    """
    card_of = {card.key: card for card in cards}
    rows = {row["key"]: row for row in json.loads(str(run.summary.attrs.get("scoreboard") or "[]"))}
    figure_entries = {name: entry for entry in ENTRIES for name in entry.figures}
    table_entries = {name: entry for entry in ENTRIES for name in entry.tables}
    result = []
    for entry in (*ENTRIES, REST):
        drawn = [fig for fig in figures if figure_entries.get(fig.plan.name, REST) is entry]
        listed = [table for name, table in tables.items() if table_entries.get(name, REST) is entry]
        card = card_of.get(entry.key)
        if not (drawn or listed or card):
            continue
        where = where_in_words(run, entry.claim) if entry.claim else ""
        topic = Topic(
            entry=entry,
            card=card,
            remarks=[where] * bool(where) + entry.remarks(run),
            answers=[
                {**rows[key], "symbol": ANSWERED.get(rows[key]["answer"], "?")}
                for key in entry.rows
                if key in rows
            ],
            figures=drawn,
            curve=curve_of(card.key, run, "topic") if card and not drawn else None,
            tables=listed,
            sure=_uncertainty(run, entry, card),
            again=_commands(run, entry, path, drawn, listed),
        )
        result.append(topic)
    return result


def _uncertainty(run: Run, entry: Entry, card: Card | None) -> list[str]:
    """Return sentences on the interval, undetermined heads and kinds of text."""
    sentences = []
    if card is not None and card.limits:
        units = (
            "KV heads, simultaneous over the ranges of N"
            if entry.key == "bounds"
            else run.counted("document")
        )
        kind = "band over all N, for" if entry.key in OF_BANDS else "interval over"
        sentences.append(f"{card.limits} is a 95% {kind} {units}.")
    elif card is not None:
        sentences.append("No interval is available.")
    elif run.documents > 1 and entry is not REST:
        sentences.append(
            f"Brackets are 95% confidence intervals over {run.counted('document')}, unless they say"
            " otherwise."
        )
    if card is not None and card.undetermined:
        sentences.append(card.undetermined)
    return [*sentences, *_over_kinds(run, entry.quantity)]


def _over_kinds(run: Run, quantity: str) -> list[str]:
    """Return a sentence: the ratio of errors if kinds of text vary at random; empty if unknown."""
    data = run.summary
    if "between_error_sample" not in data or quantity not in data["quantity"].values:
        return []
    selected = data.sel(quantity=quantity)
    ratio = float(selected["between_error_sample"])
    if not np.isfinite(ratio):
        return []
    return [
        f"If kinds of text vary at random (here {count(len(kinds(run)), 'kind')}), the standard"
        f" error of the {selected['between_words'].item()} is {rounded(ratio, digits=2).plain}"
        " times as large."
    ]


def _commands(
    run: Run, entry: Entry, path: str, figures: Sequence[Shown], tables: Sequence[Table]
) -> list[str]:
    """Return the commands that write the figures and tables of a topic, and fit the drawn head."""
    names = {
        "figures": [figure.plan.name for figure in figures],
        "tables": [table.name for table in tables],
    }
    commands = [
        f"geostat {what} {shlex.quote(path)} --only {','.join(only)}"
        for what, only in names.items()
        if only
    ]
    head = drawn_head(run, entry.key) if entry.fit else None
    if head is not None:
        quoted = json.dumps(path, ensure_ascii=False)
        commands.append(
            f"gs.fit_head(gs.open({quoted}), {head[0]}, {head[1]}, {entry.fit}).fit_report()"
        )
    return commands


def drawn_head(run: Run, key: str) -> tuple[int, int] | None:
    """Return the labels of layer and head drawn for an assumption; None if none was fitted."""
    if (index := run.display.attrs[f"{key}_head"]) is None:
        return None
    layer, head = index
    if key != "weights":  # the first head of the KV head
        kv_head = run.capture["kv_head"].values[head]
        head = int(np.flatnonzero(run.capture["kv_head_of_head"].values == kv_head)[0])
    return int(run.capture["layer"].values[layer]), int(run.capture["head"].values[head])
