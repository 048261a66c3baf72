"""Counts of answers over the heads of a part of a run. Imports numpy and xarray."""

from __future__ import annotations

from typing import Final

import numpy as np
import xarray as xr

from geostat.statistics.equivalence import FAILS, HOLDS, NO_ESTIMATE, UNDETERMINED
from geostat.statistics.multiple_testing import FALSE_DISCOVERIES
from geostat.verdicts.answers import claim_rows

UNKNOWN: Final = ("within", "true_share", "true_share_lower", "true_share_upper")
COUNTED: Final = {
    "holds": HOLDS,
    "fails": FAILS,
    "undetermined": UNDETERMINED,
    "no_estimate": NO_ESTIMATE,
}


def recounted(verdicts: xr.Dataset) -> xr.Dataset:
    """Return /verdicts of a part of a run: answers as they are, and how many of its heads have
    which. Shares of heads of which a claim is true are estimated over all, so they are NaN.
    """
    out = verdicts.copy(deep=True)  # counts are written over
    for name in UNKNOWN:
        out[name] = xr.full_like(out[name], np.nan)
    for claim in claim_rows(verdicts):
        of = claim["of"]
        at = verdicts.sel({f"claim_{of}": claim["key"]})
        answer = at[f"answer_{of}"]
        counts = {name: int((answer == code).sum()) for name, code in COUNTED.items()}
        counts["tested"] = answer.size - counts["no_estimate"]
        for name in ("holds", "fails"):
            sure = at[f"p_{name}_adjusted_{of}"] <= FALSE_DISCOVERIES
            counts[f"{name}_adjusted"] = int((sure & (answer != NO_ESTIMATE)).sum())
        for name, number in counts.items():
            out[name].loc[{"claim": claim["key"]}] = number
    return out
