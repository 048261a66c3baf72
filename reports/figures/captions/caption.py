"""Caption of a figure: what is drawn, over how many heads and documents, what to look for, and what
was found.

The finding is made of this run's numbers; a sentence that a run cannot support is left out. Imports
nothing that draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reports.text.number import MISSING


@dataclass(frozen=True, slots=True)
class Caption:
    """Plain text of a caption. `finding` stands last and in bold; empty where there is nothing
    to find.
    """

    text: str
    finding: str = ""


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
