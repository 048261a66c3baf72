r"""Bounds of E P that condition on s alone: a sphere of fixed radius around s, for selections of
many tokens.

Given s, D_l is (C̃_ll/d)·χ'²_d with known part (1−b_l)²‖s‖². Let K(x) = #{j∈J: D_j ≤ x}, κ =
E[K(x)|s], and V, V_I the sums of |ρ̃_kl| √(Var Var) over J and over I, which bound the variances of
K(x) and of #{i∈I: D_i > x} (Gebelein). If some D_i > x, the outer ball holds at least K(x) tokens
of J; otherwise at most K(x). Hence for every x, which may depend on ‖s‖, with κ_I = Σ_i P{D_i > x |
s},

    E[P | s] ≤ E[f(K(x)) | s] + P{all D_i ≤ x | s}
             ≤ min(1 − Σ_m δ_m F_(m), N/(N+κ) + V/(N+κ)²)
               + min(min_i P{D_i ≤ x | s}, V_I/(V_I+κ_I²))
    E[P | s] ≥ E[f(K(x)) − (1 − N/T) 1{some D_i > x} | s]
             ≥ f_int(κ) − (1 − N/T) min(1, κ_I),       as P ≥ N/T ≥ f(K(x)) − (1 − N/T)

The best of a few x is taken at each ‖s‖ and averaged over ‖s‖: evenly spaced normal scores in
`GRIDS` interleaved coarse grids. The error of a coarse grid is a sum over wavelengths up to its
spacing; their union keeps every fourth of these, at most a third of the spread of the coarse
averages at a jump (a seventh at a kink). That spread is the error of the average. F(r_max): 2N for
N, 2N/(N+T) for N/T. Unit-free. Imports numpy; numba through the compiled kernel.
"""

from __future__ import annotations

import numpy as np

from theory.arrays import FloatArray
from theory.editions.conditional.conditioning import GivenSum, within
from theory.editions.conditional.count_bounds import (
    Chances,
    absolute_correlation,
    comonotone,
    interpolated,
    none_bound,
    quadratic,
)
from theory.editions.conditional.distance_distribution import Nodes, radius_quantiles
from theory.editions.conditional.quadrature_error import FLOOR, TOLERANCE

SCORE_REACH, BEYOND_REACH = 4.0, 6.4e-5
"""Largest normal score of ‖s‖, and the probability beyond ±4, which adds to the error."""

GRIDS = 4
"""Number of coarse grids of scores."""

SCORES_FIRST, SCORES_MOST = 32, 256
"""Initial and largest number of scores over all grids."""

OFFSET = 0.381966
"""Position of the first score in steps from the end; no grid is symmetric."""

RADII = np.array(
    [-2.0, -1.5, -1.0, -0.6, -0.3, 0.0, 0.3, 0.6, 0.9, 1.2, 1.6, 2.0, 2.5, 3.0, 3.7, 4.5]
)
"""Radii of the spheres, in standard deviations above the mean distance of a selected token; each
sphere uses the largest over the selected tokens.
"""


def sphere_bounds(selection: GivenSum) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper bounds of E P, then of E F(r_max), shape (4,), and the error of each.

    Scores are doubled until all errors are within `TOLERANCE`, or up to `SCORES_MOST`.
    """
    blocks = None
    if selection.outside is not None:
        n = selection.n
        blocks = (
            absolute_correlation(selection.rows[:, :n], selection.residual[:n]),
            absolute_correlation(selection.outside, selection.residual[n:]),
        )
    step = 2 * SCORE_REACH / SCORES_FIRST
    scores = np.asarray(step * (np.arange(SCORES_FIRST) + OFFSET) - SCORE_REACH, dtype=np.float64)
    best = _best_spheres(selection, scores, blocks)
    while True:
        # the spread of the coarse grids estimates the error of their union
        mean = _averaged(best, scores)
        coarse = [_averaged(best[:, grid::GRIDS], scores[grid::GRIDS]) for grid in range(GRIDS)]
        error = np.abs(np.array(coarse) - mean).max(axis=0) + BEYOND_REACH + FLOOR
        if error.max() <= TOLERANCE or 2 * len(scores) > SCORES_MOST:
            return mean, error
        # double the scores: new ones between the old
        step /= 2
        between = np.asarray(scores + step, dtype=np.float64)
        best = np.stack([best, _best_spheres(selection, between, blocks)], axis=2).reshape(
            len(best), -1
        )
        scores = np.asarray(np.stack([scores, between], axis=1).ravel(), dtype=np.float64)


def _averaged(best: FloatArray, scores: FloatArray) -> FloatArray:
    weight = np.exp(-(scores**2) / 2)
    return np.asarray(best @ weight / weight.sum())


def _best_spheres(
    selection: GivenSum, scores: FloatArray, blocks: tuple[FloatArray, FloatArray] | None
) -> FloatArray:
    """Return the best lower and upper bounds of P, then F(r_max), at each ‖s‖, (4, scores)."""
    n, others = selection.n, len(selection.residual) - selection.n
    radius = np.interp(scores, *radius_quantiles(selection.dimension))
    x = _spheres(selection, radius)
    nearer, farther = _within(selection, np.repeat(radius, len(RADII)), x.ravel())
    none = none_bound(farther, None if blocks is None else lambda group: blocks[0])[0]
    any_outside = np.minimum(farther.expected[0], 1.0)
    chance, count = nearer.probability[0], nearer.expected[0]
    rising = np.sort(chance, axis=1)
    spread = np.inf if blocks is None else quadratic(chance, blocks[1])
    result = np.empty((4, len(scores)))
    for k, size in enumerate((n, 2 * n)):
        least = size / (size + others)
        low = np.maximum(interpolated(count, size) - (1 - least) * any_outside, least)
        result[2 * k] = low.reshape(x.shape).max(axis=1)
        mean = np.minimum(
            comonotone(rising, size), size / (size + count) + spread / (size + count) ** 2
        )
        result[2 * k + 1] = np.minimum(mean + none, 1.0).reshape(x.shape).min(axis=1)
    return result


def _spheres(selection: GivenSum, radius: FloatArray) -> FloatArray:
    """Return squared radii minus ‖s‖², shape (scores, radii), in units of σ_ss."""
    t = radius[:, None] ** 2
    residual = selection.residual[None, : selection.n]
    pull = selection.pull[: selection.n]
    width = np.sqrt((2 * residual**2 + 4 * residual * (1 - pull) ** 2 * t) / selection.dimension)
    excess = ((residual - pull * (2 - pull) * t)[..., None] + width[..., None] * RADII).max(axis=1)
    return np.asarray(np.maximum(excess, -t))


def _within(selection: GivenSum, radius: FloatArray, x: FloatArray) -> tuple[Chances, Chances]:
    """Return P{D_j − ‖s‖² ≤ x | ‖s‖} of J and P{D_i − ‖s‖² > x | ‖s‖} of I, (1, nodes, ·)."""
    n, zeros, ones = selection.n, np.zeros((1, len(x))), np.ones((1, len(x)))
    nodes = Nodes(radius=radius[None], z=zeros, tau=zeros, excess=x[None], weight=ones)
    residual, slope = selection.residual[None], np.zeros_like(selection.residual[None])
    selected, nearer = (
        within(selection.dimension, residual[:, part], selection.pull[part], slope[:, part], nodes)
        for part in (slice(n), slice(n, None))
    )
    inner = selected.probability
    beyond = 1 - inner
    farther = Chances(
        probability=beyond,
        expected=beyond.sum(axis=2),
        squares=(beyond**2).sum(axis=2),
        largest=1 - inner.min(axis=2),
    )
    return nearer, farther
