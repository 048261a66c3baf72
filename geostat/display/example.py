"""Precision and Recall of made-up tokens in a plane, for the picture of what is measured. Source: arXiv 2602.01893, Definitions 1-2, Figure 1."""

from __future__ import annotations

import numpy as np
import xarray as xr

CONTRIBUTIONS = np.array(
    [[2.9, 0.7], [1.5, 1.5], [0.9, -0.7], [1.0, 0.45], [0.62, 1.0], [0.35, -0.45], [-0.2, 0.55], [-0.7, -0.25], [-0.25, -0.8], [0.1, 1.25]]
)
SELECTED = 3
"""The first so many are selected."""


def example() -> xr.Dataset:
    """Return the made-up contributions, (token, axis), the representative s, both radii about it, and how many tokens each ball counts.

    Returns:
        contribution, selected, representative; outer_radius (to the farthest selected token), inside_outer (tokens in that ball), inner_radius (to the
        nearest other token) and inside_inner (selected tokens in that one).

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
