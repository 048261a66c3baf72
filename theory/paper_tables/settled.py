"""Tables 1 and 2 of the paper: printed claim, correct statement and verdict of each row.

Source: arXiv 2602.01893, Tables 1 and 2. The verdicts are recorded, not recomputed.
"""

from __future__ import annotations

from theory.paper_tables.table_1 import ROWS
from theory.paper_tables.table_2 import TABLE_2

Rows = list[dict[str, str]]


def settled_tables() -> dict[str, Rows]:
    """Return the rows of each table by table name; each row maps column to text.

    >>> settled_tables()["table_1"][0]["printed"]
    '↑ exponentially'
    """
    first = [
        {"raised": row.name, "printed": row.printed, "verdict": row.verdict, "true": row.settled}
        for row in ROWS
    ]
    columns = ("row", "sizes", "composition", "trend", "effect", "verdict", "true")
    second = [{name: getattr(row, name) for name in columns} for row in TABLE_2]
    return {"table_1": first, "table_2": second}
