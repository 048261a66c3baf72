"""Cumulative distance of the unselected tokens from the sum of the selected contributions.

d̃ = Σ_{i∉I} ‖s − y_i‖ with y_i = α_i x_i and s = Σ_{i∈I} y_i. Source: arXiv 2508.17821, Theorem 1.
Distances are in units of value norm. Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.arrays import BoolArray, FloatArray
from theory.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Distances:
    """d̃ of one selection in three readings, and its bounds; arrays of shape (…).

    total: Σ_{i∉I} ‖s − y_i‖. one_norm: ‖s − Σ_{i∉I} y_i‖. root: (Σ_{i∉I} ‖s − y_i‖²)^½. printed:
    (1−ᾱ) d₁ + M [ᾱ (L−N) − (1−ᾱ)], proven for `total` where α_i ≤ ᾱ for every i ∉ I. repaired: the
    same with M Σ_{i∉I} |ᾱ − α_i|, proven for `total` and any I. lower, upper: proven for `total`,
    from ‖s‖, ⟨s, Σ_{i∉I} y_i⟩ and the norms outside. covered: whether α_i ≤ ᾱ for all i ∉ I.
    """

    total: FloatArray
    one_norm: FloatArray
    root: FloatArray
    printed: FloatArray
    repaired: FloatArray
    lower: FloatArray
    upper: FloatArray
    covered: BoolArray


def distances(alpha: Any, values: Any, inside: Any) -> Distances:
    """Return d̃ and its bounds for selections of a head.

    Args:
        alpha: (…, L) non-negative weights with sum 1.
        values: (…, L, d) the weighted vectors x.
        inside: (…, L) mask of the selected tokens; neither none nor all, with positive weight.

    Raises:
        InputError: on inconsistent shapes, or a selection of no token or all.

    Example:
        >>> found = distances([1 / 3] * 3, [[1.0], [2.0], [2.0]], [True, False, False])
        >>> [round(float(x), 3) for x in (found.total, found.printed, found.one_norm)]
        [0.667, 0.667, 1.0]
    """
    weights, vectors, selected = _checked(alpha, values, inside)
    y = weights[..., None] * vectors
    s = np.where(selected[..., None], y, 0.0).sum(axis=-2)
    unselected_sum = np.where(selected[..., None], 0.0, y).sum(axis=-2)
    squares = ((s[..., None, :] - y) ** 2).sum(axis=-1)
    outside = np.where(selected, 0.0, squares)
    count = (~selected).sum(axis=-1)
    gap = count[..., None] * s - unselected_sum
    share = np.where(selected, weights, 0.0).sum(axis=-1)
    unselected_share = np.where(selected, 0.0, weights).sum(axis=-1)
    norms = np.linalg.norm(vectors, axis=-1)
    longest = np.where(selected, norms, 0.0).max(axis=-1)
    farthest = farthest_pair(vectors, selected)
    missing = np.where(selected, 0.0, np.abs(share[..., None] - weights)).sum(axis=-1)
    return Distances(
        total=np.sqrt(outside).sum(axis=-1),
        one_norm=np.linalg.norm(s - unselected_sum, axis=-1),
        root=np.sqrt(outside.sum(axis=-1)),
        printed=unselected_share * farthest + longest * (share * count - unselected_share),
        repaired=unselected_share * farthest + longest * missing,
        lower=np.linalg.norm(gap, axis=-1),
        upper=np.sqrt(count * outside.sum(axis=-1)),
        covered=np.where(selected, 0.0, weights).max(axis=-1) <= share,
    )


def farthest_pair(values: FloatArray, inside: BoolArray) -> FloatArray:
    """Return d₁ = max ‖x_j − x_i‖ over i ∉ I and j ∈ I, shape (…)."""
    squares = (values**2).sum(axis=-1)
    between = squares[..., :, None] + squares[..., None, :]
    between -= 2 * values @ np.swapaxes(values, -1, -2)
    pairs = inside[..., None, :] & ~inside[..., :, None]
    largest = np.where(pairs, between, 0.0).max(axis=(-2, -1))
    return np.asarray(np.sqrt(np.maximum(largest, 0.0)))


def _checked(alpha: Any, values: Any, inside: Any) -> tuple[FloatArray, FloatArray, BoolArray]:
    weights, vectors = np.asarray(alpha, dtype=np.float64), np.asarray(values, dtype=np.float64)
    selected = np.asarray(inside, dtype=bool)
    if weights.shape != selected.shape or vectors.shape[:-1] != weights.shape:
        raise InputError(
            f"alpha has shape {weights.shape}, values {vectors.shape}, inside {selected.shape};"
            " expected (…, L), (…, L, d) and (…, L). Reshape them."
        )
    if not selected.any(axis=-1).all() or selected.all(axis=-1).any():
        raise InputError("inside selects no token or all of them, expected some. Change N.")
    return weights, vectors, selected
