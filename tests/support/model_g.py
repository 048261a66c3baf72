"""Bounds against simulated truth and against each other, and Grams of given directions."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from theory.evaluate.simulate import Simulation
from theory.head.results import BOUNDS, QUANTITIES, Envelope


def assert_holds(
    bounds: Envelope,
    truth: Simulation,
    quantities: Iterable[str] = QUANTITIES,
    *,
    sides: tuple[str, ...] = ("lower", "upper"),
    least: float = 0.0,
    slack: float = 0.0,
) -> None:
    """Raise where a bound lies beyond the simulated mean by more than four standard errors, each
    taken as `least` at least, and `slack` for rounding. Sizes whose mean is NaN are left out.
    """
    for quantity in quantities:
        mean = getattr(truth, quantity)
        error = 4 * np.maximum(getattr(truth, f"{quantity}_se"), least) + slack
        for side in sides:
            away = getattr(bounds, f"{quantity}_{side}") - mean
            holds = (away <= error if side == "lower" else -away <= error) | np.isnan(mean)
            assert holds.all(), (quantity, side, bounds.n[~holds])


NUMBERS = (*BOUNDS, "margin", "margin_sink", "scale")
"""Arrays of an `Envelope` that depend on the edition."""


def assert_same(
    found: Any,
    expected: Any,
    names: Iterable[str] = NUMBERS,
    *,
    head: int | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> None:
    """Raise where the named arrays differ, by default in any bit; NaN equals NaN. head: the one of
    `found` that is expected.
    """
    for name in names:
        array = getattr(found, name)
        np.testing.assert_allclose(
            array if head is None else array[head],
            getattr(expected, name),
            rtol=rtol,
            atol=atol,
            err_msg=name,
        )


def rows_of(text: str) -> list[list[float]]:
    """Return rows written as "1 2, 3 4"."""
    return [[float(number) for number in row.split()] for row in text.split(",")]


def gram_of(directions: Any) -> np.ndarray:
    """Return the cosines of directions (T, d); those of equal directions are exactly 1."""
    rows = np.asarray(directions, dtype=float)
    distinct, like = np.unique(rows, axis=0, return_inverse=True)
    units = distinct / np.linalg.norm(distinct, axis=1, keepdims=True)
    gram = units @ units.T
    np.fill_diagonal(gram, 1.0)
    return ((gram + gram.T) / 2)[np.ix_(like, like)]
