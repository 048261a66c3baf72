"""What /ablation answers, in a sentence a mode. Imports numpy and xarray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import xarray as xr

from geostat.experiments.ablation.budgets import GEOMETRY
from geostat.experiments.ablation.records import GAIN

PRIMARY: Final = 8
"""N of the outcome on which the answer rests, fixed before any was measured."""


def primary_size(sizes: Sequence[int]) -> int:
    """Return PRIMARY where it was measured, else the smallest N above 1.

    >>> primary_size([1, 8, 64]), primary_size([1, 4, 16])
    (8, 4)
    """
    return PRIMARY if PRIMARY in sizes else next((n for n in sizes if n > 1), sizes[0])


def primary(data: xr.Dataset) -> str:
    """Return the outcome that the answer rests on; empty where no head was cut alone."""
    sizes = _sizes(data) if "head_rise" in data else []
    return f"rise at N = {primary_size(sizes)}" if sizes else ""


def _sizes(data: xr.Dataset) -> list[int]:
    """Return the N at which heads were cut alone."""
    known = data["head_rise"].notnull()
    return [int(n) for n in data["n"].values[known.any([d for d in known.dims if d != "n"])]]


def answers(data: xr.Dataset) -> list[str]:
    """Return sentences by mode: on heads, and on budgets; none of what was not measured."""
    return [
        line
        for mode in (data["mode"].values.tolist() if "mode" in data else ())
        for line in (*_on_heads(data, mode), *_on_budgets(data, mode))
    ]


def _on_heads(data: xr.Dataset, mode: str) -> Iterator[str]:
    """Say whether geometry tells more of single heads than weights do."""
    if "told" not in data or not data["head_rise"].sel(mode=mode).notnull().any():
        return
    size = primary_size(_sizes(data.sel(mode=mode)))
    at = data.sel(mode=mode, outcome=f"rise at N = {size}")
    gain, low, high = (
        float(at[f"told{part}"].sel(told_by=GAIN)) for part in ("", "_lower", "_upper")
    )
    weights = float(at["told"].sel(told_by="weights"))
    heads, where = int(at["told_heads"]), f"{mode}, N = {size}"
    if not np.isfinite(gain):
        yield (
            f"Whether geometry tells what the model loses by a head ({where}) cannot be told:"
            f" {heads} heads, or their layers, are too few for a fit that leaves a layer out."
        )
        return
    told = (
        f"in layers left out these tell R² = {_number(weights)} of the ranks of {heads} heads, and"
        f" geometry adds {_number(gain)}"
    )
    what = f"of what the model loses by a head beyond kept mass and entropy ({where})"
    if not np.isfinite([low, high]).all():
        yield f"Whether geometry tells more {what} cannot be told of one document: {told}."
        return
    verdict = "something" if low > 0 else "nothing that shows"
    yield f"Geometry tells {verdict} {what}: {told} (95%: {_number(low)} to {_number(high)})."


def _on_budgets(data: xr.Dataset, mode: str) -> Iterator[str]:
    """Say whether geometry shares budgets better than kept mass does."""
    if "budget_less_mass" not in data:
        return
    at = data.sel(mode=mode, way=list(GEOMETRY))
    low, high = (at[f"budget_less_mass_{side}"] for side in ("lower", "upper"))
    known = (low.notnull() & high.notnull()).all("way").values
    if not known.any():
        return
    budgets = [int(n) for n in data["budget"].values[known]]
    better, worse = (
        [n for n, found in zip(budgets, one.any("way").values[known], strict=True) if found]
        for one in (high < 0, low > 0)
    )
    shares = f"{_listed(better)} better" if better else "none better"
    loses = f", and {_listed(worse)} worse in one of its two ways" if worse else ""
    yield (
        f"Of budgets of {_listed(budgets)} tokens a head ({mode}) geometry shares out {shares} than"
        f" equal kept mass does{loses} (95%, paired over documents, each"
        " by itself)."
    )


def _listed(numbers: Sequence[int]) -> str:
    words = [str(n) for n in numbers]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-0.00", "0.00")
