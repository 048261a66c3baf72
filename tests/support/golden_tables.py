"""Golden files of tables: some of a small made-up run, as each format writes them.

`PYTHONPATH=tests .venv/bin/python -m support.golden_tables` renews them; look at what `git diff`
says then.
"""

import json
from pathlib import Path

import xarray as xr
from support.reports_tree import with_kinds
from support.verdicts import judged

from reports.tables.paper import document
from reports.topics.listed import tables

FOLDER = Path(__file__).parents[1] / "golden"
NAMES = (
    *("scoreboard", "verdicts", "verdict_layers", "verdict_heads", "norms", "separability"),
    *("coverage", "kinds", "heads_norms", "errata"),
)
ROW = {
    "claim": "the sink's value is short",
    "here": "median λ = 0.25; holds in 3, fails in 1 of 4 KV heads",
    "answer": "confirmed",
    "paper": r"λ $\ll$ 1",
    "why": "as texts differ",
    "rule": "in more than half",
    "where": "§3.1",
}


def written() -> dict[str, str]:
    """The files of tables of a run with verdicts, kinds of text and one claim of the paper."""
    run = with_kinds(judged())
    summary = run["summary"].to_dataset().assign_attrs(scoreboard=json.dumps([ROW]))
    run["summary"] = xr.DataTree(summary)
    made = tables(run)
    shown = [made[name] for name in NAMES]
    return {
        "tables.tex": document(shown, 1),
        "tables_two_columns.tex": document(shown, 2),
        "tables.md": "\n".join(table.markdown() for table in shown),
        "tables.csv": "\n".join(f"{table.name}\n{table.csv()}" for table in shown),
        "tables.json": "[\n" + ",\n".join(table.json() for table in shown) + "\n]\n",
    }


if __name__ == "__main__":
    for name, content in written().items():
        (FOLDER / name).write_text(content, encoding="utf-8")
