"""Top-N attention: every query keeps the tokens that a rule ranks highest.

The weights of the others become zero (*deletion*), or zero with the kept ones rescaled
(*renormalisation*), to the sum that all had: 1, or with learned sinks 1 less the sink's share,
which stays as it was. The rule sees weights and values of the pass that is intervened on. Weights
exist for a block of queries at a time. Imports torch and transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel

from empirical.intervention.largest import largest
from empirical.intervention.rules import Rows, Rule
from empirical.tap.attention import Block, in_blocks
from empirical.tap.decoder import decoder_of
from empirical.tap.from_layer import Below, run_from
from empirical.tap.from_position import Whole, run_after
from empirical.tap.interface import Attend, Attention
from empirical.tap.refusals import checked_mask, checked_sizes, refuse_cut

Mode = Literal["deletion", "renormalisation"]
MODES: Final[tuple[Mode, ...]] = ("deletion", "renormalisation")

NEGLIGIBLE: Final = 1e-30
"""A sum of kept weights below which they are weighed anew by their scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What the queries of a layer keep."""

    rule: Rule
    mode: Mode
    n: int | Sequence[int] | None
    """Tokens that a query keeps, N ≥ 1: of every head, or of each, (head). None: the rule is a set
    rule.
    """
    heads: Sequence[int] | None = None
    """Heads that are intervened on; None: all."""
    on_sizes: Callable[[Tensor], object] | None = None
    """Called with the number of tokens kept, (document, head, query), of each block of queries."""


def intervened(
    model: PreTrainedModel,
    input_ids: Tensor,
    cut_of: Callable[[int], Cut | None],
    attention_mask: Tensor | None = None,
    start: Below | None = None,
) -> Tensor:
    """Run the decoder of `model` once with top-N attention.

    Args:
        model: as for the tap.
        input_ids: (document, position) integers.
        cut_of: the cut of a layer, by its number from 0; None: the layer stays as it is.
        attention_mask: (document, position), 0 where padded; None: no padding.
        start: what the layers below the first cut return; None: they are run.

    Returns:
        The last hidden states, (document, position, hidden), in the model's type; those of padded
        positions mean nothing. Where N is at least the window they are the model's own, to
        rounding.

    Raises:
        InputError: as `tap.tap` does; N < 1, sizes or heads that are not the layer's, or an unknown
            mode.
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
    """Return what `intervened` does, from `position` on: the first `position` queries see no more
    tokens than any cut keeps, so they are as in `past`, the model's own pass over the window.
    """
    decoder = decoder_of(model)
    return run_after(decoder, input_ids, _attend(cut_of), past, position, start)


def _attend(cut_of: Callable[[int], Cut | None]) -> Attend:
    def attend(layer: Attention) -> Tensor:
        cut = cut_of(layer.index)
        return layer.output() if cut is None else cut_output(layer, cut)

    return attend


def cut_output(layer: Attention, cut: Cut) -> Tensor:
    """Return a layer's output under a cut, (document, position, head, dimension)."""
    sizes = _sizes(layer, cut)

    def output(block: Block) -> Tensor:
        return block.weighted(_cut_weights(block, layer, cut, sizes))

    return in_blocks(layer.query, layer.key, layer.value, layer.mask, output)


def _cut_weights(block: Block, layer: Attention, cut: Cut, sizes: Tensor | None) -> Tensor:
    """Return the weights of a block under a cut, (document, kv_head, head of the group, query,
    position).
    """
    weights = block.weights(layer.scoring)
    positions = weights.shape[-1]
    flat = weights.flatten(1, 2)
    visible = block.added == 0
    if sizes is not None and int(sizes.min()) >= positions and cut.on_sizes is None:
        return weights
    rows = Rows(
        weights=flat, values=block.value, visible=visible, layer=layer.index, start=block.start
    )
    kept = cut.rule(rows)
    if kept.dtype != torch.bool:
        sizes = checked_sizes(cut.n, sizes, flat.shape[1]) if sizes is None else sizes
        kept = largest(kept.expand(flat.shape), sizes, visible)
    else:
        kept = kept & visible
    others = _others(layer, cut)
    if others is not None:
        kept = kept | (others & visible)
    if cut.on_sizes is not None:
        cut.on_sizes(kept.expand(flat.shape).sum(dim=-1))
    return _reweighed(flat, kept, block, layer, cut.mode).view_as(weights)


def _reweighed(flat: Tensor, kept: Tensor, block: Block, layer: Attention, mode: Mode) -> Tensor:
    """Put the weights of tokens that are not kept to zero, and rescale the others where asked."""
    cut = flat * kept
    if mode == "deletion":
        return cut
    before, mass = flat.sum(dim=-1, keepdim=True), cut.sum(dim=-1, keepdim=True)
    rescaled = cut * (before / mass.clamp_min(NEGLIGIBLE))
    lost = mass < NEGLIGIBLE
    if not bool(lost.any()):
        return rescaled
    scores = layer.scoring.scores(block.rows, block.key).reshape(flat.shape).to(flat.dtype)
    anew = torch.softmax(scores.masked_fill(~kept, -torch.inf), dim=-1).nan_to_num(0.0)
    return torch.where(lost, anew * before, rescaled)


def _sizes(layer: Attention, cut: Cut) -> Tensor | None:
    """Return N, one number or (head, 1), after what can be refused."""
    heads = layer.query.shape[1]
    refuse_cut(layer.index, heads, cut.mode, MODES, cut.heads)
    if cut.n is None:
        return None
    sizes = torch.as_tensor(cut.n, device=layer.query.device)
    sizes = checked_sizes(cut.n, sizes, heads)
    return sizes if sizes.ndim == 0 else sizes[:, None]


def _others(layer: Attention, cut: Cut) -> Tensor | None:
    """Return which heads stay as they are, (head, 1, 1) bool; None: no head does."""
    if cut.heads is None:
        return None
    others = torch.ones(layer.query.shape[1], dtype=torch.bool, device=layer.query.device)
    others[list(cut.heads)] = False
    return others[:, None, None]
