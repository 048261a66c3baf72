"""Random rows at which the statements of the normaliser are tried: logits, heads, selections.

Every row has a seed of its own. They hold the corners on purpose: flat and dominated weights,
values that agree or oppose, a few tokens and hundreds. Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from theory.arrays import BoolArray, FloatArray
from theory.normaliser.distances import random_set, top_set
from theory.normaliser.normalisers import weights

LENGTHS: Final = (2, 200)
"""Least and most tokens L, log-uniform."""

DIMENSIONS: Final = (2, 64)
"""Least and most dimensions, log-uniform."""

SELECTED: Final = (2, 24)
"""Least and most selected tokens of a row of Theorem 2, log-uniform."""

LARGEST_LOGIT: Final = 6.0
"""Δ is uniform up to this; T log-uniform from 1/10 to 3."""

RADII: Final = 3
"""Radii of a row of Theorem 2, a fifth to nine fifths of the root mean square distance."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Logits:
    """Logits (L,) within ±bound, a temperature."""

    values: FloatArray
    bound: float
    temperature: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Head:
    """Weights (L,), values (L, d), which tokens are selected (L,), and whether they are the N
    largest weights.
    """

    alpha: FloatArray
    values: FloatArray
    inside: BoolArray
    by_weight: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steps:
    """Effective weights of the selected (N,), the largest of their values' norms, a dimension and
    radii (radius,).
    """

    a: FloatArray
    norm_max: float
    dimension: int
    radius: FloatArray


def log_uniform(generator: np.random.Generator, ends: tuple[float, float]) -> int:
    """Return an integer between two ends, uniform in its logarithm."""
    low, high = np.log(ends[0]), np.log(ends[1] + 1)
    return min(int(np.exp(generator.uniform(low, high))), int(ends[1]))


def logits(generator: np.random.Generator) -> Logits:
    """Draw logits: uniform ones, few far above the rest, or nearly tied ones."""
    length, bound = log_uniform(generator, LENGTHS), generator.uniform(0, LARGEST_LOGIT)
    kind = generator.integers(3)
    if kind == 0:
        values = generator.uniform(-bound, bound, length)
    elif kind == 1:
        values = np.where(generator.random(length) < 2 / length, bound, -bound)
    else:
        values = bound * (1 - 1e-3 * generator.random(length))
    return Logits(
        values=values, bound=bound, temperature=float(np.exp(generator.uniform(-2.3, 1.1)))
    )


def head(generator: np.random.Generator) -> Head:
    """Draw a head and a selection of 1 to L − 1 tokens, at random in a third of the rows."""
    length, dimension = log_uniform(generator, LENGTHS), log_uniform(generator, DIMENSIONS)
    alpha = weights(generator.normal(size=length) * generator.choice([0.0, 0.5, 2.0, 5.0]))
    values = generator.normal(size=(length, dimension))
    values += generator.choice([0.0, 1.0, 10.0]) * generator.normal(size=dimension)
    values *= generator.lognormal(0.0, generator.choice([0.0, 0.5, 1.5]), length)[:, None]
    n, by_weight = int(generator.integers(1, length)), bool(generator.random() < 2 / 3)
    inside = top_set(alpha, n) if by_weight else random_set((length,), n, generator)
    if generator.random() < 0.25:  # values outside agree, and oppose or outweigh those inside
        outside = generator.choice([-1.0, 2.0]) * values[inside].mean(axis=0)
        values[~inside] = outside + 0.01 * generator.normal(size=(length - n, dimension))
    return Head(alpha=alpha, values=values, inside=inside, by_weight=by_weight)


def steps(generator: np.random.Generator) -> Steps:
    """Draw effective weights of a selection: flat, Dirichlet or dominated, of equal or unequal
    norms; and radii.
    """
    n, dimension = log_uniform(generator, SELECTED), log_uniform(generator, DIMENSIONS)
    alpha = generator.dirichlet(np.full(n, generator.choice([0.3, 1.0, 1e6])))
    alpha = np.maximum(alpha, 1e-6) * generator.uniform(0.3, 1 / (1 + 1e-6 * n))
    norms = generator.lognormal(0.0, generator.choice([0.0, 0.5]), n)
    a = alpha * norms
    rms = np.sqrt(np.mean((a**2).sum() - a**2))
    radius = rms * generator.uniform(0.2, 1.8, RADII)
    return Steps(a=a, norm_max=float(norms.max()), dimension=dimension, radius=radius)
