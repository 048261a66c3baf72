"""Predicted curves: Precision and Recall of a head predicted from its fits, against measurement."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap

from reports.figures import style
from reports.figures.plan import Caption, Numbers, planned
from reports.figures.shapes import rungs
from reports.run import SCORES, SYMBOLS, Run, each, of_score
from reports.tables.table import Cell, Column, Table, mixed, number, numbers, percentages
from reports.text.number import count

EXPECTED: Final = "predicted curves. Confront it again with --predict."
"""Content of the group, and the remedy if it is missing."""

COLOURS = {"precision": style.BLUE, "recall": style.VERMILLION}

BINS = 25
"""Bins of each axis from 0 to 1."""


class Source(NamedTuple):
    """Words for a source of predictions: in the table, in a sentence, on a rung, above a panel."""

    table: str
    sentence: str = ""
    rung: str = ""
    panel: str = ""


SOURCES: Final = {
    "exponential": Source(
        "all fitted, exponential", "with the exponential fit", "exponential fit", "Exponential fit"
    ),
    "offset": Source("all fitted, offset", "with the offset", "fit with an offset", "Offset fit"),
    "all but weights": Source(
        "only weights fitted", "with only the weights fitted", "weights fitted", "Weights fitted"
    ),
    "measured": Source("all measured", "with all measured", "all measured", "All measured"),
    "heads": Source("other heads’ mean", "by the mean of the other heads", "mean of other heads"),
    "floor": Source("$N/T$"),
}
"""Sources of predictions, in the order of panels and rungs."""

ROUNDING = 1e-12
"""Scores below this are rounding errors."""


def figure_predictive(axes: Any, run: Run) -> Any:
    """Draw measured against predicted values of all (head, N) cells, for P and R and each source of
    predictions, on 2 × 4 axes.
    """
    data = run.needed("predictive", EXPECTED)
    sources = [name for name in SOURCES if SOURCES[name].panel and name in data["source"]]
    for row, (name, title) in zip(axes, SCORES.items(), strict=True):
        for axis, source in zip(row, sources, strict=False):
            _panel(axis, data.sel(source=source), name)
            axis.set(title=SOURCES[source].panel, xlabel="predicted", ylabel=f"measured {title}")
            axis.label_outer()
        for axis in row[len(sources) :]:
            axis.set_visible(False)
    place: style.Kwargs = {"loc": "outside lower center", "ncols": 3, "columnspacing": 1.6}
    axes[0][0].figure.legend(*axes[0][0].get_legend_handles_labels(), **place)
    return axes


def _panel(axis: Axes, data: xr.Dataset, name: str) -> None:
    """Draw one panel: density of cells, line of equality, binned medians of measured values."""
    dims, colour = ("layer", "head", "n_predicted"), COLOURS[name]
    predicted, measured = (
        data[key].transpose(*dims).values.ravel() for key in (f"{name}_predicted", name)
    )
    known = np.isfinite(predicted) & np.isfinite(measured)
    limits = [[0, 1], [0, 1]]
    cells, edges, _ = np.histogram2d(predicted[known], measured[known], bins=BINS, range=limits)
    corners = np.array([(0, 0), (1, 0), (1, 1), (0, 1)])
    squares = edges[np.argwhere(cells > 0)[:, None] + corners]
    shades = LinearSegmentedColormap.from_list("cells", ["#ebebeb", "#8c8c8c"])
    density = np.log(cells[cells > 0])
    axis.add_collection(
        PolyCollection(squares, array=density, cmap=shades, edgecolors="none", zorder=1)
    )
    equality: style.Kwargs = {"color": style.BLACK, "linewidth": 0.9, "linestyle": (0, (4, 2))}
    axis.plot([0, 1], [0, 1], label="predicted = measured", zorder=2, **equality)
    binned = data[[f"{name}_predicted_median", f"{name}_measured_quartile"]].dropna("bin")
    middle = binned[f"{name}_predicted_median"].values
    low, median, high = binned[f"{name}_measured_quartile"].transpose("quartile", "bin").values
    dots: style.Kwargs = {"linewidth": 1.8, "marker": "o", "markersize": 3.2}
    axis.fill_between(middle, low, high, color=colour, alpha=0.28, linewidth=0, zorder=3)
    axis.plot(middle, median, color=colour, zorder=4, **dots)
    axis.plot([], [], color=style.GREY, label="median of measured, band: quartiles", **dots)
    axis.fill_between([], [], [], color="#b9b9b9", linewidth=0, label="cells (darker: more)")
    axis.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axis.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])


@planned(
    figure_predictive,
    "Does the theory predict a head’s curve?",
    4.5,
    grid=(2, 4),
    group="predictive",
)
def caption_predictive(run: Run) -> Caption:
    """Return the caption of predicted against measured curves."""
    data = run.needed("predictive", EXPECTED)
    sizes = data["n_predicted"].values
    description = (
        f"Measured Precision and Recall of {run.counted('head')} (means of"
        f" {run.counted('document')}) at {count(len(sizes), 'size')} N from {sizes[0]} to"
        f" {sizes[-1]}, against their expectation under Model G. Inputs: fitted weights, norms and"
        " similarity (Assumptions 1 to 3; printed exponential, or decay to an offset); fitted"
        " weights with measured norms and mean cosines by lag; and all measured. Look for: the"
        " coloured line on the dashed one. Above it, the theory predicts too low a value."
    )
    say = Numbers()
    parts = [
        f"{name.capitalize()}: {', '.join(misses)}"
        for name in SCORES
        if (misses := _misses(say, _distances(data, name), name))
    ]
    finding = f"Mean absolute error of predictions. {'; '.join(parts)}." if parts else ""
    return Caption(description, finding, say.all)


def _distances(data: xr.Dataset, score: str) -> dict[str, float]:
    """Return the mean absolute error of the predictions from each source in the run."""
    mean = data[f"{score}_pooled_mae"]
    return {
        source: float(mean.sel(source=source))
        for source, words in SOURCES.items()
        if words.sentence and source in data["source"]
    }


def _misses(say: Numbers, errors: dict[str, float], score: str) -> list[str]:
    """Return the known errors, in words."""
    return [
        f"{say.figures(f'{score}, {source}', value)} {SOURCES[source].sentence}"
        for source, value in errors.items()
        if np.isfinite(value)
    ]


def figure_ladder(axes: Axes, run: Run) -> Axes:
    """Draw the mean absolute error of predicted curves by source of predictions, with intervals."""
    words = {source: words.rung for source, words in SOURCES.items() if words.rung}
    rungs(axes, run.needed("predictive", EXPECTED), "source", words, "pooled_mae")
    axes.set_xlabel("mean absolute error of the prediction")
    axes.set_title("Predicted from")
    return axes


@planned(figure_ladder, "How accurate are predictions?", 2.9, grid=(1, 1), group="predictive")
def caption_ladder(run: Run) -> Caption:
    """Return the caption of the ladder of predictions."""
    data = run.needed("predictive", EXPECTED)
    interval = " Bars: 95% intervals over documents." if run.documents > 1 else ""
    description = (
        "Mean absolute error of predicted Precision and Recall over all cells (head, N) of"
        f" {run.counted('head')}, {run.counted('document')}, by source of the prediction: fits"
        " alone, then more and more measured quantities. Baseline: the mean of the other heads,"
        f" which uses no information on the head.{interval} Look for: rungs with a smaller error"
        " than the baseline."
    )
    say, errors = Numbers(), _distances(data, "recall")
    parts = _misses(say, errors, "Recall")
    finding = f"Error of Recall: {', '.join(parts)}." if parts else ""
    if finding and np.isfinite(baseline := errors.get("heads", float("nan"))):
        nearer = sum(value < baseline for source, value in errors.items() if source != "heads")
        finding += f" {say.counted('rungs that are nearer', nearer, 'rung')} of"
        finding += f" {say.whole('rungs', len(errors) - 1)}"
        finding += f" {'is' if nearer == 1 else 'are'} better than the mean of the other heads."
    return Caption(description, finding, say.all)


def tables(run: Run) -> list[Table]:
    """Return both tables; none if the run has no predictions."""
    return [] if run.predictive is None else [_scores(run, run.predictive), _check(run.predictive)]


def _scores(run: Run, data: xr.Dataset) -> Table:
    """Return the table of prediction scores: one row per score and source."""
    columns = (
        CURVE,
        Column("predicted from", lambda row: mixed(SOURCES[row["source"].item()].table), "l"),
        numbers("median $R^2$ of a head", "r2_median", digits=2),
        Column("mean error", partial(_estimate, name="pooled_mae")),
        Column("bias", partial(_estimate, name="pooled_bias")),
        percentages("better than other heads", "better"),
        Column("slope", partial(_estimate, name="slope")),
        Column("intercept", partial(_estimate, name="intercept")),
        percentages("within 95%", "within"),
        percentages("flagged", "flagged_share"),
    )
    heads = {name: int(data[f"{name}_settled"].sum()) for name in SCORES}
    sizes = data["n_predicted"].values
    caption = (
        f"Curves of {run.counted('head')} at {count(len(sizes), 'size')} N from {sizes[0]} to"
        f" {sizes[-1]}, predicted under Model G, against the means of {run.counted('document')}. R²"
        f" is over heads whose variance over N is at most a quarter noise ({heads['precision']:,}"
        f" for P, {heads['recall']:,} for R); it is negative if a flat line fits better. Mean error"
        " (absolute) and bias: predicted minus measured. Slope and intercept: regression of"
        " measured on predicted over all (head, N) cells; 1 and 0 if the prediction is calibrated."
        " Better than other heads: share of heads whose prediction has a smaller error than the"
        " mean of the other heads. Within: share of cells whose prediction lies in the 95% document"
        " interval of the measured mean. Standard errors: document jackknife, fits held fixed. The"
        " last two rows of each curve use no information on the head. Flagged: the approximation"
        " reports that it may be inaccurate."
    )
    title = "How well does the theory predict a head’s curve?"
    rows = [row for score in SCORES for row in each(of_score(data, score), "source")]
    return Table.of("predictive", title, caption, columns, rows)


CURVE: Final = Column("curve", lambda row: mixed(SYMBOLS[row["score"].item()]), "l")


def _check(data: xr.Dataset) -> Table:
    """Return the table of the simulation check: one row per score."""
    cells, far = data.sizes["check"], f"{float(data['far']):g}"
    columns = (
        CURVE,
        numbers("median", "check_median", digits=2),
        numbers("90%", "check_ninety", digits=2),
        numbers("largest", "check_worst", digits=2),
        numbers("simulation’s standard error", "check_noise", digits=2),
        numbers(f"above {far}", "check_far"),
        numbers("significantly above", "check_surely_far"),
        numbers("of these flagged", "check_caught"),
    )
    flagged = int(data["check_flagged"].sum())
    caption = (
        f"Check of the approximation by simulation: {count(cells, '(head, N) cell')}, spread evenly"
        f" over layers, sizes and sources, with {int(data.attrs['draws']):,} draws from Model G at"
        " the same parameters. Distance between predicted and simulated means, including simulation"
        f" noise. Significantly above: by two standard errors. {count(flagged, 'cell')}"
        f" {'is' if flagged == 1 else 'are'} flagged."
    )
    rows = [of_score(data, score) for score in SCORES] if cells else []
    title = "Is the prediction what Model G expects?"
    return Table.of("predictive_check", title, caption, columns, rows)


def _estimate(data: xr.Dataset, name: str) -> Cell:
    """Return a score with its error; exactly 0 without error if it is 0 by construction."""
    value, error = float(data[name]), float(data[f"{name}_se"])
    return number(0.0) if max(abs(value), error) < ROUNDING else number(value, error)
