"""Cumulative distance of the tokens that are not selected from the sum of those that are.

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
    from ‖s‖, ⟨s, Σ_{i∉I} y_i⟩ and the norms outside. covered: whether α_i ≤ ᾱ outside.
    """

    total: FloatArray
    one_norm: FloatArray
    root: FloatArray
    printed: FloatArray
    repaired: FloatArray
    lower: FloatArray
    upper: FloatArray
    covered: BoolArray


def top_set(alpha: Any, n: int) -> BoolArray:
    """Return which tokens are the N largest weights, ties by lower index, shape (…, L).

    Args:
        alpha: (…, L) weights.
        n: N, at least 1 and below L.

    Raises:
        InputError: if N is not.

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
    """Return uniformly drawn N-subsets of the last axis, shape `shape`."""
    return top_set(generator.random(shape), n)


def distances(alpha: Any, values: Any, inside: Any) -> Distances:
    """Return d̃ and its bounds for selections of a head.

    Args:
        alpha: (…, L) weights, non-negative, with sum 1.
        values: (…, L, d) the vectors x that are weighted.
        inside: (…, L) which tokens are selected: some, not all, with some weight.

    Raises:
        InputError: on shapes that do not go together, or a selection of none or all.

    Example:
        >>> found = distances([1 / 3] * 3, [[1.0], [2.0], [2.0]], [True, False, False])
        >>> [round(float(x), 3) for x in (found.total, found.printed, found.one_norm)]
        [0.667, 0.667, 1.0]
    """
    weights, vectors, chosen = _checked(alpha, values, inside)
    y = weights[..., None] * vectors
    s = np.where(chosen[..., None], y, 0.0).sum(axis=-2)
    rest = np.where(chosen[..., None], 0.0, y).sum(axis=-2)
    squares = ((s[..., None, :] - y) ** 2).sum(axis=-1)
    outside = np.where(chosen, 0.0, squares)
    count = (~chosen).sum(axis=-1)
    gap = count[..., None] * s - rest
    share = np.where(chosen, weights, 0.0).sum(axis=-1)
    left = np.where(chosen, 0.0, weights).sum(axis=-1)
    norms = np.linalg.norm(vectors, axis=-1)
    longest = np.where(chosen, norms, 0.0).max(axis=-1)
    apart = farthest_pair(vectors, chosen)
    missing = np.where(chosen, 0.0, np.abs(share[..., None] - weights)).sum(axis=-1)
    return Distances(
        total=np.sqrt(outside).sum(axis=-1),
        one_norm=np.linalg.norm(s - rest, axis=-1),
        root=np.sqrt(outside.sum(axis=-1)),
        printed=left * apart + longest * (share * count - left),
        repaired=left * apart + longest * missing,
        lower=np.linalg.norm(gap, axis=-1),
        upper=np.sqrt(count * outside.sum(axis=-1)),
        covered=np.where(chosen, 0.0, weights).max(axis=-1) <= share,
    )


def farthest_pair(values: FloatArray, inside: BoolArray) -> FloatArray:
    """Return d₁ = max ‖x_j − x_i‖ over i ∉ I and j ∈ I, shape (…)."""
    squares = (values**2).sum(axis=-1)
    between = squares[..., :, None] + squares[..., None, :]
    between -= 2 * values @ np.swapaxes(values, -1, -2)
    pairs = inside[..., None, :] & ~inside[..., :, None]
    largest = np.where(pairs, between, 0.0).max(axis=(-2, -1))
    return np.asarray(np.sqrt(np.maximum(largest, 0.0)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RandomSets:
    """Over uniformly drawn N-subsets I: the mean of Σ_{i∉I} ‖s − y_i‖², exact, and bounds of the
    mean of d̃, which has no closed form; arrays of shape (…).
    """

    squares: FloatArray
    lower: FloatArray
    upper: FloatArray


def random_sets(alpha: Any, values: Any, n: int) -> RandomSets:
    """Return what uniformly drawn N-subsets give in the mean, in closed form.

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
    top_set(weights, n)  # refuses a size that there is not
    y = weights[..., None] * vectors
    own = (y**2).sum(axis=(-2, -1))
    whole = (y.sum(axis=-2) ** 2).sum(axis=-1)
    out = length - n
    squares = out / length * ((n + 1) * own + n * (n - 3) / (length - 1) * (whole - own))
    squares = np.maximum(squares, 0.0)
    return RandomSets(
        squares=squares,
        lower=out * (n - 1) / length * np.sqrt(whole),
        upper=np.sqrt(out * squares),
    )


def _checked(alpha: Any, values: Any, inside: Any) -> tuple[FloatArray, FloatArray, BoolArray]:
    weights, vectors = np.asarray(alpha, dtype=np.float64), np.asarray(values, dtype=np.float64)
    chosen = np.asarray(inside, dtype=bool)
    if weights.shape != chosen.shape or vectors.shape[:-1] != weights.shape:
        raise InputError(
            f"alpha has shape {weights.shape}, values {vectors.shape}, inside {chosen.shape};"
            " expected (…, L), (…, L, d) and (…, L). Reshape them."
        )
    if not chosen.any(axis=-1).all() or chosen.all(axis=-1).any():
        raise InputError("inside selects no token or all of them, expected some. Change N.")
    return weights, vectors, chosen
