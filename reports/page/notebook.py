"""A run in a notebook: a fragment of HTML with its claims, sentences and curves, for light and dark
pages. It fetches nothing, and foreign text in it is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import xarray as xr
from markupsafe import Markup

from reports.figures.rendering import rendered
from reports.figures.sparkline import MEASURED_WORDS, measured_curve
from reports.page import header
from reports.page.cards import Card, cards, cards_without_curves
from reports.page.page import template
from reports.page.svg import inline_svg
from reports.run import NEEDED, Run, listed, parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What is said of a run beside its datasets."""

    title: str
    facts: str
    state: str
    """Which stages it has been through."""
    next: Sequence[str]
    """Calls that lead on."""
    warnings: Sequence[str] = ()
    claims: Sequence[Mapping[str, Any]] = ()
    """Rows with says, of, holds, fails, undetermined and no_estimate."""
    fitted: str = ""
    """Tables of the fits, as HTML."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A run, or its layers that see equally many tokens."""

    title: str = ""
    cards: Sequence[Card] = ()
    curves: Sequence[tuple[Markup, str]] = field(default=())


def fragment(tree: xr.DataTree, said: Shown) -> str:
    """Return a run as HTML: its key results with their curves where it is confronted, what was
    measured where not; then claims, sentences and fits.

    Args:
        tree: a run as `geostat.display.tree.with_display` returns it; any group may be missing.
        said: what stands around.
    """
    apart = [_part(one) for one in parts(tree).values()]
    first = next(iter(parts(tree).values()))
    whole = "summary" in first.children and any(part.cards for part in apart)
    sentences = [
        one
        for node in parts(tree).values()
        if "summary" in node.children
        for one in listed(node["summary"].attrs, "sentences")
    ]
    warnings = list(said.warnings)
    if whole and all(name in first.children for name in NEEDED):
        warnings += header.warnings(Run.of(first))
    counts = ("holds", "fails", "undetermined", "no_estimate")
    of = {"kv_head": "value heads", "head": "heads"}
    return template("notebook.html").render(
        title=said.title,
        facts=said.facts,
        state=said.state,
        next=said.next,
        warnings=list(dict.fromkeys(warnings)),
        parts=apart,
        claims=[
            (one["says"], of[one["of"]], *(f"{one[name]:,}" for name in counts))
            for one in said.claims
        ],
        sentences=sentences,
        fitted=Markup(said.fitted),
    )


def _part(tree: xr.DataTree) -> Part:
    """What is shown of a part: cards, or the measured curves alone."""
    part = tree.attrs.get("part")
    title = f"Layers that see {part['tokens']:,} tokens" if part else ""
    if all(name in tree.children for name in NEEDED):
        run = Run.of(tree)
        name = _name(run.attrs, run.summary.attrs)
        if made := cards(run, name):
            return Part(title=title, cards=made)
    if "capture" not in tree.children:
        alone = "summary" in tree.children
        return Part(cards=cards_without_curves(tree["summary"].to_dataset()) if alone else ())
    curves = []
    for key, words in MEASURED_WORDS.items():
        figure = measured_curve(key, tree["capture"].to_dataset())
        if figure is not None:
            svg = rendered(figure, "svg")
            name = f"geostat-{sha256(svg).hexdigest()[:8]}-{key}"
            curves.append((inline_svg(svg, name, words), words))
    return Part(title=title, curves=curves)


def _name(*attrs: Mapping[str, Any]) -> str:
    """A name for the ids of a run's curves: two runs of a notebook share none."""
    return f"run-{sha256(repr(attrs).encode('utf-8', 'replace')).hexdigest()[:8]}"
