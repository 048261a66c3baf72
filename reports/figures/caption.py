"""Caption of a figure: description, sample sizes, reading advice, and the finding of this run.

The finding quotes numbers of this run and records each of them; sentences without data are omitted.
Imports no plotting library.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from reports.text.number import MISSING, count, percent


@dataclass(frozen=True, slots=True)
class Quoted:
    """A number of a finding: name, unrounded value, and printed text."""

    name: str
    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Caption:
    """Plain text of a caption. `finding` is printed last, in bold; it may be empty. `numbers` are
    the numbers quoted in it.
    """

    text: str
    finding: str = ""
    numbers: tuple[Quoted, ...] = ()


@dataclass(slots=True)
class Numbers:
    """Formatter of a finding's numbers that records every number.

    >>> numbers = Numbers()
    >>> f"Precision {numbers.figures('precision', 0.6712)}"
    'Precision 0.67'
    >>> numbers.all
    (Quoted(name='precision', value=0.6712, text='0.67'),)
    """

    recorded: list[Quoted] = field(default_factory=list)

    @property
    def all(self) -> tuple[Quoted, ...]:
        """Numbers recorded so far."""
        return tuple(self.recorded)

    def _record(self, name: str, value: float, text: str) -> str:
        self.recorded.append(Quoted(name, float(value), text))
        return text

    def figures(self, name: str, value: float) -> str:
        """Format a number to two significant digits."""
        return self._record(name, value, figures_of(value))

    def percent(self, name: str, share: float, digits: int = 1) -> str:
        """Format a share as percent."""
        return self._record(name, share, percent(share, digits))

    def place(self, name: str, value: float) -> str:
        """Format a rank; a median over an even number of documents may be half-integer."""
        return self._record(name, value, f"{value:g}" if np.isfinite(value) else MISSING)

    def whole(self, name: str, value: float) -> str:
        """Format a count, or a size N."""
        return self._record(name, value, f"{int(value)}")

    def counted(self, name: str, number: int, noun: str) -> str:
        """Format a count with its noun."""
        self._record(name, number, f"{number:,}")
        return count(number, noun)


def figures_of(value: float, digits: int = 2) -> str:
    """Format a number to two significant digits: `0.13`, `1.2×10⁻⁴`; n/a if unknown."""
    if not np.isfinite(value):
        return MISSING
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    if -4 <= int(power) < 5:
        return f"{value:.{max(0, digits - 1 - int(power))}f}"
    return f"{mantissa}×10{str(int(power)).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
