"""Rendering of figures to SVG, PDF or PNG bytes: equal figures give equal bytes.

Imports matplotlib, never pyplot, and fontTools, its font subsetter.
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
