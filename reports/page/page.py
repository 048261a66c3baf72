"""One self-contained report.html: it opens offline, prints well, and fetches nothing. Beside it the
same figures and tables as files.

Imports jinja2 with autoescape on: model names, text names and provenance are foreign.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from reports.figures import style
from reports.figures.captions.caption import Caption
from reports.figures.every import Plan, draw, plans, write_figure
from reports.files import replaced
from reports.page import header
from reports.run import Run, listed, parts
from reports.tables.every import tables, write_table
from reports.tables.table import Table
from reports.tables.verdict_heads import DETAILS
from reports.text.latex import prose_html

PAGE_NAME = "report.html"
VERDICTS = ("scoreboard", "verdicts", "verdict_layers")
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


def write_page(tree: xr.DataTree, out: Path, *, seconds: Mapping[str, float] | None = None) -> Path:
    """Write report.html, figures/*.pdf and *.png, and tables/*.tex and *.md, each file in one step,
    the page last; returns its path. A run in parts (`reports.run.parts`) has the figures and tables
    of each one after the other on the page, and in folders of their own.

    seconds: wall time by stage, shown in the header.

    Raises:
        InputError: if the run lacks a group, or the folder cannot be written.
    """
    shown_apart = [part(Run.of(of), tables(of), out, folder) for folder, of in parts(tree).items()]
    first = shown_apart[0]
    page = template("page.html").render(
        model=header.model_name(first.run),
        facts=header.header(first.run, seconds),
        queries=first.run.queries,
        warnings=header.warnings(first.run),
        parts=shown_apart,
        errata=first.tables.get("errata"),
        parity=header.parity(first.run.attrs),
        entries=header.entries(first.run.attrs),
    )
    return replaced(out / PAGE_NAME, page)


@dataclass(frozen=True, slots=True)
class Part:
    """A run, or the layers of one that see equally many tokens, as the page shows them."""

    run: Run
    folder: str
    tables: dict[str, Table]
    sentences: list[str]
    body: Markup

    @property
    def claims(self) -> bool:
        """Whether there are tables of verdicts."""
        return any(name in self.tables for name in VERDICTS)


def part(run: Run, made: dict[str, Table], out: Path, folder: str) -> Part:
    """Write figures and tables of a part into its folder, and return what the page shows of it."""
    drawn = {plan: draw(plan, run) for plan in plans(run)}
    write_beside(drawn, made, out, folder)
    idea, *figures = shown(drawn, run, "{plan.title} {caption.finding}")
    told = run.attrs.get("part")
    body = template("part.html").render(
        part=told,
        folder=folder and f"{folder}/",
        queries=run.queries,
        # What is measured is said once, before the first part.
        idea=idea if told is None or told["tokens"] == told["every"][0][0] else None,
        figures=figures,
        tables=[
            table for table in made.values() if not table.only_latex and table.name not in APART
        ],
        verdicts=[table for table in made.values() if table.name in VERDICTS],
        details=made.get(DETAILS),
        heads=made.get("heads"),
    )
    return Part(run, folder, made, listed(run.summary.attrs, "sentences"), scoped(body, folder))


def scoped(html: str, folder: str) -> Markup:
    """Make the ids of a part, and what refers to them, its own."""
    if not folder:
        return Markup(html)
    own = re.sub(r'(\bid="|href="#|url\(#)([^")]+)', rf"\g<1>\g<2>-{folder}", html)
    return Markup(own)


def write_beside(
    drawn: Mapping[Plan, Figure], made: Mapping[str, Table], out: Path, folder: str = ""
) -> None:
    """Write figures and tables into the folders beside a page, or into `folder` in these."""
    for plan, figure in drawn.items():
        write_figure(plan.name, figure, out / "figures" / folder)
    for table in made.values():
        write_table(table, out / "tables" / folder)


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


def inline_svg(svg: bytes, name: str, label: str) -> Markup:
    """Make a figure's SVG fit to stand in a page: no prologue, `name` before every id (two figures
    of a page may not share one), scaled to the column, and a label in words, foreign ones escaped.
    """
    text = svg.decode("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r' id="([^"]+)"', rf' id="{name}-\1"', text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    opening = re.match(r"<svg[^>]*>", text)
    assert opening is not None
    box = re.search(r'viewBox="[^"]+"', opening[0])
    assert box is not None
    head = Markup(
        '<svg id="drawn-{}" xmlns="http://www.w3.org/2000/svg"'
        ' xmlns:xlink="http://www.w3.org/1999/xlink" {} role="img" aria-label="{}">'
    ).format(name, Markup(box[0]), escape(label))
    return head + Markup(text[opening.end() :])


def panels(figure: Figure, name: str) -> list[Markup]:
    """Views of the two panels of a figure that `inline_svg` put on the page, cut half-way
    between them; empty for any other layout.
    """
    if len(figure.axes) != 2:
        return []
    with style.context():
        FigureCanvasAgg(figure).draw()
    boxes = [box for axes in figure.axes if (box := axes.get_tightbbox()) is not None]
    if len(boxes) != 2 or boxes[0].x1 > boxes[1].x0:
        return []
    width, height = (72.0 * float(inches) for inches in figure.get_size_inches())
    middle = 36.0 * float(boxes[0].x1 + boxes[1].x0) / figure.dpi
    view = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        ' viewBox="{} 0 {} {}" aria-hidden="true">{}</svg>'
    )
    copy = Markup('<use xlink:href="#drawn-{}" width="{}" height="{}"/>').format(
        name, f"{width:g}", f"{height:g}"
    )
    return [
        view.format(f"{start:.2f}", f"{end - start:.2f}", f"{height:g}", copy)
        for start, end in ((0.0, middle), (middle, width))
    ]
