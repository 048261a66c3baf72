"""What the normaliser's statements say of one measured head: from its weights and values alone.

Algorithms 1-5 of arXiv 2508.17821: the summed distance over sizes N, where a set of the largest
weights stops to differ from a random one, the share of the selected within a radius beside its
bounds and what chance gives, and how weights respond to their logits. Imports numpy and scipy.
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
"""Length ε of a change of the logits, in nats: slopes change little over it above T = 0.01."""

POWER_STEPS: Final = 30
"""Steps of the power iteration towards the steepest direction."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nested:
    """Nested selections of one head, arrays (n,), in units of value norm.

    total: d̃ = Σ_{i∉I} ‖s − y_i‖. bound: that of Theorem 1, NaN where it was not asked for. radius:
    ‖s‖. within: share of the selected with ‖s − y_i‖ ≤ ‖s‖, nearer to s than what has no weight.
    """

    n: IntArray
    total: FloatArray
    bound: FloatArray
    radius: FloatArray
    within: FloatArray


def nested(alpha: Any, values: Any, order: IntArray, n: Any, *, bounded: bool = True) -> Nested:
    """Return d̃, its bound and the share within ‖s‖ of the first N tokens of an order.

    Args:
        alpha: (L,) weights.
        values: (L, d) vectors.
        order: (L,) tokens in the order in which they are selected.
        n: (K,) sizes, each 1 <= N < L.
        bounded: whether the bound is evaluated, which takes all pairs of tokens; it holds where
            the order is by falling weight.

    Raises:
        InputError: if a size is not there.

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
    own = (s**2).sum(axis=1)
    squares = own[:, None] - 2 * s @ y.T + (y**2).sum(axis=1)
    inside = np.arange(len(a)) < sizes[:, None]
    apart = np.sqrt(np.maximum(squares, 0.0))
    near = 2 * s @ y.T >= (y**2).sum(axis=1) * (1 - 1e-12)
    return Nested(
        n=sizes,
        total=np.where(inside, 0.0, apart).sum(axis=1),
        bound=_bounds(a, x, sizes) if bounded else np.full(len(sizes), np.nan),
        radius=np.sqrt(own),
        within=(near & inside).sum(axis=1) / sizes,
    )


def _bounds(a: FloatArray, x: FloatArray, sizes: IntArray) -> FloatArray:
    """(1−ᾱ) d₁ + M [ᾱ (L−N) − (1−ᾱ)] of the first N tokens, (n,)."""
    norms = (x**2).sum(axis=1)
    pairs = norms[:, None] + norms - 2 * x @ x.T
    # the farthest later token of each, then of all that come before
    later = np.maximum.accumulate(pairs[:, ::-1], axis=1)[:, ::-1]
    apart = np.sqrt([max(later[:size, size].max(), 0.0) for size in sizes.tolist()])
    longest = np.sqrt(np.maximum.accumulate(norms))[sizes - 1]
    share = np.cumsum(a)[sizes - 1]
    left = a.sum() - share
    return np.asarray(left * apart + longest * (share * (len(a) - sizes) - left))


def bounds_within(alpha: Any, values: Any, n: int) -> Separability:
    """Return the bounds of the expected share of the N largest weights within r = ‖s‖ as measured,
    under independent uniform directions.

    Args:
        alpha: (L,) weights.
        values: (L, d) vectors.
        n: N, with positive weights and norms.
    """
    weighed, x = np.asarray(alpha, dtype=np.float64), np.asarray(values, dtype=np.float64)
    chosen = selection_order(weighed)[:n]
    norms = np.linalg.norm(x[chosen], axis=1)
    radius = np.linalg.norm(weighed[chosen] @ x[chosen])
    return separability(
        weighed[chosen] * norms, [float(radius)], x.shape[1], norm_max=float(norms.max())
    )


def share_by_chance(a: Any, dimension: int, draws: int, generator: np.random.Generator) -> float:
    """Return the share of selected tokens within ‖s‖ where their directions are independent and
    uniform: the mean over draws.

    Args:
        a: (N,) effective weights; all 1 for flat weights.
        dimension: d.
        draws: how many sets of directions.
        generator: that draws them.

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
    """Two-sample Kolmogorov-Smirnov tests by size: statistic and p-value, (n,), and the least N at
    which the two are not told apart, NaN where they always are.
    """

    statistic: FloatArray
    p_value: FloatArray
    critical: float


def difference(top: Any, chance: Any, n: Any, *, level: float = 0.05) -> Difference:
    """Return by size whether a quantity of top-N sets differs from that of random N-sets.

    The critical N depends on how many samples there are: more of them tell smaller differences.

    Args:
        top: (sample, n) of the N largest weights, such as d̃ of every head.
        chance: (sample, n) of random sets.
        n: (n,) sizes N, rising.
        level: p-values up to it tell the two apart.

    Example:
        >>> top = np.stack([np.arange(40.0) + 100, np.arange(40.0)], axis=1)
        >>> difference(top, np.stack([np.arange(40.0)] * 2, axis=1), [1, 2]).critical
        2.0
    """
    one, other = np.asarray(top, dtype=np.float64), np.asarray(chance, dtype=np.float64)
    tests = [ks_2samp(*pair) for pair in zip(one.T, other.T, strict=True)]
    p_value = np.array([test.pvalue for test in tests])
    alike = np.flatnonzero(p_value > level)
    return Difference(
        statistic=np.array([test.statistic for test in tests]),
        p_value=p_value,
        critical=float(np.asarray(n)[alike[0]]) if alike.size else float("nan"),
    )


def steepest(alpha: Any) -> FloatArray:
    """Return the direction of unit length in which softmax weights change most, (…, L), by power
    iteration on diag α − α αᵀ, from the largest weight against the others.

    Example:
        >>> steepest([0.5, 0.5]).round(3).tolist()
        [0.707, -0.707]
    """
    a = np.asarray(alpha, dtype=np.float64)
    first = np.arange(a.shape[-1]) == a.argmax(axis=-1)[..., None]
    way = np.where(first, 1.0, 0.0)
    for _ in range(POWER_STEPS):
        moved = a * (way - (a * way).sum(axis=-1, keepdims=True))
        norm = np.linalg.norm(moved, axis=-1, keepdims=True)
        way = np.where(norm > 0, moved / np.where(norm > 0, norm, 1.0), way)
    return np.asarray(way)


def response(alpha: Any, temperature: float) -> FloatArray:
    """Return how fast softmax weights change in their steepest direction at temperature T, (…), by
    a finite difference; their logits are log α at T = 1.

    Args:
        alpha: (…, L) weights at T = 1.
        temperature: T > 0.

    Example:
        >>> round(float(response([0.5, 0.5], 0.1)), 4)
        4.9999
    """
    measured = np.asarray(alpha, dtype=np.float64)
    with np.errstate(divide="ignore"):
        logits = np.log(measured)
    way = steepest(weights(logits, temperature))
    return sensitivity(logits, way, STEP, temperature)
