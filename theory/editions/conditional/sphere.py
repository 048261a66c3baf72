r"""Bounds of E P that condition on s alone: a sphere of fixed radius around s, for selections of
many tokens.

Given s, D_l is (C̃_ll/d)·χ'²_d with known part (1−b_l)²‖s‖². Let K(x) = #{j∈J: D_j ≤ x}, κ =
E[K(x)|s], and V, V_I the sums of |ρ̃_kl| √(Var Var) over J and over I, which bound the variances of
K(x) and of #{i∈I: D_i > x} (Gebelein). Where some D_i > x, the outer ball holds K(x) tokens of J
at least; where none, K(x) at most. So for every x, which may depend on ‖s‖, with κ_I = Σ_i
P{D_i > x | s},

    E[P | s] ≤ E[f(K(x)) | s] + P{all D_i ≤ x | s}
             ≤ min(1 − Σ_m δ_m F_(m), N/(N+κ) + V/(N+κ)²)
               + min(min_i P{D_i ≤ x | s}, V_I/(V_I+κ_I²))
    E[P | s] ≥ E[f(K(x)) − (1 − N/T) 1{some D_i > x} | s]
             ≥ f_int(κ) − (1 − N/T) min(1, κ_I),       as P ≥ N/T ≥ f(K(x)) − (1 − N/T)

The best over a few x is taken at each ‖s‖, then the average over ‖s‖: evenly spaced normal scores,
`GRIDS` coarse grids between each other. Each misses by a sum of the waves of one coarse spacing and
shorter; their union misses by every fourth of these alone, a third at most of the spread of the
coarse averages at a jump (a seventh at a kink). That spread is what an average may be off by.
F(r_max): 2N for N, 2N/(N+T) for N/T. Unit-free. Imports numpy; numba through the compiled kernel.
"""

from __future__ import annotations

import numpy as np

from theory.arrays import FloatArray
from theory.editions.conditional.conditioning import GivenSum, Nodes, within
from theory.editions.conditional.count_bounds import (
    Chances,
    absolute_correlation,
    comonotone,
    interpolated,
    none_of,
    quadratic,
)
from theory.editions.conditional.distance_distribution import radius_quantiles
from theory.editions.conditional.quadrature_error import FLOOR, TOLERANCE

SCORE_REACH, BEYOND_REACH = 4.0, 6.4e-5
"""Normal scores of ‖s‖ lie within ±4; the probability beyond, by which an average may be off."""

GRIDS = 4
"""Coarse grids of scores."""

SCORES_FIRST, SCORES_MOST = 32, 256
"""Scores of all grids, at first and at most."""

OFFSET = 0.381966
"""Where the first score lies, in whole steps from the end, so that no grid is symmetric."""

RADII = np.array(
    [-2.0, -1.5, -1.0, -0.6, -0.3, 0.0, 0.3, 0.6, 0.9, 1.2, 1.6, 2.0, 2.5, 3.0, 3.7, 4.5]
)
"""Standard deviations above a selected token's mean distance at which spheres are tried; the
largest over the selected tokens is taken.
"""


def sphere_bounds(given: GivenSum) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper bounds of E P, then of E F(r_max), shape (4,), and how far each may be
    off.

    Scores are doubled until none may be off by more than `TOLERANCE`, or up to `SCORES_MOST`.
    """
    blocks = None
    if given.outside is not None:
        n = given.n
        blocks = (
            absolute_correlation(given.rows[:, :n], given.own[:n]),
            absolute_correlation(given.outside, given.own[n:]),
        )
    step = 2 * SCORE_REACH / SCORES_FIRST
    scores = np.asarray(step * (np.arange(SCORES_FIRST) + OFFSET) - SCORE_REACH, dtype=np.float64)
    best = _best_spheres(given, scores, blocks)
    while True:
        # the spread of the coarse grids tells how far their union may be off
        now = _averaged(best, scores)
        coarse = [_averaged(best[:, grid::GRIDS], scores[grid::GRIDS]) for grid in range(GRIDS)]
        off = np.abs(np.array(coarse) - now).max(axis=0) + BEYOND_REACH + FLOOR
        if off.max() <= TOLERANCE or 2 * len(scores) > SCORES_MOST:
            return now, off
        # double the scores: the new ones lie between the old
        step /= 2
        between = np.asarray(scores + step, dtype=np.float64)
        best = np.stack([best, _best_spheres(given, between, blocks)], axis=2).reshape(
            len(best), -1
        )
        scores = np.asarray(np.stack([scores, between], axis=1).ravel(), dtype=np.float64)


def _averaged(best: FloatArray, scores: FloatArray) -> FloatArray:
    weight = np.exp(-(scores**2) / 2)
    return np.asarray(best @ weight / weight.sum())


def _best_spheres(
    given: GivenSum, scores: FloatArray, blocks: tuple[FloatArray, FloatArray] | None
) -> FloatArray:
    """Return the best bounds over the spheres tried, lower and upper of P and of F(r_max) at
    each score of ‖s‖, shape (4, scores).
    """
    n, others = given.n, len(given.own) - given.n
    radius = np.interp(scores, *radius_quantiles(given.dimension))
    x = _spheres(given, radius)
    nearer, farther = _within(given, np.repeat(radius, len(RADII)), x.ravel())
    none = none_of(farther, None if blocks is None else lambda group: blocks[0])[0]
    some = np.minimum(farther.expected[0], 1.0)
    chance, count = nearer.each[0], nearer.expected[0]
    rising = np.sort(chance, axis=1)
    spread = np.inf if blocks is None else quadratic(chance, blocks[1])
    result = np.empty((4, len(scores)))
    for k, size in enumerate((n, 2 * n)):
        least = size / (size + others)
        low = np.maximum(interpolated(count, size) - (1 - least) * some, least)
        result[2 * k] = low.reshape(x.shape).max(axis=1)
        mean = np.minimum(
            comonotone(rising, size), size / (size + count) + spread / (size + count) ** 2
        )
        result[2 * k + 1] = np.minimum(mean + none, 1.0).reshape(x.shape).min(axis=1)
    return result


def _spheres(given: GivenSum, radius: FloatArray) -> FloatArray:
    """Return squared radii less ‖s‖², shape (scores, radii), in units of σ_ss."""
    t, own, pull = radius[:, None] ** 2, given.own[None, : given.n], given.pull[: given.n]
    width = np.sqrt((2 * own**2 + 4 * own * (1 - pull) ** 2 * t) / given.dimension)
    excess = ((own - pull * (2 - pull) * t)[..., None] + width[..., None] * RADII).max(axis=1)
    return np.asarray(np.maximum(excess, -t))


def _within(given: GivenSum, radius: FloatArray, x: FloatArray) -> tuple[Chances, Chances]:
    """Return P{D_j − ‖s‖² ≤ x | ‖s‖} of J and P{D_i − ‖s‖² > x | ‖s‖} of I, (1, nodes, M) and
    (1, nodes, n).
    """
    n, none, one = given.n, np.zeros((1, len(x))), np.ones((1, len(x)))
    nodes = Nodes(radius=radius[None], z=none, tau=none, excess=x[None], weight=one)
    parts = [
        within(
            given.dimension,
            given.own[None, part],
            given.pull[part],
            np.zeros_like(given.own[None, part]),
            nodes,
        )
        for part in (slice(n), slice(n, None))
    ]
    inner = parts[0].each
    beyond = 1 - inner
    farther = Chances(
        each=beyond,
        expected=beyond.sum(axis=2),
        squares=(beyond**2).sum(axis=2),
        largest=1 - inner.min(axis=2),
    )
    return parts[1], farther
