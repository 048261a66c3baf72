"""Pooled heads: parameters of the whole model with their trend over depth, and by layer."""

from __future__ import annotations

from dataclasses import replace

import xarray as xr

from reports.run import Run, each
from reports.tables.table import (
    Cell,
    Column,
    Table,
    estimates,
    mixed,
    numbers,
    symbol,
    text,
    wholes,
)


def tables(run: Run) -> list[Table]:
    """Return both tables; none if the run has no pooled fits."""
    return [] if run.pooled is None else [_depth(run, run.pooled), _by_layer(run, run.pooled)]


def _depth(run: Run, data: xr.Dataset) -> Table:
    """Return the table with one row per parameter: pooled value and change over depth."""
    columns = (
        Column("parameter", lambda row: symbol(str(row["latex"].item())), "l"),
        Column("meaning (unit); source", _meaning, "p"),
        estimates("whole model", "whole"),
        Column("line", lambda row: text("log" if row["logarithm"] else "linear"), "l"),
        estimates("first to last layer", "change"),
        numbers("± of layers", "change_se_hac", digits=2),
        wholes("layers", "layers_used"),
    )
    caption = (
        "Curves are pooled over heads before they are fitted. First to last layer: change along a"
        " least-squares line through the layers’ values, or (log) through their logarithms, where"
        f" 0.69 is a factor of two. {_errors(run)}; ± of layers: Newey–West, with the scatter of"
        " layers about the line as noise. Layers: number of layers whose estimate lies inside its"
        " bounds in every jackknife replicate."
    )
    title = "Pooled heads and their trend over depth"
    return Table.of("depth", title, caption, columns, each(data, "parameter"))


def _meaning(row: xr.Dataset) -> Cell:
    """Return meaning, unit and source of a parameter."""
    words, unit, source = (str(row[name].item()) for name in ("about", "unit", "source"))
    return mixed(f"{words}{'' if unit == '1' else f' ({unit})'}; {source}")


def _by_layer(run: Run, data: xr.Dataset) -> Table:
    """Return the table with one row per layer and one column per parameter."""
    names = data["parameter"].values
    columns = [wholes("layer", "layer")]
    columns += [estimates("", "by_layer", parameter=name) for name in names]
    caption = (
        f"Parameters of pooled heads by layer. {_errors(run)}; n/a: no estimate, or an estimate at"
        " a bound."
    )
    table = Table.of("pooled", "Pooled heads by layer", caption, columns, each(data, "layer"))
    symbols = [symbol(str(data["latex"].sel(parameter=name).item())) for name in names]
    return replace(table, headers=[*table.headers[:1], *symbols])


def _errors(run: Run) -> str:
    return (
        f"± over {run.counted('document')} (jackknife)"
        if run.documents > 1
        else "One document gives no standard errors"
    )
