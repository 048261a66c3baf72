"""Plan of a figure: name, layout, drawing function and caption; drawing by the plan, and writing as
SVG, PDF and PNG with the caption as text. Imports matplotlib, never pyplot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from matplotlib.figure import Figure

from reports.figures import style
from reports.figures.caption import Caption
from reports.figures.readable import readable
from reports.figures.rendering import rendered
from reports.files import replaced
from reports.text.latex import mixed_latex
from reports.text.printable import printable


@dataclass(frozen=True, slots=True)
class Plan:
    """One figure: name, layout, drawing function and caption. Its data are a `Run`, or the dataset
    of a comparison.
    """

    name: str
    title: str
    paper: str
    """Its counterpart in the paper; empty for none."""
    grid: tuple[int, int]
    """Rows and columns of axes."""
    height: float | Callable[[Any], float]
    """Inches, or a function of the data."""
    draw: Callable[[Any, Any], object]
    caption: Callable[[Any], Caption]
    group: str = ""
    """Optional group of a `Run` that this figure needs; empty for none."""


PLANS: dict[str, Plan] = {}
"""Figures of a run by name."""
Captioned = TypeVar("Captioned", bound=Callable[[Any], Caption])


def planned(
    draw: Callable[[Any, Any], object],
    title: str,
    height: float | Callable[[Any], float],
    *,
    paper: str = "",
    grid: tuple[int, int] = (1, 2),
    group: str = "",
) -> Callable[[Captioned], Captioned]:
    """Plan a figure of a run, in `PLANS`: a decorator of its caption function. The figure has the
    name of its drawing function without `figure_`; arguments are fields of `Plan`.
    """
    name = draw.__name__.removeprefix("figure_")

    def plan(caption: Captioned) -> Captioned:
        PLANS[name] = Plan(name, title, paper, grid, height, draw, caption, group)
        return caption

    return plan


def draw(plan: Plan, shown: Any, width: float | None = None, look: style.Look = "paper") -> Figure:
    """Draw one figure of a run, or of a comparison, on a new canvas.

    Args:
        plan: the figure.
        shown: a `Run`, or the dataset of a comparison.
        width: inches; the default depends on `look`. On paper, below `style.NARROW`, panels of a
            row are stacked.
        look: style for paper or slides.
    """
    width = style.WIDTHS[look] if width is None else width
    height = plan.height(shown) if callable(plan.height) else plan.height
    rows, columns = plan.grid
    transposed = look == "paper" and width < style.NARROW and columns > 1
    if transposed:  # a panel keeps its aspect ratio, with a minimum height for its labels
        shape = (width / rows) / (style.WIDTH / columns)
        height *= columns / rows * max(min(shape, 1 / shape), 0.62)
        rows, columns = columns, rows
    if look == "slides":
        height = style.SLIDE_SHAPE * width
    with style.context(width, look):
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.set_label(look)
        axes = figure.subplots(rows, columns)
        plan.draw(axes.T if transposed and columns > 1 else axes, shown)
        if look == "slides":
            style.for_slides(figure)
        readable(figure)
        style.lay_out(figure)
    return figure


KINDS: Final = ("pdf", "png")
"""Default file formats of a figure; svg is supported as well."""


def write_figure(name: str, figure: Figure, out: Path, kinds: Sequence[str] = KINDS) -> list[Path]:
    """Write one figure into a folder in each file format."""
    return [replaced(out / f"{name}.{kind}", rendered(figure, kind)) for kind in kinds]


def write_caption(plan: Plan, caption: Caption, out: Path, *, part: str = "") -> list[Path]:
    """Write the caption of a figure as plain text, and as a LaTeX caption command with a label,
    to be input within a figure environment. The caption of a part of a run goes into a subfolder of
    `out`, with the part in its label.
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
