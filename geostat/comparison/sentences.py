"""What a comparison found, in sentences: which differences cannot be noise, which settings they may
be owed to, and what lies within noise.

Imports numpy, xarray and the room that rounds numbers.
"""

from __future__ import annotations

import json

import numpy as np
import xarray as xr

from geostat.statistics.jackknife import SIGNIFICANCE
from reports.text.number import count, rounded

MOST = 4
"""Differences of a pair that are written out; the table has all."""


def sentences(data: xr.Dataset) -> list[str]:
    """Say, pair by pair, what differs beyond noise, and what does not."""
    out = []
    for pair in range(data.sizes["pair"]):
        at = data.isel(pair=pair)
        p = at["p_holm"].values
        tested, differs = np.isfinite(p), np.nan_to_num(p, nan=1.0) <= SIGNIFICANCE
        first, second = str(at["pair"].item()).split(" − ")
        if not tested.any():
            out.append(
                f"{first} and {second}: nothing can be told from noise, as a run has one document"
                " or no quantity in common."
            )
            continue
        of = count(int(tested.sum()), "quantity", "quantities")
        line = (
            f"{first} and {second} ({at['pairing'].item()}) differ beyond noise in"
            f" {int(differs.sum())} of {of}"
        )
        if differs.any():
            with np.errstate(divide="ignore"):
                strength = np.where(
                    differs, np.abs(at["difference"].values) / at["difference_se"].values, -np.inf
                )
            order = [index for index in np.argsort(-strength, kind="stable") if differs[index]]
            line += "; most clearly: " + ", ".join(
                _one(at.isel(quantity=index)) for index in order[:MOST]
            )
        line += "."
        minds = {topic for words in at["minds"].values[differs] for topic in words.split()}
        if minds:
            names = json.loads(data.attrs["topics"])
            line += (
                f" Their {_joined([names[topic] for topic in names if topic in minds])} differ too,"
                " which may be why."
            )
        out.append(line)
    return out


def _one(at: xr.Dataset) -> str:
    number = rounded(float(at["difference"]), float(at["difference_se"])).plain
    return f"{at['long_name'].item()} ({number.replace('-', '−')})"


def _joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
