"""Normaliser: statements on softmax tested on a model's heads, weights by length and separability
by N.

Source: arXiv 2508.17821.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from reports.figures import style
from reports.figures.plan import Caption, Numbers, planned
from reports.figures.shapes import marks
from reports.run import Run
from reports.tables.table import (
    Cell,
    Table,
    estimate,
    header,
    interval,
    limits,
    missing,
    mixed,
    number,
    text,
)
from reports.text.number import count
from reports.topics.entry import Entry

EXPECTED: Final = "statements on the normaliser. Measure them with `geostat normaliser`."
"""Content of the group, and the remedy if it is missing."""


def figure_normaliser(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw the largest weight against L with 1/L for comparison, and the share of selected tokens
    within the radius against N with its bounds and null baselines.
    """
    data = run.needed("normaliser", EXPECTED)
    _weights(axes[0], data)
    _shares(axes[1], data, run.display.attrs["paper_normaliser"])
    style.legends_once(axes)
    return axes


def _weights(axes: Axes, data: xr.Dataset) -> None:
    length, log = data["length"].values.astype(float), data["log_largest"].values
    label = "measured weight, geometric mean"
    _line(axes, data, "log_largest", length, color=style.BLUE, label=label)
    decay = np.exp(log[0]) * length[0] / length
    axes.plot(length, decay, color=style.GREY, linestyle=style.DASHED, label="decay as $1/L$")
    axes.set(xscale="log", yscale="log", xlabel="tokens $L$ (log)")
    axes.set(ylabel=r"largest weight $\alpha_{\max}$ (log)", title="Do weights decay as 1/L?")
    axes.set_xticks(length, [f"{tokens:,.0f}" for tokens in length])
    axes.set_xticks([], minor=True)


def _shares(axes: Axes, data: xr.Dataset, paper: dict[str, Any]) -> None:
    n = data["n"].values
    low, high = (data[f"within_sharp_{side}"].values for side in ("lower", "upper"))
    label = "sharp bounds at the measured ‖s‖"
    axes.fill_between(n, low, high, color=style.ORANGE, alpha=0.2, linewidth=0, label=label)
    _line(axes, data, "within", n, color=style.BLUE, label="measured share")
    _line(axes, data, "within_chance", n, color=style.GREEN, label="random directions")
    label, flat = "random directions, flat weights", data["within_flat"].values
    axes.plot(n, flat, color=style.BLACK, linestyle=style.DASHED, label=label)
    for edge in paper["within"]:
        label = f"{paper['model']} in {paper['source']}" if edge == paper["within"][0] else "_"
        axes.axhline(edge, color=style.VERMILLION, linewidth=0.8, linestyle=":", label=label)
    style.size_axis(axes, float(data.attrs["tokens"]), "tokens selected $N$ (log)")
    axes.set(ylim=(0, 1.03), ylabel="share within ‖s‖, $N_s/N$")
    axes.set_title("Are selected tokens near the sum?")


def _line(axes: Axes, data: xr.Dataset, name: str, x: np.ndarray, **look: Any) -> None:
    """Draw a mean, or the exponential of a mean logarithm, ± its standard error over documents."""
    value, error = data[name], data[f"{name}_se"].fillna(0.0)
    drawn = xr.Dataset({"": value, "_lower": value - error, "_upper": value + error})
    drawn = drawn.map(np.exp) if name.startswith("log_") else drawn
    marks(axes, drawn, "", x, markersize=3, elinewidth=1.0, **look)


@planned(figure_normaliser, "What does the normaliser do to weights?", 4.0, group="normaliser")
def caption_normaliser(run: Run) -> Caption:
    """Return the caption of weights by length and separability by N."""
    data = run.needed("normaliser", EXPECTED)
    paper = run.display.attrs["paper_normaliser"]
    description = (
        f"Means over {count(int(data.attrs['heads']), 'head')} and"
        f" {count(int(data.attrs['documents']), 'document')}; bars: standard error over documents."
        " Left: largest weight of a query that sees L tokens, with decay as 1/L from the smallest"
        " L. Right: share of selected tokens within distance ‖s‖ of s, the sum of the N largest"
        " contributions (‖s‖ is the distance of a token with zero weight). Band: bounds for random"
        " directions at the measured ‖s‖; green and dashed: random directions at their simulated"
        f" ‖s‖; dotted: the range reported by the authors for {paper['model']}. Look for: a"
        " measured share far from that of random directions."
    )
    say = Numbers()
    power = float(data["power"])
    if not np.isfinite(power):
        return Caption(description)
    first, last = (say.whole(f"L {index}", float(data["length"][index])) for index in (0, -1))
    finding = (
        f"The largest weight decays as L to the power −{say.figures('power', power)} from L ="
        f" {first} to {last}."
    )
    return Caption(description, finding, say.all)


TEMPERATURES: Final = (0.1, 1.0)
"""Temperatures T in the table."""


def tables(run: Run) -> list[Table]:
    """Return the table of statements; none without /normaliser."""
    data = run.group("normaliser")
    return [] if data is None else [_statements(run, data)]


def size_of_paper(data: xr.Dataset, share: float) -> int:
    """Return the size N nearest to a share of L."""
    n = data["n"].values
    return int(n[np.abs(n - share * data.attrs["tokens"]).argmin()])


def _statements(run: Run, data: xr.Dataset) -> Table:
    """Return the table with one row per statement: measured, bound, null baseline, reported."""
    paper = run.display.attrs["paper_normaliser"]
    size = size_of_paper(data, paper["critical_share"])
    whole, near, fixed = data.isel(length=-1), data.sel(n=size), int(data.attrs["size"])
    no, reported = missing(), interval(*paper["within"])
    share, chance = estimate(near, "within"), estimate(near, "within_chance")
    of_size = [f"distance{part}" for part in ("_by_n", "_bound_by_n", "_chance")]
    of_fixed = [f"distance{part}" for part in ("", "_bound")]
    critical = estimate(data, "critical_share")
    flat = number(float(near["within_flat"]))
    rows: list[list[Cell]] = [
        [mixed("power $\\gamma$"), estimate(data, "power"), no, no, no],
        [mixed(f"$\\tilde d$, $N = {fixed}$"), *(estimate(whole, n) for n in of_fixed), no, no],
        [mixed(f"$\\tilde d$, $N = {size}$"), *(estimate(near, name) for name in of_size), no],
        [mixed("critical $N/L$"), critical, no, no, text(f"near {paper['critical_share']:g}")],
        [mixed(f"$N_s/N$, $N = {size}$"), share, limits(near, "within_sharp"), chance, reported],
        [text("the same, flat weights"), share, limits(near, "within"), flat, reported],
    ]
    for temperature in TEMPERATURES:
        at = data.sel(temperature=temperature)
        name, bound = mixed(f"response, $T = {temperature:g}$"), number(float(at["norm_limit"]))
        rows.append([name, estimate(at, "response"), bound, no, no])
    headers = header("quantity", "measured", "bound", "null baseline", paper["model"])
    tokens = int(data.attrs["tokens"])
    heads = count(int(data.attrs["heads"]), "head")
    caption = (
        f"Statements on the normaliser ({paper['source']}) tested on {heads}: means over heads and"
        f" {count(int(data.attrs['documents']), 'document')}, ± standard error over documents. γ:"
        f" the largest weight decays as L to the power −γ, L up to {tokens}; the paper expects 1."
        " d̃: summed distance of the unselected tokens from the sum of the N largest contributions,"
        " divided by the head’s summed effective weight; null baseline: N random tokens. Critical"
        " N: the smallest N at which the two are not distinguishable (Kolmogorov-Smirnov test over"
        " heads, 5%); it depends on the number of heads. N_s/N: share of selected tokens within"
        " distance ‖s‖ of the sum s. Its bounds (first row sharp, second row printed) and its null"
        " baselines hold for random directions, with the head’s weights (first row) or flat weights"
        " (second row). Bounds use the measured ‖s‖ and baselines their simulated ‖s‖, so a"
        " baseline may lie outside the bounds. Response: change of the weights per small change of"
        " the logits in the steepest direction; its bound is 1/(2T), not the printed 1/(4T). Last"
        f" column: values reported for {paper['model']}."
    )
    return Table("normaliser", "Statements on the normaliser", caption, headers, rows, "lrrrr")


ENTRIES: Final = (
    Entry(
        key="normaliser",
        short="Normaliser",
        question="How do weights decay with length, and how near are tokens to the sum?",
        figures=("normaliser",),
        tables=("normaliser",),
    ),
)
