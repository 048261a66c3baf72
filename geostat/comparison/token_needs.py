"""Effective attention set sizes of a run, to be laid beside another's. Source: arXiv 2609.37879.
Imports numpy and xarray.
"""

from __future__ import annotations

import xarray as xr

from geostat.comparison.quantities import Quantity, Scalar
from geostat.experiments.effective_dataset import cells_of
from geostat.experiments.effective_size import star
from geostat.paper import EFFECTIVE

KEYS = {mode: f"n_star_{mode}" for mode in ("deletion", "renormalisation")}


def token_needs() -> list[Quantity]:
    """N* by mode, at the share τ of which the authors report it."""
    return [
        Quantity(
            key,
            f"effective attention set size N* at {EFFECTIVE['tau']:.0%}, {mode}",
            r"N^*",
            EFFECTIVE["source"],
            over="heads",
        )
        for mode, key in KEYS.items()
    ]


def token_need_scalars(effective: xr.Dataset, heads: int) -> dict[str, Scalar]:
    """N* of a run where all heads choose by weight, by key; none where it is not settled."""
    losses, _ = cells_of(effective)
    out = {}
    for mode, key in KEYS.items():
        known = {c.n: row for c, row in losses.items() if c[:3] == ("all", "attention", mode)}
        if not known:
            continue
        plain, tokens = effective["plain_loss"].values, int(effective.attrs["tokens"])
        found = star(plain, known, EFFECTIVE["tau"], tokens)
        if found.value == found.value and found.without is not None:
            out[key] = Scalar(estimate=float(found.value), without=found.without, heads=heads)
    return out
