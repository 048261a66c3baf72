"""Tables of what the heads of several runs do: distributions of parameters, verdicts, coverage by
bounds, regimes, preferred forms.

Imports this room's cells and numbers.
"""

from __future__ import annotations

import json

import numpy as np
import xarray as xr

from reports.comparison.shared import STATISTICS, Row, each_run, known, wide
from reports.tables.cells import Cell, between, missing, mixed, share, symbol, text
from reports.tables.table import Table
from reports.text.number import MISSING, percent, rounded


def head_tables(data: xr.Dataset) -> list[Table]:
    """Every table of what heads do, in the page's order."""
    return [_spreads(data), _verdicts(data), _coverage(data), _regimes(data), *_forms(data)]


def _spreads(data: xr.Dataset) -> Table:
    rows: list[Row] = []
    for key in data["parameter"].values:
        at = data.sel(parameter=key)
        unit = str(at["parameter_units"].item())
        words = f"{at['parameter_long_name'].item()}{'' if unit in ('1', '') else f' ({unit})'}"
        rows.append(
            (
                [mixed(words), symbol(str(at["parameter_symbol"].item()))],
                each_run(at, _quartiles),
                [],
            )
        )
    caption = (
        "Median over heads, quartiles in brackets: the middle half of heads. How many heads have an"
        " estimate is in the dataset."
    )
    return wide(
        data,
        "spreads",
        "Distributions over heads",
        caption,
        ["parameter", "symbol"],
        rows,
    )


def _quartiles(at: xr.Dataset) -> Cell:
    low, middle, high = (float(value) for value in at["spread"].values)
    return between(middle, low, high)


def _verdicts(data: xr.Dataset) -> Table:
    says = {claim["key"]: claim["says"] for claim in json.loads(str(data.attrs["claims"]))}
    rows: list[Row] = [
        ([mixed(says[str(key)])], each_run(data.sel(claim=key), _answers), [])
        for key in data["claim"].values
    ]
    caption = (
        "Estimated share of heads of which each claim is true, with its 95% interval over documents"
        " (n/a of bounds); in brackets the heads of which it holds / fails / that the documents do"
        " not settle."
    )
    return wide(data, "verdicts", "Claims", caption, ["claim"], rows)


def _answers(at: xr.Dataset) -> Cell:
    if not np.isfinite(float(at["claim_tested"])) or not float(at["claim_tested"]):
        return missing()
    counts = " / ".join(
        str(int(at[f"claim_{name}"])) for name in ("holds", "fails", "undetermined")
    )
    value, low, high = (float(at[f"true_share{end}"]) for end in ("", "_lower", "_upper"))
    limits = f", {percent(low, 0)} to {percent(high, 0)}" if np.isfinite(low) else ""
    shown = f"{percent(value, 0)}{limits}" if np.isfinite(value) else MISSING
    return share(value, f"{shown} ({counts})")


def _coverage(data: xr.Dataset) -> Table:
    rows: list[Row] = []
    for edition in data["edition"].values:
        for gram in data["gram"].values:
            for statistic in STATISTICS:
                words = f"{statistic.capitalize()}, {edition}, {gram} Gram"
                shares = data[[f"{statistic}_{name}" for name in ("inside", "outside", "width")]]
                rows.append(
                    ([mixed(words)], each_run(shares.sel(edition=edition, gram=gram), _inside), [])
                )
    caption = (
        "Share of (head, N) cells, 1 < N < T, in which the measured curve lies within its bounds;"
        " in brackets the share that lies outside by more than its 95% document interval, and the"
        " width of the bounds. Wide bounds hold cheaply."
    )
    return wide(data, "coverage", "Bounds", caption, ["bounds"], known(rows))


def _inside(at: xr.Dataset) -> Cell:
    """The share of cells inside bounds; in brackets the share clearly outside and the width."""
    inside, outside, width = (float(value) for value in at.data_vars.values())
    return (
        share(inside, f"{percent(inside)} ({percent(outside)}; {rounded(width, digits=2).plain})")
        if np.isfinite(inside)
        else missing()
    )


def _regimes(data: xr.Dataset) -> Table:
    words = {"size": "by sizes", "alignment": "by alignment", "both": "both agree"}
    rows: list[Row] = []
    for criterion in data["criterion"].values:
        of = data["regime_heads"].sel(criterion=criterion)
        rows += [
            (
                [text(f"{regime}, {words.get(str(criterion), str(criterion))}")],
                _counts(of.sel(regime=regime), of.sum("regime")),
                [],
            )
            for regime in data["regime"].values
        ]
    caption = (
        "Heads of each regime and their share, by the paper’s two descriptions (section 4.2) and"
        " where both agree."
    )
    return wide(data, "regimes", "Regimes", caption, ["regime"], rows)


def _counts(values: xr.DataArray, totals: xr.DataArray) -> list[Cell]:
    """A count and its share for each run."""
    return [
        (
            missing()
            if not np.isfinite(value) or not total
            else share(value / total, f"{int(value)} ({percent(value / total, 0)})")
        )
        for value, total in zip(
            values.values.astype(float).tolist(), totals.values.astype(float).tolist(), strict=True
        )
    ]


def _forms(data: xr.Dataset) -> list[Table]:
    made = []
    for dim, what, of in (
        ("form", "cosines by lag", "value heads"),
        ("rival", "log weights", "heads"),
    ):
        values = data[f"{dim}_heads"]
        preferred = {
            str(label): at
            for label, at in zip(data[dim].values, values.transpose(dim, ...), strict=True)
            if float(at.sum()) > 0
        }
        rows: list[Row] = [
            ([text(label.replace("_", " "))], _counts(at, values.sum(dim)), [])
            for label, at in preferred.items()
        ]
        caption = (
            f"How many {of} prefer each form of {what}: the simplest within one standard error of"
            " the best at predicting documents left out. Forms that no head prefers are left out."
        )
        made.append(wide(data, f"{dim}s", f"Preferred forms of {what}", caption, ["form"], rows))
    return made
