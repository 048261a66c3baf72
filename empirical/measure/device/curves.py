"""Representatives and effective weights of all heads of a layer over N, by torch on any device.

Source: arXiv 2602.01893, (1), (7), (8), Figure 7; `measure.head_kernels.curves_of_head` is the
reference. Extremes over I_N and over J are running maxima along the order of selection, read at
every N; sums and norms are taken in the type of sums (`grids.wide`). Imports torch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from empirical.measure.device.grids import Grid
from empirical.measure.device.selection import Selected
from empirical.measure.layer import NAMES


def curves(selected: Selected, norm: Tensor, ends: Tensor, grid: Grid, *, sink: bool) -> Tensor:
    """Return `layer.NAMES` of some heads at every distinct N ≤ T, (name, head, n) of α's type; NaN
    where undefined.

    Args:
        selected: the heads, their tokens in order.
        norm: ‖v‖ in that order, (head, rank).
        ends: values of the first and of the last token, (head, 2, dimension).
        grid: the sizes.
        sink: whether token 0 is the sink; otherwise no token is.
    """
    named = _representatives(selected, ends, grid, sink=sink)
    named |= _effective_weights(selected, norm, grid, sink=sink)
    return torch.stack([named[name].to(norm.dtype) for name in NAMES])


def _representatives(
    selected: Selected, ends: Tensor, grid: Grid, *, sink: bool
) -> dict[str, Tensor]:
    """Return ‖s‖, without the sink and without the last token too, and cosines with both."""
    s = selected.s
    # Ranks of token 0 and of the last, and whether I_N holds them, (head, 2, n).
    rank = torch.stack(
        [(selected.order == end).int().argmax(dim=-1) for end in (0, grid.tokens - 1)], dim=1
    )
    has = rank[..., None] < grid.n
    # What they add is rounded as contributions are; so nothing is left of s where it is all of it.
    added = (selected.weight.gather(1, rank)[..., None] * ends).to(s.dtype)
    norm_s = torch.linalg.vector_norm(s, dim=-1)
    rest = [
        torch.linalg.vector_norm(s - has[:, end, :, None] * added[:, end, None], dim=-1)
        for end in (0, 1)
    ]
    long = torch.linalg.vector_norm(ends, dim=-1, dtype=s.dtype)
    # 0/0, a vector without a direction, is NaN.
    cosine = (torch.bmm(s, ends.mT.to(s.dtype)) / (norm_s[..., None] * long[:, None])).clamp(-1, 1)
    return {
        "representative_norm": norm_s,
        "representative_norm_without_sink": rest[0] if sink else norm_s,
        "representative_norm_without_last": rest[1],
        "cosine_to_sink": cosine[..., 0] if sink else torch.full_like(norm_s, torch.nan),
        "cosine_to_last": cosine[..., 1],
    }


def _effective_weights(
    selected: Selected, norm: Tensor, grid: Grid, *, sink: bool
) -> dict[str, Tensor]:
    """Return extremes of a = α‖v‖ over I_N, over I_N without the sink, and over J, and its sum."""
    a = selected.weight * norm
    apart = selected.order == 0 if sink else torch.zeros_like(selected.order, dtype=torch.bool)
    content = a.masked_fill(apart, 0)
    highest = torch.stack(
        [
            (-a).masked_fill(apart, -torch.inf),
            -a,
            a,
            a.masked_fill(apart, -torch.inf),
            a.flip(-1),  # from the last rank on: the maximum over J
        ]
    ).cummax(dim=-1)[0]
    within = highest[:4].index_select(-1, grid.n - 1)
    within = within.masked_fill(within == -torch.inf, torch.nan)
    beyond = highest[4].index_select(-1, (grid.tokens - 1 - grid.n).clamp(min=0))
    total = content.cumsum(dim=-1, dtype=selected.s.dtype).index_select(-1, grid.n - 1)
    return {
        "a_min_in": -within[0],
        "a_min_in_with_sink": -within[1],
        "a_max_in": within[2],
        "a_max_in_without_sink": within[3],
        "a_max_out": beyond.masked_fill(grid.whole, torch.nan),
        "s_in": total,
    }
