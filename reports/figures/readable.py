"""Labels of figures in which foreign text stands: whatever matplotlib cannot set is set as plain
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
"""Letters of a line that are set; geostat's own have a hundred at most."""


def readable(artist: Artist) -> None:
    """Have every text of a figure, or of axes, set its lines as `_line` tells. To be called when
    all of them are made.
    """
    for text in artist.findobj(Text):
        text._preprocess_math = partial(_line, text)  # type: ignore[attr-defined]


def _line(text: Any, line: str) -> tuple[str, bool | str]:
    """A line as it is set, and whether as maths, or by TeX: printable; plain where its maths is
    none; for TeX, which a user may have set, with no command but those of known expressions.
    """
    line = printable(line if len(line) <= _MOST_LETTERS else f"{line[:_MOST_LETTERS]}…")
    if text.get_usetex():
        return mixed_latex(line) if line.strip() else r"\ ", "TeX"
    shown, maths = Text._preprocess_math(text, line)  # type: ignore[attr-defined]
    return (shown, maths) if not maths or _is_maths(shown) else (line, False)


@lru_cache(maxsize=1024)
def _is_maths(line: str) -> bool:
    """Whether matplotlib can set a line that has dollar signs in pairs."""
    try:
        _PARSER.parse(line)
    except Exception:  # of the parser, or deep within: in either case it is no maths
        return False
    return True
