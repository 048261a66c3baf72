"""What the normaliser's statements say of one document: numbers of every head, then their means.

Algorithms 1-5 of arXiv 2508.17821. Distances are in units of the head's summed effective weight
Σ α‖v‖, so that heads can be averaged. Imports numpy and the theory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from geostat.statistics.arrays import BoolArray, FloatArray
from theory.arrays import IntArray, selection_order
from theory.normaliser.measured import bounds_within, difference, nested, response, share_by_chance

SIZE: Final = 5
"""N of the curves over lengths."""
SIZES: Final = 14
"""Sizes N of the curves over N."""
PAPER_SHARE: Final = 0.06
"""N/L at which the paper puts the critical N of GPT-2; the size nearest to it is among the N."""
TEMPERATURES: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
CHANCE_DRAWS: Final = 16
"""Draws of random directions of one head and size; they are averaged over heads."""

BY_LENGTH: Final = ("distance", "distance_bound", "log_largest", "below_upper", "above_lower")
WITHIN: Final = (
    "within",
    "within_lower",
    "within_upper",
    "within_sharp_lower",
    "within_sharp_upper",
    "within_chance",
)
BY_SIZE: Final = ("distance_by_n", "distance_bound_by_n", "distance_chance", *WITHIN)


def sizes_of(tokens: int) -> IntArray:
    """Return the sizes N at which a window of so many tokens is looked at, rising.

    >>> sizes_of(64).tolist()
    [1, 2, 3, 4, 5, 7, 9, 13, 18, 24, 33, 46, 63]
    """
    grid = np.unique(np.geomspace(1, tokens - 1, SIZES).round().astype(np.int64))
    return np.unique([*grid, max(1, round(PAPER_SHARE * tokens))])


@dataclass(slots=True)
class Heads:
    """Numbers of the heads of one document, gathered layer by layer.

    lengths: the L that are looked at, rising; the last is the window's. n: sizes at that L.
    """

    lengths: Sequence[int]
    n: IntArray
    generator: np.random.Generator
    by_length: list[FloatArray] = field(default_factory=list)
    by_size: list[FloatArray] = field(default_factory=list)
    responses: list[FloatArray] = field(default_factory=list)

    def add(self, alpha: FloatArray, values: FloatArray, visible: BoolArray) -> None:
        """Take in a layer.

        Args:
            alpha: (length, head, position) weights of the query that sees so many tokens.
            values: (kv_head, position, dimension).
            visible: (length, position) what these queries see. Where a window hides some of the
                L tokens, the layer is left out at that L, and its largest weights at all L.
        """
        group = alpha.shape[1] // len(values)
        whole = visible.sum(axis=1) == np.asarray(self.lengths)
        for head in range(alpha.shape[1]):
            x = values[head // group]
            rows = np.full((len(BY_LENGTH), len(self.lengths)), np.nan)
            for at in np.flatnonzero(whole):
                seen = visible[at]
                rows[:, at] = of_length(alpha[at, head, seen], x[seen])
            self.by_length.append(rows)
            if whole[-1]:
                last, seen = alpha[-1, head, visible[-1]], visible[-1]
                self.by_size.append(of_sizes(last, x[seen], self.n, self.generator))
                self.responses.append(
                    np.array([float(response(last, cold)) for cold in TEMPERATURES])
                )

    def numbers(self) -> dict[str, FloatArray]:
        """Return means over heads, by name, the largest response, and Kolmogorov-Smirnov tests of
        d̃ of the N largest weights against N random tokens, heads being the samples.
        """
        over_length = np.stack(self.by_length)
        largest = BY_LENGTH.index("log_largest")  # its fall is of the same heads at all L
        partly = np.isnan(over_length[:, largest]).any(axis=-1)
        over_length[partly, largest] = np.nan
        counted = np.isfinite(over_length).sum(axis=0)
        total = np.nansum(over_length, axis=0)
        mean = np.divide(total, counted, out=np.full(total.shape, np.nan), where=counted > 0)
        out: dict[str, FloatArray] = dict(zip(BY_LENGTH, mean, strict=True))
        out["power"] = power(self.lengths, out["log_largest"])
        if not self.by_size:
            shape = (len(BY_SIZE), len(self.n))
            out |= dict(zip(BY_SIZE, np.full(shape, np.nan), strict=True))
            out["ks"], out["critical_share"] = np.full(len(self.n), np.nan), np.array(np.nan)
            out["response"] = out["response_most"] = np.full(len(TEMPERATURES), np.nan)
            return out
        over_size, steep = np.stack(self.by_size), np.stack(self.responses)
        out |= dict(zip(BY_SIZE, over_size.mean(axis=0), strict=True))
        pair = ("distance_by_n", "distance_chance")
        top, chance = (over_size[:, BY_SIZE.index(name)] for name in pair)
        tested = difference(top, chance, self.n)
        out["ks"] = tested.statistic
        out["critical_share"] = np.array(tested.critical / self.lengths[-1])
        out["response"], out["response_most"] = steep.mean(axis=0), steep.max(axis=0)
        return out


def of_length(alpha: FloatArray, values: FloatArray) -> FloatArray:
    """Return BY_LENGTH of one head: d̃ at N = SIZE and its bound, log α_max, and how far, in nats,
    the largest weight lies below Lemma 1's upper bound and the least above its lower one.

    With logits as far apart as measured, log(α_max/α_min), the bounds are α_max/(α_min L) and
    α_min/(α_max L), so the two are −log(L α_min) and log(L α_max).
    """
    found = nested(alpha, values, selection_order(alpha), [SIZE])
    unit = _unit(alpha, values)
    with np.errstate(divide="ignore"):
        largest, least = np.log(alpha.max()), np.log(alpha.min())
    length = np.log(len(alpha))
    below = -(length + least) if np.isfinite(least) else np.nan
    return np.array(
        [found.total[0] / unit, found.bound[0] / unit, largest, below, length + largest]
    )


def of_sizes(
    alpha: FloatArray, values: FloatArray, n: IntArray, generator: np.random.Generator
) -> FloatArray:
    """Return BY_SIZE of one head, (quantity, n); bounds of the share are cut at 0 and 1."""
    order, unit = selection_order(alpha), _unit(alpha, values)
    top = nested(alpha, values, order, n)
    chance = nested(alpha, values, generator.permutation(len(alpha)), n, bounded=False)
    a = (alpha * np.linalg.norm(values, axis=1))[order]
    rows = np.empty((len(WITHIN), len(n)))
    rows[0] = top.within
    for at, size in enumerate(n.tolist()):
        if top.radius[at] > 0 and a[:size].min() > 0:
            found = bounds_within(alpha, values, size)
            bounds = (
                found.printed_lower,
                found.printed_upper,
                found.sharp_lower,
                found.sharp_upper,
            )
            rows[1:5, at] = np.clip(np.concatenate(bounds), 0, 1)
        else:  # a token of no weight lies at the radius
            rows[1:5, at] = 0, 1, 0, 1
        rows[5, at] = share_by_chance(a[:size], values.shape[1], CHANCE_DRAWS, generator)
    return np.stack([top.total / unit, top.bound / unit, chance.total / unit, *rows])


def power(lengths: Sequence[int], log_largest: FloatArray) -> FloatArray:
    """Return γ of α_max ∝ L^−γ by least squares on the logarithms, NaN of fewer than two lengths.

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
