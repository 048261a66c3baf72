"""Parity: the tapped weights and hidden states against transformers' own eager implementation of
the same model.

The eager implementation shares nothing with the tap: it makes its own, additive, masks and
multiplies all queries with all keys. Its weights are read by hooks, one layer at a time, so that
memory does not grow with the number of layers. Imports torch and transformers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
from torch import Tensor
from transformers import PreTrainedModel

from empirical.errors import InputError
from empirical.tap.decoder import decoder_of, known_tokens, longest_input
from empirical.tap.interface import (
    Attention,
    alone,
    as_it_is,
    forward,
    implementation,
    run_decoder,
)
from empirical.tap.placed import device_of
from empirical.tap.refusals import checked_mask
from empirical.tap.tap import TappedLayer, analysed_positions, tap

LOG_FLOOR = 1e-12
"""Weights at or below it are left out of the comparison of logarithms."""

SHARE = 1e-4
"""What a learned sink takes of a row at least, beyond rounding, to be told from none."""

PROBED: Final = 64
"""Tokens by which a whole model's forward is compared with its decoder's."""
PROBE_FAULT: Final = 0.01
"""‖Δh‖/‖h‖ beyond what another order of sums explains; in bfloat16, of the same kernels."""
KERNEL_FAULT: Final = 0.5
"""The same of other kernels in types of 16 bits, at most: from transformers' eager attention to
PyTorch's, the last hidden states of the built-in model move by 0.2."""
KERNELS: Final = 4
"""By how many times as much as those two differ a model's own attention may differ from PyTorch's,
in types of 16 bits."""

FAULT = {"float32": 1e-3}
FAULT_OTHERWISE = 0.2
"""A difference of weights that rounding does not explain, by type of the model; a wrong mask or
scaling moves weights by far more. In float32 the two agree to a few millionths, in bfloat16 weights
move by up to 0.05.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """The largest differences between tap and eager over layers, heads and positions."""

    weights: float
    """max |Δα|, unitless."""
    log_weights: float
    """max |Δ log α| in nats, where both weights exceed `LOG_FLOOR`."""
    hidden: float
    """max ‖Δh‖/‖h‖ over the last hidden states h of all positions that are not padding,
    unitless.
    """
    invisible: float
    """Largest weight that either of the two gives to a position the analysed query may not see:
    0 unless a mask is wrong.
    """
    layer: int
    """The layer of the largest |Δα|."""

    def judge(self, dtype: str) -> None:
        """Refuse by an InputError weights that differ by more than rounding explains, or an
        invisible position that has any.
        """
        limit = FAULT.get(dtype, FAULT_OTHERWISE)
        if not self.weights <= limit or self.invisible > 0:
            raise InputError(
                f"layer {self.layer}: tapped weights differ from eager attention by up to"
                f" {self.weights:.2g}, expected at most {limit:g} in {dtype}, and"
                f" {self.invisible:.2g} lies on invisible positions. Nothing was measured; try"
                " --dtype float32 or another model."
            )


def parity(
    model: PreTrainedModel,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    queries: Tensor | None = None,
) -> Parity:
    """Compare the tap with the eager implementation on the same tokens, layer by layer; arguments
    as of `tap`.

    One document is enough for a check, and eager's memory grows with its length squared.

    Raises:
        InputError: as `tap` does, where the eager implementation hands over no weights, or where
            the weights are damaged: every value state is zero, or what follows the attention is no
            number. A captured row that is none is left to who captures it, and can name it.
    """
    kept: list[tuple[torch.nn.Module | None, Tensor, Tensor]] = []
    largest: list[float] = []

    def keep(layer: TappedLayer) -> None:
        kept.append((layer.module, layer.alpha, layer.visible))
        largest.append(
            float(layer.values.abs().max() + layer.alpha.max()) if bool(layer.values.any()) else 0.0
        )

    tapped = tap(model, input_ids, keep, attention_mask, queries)
    decoder = decoder_of(model)
    mask = checked_mask(decoder, input_ids, attention_mask)
    positions = analysed_positions(input_ids, mask, queries).to(device_of(decoder))
    modules = [module for module, _, _ in kept if module is not None]
    eager, rows = _eager(decoder, input_ids, mask, positions, modules)
    if len(rows) != len(kept):
        raise InputError(
            f"{decoder.config.model_type}: its eager attention hands over no weights to compare"
            " with. Use another model."
        )
    length = eager.float().norm(dim=-1)
    error = (tapped.float() - eager.float()).norm(dim=-1) / length
    alike_in_zero = (length == 0) & (tapped == 0).all(dim=-1)  # as of a token of padding
    if bool(length.any()):
        error = torch.where(alike_in_zero, 0.0, error)
    hidden = float((error if mask is None else error[mask]).max())
    if not any(largest):
        raise InputError(
            f"{decoder.config.model_type}: every value state of the first document is zero,"
            " expected a trained model, and a text whose tokens have embeddings. Get the model"
            " again, or use another text."
        )
    if not math.isfinite(hidden) and math.isfinite(sum(largest)):
        raise InputError(
            f"{decoder.config.model_type}: its last hidden states are NaN, infinite or all zero"
            " though its attention is sound, so weights are damaged. Get the model again, or try"
            " --dtype float32."
        )
    return _largest([(alpha, visible) for _, alpha, visible in kept], rows, hidden)


def refuse_other_forward(model: torch.nn.Module, decoder: PreTrainedModel) -> None:
    """Refuse by an InputError a model whose decoder, by itself and through the tap, is another one:
    its own forward gives the decoder more than the tokens, or the attention or the masks of the
    decoder are none of transformers'. Seen by the hidden states of a few tokens.

    A model of transformers whose forward takes something else than tokens, or does not call its
    decoder, is passed over, and so is a module without a forward; another module is refused.
    """
    name = f"model={type(model).__name__}"
    count = min(PROBED, longest_input(decoder.config) or PROBED)
    ids = torch.arange(3, 3 + count, device="cpu")[None] % (known_tokens(decoder) or PROBED)
    with alone(decoder):
        try:
            own = forward(decoder, ids, None)
        except InputError:  # as of a kernel that this machine lacks
            own = None
        tapped = run_decoder(decoder, ids, None, Attention.output)
        with implementation(decoder, "eager"):
            expected = forward(decoder, ids, None)
        limit = PROBE_FAULT
        if decoder.dtype != torch.float32:
            limit = min(KERNEL_FAULT, max(limit, KERNELS * apart(tapped, expected)))
        if own is not None and not alike(own, tapped, limit):
            raise InputError(
                f"{name}: its own attention ({decoder.config._attn_implementation}) gives other"
                " hidden states than that of transformers, expected the same. Take out what was"
                " put in the place of its attention or its masks."
            )
        if model is decoder:
            return
        with implementation(decoder, "eager"):
            found, why = _handed(model, decoder, ids.to(device_of(decoder)))
    if found is not None and not alike(found, expected, PROBE_FAULT):
        raise InputError(
            f"{name}: its own forward gives other hidden states than its decoder does by itself,"
            " expected a model that hands the tokens on as they are. Give the model inside it to"
            " measure that one."
        )
    foreign = (
        not isinstance(model, PreTrainedModel)
        and type(model).forward is not torch.nn.Module.forward
    )
    if found is None and foreign:
        raise InputError(
            f"{name}: what its own forward gives its decoder is unknown ({why}), expected a model"
            " that takes input_ids. Give the model inside it to measure that one."
        )


def _handed(
    model: torch.nn.Module, decoder: PreTrainedModel, ids: Tensor
) -> tuple[Tensor | None, str]:
    """Return the last hidden states of the decoder in the model's own forward of tokens, None where
    it ends in an error or does not call it; and why.
    """
    found: list[Tensor] = []
    why = "it does not call it"
    hook = decoder.register_forward_hook(lambda module, given, output: found.append(output[0]))
    try:
        for call in (
            partial(model, input_ids=ids, use_cache=False),
            partial(model, input_ids=ids),
            partial(model, ids),
        ):
            try:
                with as_it_is(model):
                    call()
                break
            except InputError as error:
                found.clear()
                why = str(error.__cause__)
    finally:
        hook.remove()
    return (found[-1] if found else None), why


def alike(one: Tensor, other: Tensor, limit: float) -> bool:
    """Whether hidden states differ by rounding alone, where they are numbers."""
    return apart(one, other) <= limit


def apart(one: Tensor, other: Tensor) -> float:
    """Return by how much hidden states differ where they are numbers, as a share of their length;
    infinity where they are numbers in other places.
    """
    if one.shape != other.shape or not torch.equal(one.isfinite(), other.isfinite()):
        return math.inf
    one, other = (torch.where(each.isfinite(), each, 0.0).float() for each in (one, other))
    difference, length = float((one - other).norm()), float(other.norm())
    return difference / length if length else math.inf if difference else 0.0


def _largest(
    tapped: Sequence[tuple[Tensor, Tensor]], rows: Sequence[Tensor], hidden: float
) -> Parity:
    """Return the largest differences over layers: `tapped` holds α and what is visible of each,
    `rows` eager's weights.

    Where a learned sink takes its share behind eager's softmax, eager's rows sum to 1 and are
    compared without that share. Whether it is right, the hidden states tell.
    """
    weights = log_weights = invisible = 0.0
    worst = 0
    for index, ((alpha, visible), row) in enumerate(zip(tapped, rows, strict=True)):
        kept, whole = alpha.sum(dim=-1, keepdim=True), row.sum(dim=-1, keepdim=True)
        behind = (kept < 1 - SHARE) & ((whole - 1).abs() < (whole - kept).abs())
        if bool(behind.any()):
            row = torch.where(behind, row * kept, row)
            weights = max(weights, hidden)
        difference = float((alpha - row).abs().max())
        if difference > weights:  # never of a row that is no number
            weights, worst = difference, index
        both = (alpha > LOG_FLOOR) & (row > LOG_FLOOR)
        if bool(both.any()):
            log_weights = max(log_weights, float((alpha[both].log() - row[both].log()).abs().max()))
        hides = ~visible[:, :, None, :]
        invisible = max(invisible, float((alpha * hides).max()), float((row * hides).max()))
    return Parity(
        weights=weights, log_weights=log_weights, hidden=hidden, invisible=invisible, layer=worst
    )


def _eager(
    decoder: PreTrainedModel,
    input_ids: Tensor,
    mask: Tensor | None,
    positions: Tensor,
    modules: Sequence[torch.nn.Module],
) -> tuple[Tensor, list[Tensor]]:
    """Return the last hidden states of the eager implementation, and the weights of the queries
    at `positions`, (document, query, head, position), in each module that gives any.
    """
    rows: list[Tensor] = []

    def keep_row(module: torch.nn.Module, args: object, output: object) -> None:
        """Take eager's weights, (document, head, query, position), from the second entry of a
        module's output.
        """
        if (
            isinstance(output, tuple)
            and len(output) > 1
            and isinstance(output[1], Tensor)
            and output[1].ndim == 4
        ):
            every = output[1]
            documents = torch.arange(every.shape[0], device=every.device)[:, None]
            rows.append(  # a copy, for all weights of all layers would not fit
                every[documents, :, positions.to(every.device)].float()
            )

    with implementation(decoder, "eager"):  # no other thread runs it
        hooks = [module.register_forward_hook(keep_row) for module in modules]
        try:
            return forward(decoder, input_ids, mask), rows
        finally:
            for hook in hooks:
                hook.remove()
