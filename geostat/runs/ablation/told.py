"""What an /ablation dataset says: lines for a terminal, records for a program. Imports xarray."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr

from geostat.experiments.ablation.words import answers


def told(data: xr.Dataset, *, everything: bool = False) -> dict[str, Any]:
    """Return the answers, budgets and regimes as lines, or, if `everything`, as records."""
    budgets, regimes = list(_budgets(data)), list(_regimes(data))
    if everything:
        return {
            "answers": answers(data),
            "layers_left_out": list(_left_out(data)),
            "correlations": list(_correlations(data)),
            "budgets": budgets,
            "regimes": regimes,
            "single_heads": list(_single_heads(data)),
            "contexts": list(_contexts(data)),
        }
    lines = list(answers(data))
    for mode, budget in dict.fromkeys((row["mode"], row["budget"]) for row in budgets):
        each = [row for row in budgets if (row["mode"], row["budget"]) == (mode, budget)]
        parts = ", ".join(f"{row['way']} {_percent(row)}" for row in each)
        lines.append(f"budget of {budget} tokens a head, {mode}: the loss changes by {parts}")
    lines += [
        f"{row['heads']} {row['regime']} heads, {row['cut']}: the loss changes by {_percent(row)};"
        f" as many drawn heads {_share(row['drawn_median'])}% (median), p = {row['p']:.2g}"
        for row in regimes
        if row["p"] is not None
    ]
    return {"ablation": [*lines, *_needs(data), *_powers(data)]}


def _needs(data: xr.Dataset) -> Iterator[str]:
    """Say how many tokens single heads need."""
    for mode in data["mode"].values.tolist() if "head_share_of_one" in data else ():
        at = data.sel(mode=mode, group="all")
        if np.isfinite(at["head_share_of_one"]):
            share = 100 * float(at["head_share_of_one"])
            limits = _limits(at, "head_share_of_one", ())
            ends = "" if limits["lower"] is None else _between(limits, 100)
            half, most = (
                f"{int(one['head_needed'])}{_between(ends_of, 1)}"
                if (ends_of := _limits(one, "head_needed", ()))["lower"] is not None
                else f"{int(one['head_needed'])}"
                for one in (at.isel(quantile=place) for place in (0, 1))
            )
            yield (
                f"single heads, {mode}: {share:.0f}%{ends} of {int(at['group_heads'])} need one"
                f" token to keep the loss within {100 * float(data.attrs['tau']):.3g}%, half at"
                f" most {half}, nine of ten at most {most}"
            )


def _between(limits: dict[str, float | None], times: float) -> str:
    low, high = (times * (limits[side] or 0.0) for side in ("lower", "upper"))
    return f" ({low:.0f} to {high:.0f})"


def _correlations(data: xr.Dataset) -> Iterator[dict[str, Any]]:
    if "rank_correlation" not in data:
        return
    for place in np.ndindex(data["rank_correlation"].shape):
        at = data["rank_correlation"][place]
        if np.isfinite(at):
            words = {name: str(at[name].item()) for name in ("mode", "outcome", "known", "given")}
            yield words | {"value": float(at), **_limits(data, "rank_correlation", place)}


def _budgets(data: xr.Dataset) -> Iterator[dict[str, Any]]:
    if "budget_rise" not in data:
        return
    for place in np.ndindex(data["budget_rise"].shape):
        at = data["budget_rise"][place]
        if np.isfinite(at):
            words = {name: at[name].item() for name in ("mode", "budget", "way")}
            less = "budget_less_mass"
            paired = {"less_mass": _known(data[less][place])}
            paired |= {f"less_mass_{side}": x for side, x in _limits(data, less, place).items()}
            yield words | {"rise": float(at), **_limits(data, "budget_rise", place), **paired}


def _regimes(data: xr.Dataset) -> Iterator[dict[str, Any]]:
    if "regime_rise" not in data:
        return
    for place in np.ndindex(data["regime_rise"].shape):
        at = data["regime_rise"][place]
        if np.isfinite(at):
            yield {
                "regime": str(at["regime"].item()),
                "cut": str(at["cut"].item()),
                "heads": int(data["regime_heads"][place[0]]),
                "rise": float(at),
                **_limits(data, "regime_rise", place),
                "draws": int(data["drawn_rise"][place].notnull().sum()),
                "drawn_median": _known(data["drawn_rise"][place].median()),
                "p": _known(data["drawn_p"][place]),
            }


def _single_heads(data: xr.Dataset) -> Iterator[dict[str, Any]]:
    if "head_n_star" in data:
        for place in np.ndindex(data["head_n_star"].shape):
            at = data["head_n_star"][place]
            if np.isfinite(at) and np.isfinite(data["head_share_of_one"][place[0], 0]):
                words = {"mode": str(at["mode"].item()), "layer": int(place[1])}
                words |= {"head": int(place[2]), "n_star": int(at)}
                words |= {"steps_up": int(data["head_steps_up"][place])}
                yield words | _limits(data, "head_n_star", place)


def _contexts(data: xr.Dataset) -> Iterator[dict[str, Any]]:
    if "context_n_star" in data:
        for place in np.ndindex(data["context_n_star"].shape):
            at = data["context_n_star"][place]
            words = {"mode": str(at["mode"].item()), "context": int(at["context"])}
            if np.isfinite(at):
                yield words | {"n_star": float(at), **_limits(data, "context_n_star", place)}


def _powers(data: xr.Dataset) -> list[str]:
    """Say how N* changes with the context."""
    lines = []
    for at, mode in enumerate(data["mode"].values.tolist() if "context_n_star" in data else ()):
        rows = [row for row in _contexts(data) if row["mode"] == mode]
        if len(rows) < 2:
            continue
        each = []
        for row in rows:
            limits = ""
            if row["lower"] is not None:
                limits = f" ({row['lower']:.0f} to {row['upper']:.0f})"
            each.append(f"{row['n_star']:.0f}{limits} of {row['context']}")
        power, ends = float(data["context_power"][at]), _limits(data, "context_power", (at,))
        share, said = 100 * float(data.attrs["context_tau"]), ""
        if np.isfinite(power):
            said = f"; N* changes as the context to the power {power:.2f}"
        if ends["lower"] is not None:
            said += f" ({ends['lower']:.2f} to {ends['upper']:.2f})"
        lines.append(f"{mode}: {', '.join(each)} tokens keep the loss within {share:.3g}%{said}")
    return lines


def _left_out(data: xr.Dataset) -> Iterator[dict[str, Any]]:
    if "told" in data:
        for place in np.ndindex(data["told"].shape):
            at = data["told"][place]
            if np.isfinite(at):
                words = {name: str(at[name].item()) for name in ("mode", "outcome", "told_by")}
                heads = int(data["told_heads"][place[:2]])
                yield words | {"r2": float(at), **_limits(data, "told", place), "heads": heads}


def _known(value: xr.DataArray) -> float | None:
    """A number, None where it is not determined."""
    return float(value) if np.isfinite(value) else None


def _limits(data: xr.Dataset, name: str, place: tuple[int, ...]) -> dict[str, float | None]:
    """Return an interval, None where it is not determined."""
    limits = {side: float(data[f"{name}_{side}"][place]) for side in ("lower", "upper")}
    return {side: value if np.isfinite(value) else None for side, value in limits.items()}


def _percent(row: dict[str, Any]) -> str:
    limits = ""
    if row["lower"] is not None:
        limits = f" ({_share(row['lower'])} to {_share(row['upper'])})"
    return f"{_share(row['rise'])}%{limits}"


def _share(value: float) -> str:
    """A share in percent, with its sign."""
    return f"{100 * value:+.{0 if abs(value) >= 1 else 1 if abs(value) >= 0.02 else 2}f}"
