"""Style of figures: colour-blind-safe colours, fonts, legends, layout.

Colours are those of Okabe & Ito (2008), "Color universal design". Imports matplotlib, never pyplot:
no figure is registered or stays open.
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
BLUE, ORANGE, GREEN = "#0072B2", "#E69F00", "#009E73"
VERMILLION, PURPLE, SKY = "#D55E00", "#AA4499", "#56B4E9"
"""PURPLE is darker than that of the palette, which is pale on white."""
DASHED, DASH_DOTTED = (0, (5, 1.5)), (0, (3, 1.2, 1, 1.2))

WIDTH: Final = 7.4
"""Width of a figure in inches: the page's column at 96 dots per inch."""

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

Kwargs = dict[str, Any]
"""Keyword arguments of a drawing function of matplotlib."""

NARROW: Final = 5.0
"""Inches below which a figure is for one column of a two-column paper: panels are stacked, and the
font has the size of a caption.
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
"""Differences from STYLE in a narrow figure."""

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
"""Differences from STYLE on a slide."""
SLIDE_SHAPE: Final = 9 / 16
"""Height of a slide over its width."""
Look = Literal["paper", "slides"]
WIDTHS: Final[dict[Look, float]] = {"paper": WIDTH, "slides": 10.0}
"""Default width of a figure in inches."""
ROOMY: Final = 50.0
"""Figure width, in units of the font size, from which all labels of an axis fit."""
TWO_COLUMNS: Final = 19.0
"""Axes width, in units of the font size, from which a legend in columns fits."""
WIDER_TITLE: Final = 1.08
"""Largest width of a title over the width of its axes."""
HEAVIER: Final = 1.5
"""Factor by which lines and markers are heavier on a slide."""


@contextmanager
def context(width: float = WIDTH, look: Look = "paper") -> Iterator[None]:
    """Provide the style for figures of a width in inches. Characters of foreign text that the font
    lacks are drawn as boxes, without a warning.
    """
    differences = SLIDES if look == "slides" else COLUMN if width < NARROW else {}
    with rc_context(STYLE | differences), warnings.catch_warnings():  # type: ignore[arg-type]
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        yield


def narrow(axes: Axes) -> bool:
    """Return whether the figure of the axes is narrow for its font: one column, or a slide."""
    figure = axes.get_figure(root=True)
    return figure is not None and figure.get_figwidth() * 72 < ROOMY * rcParams["font.size"]


def letters(axes: Axes) -> float:
    """Return the width of axes in units of the font size, before layout."""
    figure = axes.get_figure(root=True)
    wide = axes.get_position().width * (figure.get_figwidth() if figure else WIDTH)
    return float(72.0 * wide / rcParams["font.size"])


def labels_that_fit(axes: Axes) -> int:
    """Return how many tick labels fit on the vertical axis, at least two."""
    figure = axes.get_figure(root=True)
    high = axes.get_position().height * (figure.get_figheight() if figure else WIDTH)
    return max(2, int(0.8 * 72.0 * high / (1.25 * rcParams["font.size"])))


def stacked(axes: Sequence[Axes]) -> bool:
    """Return whether axes are stacked vertically."""
    first, last = axes[0].get_position(), axes[-1].get_position()
    return bool(last.y1 <= first.y0)


def legend_below(
    axes: Axes,
    *,
    columns: int = 2,
    entries: Sequence[tuple[Any, str]] | None = None,
) -> None:
    """Put the legend below the axes, their ticks and label, with measured entries first. Entries
    are those of the axes, or `entries`.
    """
    entries = entries_of(axes) if entries is None else entries
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


def entries_of(*axes: Axes) -> list[tuple[Any, str]]:
    """Return handles and labels of axes, each label once, measured entries first."""
    handle_of = {
        label: handle
        for axis in axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    labels = sorted(handle_of, key=lambda label: not label.startswith("measured"))
    return [(handle_of[label], label) for label in labels]


def legend_shared(axes: Sequence[Axes], *, columns: int = 1) -> None:
    """Give panels one legend without repeated entries: below the last of stacked panels; otherwise
    split evenly over the panels.
    """
    entries = entries_of(*axes)
    if stacked(axes):
        legend_below(axes[-1], columns=columns, entries=entries)
        return
    size = -(-len(entries) // len(axes))
    for index, axis in enumerate(axes):
        legend_below(axis, columns=columns, entries=entries[index * size : (index + 1) * size])


def legends_once(axes: Sequence[Axes], *, columns: int = 1) -> None:
    """Give each panel a legend below it, without entries of earlier panels."""
    known: set[str] = set()
    for axis in axes:
        entries = [entry for entry in entries_of(axis) if entry[1] not in known]
        known |= {label for _, label in entries}
        legend_below(axis, columns=columns, entries=entries)


def for_slides(figure: Figure) -> None:
    """Make lines and markers heavier, also in legends."""
    legends = [axes.get_legend() for axes in figure.axes] + figure.legends
    drawn = [line for axes in figure.axes for line in axes.lines]
    for line in drawn + [line for legend in legends if legend for line in legend.get_lines()]:
        line.set_linewidth(HEAVIER * line.get_linewidth())
        line.set_markersize(HEAVIER * line.get_markersize())
    for markers in figure.findobj(PathCollection):
        markers.set_sizes(HEAVIER**2 * markers.get_sizes())


def lay_out(figure: Figure) -> None:
    """Lay out a figure; wrap titles wider than their axes, and repeat the layout if needed."""
    engine = figure.get_layout_engine()
    assert engine is not None, "figures use constrained layout"
    engine.execute(figure)
    wrapped = [axes for axes in figure.axes if _wrapped(axes)]
    if wrapped or any(narrow(axes) for axes in figure.axes[:1]):
        engine.execute(figure)
    # One layout for all file formats; the engine "none" would draw twice on saving.
    figure.set_layout_engine(None)


def _wrapped(axes: Axes) -> bool:
    """Wrap a title that is wider than its axes; return whether it was."""
    title = axes.get_title(loc="left")
    if not title.strip() or "\n" in title:
        return False
    wide = axes._left_title.get_window_extent().width / axes.bbox.width  # type: ignore[attr-defined]
    if wide > WIDER_TITLE:
        axes.set_title(textwrap.fill(title, max(8, int(len(title) / wide))))
    return bool(wide > WIDER_TITLE)


def nothing(axes: Axes, words: str) -> None:
    """Write on empty axes why they are empty."""
    axes.set(xticks=[], yticks=[])
    axes.text(0.5, 0.5, words, ha="center", va="center", color=GREY, transform=axes.transAxes)


def size_axis(axes: Axes, largest: float, label: str, *, few: bool = False) -> None:
    """Make the x axis logarithmic from 1, with integer tick labels; `few` for a narrow panel."""
    axes.set_xscale("log", base=2)
    exponents = range(0, 13, 3) if few else range(0, 40, 2 if largest > 300 else 1)
    ticks = [2**exponent for exponent in exponents if 2**exponent <= largest]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(0.92, largest * 1.09)
    axes.set_xlabel(label)
