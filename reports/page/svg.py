"""Figures within a page: inline SVG, panels for a narrow window, number and caption. Imports
matplotlib and markupsafe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape
from matplotlib.figure import Figure

from reports.figures import style
from reports.figures.plan import Caption, Plan, rendered
from reports.text.printable import printable


def inline_svg(svg: bytes, name: str, label: str) -> Markup:
    """Return a figure's SVG for a page: without prologue, with `name` before every id to keep ids
    unique, scaled to the column, and with an escaped text label.
    """
    name = re.sub(r"[^\w.-]", "-", name)  # a key of a foreign run may hold anything
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
    ).format(name, Markup(box[0]), escape(printable(label)))
    return head + Markup(text[opening.end() :])


def panels(figure: Figure, name: str) -> list[Markup]:
    """Return views of the two panels of a figure on the page, split half-way between them; empty
    for other layouts.
    """
    if len(figure.axes) != 2:
        return []
    with style.context():
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


@dataclass(frozen=True, slots=True)
class Shown:
    """A figure on the page."""

    plan: Plan
    number: int
    svg: Markup
    halves: list[Markup]
    """Separate panels for a narrow window; empty unless two panels are side by side."""
    caption: Caption


def shown(drawn: Mapping[Plan, Figure], subject: Any, label: str) -> list[Shown]:
    """Return the figures of a page; `label` is the template of the label for screen readers, with
    fields `plan` and `caption`.
    """
    result = []
    for number, (plan, figure) in enumerate(drawn.items(), start=1):
        caption = plan.caption(subject)
        svg = inline_svg(
            rendered(figure, "svg"), plan.name, label.format(plan=plan, caption=caption)
        )
        result.append(Shown(plan, number, svg, panels(figure, plan.name), caption))
    return result
