"""Normaliser statements tested at random rows and by simulation: violations of each.

Run: python -m studies.normaliser docs/studies/normaliser.md (3 minutes). It writes that page.

A statement about a mean is compared with simulation. It is violated beyond four standard errors, in
two simulations, the second with a hundred times the draws. A statement without a mean is violated
beyond rounding. The rows include extreme cases: flat and dominated weights, parallel and opposite
values, two tokens and hundreds. Source: arXiv 2508.17821.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from studies.normaliser_limits import (
    jacobian_limits,
    random_set,
    random_sets,
    softmax_norm_limit,
    top_set,
    weight_limits,
)
from theory.arrays import BoolArray, FloatArray
from theory.normaliser.direction_sums import LEAST
from theory.normaliser.distances import distances
from theory.normaliser.normalisers import NORMALISERS, jacobian, sensitivity, weights
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
"""Factor on the draws of the second simulation, before a row counts as violated."""

ROUNDING: Final = 1e-9
"""Relative excess over a bound that counts as rounding."""

CHUNK_NUMBERS: Final = 2**21
"""Numbers per chunk of draws: 16 MB of float64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One comparison of a truth with its bound.

    excess: truth minus bound, signed so that a positive value violates the bound. error: standard
    error of the excess. size: scale of the compared values.
    """

    excess: float
    error: float
    size: float

    @property
    def beyond(self) -> bool:
        """Whether the bound is violated by more than noise and rounding."""
        return self.excess > SIGMAS * self.error + ROUNDING * self.size

    @property
    def slack(self) -> float:
        """Distance of the truth from its bound, divided by the size; 0 if the bound is attained."""
        return max(-self.excess, 0.0) / self.size if self.size else 0.0


Key = tuple[str, str]
"""Name of a statement, and its reading if the printed text is ambiguous."""


@dataclass(slots=True)
class Tally:
    """Cells by statement and reading."""

    cells: dict[Key, list[Cell]] = field(default_factory=lambda: defaultdict(list))

    def most(self, key: Key, truth: Any, bound: Any, error: Any = 0.0, size: float = 0.0) -> None:
        """Add cells of truth ≤ bound; `size` is the least scale of the cells."""
        arrays = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (truth, bound, error)))
        for value, limit, noise in zip(*(array.ravel().tolist() for array in arrays), strict=True):
            larger = max(abs(value), abs(limit), size)
            self.cells[key].append(Cell(excess=value - limit, error=noise, size=larger))

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
        """Add the cells of another tally."""
        for key, cells in other.cells.items():
            self.cells[key].extend(cells)


def check_statements(rows: int, *, seed: int = 0, draws: int = 400) -> Tally:
    """Test every statement at random rows of each kind.

    Args:
        rows: number of rows of logits, of heads, of random sets and of selections each.
        seed: seed of the rows.
        draws: initial number of draws of a mean.

    Example:
        >>> tally = check_statements(3, seed=1, draws=50)
        >>> len(tally.cells[("softmax_weight_upper", "")])
        3
    """
    result = Tally()
    for number, check in enumerate((_of_logits, _of_head, _of_sets, _of_steps)):
        for row in range(rows):
            result.add(_settled(check, (seed, number, row), draws))
    return result


def _settled(
    row: Callable[[np.random.Generator, int], Tally], seed: tuple[int, int, int], draws: int
) -> Tally:
    """Return the tally of a row, simulated again with more draws if a mean violates a bound."""
    found = row(np.random.default_rng(seed), draws)
    noisy = any(cell.error > 0 for cells in found.cells.values() for cell in cells)
    return row(np.random.default_rng(seed), AGAIN * draws) if noisy and found.beyond() else found


def _of_logits(generator: np.random.Generator, _: int) -> Tally:
    """Test Lemmas 1 and 2 at one row of logits."""
    row, tally = draw_logits(generator), Tally()
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
    """Test Theorem 1 at one selection."""
    row, tally = draw_head(generator), Tally()
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
    """Test means over random sets of one head."""
    row, tally = draw_head(generator), Tally()
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
    # If values cancel, the closed form is a difference of sums of this size.
    size = float((y**2).sum()) * length
    tally.equal(("random_set_squares", ""), squares.mean(), exact.squares, _error(squares), size)
    error = max(_error(totals), float(np.sqrt(np.finfo(float).eps * length * size)))
    tally.most(("random_set_upper", ""), totals.mean(), exact.upper, error)
    tally.least(("random_set_lower", ""), totals.mean(), exact.lower, error)
    return tally


def _of_steps(generator: np.random.Generator, draws: int) -> Tally:
    """Test Theorem 2 at one selection and several radii."""
    row, tally = draw_steps(generator), Tally()
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
    size = mean_squares(row.a)[0] ** 2  # for two tokens the variance is 0 up to rounding
    tally.equal(("square_variance", ""), spread.mean(), variance, _error(spread), size)
    below = mean_lengths_below(row.a, row.dimension)[0]
    error_of_length = max(_error(lengths), ROUNDING * below)
    tally.least(("mean_distance_lower", ""), lengths.mean(), below, error_of_length)
    if row.dimension >= LEAST or row.a.size <= 3:
        law = expected_share(row.a, row.radius, row.dimension)
        tally.equal(("expected share, exact law", ""), mean, law, error)
    return tally


def _walks(
    row: Steps, draws: int, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Simulate the share within each radius (draw, radius), the first token's distance (draw,) and
    the squared deviation of its squared distance (draw,).
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


LENGTHS: Final = (2, 200)
"""Least and most tokens L, log-uniform."""

DIMENSIONS: Final = (2, 64)
"""Least and most dimensions, log-uniform."""

SELECTED: Final = (2, 24)
"""Least and most selected tokens of a row of Theorem 2, log-uniform."""

LARGEST_LOGIT: Final = 6.0
"""Δ is uniform up to this; T log-uniform from 1/10 to 3."""

RADII: Final = 3
"""Radii per row of Theorem 2, from 0.2 to 1.8 times the root mean square distance."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Logits:
    """Logits (L,) within ±bound, a temperature."""

    values: FloatArray
    bound: float
    temperature: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Head:
    """Weights (L,), values (L, d), mask of selected tokens (L,), and whether these have the N
    largest weights.
    """

    alpha: FloatArray
    values: FloatArray
    inside: BoolArray
    by_weight: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steps:
    """Effective weights of the selected tokens (N,), their largest value norm, a dimension and
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


def draw_logits(generator: np.random.Generator) -> Logits:
    """Draw logits: uniform, a few far above the rest, or nearly tied."""
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


def draw_head(generator: np.random.Generator) -> Head:
    """Draw a head and a selection of 1 to L − 1 tokens, at random in a third of the rows."""
    length, dimension = log_uniform(generator, LENGTHS), log_uniform(generator, DIMENSIONS)
    alpha = weights(generator.normal(size=length) * generator.choice([0.0, 0.5, 2.0, 5.0]))
    values = generator.normal(size=(length, dimension))
    values += generator.choice([0.0, 1.0, 10.0]) * generator.normal(size=dimension)
    values *= generator.lognormal(0.0, generator.choice([0.0, 0.5, 1.5]), length)[:, None]
    n, by_weight = int(generator.integers(1, length)), bool(generator.random() < 2 / 3)
    inside = top_set(alpha, n) if by_weight else random_set((length,), n, generator)
    if (
        generator.random() < 0.25
    ):  # unselected values are parallel, and oppose or outweigh the selected
        outside = generator.choice([-1.0, 2.0]) * values[inside].mean(axis=0)
        values[~inside] = outside + 0.01 * generator.normal(size=(length - n, dimension))
    return Head(alpha=alpha, values=values, inside=inside, by_weight=by_weight)


def draw_steps(generator: np.random.Generator) -> Steps:
    """Draw effective weights of a selection (flat, Dirichlet or dominated, equal or unequal norms)
    and radii.
    """
    n, dimension = log_uniform(generator, SELECTED), log_uniform(generator, DIMENSIONS)
    alpha = generator.dirichlet(np.full(n, generator.choice([0.3, 1.0, 1e6])))
    alpha = np.maximum(alpha, 1e-6) * generator.uniform(0.3, 1 / (1 + 1e-6 * n))
    norms = generator.lognormal(0.0, generator.choice([0.0, 0.5]), n)
    a = alpha * norms
    rms = np.sqrt(np.mean((a**2).sum() - a**2))
    radius = rms * generator.uniform(0.2, 1.8, RADII)
    return Steps(a=a, norm_max=float(norms.max()), dimension=dimension, radius=radius)


PRINTED: Final = frozenset(
    {
        "weight_lower",
        "weight_upper",
        "softmax_weight_lower",
        "softmax_weight_upper",
        "distance_sum_upper",
        "share_within_lower",
        "share_within_upper",
        "softmax_slope_upper",
        "jacobian_norm_upper",
    }
)
"""Statements of the paper; the others are corrections and sharp forms."""

COMMAND: Final = ".venv/bin/python -m studies.normaliser docs/studies/normaliser.md"


def document(tally: Tally, *, rows: int, seed: int, draws: int) -> str:
    """Return the result as a Markdown page."""
    printed = {key: cells for key, cells in tally.cells.items() if key[0] in PRINTED}
    claimed = {key: cells for key, cells in tally.cells.items() if key[0] not in PRINTED}
    count = sum(cell.beyond for cells in claimed.values() for cell in cells)
    total = sum(len(cells) for cells in claimed.values())
    return "\n".join(
        [
            "# Normaliser against simulation",
            "",
            f"Written by `{COMMAND}`.",
            "",
            (
                "The statements of “Limitations of Normalization in Attention Mechanism” (arXiv"
                " 2508.17821), and their corrections, tested at random rows. `geostat theory NAME`"
                " prints a statement. [The errata](../reference/errata.md) from 101 on list the"
                " errors in print."
            ),
            "",
            *_how(rows, seed, draws),
            "",
            "## Printed statements",
            "",
            *_table(printed),
            "",
            "## Corrected and sharp statements",
            "",
            (
                f"Target: none violated. Found: {count} of {total:,} cells,"
                f" {'met' if count == 0 else '**missed**'}."
            ),
            "",
            *_table(claimed),
            "",
        ]
    )


def _how(rows: int, seed: int, draws: int) -> list[str]:
    """Return the description of rows, violations and columns."""
    (least, most), (low, high) = LENGTHS, DIMENSIONS
    few, many = SELECTED
    return [
        (
            f"- **Rows.** {rows:,} each, seed {seed}, of four kinds. Logits: L {least} to {most}"
            f" tokens, Δ up to {LARGEST_LOGIT:g}, T from 0.1 to 3; uniform, a few far above the"
            f" rest, or nearly tied. Heads: the same L, {low} to {high} dimensions, 1 to L − 1"
            " selected tokens, by weight or (a third) at random. Random sets: means over random"
            f" selections of such heads. Selections: {few} to {many} tokens with {RADII} radii"
            " each, for Theorem 2."
        ),
        (
            "- **Violated.** A statement about a row is violated beyond rounding"
            f" ({ROUNDING:g}, relative). A statement about a mean is violated beyond {SIGMAS:g}"
            f" standard errors of {draws} draws, and again of {AGAIN} times as many."
        ),
        (
            "- **Largest violation**: relative to the larger of bound and truth. **Slack**:"
            " distance of the truth from its bound on the same scale, median; 0 means that the"
            " bound is attained, 1 that it is vacuous."
        ),
    ]


def _table(tallied: dict[Key, list[Cell]]) -> list[str]:
    """Return the lines of a table, one per statement and reading."""
    lines = [
        "| statement | reading | cells | violated | largest violation | median slack |",
        "|---|---|---|---|---|---|",
    ]
    for (name, reading), cells in tallied.items():
        beyond = [cell for cell in cells if cell.beyond]
        worst = max((cell.excess / cell.size for cell in beyond), default=0.0)
        slack = np.median([cell.slack for cell in cells])
        lines.append(
            f"| {name} | {reading or '–'} | {len(cells):,} | {len(beyond)} |"
            f" {f'{worst:.2f}' if beyond else '–'} | {slack:.2f} |"
        )
    return lines


def main(arguments: list[str] | None = None) -> None:
    """Test the statements and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.normaliser",
        description="Test every statement of the normaliser and write the counts as Markdown.",
    )
    parser.add_argument("out", type=Path)
    for name, default in (("rows", 2000), ("draws", 400), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args(arguments)
    if options.rows < 1 or options.draws < 2 or options.seed < 0:
        parser.error("expected at least 1 row and 2 draws, and a seed of at least 0")
    tally = check_statements(options.rows, seed=options.seed, draws=options.draws)
    written = document(tally, rows=options.rows, seed=options.seed, draws=options.draws)
    options.out.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
