"""The trial of the normaliser's statements written down: what was drawn, and a table of violations.

`python -m theory.normaliser docs/studies/normaliser.md` writes docs/studies/normaliser.md. Nothing
of it is typed by hand. Imports numpy.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from theory.normaliser import samples
from theory.normaliser.trial import AGAIN, ROUNDING, SIGMAS, Cell, Key, Tally

PRINTED: Final = frozenset(
    {
        "weight_lower",
        "weight_upper",
        "softmax_weight_lower",
        "softmax_weight_upper",
        "distance_sum_upper",
        "share_within_lower",
        "share_within_upper",
        "softmax_slope_upper",
        "jacobian_norm_upper",
    }
)
"""Statements of the paper; all others are claimed here."""

COMMAND: Final = ".venv/bin/python -m theory.normaliser docs/studies/normaliser.md"


def document(tally: Tally, *, rows: int, seed: int, draws: int) -> str:
    """Return the trial as a Markdown document."""
    printed = {key: cells for key, cells in tally.cells.items() if key[0] in PRINTED}
    claimed = {key: cells for key, cells in tally.cells.items() if key[0] not in PRINTED}
    count = sum(cell.beyond for cells in claimed.values() for cell in cells)
    total = sum(len(cells) for cells in claimed.values())
    return "\n".join(
        [
            "# Normaliser against simulation",
            "",
            f"Written by `{COMMAND}`.",
            "",
            (
                "The statements of “Limitations of Normalization in Attention Mechanism” (arXiv"
                " 2508.17821), and what stands beside them, at random rows. `geostat theory NAME`"
                " prints one. What is wrong in print is in [the errata](../reference/errata.md),"
                " from 101 on."
            ),
            "",
            *_how(rows, seed, draws),
            "",
            "## In print",
            "",
            *_table(printed),
            "",
            "## Claimed here",
            "",
            (
                f"Target: none violated. Seen: {count} of {total:,} cells,"
                f" {'met' if count == 0 else '**missed**'}."
            ),
            "",
            *_table(claimed),
            "",
        ]
    )


def _how(rows: int, seed: int, draws: int) -> list[str]:
    """Return what is drawn, how it is judged, and what the columns mean."""
    (least, most), (low, high) = samples.LENGTHS, samples.DIMENSIONS
    few, many = samples.SELECTED
    return [
        (
            f"- **Rows.** {rows:,} each, seed {seed}, of four kinds. Logits: L {least} to {most}"
            f" tokens, Δ up to {samples.LARGEST_LOGIT:g}, T from 0.1 to 3; spread out, a few far"
            f" above the rest, or nearly tied. Heads: the same L, {low} to {high} dimensions, 1 to"
            " L − 1 selected tokens, the largest weights or (a third) any. Means over random sets"
            f" of such heads. Selections: {few} to {many} tokens with"
            f" {samples.RADII} radii each, for Theorem 2."
        ),
        (
            f"- **Judges.** What holds at every row counts as violated beyond rounding"
            f" ({ROUNDING:g} of its size). A mean counts beyond {SIGMAS:g} standard errors of"
            f" {draws} draws, and then of {AGAIN} times as many."
        ),
        (
            "- **By at most**: how far beyond the bound the worst cell lies, as a share of the"
            " larger of bound and truth. **Slack**: how far within it the median cell lies,"
            " likewise; 0 is attained, 1 says nothing."
        ),
    ]


def _table(tallied: dict[Key, list[Cell]]) -> list[str]:
    """Return the rows of a table, one a statement and reading."""
    lines = [
        "| statement | read as | cells | violated | by at most | slack, median |",
        "|---|---|---|---|---|---|",
    ]
    for (name, reading), cells in tallied.items():
        beyond = [cell for cell in cells if cell.beyond]
        worst = max((cell.excess / cell.size for cell in beyond), default=0.0)
        slack = np.median([cell.slack for cell in cells])
        lines.append(
            f"| {name} | {reading or '–'} | {len(cells):,} | {len(beyond)} |"
            f" {f'{worst:.2f}' if beyond else '–'} | {slack:.2f} |"
        )
    return lines
