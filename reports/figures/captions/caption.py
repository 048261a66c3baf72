"""Caption of a figure: what is drawn, over how many heads and documents, what to look for, and what
was found.

The finding is made of this run's numbers, each of which is kept beside it; a sentence that a run
cannot support is left out. Imports nothing that draws.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from reports.text.number import MISSING, count, percent


@dataclass(frozen=True, slots=True)
class Quoted:
    """A number of a finding: what it is, its value in full, and the text that stands for it."""

    name: str
    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Caption:
    """Plain text of a caption. `finding` stands last and in bold; empty where there is nothing
    to find. `numbers` are those that it is made of.
    """

    text: str
    finding: str = ""
    numbers: tuple[Quoted, ...] = ()


@dataclass(slots=True)
class Numbers:
    """Numbers of a finding, kept as they are put in words.

    >>> numbers = Numbers()
    >>> f"Precision {numbers.figures('precision', 0.6712)}"
    'Precision 0.67'
    >>> numbers.all
    (Quoted(name='precision', value=0.6712, text='0.67'),)
    """

    kept: list[Quoted] = field(default_factory=list)

    @property
    def all(self) -> tuple[Quoted, ...]:
        """What was kept so far."""
        return tuple(self.kept)

    def _keep(self, name: str, value: float, text: str) -> str:
        self.kept.append(Quoted(name, float(value), text))
        return text

    def figures(self, name: str, value: float) -> str:
        """A number to two significant digits."""
        return self._keep(name, value, figures_of(value))

    def percent(self, name: str, share: float, digits: int = 1) -> str:
        """A share as percent."""
        return self._keep(name, share, percent(share, digits))

    def place(self, name: str, value: float) -> str:
        """A place in an order, which of an even number of documents may lie between two."""
        return self._keep(name, value, f"{value:g}" if np.isfinite(value) else MISSING)

    def whole(self, name: str, value: float) -> str:
        """A count, or a size N."""
        return self._keep(name, value, f"{int(value)}")

    def counted(self, name: str, number: int, noun: str) -> str:
        """A count with its noun."""
        self._keep(name, number, f"{number:,}")
        return count(number, noun)


def figures_of(value: float, digits: int = 2) -> str:
    """A number in running text, to two significant digits: `0.13`, `1.2×10⁻⁴`; n/a where
    unknown.
    """
    if not np.isfinite(value):
        return MISSING
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    if -4 <= int(power) < 5:
        return f"{value:.{max(0, digits - 1 - int(power))}f}"
    return f"{mantissa}×10{str(int(power)).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
