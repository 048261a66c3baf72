"""Rounded numbers: value ± error, rounded together, in plain text, HTML and LaTeX.

The error keeps one or two significant digits by the rule of the Particle Data Group (Review of
Particle Physics, Introduction, section 5.3); the value has the same decimals. Missing values print
as n/a. Imports the standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from itertools import groupby
from typing import Any, Final

TWO_DIGITS_BELOW: Final = Decimal("3.55")
"""An error with leading digits 1.00 to 3.54 keeps two digits; 3.55 to 9.49 keep one, and 9.50 to
9.99 become 10.
"""
VALUE_DIGITS: Final = 3
"""Significant digits of a value without an error."""
MOST_DIGITS: Final = 7
"""Most significant digits of a value; a smaller error is rounded up to its last digit."""
PLAIN_FROM, PLAIN_BELOW = -3, 6
"""Range of powers of ten of the value that are written without ×10ᵏ."""
MISSING: Final = "n/a"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class Number:
    """A rounded value and error: decimal digits, to be multiplied by 10^`power`; None if missing.

    `has_error` says whether the value has a standard error; an unknown error prints as n/a.
    """

    value: str | None
    error: str | None = None
    power: int = 0
    has_error: bool = False

    @property
    def plain(self) -> str:
        """Plain text: `(1.2 ± 0.3)×10⁻⁵`."""
        return self._joined(" ± ", "×10" + str(self.power).translate(SUPERSCRIPTS), "-")

    @property
    def html(self) -> str:
        """HTML: `(1.2 ± 0.3)×10<sup>−5</sup>`, without characters to escape."""
        return self._joined(" ± ", f"×10<sup>{self.power}</sup>".replace("-", "−"), "−")

    @property
    def latex(self) -> str:
        r"""LaTeX: `$(1.2 \pm 0.3)\times 10^{-5}$`."""
        if self.value is None:
            return MISSING
        inner = self._joined(
            r" \pm ", rf"\times 10^{{{self.power}}}", "-", rf"\mathrm{{{MISSING}}}"
        )
        return f"${inner}$"

    @property
    def siunitx(self) -> str:
        """Input of siunitx: `1.2(3)e-5`, with the error in units of the last digit. An unknown
        error is omitted; a missing value is empty.
        """
        if self.value is None:
            return ""
        decimals = len(self.value.partition(".")[2])
        error = f"({Decimal(self.error).scaleb(decimals):.0f})" if self.error else ""
        return self.value + error + (f"e{self.power}" if self.power else "")

    def _joined(self, between: str, power: str, minus: str, missing: str = MISSING) -> str:
        if self.value is None:
            return MISSING
        text = self.value.replace("-", minus)
        if self.has_error:
            text += between + (missing if self.error is None else self.error)
        if not self.power:
            return text
        return f"({text}){power}" if self.has_error else text + power


def rounded(value: float, error: float | None = None, *, digits: int = VALUE_DIGITS) -> Number:
    """Round a value and its standard error; the error keeps one or two significant digits.

    Args:
        value: any float; not finite means missing.
        error: standard error, same unit. None: the value has no error (a count, a definition). Not
            finite: the error is unknown.
        digits: significant digits of a value with an unknown error or none.

    >>> [rounded(0.8271, error).plain for error in (0.0354, 0.0355, 0.0950)]
    ['0.827 ± 0.035', '0.83 ± 0.04', '0.83 ± 0.10']
    """
    if not math.isfinite(value):
        return Number(None, has_error=error is not None)
    exact = Decimal(repr(float(value)))
    spread = None if error is None or not math.isfinite(error) else abs(Decimal(repr(float(error))))
    size = max(
        (
            _exponent(x, k)
            for x, k in ((exact, MOST_DIGITS if spread else digits), (spread, 1))
            if x
        ),
        default=0,
    )
    power = 0 if PLAIN_FROM <= size < PLAIN_BELOW else size
    if spread:
        last = max(_last_of_error(spread), size - MOST_DIGITS + 1)
    else:
        whole = exact == exact.to_integral_value()
        last = size - digits + 1 if power else 0 if whole else min(size - digits + 1, 0)
    error_text = (
        None if spread is None else _digits(spread, last, power, up=_exponent(spread, 1) < last)
    )
    return Number(_digits(exact, last, power), error_text, power, has_error=error is not None)


def percent(share: float, digits: int = 1) -> str:
    """Return a share as percent: `97.5%`; rounding never gives 0 or 100; n/a if unknown."""
    if not math.isfinite(share):
        return MISSING
    text = f"{100 * share:.{digits}f}"
    step = 10.0**-digits
    if share > 0 and float(text) <= 0:
        return f"< {step:.{digits}f}%"
    if share < 1 and float(text) >= 100:
        return f"> {100 - step:.{digits}f}%"
    return f"{text.removesuffix('.' + '0' * digits) if share in (0, 1) else text}%"


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Return a count with its noun: `1 head`, `8,192 tokens`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def in_runs(sizes: Iterable[Any], selected: Iterable[Any]) -> str:
    """Return the selected sizes as ranges of neighbours among all sizes.

    >>> in_runs([2, 3, 4, 6, 8], [True, True, False, True, False])
    '2 to 3, 6'
    """
    runs = groupby(zip(sizes, selected, strict=True), key=lambda pair: bool(pair[1]))
    ends = [[int(size) for size, _ in run] for chosen, run in runs if chosen]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in ends)


def _last_of_error(error: Decimal) -> int:
    """Return the power of ten of the last digit that an error keeps."""
    first = error.adjusted()
    return first - (error.scaleb(-first) < TWO_DIGITS_BELOW)


def _exponent(number: Decimal, digits: int) -> int:
    """Return the exponent of the leading digit after rounding to `digits` digits; 0 for zero."""
    if not number:
        return 0
    first = number.adjusted()
    return number.quantize(
        Decimal(1).scaleb(first - digits + 1), rounding=ROUND_HALF_EVEN
    ).adjusted()


def _digits(number: Decimal, last: int, power: int, *, up: bool = False) -> str:
    """Return the digits of number / 10^power, rounded at 10^last."""
    if number and number.adjusted() < last - 1:
        whole = Decimal(1).scaleb(last) if up else Decimal(0)
    else:
        whole = number.quantize(
            Decimal(1).scaleb(last), rounding=ROUND_CEILING if up else ROUND_HALF_EVEN
        )
    text = f"{whole.scaleb(-power):.{max(0, power - last)}f}"
    return text if any(c in "123456789" for c in text) else text.removeprefix("-")
