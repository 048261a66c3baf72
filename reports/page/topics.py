"""Topics of a page, in the order of the paper: each a question with its answer, how sure it is,
what shows it again, its figures and its tables.

Answers are key results of the run, or of a topic that has none a row of the scoreboard; nothing is
measured here. Imports numpy.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from markupsafe import Markup

from reports.page.bounds import every_cost, with_offset
from reports.page.cards import ANSWERED, Card, curve_of
from reports.page.plans import PLANS, REST, Plan
from reports.page.svg import Shown
from reports.page.where import where_in_words
from reports.run import Run
from reports.statistics import most_typical
from reports.tables import bounds
from reports.tables.kinds import kinds
from reports.tables.table import Table
from reports.text.number import count, rounded

OF_BANDS: Final = ("separability", "directions")
"""Topics whose number is the largest over N, with a band that holds for all N at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as the page shows it. `card` is its key result, if it has one."""

    plan: Plan
    card: Card | None
    said: list[str]
    """In which layers; of bounds, how often with an offset, and which assumption costs most."""
    answers: list[dict[str, str]]
    """Rows of the scoreboard, each with its `symbol`."""
    figures: list[Shown]
    curve: Markup | None
    """That of its card, where it has no figure."""
    tables: list[Table]
    sure: list[str]
    again: list[str]

    @property
    def key(self) -> str:
        """Its name in links."""
        return self.plan.key


def topics(
    run: Run,
    cards: Sequence[Card],
    figures: Sequence[Shown],
    tables: Mapping[str, Table],
    path: str,
) -> list[Topic]:
    """The topics that a run has anything to say of.

    Args:
        run: the run, or its layers of one T.
        cards: its key results.
        figures: those that stand in a topic.
        tables: those that stand in a topic, by name.
        path: the run as a command is given it.
    """
    of_key = {card.key: card for card in cards}
    rows = {row["key"]: row for row in json.loads(str(run.summary.attrs.get("scoreboard") or "[]"))}
    named = {name for plan in PLANS for name in (*plan.figures, *plan.tables)}
    made = []
    for plan in (*PLANS, REST):
        mine = [
            one
            for one in figures
            if one.plan.name in plan.figures or (plan is REST and one.plan.name not in named)
        ]
        own = [
            table
            for name, table in tables.items()
            if name in plan.tables or (plan is REST and name not in named)
        ]
        answers = [
            {**rows[key], "symbol": ANSWERED.get(rows[key]["answer"], "?")}
            for key in plan.rows
            if key in rows
        ]
        card = of_key.get(plan.key)
        if mine or own or card:
            made.append(
                Topic(
                    plan=plan,
                    card=card,
                    said=_said(run, plan),
                    answers=answers,
                    figures=mine,
                    curve=None if mine or card is None else curve_of(card.key, run, "topic"),
                    tables=own,
                    sure=_how_sure(run, plan, card),
                    again=_commands(run, plan, path, mine, own),
                )
            )
    return made


def _said(run: Run, plan: Plan) -> list[str]:
    """In which layers the claim holds or fails; of bounds, how often they hold with an offset, what
    each assumption costs them, and which costs most.
    """
    where = where_in_words(run, plan.claim) if plan.claim else ""
    costs = bounds.costs(run) if plan.key == "bounds" else []
    if any(bounds.FITTED["weights"] in one for one in costs):
        costs.append(
            "Fitted weights are one profile for all documents: what a document has of its own"
            " counts as their cost, whether or not the four phases are true."
        )
    first = with_offset(run) + every_cost(run) if plan.key == "bounds" else []
    return [where] * bool(where) + first + costs


def _how_sure(run: Run, plan: Plan, card: Card | None) -> list[str]:
    """The interval and what it is over, heads, and kinds of text."""
    said = []
    if card is not None and card.limits:
        over = "value heads" if plan.key == "bounds" else run.counted("document")
        kind = "band over all N, for" if plan.key in OF_BANDS else "interval over"
        said.append(f"{card.limits} is a 95% {kind} {over}.")
    elif card is not None:
        said.append("No interval is known.")
    elif run.documents > 1 and plan is not REST:
        said.append(f"Intervals in brackets are of 95%, over {run.counted('document')}.")
    if card is not None and (between := card.neither):
        said.append(f"{between} settled neither way.")
    return [*said, *_over_kinds(run, plan.quantity)]


def _over_kinds(run: Run, quantity: str) -> list[str]:
    """How much larger an error is over further kinds of text; nothing where the run cannot tell."""
    data = run.summary
    if "between_error_sample" not in data or quantity not in data["quantity"].values:
        return []
    at = data.sel(quantity=quantity)
    more = float(at["between_error_sample"])
    if not np.isfinite(more):
        return []
    return [
        f"Were the {count(len(kinds(run)), 'kind')} of text a sample of kinds, the error of the"
        f" {at['between_words'].item()} would be {rounded(more, digits=2).plain} times as large."
    ]


def _commands(
    run: Run, plan: Plan, path: str, figures: Iterable[Shown], tables: Iterable[Table]
) -> list[str]:
    """What writes the figures and tables of a topic again, and fits the head that is drawn."""
    said = []
    for what, names in (
        ("figures", [one.plan.name for one in figures]),
        ("tables", [table.name for table in tables]),
    ):
        if names:
            said.append(f"geostat {what} {shlex.quote(path)} --only {','.join(names)}")
    head = drawn_head(run, plan.key) if plan.fit else None
    if head is not None:
        layer, number = head
        said.append(
            f"gs.fit_head(gs.open({json.dumps(path, ensure_ascii=False)}), {layer}, {number},"
            f" {plan.fit}).fit_report()"
        )
    return said


def drawn_head(run: Run, key: str) -> tuple[int, int] | None:
    """Labels of layer and head of the head that stands for all in the picture of an assumption;
    None where none was fitted.
    """
    if key == "norms":
        found = most_typical(run.norms["cv_token"].transpose("layer", "kv_head"))
    else:
        found = run.display.attrs[f"{key}_head"]
    if found is None:
        return None
    layer, place = found
    if key != "weights":  # heads that share the value head
        value_head = run.capture["kv_head"].values[place]
        place = int(np.flatnonzero(run.capture["kv_head_of_head"].values == value_head)[0])
    return int(run.capture["layer"].values[layer]), int(run.capture["head"].values[place])
