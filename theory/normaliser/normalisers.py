"""Normalisers of attention logits, how large their weights can be, and their Jacobians.

Softmax; sparsemax (Martins and Astudillo 2016); 1.5-entmax (Peters, Niculae and Martins 2019);
scalable softmax, whose logits are multiplied by log L (Nakanishi 2025). Source: arXiv 2508.17821,
Lemmas 1-2. Logits and temperature are unitless. Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from theory.arrays import FloatArray
from theory.errors import InputError

Normaliser = Literal["softmax", "scalable", "sparsemax", "entmax15"]

NORMALISERS: Final[tuple[Normaliser, ...]] = ("softmax", "scalable", "sparsemax", "entmax15")


@dataclass(frozen=True, slots=True, kw_only=True)
class JacobianLimits:
    """What no entry, in absolute value, and no spectral norm of a Jacobian exceeds."""

    entry: float
    norm: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightLimits:
    """The least and the largest weight that there can be."""

    lower: FloatArray
    upper: FloatArray


def weights(logits: Any, temperature: float = 1.0, kind: Normaliser = "softmax") -> FloatArray:
    """Return the weights of logits, shape (…, L).

    Args:
        logits: (…, L).
        temperature: T > 0, which divides the logits.
        kind: one of `NORMALISERS`.

    Raises:
        InputError: for another kind, or a temperature that is not positive.

    Example:
        >>> weights([1.0, 0.0, -1.0], kind="sparsemax").tolist()
        [1.0, 0.0, 0.0]
        >>> weights([0.0, 0.0], kind="entmax15").round(6).tolist()
        [0.5, 0.5]
    """
    z = np.asarray(logits, dtype=np.float64)
    if kind not in NORMALISERS or not temperature > 0:
        raise InputError(
            f"kind={kind!r}, temperature={temperature}: expected one of {', '.join(NORMALISERS)}"
            " and a positive number. Change it."
        )
    z = z / temperature * _factor(z.shape[-1], kind)
    z = z - z.max(axis=-1, keepdims=True)
    if kind == "sparsemax":
        return _sparsemax(z)
    if kind == "entmax15":
        return _entmax15(z)
    exponential = np.exp(z)
    return np.asarray(exponential / exponential.sum(axis=-1, keepdims=True))


def _factor(length: int, kind: Normaliser) -> float:
    """What the logits are multiplied by: log L for the scalable softmax, else 1."""
    return float(np.log(length)) if kind == "scalable" else 1.0


def _sparsemax(z: FloatArray) -> FloatArray:
    """The nearest point of the simplex: (z − τ)₊ with the τ of the largest support that fits."""
    ordered = -np.sort(-z, axis=-1)
    rank = np.arange(1, z.shape[-1] + 1)
    threshold = (np.cumsum(ordered, axis=-1) - 1) / rank
    support = (ordered > threshold).sum(axis=-1, keepdims=True)
    return np.maximum(z - np.take_along_axis(threshold, support - 1, axis=-1), 0.0)


def _entmax15(z: FloatArray) -> FloatArray:
    """(z/2 − τ)₊² with Σ = 1: τ = m − √(1/k − v) from mean m and variance v of the k largest."""
    ordered = -np.sort(-z / 2, axis=-1)
    rank = np.arange(1, z.shape[-1] + 1)
    mean = np.cumsum(ordered, axis=-1) / rank
    variance = np.cumsum(ordered**2, axis=-1) / rank - mean**2
    threshold = mean - np.sqrt(np.maximum(1 / rank - variance, 0.0))
    support = (ordered > threshold).sum(axis=-1, keepdims=True)
    return np.maximum(z / 2 - np.take_along_axis(threshold, support - 1, axis=-1), 0.0) ** 2


def jacobian(alpha: Any, temperature: float = 1.0, kind: Normaliser = "softmax") -> FloatArray:
    """Return ∂α_i/∂l_j, (…, L, L), from the weights alone: c (diag g − g gᵀ/Σg).

    g is α for both softmaxes, 1 on the support for sparsemax, √α for 1.5-entmax; c is 1/T, log L/T
    for the scalable one. Where the support of the sparse ones changes it is the derivative on one
    side.

    Example:
        >>> jacobian([0.5, 0.5]).tolist()
        [[0.25, -0.25], [-0.25, 0.25]]
    """
    a = np.asarray(alpha, dtype=np.float64)
    if kind == "sparsemax":
        g = (a > 0) * 1.0
    elif kind == "entmax15":
        g = np.sqrt(a)
    else:
        g = a
    total = g.sum(axis=-1, keepdims=True)[..., None]
    outer = g[..., :, None] * g[..., None, :]
    diagonal = g[..., :, None] * np.eye(a.shape[-1])
    return np.asarray((diagonal - outer / total) * _factor(a.shape[-1], kind) / temperature)


def jacobian_limits(
    length: int, temperature: float = 1.0, kind: Normaliser = "softmax"
) -> JacobianLimits:
    """Return what no entry and no spectral norm of a Jacobian exceeds, whatever the logits.

    Of softmax 1/(4T) and 1/(2T); of the scalable one log L times that; of sparsemax (1 − 1/L)/T and
    1/T; all of these are attained. Of 1.5-entmax 1/T for both, which is approached as L grows.

    Example:
        >>> jacobian_limits(10, 0.5)
        JacobianLimits(entry=0.5, norm=1.0)
    """
    scale = _factor(length, kind) / temperature
    shares = {"sparsemax": (1 - 1 / length, 1.0), "entmax15": (1.0, 1.0)}
    entry, norm = shares.get(kind, (0.25, 0.5))
    return JacobianLimits(entry=entry * scale, norm=norm * scale)


def softmax_norm_limit(alpha: Any, temperature: float = 1.0) -> FloatArray:
    """Return an upper bound of the spectral norm of softmax's Jacobian at given weights, shape (…):
    min(max α, 2 max α(1−α))/T, the first because α αᵀ is taken away from diag α, the second by
    Gershgorin's circles.
    """
    a = np.asarray(alpha, dtype=np.float64)
    return np.asarray(np.minimum(a.max(axis=-1), 2 * (a * (1 - a)).max(axis=-1)) / temperature)


def weight_limits(length: int, spread: Any) -> WeightLimits:
    """Return the least and the largest softmax weight that logits within `spread` of each other
    allow, exact: 1/(1 + (L−1) e^±spread).

    Lemma 1 has e^∓spread/L, which is wider. Its spread is 2Δ/T where every |logit| ≤ Δ.

    Args:
        length: L, the number of tokens.
        spread: largest less smallest logit, over T; any shape.

    Example:
        >>> found = weight_limits(2, np.log(3))
        >>> round(float(found.lower), 4), round(float(found.upper), 4)
        (0.25, 0.75)
    """
    wide = np.asarray(spread, dtype=np.float64)
    return WeightLimits(
        lower=1 / (1 + (length - 1) * np.exp(wide)), upper=1 / (1 + (length - 1) * np.exp(-wide))
    )


def sensitivity(
    logits: Any,
    direction: Any,
    step: float,
    temperature: float = 1.0,
    kind: Normaliser = "softmax",
) -> FloatArray:
    """Return ‖α(l + εu) − α(l)‖/ε for unit directions u, shape (…): finite-difference sensitivity.

    At most min{1/(2T), √2/ε} for softmax: the first by its Jacobian's norm, the second because two
    distributions are at most √2 apart.

    Args:
        logits: (…, L).
        direction: (…, L), of length 1.
        step: ε > 0.
        temperature: T > 0.
        kind: one of `NORMALISERS`.

    Example:
        >>> round(float(sensitivity([0.0, 0.0], [0.5**0.5, -(0.5**0.5)], 1e-6)), 6)
        0.5
    """
    before = weights(logits, temperature, kind)
    moved = np.asarray(logits, dtype=np.float64) + step * np.asarray(direction, dtype=np.float64)
    return np.asarray(np.linalg.norm(weights(moved, temperature, kind) - before, axis=-1) / step)
