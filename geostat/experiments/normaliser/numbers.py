"""Measurements of the statements on the softmax normaliser in one document: by head, then means.

Source: arXiv 2508.17821, Algorithms 1-5. Distances are in units of the head's summed effective
weight Σ α‖v‖, so heads can be averaged. Imports numpy and theory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.losses import mean_over_documents
from theory.arrays import IntArray, selection_order
from theory.normaliser.measured import bounds_within, difference, nested, response, share_by_chance

SIZE: Final = 5
"""N of the curves over context lengths."""
SIZES: Final = 14
"""Number of sizes N of the curves over N."""
PAPER_SHARE: Final = 0.06
"""Critical N/L of GPT-2 in the paper; the nearest size is among the N."""
TEMPERATURES: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
CHANCE_DRAWS: Final = 16
"""Draws of random directions for each head and size."""

BY_LENGTH: Final = ("distance", "distance_bound", "log_largest", "below_upper", "above_lower")
WITHIN: Final = (
    *("within", "within_lower", "within_upper"),
    *("within_sharp_lower", "within_sharp_upper", "within_chance"),
)
BY_SIZE: Final = ("distance_by_n", "distance_bound_by_n", "distance_chance", *WITHIN)


def sizes_of(tokens: int) -> IntArray:
    """Return the sizes N for a window of `tokens` tokens, ascending.

    >>> sizes_of(64).tolist()
    [1, 2, 3, 4, 5, 7, 9, 13, 18, 24, 33, 46, 63]
    """
    grid = np.unique(np.geomspace(1, tokens - 1, SIZES).round().astype(np.int64))
    return np.unique([*grid, max(1, round(PAPER_SHARE * tokens))])


@dataclass(slots=True)
class Heads:
    """Measurements of the heads of one document, added layer by layer.

    Attributes:
        lengths: context lengths L, ascending; the last is the window length.
        n: sizes N at the last L.
    """

    lengths: Sequence[int]
    n: IntArray
    generator: np.random.Generator
    by_length: list[FloatArray] = field(default_factory=list)
    by_size: list[FloatArray] = field(default_factory=list)
    responses: list[FloatArray] = field(default_factory=list)

    def add(self, alpha: FloatArray, values: FloatArray, visible: BoolArray) -> None:
        """Add a layer.

        Args:
            alpha: weights of the last query of each context, (length, head, position).
            values: (kv_head, position, dimension).
            visible: tokens visible to these queries, (length, position). A layer whose window hides
                some of the L tokens is omitted at that L, and from the largest weights at all L.
        """
        group = alpha.shape[1] // len(values)
        whole = visible.sum(axis=1) == np.asarray(self.lengths)
        for head in range(alpha.shape[1]):
            x = values[head // group]
            rows = np.full((len(BY_LENGTH), len(self.lengths)), np.nan)
            for index in np.flatnonzero(whole):
                mask = visible[index]
                rows[:, index] = of_length(alpha[index, head, mask], x[mask])
            self.by_length.append(rows)
            if whole[-1]:
                last, mask = alpha[-1, head, visible[-1]], visible[-1]
                self.by_size.append(of_sizes(last, x[mask], self.n, self.generator))
                self.responses.append(
                    np.array([float(response(last, cold)) for cold in TEMPERATURES])
                )

    def numbers(self) -> dict[str, FloatArray]:
        """Return means over heads by name, the largest response, and Kolmogorov-Smirnov tests over
        heads of d̃ for the N largest weights against N random tokens.
        """
        over_length = np.stack(self.by_length)
        largest = BY_LENGTH.index("log_largest")  # use the same heads at all L
        incomplete = np.isnan(over_length[:, largest]).any(axis=-1)
        over_length[incomplete, largest] = np.nan
        unknown = np.full((1, len(BY_SIZE), len(self.n)), np.nan)
        over_size = np.stack(self.by_size) if self.by_size else unknown
        steep = np.stack(self.responses or [np.full(len(TEMPERATURES), np.nan)])
        numbers: dict[str, FloatArray] = {
            **dict(zip(BY_LENGTH, mean_over_documents(over_length), strict=True)),
            **dict(zip(BY_SIZE, over_size.mean(axis=0), strict=True)),
            "ks": unknown[0, 0],
            "critical_share": np.array(np.nan),
            "response": steep.mean(axis=0),
            "response_most": steep.max(axis=0),
        }
        numbers["power"] = power(self.lengths, numbers["log_largest"])
        if self.by_size:
            pair = ("distance_by_n", "distance_chance")
            top, chance = (over_size[:, BY_SIZE.index(name)] for name in pair)
            test = difference(top, chance, self.n)
            numbers["ks"] = test.statistic
            numbers["critical_share"] = np.array(test.critical / self.lengths[-1])
        return numbers


def of_length(alpha: FloatArray, values: FloatArray) -> FloatArray:
    """Return BY_LENGTH of one head: d̃ at N = SIZE, its bound, log α_max, and the log ratios of
    Lemma 1's upper bound to the largest weight and of the smallest weight to its lower bound.

    For the measured range of logits, log(α_max/α_min), the bounds are α_max/(α_min L) and
    α_min/(α_max L), so the log ratios are −log(L α_min) and log(L α_max).
    """
    distances = nested(alpha, values, selection_order(alpha), [SIZE])
    unit = _unit(alpha, values)
    with np.errstate(divide="ignore"):
        largest, least = np.log(alpha.max()), np.log(alpha.min())
    length = np.log(len(alpha))
    below = -(length + least) if np.isfinite(least) else np.nan
    return np.array(
        [distances.total[0] / unit, distances.bound[0] / unit, largest, below, length + largest]
    )


def of_sizes(
    alpha: FloatArray, values: FloatArray, n: IntArray, generator: np.random.Generator
) -> FloatArray:
    """Return BY_SIZE of one head, (quantity, n); bounds on the share are cut to [0, 1]."""
    order, unit = selection_order(alpha), _unit(alpha, values)
    top = nested(alpha, values, order, n)
    chance = nested(alpha, values, generator.permutation(len(alpha)), n, bounded=False)
    a = (alpha * np.linalg.norm(values, axis=1))[order]
    rows = np.empty((len(WITHIN), len(n)))
    rows[0] = top.within
    for index, size in enumerate(n.tolist()):
        if top.radius[index] > 0 and a[:size].min() > 0:
            within = bounds_within(alpha, values, size)
            printed = (within.printed_lower, within.printed_upper)
            bounds = (*printed, within.sharp_lower, within.sharp_upper)
            rows[1:5, index] = np.clip(np.concatenate(bounds), 0, 1)
        else:  # a token of weight 0 lies at the radius
            rows[1:5, index] = 0, 1, 0, 1
        rows[5, index] = share_by_chance(a[:size], values.shape[1], CHANCE_DRAWS, generator)
    return np.stack([top.total / unit, top.bound / unit, chance.total / unit, *rows])


def power(lengths: Sequence[int], log_largest: FloatArray) -> FloatArray:
    """Return γ of α_max ∝ L^−γ by least squares on logarithms; NaN with fewer than two lengths.

    >>> float(power([64, 128, 256], -0.5 * np.log([64, 128, 256])).round(6))
    0.5
    """
    known = np.isfinite(log_largest)
    if known.sum() < 2:
        return np.array(np.nan)
    x = np.log(np.asarray(lengths, dtype=np.float64)[known])
    x -= x.mean()
    return np.array(-(x @ log_largest[known]) / (x @ x))


def _unit(alpha: FloatArray, values: FloatArray) -> float:
    return float(alpha @ np.linalg.norm(values, axis=1))
