"""Effective attention set sizes of a run, to be laid beside another's. Source: arXiv 2609.37879.
Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from geostat.comparison.comparability import LETTERS, Held
from geostat.comparison.quantities import Quantity, Scalar
from geostat.experiments.effective_dataset import cells_of
from geostat.experiments.effective_size import crossing, next_size
from geostat.paper import EFFECTIVE

KEYS = {mode: f"n_star_{mode}" for mode in ("deletion", "renormalisation")}


def token_needs() -> list[Quantity]:
    """N* by mode, at the share τ of which the authors report it."""
    return [
        Quantity(
            key,
            f"effective attention set size N* at {EFFECTIVE['tau']:.0%}, {mode}, not rounded up",
            r"N^*",
            EFFECTIVE["source"],
            over="all heads at once",
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
        if next_size(plain, known, [EFFECTIVE["tau"]], tokens) is None:
            place, without = crossing(plain, known, EFFECTIVE["tau"], tokens)
            if (without == 1).all():  # no document moves it from 1: no error is told
                without = np.full_like(without, np.nan)
            out[key] = Scalar(estimate=float(place), without=without, heads=heads)
    return out


def lacking(held: Sequence[Held], by_run: Sequence[Mapping[str, Scalar]]) -> list[str]:
    """Return a note of each run that has not all the sizes that are compared."""
    every = [mode for mode, key in KEYS.items() if any(key in of for of in by_run)]
    notes = []
    for letter, of in zip(LETTERS[: len(held)], by_run, strict=True):
        if without := [mode for mode in every if KEYS[mode] not in of]:
            notes.append(
                f"{letter} has no N* at {EFFECTIVE['tau']:.0%} ({', '.join(without)}). Measure it"
                " with `geostat effective`, the words and the --out of its own capture, and"
                " confront it again."
            )
    return notes


def like_targets(held: Sequence[Held]) -> list[str]:
    """Return a note where runs hold effective sizes of other targets, which are not compared."""
    asked = {
        letter: str(one.groups["effective"].attrs["target"])
        for letter, one in zip(LETTERS, held, strict=False)
        if "effective" in one.groups
    }
    if len(set(asked.values())) < 2:
        return []
    said = "; ".join(f"{letter}: {target}" for letter, target in asked.items())
    return [f"Effective sizes are of other targets ({said}), so they are not compared."]
