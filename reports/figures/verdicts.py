"""Figure of the claims by layer: in which layers each holds, and in which it fails.

Draws on given axes and returns them. Source: arXiv 2602.01893, Assumptions 1-3, Theorems 1-2.
"""

from __future__ import annotations

import json

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from reports.figures import style
from reports.run import Run, column, words_of

ANSWERS = {"holds": style.GREEN, "fails": style.VERMILLION}
HEIGHT, WIDTH = 0.84, 0.9
"""Of a cell of height and width 1."""


def figure_claims(axes: Axes, run: Run) -> Axes:
    """Draw a cell for each claim and layer: from below the share of heads in which it holds, from
    above the share in which it fails; grey lies between.
    """
    data = run.needed("verdicts")
    claims = json.loads(str(data.attrs["claims"]))
    codes = {word: code for code, word in words_of(data).items()}
    layers = data["layer"].values
    boxes: dict[str, list[np.ndarray]] = {"between": [], **{answer: [] for answer in ANSWERS}}
    for row, claim in enumerate(claims):
        answers = column(data, claim)
        shares = {answer: (answers == codes[answer]).mean(axis=1) for answer in ANSWERS}
        for place in range(layers.size):
            low, high = row + (1 - HEIGHT) / 2, row + (1 + HEIGHT) / 2  # the axis points down
            hold, fail = (HEIGHT * shares[answer][place] for answer in ("holds", "fails"))
            boxes["between"].append(_box(place, low + fail, high - hold))
            boxes["holds"].append(_box(place, high - hold, high))
            boxes["fails"].append(_box(place, low, low + fail))
    for answer, drawn in boxes.items():
        colour = ANSWERS.get(answer, style.PALE)
        known = [box for box in drawn if np.ptp(box[:, 1]) > 1e-9]
        axes.add_collection(PolyCollection(known, facecolor=colour, edgecolor="none"))
    topics = [claim["key"].partition(".")[0] for claim in claims]
    for row in range(1, len(claims)):
        if topics[row] != topics[row - 1]:
            axes.axhline(row, color=style.GREY, linewidth=0.8)
    most = 5 if style.narrow(axes) else 16
    step = max(1, -(-layers.size // most))
    axes.set_xticks(np.arange(0, layers.size, step) + 0.5, [str(one) for one in layers[::step]])
    names = [claim.get("short") or claim["key"] for claim in claims]
    axes.set_yticks(np.arange(len(claims)) + 0.5, names)
    axes.set(xlim=(0, layers.size), ylim=(len(claims), 0), xlabel="layer")
    axes.tick_params(length=0)
    axes.grid(visible=False)
    handles = [
        Patch(color=style.VERMILLION, label="fails (from above)"),
        Patch(color=style.PALE, label="neither"),
        Patch(color=style.GREEN, label="holds (from below)"),
    ]
    axes.set_title(" ")  # keeps room for the legend, which reaches beyond the axes
    legend = axes.legend(
        handles=handles,
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=3,
        borderaxespad=0.3,
        borderpad=0.1,
    )
    legend.set_in_layout(False)
    return axes


def _box(place: int, low: float, high: float) -> np.ndarray:
    """Corners of a box within a cell."""
    left, right = place + (1 - WIDTH) / 2, place + (1 + WIDTH) / 2
    return np.array([(left, low), (right, low), (right, high), (left, high)])
