"""What an /effective dataset says: lines for a terminal, records for a program. Imports xarray."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr


def told(data: xr.Dataset, *, everything: bool = False) -> dict[str, Any]:
    """Return the effective sizes as lines, or, if `everything`, as records."""
    if everything:
        return {"effective": [*_stars(data)], "sets": [*_sets(data)]}
    lines: dict[str, list[str]] = {}
    for row in _stars(data):
        key = f"{row['scope']}: {row['rule']}, {row['mode']}"
        lines.setdefault(key, []).append(_star(row))
    out = [f"{key}: {', '.join(parts)}{_steps(data, key)}" for key, parts in lines.items()]
    return {"effective": out + [_set(row) for row in _sets(data)]}


def _stars(data: xr.Dataset) -> Iterator[dict[str, Any]]:
    """Every N* that is settled."""
    if "n_star" not in data:
        return
    names = {"n_star": "n_star", "lower": "n_star_lower", "upper": "n_star_upper"}
    for place in np.ndindex(data["n_star"].shape):
        row = data["n_star"][place]
        if np.isfinite(row):
            numbers = {name: _number(data[of][place]) for name, of in names.items()}
            words = {dim: str(row[dim].item()) for dim in ("scope", "rule", "mode")}
            steps = {
                "steps_up": int(data["steps_up"][place[:-1]]),
                "largest_step_up": _number(data["largest_step_up"][place[:-1]]),
            }
            yield (
                words
                | {"tau": float(row["tau"]), **numbers, **steps}
                | {"documents": _documents(data)}
            )


def _sets(data: xr.Dataset) -> Iterator[dict[str, Any]]:
    """Every rule that chose its own set."""
    if "set_loss" not in data:
        return
    for place in np.ndindex(data["set_loss_rise"].shape):
        row = data["set_loss_rise"][place]
        if np.isfinite(row):
            words = {dim: str(row[dim].item()) for dim in ("scope", "set_rule", "mode")}
            yield words | {
                "tokens": float(data["set_size"][place].mean()),
                "loss_rise": float(row),
                "lower": _number(data["set_loss_rise_lower"][place]),
                "upper": _number(data["set_loss_rise_upper"][place]),
                "documents": _documents(data),
            }


def _documents(data: xr.Dataset) -> int:
    return int(data.sizes["document"])


def _number(value: xr.DataArray) -> float | None:
    """A number, None where it is not determined, as an error of one document."""
    return float(value) if np.isfinite(value) else None


def _star(row: Mapping[str, Any]) -> str:
    limits = "" if row["lower"] is None else f" ({row['lower']:.0f} to {row['upper']:.0f})"
    words = "token keeps" if row["n_star"] == 1 else "tokens keep"
    noun, verb = words.split()
    return f"{row['n_star']:.0f} {noun}{limits} {verb} the loss within {100 * row['tau']:.3g}%"


def _set(row: Mapping[str, Any]) -> str:
    low, high = row["lower"], row["upper"]
    limits = "" if low is None else f" ({100 * low:+.1f}% to {100 * high:+.1f}%)"
    return (
        f"{row['scope']}: {row['set_rule']}, {row['mode']}: keeps {row['tokens']:.1f} tokens, the"
        f" loss changes by {100 * row['loss_rise']:+.1f}%{limits}"
    )


def _steps(data: xr.Dataset, key: str) -> str:
    """Say where the loss does not fall with N."""
    scope, ways = key.rsplit(": ", 1)
    rule, mode = ways.split(", ")
    here = data.sel(scope=scope, rule=rule, mode=mode)
    if not (count := int(here["steps_up"])):
        return ""
    return (
        f"; the loss rises with N at {count} of the steps tried, by up to"
        f" {100 * float(here['largest_step_up']):.2g}%"
    )
