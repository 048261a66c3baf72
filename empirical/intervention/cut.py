"""Top-N ablation of attention: every query keeps the N tokens that a rule ranks highest.

The weights of the other tokens become zero (*deletion*), or zero with the kept weights rescaled
(*renormalisation*) to the previous sum. That sum is 1, or with learned sinks 1 minus the sink's
share, which stays unchanged. The rule sees weights and values of the ablated pass itself. Weights
exist for one block of queries at a time. Imports numba, numpy, torch and transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from empirical.errors import InputError
from empirical.intervention.names import MODES, Mode
from empirical.intervention.rules import Rows, Rule
from empirical.measure.compiled import compiled, spread_rows
from empirical.tap.attention import Block, in_blocks
from empirical.tap.decoder import decoder_of
from empirical.tap.interface import Attend, Attention
from empirical.tap.refusals import checked_mask
from empirical.tap.resumed import Below, Whole, run_after, run_from

NEGLIGIBLE: Final = 1e-30
"""Sum of kept weights below which they are recomputed from the scores of the kept tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Ablation of one layer: the tokens that its queries keep."""

    rule: Rule
    mode: Mode
    n: int | Sequence[int] | None
    """Number of tokens that a query keeps, N ≥ 1: one for all heads, or one per head, (head). None:
    the rule is a set rule.
    """
    heads: Sequence[int] | None = None
    """Ablated heads; None: all."""
    on_sizes: Callable[[Tensor], object] | None = None
    """Called for each block of queries with the number of kept tokens, (document, head, query)."""


def intervened(
    model: PreTrainedModel,
    input_ids: Tensor,
    cut_of: Callable[[int], Cut | None],
    attention_mask: Tensor | None = None,
    start: Below | None = None,
) -> Tensor:
    """Run the decoder of `model` once with top-N attention; arguments and errors as of `tap.tap`.

    Args:
        cut_of: the ablation of a layer, by its number from 0; None leaves the layer unchanged.
        start: output of the layers below the first ablated one; None: they are run.

    Returns:
        The last hidden states, (document, position, hidden), in the model's dtype; those at padded
        positions are meaningless. If N is at least the window, they equal the model's to rounding.

    Raises:
        InputError: also for N < 1, sizes or heads that do not fit the layer, or an unknown mode.
    """
    decoder = decoder_of(model)
    mask = checked_mask(decoder, input_ids, attention_mask)
    return run_from(decoder, input_ids, mask, _attend(cut_of), start)


def intervened_after(
    model: PreTrainedModel,
    input_ids: Tensor,
    cut_of: Callable[[int], Cut | None],
    past: Whole,
    position: int,
    start: Below | None = None,
) -> Tensor:
    """Return what `intervened` returns, from `position` on. No ablation leaves out a token of
    earlier queries, so these are taken from `past`, the unmodified pass over the window.
    """
    decoder = decoder_of(model)
    return run_after(decoder, input_ids, _attend(cut_of), past, position, start)


def _attend(cut_of: Callable[[int], Cut | None]) -> Attend:
    def attend(layer: Attention) -> Tensor:
        cut = cut_of(layer.index)
        return layer.output() if cut is None else cut_output(layer, cut)

    return attend


def cut_output(layer: Attention, cut: Cut) -> Tensor:
    """Return a layer's output under ablation, (document, position, head, dimension)."""
    sizes = _checked_sizes(layer, cut)

    def output(block: Block) -> Tensor:
        return block.output(_cut_alpha(block, layer, cut, sizes))

    return in_blocks(layer.query, layer.key, layer.value, layer.mask, output)


def _cut_alpha(block: Block, layer: Attention, cut: Cut, sizes: Tensor | None) -> Tensor:
    """Return ablated weights, (document, kv_head, head of the group, query, position)."""
    grouped = block.alpha(layer.scoring)
    alpha = grouped.flatten(1, 2)
    visible = block.added == 0
    if sizes is not None and int(sizes.min()) >= alpha.shape[-1] and cut.on_sizes is None:
        return grouped
    rows = Rows(
        alpha=alpha, values=block.value, visible=visible, layer=layer.index, start=block.start
    )
    kept = cut.rule(rows)
    if kept.dtype != torch.bool:
        if sizes is None:
            raise InputError("n None: expected a number of tokens for a ranking rule. Pass one.")
        kept = largest(kept.expand(alpha.shape), sizes, visible)
    else:
        kept = kept & visible
    if cut.heads is not None:
        unablated = torch.ones(alpha.shape[1], dtype=torch.bool, device=alpha.device)
        unablated[list(cut.heads)] = False
        kept = kept | (unablated[:, None, None] & visible)
    if cut.on_sizes is not None:
        cut.on_sizes(kept.expand(alpha.shape).sum(dim=-1))
    return _reweighed(alpha, kept, block, layer, cut.mode).view_as(grouped)


def _reweighed(alpha: Tensor, kept: Tensor, block: Block, layer: Attention, mode: Mode) -> Tensor:
    """Set the weights of unselected tokens to zero, and rescale the others as the mode requires."""
    selected = alpha * kept
    if mode == "deletion":
        return selected
    total, mass = alpha.sum(dim=-1, keepdim=True), selected.sum(dim=-1, keepdim=True)
    rescaled = selected * (total / mass.clamp_min(NEGLIGIBLE))
    underflow = mass < NEGLIGIBLE
    if not bool(underflow.any()):
        return rescaled
    scores = layer.scoring.scores(block.rows, block.key).reshape(alpha.shape).to(alpha.dtype)
    by_score = torch.softmax(scores.masked_fill(~kept, -torch.inf), dim=-1).nan_to_num(0.0)
    return torch.where(underflow, by_score * total, rescaled)


def _checked_sizes(layer: Attention, cut: Cut) -> Tensor | None:
    """Return N, one number or (head, 1); refuse a mode, heads or sizes that do not fit."""
    heads = layer.query.shape[1]
    if cut.mode not in MODES:
        raise InputError(f"mode {cut.mode}: expected {' or '.join(MODES)}. Use one of those.")
    if cut.heads is not None and not all(0 <= head < heads for head in cut.heads):
        raise InputError(
            f"heads {sorted(cut.heads)}: layer {layer.index} has heads 0 to {heads - 1}. Name"
            " those."
        )
    if cut.n is None:
        return None
    sizes = torch.as_tensor(cut.n, device=layer.query.device)
    if sizes.is_floating_point() or sizes.shape not in {(), (heads,)} or int(sizes.min()) < 1:
        raise InputError(
            f"n {cut.n}: expected integers of at least 1, one number or one for each of {heads}"
            " heads. Pass such numbers."
        )
    return sizes if sizes.ndim == 0 else sizes[:, None]


def largest(scores: Tensor, n: Tensor, visible: Tensor | None = None) -> Tensor:
    """Return where the N largest scores are, (..., position) bool; ties go to the first.

    n: at least 1, broadcasts to (...). visible: positions that may be selected, broadcasts to the
    scores; None: all.

    On a CPU in float32, it bisects the bit patterns, which are ordered like their floats, for the
    N-th largest score: counting those above a threshold vectorises well. Elsewhere it uses torch's
    `topk`; the results are identical.

    >>> largest(torch.tensor([2.0, 5.0, 2.0, 3.0]), torch.tensor(3)).tolist()
    [True, True, False, True]
    """
    if visible is None:
        visible = torch.ones((), dtype=torch.bool, device=scores.device)
    if scores.device.type != "cpu" or scores.dtype != torch.float32:
        return by_topk(scores.masked_fill(~visible, -torch.inf), n) & visible
    rows = scores.reshape(-1, scores.shape[-1]).numpy()
    seen = visible.expand(scores.shape).reshape(rows.shape).numpy()
    sizes = n.expand(scores.shape[:-1]).reshape(-1).numpy()
    kept = np.empty(rows.shape, dtype=np.bool_)
    spread_rows(_keep, len(rows), rows, seen, sizes, kept)
    return torch.from_numpy(kept).view(scores.shape)


def by_topk(scores: Tensor, n: Tensor) -> Tensor:
    """Return the result of `largest` for scores of any dtype on any device."""
    largest_n = min(int(n.max()), scores.shape[-1])
    top = scores.topk(largest_n, dim=-1, sorted=n.numel() > 1).values
    if n.numel() > 1:
        rank = n.clamp(max=largest_n).expand(scores.shape[:-1])[..., None] - 1
        threshold = top.gather(-1, rank)
    else:
        threshold = top.amin(dim=-1, keepdim=True)
    kept = scores >= threshold
    room = n.clamp(max=scores.shape[-1])[..., None] - kept.sum(dim=-1, keepdim=True)
    if bool((room < 0).any()):  # ties at the threshold: keep the first ones up to N
        tied = scores == threshold
        kept &= ~tied | (tied.cumsum(dim=-1) <= tied.sum(dim=-1, keepdim=True) + room)
    return kept


@compiled()
def _keep(scores, visible, n, kept, start, stop):  # type: ignore[no-untyped-def]
    """Fill `kept` for the rows from start to stop."""
    positions = scores.shape[1]
    own = np.empty(positions, np.float32)
    order, lost = own.view(np.int32), np.float32(-np.inf)
    for row in range(start, stop):
        lowest, highest = np.int32(2**31 - 1), np.int32(-(2**31))
        for index in range(positions):
            seen = scores[row, index] + np.float32(0)  # −0 becomes 0
            own[index] = seen if visible[row, index] else lost
        for index in range(positions):
            bits = order[index]
            # Negative floats have reversed order.
            bits ^= (bits >> np.int32(31)) & np.int32(2**31 - 1)
            order[index] = bits
            lowest, highest = min(lowest, bits), max(highest, bits)
        low, reach, high = np.int64(lowest), positions, np.int64(highest) + 1
        # At least N scores reach `low`, fewer reach `high`.
        while reach > n[row] and high - low > 1:
            middle = low + (high - low) // 2
            count = np.int32(0)
            for index in range(positions):
                count += np.int32(order[index] >= np.int32(middle))
            if count >= n[row]:
                low, reach = middle, np.int64(count)
            else:
                high = middle
        edge = np.int32(low)
        for index in range(positions):
            kept[row, index] = visible[row, index] & (order[index] >= edge)
        last = positions
        for _ in range(reach - n[row]):  # drop the last ties at `low`
            last -= 1
            while order[last] != edge:
                last -= 1
            kept[row, last] = False
