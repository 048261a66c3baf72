"""How figures look: colours that readers with colour-blindness tell apart, type, and files that are
the same for the same data.

Colours are those of Okabe & Ito (2008), "Color universal design". Imports matplotlib, never pyplot:
nothing is registered, nothing stays open.
"""

from __future__ import annotations

import io
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.axes import Axes
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

_UNDATED: Final[dict[str, dict[str, Any]]] = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
PNG_DOTS = 200
"""Dots an inch of the PNG files."""


def context(width: float = WIDTH) -> Any:
    """Return a context in which figures so many inches wide are drawn and saved."""
    return rc_context(STYLE | COLUMN if width < NARROW else STYLE)  # type: ignore[arg-type]


def narrow(axes: Axes) -> bool:
    """Whether the axes stand in a figure for one column of two."""
    figure = axes.get_figure(root=True)
    return figure is not None and figure.get_figwidth() < NARROW


def rendered(figure: Figure, kind: str) -> bytes:
    """Return a figure as the bytes of a file: svg, pdf or png. Equal figures give equal bytes."""
    buffer = io.BytesIO()
    with context():
        figure.savefig(
            buffer,
            format=kind,
            metadata=_UNDATED[kind],
            dpi=PNG_DOTS if kind == "png" else "figure",
        )
    return buffer.getvalue()


def legend_below(axes: Axes, *, columns: int = 2, points: float = 36.0) -> None:
    """Put the legend so many points below the axes, behind ticks and label, where it covers no
    data; what was measured comes first.
    """
    figure = axes.figure
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda index: not labels[index].startswith("measured"))
    below = axes.transAxes + ScaledTranslation(0, -points / 72.0, figure.dpi_scale_trans)
    axes.legend(
        [handles[index] for index in order],
        [labels[index] for index in order],
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=below,
        ncols=columns,
        columnspacing=1.4,
        borderaxespad=0.0,
    )


def size_axis(axes: Axes, largest: float, label: str) -> None:
    """Make x a logarithmic axis from 1 with whole numbers on it."""
    axes.set_xscale("log", base=2)
    powers = [2**k for k in range(0, 40, 2 if largest > 300 else 1) if 2**k <= largest]
    axes.set_xticks(powers, [f"{power:,}" for power in powers])
    axes.set_xticks([], minor=True)
    axes.set_xlim(0.92, largest * 1.09)
    axes.set_xlabel(label)
