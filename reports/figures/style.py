"""How figures look: colours that readers with colour-blindness tell apart, type, legends, layout.

Colours are those of Okabe & Ito (2008), "Color universal design". Imports matplotlib, never pyplot:
nothing is registered, nothing stays open.
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal

from matplotlib import rc_context, rcParams
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

BLACK, GREY, PALE = "#1a1a1a", "#767676", "#d9d9d9"
BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#AA4499",
    "#56B4E9",
)
"""PURPLE is darker than the palette's own, which is pale on white."""
DASHED, DASH_DOTTED = (0, (5, 1.5)), (0, (3, 1.2, 1, 1.2))

WIDTH: Final = 7.4
"""Width of a figure in inches: the page's column at 96 dots an inch."""

STYLE: Final[dict[str, Any]] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.labelcolor": BLACK,
    "axes.edgecolor": GREY,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#ececec",
    "grid.linewidth": 0.7,
    "xtick.color": BLACK,
    "ytick.color": BLACK,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "legend.handlelength": 2.2,
    "mathtext.fontset": "dejavusans",
    "text.usetex": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "geostat",
    "pdf.fonttype": 42,
    "figure.constrained_layout.w_pad": 0.06,
    "figure.constrained_layout.h_pad": 0.05,
}

NARROW: Final = 5.0
"""Inches below which a figure is for one column of two: panels stand below one another, and type
is that of a caption.
"""
COLUMN: Final[dict[str, Any]] = {
    "font.size": 7.0,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.0,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "lines.linewidth": 1.2,
    "axes.linewidth": 0.6,
    "grid.linewidth": 0.5,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
}
"""What differs from STYLE there."""

SLIDES: Final[dict[str, Any]] = {
    "font.size": 15.0,
    "axes.titlesize": 16.0,
    "axes.labelsize": 15.0,
    "xtick.labelsize": 14.0,
    "ytick.labelsize": 14.0,
    "xtick.major.pad": 6.0,
    "legend.fontsize": 14.0,
    "lines.linewidth": 2.4,
    "axes.linewidth": 1.2,
    "grid.linewidth": 1.0,
    "figure.constrained_layout.w_pad": 0.12,
}
"""What differs from STYLE on a slide."""
SLIDE_SHAPE: Final = 9 / 16
"""Height of a slide by its width."""
Look = Literal["paper", "slides"]
WIDTHS: Final[dict[Look, float]] = {"paper": WIDTH, "slides": 10.0}
"""Inches that a figure is wide, unless asked for otherwise."""
ROOMY: Final = 50.0
"""Sizes of its type that a figure is wide from which on all labels of an axis have room."""
TWO_COLUMNS: Final = 19.0
"""The same of axes, and of a legend in columns."""
WIDER_TITLE: Final = 1.08
"""How much wider than its axes a title may be."""
HEAVIER: Final = 1.5
"""How much thicker lines and marks are on a slide."""


@contextmanager
def context(width: float = WIDTH, look: Look = "paper") -> Iterator[None]:
    """Return a context in which figures so many inches wide are drawn and saved. A letter that the
    font lacks, of foreign text, is shown as a box, without a warning.
    """
    chosen = SLIDES if look == "slides" else COLUMN if width < NARROW else {}
    with rc_context(STYLE | chosen), warnings.catch_warnings():  # type: ignore[arg-type]
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        yield


def narrow(axes: Axes) -> bool:
    """Whether the axes stand in a figure that has room for few letters: in one column of two, or
    on a slide.
    """
    figure = axes.get_figure(root=True)
    return figure is not None and figure.get_figwidth() * 72 < ROOMY * rcParams["font.size"]


def letters(axes: Axes) -> float:
    """How many sizes of their type axes are wide, before they are laid out."""
    figure = axes.get_figure(root=True)
    wide = axes.get_position().width * (figure.get_figwidth() if figure else WIDTH)
    return float(72.0 * wide / rcParams["font.size"])


def labels_that_fit(axes: Axes) -> int:
    """How many labels of ticks have room below one another, at least two."""
    figure = axes.get_figure(root=True)
    high = axes.get_position().height * (figure.get_figheight() if figure else WIDTH)
    return max(2, int(0.8 * 72.0 * high / (1.25 * rcParams["font.size"])))


def stacked(axes: Sequence[Axes]) -> bool:
    """Whether axes stand below one another."""
    first, last = axes[0].get_position(), axes[-1].get_position()
    return bool(last.y1 <= first.y0)


def legend_below(
    axes: Axes,
    *,
    columns: int = 2,
    entries: Sequence[tuple[Any, str]] | None = None,
) -> None:
    """Put the legend below the axes, behind ticks and label, where it covers no data; what was
    measured comes first. It has the entries of the axes, or those given.
    """
    if entries is None:
        pairs = zip(*axes.get_legend_handles_labels(), strict=True)
        entries = sorted(pairs, key=lambda pair: not pair[1].startswith("measured"))
    if not entries:
        return
    figure = axes.figure
    if letters(axes) < TWO_COLUMNS:
        columns = 1
    points = 4.0 * rcParams["font.size"]  # ticks with their labels, and the axis' label
    below = axes.transAxes + ScaledTranslation(0, -points / 72.0, figure.dpi_scale_trans)
    axes.legend(
        *zip(*entries, strict=True),
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=below,
        ncols=columns,
        columnspacing=1.4,
        borderaxespad=0.0,
    )


def legend_shared(axes: Sequence[Axes], *, columns: int = 1) -> None:
    """Give panels one legend, each of its entries once: below the last of panels that stand below
    one another; else parted, the first entries below the first panel, the others below the next.
    """
    found = {
        label: handle
        for axis in axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    labels = sorted(found, key=lambda label: not label.startswith("measured"))
    entries = [(found[label], label) for label in labels]
    if stacked(axes):
        legend_below(axes[-1], columns=columns, entries=entries)
        return
    each = -(-len(entries) // len(axes))
    for index, axis in enumerate(axes):
        legend_below(axis, columns=columns, entries=entries[index * each : (index + 1) * each])


def legends_once(axes: Sequence[Axes], *, columns: int = 1) -> None:
    """Give each panel a legend below it, of what no panel before it has explained."""
    known: set[str] = set()
    for axis in axes:
        pairs = list(zip(*axis.get_legend_handles_labels(), strict=True))
        entries = [(handle, label) for handle, label in pairs if label not in known]
        entries.sort(key=lambda pair: not pair[1].startswith("measured"))
        known |= {label for _, label in pairs}
        legend_below(axis, columns=columns, entries=entries)


def for_slides(figure: Figure) -> None:
    """Make lines and marks heavier, in legends too."""
    legends = [axes.get_legend() for axes in figure.axes] + figure.legends
    drawn = [line for axes in figure.axes for line in axes.lines]
    for line in drawn + [line for one in legends if one for line in one.get_lines()]:
        line.set_linewidth(HEAVIER * line.get_linewidth())
        line.set_markersize(HEAVIER * line.get_markersize())
    for crowd in figure.findobj(PathCollection):
        crowd.set_sizes(HEAVIER**2 * crowd.get_sizes())


def lay_out(figure: Figure) -> None:
    """Lay a figure out; titles wider than their axes are broken into lines, and what depends on the
    room that was found is laid out again.
    """
    engine = figure.get_layout_engine()
    assert engine is not None, "a figure is made with constrained layout"
    engine.execute(figure)
    wrapped = [axes for axes in figure.axes if _wrapped(axes)]
    if wrapped or any(narrow(axes) for axes in figure.axes[:1]):
        engine.execute(figure)
    # Laid out once, for every kind of file; "none" would be an engine, which draws twice to save.
    figure.set_layout_engine(None)


def _wrapped(axes: Axes) -> bool:
    """Break a title that is wider than its axes; whether there was one."""
    title = axes.get_title(loc="left")
    if not title.strip() or "\n" in title:
        return False
    wide = axes._left_title.get_window_extent().width / axes.bbox.width  # type: ignore[attr-defined]
    if wide > WIDER_TITLE:
        axes.set_title(textwrap.fill(title, max(8, int(len(title) / wide))))
    return bool(wide > WIDER_TITLE)


def nothing(axes: Axes, words: str) -> None:
    """Say on empty axes why they are."""
    axes.set(xticks=[], yticks=[])
    axes.text(0.5, 0.5, words, ha="center", va="center", color=GREY, transform=axes.transAxes)


def size_axis(axes: Axes, largest: float, label: str) -> None:
    """Make x a logarithmic axis from 1 with whole numbers on it."""
    axes.set_xscale("log", base=2)
    powers = [2**k for k in range(0, 40, 2 if largest > 300 else 1) if 2**k <= largest]
    axes.set_xticks(powers, [f"{power:,}" for power in powers])
    axes.set_xticks([], minor=True)
    axes.set_xlim(0.92, largest * 1.09)
    axes.set_xlabel(label)
