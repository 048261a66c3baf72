"""The table of swapped ingredients: which assumption keeps measured curves out of their bounds. Imports this room's cells and pooled runs."""

from __future__ import annotations

from reports.run import Run
from reports.tables.cells import Cell, missing, mixed, number, percentage, stacked
from reports.tables.table import Table
from reports.text.number import count

WORDS = {
    "none": "all three fitted",
    "weights": "weights measured",
    "norms": "norms measured",
    "similarity": "similarity measured",
    "all but weights": "only weights fitted",
    "all but norms": "only norms fitted",
    "all but similarity": "only similarity fitted",
    "all": "all three measured",
}
"""How a swap is told."""


def ingredient_tables(run: Run) -> list[Table]:
    """The table; none where the run holds no swaps."""
    data = run.ingredients
    if data is None:
        return []
    rows = []
    for swap in data["swap"].values:
        at = data.sel(swap=swap)
        row: list[Cell] = [mixed(WORDS.get(str(swap), str(swap)))]
        for statistic in ("precision", "recall"):
            row += [percentage(float(at[f"{statistic}_inside"])), missing() if swap == "none" else percentage(float(at[f"{statistic}_regained"])),
                    number(float(at[f"{statistic}_width"]), digits=2)]  # fmt: skip
        rows.append(row)
    headers = [mixed("ingredients of the sharp bound")]
    headers += [stacked(f"${short}$", word) for short in "PR" for word in ("inside", "regained", "width")]
    lost = " and ".join(f"{int(data[f'{name}_lost']):,} of {short}" for name, short in (("precision", "P"), ("recall", "R")))
    moved = int((data["moved"] > 0).sum())
    nearest = f", moved to the nearest that vectors can have in {count(moved, 'value head')}" if moved else ""
    caption = (
        f"Sharp bounds from fitted weights (Assumption 3), norms (Assumption 1) and {data.attrs['gram']} similarity (Assumption 2), with some "
        f"measured instead. Inside: share of (head, N) cells, {count(run.heads, 'head')}, 1 < N < T, whose measured mean lies within. Regained: of "
        f"the cells that are outside with all three fitted ({lost}), the share inside. Width: mean distance of the bounds. Measured weights: each "
        f"document's own; measured norms and cosines: document means by position and by lag{nearest}."
    )
    return [
        Table(
            name="ingredients",
            title="Which assumption breaks the bounds?",
            headers=headers,
            rows=rows,
            align="l" + "r" * 6,
            caption=caption,
        )
    ]
