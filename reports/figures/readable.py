"""Labels with foreign text in figures: text that matplotlib cannot typeset as maths is set as plain
text. Imports matplotlib, never pyplot.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, Final

from matplotlib.artist import Artist
from matplotlib.mathtext import MathTextParser
from matplotlib.text import Text

from reports.text.latex import mixed_latex
from reports.text.printable import printable

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
