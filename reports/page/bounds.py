"""Bounds in words: how often they hold where similarity may decay to a constant, and what each
fitted assumption costs them. Imports numpy and xarray.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr

from reports.run import Run
from reports.tables.bounds import FITTED, SCORES, swaps
from reports.text.number import percent


def with_offset(run: Run) -> list[str]:
    """How many values lie inside sharp bounds where similarity may decay to a constant, and how
    wide these are, beside exponential decay; nothing where the run does not tell.
    """
    grams = ("exponential", "offset")
    if not {("sharp", gram) for gram in grams} <= set(run.bounds):
        return []
    at = run.summary.sel(edition="sharp")
    told = [_beside(at, score, grams) for score in SCORES]
    if not all(told):
        return []
    return [f"With similarity that decays to a constant, not to 0: {'; '.join(told)}."]


def _beside(at: xr.Dataset, score: str, grams: Sequence[str]) -> str:
    """The share inside and the width of both Grams' bounds, what is expected in brackets."""
    said = []
    for name, digits in (("inside", 0), ("width", None)):
        if f"{score}_{name}" not in at:
            return ""
        before, after = (float(at[f"{score}_{name}"].sel(gram=gram)) for gram in grams)
        if not math.isfinite(before + after):
            return ""
        if digits is None:
            said.append(f"in bounds {after:.2f} wide, not {before:.2f}")
            continue
        drawn = at.get(f"{score}_drawn_{name}")
        expected = ["" if drawn is None else _expected(float(drawn.sel(gram=g))) for g in grams]
        said.append(
            f"{percent(after, digits)} of {SCORES[score]}{expected[1]} lie inside, not"
            f" {percent(before, digits)}{expected[0]}"
        )
    return ", ".join(said)


def _expected(share: float) -> str:
    return f" (expected {percent(share, 0)})" if math.isfinite(share) else ""


def every_cost(run: Run) -> list[str]:
    """What each fitted ingredient, put in alone, costs Recall's bounds, with its interval; nothing
    where it is not known.
    """
    data, known = swaps(run), _costs(run)
    if data is None or not known:
        return []
    told = []
    for name, (value, limits) in known.items():
        said = [limits] if limits else []
        if name == "weights":  # one profile stands for all documents
            said.append("with what each document has of its own")
        brackets = f" ({'; '.join(said)})" if said else ""
        told.append((-value, f"{FITTED[name]} {_points(value)}{brackets}"))
    measured = percent(float(data["recall_inside"].sel(swap="all")))
    sizes = ", ".join(f"{n:,}" for n in data["n_envelope"].values)
    listed = ", ".join(words for _, words in sorted(told))
    return [
        f"Where all is measured {measured} lie inside (N = {sizes}). One fit in its place takes"
        f" away, in percentage points: {listed}. They do not add up."
    ]


def cost_in_short(run: Run, name: str) -> str:
    """What one fitted ingredient costs Recall's bounds, for the card of its assumption; nothing
    where it is not known.
    """
    value, limits = _costs(run).get(name, (None, ""))
    if value is None:
        return ""
    own = ", with what each document has of its own" if name == "weights" else ""
    brackets = f" ({limits})" if limits else ""
    return f"Cost to bounds{own}: {_points(value)}{brackets}"


def _costs(run: Run) -> dict[str, tuple[float, str]]:
    """Percentage points of the measured Recall that leave the sharp bounds where one ingredient is
    fitted and all else is measured, with their 95% limits in words; none where they are not known.
    """
    data = swaps(run)
    if data is None or not bool(np.isfinite(data["recall_cost"]).all()):
        return {}
    known = {}
    for name in FITTED:
        at = data.sel(swap=f"all but {name}")
        value, low, high = (
            100 * float(at[f"recall_cost{end}"]) for end in ("", "_lower", "_upper")
        )
        limits = f"{_points(low)} to {_points(high)}" if math.isfinite(low) else ""
        known[name] = (value, limits)
    return known


def _points(value: float) -> str:
    return f"{value:.1f}".replace("-", "−")
