"""Precision and Recall beside chance and bounds: document bands, where a null lies above them,
coverage by size and by head; and of made-up tokens.

Source: arXiv 2602.01893, Definitions 1-2, Theorems 1-2, Figures 1 and 5. Imports numpy,
scipy.special and xarray.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.special import stdtrit

from geostat.datasets.separability import STATISTICS
from geostat.paper import WORKING_SIZE
from geostat.statistics.jackknife import LEVEL

CONTRIBUTIONS = np.array(
    [
        [2.9, 0.7],
        [1.5, 1.5],
        [0.9, -0.7],
        [1.0, 0.45],
        [0.62, 1.0],
        [0.35, -0.45],
        [-0.2, 0.55],
        [-0.7, -0.25],
        [-0.25, -0.8],
        [0.1, 1.25],
    ]
)
SELECTED = 3
"""The first so many are selected."""


def bands(summary: xr.Dataset, documents: int, tokens: int) -> xr.Dataset:
    """Return s_band_lower and s_band_upper, (n), 95% over documents by Student's t, and
    s_below_null, (null, n): 1 < N < T where the null is above them.

    With one document there is no band, and a null is above a curve by itself.
    """
    result = xr.Dataset()
    critical = float(stdtrit(documents - 1, 0.5 + LEVEL / 2)) if documents > 1 else float("nan")
    n = summary["n"]
    for statistic in STATISTICS:
        level = summary[f"{statistic}_mean"]
        half = critical * summary[f"{statistic}_se"]
        result[f"{statistic}_band_lower"], result[f"{statistic}_band_upper"] = (
            level - half,
            level + half,
        )
        if f"{statistic}_null" in summary:
            reach = level + half if documents > 1 else level
            result[f"{statistic}_below_null"] = (
                (summary[f"{statistic}_null"] > reach) & (n > 1) & (n < tokens)
            )
    return result


def coverage(envelope: xr.Dataset, tokens: np.ndarray) -> xr.Dataset:
    """Return shares of measured curves within their bounds, counted where both bounds are known and
    1 < N < T: P and R are 1 by definition elsewhere.

    `tokens` is T of each layer. They are s_inside_by_size, (edition, gram, n_envelope), over heads,
    and s_inside_by_head, (edition, gram, layer, head), over sizes; NaN where none counts.
    """
    result = xr.Dataset()
    for statistic in STATISTICS:
        excess = envelope[f"{statistic}_excess"].transpose(
            "edition", "gram", "layer", "head", "n_envelope"
        )
        between = (excess["n_envelope"] > 1) & (
            excess["n_envelope"] < xr.DataArray(tokens, dims="layer")
        )
        counted = excess.notnull() & between
        for name, over in (("size", ("layer", "head")), ("head", ("n_envelope",))):
            cells = counted.sum(over)
            result[f"{statistic}_inside_by_{name}"] = ((excess <= 0) & counted).sum(
                over
            ) / cells.where(cells > 0)
    return result


def head_scores(capture: xr.Dataset) -> tuple[xr.Dataset, int]:
    """Return P and R of each head, (layer, head), mean over documents, at the run's N nearest to
    the edge of the paper's working range; and that N.
    """
    n = capture["n"].values
    size = int(n[np.abs(n - WORKING_SIZE).argmin()])
    chosen = (
        capture[list(STATISTICS)]
        .sel(n=size)
        .drop_vars("n")
        .transpose("document", "layer", "head")
        .mean("document")
    )
    return chosen.rename({name: f"{name}_of_head" for name in STATISTICS}), size


def example() -> xr.Dataset:
    """Return the made-up contributions, (token, axis), the representative s, and two radii about
    it: outer_radius to the farthest selected token, inner_radius to the nearest other one; in their
    balls lie inside_outer of all tokens and inside_inner of the selected ones.

    >>> toy = example()
    >>> int(toy["inside_outer"]), int(toy["inside_inner"])
    (5, 2)
    """
    representative = CONTRIBUTIONS[:SELECTED].sum(axis=0)
    distance = np.linalg.norm(CONTRIBUTIONS - representative, axis=1)
    outer, inner = distance[:SELECTED].max(), distance[SELECTED:].min()
    return xr.Dataset(
        {
            "contribution": (("token", "axis"), CONTRIBUTIONS),
            "selected": ("token", np.arange(len(CONTRIBUTIONS)) < SELECTED),
            "representative": ("axis", representative),
            "outer_radius": outer,
            "inner_radius": inner,
            "inside_outer": int((distance <= outer).sum()),
            "inside_inner": int((distance[:SELECTED] <= inner).sum()),
        }
    )
