"""One self-contained report.html: it opens offline, prints well, and fetches nothing. Beside it the
same figures and tables as files.

Imports jinja2 with autoescape on: model names, text names and provenance are foreign.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup
from matplotlib.figure import Figure

from reports.figures import style
from reports.figures.captions.caption import Caption
from reports.figures.every import Plan, draw, plans, write_figure
from reports.files import replaced
from reports.page import header
from reports.page.cards import Card, cards
from reports.page.explorer.explorer import explorer, vega_bundle
from reports.page.svg import inline_svg, panels
from reports.run import Run, listed, parts
from reports.tables.every import tables, write_table
from reports.tables.table import Table
from reports.tables.verdict_heads import DETAILS
from reports.text.latex import prose_html

PAGE_NAME = "report.html"
VERDICTS = ("scoreboard", "verdicts", "verdict_layers")
MOST_VERDICTS = 6000
"""Rows of the table of every verdict that the page holds; a longer one is a file alone."""
APART = {*VERDICTS, DETAILS, "heads", "errata"}
"""Tables that stand in sections of their own."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A figure on the page."""

    plan: Plan
    number: int
    svg: Markup
    halves: list[Markup]
    """Its panels one by one, for a narrow window; none where panels do not stand side by side."""
    caption: Caption


def write_page(
    tree: xr.DataTree,
    out: Path,
    *,
    seconds: Mapping[str, float] | None = None,
    commands: Sequence[str] = (),
) -> Path:
    """Write report.html, figures/*.pdf and *.png, and tables/*.tex and *.md, each file in one step,
    the page last; returns its path. A run in parts (`reports.run.parts`) has the figures and tables
    of each one after the other on the page, and in folders of their own.

    seconds: wall time by stage, shown in the header. commands: those that made the run.

    Raises:
        InputError: if the run lacks a group, or the folder cannot be written.
    """
    shown_apart = [part(Run.of(of), tables(of), out, folder) for folder, of in parts(tree).items()]
    first = shown_apart[0]
    facts = header.header(first.run, seconds)
    page = template("page.html").render(
        model=header.model_name(first.run),
        facts=facts,
        queries=first.run.queries,
        commands=commands,
        documents=f"{first.run.counted('document')} of {first.run.positions:,} tokens",
        text=dict(facts)["Text"],
        warnings=header.warnings(first.run),
        parts=shown_apart,
        errata=first.tables.get("errata"),
        parity=header.parity(first.run.attrs),
        entries=header.entries(first.run.attrs),
        vega=Markup(vega_bundle()),
    )
    return replaced(out / PAGE_NAME, page)


@dataclass(frozen=True, slots=True)
class Part:
    """A run, or the layers of one that see equally many tokens, as the page shows them."""

    run: Run
    folder: str
    tables: dict[str, Table]
    sentences: list[str]
    cards: list[Card]
    body: Markup

    @property
    def ids(self) -> set[str]:
        """What its cards can lead to."""
        return set(re.findall(r'\bid="([^"]+)"', self.body))

    @property
    def claims(self) -> bool:
        """Whether there are tables of verdicts."""
        return any(name in self.tables for name in VERDICTS)


def part(run: Run, made: dict[str, Table], out: Path, folder: str) -> Part:
    """Write figures and tables of a part into its folder, and return what the page shows of it."""
    in_order = sorted(plans(run), key=lambda plan: plan.name != "claims")  # they come first
    drawn = {plan: draw(plan, run) for plan in in_order}
    write_beside(drawn, made, out, folder)
    figures = shown(drawn, run, "{plan.title} {caption.finding}")
    apart = {one.plan.name: one for one in figures if one.plan.name in ("claims", "idea")}
    figures = [one for one in figures if one.plan.name not in apart]
    told = run.attrs.get("part")
    details = made.get(DETAILS)
    body = template("part.html").render(
        part=told,
        folder=folder and f"{folder}/",
        queries=run.queries,
        # What is measured is said once, before the first part.
        idea=apart.get("idea") if told is None or told["tokens"] == told["every"][0][0] else None,
        claims=apart.get("claims"),
        figures=figures,
        tables=[
            table for table in made.values() if not table.only_latex and table.name not in APART
        ],
        verdicts=[table for table in made.values() if table.name in VERDICTS],
        details=details if details and len(details.rows) <= MOST_VERDICTS else None,
        heads=made.get("heads"),
        explorer=explorer(run),
    )
    sentences = listed(run.summary.attrs, "sentences")
    return Part(run, folder, made, sentences, cards(run, folder), scoped(body, folder))


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


def shown(drawn: Mapping[Plan, Figure], subject: Any, label: str) -> list[Shown]:
    """Figures as they stand on a page; what a screen reader says of one is `label`, with `plan`
    and `caption` to be filled in.
    """
    result = []
    for number, (plan, figure) in enumerate(drawn.items(), start=1):
        caption = plan.caption(subject)
        svg = inline_svg(
            style.rendered(figure, "svg"), plan.name, label.format(plan=plan, caption=caption)
        )
        result.append(Shown(plan, number, svg, panels(figure, plan.name), caption))
    return result


def template(name: str) -> Template:
    """A template by its name: page.html and comparison.html fill one frame.html with the parts
    of parts.html. What is foreign is escaped.
    """
    environment = Environment(
        loader=PackageLoader("reports.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["prose"] = prose_html
    return environment.get_template(name)
