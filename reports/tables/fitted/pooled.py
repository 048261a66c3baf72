"""Tables of heads pooled: over the whole model with the change along depth, and layer by layer.

Imports this room's cells, numbers and run.
"""

from __future__ import annotations

import xarray as xr

from reports.run import Run
from reports.tables.cells import Cell, header, mixed, number, symbol, text, whole
from reports.tables.table import Table


def pooled_tables(run: Run) -> list[Table]:
    """Both tables; none where the run holds no pooled fits."""
    return [] if run.pooled is None else [_depth(run, run.pooled), _by_layer(run, run.pooled)]


def _depth(run: Run, data: xr.Dataset) -> Table:
    """One row a parameter: its value in the whole model, and its change from the first layer to
    the last.
    """
    rows: list[list[Cell]] = []
    for name in data["parameter"].values:
        at = data.sel(parameter=name)
        unit, logarithm = str(at["unit"].item()), bool(at["logarithm"])
        words = f"{at['about'].item()}{'' if unit == '1' else f' ({unit})'}; {at['source'].item()}"
        rows.append(
            [
                symbol(str(at["latex"].item())),
                mixed(words),
                _pair(at, "whole"),
                text("log" if logarithm else "linear"),
                _pair(at, "change"),
                number(float(at["change_se_hac"]), digits=2),
                whole(float(at["layers_used"])),
            ]
        )
    lead, change = ("", "of heads pooled (unit); source"), "first to last layer"
    headers = header(*lead, "whole model", "line", change, "± of layers", "layers")
    caption = (
        "Where a curve is fitted heads are pooled first. First to last layer: change along a"
        " least-squares line through the layers' values, or (log) through their logarithms, where"
        f" 0.69 is a factor of two. {_errors(run)}; ± of layers: Newey–West, to which it is the"
        " scatter of layers about the line that is noise. Layers: those with an estimate inside"
        " its bounds, whichever document is left out."
    )
    return Table(
        "depth",
        "Heads pooled, and how they change with depth",
        caption,
        headers,
        rows,
        "lprlrrr",
        keys=2,
    )


def _by_layer(run: Run, data: xr.Dataset) -> Table:
    """One row a layer, one column a parameter."""
    rows = [
        [
            whole(float(layer)),
            *(
                _pair(data.sel(layer=layer, parameter=name), "by_layer")
                for name in data["parameter"].values
            ),
        ]
        for layer in data["layer"].values
    ]
    symbols = [
        symbol(str(data["latex"].sel(parameter=name).item())) for name in data["parameter"].values
    ]
    caption = (
        "What the table of heads pooled says of the whole model, layer by layer."
        f" {_errors(run)}; n/a: at a bound, or not there."
    )
    return Table(
        "pooled",
        "Heads pooled by layer",
        caption,
        [mixed("layer"), *symbols],
        rows,
        "r" * (len(symbols) + 1),
    )


def _pair(at: xr.Dataset, name: str) -> Cell:
    return number(float(at[name]), float(at[f"{name}_se"]))


def _errors(run: Run) -> str:
    return (
        f"± over {run.counted('document')} (jackknife)"
        if run.documents > 1
        else "One document gives no standard errors"
    )
