"""Statements of the normaliser beside random rows and simulation: how often each is violated.

The judge of a mean is simulation: a row counts as violated beyond four standard errors, and is
drawn again with a hundred times the draws before it does. What needs no simulation counts beyond
rounding. Source: arXiv 2508.17821. Imports numpy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from theory.arrays import FloatArray
from theory.normaliser import samples
from theory.normaliser.direction_sums import LEAST
from theory.normaliser.distances import distances, random_set, random_sets
from theory.normaliser.normalisers import (
    NORMALISERS,
    jacobian,
    jacobian_limits,
    sensitivity,
    softmax_norm_limit,
    weight_limits,
    weights,
)
from theory.normaliser.separability import (
    expected_share,
    mean_lengths_below,
    mean_squares,
    separability,
    square_variances,
)

SIGMAS: Final = 4.0
"""Standard errors beyond which a mean counts as outside a bound."""

AGAIN: Final = 100
"""How many times as many draws a row gets before it counts as violated."""

ROUNDING: Final = 1e-9
"""Relative: what lies beyond a bound by less is rounding."""

CHUNK_NUMBERS: Final = 2**21
"""Numbers drawn at once: 16 MB of float64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One comparison: how far the truth lies beyond the bound (negative: within), the standard
    error of that, and the size of what is compared.
    """

    excess: float
    error: float
    size: float

    @property
    def beyond(self) -> bool:
        """Whether the truth lies beyond the bound, by more than noise and rounding."""
        return self.excess > SIGMAS * self.error + ROUNDING * self.size

    @property
    def slack(self) -> float:
        """How far it lies within, as a share of the size: 0 of a bound that is attained."""
        return max(-self.excess, 0.0) / self.size if self.size else 0.0


Key = tuple[str, str]
"""A statement's name, and how it is read where print leaves that open."""


@dataclass(slots=True)
class Tally:
    """Cells by statement and reading."""

    cells: dict[Key, list[Cell]] = field(default_factory=lambda: defaultdict(list))

    def most(self, key: Key, truth: Any, bound: Any, error: Any = 0.0, size: float = 0.0) -> None:
        """Add cells of truth ≤ bound; size: at least that of what is compared."""
        arrays = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (truth, bound, error)))
        for one, limit, noise in zip(*(array.ravel().tolist() for array in arrays), strict=True):
            larger = max(abs(one), abs(limit), size)
            self.cells[key].append(Cell(excess=one - limit, error=noise, size=larger))

    def least(self, key: Key, truth: Any, bound: Any, error: Any = 0.0) -> None:
        """Add cells of truth ≥ bound."""
        self.most(key, -np.asarray(truth), -np.asarray(bound), error)

    def equal(self, key: Key, truth: Any, value: Any, error: Any = 0.0, size: float = 0.0) -> None:
        """Add cells of truth = value."""
        size = max(size, float(np.abs(value).max()))
        self.most(key, np.abs(np.asarray(truth) - np.asarray(value)), 0.0, error, size)

    def beyond(self) -> bool:
        """Return whether any cell lies beyond its bound."""
        return any(cell.beyond for cells in self.cells.values() for cell in cells)

    def add(self, other: Tally) -> None:
        """Add the cells of another."""
        for key, cells in other.cells.items():
            self.cells[key].extend(cells)


def tried(rows: int, *, seed: int = 0, draws: int = 400) -> Tally:
    """Try every statement at so many rows of each kind.

    Args:
        rows: of logits, of heads, of random sets and of selections each.
        seed: of the rows.
        draws: of a mean, at first.

    Example:
        >>> found = tried(3, seed=1, draws=50)
        >>> len(found.cells[("softmax_weight_upper", "")])
        3
    """
    result = Tally()
    for number, one in enumerate((_of_logits, _of_head, _of_sets, _of_steps)):
        for row in range(rows):
            result.add(_settled(one, (seed, number, row), draws))
    return result


def _settled(
    row: Callable[[np.random.Generator, int], Tally], seed: tuple[int, int, int], draws: int
) -> Tally:
    """Return a row, drawn again with more draws where a mean lies beyond a bound."""
    found = row(np.random.default_rng(seed), draws)
    noisy = any(cell.error > 0 for cells in found.cells.values() for cell in cells)
    return row(np.random.default_rng(seed), AGAIN * draws) if noisy and found.beyond() else found


def _of_logits(generator: np.random.Generator, _: int) -> Tally:
    """Lemmas 1 and 2 at one row of logits."""
    row, tally = samples.logits(generator), Tally()
    length, cold = len(row.values), row.temperature
    alpha, spread = weights(row.values, cold), 2 * row.bound / cold
    power = generator.uniform(0.5, 4)
    response = (row.values + row.bound + 0.1) ** power
    ratio = ((2 * row.bound + 0.1) / 0.1) ** power
    exact = weight_limits(length, spread)
    for key, weight, low, high in (
        ("weight", response / response.sum(), 1 / ratio / length, ratio / length),
        ("softmax_weight", alpha, np.exp(-spread) / length, np.exp(spread) / length),
        ("sharp_weight", alpha, exact.lower, exact.upper),
    ):
        tally.least((f"{key}_lower", ""), weight.min(), low)
        tally.most((f"{key}_upper", ""), weight.max(), high)
    for kind in NORMALISERS:
        slopes = jacobian(weights(row.values, cold, kind), cold, kind)
        limits, norm = jacobian_limits(length, cold, kind), np.linalg.norm(slopes, 2)
        size = limits.norm
        tally.most((f"{kind}_slope_upper", ""), np.abs(slopes).max(), limits.entry, size=size)
        tally.most((f"{kind}_norm_upper", ""), norm, limits.norm, size=size)
        if kind == "softmax":
            printed = min(1 / (4 * cold), 2**0.5)
            tally.most(("jacobian_norm_upper", "spectral norm"), norm, printed)
            tally.most(("jacobian_norm_upper", "largest entry"), np.abs(slopes).max(), printed)
            tally.most(
                ("sharp_jacobian_norm_upper", ""), norm, softmax_norm_limit(alpha, cold), size=size
            )
    step, away = float(np.exp(generator.uniform(-6, 2))), generator.normal(size=length)
    moved = step * sensitivity(row.values, away / np.linalg.norm(away), step, cold)
    tally.most(("weight_change_upper", ""), moved, min(step / (2 * cold), 2**0.5))
    return tally


def _of_head(generator: np.random.Generator, _: int) -> Tally:
    """Theorem 1 at one selection."""
    row, tally = samples.head(generator), Tally()
    found = distances(row.alpha, row.values, row.inside)
    if found.covered:
        for reading, truth in (
            ("sum of norms", found.total),
            ("one norm", found.one_norm),
            ("root of squares", found.root),
        ):
            tally.most(("distance_sum_upper", reading), truth, found.printed)
    else:
        tally.most(("distance_sum_upper", "α_i > ᾱ outside"), found.total, found.printed)
    tally.most(("repaired_distance_sum_upper", ""), found.total, found.repaired)
    tally.most(("sharp_distance_sum_upper", ""), found.total, found.upper)
    tally.least(("sharp_distance_sum_lower", ""), found.total, found.lower)
    return tally


def _of_sets(generator: np.random.Generator, draws: int) -> Tally:
    """Means over random sets of one head."""
    row, tally = samples.head(generator), Tally()
    length, n = len(row.alpha), int(row.inside.sum())
    y = row.alpha[:, None] * row.values
    exact = random_sets(row.alpha, row.values, n)
    totals, squares = np.empty(draws), np.empty(draws)
    at_once = max(1, CHUNK_NUMBERS // y.size)
    for start in range(0, draws, at_once):
        stop = min(start + at_once, draws)
        inside = random_set((stop - start, length), n, generator)
        apart = (((inside @ y)[:, None] - y) ** 2).sum(axis=2)
        apart = np.where(inside, 0.0, apart)
        totals[start:stop], squares[start:stop] = np.sqrt(apart).sum(1), apart.sum(1)
    # where values cancel, the closed form is a difference of sums of this size
    size = float((y**2).sum()) * length
    tally.equal(("random_set_squares", ""), squares.mean(), exact.squares, _error(squares), size)
    error = max(_error(totals), float(np.sqrt(np.finfo(float).eps * length * size)))
    tally.most(("random_set_upper", ""), totals.mean(), exact.upper, error)
    tally.least(("random_set_lower", ""), totals.mean(), exact.lower, error)
    return tally


def _of_steps(generator: np.random.Generator, draws: int) -> Tally:
    """Theorem 2 at one selection and several radii."""
    row, tally = samples.steps(generator), Tally()
    within, lengths, spread = _walks(row, draws, generator)
    mean = within.mean(axis=0)
    error = np.maximum(within.std(axis=0, ddof=1) / draws**0.5, 1 / draws)
    bounds = separability(row.a, row.radius, row.dimension, norm_max=row.norm_max)
    small = np.sqrt(mean_squares(row.a))
    contribution = np.exp(
        -(np.maximum(small[:, None] - row.radius, 0) ** 2) / (2 * row.a.max() ** 2)
    )
    tally.least(("share_within_lower", ""), mean, bounds.printed_lower, error)
    for reading, bound in (
        ("M of values", bounds.printed_upper),
        ("M of contributions", contribution.mean(axis=0)),
    ):
        tally.most(("share_within_upper", reading), mean, bound, error)
    tally.most(("repaired_share_within_upper", ""), mean, bounds.repaired_upper, error)
    tally.least(("sharp_share_within_lower", ""), mean, bounds.sharp_lower, error)
    tally.most(("sharp_share_within_upper", ""), mean, bounds.sharp_upper, error)
    variance = square_variances(row.a, row.dimension)[0]
    size = mean_squares(row.a)[0] ** 2  # of two tokens the variance is 0, and the rest rounding
    tally.equal(("square_variance", ""), spread.mean(), variance, _error(spread), size)
    below = mean_lengths_below(row.a, row.dimension)[0]
    error_of_length = max(_error(lengths), ROUNDING * below)
    tally.least(("mean_distance_lower", ""), lengths.mean(), below, error_of_length)
    if row.dimension >= LEAST or row.a.size <= 3:
        law = expected_share(row.a, row.radius, row.dimension)
        tally.equal(("expected share, exact law", ""), mean, law, error)
    return tally


def _walks(
    row: samples.Steps, draws: int, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Simulate: the share within each radius (draw, radius), the first token's distance (draw,)
    and its square's squared deviation (draw,).
    """
    within, first = np.empty((draws, len(row.radius))), np.empty(draws)
    at_once = max(1, CHUNK_NUMBERS // (row.a.size * row.dimension))
    for start in range(0, draws, at_once):
        stop = min(start + at_once, draws)
        y = generator.normal(size=(stop - start, row.a.size, row.dimension))
        y *= (row.a / np.linalg.norm(y, axis=2))[:, :, None]
        square = ((y.sum(axis=1)[:, None] - y) ** 2).sum(axis=2)
        within[start:stop] = (square[:, :, None] <= row.radius**2).mean(axis=1)
        first[start:stop] = square[:, 0]
    return within, np.sqrt(first), (first - mean_squares(row.a)[0]) ** 2


def _error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / values.size**0.5)
