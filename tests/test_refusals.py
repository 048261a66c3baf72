"""Every refusal of schema 4, by its wording then and now: none was lost when words changed."""

import csv
from pathlib import Path

from support.places import GOLDEN
from support.refusals import wordings

ROOT = Path(__file__).parents[1]


def test_every_refusal_is_still_made() -> None:
    with (GOLDEN / "refusals.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(rows) > 480
    made = "\n".join(wordings(ROOT))
    notes = {"(a script in studies/)", "(no such option)"}
    lost = [row for row in rows if row["now"] not in notes and row["now"] not in made]
    assert lost == []
