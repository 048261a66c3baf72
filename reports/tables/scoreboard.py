"""Table of the scoreboard: the paper's claims, what it gives, what this run gives, and the answer.

Imports this room's cells, numbers and run. What is printed travels in /summary's attribute
`scoreboard`.
"""

from __future__ import annotations

import json

from reports.run import Run
from reports.tables.cells import header, mixed, text
from reports.tables.table import Table


def scoreboard_tables(run: Run) -> list[Table]:
    """The table; none where the run was confronted before there was one."""
    rows = json.loads(str(run.summary.attrs.get("scoreboard") or "[]"))
    if not rows:
        return []
    answers = [row["answer"] for row in rows]
    counts = ", ".join(
        f"{answers.count(answer)} {answer}" for answer in dict.fromkeys(sorted(answers))
    )
    caption = (
        "What arXiv 2602.01893 claims and a run can speak to, beside"
        f" {run.counted('document')} and one model: {counts}. An answer follows from its rule"
        " alone, the same for every run. “Mixed”: most heads settle the claim, some this way, some"
        " that. “Undetermined” is no evidence against a claim. Other texts and models may answer"
        " otherwise."
    )
    cells = [
        [
            *(mixed(row[key]) for key in ("claim", "here", "answer", "paper", "why")),
            *(text(row[key]) for key in ("rule", "where")),
        ]
        for row in rows
    ]
    headers = header("claim", "here", "answer", "paper", "remark", "rule", "where")
    name, title = "scoreboard", "Claims of the paper"
    narrow = Table(name, title, caption, headers[:4], [row[:4] for row in cells], "pplp")
    return [Table(name, title, caption, headers, cells, "ppppppp", narrow=narrow)]
