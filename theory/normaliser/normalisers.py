"""Normalisers of attention logits: weights and Jacobians.

Softmax; sparsemax (Martins and Astudillo 2016); 1.5-entmax (Peters, Niculae and Martins 2019);
scalable softmax, whose logits are multiplied by log L (Nakanishi 2025). Source: arXiv 2508.17821,
Lemmas 1-2. Logits and temperature are unitless. Imports numpy.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np

from theory.arrays import FloatArray
from theory.errors import InputError

Normaliser = Literal["softmax", "scalable", "sparsemax", "entmax15"]

NORMALISERS: Final[tuple[Normaliser, ...]] = ("softmax", "scalable", "sparsemax", "entmax15")


def weights(logits: Any, temperature: float = 1.0, kind: Normaliser = "softmax") -> FloatArray:
    """Return the normalised weights of logits, shape (…, L).

    Args:
        logits: (…, L).
        temperature: T > 0; logits are divided by T.
        kind: one of `NORMALISERS`.

    Raises:
        InputError: for an unknown kind, or a non-positive temperature.

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
    """Return the factor on the logits: log L for the scalable softmax, otherwise 1."""
    return float(np.log(length)) if kind == "scalable" else 1.0


def _sparsemax(z: FloatArray) -> FloatArray:
    """Return the nearest point of the simplex: (z − τ)₊, τ of the largest support."""
    ordered = -np.sort(-z, axis=-1)
    rank = np.arange(1, z.shape[-1] + 1)
    threshold = (np.cumsum(ordered, axis=-1) - 1) / rank
    support = (ordered > threshold).sum(axis=-1, keepdims=True)
    return np.maximum(z - np.take_along_axis(threshold, support - 1, axis=-1), 0.0)


def _entmax15(z: FloatArray) -> FloatArray:
    """Return (z/2 − τ)₊², τ = m − √(1/k − v) from mean m and variance v of the k largest."""
    ordered = -np.sort(-z / 2, axis=-1)
    rank = np.arange(1, z.shape[-1] + 1)
    mean = np.cumsum(ordered, axis=-1) / rank
    variance = np.cumsum(ordered**2, axis=-1) / rank - mean**2
    threshold = mean - np.sqrt(np.maximum(1 / rank - variance, 0.0))
    support = (ordered > threshold).sum(axis=-1, keepdims=True)
    return np.maximum(z / 2 - np.take_along_axis(threshold, support - 1, axis=-1), 0.0) ** 2


def jacobian(alpha: Any, temperature: float = 1.0, kind: Normaliser = "softmax") -> FloatArray:
    """Return ∂α_i/∂l_j, (…, L, L), from the weights: c (diag g − g gᵀ/Σg).

    g is α for both softmaxes, 1 on the support for sparsemax, √α for 1.5-entmax; c is 1/T (log L/T
    for the scalable softmax). Where the support of a sparse normaliser changes, the result is a
    one-sided derivative.

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


def sensitivity(
    logits: Any, direction: Any, step: float, temperature: float = 1.0, kind: Normaliser = "softmax"
) -> FloatArray:
    """Return ‖α(l + εu) − α(l)‖/ε for unit directions u, shape (…): finite-difference sensitivity.

    At most min{1/(2T), √2/ε} for softmax: by the norm of its Jacobian, and because two
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
