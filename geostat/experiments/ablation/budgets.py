r"""Allocation of a token budget among heads: sizes N_h with fixed Σ_h N_h.

Allocations of B tokens per head: uniform; equal selected mass; proportional to exp(entropy), the
effective number of tokens; proportional to 1 − F or to F (geometry, in both directions); and greedy
by the measured losses of single heads, which is optimal if these losses are additive. Every head
has from 1 to T tokens. Imports numpy, scipy.optimize and xarray.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import leave_one_out_mean

IntArray = NDArray[np.int64]

WAYS: Final = {
    "uniform": "equal for every head",
    "mass": "equal selected mass",
    "entropy": "proportional to exp(entropy)",
    "geometry": "proportional to 1 − F(r_max)",
    "geometry reversed": "proportional to F(r_max)",
    "greedy": "by measured losses of single heads",
}
GEOMETRY: Final = ("geometry", "geometry reversed")


def sizes_of_documents(
    way: str, budget: int, features: xr.Dataset, rises: Mapping[int, FloatArray]
) -> list[IntArray]:
    """Return the sizes of heads, (layer, head), for each document.

    Sizes of a document are from means over the other documents; a single document uses its values.

    Args:
        way: key of WAYS.
        budget: mean tokens per head.
        features: as of `heads.features_of`.
        rises: loss increases from ablating single heads, (document, head), by N (greedy only).
    """

    def others(values: FloatArray) -> FloatArray:
        return leave_one_out_mean(values) if len(values) > 1 else values

    tokens, shape = features.sizes["token"], features["regime"].shape
    documents = features.sizes["document"]
    if way == "uniform":
        return [np.full(shape, budget)] * documents
    if way == "mass":
        masses = others(features["mass"].values)
        allocations = [of_equal_mass(mass.reshape(-1, tokens), budget) for mass in masses]
    elif way == "greedy":
        without = {n: others(rise) for n, rise in rises.items()}
        allocations = [
            greedy({n: rise[index] for n, rise in without.items()}, budget, tokens)
            for index in range(documents)
        ]
    else:
        if way == "entropy":
            shares = np.exp(others(features["entropy"].values))
        else:
            f = others(features["f_outer"].sel(n=budget).values)
            shares = f if way == GEOMETRY[1] else 1 - f
        allocations = [in_proportion(share.ravel(), budget, tokens) for share in shares]
    return [sizes.reshape(shape) for sizes in allocations]


def in_proportion(shares: FloatArray, budget: int, tokens: int) -> IntArray:
    """Return integers from 1 to `tokens` with mean `budget`, proportional to `shares` within these
    limits (largest remainders).

    Args:
        shares: non-negative shares, (head,); NaN is replaced by the mean share.
        budget: mean tokens per head.
        tokens: largest size.

    >>> in_proportion(np.array([1.0, 1.0, 4.0]), 4, 100).tolist()
    [2, 2, 8]
    >>> in_proportion(np.array([0.0, 1.0, 99.0]), 4, 8).tolist()
    [1, 3, 8]
    """
    shares = np.where(np.isfinite(shares), shares, np.nanmean(shares))
    total = budget * shares.size
    if not (shares > 0).any():
        shares = np.ones_like(shares)
    logs = np.log(shares[shares > 0])
    low, high = -logs.max(), np.log(tokens) - logs.min()
    for _ in range(200):  # bisect the log factor at which clipped sizes sum to the total
        middle = (low + high) / 2
        sizes = _within(shares, middle, tokens)
        low, high = (middle, high) if sizes.sum() <= total else (low, middle)
    exact = _within(shares, low, tokens)
    return _rounded(exact, total, tokens)


def _within(shares: FloatArray, logarithm: float, tokens: int) -> FloatArray:
    """Return shares times exp(`logarithm`), clipped to [1, tokens]."""
    logs = np.log(shares, out=np.full(shares.shape, -np.inf), where=shares > 0)
    return np.exp(np.clip(logs + logarithm, 0.0, np.log(tokens)))


def of_equal_mass(mass: FloatArray, budget: int) -> IntArray:
    """Return the sizes at which every head selects at least the mass m, for the largest m that the
    budget allows; remaining tokens go to the heads with the smallest selected mass.

    Args:
        mass: selected mass at N = 1, 2, …, T, (head, T), ascending.
        budget: mean tokens per head.
    """
    heads, tokens = mass.shape
    total = budget * heads

    def sizes(level: float) -> IntArray:
        return np.minimum((mass < level).sum(axis=1) + 1, tokens)

    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sizes(middle).sum() <= total else (low, middle)
    allocation = sizes(low)
    while allocation.sum() < total:
        selected = np.where(allocation < tokens, mass[np.arange(heads), allocation - 1], np.inf)
        allocation[int(selected.argmin())] += 1
    return allocation


def greedy(losses: Mapping[int, FloatArray], budget: int, tokens: int) -> IntArray:
    """Return sizes by greedy descent of Σ_h loss_h(N_h) on the lower convex hulls of losses.

    Losses are made non-increasing in N: a loss below that at a larger N, or below 0, is raised to
    it. Hulls are linear between sizes, so the last step may be partial.

    Args:
        losses: losses of single heads, (head,), by measured N; 0 at N = T.
        budget: mean tokens per head.
        tokens: largest size T.
    """
    grid = sorted(n for n in losses if n < tokens)
    curves = np.stack([*(losses[n] for n in grid), np.zeros_like(losses[grid[0]])], axis=1)
    curves = np.maximum.accumulate(curves[:, ::-1], axis=1)[:, ::-1]
    sizes = np.array([*grid, tokens])
    if grid[0] > 1:
        raise ValueError("losses at N = 1 are missing")
    steps: list[tuple[float, int, int, int]] = []
    for head, curve in enumerate(curves):
        # Slopes of the lower convex hull are the isotonic regression of those between sizes.
        widths = np.diff(sizes)
        corners = isotonic_regression(np.diff(curve) / widths, weights=widths).blocks
        for first, last in pairwise(corners):
            start, stop = int(sizes[first]), int(sizes[last])
            steps.append((float(curve[last] - curve[first]) / (stop - start), head, start, stop))
    steps.sort()
    allocation = np.ones(len(curves), dtype=np.int64)
    remaining = budget * len(curves) - len(curves)
    for slope, head, start, stop in steps:
        if slope >= 0 or remaining <= 0:
            break
        step = min(stop - start, remaining)
        allocation[head] += step
        remaining -= step
    if remaining <= 0:
        return allocation
    return _rounded(allocation.astype(float), budget * len(curves), tokens)


def _rounded(exact: FloatArray, total: int, tokens: int) -> IntArray:
    """Round sizes to integers from 1 to `tokens` with sum `total` (largest remainders)."""
    rounded = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(rounded - exact, kind="stable")
    while rounded.sum() < total:
        for head in order:
            if rounded.sum() < total and rounded[head] < tokens:
                rounded[head] += 1
    return rounded
