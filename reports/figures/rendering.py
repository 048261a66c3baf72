"""Figures as bytes of a file, SVG, PDF or PNG: equal figures give equal bytes.

Imports matplotlib, never pyplot, and fontTools, which cuts fonts for it.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from fontTools.subset import Options
from matplotlib.figure import Figure

from reports.figures.style import Look, context

_UNDATED: Final[dict[str, dict[str, Any]]] = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
PNG_DOTS = 200
"""Dots an inch of the PNG files."""
_PLACES, _DIGITS = re.compile(rb'\b(?:d|x|y)="[^"]*"'), re.compile(rb"(\.\d\d)\d+")
"""Coordinates in an SVG file, and decimals of a number there."""


def rendered(figure: Figure, kind: str, dots: float = PNG_DOTS) -> bytes:
    """Return a figure as the bytes of a file: svg, pdf, or png of so many dots an inch. Equal
    figures give equal bytes.

    Its label is the look that it was drawn in: ticks that are made only now are to have its type.
    """
    buffer = io.BytesIO()
    look: Look = "slides" if figure.get_label() == "slides" else "paper"
    with context(figure.get_figwidth(), look), _letters_alone(), _no_date_of_the_environment():
        figure.savefig(
            buffer,
            format=kind,
            metadata=_UNDATED[kind],
            dpi=dots if kind == "png" else "figure",
        )
    return _shortened(buffer.getvalue()) if kind == "svg" else buffer.getvalue()


_LAYOUT: Final = ("GDEF", "GPOS", "GSUB", "kern")
"""Tables of a font by which text is laid out."""


@contextmanager
def _letters_alone() -> Iterator[None]:
    """Cut fonts to their letters, without the tables of `_LAYOUT`: in a PDF every letter has its
    place already, and cutting these tables takes longer than all the rest of the file. matplotlib
    has no option for it, so fontTools' own default is changed for as long.
    """
    known = Options._drop_tables_default
    Options._drop_tables_default = [*known, *_LAYOUT]
    try:
        yield
    finally:
        Options._drop_tables_default = known


@contextmanager
def _no_date_of_the_environment() -> Iterator[None]:
    """Keep SOURCE_DATE_EPOCH from matplotlib, which fails where it is no number, though no figure
    has a date.
    """
    known = os.environ.pop("SOURCE_DATE_EPOCH", None)
    try:
        yield
    finally:
        if known is not None:
            os.environ["SOURCE_DATE_EPOCH"] = known


def _shortened(svg: bytes) -> bytes:
    """Cut coordinates to hundredths of a point, which nobody sees: a third of the bytes."""
    return _PLACES.sub(lambda match: _DIGITS.sub(rb"\1", match[0]), svg)
