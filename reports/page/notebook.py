"""Display of a run in a notebook: an HTML fragment with claims, sentences and curves, for light and
dark pages. It fetches nothing and escapes foreign text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import numpy as np
import xarray as xr
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.figures.plan import rendered
from reports.figures.shapes import line, sparkline
from reports.page import header
from reports.page.cards import Card, cards, cards_without_curves
from reports.page.page import template
from reports.page.svg import inline_svg
from reports.run import NEEDED, Run, listed, parts

CURVES: Final = {
    "norms": ("value_norm", "position", "mean norm by position"),
    "similarity": ("cosine_mean", "lag", "mean cosine by lag"),
    "weights": ("attention_weight", "position", "mean weight by position"),
    "precision": ("precision", "n", "mean Precision by N"),
    "recall": ("recall", "n", "mean Recall by N"),
}
"""Curves of a run that is only captured: variable of /capture, its dimension, and the label of its
mean over documents and heads.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Text about a run."""

    title: str
    facts: str
    state: str
    """Completed stages."""
    next: Sequence[str]
    """Next calls."""
    warnings: Sequence[str] = ()
    claims: Sequence[Mapping[str, Any]] = ()
    """Rows with says, of, holds, holds_trivially, fails, undetermined and no_estimate."""
    fitted: str = ""
    """Tables of the fits, as HTML."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A run, or its layers with one number T of visible tokens."""

    title: str = ""
    cards: Sequence[Card] = ()
    curves: Sequence[tuple[Markup, str]] = field(default=())


def fragment(tree: xr.DataTree, text: Shown) -> str:
    """Return a run as HTML: key results with curves if it is confronted, otherwise measured curves;
    then claims, sentences and fits.

    Args:
        tree: a run as `geostat.display.tree.with_display` returns it; any group may be missing.
        text: text about the run.
    """
    run_parts = [_part(part) for part in parts(tree).values()]
    first = next(iter(parts(tree).values()))
    confronted = "summary" in first.children and any(part.cards for part in run_parts)
    sentences = [
        sentence
        for node in parts(tree).values()
        if "summary" in node.children
        for sentence in listed(node["summary"].attrs, "sentences")
    ]
    warnings = list(text.warnings)
    if confronted and all(name in first.children for name in NEEDED):
        warnings += header.warnings(Run.of(first))
    counts = ("holds", "holds_trivially", "fails", "undetermined", "no_estimate")
    nouns = {"kv_head": "KV heads", "head": "heads"}
    return template("notebook.html").render(
        text=text,
        warnings=list(dict.fromkeys(warnings)),
        parts=run_parts,
        claims=[
            (claim["says"], nouns[claim["of"]], *(f"{claim[name]:,}" for name in counts))
            for claim in text.claims
        ],
        sentences=sentences,
    )


def _part(tree: xr.DataTree) -> Part:
    """Return the content of a part: cards, or measured curves."""
    part = tree.attrs.get("part")
    title = f"Layers that see {part['tokens']:,} tokens" if part else ""
    if all(name in tree.children for name in NEEDED):
        run = Run.of(tree)
        name = _name(run.attrs, run.summary.attrs)
        if run_cards := cards(run, name):
            return Part(title=title, cards=run_cards)
    if "capture" not in tree.children:
        has_summary = "summary" in tree.children
        return Part(cards=cards_without_curves(tree["summary"].to_dataset()) if has_summary else ())
    curves = []
    for key, (_, _, words) in CURVES.items():
        figure = _curve(key, tree["capture"].to_dataset())
        if figure is not None:
            svg = rendered(figure, "svg")
            name = f"geostat-{sha256(svg).hexdigest()[:8]}-{key}"
            curves.append((inline_svg(svg, name, words), words))
    return Part(title=title, curves=curves)


def _curve(key: str, capture: xr.Dataset) -> Figure | None:
    """Draw one of `CURVES`; return None if it was not measured."""
    name, along, _ = CURVES[key]
    if name not in capture:
        return None
    level = capture[name].mean([dim for dim in capture[name].dims if dim != along])

    def draw(axes: Axes) -> None:
        line(axes, capture[along].values, level.values.astype(np.float64))
        if along in ("lag", "n"):
            axes.set_xscale("log")
        if key == "weights":
            axes.set_yscale("log")
        if along == "n":
            axes.set_ylim(0, 1.02)

    return sparkline(draw)


def _name(*attrs: Mapping[str, Any]) -> str:
    """Return a prefix for the ids of a run's curves, unique in a notebook."""
    return f"run-{sha256(repr(attrs).encode('utf-8', 'replace')).hexdigest()[:8]}"
