"""Report page: a self-contained report.html that opens offline, prints well and fetches nothing,
with report.json and the same figures and tables as files.

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

from reports.figures.plan import Plan, draw, write_caption, write_figure
from reports.files import replaced
from reports.page import header, record
from reports.page.cards import Card, cards
from reports.page.explorer import explorer, vega_bundle
from reports.page.svg import shown
from reports.page.topics import Topic, topics
from reports.run import Run, listed, parts
from reports.tables.table import Table
from reports.tables.writing import write_table
from reports.text.latex import prose_html
from reports.text.printable import printable, printable_data
from reports.topics.listed import ENTRIES, plans, tables
from reports.topics.verdicts import DETAILS, lines_of_claims

PAGE_NAME, RECORD_NAME = "report.html", "report.json"
VERDICTS = ("scoreboard", "verdicts", "verdict_layers")
MOST_VERDICTS = 6000
"""Most rows of the table of all verdicts on the page; a longer table is only a file."""
APART = {*VERDICTS, DETAILS, "heads", "errata"}
"""Tables with a separate section."""
FIRST = ("claims", "idea")
"""Figures before the topics."""
SENTENCES = ("separability", "norms", "similarity", "weights", "bounds")
"""Key results of the five sentences, in order."""


def write_page(
    tree: xr.DataTree,
    out: Path,
    *,
    seconds: Mapping[str, float] | None = None,
    commands: Sequence[str] = (),
    path: str = "run.zarr",
) -> Path:
    """Write the page, report.json, figures with captions, and tables, and return the page's path.

    Each file is replaced in one step, the page last. The page shows the parts of a run
    (`reports.run.parts`) one after another; their figures and tables have separate folders.

    Args:
        tree: the run, as `geostat.display.tree.with_display` returns it.
        out: folder of report.html, report.json, figures/ and tables/.
        seconds: wall time by stage, for the header; not in report.json.
        commands: commands that produced the run.
        path: path of the run in the commands that the page shows.

    Raises:
        InputError: if the run lacks a group, or the folder cannot be written.
    """
    page_parts = [
        part(Run.of(node), tables(node), out, folder, path) for folder, node in parts(tree).items()
    ]
    first = page_parts[0]
    facts, errata = header.header(first.run, seconds), first.tables.get("errata")
    content = record.of_page(
        first.run, [page_part.record for page_part in page_parts], errata, commands
    )
    replaced(out / RECORD_NAME, record.as_text(content))
    page = template("page.html").render(
        model=header.model_name(first.run),
        facts=facts,
        queries=first.run.queries,
        commands=commands,
        documents=header.documents(first.run),
        text=dict(facts)["Text"],
        warnings=header.warnings(first.run),
        parts=page_parts,
        costs=any(card.cost for page_part in page_parts for card in page_part.cards),
        errata=errata,
        parity=header.parity(first.run.attrs),
        unchecked=header.UNCHECKED if header.unchecked(first.run.attrs) else "",
        entries=header.entries(first.run.attrs),
    )
    return replaced(out / PAGE_NAME, page)


@dataclass(frozen=True, slots=True)
class Part:
    """A run, or its layers with one number T of visible tokens, as shown on the page."""

    run: Run
    folder: str
    tables: dict[str, Table]
    sentences: list[tuple[str, str, str]]
    """Triples of short sentence, full sentence and id of the linked topic; only the full sentence
    is set for a run without key results.
    """
    cards: list[Card]
    topics: list[Topic]
    body: Markup
    record: dict[str, Any]
    """Numbers for report.json."""

    @property
    def ids(self) -> set[str]:
        """Ids that cards can link to."""
        return set(re.findall(r'\bid="([^"]+)"', self.body))

    @property
    def claims(self) -> bool:
        """Whether the part has tables of verdicts."""
        return any(name in self.tables for name in VERDICTS)


def part(run: Run, by_name: dict[str, Table], out: Path, folder: str, path: str) -> Part:
    """Write figures and tables of a part into its folder, and return its content of the page."""
    answers = cards(run, folder)
    drawn = {plan: draw(plan, run) for plan in _in_order(plans(run))}
    write_figures_and_tables(drawn, by_name, out, folder)
    figures = shown(drawn, run, "{plan.title} {caption.finding}")
    for figure in figures:
        write_caption(figure.plan, figure.caption, out / "figures", part=folder)
    leading = {figure.plan.name: figure for figure in figures if figure.plan.name in FIRST}
    rest = [figure for figure in figures if figure.plan.name not in leading]
    details = by_name.get(DETAILS)
    details = details if details and len(details.rows) <= MOST_VERDICTS else None
    on_page = {
        name: table
        for name, table in by_name.items()
        if not table.only_latex and name != "errata" and (name != DETAILS or details)
    }
    in_topics = {name: table for name, table in on_page.items() if name not in APART}
    part = run.attrs.get("part")
    of_topics = topics(run, answers, rest, in_topics, path)
    body = template("part.html").render(
        part=part,
        folder=folder and f"{folder}/",
        queries=run.queries,
        path=shlex.quote(path),
        # The introduction appears once, before the first part.
        idea=leading.get("idea") if part is None or part["tokens"] == part["every"][0][0] else None,
        claims=leading.get("claims"),
        lines=lines_of_claims(run),
        topics=of_topics,
        verdicts=[by_name[name] for name in VERDICTS if name in by_name],
        details=details,
        heads=by_name.get("heads"),
        explorer=explorer(run),
    )
    return Part(
        run=run,
        folder=folder,
        tables=by_name,
        sentences=_sentences(run, answers),
        cards=answers,
        topics=of_topics,
        body=scoped(body, folder),
        record=record.of_part(run, folder, answers, of_topics, figures, on_page),
    )


def _in_order(known: Sequence[Plan]) -> list[Plan]:
    """Return figures in the order of the page: those before the topics, then by topic."""
    by_topic = [name for entry in ENTRIES for name in entry.figures]
    order = {name: index for index, name in enumerate((*FIRST, *by_topic))}
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
    """Append the folder of a part to its ids and to references to them."""
    if not folder:
        return Markup(html)
    unique = re.sub(r'(\b(?:id|list)="|href="#|url\(#)([^")]+)', rf"\g<1>\g<2>-{folder}", html)
    return Markup(unique)


def write_figures_and_tables(
    drawn: Mapping[Plan, Figure], by_name: Mapping[str, Table], out: Path, folder: str = ""
) -> None:
    """Write figures and tables into figures/ and tables/ of `out`, or into `folder` in these."""
    for plan, figure in drawn.items():
        write_figure(plan.name, figure, out / "figures" / folder)
    for table in by_name.values():
        write_table(table, out / "tables", part=folder)


def template(name: str) -> Template:
    """Return a template by name: page.html and comparison.html extend frame.html with macros of
    parts.html. Foreign text is escaped and printable.
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


def _json(value: Any, **kwargs: Any) -> str:
    return json.dumps(printable_data(value), allow_nan=False, **kwargs)


RUNS_CODE: Final = {"--trust-remote-code", "--allow-pickle"}
"""Options that let a command run foreign code."""


def copyable(command: str) -> bool:
    """Return whether a recorded command, which may be foreign, is a single quoted geostat command
    that runs no foreign code.

    >>> copyable("geostat run 'a b' --out x"), copyable("geostat run $(rm -r ~)")
    (True, False)
    """
    try:
        words = shlex.split(command)
    except ValueError:  # unbalanced quotes
        return False
    plain = command.isprintable() and command == shlex.join(words)
    return plain and words[:1] == ["geostat"] and RUNS_CODE.isdisjoint(words)


SCRIPTS: Final = {"page": ("page.js",), "explorer": ("what_if.js", "explorer.js")}
"""Files of the page's scripts; Vega comes with its package."""


@cache
def script(name: str) -> Markup:
    """Return a script of the page, which contains no foreign text."""
    if name == "vega":
        return Markup("(() => { " + vega_bundle() + " })();")
    folder = Path(__file__).with_name("templates")
    texts = [(folder / file).read_text(encoding="utf-8") for file in SCRIPTS[name]]
    return Markup("\n" + "".join(texts))


@cache
def policy(*names: str) -> str:
    """Return the content security policy of a page: only these scripts run, nothing is fetched."""
    digests = (sha256(script(name).encode("utf-8")).digest() for name in names)
    known = " ".join(f"'sha256-{b64encode(digest).decode('ascii')}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {known}; style-src 'unsafe-inline'; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )
