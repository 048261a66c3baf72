"""Tables of verdicts for paper: short names of claims, numbers and signs alone.

Imports this room's cells, numbers and run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from reports.run import Run, column, words_of
from reports.tables.cells import Cell, header, missing, mixed, share, text, whole
from reports.tables.table import Table
from reports.text.number import percent

SIDES = {"at_most": "≤", "at_least": "≥", "within": "|·| ≤"}
SIGNS = {"holds": "+", "fails": "−", "undetermined": "·"}
"""What stands for an answer where there is room for one sign."""
COUNTS = ("holds", "fails", "undetermined", "holds_adjusted", "fails_adjusted")


def tolerance(claim: Mapping[str, Any]) -> str:
    """The tolerance of a claim, behind its side: `≤ 0.05`."""
    return f"{SIDES[claim['side']]} {claim['tolerance']:g}"


def narrow_verdicts(run: Run, data: xr.Dataset, claims: Sequence[dict[str, Any]]) -> Table:
    """One row a claim; what a star and a dagger mean stands below."""
    rows: list[list[Cell]] = []
    for claim in claims:
        at = data.sel(claim=claim["key"])
        value, low, high = (
            float(at.get(f"true_share{end}", np.nan)) for end in ("", "_lower", "_upper")
        )
        limits = f"{100 * low:.0f}–{percent(high, 0)}" if np.isfinite(low) else ""
        rows.append(
            [
                mixed(f"{called(claim)}{'†' * (claim['of'] == 'kv_head')} ({tolerance(claim)})"),
                *(whole(float(at[name])) if name in at else missing() for name in COUNTS),
                share(value, percent(value, 0)) if np.isfinite(value) else missing(),
                share(low, limits) if limits else missing(),
            ]
        )
    rate = percent(float(data.attrs["false_discovery_rate"]), 0)
    caption = (
        "Heads of which a claim holds (the 95% interval of the effect lies within the tolerance),"
        f" fails (outside) or is undetermined (neither), over {run.counted('document')}. * Of"
        f" these, those left where at most {rate} of a claim’s answers are to be false in"
        " expectation"
        " (Benjamini–Hochberg). † Of value heads; the others are of heads. True of: estimated share"
        " of heads of which the claim is true, with its 95% interval over documents; n/a of bounds."
    )
    headers = header(
        *("claim (tolerance)", "holds", "fails", "undet.", "holds*", "fails*", "true of"),
        "95% interval",
    )
    return Table("verdicts", "Verdicts", caption, headers, rows, "prrrrrrr")


def every_head(run: Run, data: xr.Dataset, claims: Sequence[dict[str, Any]]) -> Table:
    """One row a head, one sign a claim; of value heads that of the head's own."""
    signs = {code: SIGNS.get(word, "") for code, word in words_of(data).items()}
    answers = [column(data, claim) for claim in claims]
    value_head = run.value_heads
    rows = [
        [
            whole(float(layer)),
            whole(float(head)),
            *(
                text(signs[int(answer[i, value_head[j] if claim["of"] == "kv_head" else j])])
                for claim, answer in zip(claims, answers, strict=True)
            ),
        ]
        for i, layer in enumerate(data["layer"].values)
        for j, head in enumerate(run.capture["head"].values)
    ]
    caption = (
        "+ The claim holds; − it fails; · undetermined; blank: no estimate. Of claims on value"
        " heads the answer is that of the head’s own."
    )
    return numbered("head", claims, rows, caption)


def numbered(
    by: str, claims: Sequence[dict[str, Any]], rows: Sequence[Sequence[Cell]], caption: str
) -> Table:
    """Verdicts by layer or head, in which claims have numbers; their names stand below."""
    keys = ["layer", "head"][: 1 + (by == "head")]
    numbers = [str(index) for index in range(1, len(claims) + 1)]
    names = "; ".join(
        f"{number} {called(claim)}" for number, claim in zip(numbers, claims, strict=True)
    )
    return Table(
        f"verdict_{by}s",
        f"Verdicts by {by}",
        f"{caption} Claims: {names}.",
        header(*keys, *numbers),
        rows,
        "r" * len(keys) + "c" * len(claims),
        keys=len(keys),
    )


def called(claim: dict[str, Any]) -> str:
    """The short name of a claim; of an earlier geostat, which has none, its key."""
    return str(claim.get("short") or claim["key"])
