"""Supports of sparse alternatives to softmax: sparsemax and 1.5-entmax.

Each maps logits z to weights of which most are exactly 0. With z sorted in descending order the
support is the first k entries for the largest k that meets a condition. Neither depends on a
constant that is added to z. Imports torch.
"""

from __future__ import annotations

import torch
from torch import Tensor


def sparsemax_support(logits: Tensor) -> Tensor:
    """Return where sparsemax is positive, of the logits' shape, bool.

    1 + k z₍ₖ₎ > Σ_{j≤k} z₍ⱼ₎ (Martins & Astudillo 2016, algorithm 1). logits: (..., entry), −∞
    where there is none.

    >>> sparsemax_support(torch.tensor([0.0, -0.4, -2.0])).tolist()
    [True, True, False]
    """
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
