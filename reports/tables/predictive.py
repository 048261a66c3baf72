"""Tables of predicted curves: how well the theory predicts a head's curve, and whether the
prediction is what its model expects.

Imports this room's cells, numbers and run.
"""

from __future__ import annotations

import xarray as xr

from reports.run import Run
from reports.tables.cells import Cell, mixed, number, percentage
from reports.tables.table import Table
from reports.text.number import count

SOURCES = {
    "exponential": "all fitted, exponential",
    "offset": "all fitted, offset",
    "all but weights": "only weights fitted",
    "measured": "all measured",
    "heads": "other heads’ mean",
    "floor": "$N/T$",
}
"""What a source of predictions is called."""

ROUNDING = 1e-12
"""Below this a score is rounding."""

STATISTICS = {"precision": "$P$", "recall": "$R$"}


def predictive_tables(run: Run) -> list[Table]:
    """Both tables; none where the run holds no predictions."""
    return [] if run.predictive is None else [_scores(run, run.predictive), _check(run.predictive)]


def _scores(run: Run, data: xr.Dataset) -> Table:
    rows = []
    for name, short in STATISTICS.items():
        for source in data["source"].values:
            at = data.sel(source=source)
            row: list[Cell] = [
                mixed(short),
                mixed(SOURCES.get(str(source), str(source))),
                number(float(at[f"{name}_r2_median"]), digits=2),
            ]
            row += [
                number(*_estimate(at, f"{name}_{key}")) for key in ("pooled_mae", "pooled_bias")
            ]
            row += [percentage(float(at[f"{name}_better"]))]
            row += [number(*_estimate(at, f"{name}_{key}")) for key in ("slope", "intercept")]
            row += [percentage(float(at[f"{name}_within"])), percentage(float(at["flagged_share"]))]
            rows.append(row)
    headers = [
        mixed("curve"),
        mixed("predicted from"),
        mixed("median $R^2$ of a head"),
        mixed("mean distance"),
        mixed("bias"),
        mixed("nearer than other heads"),
        mixed("slope"),
        mixed("intercept"),
        mixed("within 95%"),
        mixed("flagged"),
    ]
    heads = {name: int(data[f"{name}_settled"].sum()) for name in STATISTICS}
    sizes = data["n_predicted"].values
    caption = (
        f"Curves of {run.counted('head')} at {count(len(sizes), 'size')} N from {sizes[0]} to"
        f" {sizes[-1]}, predicted under Model G, against the means of {run.counted('document')}. R²"
        f" counts in heads whose variance over N is at most a quarter noise ({heads['precision']:,}"
        f" for P, {heads['recall']:,} for R); it falls below 0 where a flat line would do better."
        " Distance and bias: of predicted less measured. Slope and intercept: of measured on"
        " predicted, over all (head, N) cells; 1 and 0 if the prediction is calibrated. Nearer:"
        " heads whose prediction is nearer than the mean of the other heads. Within: share of"
        " cells whose prediction lies in the 95% document interval of the measured mean. Errors:"
        " document jackknife, fitted ingredients held. The last two lines of each curve know"
        " nothing of the head. Flagged: the approximation itself says that it may be far off."
    )
    return Table(
        name="predictive",
        title="How well does the theory predict a head’s curve?",
        headers=headers,
        rows=rows,
        align="ll" + "r" * 8,
        caption=caption,
        keys=2,
    )


def _check(data: xr.Dataset) -> Table:
    cells = data.sizes["check"]
    rows = []
    for name, short in STATISTICS.items():
        row: list[Cell] = [mixed(short)]
        row += [
            number(float(data[f"{name}_check_{key}"]), digits=2)
            for key in ("median", "ninety", "worst", "noise")
        ]
        row += [
            number(float(data[f"{name}_check_{key}"])) for key in ("far", "surely_far", "caught")
        ]
        rows.append(row)
    headers = [
        mixed("curve"),
        mixed("median"),
        mixed("90%"),
        mixed("largest"),
        mixed("simulation’s standard error"),
        mixed(f"beyond {float(data['far']):g}"),
        mixed("surely beyond"),
        mixed("of these flagged"),
    ]
    flagged = int(data["check_flagged"].sum())
    caption = (
        f"The approximation judged by simulation: {count(cells, '(head, N) cell')}, spread evenly"
        f" over layers, sizes and ingredients, drawn {int(data.attrs['draws']):,} times from Model"
        " G at the parameters predicted from. Distance of predicted from simulated means, the"
        " simulation's noise in it. Surely beyond: by two standard errors."
        f" {count(flagged, 'cell')} {'is' if flagged == 1 else 'are'} flagged."
    )
    return Table(
        name="predictive_check",
        title="Is the prediction what Model G expects?",
        headers=headers,
        rows=rows if cells else [],
        align="l" + "r" * 7,
        caption=caption,
    )


def _estimate(data: xr.Dataset, name: str) -> tuple[float, float | None]:
    """A score and its error; exactly 0 without one where it is 0 by construction, as the bias of
    a mean over heads.
    """
    value, error = float(data[name]), float(data[f"{name}_se"])
    return (0.0, None) if max(abs(value), error) < ROUNDING else (value, error)
