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
    return [
        Table(
            name="scoreboard",
            title="Claims of the paper",
            headers=header("claim", "here", "answer", "paper", "remark", "rule", "where"),
            rows=[
                [
                    *(mixed(row[key]) for key in ("claim", "here", "answer", "paper", "why")),
                    *(text(row[key]) for key in ("rule", "where")),
                ]
                for row in rows
            ],
            align="ppppppp",
            widths=dict(enumerate(("2.7cm", "3.9cm", "1.9cm", "2.7cm", "3.4cm", "3.2cm", "1.9cm"))),
            on_paper=[[0, 1, 2, 3], [0, 4, 5, 6]],
            paper_rows=3,
            caption=(
                "What arXiv 2602.01893 claims and a run can speak to, beside"
                f" {run.counted('document')} and one model: {counts}. An answer follows from its"
                " rule alone, the same for every run. “Undecided” is no evidence against a claim."
                " Other texts and models may answer otherwise."
            ),
        )
    ]
