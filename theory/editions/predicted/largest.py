r"""Where the largest of several correlated maxima lies, compiled: cells of its range and how likely
each is. Part of `theory.editions.predicted.predict`.

The maximum Y_p of one group is the largest of all where every rival Y_q stays below it; given Y_p
the rivals are normal with the correlation that is left, and stay below together with the chance of
Mendell and Elston (Biometrics 30, 1974). That they do tells of the variables to be counted too,
which follow the rivals. Imports numpy and numba; import it lazily.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.compiled import compiled
from theory.editions.predicted.clark import SAME, Groups, Law, normal_cdf, normal_density

REACH = 4.5
"""Standard deviations of Y over which it is integrated."""

CELLS = 16
"""Cells of that range before the places where the integrand jumps are added."""

PLACES = 100
"""Counted variables, evenly taken, whose places decide where the cells are fine."""

NARROW = 0.03
"""Least width of a cell in standard deviations of Y; the integrand may jump within one."""

SURELY = 3.7
"""Standard deviations from which a rival maximum counts as below surely (1e-4)."""

FAINT_CELL = 3e-5
"""Probability of a cell below which it is left out."""

FAINT_SHIFT = 0.05
"""Standard deviations by which a rival's being below moves itself, from which what is counted is
moved too.
"""

SETTLED = 8.0
"""Standard deviations beyond which what is counted stays on its side."""


class Counted(NamedTuple):
    """The variables of ranks start, start + 1, … that are counted, as Y_p tells of them.

    centre, deviation: mean and standard deviation of Y_p. load, rest (size,): covariance with Y_p
    in its standard deviations, and the deviation left. always (size,): which lie below Y surely.
    ties_below: whether X_j = Y counts.
    """

    start: int
    centre: float
    deviation: float
    load: FloatArray
    rest: FloatArray
    always: BoolArray
    ties_below: bool


@compiled(error_model="numpy")
def most_cells(groups: int) -> int:
    """Return how many edges `cells` has room for."""
    return CELLS + 1 + 3 * groups + 14


@compiled(error_model="numpy")
def cells(groups: Groups, p: int, counted: Counted, mean: FloatArray) -> FloatArray:
    """Return rising edges, in standard deviations of Y_p, fine where another group's maximum or
    the counted variables lie.
    """
    deviation, load, rest = counted.deviation, counted.load, counted.rest
    if deviation == 0:
        return np.array([-2 * REACH, 2 * REACH])
    edges, n = np.empty(most_cells(len(groups.mean))), 0
    # even cells over the whole range
    for q in range(CELLS + 1):
        edges[n] = REACH * (2 * q / CELLS - 1)
        n += 1
    # finer where a rival maximum crosses Y_p
    for other in range(len(groups.mean)):
        follows = groups.between[p, other] / deviation
        if other == p or not groups.live[other] or follows >= deviation:
            continue
        width = math.sqrt(max(groups.variance[other] - follows**2, 0.0)) / (deviation - follows)
        if width < 1:
            for step in (-1.8, 0.0, 1.8):
                edges[n] = (groups.mean[other] - groups.mean[p]) / (
                    deviation - follows
                ) + width * step
                n += 1
    # finer where the counted variables cross it: quantiles of their crossings, and the middle of a
    # narrow crowd
    crossing, width, result = np.empty(len(mean)), 0.0, 0
    for m in range(0, len(mean), max(1, len(mean) // PLACES)):
        pace = deviation - load[m]
        if abs(pace) > SAME * (deviation + abs(load[m])):
            crossing[result] = (mean[m] - groups.mean[p]) / pace
            width += rest[m] / abs(pace)
            result += 1
    if result > 0:
        crossing, width = np.sort(crossing[:result]), width / result
        for share in (0.02, 0.15, 0.35, 0.5, 0.65, 0.85, 0.98):
            edges[n] = crossing[int(share * (result - 1))]
            n += 1
        if width < 0.6:
            for step in range(-3, 4):
                edges[n] = crossing[result // 2] + 0.8 * width * step
                n += 1
    # rising, within reach, none narrower than `NARROW`
    edges, kept = np.sort(np.minimum(np.maximum(edges[:n], -REACH), REACH)), 1
    for q in range(1, n):
        if edges[q] - edges[kept - 1] >= NARROW:
            edges[kept] = edges[q]
            kept += 1
    edges[kept - 1] = max(edges[kept - 1], REACH)
    return edges[:kept]


@compiled(error_model="numpy")
def weigh(
    law: Law, groups: Groups, p: int, counted: Counted, edges: FloatArray, near: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the middles z of the cells, the probability that Y_p lies in the cell and is the
    largest, and the heights of what is counted.

    Height (cell, size): P{X_m ≤ Y_p | Y_p in the cell and the largest} = Φ(height). Cells of
    no weight are left out.
    """
    start, deviation, load, rest = counted.start, counted.deviation, counted.load, counted.rest
    z, mass, n, size = np.empty(len(edges)), np.empty(len(edges)), 0, len(groups.mean)
    heights = np.empty((len(edges), len(load)))
    height, rival = np.empty(size), np.empty(size, dtype=np.int64)
    correlation = np.empty((size, size))
    follows, left, shared = given_maximum(groups, p, counted)
    for q in range(len(edges) - 1):
        middle = 0.5 * (edges[q] + edges[q + 1])
        weight, rivals = normal_cdf(edges[q + 1]) - normal_cdf(edges[q]), 0
        for other in range(size):
            if other == p or not groups.live[other]:
                continue
            above = groups.mean[p] - groups.mean[other] + (deviation - follows[other]) * middle
            if left[other] > SAME * groups.variance[other]:
                h = above / math.sqrt(left[other])
                if h < near:
                    height[rivals], rival[rivals] = h, other
                    rivals += 1
                elif h < SURELY:
                    weight *= normal_cdf(h)
            elif above < 0 or (above == 0 and other < p):
                weight = 0.0
        # a cell that one rival alone makes faint is left out before the others are looked at
        least = height[:rivals].min() if rivals > 0 else SURELY
        if weight * normal_cdf(least) <= FAINT_CELL:
            continue
        for m in range(len(load)):
            heights[n, m] = (
                (groups.mean[p] - law.mean[start + m] + (deviation - load[m]) * middle) / rest[m]
                if rest[m] > 0
                else 0.0
            )
        correlations_left(groups, rival[:rivals], follows, left, correlation)
        weight *= all_below(height[:rivals], correlation, heights[n], shared[rival[:rivals]])
        if weight > FAINT_CELL:
            z[n], mass[n] = middle, weight
            n += 1
    return z[:n], mass[:n], heights[:n]


@compiled(error_model="numpy")
def given_maximum(
    groups: Groups, p: int, counted: Counted
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what is left of the rivals once Y_p is known: their covariances with it in its
    standard deviations and their variances left, (groups,), and their correlations with the
    counted, (groups, size).
    """
    several, deviation = len(groups.mean), counted.deviation
    start, load, rest = counted.start, counted.load, counted.rest
    follows, left, shared = np.zeros(several), np.empty(several), np.zeros((several, len(load)))
    for other in range(several):
        if deviation > 0:
            follows[other] = groups.between[p, other] / deviation
        left[other] = max(groups.variance[other] - follows[other] ** 2, 0.0)
        if other != p and left[other] > SAME * groups.variance[other]:
            spread = math.sqrt(left[other])
            for m in range(len(load)):
                if rest[m] > 0:
                    shared[other, m] = (
                        groups.load[other, start + m] - load[m] * follows[other]
                    ) / (rest[m] * spread)
    return follows, left, shared


@compiled(error_model="numpy")
def correlations_left(
    groups: Groups, rival: IntArray, follows: FloatArray, left: FloatArray, out: FloatArray
) -> None:
    """Write the correlations of the rivals that are left once Y_p is known into out, below and
    above its diagonal.
    """
    for x in range(len(rival)):
        for y in range(x):
            k, m = rival[x], rival[y]
            result = (groups.between[k, m] - follows[k] * follows[m]) / math.sqrt(left[k] * left[m])
            out[x, y] = out[y, x] = min(max(result, -1.0), 1.0)


@compiled(error_model="numpy")
def all_below(
    height: FloatArray, correlation: FloatArray, counted: FloatArray, shared: FloatArray
) -> float:
    """Return P{X_k ≤ height_k for all k} of correlated standard normals, nearly (Mendell and Elston
    1974); changes its arguments.

    One after another is taken to be below; the others, given that, are taken as normal with the
    moments they then have. So are the `counted`, which end as their heights given that all are
    below; shared (k, counted): their correlations with the X_k.
    """
    chance, size = 1.0, len(height)
    inverse = np.empty(size)
    for k in range(size):
        below = normal_cdf(height[k])
        chance *= below
        if chance < 1e-7:
            return 0.0
        # mean and variance that X_k loses by being below: those who follow it lose their share
        shift = normal_density(height[k]) / below
        lost = shift * (shift + height[k])
        for x in range(k + 1, size):
            rest = math.sqrt(max(1 - correlation[k, x] ** 2 * lost, 1e-6))
            height[x] = (height[x] + correlation[k, x] * shift) / rest
            for y in range(k + 1, x):
                other = math.sqrt(max(1 - correlation[k, y] ** 2 * lost, 1e-6))
                result = (correlation[x, y] - correlation[k, x] * correlation[k, y] * lost) / (
                    rest * other
                )
                correlation[x, y] = correlation[y, x] = min(max(result, -1.0), 1.0)
        if shift < FAINT_SHIFT:
            continue
        for y in range(k + 1, size):
            inverse[y] = 1 / math.sqrt(max(1 - correlation[k, y] ** 2 * lost, 1e-6))
        for m in range(len(counted)):
            if abs(counted[m]) > SETTLED:
                continue
            follow = min(max(shared[k, m], -1.0), 1.0)
            rest = 1 / math.sqrt(max(1 - follow * follow * lost, 1e-6))
            counted[m] = (counted[m] + follow * shift) * rest
            lost_along = follow * lost
            for y in range(k + 1, size):
                shared[y, m] = (shared[y, m] - lost_along * correlation[k, y]) * (rest * inverse[y])
    return chance
