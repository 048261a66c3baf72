"""Columns of a table on paper: numbers aligned at the decimal sign by siunitx, words, sentences.

Imports the cells and the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from reports.tables.cells import Cell
from reports.tables.paper.width import EM_OF_FIGURES, width
from reports.tables.table import Table

_NUMBER: Final = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:\((\d+)\))?(?:e(-?)(\d+))?")
_CHUNK: Final = re.compile(r"(?:\\mbox\{[^}]*\}|\\.|~|\$[^$]*\$|[^\s$\\])+")
"""What a header is not broken within."""
ALLOW: Final = r"\allowbreak{}"
MOST_LINES: Final = 4
"""Lines of a sentence in a cell, for which a column is made wide enough where there is room."""
MOST_ZEROS: Final = 5
"""Powers of ten up to which all numbers of a column are written without."""
LONG: Final = 80.0
"""Points from which a cell of words may break into lines."""
HALF: Final = 0.6
"""Share of such a cell's width that holds it on two lines."""
NARROWEST: Final = 52.0
"""Points that a column of sentences has at least."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column as LaTeX sets it; widths are in points."""

    kind: str
    """S of numbers, l or r of words, X of sentences."""
    options: str
    """What siunitx is told of a column S."""
    header: str
    cells: Sequence[str]
    least: float
    """Width below which a word would stand out."""
    wanted: float
    """Width at which it reads well: of a column X that of few lines."""
    full: float
    """Width of its longest cell on one line."""

    def lines(self, room: float) -> list[int]:
        """Lines of each cell in a column of this width."""
        if self.kind in ("S", "l", "r", "c"):
            return [1] * len(self.cells)
        return [_lines(cell, room) for cell in self.cells]

    def tight(self) -> Column:
        """The column with cells of words on several lines."""
        if self.kind != "r" or self.least == self.wanted:
            return self
        kind = rf">{{\raggedleft\arraybackslash}}p{{{self.least:.0f}pt}}"
        return replace(self, kind=kind, wanted=self.least)


def columns(table: Table) -> list[Column]:
    """The columns of a table."""
    return [
        column(header, [row[index] for row in table.rows], letter)
        for index, (header, letter) in enumerate(zip(table.headers, table.align, strict=True))
    ]


def column(header: Cell, cells: Sequence[Cell], letter: str) -> Column:
    """One column: S where at least half of the cells that say something are numbers."""
    told = [cell for cell in cells if cell.sort != ""]
    if letter == "p":
        return _sentences(header, cells)
    if letter == "r" and told and 2 * sum(bool(cell.number) for cell in told) >= len(told):
        return _numbers(header, cells)
    written = [cell.latex for cell in cells]
    body = max(map(width, written), default=0.0)
    top, top_width = _wrapped(header.latex, body, letter)
    wide = max(body, top_width)
    words = [word for one in written for word in _CHUNK.findall(one)]
    least = max(top_width, HALF * body, *map(width, words)) + 2 if wide > LONG else wide
    return Column(letter, "", top, [_safe(one) for one in written], least, wide, wide)


def _sentences(header: Cell, cells: Sequence[Cell]) -> Column:
    """A column of sentences, no narrower than its longest word."""
    written = [breakable(cell.latex) for cell in cells]
    words = [
        part
        for sentence in (header.latex, *written)
        for word in _CHUNK.findall(sentence)
        for part in re.split(r"\\allowbreak\{\}|(?<=[a-z]-)(?=\w)", word)
    ]
    least = max(NARROWEST, *map(width, words)) + 2
    full = max([least, *map(width, written)])
    wanted = max(least, full / MOST_LINES)
    return Column("X", "", header.latex, [_safe(one) for one in written], least, wanted, full)


def _lines(cell: str, room: float) -> int:
    """Lines of a cell whose words go on in the next where they do not fit."""
    count, end = 1, 0.0
    for word in _CHUNK.findall(cell):
        wide = width(word)
        if end and end + width(" ") + wide > room:
            count, end = count + 1, wide
        else:
            end += wide + (width(" ") if end else 0.0)
    return count


def breakable(latex: str) -> str:
    r"""Text in which long names may break, behind a slash or a low line and every two dozen
    letters, and N = 2 may not.

    >>> print(breakable(r"org/my\_model at N = 2"))
    org/\allowbreak{}my\_\allowbreak{}model at N~=~2
    """
    marked = re.sub(r"(?<=\w\w)(?:/|\\_)(?=\w)", lambda found: found[0] + ALLOW, latex)
    marked = re.sub(r"(?<=[\w)]) = (?=\S)", "~=~", marked)
    marked = re.sub(r"(\$\\(?:le|ge|approx)\$) (?=[\d$])", r"\1~", marked)
    return re.sub(r"[A-Za-z0-9]{24}(?=[A-Za-z0-9])", lambda found: found[0] + ALLOW, marked)


def _numbers(header: Cell, cells: Sequence[Cell]) -> Column:
    """A column S: its format has room for the most digits before and behind the point, of errors,
    and of powers of ten.
    """
    numbers = [cell.number for cell in cells]
    powers_of_ten = [int(one.partition("e")[2]) for one in numbers if "e" in one]
    if powers_of_ten:
        far = max(map(abs, powers_of_ten)) > MOST_ZEROS
        numbers = [(scientific if far else plain)(one) for one in numbers]
    parts = [match.groups() for match in map(_NUMBER.fullmatch, numbers) if match]
    signs, wholes, decimals, errors, minus, powers = (
        [part[index] or "" for part in parts] for index in range(6)
    )
    most = [max(map(len, group)) for group in (wholes, decimals, errors, powers)]
    form = f"{'-' * any(signs)}{most[0]}"
    form += f".{most[1]}" * (most[1] > 0) + f"({most[2]})" * (most[2] > 0)
    form += f"e{'-' * any(minus)}{most[3]}" * (most[3] > 0)
    behind = max((cell.after for cell in cells), key=width, default="")
    options = f"table-format={form}"
    options += f",table-space-text-post={{{behind}}}" * bool(behind)
    words = [cell.latex for cell in cells if not cell.number]
    body = max(
        _room(signs=any(signs), digits=most, minus=any(minus)) + width(behind),
        *map(width, words),
        0.0,
    )
    top, top_width = _wrapped(header.latex, body, "c")
    wide = max(body, top_width)
    written = [
        number + f"{{{cell.after}}}" * bool(cell.after) if cell.number else f"{{{cell.latex}}}"
        for cell, number in zip(cells, numbers, strict=True)
    ]
    return Column("S", options, f"{{{top}}}", written, wide, wide, wide)


def plain(number: str) -> str:
    """A number without a power of ten, and the same digits behind zeros.

    >>> plain("9.8(12)e-4"), plain("5")
    ('0.00098(12)', '5')
    """
    value, _, power = number.partition("e")
    digits, bracket, error = value.partition("(")
    return f"{Decimal(digits).scaleb(int(power)):f}{bracket}{error}" if power else number


def scientific(number: str) -> str:
    """A number with one digit before the point, and the same digits in all.

    >>> scientific("0.00123(12)"), scientific("1.0e-5"), scientific("0")
    ('1.23(12)e-3', '1.0e-5', '0')
    """
    match = _NUMBER.fullmatch(number)
    if match is None or "e" in number:
        return number
    sign, whole, decimals, error, *_ = match.groups()
    digits = (whole + (decimals or "")).lstrip("0")
    power = Decimal(f"{whole}.{decimals or 0}").adjusted()
    if not digits or not power:
        return number
    point = f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{point}{f'({error})' if error else ''}e{power}"


def _room(*, signs: bool, digits: Sequence[int], minus: bool) -> float:
    """Points that siunitx keeps for numbers of a format: digits before and behind the point, of the
    error and of the power of ten.
    """
    whole, decimals, error, power = digits
    mills = 778 * signs + 500 * (whole + decimals + error) + 278 * (decimals > 0)
    mills += 778 * (error > 0) + 167 * (whole > 4)
    if power:
        mills += 1222 + 1000 + 430 * power + 700 * minus
    return mills * EM_OF_FIGURES / 1000


def _wrapped(header: str, room: float, letter: str) -> tuple[str, float]:
    """A header on as many lines as keep it within a column, and its width."""
    chunks = _CHUNK.findall(header)
    limit = max(room, *map(width, chunks), 0.0)
    lines: list[str] = []
    for chunk in chunks:
        joined = f"{lines[-1]} {chunk}" if lines else chunk
        if lines and width(joined) <= limit:
            lines[-1] = joined
        else:
            lines.append(chunk)
    if len(lines) < 2:
        return header, width(header)
    inner = r"\\ ".join(map(_safe, lines))
    return rf"\begin{{tabular}}[b]{{@{{}}{letter}@{{}}}}{inner}\end{{tabular}}", limit


def _safe(latex: str) -> str:
    """A cell that may stand at the beginning of a row, where a bracket or star would belong to the
    end of the row before.
    """
    return "{}" + latex if latex[:1] in ("[", "*") else latex
