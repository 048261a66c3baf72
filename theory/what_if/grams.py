"""Grams of a what-if study: that of each point, and which points have one that vectors can have.

Source: arXiv 2602.01893, Assumption 2; the feasible edge of ρ₀ is erratum 9. Imports numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.arrays import BoolArray, FloatArray
from theory.head.gram import Gram, LagGram
from theory.head.similarity_decay import decaying
from theory.what_if.grid import Grid
from theory.what_if.parameters import GRAM


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Similarity:
    """The Grams of a study, over the axes `dims`."""

    dims: tuple[str, ...]
    feasible: BoolArray
    projected: BoolArray
    rho0: FloatArray
    distance: FloatArray
    """|Δρ₀|, or how far a measured Gram was moved."""

    def spread(self, name: str, grid: Grid) -> np.ndarray:
        """Return one of the arrays, shaped to broadcast over all axes of the study."""
        return np.asarray(getattr(self, name)).reshape(
            [len(values) if axis in self.dims else 1 for axis, values in grid.axes.items()]
        )


def similarity_of(grid: Grid) -> Similarity:
    """Return which points have a Gram that vectors can have, and the ρ₀ of each, over the axes that
    they depend on.
    """
    measured = grid.question.measured
    if measured is not None:
        moved, rho0, distance = (
            np.array(measured.kind != "none"),
            np.array(np.nan),
            np.array(measured.distance),
        )
        return Similarity(
            dims=(), feasible=np.array(True), projected=moved, rho0=rho0, distance=distance
        )
    dims = grid.dims((*GRAM, "L"))
    shape = [len(grid.axes[name]) for name in dims]
    edge, rho0 = np.empty(shape), np.empty(shape)
    edges: dict[tuple[float, ...], float] = {}
    for index, at in grid.points((*GRAM, "L")):
        key = (at["beta"], at["c"], at["stretch"], at["L"])
        if key not in edges:
            edges[key] = _lag_gram(grid, at).edge(int(at["L"]))
        edge[index], rho0[index] = edges[key], at["rho0"]
    within = np.abs(rho0) <= edge * (1 + 1e-12)  # an edge that is NaN lets nothing in
    if not grid.question.project:
        return Similarity(
            dims=dims,
            feasible=within,
            projected=np.zeros_like(within),
            rho0=rho0,
            distance=np.zeros_like(rho0),
        )
    moved = ~within & np.isfinite(edge)
    there = np.where(moved, np.copysign(edge, rho0), rho0)
    return Similarity(
        dims=dims,
        feasible=within | moved,
        projected=moved,
        rho0=there,
        distance=np.abs(there - rho0),
    )


def gram_at(grid: Grid, at: Mapping[str, float]) -> Gram:
    """Return the Gram of one point."""
    return _lag_gram(grid, at) if grid.question.measured is None else grid.question.measured.gram


def _lag_gram(grid: Grid, at: Mapping[str, float]) -> LagGram:
    """Return the Gram of one point, where it follows from parameters."""
    form = grid.question.decay
    decay: Any = "exponential" if form == "offset" else form
    return decaying(
        decay,
        at["beta"],
        int(at["L"]) + 1,
        rho0=at["rho0"],
        offset=at["c"],
        stretch=at["stretch"],
    )
