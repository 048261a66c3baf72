"""Normaliser statements for one measured head, from its weights and values.

Algorithms 1-5 of arXiv 2508.17821: summed distance over sizes N, the size from which top-N sets no
longer differ from random ones, the share of selected tokens within a radius with its bounds and its
null baseline, and the sensitivity of weights to logits. Imports numpy and scipy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.stats import ks_2samp

from theory.arrays import FloatArray, IntArray, selection_order
from theory.errors import InputError
from theory.normaliser.normalisers import sensitivity, weights
from theory.normaliser.separability import Separability, separability

STEP: Final = 1e-3
"""Step ε of the logits, in nats; slopes are nearly constant over it for T > 0.01."""

POWER_STEPS: Final = 30
"""Number of steps of the power iteration for the steepest direction."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nested:
    """Nested selections of one head, arrays (n,), in units of value norm.

    total: d̃ = Σ_{i∉I} ‖s − y_i‖. bound: bound of Theorem 1, NaN if not computed. radius: ‖s‖.
    within: share of the selected with ‖s − y_i‖ ≤ ‖s‖, nearer to s than a token of zero weight.
    """

    n: IntArray
    total: FloatArray
    bound: FloatArray
    radius: FloatArray
    within: FloatArray


def nested(alpha: Any, values: Any, order: IntArray, n: Any, *, bounded: bool = True) -> Nested:
    """Return d̃, its bound and the share within ‖s‖ for the first N tokens of an order.

    Args:
        alpha: (L,) weights.
        values: (L, d) vectors.
        order: (L,) tokens in order of selection.
        n: (K,) sizes, each 1 <= N < L.
        bounded: whether to compute the bound, from all pairs of tokens; it holds for an order by
            descending weight.

    Raises:
        InputError: if a size is out of range.

    Example:
        >>> found = nested([0.25, 0.75], [[1.0], [3.0]], np.array([1, 0]), [1])
        >>> found.total.tolist(), found.bound.tolist(), found.within.tolist()
        ([2.0], [2.0], [1.0])
    """
    a, x = np.asarray(alpha, dtype=np.float64)[order], np.asarray(values, dtype=np.float64)[order]
    sizes = np.atleast_1d(np.asarray(n, dtype=np.int64))
    if not ((sizes >= 1) & (sizes < len(a))).all():
        raise InputError(f"n is {sizes.tolist()}, expected 1 to {len(a) - 1}. Change it.")
    y = a[:, None] * x
    s = np.cumsum(y, axis=0)[sizes - 1]
    squared_radius = (s**2).sum(axis=1)
    squares = squared_radius[:, None] - 2 * s @ y.T + (y**2).sum(axis=1)
    inside = np.arange(len(a)) < sizes[:, None]
    distance = np.sqrt(np.maximum(squares, 0.0))
    within_radius = 2 * s @ y.T >= (y**2).sum(axis=1) * (1 - 1e-12)
    return Nested(
        n=sizes,
        total=np.where(inside, 0.0, distance).sum(axis=1),
        bound=_bounds(a, x, sizes) if bounded else np.full(len(sizes), np.nan),
        radius=np.sqrt(squared_radius),
        within=(within_radius & inside).sum(axis=1) / sizes,
    )


def _bounds(a: FloatArray, x: FloatArray, sizes: IntArray) -> FloatArray:
    """Return (1−ᾱ) d₁ + M [ᾱ (L−N) − (1−ᾱ)] for the first N tokens, (n,)."""
    norms = (x**2).sum(axis=1)
    pairs = norms[:, None] + norms - 2 * x @ x.T
    # farthest later token of each token, then over all earlier tokens
    later = np.maximum.accumulate(pairs[:, ::-1], axis=1)[:, ::-1]
    farthest = np.sqrt([max(later[:size, size].max(), 0.0) for size in sizes.tolist()])
    longest = np.sqrt(np.maximum.accumulate(norms))[sizes - 1]
    share = np.cumsum(a)[sizes - 1]
    unselected_share = a.sum() - share
    return np.asarray(
        unselected_share * farthest + longest * (share * (len(a) - sizes) - unselected_share)
    )


def bounds_within(alpha: Any, values: Any, n: int) -> Separability:
    """Return bounds of the expected share of the top-N tokens within the measured r = ‖s‖, under
    independent uniform directions.

    Args:
        alpha: (L,) weights.
        values: (L, d) vectors.
        n: N, with positive weights and norms.
    """
    weights_of_tokens, x = np.asarray(alpha, dtype=np.float64), np.asarray(values, dtype=np.float64)
    selected = selection_order(weights_of_tokens)[:n]
    norms = np.linalg.norm(x[selected], axis=1)
    radius = np.linalg.norm(weights_of_tokens[selected] @ x[selected])
    a = weights_of_tokens[selected] * norms
    return separability(a, [float(radius)], x.shape[1], norm_max=float(norms.max()))


def share_by_chance(a: Any, dimension: int, draws: int, generator: np.random.Generator) -> float:
    """Return the null baseline: the mean share of selected tokens within ‖s‖ over draws of
    independent uniform directions.

    Args:
        a: (N,) effective weights; all 1 for flat weights.
        dimension: d.
        draws: number of sets of directions.
        generator: random number generator.

    Example:
        >>> round(share_by_chance(np.ones(60), 64, 500, np.random.default_rng(0)), 2)
        0.7
    """
    lengths = np.asarray(a, dtype=np.float64)
    within = 0.0
    at_once = max(1, 2**21 // (lengths.size * dimension))
    for start in range(0, draws, at_once):
        y = generator.normal(size=(min(at_once, draws - start), lengths.size, dimension))
        y *= (lengths / np.linalg.norm(y, axis=2))[:, :, None]
        inner = (y.sum(axis=1)[:, None] * y).sum(axis=2)
        within += float((2 * inner >= lengths**2 * (1 - 1e-12)).mean(axis=1).sum())
    return within / draws


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Difference:
    """Two-sample Kolmogorov-Smirnov tests by size: statistic and p-value, (n,), and the smallest N
    at which they do not differ significantly (NaN if they always do).
    """

    statistic: FloatArray
    p_value: FloatArray
    critical: float


def difference(top: Any, chance: Any, n: Any, *, level: float = 0.05) -> Difference:
    """Test by size whether a quantity differs between top-N sets and random N-sets.

    The critical N depends on the number of samples: more samples detect smaller differences.

    Args:
        top: (sample, n) for top-N sets, such as d̃ of every head.
        chance: (sample, n) for random sets.
        n: (n,) ascending sizes N.
        level: significance level of the tests.

    Example:
        >>> top = np.stack([np.arange(40.0) + 100, np.arange(40.0)], axis=1)
        >>> difference(top, np.stack([np.arange(40.0)] * 2, axis=1), [1, 2]).critical
        2.0
    """
    top_samples = np.asarray(top, dtype=np.float64)
    random_samples = np.asarray(chance, dtype=np.float64)
    tests = [ks_2samp(*pair) for pair in zip(top_samples.T, random_samples.T, strict=True)]
    p_value = np.array([test.pvalue for test in tests])
    not_significant = np.flatnonzero(p_value > level)
    return Difference(
        statistic=np.array([test.statistic for test in tests]),
        p_value=p_value,
        critical=float(np.asarray(n)[not_significant[0]]) if not_significant.size else float("nan"),
    )


def steepest(alpha: Any) -> FloatArray:
    """Return the unit direction of largest change of softmax weights, (…, L), by power iteration on
    diag α − α αᵀ, started at the largest weight.

    Example:
        >>> steepest([0.5, 0.5]).round(3).tolist()
        [0.707, -0.707]
    """
    a = np.asarray(alpha, dtype=np.float64)
    first = np.arange(a.shape[-1]) == a.argmax(axis=-1)[..., None]
    direction = np.where(first, 1.0, 0.0)
    for _ in range(POWER_STEPS):
        image = a * (direction - (a * direction).sum(axis=-1, keepdims=True))
        norm = np.linalg.norm(image, axis=-1, keepdims=True)
        direction = np.where(norm > 0, image / np.where(norm > 0, norm, 1.0), direction)
    return np.asarray(direction)


def response(alpha: Any, temperature: float) -> FloatArray:
    """Return the rate of change of softmax weights in their steepest direction at temperature T,
    (…), by a finite difference; logits are log α at T = 1.

    Args:
        alpha: (…, L) weights at T = 1.
        temperature: T > 0.

    Example:
        >>> round(float(response([0.5, 0.5], 0.1)), 4)
        4.9999
    """
    weights_at_one = np.asarray(alpha, dtype=np.float64)
    with np.errstate(divide="ignore"):
        logits = np.log(weights_at_one)
    direction = steepest(weights(logits, temperature))
    return sensitivity(logits, direction, STEP, temperature)
