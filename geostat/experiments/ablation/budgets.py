r"""Budgets: how many tokens N_h each head keeps where Σ_h N_h is fixed.

Ways to share a budget of B tokens a head: alike (uniform); so that all heads keep the same mass of
their weights; in proportion to exp(entropy), the effective number of tokens; in proportion to
1 − F or to F (geometry, both ways); and by measured losses of single heads (greedy: the best, did
losses of single heads add up). Every head keeps from 1 to T tokens. Imports numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from geostat.experiments.ablation.head_facts import Facts
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import leave_one_out_mean

IntArray = NDArray[np.int64]

WAYS: Final = {
    "uniform": "every head the same",
    "mass": "equal kept mass",
    "entropy": "in proportion to exp(entropy)",
    "geometry": "in proportion to 1 − F(r_max)",
    "geometry reversed": "in proportion to F(r_max)",
    "greedy": "by measured losses of single heads",
}
GEOMETRY: Final = ("geometry", "geometry reversed")


def sizes_of_documents(
    way: str, budget: int, facts: Facts, rises: Mapping[int, FloatArray]
) -> list[IntArray]:
    """Return the sizes of heads, (layer, head), for each document from means over the others, of
    one document from its own. rises: where a head alone is cut, (document, head), by N, for greedy.
    """

    def others(each: FloatArray) -> FloatArray:
        return leave_one_out_mean(each) if len(each) > 1 else each

    tokens, shape = facts.tokens, facts.shape
    documents = len(facts.kept_mass)
    if way == "uniform":
        return [np.full(shape, budget)] * documents
    if way == "mass":
        mass = others(facts.kept_mass)
        found = [of_equal_mass(one.reshape(-1, tokens), budget) for one in mass]
    elif way == "greedy":
        left = {n: others(each) for n, each in rises.items()}
        found = [
            greedy({n: each[at] for n, each in left.items()}, budget, tokens)
            for at in range(documents)
        ]
    else:
        if way == "entropy":
            shares = np.exp(others(facts.entropy))
        else:
            f = others(facts.curve("f_outer", budget))
            shares = f if way == GEOMETRY[1] else 1 - f
        found = [in_proportion(one.ravel(), budget, tokens) for one in shares]
    return [sizes.reshape(shape) for sizes in found]


def in_proportion(shares: FloatArray, budget: int, tokens: int) -> IntArray:
    """Return whole numbers from 1 to `tokens` that sum to `budget` a head, as near in proportion to
    `shares` ≥ 0, (head), as these limits allow (largest remainders). NaN counts as the mean share.

    >>> in_proportion(np.array([1.0, 1.0, 4.0]), 4, 100).tolist()
    [2, 2, 8]
    >>> in_proportion(np.array([0.0, 1.0, 99.0]), 4, 8).tolist()
    [1, 3, 8]
    """
    shares = np.where(np.isfinite(shares), shares, np.nanmean(shares))
    total = budget * shares.size
    if not (shares > 0).any():
        shares = np.ones_like(shares)
    some = np.log(shares[shares > 0])
    low, high = -some.max(), np.log(tokens) - some.min()
    for _ in range(200):  # the factor at which clipped sizes sum to the total, by its logarithm
        middle = (low + high) / 2
        sizes = _within(shares, middle, tokens)
        low, high = (middle, high) if sizes.sum() <= total else (low, middle)
    exact = _within(shares, low, tokens)
    return _rounded(exact, total, tokens)


def _within(shares: FloatArray, logarithm: float, tokens: int) -> FloatArray:
    """Return shares times a factor, from 1 to `tokens`."""
    logs = np.log(shares, out=np.full(shares.shape, -np.inf), where=shares > 0)
    return np.exp(np.clip(logs + logarithm, 0.0, np.log(tokens)))


def of_equal_mass(mass: FloatArray, budget: int) -> IntArray:
    """Return the smallest sizes at which every head keeps one mass m, the largest that `budget`
    tokens a head allow; what is left over goes to the heads that keep least.

    mass: kept at N = 1, 2, …, T, (head, T), ascending.
    """
    heads, tokens = mass.shape
    total = budget * heads

    def sizes(level: float) -> IntArray:
        return np.minimum((mass < level).sum(axis=1) + 1, tokens)

    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sizes(middle).sum() <= total else (low, middle)
    out = sizes(low)
    while out.sum() < total:
        kept = np.where(out < tokens, mass[np.arange(heads), out - 1], np.inf)
        out[int(kept.argmin())] += 1
    return out


def greedy(losses: Mapping[int, FloatArray], budget: int, tokens: int) -> IntArray:
    """Return sizes that bring Σ_h loss_h(N_h) down fastest a token, on the lower convex hull of
    each head's losses.

    losses: of single heads, (head), by the sizes N that were measured; 0 at N = T. They are taken
    to fall with N: what lies below the loss at some larger N, or below 0, is raised to it. Between
    sizes the hull is a line in N, so a step that the budget does not cover is taken in part.
    """
    grid = sorted(n for n in losses if n < tokens)
    curves = np.stack([*(losses[n] for n in grid), np.zeros_like(losses[grid[0]])], axis=1)
    curves = np.maximum.accumulate(curves[:, ::-1], axis=1)[:, ::-1]
    sizes = np.array([*grid, tokens])
    if grid[0] > 1:
        raise ValueError("losses at N = 1 are needed")
    steps = sorted(
        (slope, head, int(start), int(stop))
        for head, curve in enumerate(curves)
        for slope, start, stop in _hull(sizes, curve)
    )
    out = np.ones(len(curves), dtype=np.int64)
    left = budget * len(curves) - len(curves)
    for slope, head, start, stop in steps:
        if slope >= 0 or left <= 0:
            break
        taken = min(stop - start, left)
        out[head] += taken
        left -= taken
    return _rounded(out.astype(float), budget * len(curves), tokens) if left > 0 else out


def _hull(sizes: IntArray, curve: FloatArray) -> list[tuple[float, int, int]]:
    """Return the pieces of the lower convex hull of a curve: slope, from, to, slopes ascending."""
    corners = [0]
    for at in range(1, len(sizes)):
        while len(corners) > 1 and _slope(sizes, curve, corners[-1], at) <= _slope(
            sizes, curve, corners[-2], corners[-1]
        ):
            corners.pop()
        corners.append(at)
    return [
        (_slope(sizes, curve, a, b), int(sizes[a]), int(sizes[b])) for a, b in pairwise(corners)
    ]


def _slope(sizes: IntArray, curve: FloatArray, a: int, b: int) -> float:
    return float((curve[b] - curve[a]) / (sizes[b] - sizes[a]))


def _rounded(exact: FloatArray, total: int, tokens: int) -> IntArray:
    """Round sizes to whole numbers from 1 to `tokens` that sum to `total`: largest remainders."""
    out = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(out - exact, kind="stable")
    while out.sum() < total:
        for head in order:
            if out.sum() < total and out[head] < tokens:
                out[head] += 1
    return out
