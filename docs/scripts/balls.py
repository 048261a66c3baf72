"""Figure of Precision and Recall: the outer and the inner ball around the sum of three tokens.

`python -m docs.scripts.balls docs/pictures/balls.png` draws it. The contributions are a synthetic
example in two dimensions; Precision, Recall and radii are computed by `separability`, as in a run.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from empirical.measure.selection import separability
from reports.figures.style import STYLE

WEIGHTS = np.array([0.25, 0.2, 0.15, 0.1, 0.1, 0.08, 0.07, 0.05])
CONTRIBUTIONS = np.array(
    [
        [1.0, 0.2],
        [0.7, 0.6],
        [0.3, -0.3],
        [0.5, 0.5],
        [0.4, 0.9],
        [-0.2, 0.1],
        [0.0, -0.6],
        [-0.4, 0.6],
    ]
)
"""Contributions y = αv of eight tokens, in order of decreasing weight."""
SELECTED = 3
COLOURS = {"selected": "#0072B2", "others": "#8c8c8c", "sum": "#D55E00"}


def measured() -> dict[str, float]:
    """Return Precision, Recall and both radii of the three heaviest tokens."""
    values = CONTRIBUTIONS / WEIGHTS[:, None]
    arrays = separability(WEIGHTS, values, n=[SELECTED])
    return {name: float(arrays[name][0]) for name in ("precision", "recall", "r_max", "r_min")}


def _draw(ax: Axes, radius: float, title: str) -> None:
    """Draw the tokens, the sum of the selected tokens, and a ball around it."""
    selected, unselected = CONTRIBUTIONS[:SELECTED], CONTRIBUTIONS[SELECTED:]
    s = selected.sum(axis=0)
    ax.add_patch(Circle(s, radius, color=COLOURS["sum"], alpha=0.12, linewidth=0))
    ax.add_patch(Circle(s, radius, fill=False, color=COLOURS["sum"]))
    ax.scatter(*selected.T, color=COLOURS["selected"], marker="o", label="selected")
    ax.scatter(*unselected.T, color=COLOURS["others"], marker="x", label="unselected")
    ax.scatter(*s, color=COLOURS["sum"], marker="*", s=90, label="sum s of the selected tokens")
    ax.plot(0, 0, "+", color="black", label="origin")
    ax.set(title=title, xlim=(-0.7, 4.1), ylim=(-1.6, 2.6), aspect="equal")
    ax.set_axis_off()


def main(path: str) -> None:
    """Write the figure."""
    result = measured()
    with plt.rc_context(STYLE):
        figure, (outer, inner) = plt.subplots(1, 2, figsize=(6.4, 3.4), layout="constrained")
        figure.get_layout_engine().set(h_pad=0.08, w_pad=0.08)
        inside = round(SELECTED / result["precision"])
        _draw(outer, result["r_max"], f"Precision = {SELECTED}/{inside}: outer ball")
        recalled = round(SELECTED * result["recall"])
        _draw(inner, result["r_min"], f"Recall = {recalled}/{SELECTED}: inner ball")
        handles, labels = outer.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        figure.savefig(Path(path), dpi=150)
        plt.close(figure)


if __name__ == "__main__":
    main(sys.argv[1])
