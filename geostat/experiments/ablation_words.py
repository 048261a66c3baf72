"""What /ablation answers, in a sentence a mode. Imports numpy and xarray."""

from __future__ import annotations

from typing import Final

import numpy as np
import xarray as xr

from geostat.experiments.ablation_records import GAIN
from reports.text.number import rounded

WORDS: Final = {
    "more": "Geometry tells something of what the model loses that weights alone do not",
    "none": "Geometry does not help to tell what the model loses beyond what weights tell",
    "open": "Whether geometry tells more of what the model loses than weights do is not settled",
}


def primary(data: xr.Dataset) -> str:
    """Return the outcome that the answer rests on, fixed before any was measured: the rise at the
    smallest N above 1.
    """
    sizes = data["n"].values.tolist()
    return f"rise at N = {next((n for n in sizes if n > 1), sizes[0])}"


def answers(data: xr.Dataset) -> dict[str, str]:
    """Return a sentence by mode; none where heads were not cut one by one."""
    if "told" not in data:
        return {}
    out = {}
    for mode in data["mode"].values.tolist():
        at = data.sel(mode=mode, outcome=primary(data))
        gain, low, high = (
            float(at[f"told{part}"].sel(told_by=GAIN)) for part in ("", "_lower", "_upper")
        )
        weights = float(at["told"].sel(told_by="weights"))
        if not np.isfinite(gain):
            continue
        key = "more" if low > 0 else "none" if high < 0 else "open"
        size = primary(data).removeprefix("rise at ")
        limits = ""
        if np.isfinite([low, high]).all():
            limits = f" (95%: {_number(low)} to {_number(high)})"
        out[mode] = (
            f"{WORDS[key]} ({mode}, {size}): of the ranks of the loss over heads, layers left out,"
            f" kept mass and entropy tell R² = {_number(weights)}; geometry adds {_number(gain)}"
            f"{limits}."
        )
    return out


def _number(value: float) -> str:
    return rounded(value, digits=2).plain
