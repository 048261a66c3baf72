"""Layout of a table on paper: which columns stand side by side, and whether it goes into a column,
across both columns of a page, or over several pages.

Imports the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from reports.tables.paper.columns import Column, columns
from reports.tables.paper.width import width
from reports.tables.table import Table

BESIDE: Final = 7.6
"""Points between two columns."""
LINE: Final = 9.5
"""Points from line to line at \\footnotesize."""
PAGE: Final = 500.0
"""Points that a float may be high; a plain article has 550."""
AROUND: Final = 44.0
"""Points that caption, rules and the space about them take."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table goes: an environment, and how wide it may be."""

    environment: str
    room: float


PLACES: Final = {
    1: (Place("table", 344.5),),
    2: (Place("table", 229.0), Place("table*", 468.5)),
}
"""Places by the paper's columns, narrow ones first, less half a point: \\linewidth of a plain
article is 345 points, that of its two columns 229.5, and of both together 469.
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """A table laid out: its place, columns side by side in each panel, and whether it breaks over
    pages, where it stands in one column of the full width.
    """

    place: Place
    columns: Sequence[Column]
    panels: Sequence[Sequence[int]]
    long: bool


def layout(table: Table, paper_columns: int) -> Layout:
    """The first place that has room for all columns side by side on one page, where need be with
    words on several lines; else the widest, over several pages or in panels.
    """
    natural = columns(table)
    tight = [one.tight() for one in natural]
    cramped = [replace(one, wanted=one.least) for one in tight]
    everything, places = range(len(natural)), PLACES[paper_columns]
    for place in places:
        for made in (natural, tight):
            if _wanted(made, everything) <= place.room:
                if _high(table, made, [everything], place) <= PAGE:
                    return Layout(place, made, [everything], long=False)
                break
    widest = places[-1]
    for made in (natural, tight, cramped):
        panels: Sequence[Sequence[int]] = [everything]
        if _wanted(made, everything) <= widest.room:
            break
    else:
        made, panels = tight, _balanced(tight, table.keys, widest.room)
    return Layout(widest, made, panels, long=_high(table, made, panels, widest) > PAGE)


def _panels(made: Sequence[Column], keys: int, room: float) -> list[list[int]]:
    """Columns side by side: in each panel those that name a row, and as many others as fit."""
    panels: list[list[int]] = []
    for index in range(keys, len(made)):
        if panels and _wanted(made, [*panels[-1], index]) <= room:
            panels[-1].append(index)
        else:
            panels.append([*range(keys), index])
    return panels or [list(range(keys))]


def _balanced(made: Sequence[Column], keys: int, room: float) -> list[list[int]]:
    """As few panels as fit, about equally wide."""
    panels = _panels(made, keys, room)
    while room > 0 and len(closer := _panels(made, keys, room := room - BESIDE)) == len(panels):
        panels = closer
    return panels


def _wanted(made: Sequence[Column], panel: Sequence[int]) -> float:
    return sum(made[index].wanted for index in panel) + BESIDE * (len(panel) - 1)


def widths(made: Sequence[Column], panel: Sequence[int], room: float) -> dict[int, float]:
    """Points of each column of sentences of a panel: of what the others leave a share by the length
    of its sentences, but no less than its longest word needs.
    """
    left = room - BESIDE * (len(panel) - 1)
    left -= sum(made[index].wanted for index in panel if made[index].kind != "X")
    shared = {
        index: sum(map(width, made[index].cells)) + 1 for index in panel if made[index].kind == "X"
    }
    found: dict[int, float] = {}
    while shared:
        every = sum(shared.values())
        shares = {index: left * length / every for index, length in shared.items()}
        short = {index: made[index].least for index in shares if shares[index] < made[index].least}
        if not short:
            return found | shares
        found |= short
        left -= sum(short.values())
        shared = {index: length for index, length in shared.items() if index not in short}
    return found


def _high(
    table: Table, made: Sequence[Column], panels: Sequence[Sequence[int]], place: Place
) -> float:
    """Points that the table takes, with caption and notes."""
    lines = width(table.caption) / place.room
    rules = 0.0
    for panel in panels:
        room = widths(made, panel, place.room)
        rows = [made[index].lines(room.get(index, place.room)) for index in panel]
        lines += sum(map(max, zip(*rows, strict=True))) + 2
        rules += 14 + 2 * len(table.rows) * bool(room)
    return AROUND + rules + LINE * (lines + 1)
