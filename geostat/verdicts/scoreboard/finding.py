"""Findings of the scoreboard: an answer, the number it rests on; answers by a majority of heads.
Imports numpy and xarray.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import xarray as xr

from geostat.verdicts.claims import CLAIMS

UNITS: Final = {one.key: "value heads" if one.of == "kv_head" else "heads" for one in CLAIMS}
"""What a claim with a verdict is about."""
Answer = Literal["confirmed", "contradicted", "mixed", "undetermined", "not testable here"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer to a claim, the number it rests on, and a line of explanation."""

    answer: Answer
    here: str
    why: str = ""


def by_majority(confirming: int, contradicting: int, heads: int) -> Answer:
    """Return which of the two more than half of the heads do.

    >>> by_majority(60, 30, 100), by_majority(50, 50, 100)
    ('confirmed', 'undetermined')
    """
    if 2 * confirming > heads:
        return "confirmed"
    return "contradicted" if 2 * contradicting > heads else "undetermined"


def by_verdict(tree: xr.DataTree, key: str) -> tuple[Answer, str]:
    """The answer by a verdict's counts, and these in words; heads without an estimate count among
    all. Mixed is a claim that more than half of the heads settle, some this way, some that.
    """
    at = tree["verdicts"].to_dataset().sel(claim=key)
    holds, fails, heads = (
        int(at["holds"]),
        int(at["fails"]),
        int(at["tested"]) + int(at["no_estimate"]),
    )
    answer = by_majority(holds, fails, heads)
    if answer == "undetermined" and 2 * (holds + fails) > heads:
        answer = "mixed"
    return answer, f"holds in {holds}, fails in {fails} of {heads} {UNITS[key]}"


def median(values: xr.DataArray) -> float:
    """Return the median of the known values, NaN without any."""
    return float(np.nanmedian(values)) if np.isfinite(values).any() else float("nan")
