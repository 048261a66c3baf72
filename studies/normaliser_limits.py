"""Numbers of normaliser statements that only their trial (`studies.normaliser`) evaluates: attained
limits of weights and Jacobians, and means over random sets.

Source: arXiv 2508.17821, Lemmas 1-2 and Theorem 1; statements in `theory.normaliser.expressions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.arrays import BoolArray, FloatArray
from theory.errors import InputError
from theory.normaliser.normalisers import Normaliser


def top_set(alpha: Any, n: int) -> BoolArray:
    """Return the mask of the N largest weights, ties by lower index, shape (…, L).

    Args:
        alpha: (…, L) weights.
        n: N, at least 1 and below L.

    Raises:
        InputError: if N is out of range.

    Example:
        >>> top_set([0.2, 0.5, 0.3], 2).tolist()
        [False, True, True]
    """
    weights = np.asarray(alpha, dtype=np.float64)
    if not 1 <= n < weights.shape[-1]:
        raise InputError(
            f"n is {n}, expected 1 to {weights.shape[-1] - 1}, fewer than the tokens. Change it."
        )
    order = np.argsort(-weights, axis=-1, kind="stable")
    inside = np.zeros(weights.shape, dtype=bool)
    np.put_along_axis(inside, order[..., :n], True, axis=-1)
    return inside


def random_set(shape: tuple[int, ...], n: int, generator: np.random.Generator) -> BoolArray:
    """Draw N-subsets of the last axis uniformly; return a mask of shape `shape`."""
    return top_set(generator.random(shape), n)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RandomSets:
    """Means over uniform N-subsets I: exact mean of Σ_{i∉I} ‖s − y_i‖², and bounds of the mean of
    d̃, which has no closed form; arrays of shape (…).
    """

    squares: FloatArray
    lower: FloatArray
    upper: FloatArray


def random_sets(alpha: Any, values: Any, n: int) -> RandomSets:
    """Return the means over uniform N-subsets in closed form.

    With A = Σ ‖y_i‖² and Y = ‖Σ y_i‖² over all L tokens, E Σ_{i∉I} ‖s − y_i‖² =
    (L−N)/L · [(N+1) A + N (N−3)/(L−1) · (Y − A)]. Jensen's inequality gives the two bounds.

    Args:
        alpha: (…, L) weights.
        values: (…, L, d) vectors.
        n: N, at least 1 and below L.

    Example:
        >>> found = random_sets([0.5, 0.5], [[1.0], [-1.0]], 1)
        >>> float(found.squares), float(found.lower), float(found.upper)
        (1.0, 0.0, 1.0)
    """
    weights, vectors = np.asarray(alpha, dtype=np.float64), np.asarray(values, dtype=np.float64)
    length = weights.shape[-1]
    top_set(weights, n)  # refuses an invalid size
    y = weights[..., None] * vectors
    squared_norms = (y**2).sum(axis=(-2, -1))
    whole = (y.sum(axis=-2) ** 2).sum(axis=-1)
    outside = length - n
    squares = (
        outside
        / length
        * ((n + 1) * squared_norms + n * (n - 3) / (length - 1) * (whole - squared_norms))
    )
    squares = np.maximum(squares, 0.0)
    return RandomSets(
        squares=squares,
        lower=outside * (n - 1) / length * np.sqrt(whole),
        upper=np.sqrt(outside * squares),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JacobianLimits:
    """Upper limits of the absolute entries and of the spectral norm of a Jacobian."""

    entry: float
    norm: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightLimits:
    """Smallest and largest possible weight."""

    lower: FloatArray
    upper: FloatArray


def jacobian_limits(
    length: int, temperature: float = 1.0, kind: Normaliser = "softmax"
) -> JacobianLimits:
    """Return upper limits of the entries and the spectral norm of a Jacobian over all logits.

    Softmax: 1/(4T) and 1/(2T); scalable softmax: log L times these; sparsemax: (1 − 1/L)/T and 1/T.
    All are attained. 1.5-entmax: 1/T for both, approached as L grows.

    Example:
        >>> jacobian_limits(10, 0.5)
        JacobianLimits(entry=0.5, norm=1.0)
    """
    scale = float(np.log(length) if kind == "scalable" else 1.0) / temperature
    shares = {"sparsemax": (1 - 1 / length, 1.0), "entmax15": (1.0, 1.0)}
    entry, norm = shares.get(kind, (0.25, 0.5))
    return JacobianLimits(entry=entry * scale, norm=norm * scale)


def softmax_norm_limit(alpha: Any, temperature: float = 1.0) -> FloatArray:
    """Return an upper bound of the spectral norm of the softmax Jacobian at given weights, shape
    (…): min(max α, 2 max α(1−α))/T, from diag α − α αᵀ ≤ diag α and from Gershgorin circles.
    """
    a = np.asarray(alpha, dtype=np.float64)
    return np.asarray(np.minimum(a.max(axis=-1), 2 * (a * (1 - a)).max(axis=-1)) / temperature)


def weight_limits(length: int, spread: Any) -> WeightLimits:
    """Return the exact smallest and largest softmax weight for logits within `spread` of each
    other: 1/(1 + (L−1) e^±spread).

    Lemma 1 has e^∓spread/L, which is wider. Its spread is 2Δ/T where every |logit| ≤ Δ.

    Args:
        length: L, the number of tokens.
        spread: range of the logits divided by T; any shape.

    Example:
        >>> found = weight_limits(2, np.log(3))
        >>> round(float(found.lower), 4), round(float(found.upper), 4)
        (0.25, 0.75)
    """
    wide = np.asarray(spread, dtype=np.float64)
    return WeightLimits(
        lower=1 / (1 + (length - 1) * np.exp(wide)), upper=1 / (1 + (length - 1) * np.exp(-wide))
    )
