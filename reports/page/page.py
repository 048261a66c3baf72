"""One self-contained report.html: it opens offline, prints well, and fetches nothing. Beside it its
numbers, and the same figures and tables, as files.

Imports jinja2 with autoescape on: model names, text names and provenance are foreign.
"""

from __future__ import annotations

import json
import re
import shlex
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import xarray as xr
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup
from matplotlib.figure import Figure

from reports.figures.every import Plan, draw, plans, write_caption, write_figure
from reports.files import replaced
from reports.page import header, record
from reports.page.cards import Card, cards
from reports.page.explorer.explorer import explorer, vega_bundle
from reports.page.plans import PLANS
from reports.page.svg import shown
from reports.page.topics import Topic, topics
from reports.page.where import lines_of_claims
from reports.run import Run, listed, parts
from reports.tables.every import tables, write_table
from reports.tables.table import Table
from reports.tables.verdict_heads import DETAILS
from reports.text.latex import prose_html
from reports.text.printable import printable, printable_data

PAGE_NAME, RECORD_NAME = "report.html", "report.json"
VERDICTS = ("scoreboard", "verdicts", "verdict_layers")
MOST_VERDICTS = 6000
"""Rows of the table of every verdict that the page holds; a longer one is a file alone."""
APART = {*VERDICTS, DETAILS, "heads", "errata"}
"""Tables that stand in sections of their own."""
FIRST = ("claims", "idea")
"""Figures that stand before the topics."""
SENTENCES = ("separability", "norms", "similarity", "weights", "bounds")
"""Key results of the five sentences, in their order."""


def write_page(
    tree: xr.DataTree,
    out: Path,
    *,
    seconds: Mapping[str, float] | None = None,
    commands: Sequence[str] = (),
    path: str = "run.zarr",
) -> Path:
    """Write report.html, report.json with its numbers, figures/*.pdf and *.png with their captions,
    and tables/*.tex and *.md, each file in one step, the page last; returns its path. A run in
    parts (`reports.run.parts`) has the figures and tables of each one after the other on the page,
    and in folders of their own.

    seconds: wall time by stage, shown in the header, and not in report.json. commands: those that
    made the run. path: the run as a command is given it, for those that the page shows.

    Raises:
        InputError: if the run lacks a group, or the folder cannot be written.
    """
    shown_apart = [
        part(Run.of(of), tables(of), out, folder, path) for folder, of in parts(tree).items()
    ]
    first = shown_apart[0]
    facts, errata = header.header(first.run, seconds), first.tables.get("errata")
    told = record.of_page(first.run, [one.record for one in shown_apart], errata, commands)
    replaced(out / RECORD_NAME, record.as_text(told))
    page = template("page.html").render(
        model=header.model_name(first.run),
        facts=facts,
        queries=first.run.queries,
        commands=commands,
        documents=f"{first.run.counted('document')} of {first.run.positions:,} tokens",
        text=dict(facts)["Text"],
        warnings=header.warnings(first.run),
        parts=shown_apart,
        costs=any(card.cost for one in shown_apart for card in one.cards),
        errata=errata,
        parity=header.parity(first.run.attrs),
        unchecked=header.UNCHECKED if header.unchecked(first.run.attrs) else "",
        entries=header.entries(first.run.attrs),
    )
    return replaced(out / PAGE_NAME, page)


@dataclass(frozen=True, slots=True)
class Part:
    """A run, or the layers of one that see equally many tokens, as the page shows them."""

    run: Run
    folder: str
    tables: dict[str, Table]
    sentences: list[tuple[str, str, str]]
    """Each short and in full, and the topic that it leads to; those of a run without key results
    are in full alone.
    """
    cards: list[Card]
    topics: list[Topic]
    body: Markup
    record: dict[str, Any]
    """Its numbers, for report.json."""

    @property
    def ids(self) -> set[str]:
        """What its cards can lead to."""
        return set(re.findall(r'\bid="([^"]+)"', self.body))

    @property
    def claims(self) -> bool:
        """Whether there are tables of verdicts."""
        return any(name in self.tables for name in VERDICTS)


def part(run: Run, made: dict[str, Table], out: Path, folder: str, path: str) -> Part:
    """Write figures and tables of a part into its folder, and return what the page shows of it."""
    answers = cards(run, folder)
    drawn = {plan: draw(plan, run) for plan in _in_order(plans(run))}
    write_beside(drawn, made, out, folder)
    figures = shown(drawn, run, "{plan.title} {caption.finding}")
    for one in figures:
        write_caption(one.plan, one.caption, out / "figures", part=folder)
    apart = {one.plan.name: one for one in figures if one.plan.name in FIRST}
    rest = [one for one in figures if one.plan.name not in apart]
    details = made.get(DETAILS)
    details = details if details and len(details.rows) <= MOST_VERDICTS else None
    on_page = {
        name: table
        for name, table in made.items()
        if not table.only_latex and name != "errata" and (name != DETAILS or details)
    }
    in_topics = {name: table for name, table in on_page.items() if name not in APART}
    told = run.attrs.get("part")
    of_topics = topics(run, answers, rest, in_topics, path)
    body = template("part.html").render(
        part=told,
        folder=folder and f"{folder}/",
        queries=run.queries,
        path=shlex.quote(path),
        # What is measured is said once, before the first part.
        idea=apart.get("idea") if told is None or told["tokens"] == told["every"][0][0] else None,
        claims=apart.get("claims"),
        lines=lines_of_claims(run),
        topics=of_topics,
        verdicts=[made[name] for name in VERDICTS if name in made],
        details=details,
        heads=made.get("heads"),
        explorer=explorer(run),
    )
    return Part(
        run=run,
        folder=folder,
        tables=made,
        sentences=_sentences(run, answers),
        cards=answers,
        topics=of_topics,
        body=scoped(body, folder),
        record=record.of_part(run, folder, answers, of_topics, figures, on_page),
    )


def _in_order(known: Sequence[Plan]) -> list[Plan]:
    """Figures as they stand on the page: first those before the topics, then by topic."""
    by_topic = [name for plan in PLANS for name in plan.figures]
    order = {name: place for place, name in enumerate((*FIRST, *by_topic))}
    return sorted(known, key=lambda plan: order.get(plan.name, len(order)))


def _sentences(run: Run, answers: Sequence[Card]) -> list[tuple[str, str, str]]:
    in_full, known = listed(run.summary.attrs, "sentences"), {card.key: card for card in answers}
    if len(in_full) != len(SENTENCES) or not set(SENTENCES) <= set(known):
        return [("", sentence, "") for sentence in in_full]
    return [
        (known[key].sentence, sentence, known[key].shown)
        for key, sentence in zip(SENTENCES, in_full, strict=True)
    ]


def scoped(html: str, folder: str) -> Markup:
    """Make the ids of a part, and what refers to them, its own."""
    if not folder:
        return Markup(html)
    own = re.sub(r'(\b(?:id|list)="|href="#|url\(#)([^")]+)', rf"\g<1>\g<2>-{folder}", html)
    return Markup(own)


def write_beside(
    drawn: Mapping[Plan, Figure], made: Mapping[str, Table], out: Path, folder: str = ""
) -> None:
    """Write figures and tables into the folders beside a page, or into `folder` in these."""
    for plan, figure in drawn.items():
        write_figure(plan.name, figure, out / "figures" / folder)
    for table in made.values():
        write_table(table, out / "tables", part=folder)


def template(name: str) -> Template:
    """A template by its name: page.html and comparison.html fill one frame.html with the parts
    of parts.html. What is foreign is escaped, and printable.
    """
    environment = Environment(
        loader=PackageLoader("reports.page", "templates"),
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["prose"] = prose_html
    environment.tests["copyable"] = copyable
    environment.policies["json.dumps_function"] = _json
    environment.globals |= {"policy": policy, "script": script}
    return environment.get_template(name)


def _json(value: Any, **how: Any) -> str:
    return json.dumps(printable_data(value), allow_nan=False, **how)


RUNS_CODE: Final = {"--trust-remote-code", "--allow-pickle"}
"""Options by which a command runs what somebody else wrote."""


def copyable(command: str) -> bool:
    """Whether a recorded command, which whoever made the run may have written, is one line of
    geostat with each word quoted, that runs no code of others.

    >>> copyable("geostat run 'a b' --out x"), copyable("geostat run $(rm -r ~)")
    (True, False)
    """
    try:
        words = shlex.split(command)
    except ValueError:  # quotes that do not close
        return False
    plain = command.isprintable() and command == shlex.join(words)
    return plain and words[:1] == ["geostat"] and RUNS_CODE.isdisjoint(words)


SCRIPTS: Final = {"page": ("page.js",), "explorer": ("what_if.js", "explorer.js")}
"""Files of the page's scripts; that of Vega comes with its package."""


@cache
def script(name: str) -> Markup:
    """One of the page's own scripts, in which nothing foreign stands."""
    if name == "vega":
        return Markup("(() => { " + vega_bundle() + " })();")
    folder = Path(__file__).with_name("templates")
    texts = [(folder / file).read_text(encoding="utf-8") for file in SCRIPTS[name]]
    return Markup("\n" + "".join(texts))


@cache
def policy(*names: str) -> str:
    """The content security policy of a page with these scripts: no other one runs, and nothing is
    fetched or sent.
    """
    digests = (sha256(script(name).encode("utf-8")).digest() for name in names)
    known = " ".join(f"'sha256-{b64encode(digest).decode('ascii')}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {known}; style-src 'unsafe-inline'; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )
