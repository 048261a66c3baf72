"""Words of the experiments, for captions and tables."""

from __future__ import annotations

import xarray as xr

from reports.statistics import flat
from reports.text.number import percent

__all__ = ["NULLS", "PAPER_SIZES", "notes", "stable_share"]

PAPER_SIZES = (3, 6)
"""Where the paper finds its peaks: N = 3 for Gemma and Mistral, 6 for LLaMA-2 (§4.1)."""


def notes(data: xr.Dataset | None) -> str:
    """What a group could not determine, in its own words."""
    return "" if data is None else " ".join(str(note) for note in data.attrs.get("notes", ()))


def stable_share(data: xr.Dataset, criterion: str, code: int, name: str) -> str:
    """Mean share of replicates that give the heads of a regime their label again, as percent."""
    label = data["label"].sel(criterion=criterion)
    values = flat(data[name].sel(criterion=criterion).where(label == code))
    return percent(float(values.mean()) if values.size else float("nan"), 0)


NULLS = {"random_selection": "random selection", "random_directions": "random directions", "floor": "floor $N/T$"}
