"""Entry of a page: a topic's question, with its figures, tables and answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.axes import Axes

from reports.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A topic of the page. The scoreboard row named first in `rows` answers its question if no key
    result has the topic's key.
    """

    key: str
    short: str
    question: str
    figures: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    claim: str = ""
    """Claim of /verdicts whose layers are listed."""
    quantity: str = ""
    """Quantity in the table of kinds of text."""
    fit: str = ""
    """Further arguments of `gs.fit_head`."""
    remarks: Callable[[Run], list[str]] = lambda run: []
    """Returns the sentences below the answer."""
    card: str = ""
    """Title of the card of its key result; empty without one."""
    curve: Callable[[Axes, Run], None] | None = None
    """Draws the sparkline of the key result."""
    curve_words: str = ""
    """Label of the sparkline, visible and for screen readers."""
