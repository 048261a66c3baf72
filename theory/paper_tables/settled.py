"""Tables 1 and 2 of the paper as they are settled: what is printed, what is true, the verdict.

Source: arXiv 2602.01893, Tables 1 and 2. Nothing is simulated or derived.
"""

from __future__ import annotations

from theory.paper_tables.printed import PRINTED_REGIMES
from theory.paper_tables.table_1 import ROWS
from theory.paper_tables.table_2 import TABLE_2

Rows = list[dict[str, str]]


def settled_tables() -> dict[str, Rows]:
    """Rows of each table by its name, each by column.

    >>> settled_tables()["table_1"][0]["printed"]
    '↑ exponentially'
    """
    first = [
        {"raised": row.name, "printed": row.printed, "verdict": row.verdict, "true": row.settled}
        for row in ROWS
    ]
    second = [
        {
            "row": row.row,
            "sizes": (printed := PRINTED_REGIMES[row.row]).sizes,
            "composition": printed.composition,
            "trend": printed.trend,
            "effect": printed.effect,
            "verdict": row.verdict,
            "true": row.true,
        }
        for row in TABLE_2
    ]
    return {"table_1": first, "table_2": second}
