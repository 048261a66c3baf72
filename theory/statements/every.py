"""Every statement, in the order of the paper's numbers, and what is true beyond print.

Source: arXiv 2602.01893, eq. (1)-(33), Definitions 1-3, Assumptions 1-3, Theorems 1-2, Corollary 1, Tables 1-2. Imports sympy.
"""

from __future__ import annotations

from functools import cache

from theory.statements.beyond import conditional, repaired, sharp
from theory.statements.predicted import predicted
from theory.statements.printed import appendix_margins, margin_definitions, printed_bounds
from theory.statements.record import Entry
from theory.statements.setting import setting
from theory.statements.tables import sink_effect, table_1, table_2

__all__ = ["Entry", "entries"]


@cache
def entries() -> tuple[Entry, ...]:
    """Return every statement, printed ones first, by equation number; rows of tables after them."""
    numbered = [*setting(), *margin_definitions(), *printed_bounds(), *appendix_margins(), *sink_effect()]
    numbered.sort(key=lambda entry: (entry.edition != "printed", int(entry.equation or 0)))
    return (*numbered, *table_1(), *table_2(), *repaired(), *sharp(), *conditional(), *predicted())
