"""Supports of sparse alternatives to softmax: sparsemax and 1.5-entmax.

Each maps logits z to weights of which most are exactly 0. With z sorted in descending order the
support is the first k entries for the largest k that meets a condition. Neither depends on a
constant that is added to z. On a CPU, in float32, the support is what lies above the threshold τ at
which the weights sum to 1, found by Newton's method. Imports numba, numpy and torch.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor

from empirical.measure.compiled import compiled, spread_rows

PRECISE: Final = np.float32(1e-7)
"""A step of Newton's method, from a threshold between −1 and 0, that no longer matters."""


def sparsemax_support(logits: Tensor) -> Tensor:
    """Return where sparsemax is positive, of the logits' shape, bool.

    1 + k z₍ₖ₎ > Σ_{j≤k} z₍ⱼ₎ (Martins & Astudillo 2016, algorithm 1). logits: (..., entry), −∞
    where there is none.

    >>> sparsemax_support(torch.tensor([0.0, -0.4, -2.0])).tolist()
    [True, True, False]
    """
    if _compiles(logits):
        return _above_threshold(logits, 1)
    return sparsemax_by_sort(logits)


def sparsemax_by_sort(logits: Tensor) -> Tensor:
    """Return `sparsemax_support` of logits of any type, on any device."""
    z = logits - logits.amax(dim=-1, keepdim=True)
    descending = _descending(z)
    k = _counted(descending)
    inside = 1 + k * descending > descending.cumsum(dim=-1)
    threshold = (_last(descending.cumsum(dim=-1), inside) - 1) / inside.sum(dim=-1, keepdim=True)
    return z > threshold


def entmax15_support(logits: Tensor) -> Tensor:
    """Return where 1.5-entmax is positive, of the logits' shape, bool.

    The weights are (z/2 − τ)₊² that sum to 1. With mean m and sum of squared deviations s of the
    first k halves, τₖ = m − √((1 − s)/k); the support is the largest k with τₖ ≤ z₍ₖ₎/2 (Peters,
    Niculae & Martins 2019, algorithm 2). logits: (..., entry), −∞ where there is none.

    >>> entmax15_support(torch.tensor([0.0, -0.4, -3.0])).tolist()
    [True, True, False]
    """
    if _compiles(logits):
        return _above_threshold(logits, 2)
    return entmax15_by_sort(logits)


def entmax15_by_sort(logits: Tensor) -> Tensor:
    """Return `entmax15_support` of logits of any type, on any device."""
    z = (logits - logits.amax(dim=-1, keepdim=True)) / 2
    descending = _descending(z)
    k = _counted(descending)
    mean = descending.cumsum(dim=-1) / k
    spread = (descending**2).cumsum(dim=-1) - k * mean**2
    thresholds = mean - ((1 - spread).clamp_min(0) / k).sqrt()
    inside = (thresholds <= descending) & (spread <= 1)
    return z > _last(thresholds, inside)


def _descending(z: Tensor) -> Tensor:
    """Return the largest entries of z, whose maximum is 0, in descending order: all above −1, for
    neither support goes below, and of other rows more, put to −2.
    """
    most = int((z > -1).sum(dim=-1).max())
    return z.topk(most, dim=-1).values.clamp_min(-2.0)


def _counted(descending: Tensor) -> Tensor:
    count, device = descending.shape[-1], descending.device
    return torch.arange(1, count + 1, dtype=descending.dtype, device=device)


def _last(entries: Tensor, inside: Tensor) -> Tensor:
    """Return the entry at the last place that is inside; the first always is."""
    places = torch.arange(inside.shape[-1], device=inside.device)
    last = (inside * places).amax(dim=-1, keepdim=True)
    return entries.gather(-1, last)


def _compiles(logits: Tensor) -> bool:
    return logits.device.type == "cpu" and logits.dtype == torch.float32


def _above_threshold(logits: Tensor, power: int) -> Tensor:
    """Return where (z/power − τ)₊^power is positive, which sums to 1 over a row."""
    rows = logits.reshape(-1, logits.shape[-1]).numpy()
    kept = np.empty(rows.shape, dtype=np.bool_)
    spread_rows(_support, len(rows), rows, power, kept)
    return torch.from_numpy(kept).view(logits.shape)


@compiled(fastmath={"reassoc", "contract"}, error_model="numpy")
def _support(logits, power, kept, start, stop):  # type: ignore[no-untyped-def]
    """Fill `kept` of the rows from start to stop. The sum falls with τ and is convex, so from
    τ = −1, where it is at least 1, steps lead upwards to where it is 1.
    """
    positions = logits.shape[1]
    z = np.empty(positions, np.float32)
    for row in range(start, stop):
        largest = np.float32(-np.inf)
        for at in range(positions):
            largest = max(largest, logits[row, at])
        for at in range(positions):
            z[at] = (logits[row, at] - largest) / np.float32(power)
        threshold, step = np.float32(-1), np.float32(1)
        while step > PRECISE:
            count, first, second = np.float32(0), np.float32(0), np.float32(0)
            for at in range(positions):
                above = max(z[at] - threshold, np.float32(0))
                count += np.float32(1) if above > 0 else np.float32(0)
                first += above
                second += above * above
            if power == 1:
                step = (first - np.float32(1)) / count
            else:
                step = (second - np.float32(1)) / (2 * first)
            threshold += max(step, np.float32(0))
        for at in range(positions):
            kept[row, at] = z[at] > threshold
