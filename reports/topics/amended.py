"""Amended assumptions: similarity by rank of the attention weight and by lag, and the parameters by
rank of each head.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from reports.figures import style
from reports.figures.plan import Caption, Numbers, planned
from reports.run import Run, each
from reports.statistics import quartiles
from reports.tables.table import (
    Cell,
    Column,
    Table,
    between,
    header,
    missing,
    mixed,
    number,
    numbers,
    symbol,
    text,
    whole,
)
from reports.text.number import percent

GROUPS: Final = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 30))
"""First and last octave of the ranks drawn as one line."""

COLOURS: Final = (style.BLACK, style.BLUE, style.SKY, style.ORANGE, style.VERMILLION)

FORMS: Final = {
    "constant": "one level",
    "rank": "a level for each octave of rank",
    "lag": "a level for each octave of lag",
    "rank_and_lag": "both, added",
    "rank_law": r"$c_\infty + (c_1-c_\infty)r^{-\gamma}$",
    "exponential": r"$e^{-\beta k}$",
    "offset": r"$c + (1-c)e^{-\beta k}$",
}
"""Words or formula of each form."""
ADDED: Final = {"rank": 2, "lag": 1}
"""Bit of depends_on that is set where both effects predict better than the form."""

PARAMETERS: Final = (
    *("coherence_first", "coherence_limit", "coherence_exponent", "norm_slope", "dimension"),
    *("repeat_cosine", "class_norm_ratio", "class_cosine"),
)


def figure_rank_and_lag(axes: Axes, run: Run) -> Axes:
    """Draw the mean cosine of two value vectors over their lag, one line for each range of ranks of
    the token with less weight.
    """
    data = run.needed("amended")
    heads = data["cosine_heads"].values
    common = 2 * heads > heads.max()
    cosine, low, high = (
        np.where(common, data[f"cosine{end}"].values, np.nan) for end in ("", "_lower", "_upper")
    )
    seen = np.isfinite(cosine).any(axis=0)
    lag = 2.0 ** data["lag_octave"].values[seen]
    for (first, last), colour in zip(GROUPS, COLOURS, strict=True):
        rows = slice(first, last + 1)
        if not np.isfinite(cosine[rows]).any():
            continue
        octaves = np.flatnonzero(np.isfinite(cosine[rows]).any(axis=1)) + first
        level, bottom, top = (_mean(array[rows])[seen] for array in (cosine, low, high))
        end = 2 ** (int(octaves[-1]) + 1) - 1
        label = f"rank {2 ** int(octaves[0])} to {end:,}"
        axes.fill_between(lag, bottom, top, color=colour, alpha=0.15, linewidth=0)
        axes.plot(lag, level, color=colour, marker="o", markersize=3, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(lag, [f"{int(value):,}" for value in lag])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="lag $k$, from", ylabel="mean cosine")
    axes.set_title("Similarity by lag and by rank of the weight")
    style.legend_below(axes, columns=2)
    return axes


def _mean(rows: np.ndarray) -> np.ndarray:
    """Return the mean over rows with a value; NaN without any."""
    known = np.isfinite(rows)
    total = np.where(known, rows, 0.0).sum(axis=0)
    return np.divide(total, known.sum(axis=0), out=np.full(total.shape, np.nan), where=known.any(0))


@planned(
    figure_rank_and_lag,
    "Does similarity depend on distance or on rank?",
    3.6,
    grid=(1, 1),
    group="amended",
)
def caption_rank_and_lag(run: Run) -> Caption:
    """Return the caption of similarity by rank and by lag."""
    data = run.needed("amended")
    say = Numbers()
    description = (
        "Mean cosine of the value vectors of two different tokens over their lag, in octaves."
        " Lines: ranges of the rank of the token with less attention weight, 1 the largest;"
        " functional sinks are left out. Pairs are sampled at about 50 ranks of up to four queries"
        f" of {run.counted('document')}; means over the heads with such pairs, more than half of"
        " those with any. Bands: 95% intervals over documents, averaged like the lines over octaves"
        " of rank. Look for: falling lines (distance matters), lines at different heights (rank"
        " matters), or both."
    )
    shown = data["depends_on"].values[data["depends_on"].values >= 0]
    if not shown.size:
        return Caption(description, "", say.all)
    rank, lag = (shown & 1) > 0, (shown & 2) > 0
    finding = (
        "In predicting cosines of held-out documents the rank adds to the lag in"
        f" {say.whole('rank added', int(rank.sum()))} of"
        f" {say.counted('heads', shown.size, 'head')}, the lag to the rank in"
        f" {say.whole('lag added', int(lag.sum()))}, and both in"
        f" {say.whole('both added', int((rank & lag).sum()))} (paired tests at 95%)."
    )
    return Caption(description, finding, say.all)


def tables(run: Run) -> list[Table]:
    """Return the tables of forms of the cosine and of parameters; none without /amended."""
    data, predicted = run.group("amended"), run.group("fitted")
    if data is None:
        return []
    return [
        _forms(run, data),
        _parameters(run, data),
        *([_prediction(run, predicted)] if predicted is not None else []),
        *([_weights(run, predicted)] if predicted is not None and "mass_r2" in predicted else []),
    ]


def _forms(run: Run, data: xr.Dataset) -> Table:
    """Return the table of forms of the cosine."""
    rows: list[list[Cell]] = []
    shown = data["depends_on"].values[data["depends_on"].values >= 0]
    for form in map(str, data["cosine_form"].values):
        better = missing()
        if form in ADDED and shown.size:
            better = whole(float(((shown & ADDED[form]) > 0).sum()))
        error = quartiles(np.sqrt(data["loss_held_out"].sel(cosine_form=form)))
        rows.append([mixed(FORMS[form]), between(*error), better])
    caption = (
        "Forms of the mean cosine of two different tokens, k their lag and r the rank of the one"
        " with less attention weight, fitted to the same sampled pairs. Held-out error: root mean"
        " squared residual of a cell of two octaves in a held-out document, median over heads"
        " [quartiles];"
        f" leave-one-out over {run.counted('document')}. Both better: heads in which rank and"
        " lag together predict better, by a one-sided paired t-test at 95%: the lag adds to rank,"
        " or the rank to the lag."
    )
    headers = header("form", "held-out error", "both better, heads")
    return Table("cosine_forms", "Similarity by rank or by lag", caption, headers, rows, "lrr")


def _parameters(run: Run, data: xr.Dataset) -> Table:
    """Return the table of parameters."""
    rows = []
    for name in PARAMETERS:
        values = data[name]
        error = data.get(f"{name}_se")
        rows.append(
            [
                symbol(str(values.attrs["symbol"])),
                text(str(values.attrs["long_name"])),
                between(*quartiles(values)),
                number(float(error.median()), digits=2) if error is not None else text("–"),
                whole(float(values.notnull().sum())),
            ]
        )
    caption = (
        "Parameters by rank of the attention weight: median over heads [quartiles], median standard"
        f" error over {run.counted('document')}, and number of heads with an estimate."
    )
    headers = header("", "parameter", "median [quartiles]", "error", "heads")
    return Table("amended", "Parameters by rank", caption, headers, rows, "llrrr")


RUNGS: Final = {
    "one curve": "one curve for all heads",
    "one cosine": "one cosine for all pairs",
    "sinks and repeats": "the same, with functional sinks and repeated tokens",
    "amended": "amended assumptions",
    "weights by law": "the same, weights by rank and sinks from the other documents",
    "same head": "the same head on the other documents",
}
"""Words of each prediction."""


def _largest_bias(data: xr.Dataset, name: str) -> str:
    """Return the size N at which the mean over heads is predicted worst, and its error."""
    bias = (data[f"{name}_fitted"] - data[name]).mean(("layer", "head"))
    worst = bias[int(np.abs(np.nan_to_num(bias.values)).argmax())]
    side = "high" if worst > 0 else "low"
    return f"N = {int(worst['n_fitted'])} ({abs(float(worst)):.3f} too {side})"


def _bands(data: xr.Dataset) -> str:
    """Describe the predictive bands and their coverage; "" for runs without them."""
    names = [name for name in ("precision", "recall") if f"{name}_covered" in data]
    if not names:
        return ""
    covered = [data[f"{name}_covered"] for name in names]
    least, most = (
        percent(float(find(values))) for find, values in ((np.min, covered), (np.max, covered))
    )
    return (
        " Band: mean half width of the 95% predictive band of a head in a new document; at each N"
        " the 95% quantile of the absolute errors of all heads in the other documents. Of the"
        f" held-out values {least} to {most} lie within, by row and score."
    )


def _prediction(run: Run, data: xr.Dataset) -> Table:
    """Return the table of predictions by rank and their rivals."""
    columns = [
        Column("prediction", lambda row: text(RUNGS[str(row["rung"].item())]), "l"),
        *(
            numbers(f"${letter}$: {words}", f"{name}_{part}", digits=2)
            for name, letter in (("precision", "P"), ("recall", "R"))
            for part, words in (
                *(("r2", "$R^2$"), ("r2_documents", "by document")),
                *(("bias", "bias"), ("band", "band ±")),
            )
            if f"{name}_{part}" in data
        ),
    ]
    n = data["n_fitted"].values
    caption = (
        f"Precision and Recall at {len(n)} sizes N from {n[0]} to {n[-1]}, predicted from the"
        " query’s own weights, which of its tokens are functional sinks, and parameters of the head"
        f" estimated from the other documents ({run.counted('document')},"
        f" {run.counted('head')}). One cosine: the head size is the dimension, and only position 0"
        " can be a sink. The amended assumptions add the law of rank and the effective dimension."
        " The row after them has weights drawn by form h and sinks of another document in place of"
        " the query’s own."
        " R²: share of the variance between head means; by document: of the variance between"
        " heads and documents. Bias: mean of predicted"
        f" minus measured. Models are means over {data.attrs['draws']} draws of each query. The"
        " first row has no parameter of the head; the last predicts each document by the measured"
        " head on all others. The mean over sizes hides errors of opposite sign: at one size the"
        " bias of the amended assumptions is largest in Precision at"
        f" {_largest_bias(data, 'precision')} and in Recall at {_largest_bias(data, 'recall')}."
        f"{_bands(data)}"
    )
    return Table.of(
        "amended_prediction", "Prediction by rank", caption, columns, each(data, "rung")
    )


WEIGHT_FORMS: Final = {
    "gaussian": "normal",
    "logistic": "logistic",
    "g": r"$(e^{gz}-1)/g$",
    "h": r"$z e^{hz^2/2}$",
    "gpd": "normal, generalised Pareto tail for the largest tenth",
    "zipf_mandelbrot": r"$-\log(r+q)$",
    "measured": "measured weights",
}
"""Words or quantile function of each form of the log weights."""


def _weights(run: Run, data: xr.Dataset) -> Table:
    """Return the table of forms of the weights by rank."""
    columns = [
        Column("form", lambda row: mixed(WEIGHT_FORMS[str(row["weight_form"].item())]), "l"),
        numbers("selected mass: $R^2$", "mass_r2", digits=3),
        numbers("largest weight: error", "top_error", digits=2),
        numbers("largest weight: bias", "top_bias", digits=2),
    ]
    scale, tail = (
        data["weight_variance"].sel(weight_parameter=f"weight_{name}").values
        for name in ("scale", "tail")
    )
    caption = (
        "Forms of the log weights of a query’s content tokens by rank r, z the normal quantile of"
        " the rank, each with a scale and at most one shape. A document is predicted by the mean of"
        f" the queries of the other documents ({run.counted('document')}, {run.counted('head')})."
        " Selected mass: share of the variance of the weight of the N largest, N from 2 to 256,"
        " between heads and documents. Largest weight: root mean squared and mean error of its"
        " natural logarithm. Measured weights are no form: the other documents themselves."
        f" Of the variance of the scale of form h {100 * scale[0]:.0f}% lies between heads,"
        f" {100 * scale[1]:.0f}% between documents of a head and {100 * scale[2]:.0f}% between"
        f" queries; of its tail {100 * tail[0]:.0f}%, {100 * tail[1]:.0f}% and"
        f" {100 * tail[2]:.0f}%."
    )
    return Table.of("weight_forms", "Weights by rank", caption, columns, each(data, "weight_form"))
