"""Selection of the N largest of a row. Imports numba, numpy and torch.

On a CPU, in float32, by halving the interval of bit patterns that holds the N-th largest: floats
lie in the order of their patterns, and to count how many reach one takes a few instructions for
sixteen of them. Elsewhere by torch's `topk`. Both keep the same of scores that are numbers.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from empirical.measure.compiled import compiled, spread_rows


def largest(scores: Tensor, n: Tensor, visible: Tensor | None = None) -> Tensor:
    """Return where the N largest scores stand, (..., position) bool; of equal scores the first.

    n: one number, or of a shape that is laid beside (...), each at least 1. visible: which may be
    kept, of a shape that is laid beside that of the scores; None: all.

    >>> largest(torch.tensor([2.0, 5.0, 2.0, 3.0]), torch.tensor(3)).tolist()
    [True, True, False, True]
    """
    if visible is None:
        visible = torch.ones((), dtype=torch.bool, device=scores.device)
    if scores.device.type != "cpu" or scores.dtype != torch.float32:
        return by_topk(scores.masked_fill(~visible, -torch.inf), n) & visible
    rows, seen = (
        one.expand(scores.shape).reshape(-1, scores.shape[-1]).numpy() for one in (scores, visible)
    )
    sizes = n.expand(scores.shape[:-1]).reshape(-1).numpy()
    kept = np.empty(rows.shape, dtype=np.bool_)
    spread_rows(_keep, len(rows), rows, seen, sizes, kept)
    return torch.from_numpy(kept).view(scores.shape)


def by_topk(scores: Tensor, n: Tensor) -> Tensor:
    """Return `largest` of scores of any type, on any device."""
    most = min(int(n.max()), scores.shape[-1])
    top = scores.topk(most, dim=-1, sorted=n.numel() > 1).values
    if n.numel() > 1:
        place = n.clamp(max=most).expand(scores.shape[:-1])[..., None] - 1
        edge = top.gather(-1, place)
    else:
        edge = top.amin(dim=-1, keepdim=True)
    kept = scores >= edge
    left = n.clamp(max=scores.shape[-1])[..., None] - kept.sum(dim=-1, keepdim=True)
    if bool((left < 0).any()):  # ties at the edge: as many of them as there is room for
        tied = scores == edge
        kept &= ~tied | (tied.cumsum(dim=-1) <= tied.sum(dim=-1, keepdim=True) + left)
    return kept


@compiled()
def _keep(scores, visible, n, kept, start, stop):  # type: ignore[no-untyped-def]
    """Fill `kept` of the rows from start to stop."""
    positions = scores.shape[1]
    own = np.empty(positions, np.float32)
    order, lost = own.view(np.int32), np.float32(-np.inf)
    for row in range(start, stop):
        lowest, highest = np.int32(2**31 - 1), np.int32(-(2**31))
        for at in range(positions):
            seen = scores[row, at] + np.float32(0)  # −0 becomes 0
            own[at] = seen if visible[row, at] else lost
        for at in range(positions):
            bits = order[at]
            bits ^= (bits >> np.int32(31)) & np.int32(2**31 - 1)  # below 0 the order is reversed
            order[at] = bits
            lowest, highest = min(lowest, bits), max(highest, bits)
        low, reach, high = np.int64(lowest), positions, np.int64(highest) + 1
        while reach > n[row] and high - low > 1:  # N or more reach `low`, fewer reach `high`
            middle = low + (high - low) // 2
            count = np.int32(0)
            for at in range(positions):
                count += np.int32(order[at] >= np.int32(middle))
            if count >= n[row]:
                low, reach = middle, np.int64(count)
            else:
                high = middle
        edge = np.int32(low)
        for at in range(positions):
            kept[row, at] = visible[row, at] & (order[at] >= edge)
        last = positions
        for _ in range(reach - n[row]):  # of those that are `low`, the last ones
            last -= 1
            while order[last] != edge:
                last -= 1
            kept[row, last] = False
