"""Differences between runs: each run's number minus another's, with errors paired by document.

The standard error is a jackknife that leaves a document out of both runs where both hold it.
Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.comparison.comparability import (
    LETTERS,
    OF_EVERYTHING,
    SETTINGS,
    Held,
    differing,
    pairing,
    shared,
)
from geostat.comparison.quantities import Quantity, Scalar
from geostat.datasets.variable import Value, Variable, variables
from geostat.statistics.jackknife import Estimate
from geostat.statistics.multiple_testing import adjusted
from geostat.statistics.t_test import critical_value, two_sided

_INTERVAL: Final = {"interval": "95% document jackknife, t on `degrees`"}
_difference = partial(Variable, dims=("pair", "quantity"))
_pair = partial(Variable, dims=("pair",))
DIFFERENCES: Final = (
    _difference(
        "difference",
        "the first run's number minus the second's",
        symbol="d",
        more=_INTERVAL,
        estimated=True,
    ),
    _difference("degrees", "degrees of freedom of the difference"),
    _difference("p", "two-sided p-value of the difference"),
    _difference("p_holm", "the same, Holm over all differences here"),
    _difference("minds", "settings that differ and bear on the difference"),
    _pair("shared", "documents that both runs hold"),
    _pair("pairing", "how the standard error was made"),
    _pair("first", "index of the first run"),
    _pair("second", "index of the second run"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Estimate of one run minus another's, its standard error, limits, and degrees of freedom;
    NaN where not known.
    """

    value: float = float("nan")
    se: float = float("nan")
    lower: float = float("nan")
    upper: float = float("nan")
    degrees: float = float("nan")


def difference(
    first: Scalar, second: Scalar, documents: tuple[Sequence[str], Sequence[str]]
) -> Difference:
    """Subtract the second run's number from the first's, with a jackknife that leaves a shared
    document out of both.

    With u_k = √((K−1)/K) (θ₍ₖ₎ − θ̄) of each run, and 0 for a document it does not hold, se² =
    Σ_k (u_k of the first − u_k of the second)². If all documents are shared this is the jackknife
    of the difference; if none is, se² is the sum of both squares (unpaired).

    `documents` tells those of each run apart. t on K−1 degrees of freedom where all documents are
    shared, Welch and Satterthwaite's where none is, the smaller K−1 in between.

    >>> one = Scalar(estimate=1.0, without=np.array([0.9, 1.1]), heads=3)
    >>> difference(one, one, (("x", "y"), ("x", "y"))).se  # the same documents
    0.0
    """
    value, counts = first.estimate - second.estimate, [len(names) for names in documents]
    moved: dict[str, float] = dict.fromkeys([*documents[0], *documents[1]], 0.0)
    squares = []
    for sign, one, names in zip((1.0, -1.0), (first, second), documents, strict=True):
        shift = np.sqrt(1 - 1 / len(names)) * (one.without - one.without.mean())
        squares.append(float((shift**2).sum()))
        for name, part in zip(names, shift, strict=True):
            moved[name] += sign * float(part)
    se = (
        float(np.sqrt(sum(part**2 for part in moved.values()))) if min(counts) > 1 else float("nan")
    )
    if not np.isfinite(se) or not np.isfinite(value):
        return Difference(value=value)
    degrees = float(min(counts) - 1)
    if not set(documents[0]) & set(documents[1]) and sum(squares) > 0:
        degrees = sum(squares) ** 2 / sum(
            part**2 / (count - 1) for part, count in zip(squares, counts, strict=True)
        )
    half = float(critical_value(degrees)) * se
    return Difference(value=value, se=se, lower=value - half, upper=value + half, degrees=degrees)


def differences(
    held: Sequence[Held], by_run: Sequence[Mapping[str, Scalar]], asked: Sequence[Quantity]
) -> xr.Dataset:
    """Every run minus every later one, over (pair, quantity)."""
    pairs = list(combinations(range(len(held)), 2))
    shape = (len(pairs), len(asked))
    grid, minds = np.full(shape, Difference(), dtype=object), np.full(shape, "", dtype=object)
    for row, (one, other) in enumerate(pairs):
        topics = differing(held[one], held[other])
        for column, quantity in enumerate(asked):
            first, second = (by_run[at].get(quantity.key) for at in (one, other))
            if first is not None and second is not None:
                grid[row, column] = difference(
                    first, second, (held[one].documents, held[other].documents)
                )
            minds[row, column] = " ".join(
                topic for topic in SETTINGS if topic in topics & {*OF_EVERYTHING, *quantity.minds}
            )
    part: dict[str, Any] = {
        name: np.array([[getattr(cell, name) for cell in row] for row in grid])
        for name in Difference.__dataclass_fields__
    }
    p = two_sided(part["value"], part["se"], part["degrees"])
    both = [(held[one], held[other]) for one, other in pairs]
    numbers: dict[str, Value] = {
        "difference": Estimate(**{name: part[name] for name in ("value", "se", "lower", "upper")}),
        "degrees": part["degrees"],
        "p": p,
        "p_holm": adjusted(p.ravel(), "holm").reshape(shape),
        "minds": minds,
        "shared": np.array([shared(one, other) for one, other in both]),
        "pairing": np.array([pairing(one, other) for one, other in both], dtype=object),
        "first": np.array([one for one, _ in pairs]),
        "second": np.array([other for _, other in pairs]),
    }
    data = xr.Dataset(variables(DIFFERENCES, numbers))
    return data.assign_coords(
        pair=np.array([f"{LETTERS[one]} − {LETTERS[other]}" for one, other in pairs], dtype=object)
    )
