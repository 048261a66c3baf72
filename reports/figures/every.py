"""Drawing the figures of a report, and writing them as SVG, PDF and PNG with their captions as
text. Which there are: `listed`.

Imports matplotlib, never pyplot.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import xarray as xr
from matplotlib.figure import Figure

from reports.errors import refuse_unknown
from reports.figures import style
from reports.figures.captions.caption import Caption
from reports.figures.listed import FIGURES, Plan
from reports.figures.readable import readable
from reports.figures.rendering import rendered
from reports.files import replaced
from reports.run import Run, parts
from reports.text.latex import mixed_latex
from reports.text.printable import printable


def plans(run: Run) -> tuple[Plan, ...]:
    """Those of `FIGURES` whose group the run holds."""
    return tuple(p for p in FIGURES if not p.group or getattr(run, p.group) is not None)


def draw(plan: Plan, shown: Any, width: float | None = None, look: style.Look = "paper") -> Figure:
    """Draw one figure of a run, or of a comparison, on a canvas of its own, which nothing else
    keeps.

    Args:
        plan: which.
        shown: a `Run`, or the dataset of a comparison.
        width: inches; that of the look when left out. On paper below `style.NARROW` rows of panels
            stand as columns.
        look: for paper or slides.
    """
    width = style.WIDTHS[look] if width is None else width
    height = plan.height(shown) if callable(plan.height) else plan.height
    rows, columns = plan.grid
    turned = look == "paper" and width < style.NARROW and columns > 1
    if turned:  # a panel keeps its shape, but for one that would be too low for its labels
        shape = (width / rows) / (style.WIDTH / columns)
        height *= columns / rows * max(min(shape, 1 / shape), 0.62)
        rows, columns = columns, rows
    if look == "slides":
        height = style.SLIDE_SHAPE * width
    with style.context(width, look):
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.set_label(look)
        axes = figure.subplots(rows, columns)
        plan.draw(axes.T if turned and columns > 1 else axes, shown)
        if look == "slides":
            style.for_slides(figure)
        readable(figure)
        style.lay_out(figure)
    return figure


KINDS: Final = ("pdf", "png")
"""Files of a figure, unless others are asked for; svg is known, too."""


def write_figure(name: str, figure: Figure, out: Path, kinds: Sequence[str] = KINDS) -> list[Path]:
    """Write one figure into a folder, as each kind of file."""
    return [replaced(out / f"{name}.{kind}", rendered(figure, kind)) for kind in kinds]


def write_caption(plan: Plan, caption: Caption, out: Path, *, part: str = "") -> list[Path]:
    """Write what stands under a figure beside it: as plain text, and as LaTeX's caption command,
    the finding in bold, with a label, to be input within a figure environment. That of a part of a
    run stands in a folder in `out`, with a label of its own.
    """
    plain = [f"{plan.title}{f' ({plan.paper} of the paper)' if plan.paper else ''}"]
    plain += [printable(text) for text in (caption.text, caption.finding) if text]
    latex = mixed_latex(caption.text)
    if caption.finding:
        latex += rf" \textbf{{{mixed_latex(caption.finding)}}}"
    label = f"fig:geostat-{plan.name}{f'-{part}' if part else ''}"
    latex = f"\\caption[{mixed_latex(plan.title)}]{{{latex}}}\n\\label{{{label}}}"
    texts = {"txt": "\n\n".join(plain), "tex": latex}
    return [
        replaced(out / part / f"{plan.name}_caption.{kind}", f"{text}\n")
        for kind, text in texts.items()
    ]


def write_figures(
    tree: xr.DataTree,
    out: Path,
    *,
    only: Sequence[str] = (),
    kinds: Sequence[str] = KINDS,
    width: float | None = None,
    look: style.Look = "paper",
) -> list[Path]:
    """Write figures of a confronted run with their captions; returns the files' paths, in the
    report's order.

    Args:
        tree: the run, as `geostat.display.tree.with_display` returns it.
        out: folder.
        only: names of figures, or numbers of their counterparts in the paper; all where empty.
        kinds: of files: pdf, png, svg.
        width: inches; that of the look when left out.
        look: for paper or slides.

    Raises:
        InputError: if the run lacks a group or a figure that is asked for, or the folder cannot be
            written.
    """
    runs = {folder: Run.of(part) for folder, part in parts(tree).items()}
    there = [plan for run in runs.values() for plan in plans(run)]
    numbers = {plan.paper.removeprefix("Figure "): plan.name for plan in there if plan.paper}
    asked = [numbers.get(name, name) for name in only]
    refuse_unknown(asked, [plan.name for plan in there], "figure")
    return [
        path
        for folder, run in runs.items()
        for plan in plans(run)
        if not asked or plan.name in asked
        for path in (
            *write_figure(plan.name, draw(plan, run, width, look), out / folder, kinds),
            *write_caption(plan, plan.caption(run), out, part=folder),
        )
    ]
