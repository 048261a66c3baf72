"""Tables of what the heads of several runs do: distributions of parameters, claims, coverage, regimes, preferred forms.

Imports this room's cells and numbers.
"""

from __future__ import annotations

import json

import numpy as np
import xarray as xr

from reports.comparison.shared import Row, key_of, wide
from reports.tables.cells import Cell, between, missing, mixed, share, symbol, text
from reports.tables.table import Table
from reports.text.number import MISSING, percent, rounded

STATISTICS = ("precision", "recall")


def head_tables(data: xr.Dataset) -> list[Table]:
    """All of them, in the page's order."""
    return [_spreads(data), _verdicts(data), _coverage(data), _regimes(data), *_forms(data)]


def _spreads(data: xr.Dataset) -> Table:
    rows: list[Row] = []
    for key in data["parameter"].values:
        at = data.sel(parameter=key)
        unit = str(at["parameter_units"].item())
        words = f"{at['parameter_long_name'].item()}{'' if unit in ('1', '') else f' ({unit})'}"
        cells = [_quartiles(at.isel(run=index)) for index in range(data.sizes["run"])]
        rows.append(([mixed(words), symbol(str(at["parameter_symbol"].item()))], cells, []))
    caption = f"{key_of(data)}. Median over heads, quartiles in brackets: the middle half of heads. How many heads have an estimate is in the dataset."
    return wide(data, "spreads", "Distributions over heads", caption, ["parameter", "symbol"], rows, each="3.1cm")


def _quartiles(at: xr.Dataset) -> Cell:
    low, middle, high = (float(value) for value in at["spread"].values)
    return between(middle, low, high)


def _verdicts(data: xr.Dataset) -> Table:
    claims = {claim["key"]: claim for claim in json.loads(str(data.attrs["claims"]))}
    rows: list[Row] = []
    for key in data["claim"].values:
        at = data.sel(claim=key)
        rows.append(([mixed(claims[str(key)]["says"])], [_answers(at.isel(run=index)) for index in range(data.sizes["run"])], []))
    caption = (
        f"{key_of(data)}. Of what share of heads each claim is true, at least and at most, by what the false-discovery rate allows; in brackets the heads of "
        "which it holds / fails / that the documents do not settle."
    )
    return wide(data, "verdicts", "Claims", caption, ["claim"], rows)


def _answers(at: xr.Dataset) -> Cell:
    if not np.isfinite(float(at["claim_tested"])) or not float(at["claim_tested"]):
        return missing()
    low, high = (float(at[name]) for name in ("true_at_least", "true_at_most"))
    counts = " / ".join(str(int(at[f"claim_{name}"])) for name in ("holds", "fails", "undetermined"))
    return share(0.5 * (low + high), f"{percent(low, 0)} to {percent(high, 0)} ({counts})")


def _coverage(data: xr.Dataset) -> Table:
    rows: list[Row] = []
    for edition in data["edition"].values:
        for gram in data["gram"].values:
            for statistic in STATISTICS:
                at = data.sel(edition=edition, gram=gram)
                cells = [_inside(at.isel(run=index), statistic) for index in range(data.sizes["run"])]
                if any(cell.plain != MISSING for cell in cells):
                    rows.append(([mixed(f"{statistic.capitalize()}, {edition}, {gram} Gram")], cells, []))
    caption = (
        f"{key_of(data)}. Share of (head, N) cells, 1 < N < T, in which the measured curve lies within its bounds; in brackets the share that lies outside by "
        "more than its 95% document interval, and the width of the bounds. Wide bounds hold cheaply."
    )
    return wide(data, "coverage", "Bounds", caption, ["bounds"], rows)


def _inside(at: xr.Dataset, statistic: str) -> Cell:
    part, beyond, wide = (float(at[f"{statistic}_{name}"]) for name in ("inside", "outside", "width"))
    return missing() if not np.isfinite(part) else share(part, f"{percent(part)} ({percent(beyond)}; {rounded(wide, digits=2).plain})")


def _regimes(data: xr.Dataset) -> Table:
    words = {"size": "by sizes", "alignment": "by alignment", "both": "both agree"}
    rows: list[Row] = []
    for criterion in data["criterion"].values:
        of = data["regime_heads"].sel(criterion=criterion)
        rows += [
            ([text(f"{regime}, {words.get(str(criterion), str(criterion))}")], _counts(of.sel(regime=regime), of.sum("regime")), [])
            for regime in data["regime"].values
        ]
    caption = f"{key_of(data)}. Heads of each regime and their share, by the paper’s two descriptions (section 4.2) and where both agree."
    return wide(data, "regimes", "Regimes", caption, ["regime"], rows)


def _counts(values: xr.DataArray, totals: xr.DataArray) -> list[Cell]:
    """A count and its share for each run."""
    return [
        missing() if not np.isfinite(value) or not total else share(value / total, f"{int(value)} ({percent(value / total, 0)})")
        for value, total in zip(values.values.astype(float).tolist(), totals.values.astype(float).tolist(), strict=True)
    ]


def _forms(data: xr.Dataset) -> list[Table]:
    made = []
    for dim, what, of in (("form", "cosines by lag", "value heads"), ("rival", "log weights", "heads")):
        values = data[f"{dim}_heads"]
        rows: list[Row] = []
        for label in data[dim].values:
            at = values.sel({dim: label})
            if float(at.sum()) > 0:
                rows.append(([text(str(label).replace("_", " "))], _counts(at, values.sum(dim)), []))
        caption = (
            f"{key_of(data)}. How many {of} prefer each form of {what}: the simplest within one standard error of the best at predicting documents left out. "
            "Forms that no head prefers are left out."
        )
        made.append(wide(data, f"{dim}s", f"Preferred forms of {what}", caption, ["form"], rows))
    return made
