"""Cells of tables: numbers, shares, intervals, symbols and text in plain text, HTML and LaTeX.
Imports markupsafe and xarray.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import xarray as xr
from markupsafe import Markup, escape

from reports.run import with_limits
from reports.text.latex import is_expression, math_html, mixed_html, mixed_latex, text_latex
from reports.text.number import MISSING, percent, rounded
from reports.text.printable import printable


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table. `sort` is the sort key on the page: a number, or text."""

    plain: str
    html: Markup
    latex: str
    sort: float | str = ""
    maths: bool = False
    """Whether `plain` is geostat's text, in which dollar signs enclose LaTeX."""
    number: str = ""
    """Number for siunitx, such as 0.671(5); empty for text."""
    after: str = ""
    """LaTeX after that number, such as a percent sign."""


def text(value: object) -> Cell:
    """Return a cell of foreign text, escaped in every format, including dollar signs."""
    plain = printable(str(value))
    return Cell(plain, escape(plain), text_latex(plain), plain)


def mixed(value: object) -> Cell:
    """Return a cell of geostat's text, with mathematics between dollar signs."""
    plain = printable(str(value))
    return Cell(plain, mixed_html(plain), mixed_latex(plain), plain, maths=True)


def symbol(latex: str) -> Cell:
    """Return a cell with a symbol, given as LaTeX without dollar signs; foreign text if it is not
    an expression.
    """
    if not is_expression(latex):
        return text(latex)
    return (
        Cell(f"${latex}$", math_html(latex), f"${latex}$", latex, maths=True)
        if latex
        else Cell("", Markup(""), "")
    )


def whole(value: float) -> Cell:
    """Return a cell with a count or an index."""
    if not math.isfinite(value):
        return missing()
    html = Markup(f"{int(value):,}" if abs(value) >= 10_000 else f"{int(value)}")
    digits = f"{int(value)}"
    return Cell(digits, html, f"${digits}$", float(value), number=digits)


def whole_with_limits(data: xr.Dataset, name: str) -> Cell:
    """Return a cell with a count and its interval in brackets, from scalar variables."""
    value, low, high = with_limits(data, name)
    if not np.isfinite([value, low, high]).all():
        return whole(value)
    ends = f"[{low:.0f}, {high:.0f}]"
    return Cell(
        f"{value:.0f} {ends}",
        Markup(f"{value:.0f} {ends}"),
        rf"${value:.0f}$ \mbox{{{ends}}}",
        value,
    )


def number(value: float, error: float | None = None, *, digits: int = 3) -> Cell:
    """Return a cell with a number and its standard error, if it has one (see `rounded`)."""
    shown = rounded(value, error, digits=digits)
    return Cell(
        shown.plain,
        Markup(shown.html),
        shown.latex,
        float(value) if math.isfinite(value) else "",
        number=shown.siunitx,
    )


def estimate(data: xr.Dataset, name: str) -> Cell:
    """Return a cell with a number and its standard error, from scalar variables."""
    return number(float(data[name]), float(data[f"{name}_se"]))


def between(middle: float, low: float, high: float) -> Cell:
    """Return a cell with a median and its quartiles in brackets."""
    parts = [rounded(part) for part in (middle, low, high)]
    if parts[0].value is None:
        return missing()
    a, b, c = parts
    html = Markup(
        f'<span class="whole">{a.html}</span> <span class="whole">[{b.html}, {c.html}]</span>'
    )
    bracket = f"[{b.latex}, {c.latex}]"  # on one line if short enough for a column
    latex = f"{a.latex} {bracket}" if b.power or c.power else rf"{a.latex} \mbox{{{bracket}}}"
    return Cell(f"{a.plain} [{b.plain}, {c.plain}]", html, latex, middle)


def share(value: float, plain: str) -> Cell:
    """Return a cell with a share that the caller formatted as percent."""
    digits, sign, more = plain.partition("%")
    alone = bool(sign) and not more and digits.replace(".", "", 1).isdecimal()
    return Cell(
        plain,
        escape(plain),
        text_latex(plain),
        value if math.isfinite(value) else "",
        number=digits if alone else "",
        after=r"\%" if alone else "",
    )


def percentage(value: float, digits: int = 1) -> Cell:
    """Return a cell with a share as percent; n/a if unknown.

    >>> percentage(0.25).plain, percentage(float("nan")).plain
    ('25.0%', 'n/a')
    """
    return share(value, percent(value, digits)) if math.isfinite(value) else missing()


def p_value(value: float) -> Cell:
    """Return a cell with a p-value to two digits, or "<0.0001".

    >>> p_value(0.0123).plain, p_value(1e-9).plain
    ('0.012', '<0.0001')
    """
    if math.isfinite(value) and value < 1e-4:
        return Cell("<0.0001", escape("<0.0001"), "$<0.0001$", value)
    return number(value, digits=2)


def interval(low: float, high: float) -> Cell:
    """Return a cell with the limits of an interval; n/a if unknown.

    >>> interval(-0.5, 0.25).plain
    '-0.50 to 0.25'
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return missing()
    a, b = rounded(low, digits=2), rounded(high, digits=2)
    plain = f"{a.plain} to {b.plain}"
    return Cell(plain, escape(plain.replace("-", "−")), f"{a.latex} to {b.latex}", low)


def limits(data: xr.Dataset, name: str) -> Cell:
    """Return a cell with the limits of an interval, from scalar variables."""
    return interval(float(data[f"{name}_lower"]), float(data[f"{name}_upper"]))


def header(*words: str) -> list[Cell]:
    """Return a row of headers of geostat's text."""
    return [mixed(word) for word in words]


def missing() -> Cell:
    """Return a cell for a missing value."""
    return Cell(MISSING, Markup(MISSING), MISSING, "")
