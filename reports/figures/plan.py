"""Plan of a figure: name, layout, drawing function and caption; drawing by the plan, and writing as
SVG, PDF and PNG with the caption as text.

A caption holds a description, sample sizes, reading advice, and the finding of this run, which
quotes numbers of the run and records each of them. Equal figures give equal bytes. Labels with
foreign text that matplotlib cannot typeset as maths are set as plain text. Imports matplotlib,
never pyplot, and fontTools, its font subsetter.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from fontTools.subset import Options
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser
from matplotlib.text import Text

from reports.figures import style
from reports.figures.style import Look, context
from reports.files import replaced
from reports.text.latex import mixed_latex
from reports.text.number import MISSING, SUPERSCRIPTS, count, percent
from reports.text.printable import printable


@dataclass(frozen=True, slots=True)
class Quoted:
    """A number of a finding: name, unrounded value, and printed text."""

    name: str
    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Caption:
    """Plain text of a caption. `finding` is printed last, in bold; it may be empty. `numbers` are
    the numbers quoted in it.
    """

    text: str
    finding: str = ""
    numbers: tuple[Quoted, ...] = ()


@dataclass(slots=True)
class Numbers:
    """Formatter of a finding's numbers that records every number.

    >>> numbers = Numbers()
    >>> f"Precision {numbers.figures('precision', 0.6712)}"
    'Precision 0.67'
    >>> numbers.all
    (Quoted(name='precision', value=0.6712, text='0.67'),)
    """

    recorded: list[Quoted] = field(default_factory=list)

    @property
    def all(self) -> tuple[Quoted, ...]:
        """Numbers recorded so far."""
        return tuple(self.recorded)

    def _record(self, name: str, value: float, text: str) -> str:
        self.recorded.append(Quoted(name, float(value), text))
        return text

    def figures(self, name: str, value: float) -> str:
        """Format a number to two significant digits."""
        return self._record(name, value, figures_of(value))

    def percent(self, name: str, share: float, digits: int = 1) -> str:
        """Format a share as percent."""
        return self._record(name, share, percent(share, digits))

    def place(self, name: str, value: float) -> str:
        """Format a rank; a median over an even number of documents may be half-integer."""
        return self._record(name, value, f"{value:g}" if np.isfinite(value) else MISSING)

    def whole(self, name: str, value: float) -> str:
        """Format a count, or a size N."""
        return self._record(name, value, f"{int(value)}")

    def counted(self, name: str, number: int, noun: str) -> str:
        """Format a count with its noun."""
        self._record(name, number, f"{number:,}")
        return count(number, noun)


def figures_of(value: float) -> str:
    """Format a number to two significant digits: `0.13`, `1.2×10⁻⁴`; n/a if unknown."""
    if not np.isfinite(value):
        return MISSING
    mantissa, _, power = f"{value:.1e}".partition("e")
    if -4 <= int(power) < 5:
        return f"{value:.{max(0, 1 - int(power))}f}"
    return f"{mantissa}×10{str(int(power)).translate(SUPERSCRIPTS)}"


_UNDATED: Final[dict[str, dict[str, Any]]] = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
PNG_DOTS = 200
"""Resolution of PNG files, dots per inch."""
_PLACES, _DIGITS = re.compile(rb'\b(?:d|x|y)="[^"]*"'), re.compile(rb"(\.\d\d)\d+")
"""Coordinates in an SVG file, and the decimals of their numbers."""


def rendered(figure: Figure, kind: str, dots: float = PNG_DOTS) -> bytes:
    """Return a figure as the bytes of a file: svg, pdf, or png with `dots` per inch. Equal figures
    give equal bytes.

    The figure's label is its look, because ticks created at this point need its fonts.
    """
    buffer = io.BytesIO()
    look: Look = "slides" if figure.get_label() == "slides" else "paper"
    with context(figure.get_figwidth(), look), _minimal_fonts(), _no_date_of_the_environment():
        figure.savefig(
            buffer,
            format=kind,
            metadata=_UNDATED[kind],
            dpi=dots if kind == "png" else "figure",
        )
    return _shortened(buffer.getvalue()) if kind == "svg" else buffer.getvalue()


_LAYOUT: Final = ("GDEF", "GPOS", "GSUB", "kern")
"""Font tables for text layout."""


@contextmanager
def _minimal_fonts() -> Iterator[None]:
    """Subset fonts without the tables of `_LAYOUT`: a PDF positions every glyph explicitly, and
    subsetting these tables takes most of the time. matplotlib has no option for it, so the default
    of fontTools is changed temporarily.
    """
    known = Options._drop_tables_default
    Options._drop_tables_default = [*known, *_LAYOUT]
    try:
        yield
    finally:
        Options._drop_tables_default = known


@contextmanager
def _no_date_of_the_environment() -> Iterator[None]:
    """Hide SOURCE_DATE_EPOCH from matplotlib, which fails if it is not a number."""
    known = os.environ.pop("SOURCE_DATE_EPOCH", None)
    try:
        yield
    finally:
        if known is not None:
            os.environ["SOURCE_DATE_EPOCH"] = known


def _shortened(svg: bytes) -> bytes:
    """Truncate coordinates to hundredths of a point: invisible, and a third of the bytes."""
    return _PLACES.sub(lambda match: _DIGITS.sub(rb"\1", match[0]), svg)


_PARSER: Final = MathTextParser("path")
_MOST_LETTERS: Final = 300
"""Longest line that is drawn, in characters; geostat's have at most a hundred."""


def readable(artist: Artist) -> None:
    """Make every text of a figure, or of axes, use `_line`. Call it after all texts exist."""
    for text in artist.findobj(Text):
        text._preprocess_math = partial(_line, text)  # type: ignore[attr-defined]


def _line(text: Any, line: str) -> tuple[str, bool | str]:
    """Return a line as it is drawn, and whether as maths or by TeX: escaped; plain if its maths is
    invalid; for usetex, with commands of known expressions only.
    """
    line = printable(line if len(line) <= _MOST_LETTERS else f"{line[:_MOST_LETTERS]}…")
    if text.get_usetex():
        return mixed_latex(line) if line.strip() else r"\ ", "TeX"
    shown, maths = Text._preprocess_math(text, line)  # type: ignore[attr-defined]
    return (shown, maths) if not maths or _is_maths(shown) else (line, False)


@lru_cache(maxsize=1024)
def _is_maths(line: str) -> bool:
    """Return whether matplotlib can typeset a line with paired dollar signs."""
    try:
        _PARSER.parse(line)
    except Exception:  # any exception, of the parser or deeper, means invalid maths
        return False
    return True


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
