"""Parity check: tapped weights and hidden states against transformers' eager implementation of the
same model.

The eager implementation shares nothing with the tap: it makes its own, additive, masks and
multiplies all queries with all keys. Hooks read its weights one layer at a time, so memory does not
grow with the number of layers. Imports torch and transformers only.
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
from empirical.tap.decoder import decoder_of, device_of, known_tokens, longest_input
from empirical.tap.interface import (
    Attention,
    alone,
    forward,
    implementation,
    plain_mode,
    run_decoder,
)
from empirical.tap.refusals import checked_mask
from empirical.tap.tap import TappedLayer, analysed_positions, tap

LOG_FLOOR = 1e-12
"""Weights at or below this value are excluded from the comparison of logarithms."""

SHARE = 1e-4
"""Smallest share of a row, beyond rounding, at which a learned sink is detected."""

PROBED: Final = 64
"""Number of tokens for comparing a whole model's forward pass with its decoder's."""
PROBE_FAULT: Final = 0.01
"""Limit of ‖Δh‖/‖h‖ due to another order of summation; in bfloat16, with the same kernels."""
KERNEL_FAULT: Final = 0.5
"""Limit of ‖Δh‖/‖h‖ between kernels in 16-bit dtypes; it is 0.2 in the built-in model."""
KERNELS: Final = 4
"""Factor by which a model's own attention may differ from PyTorch's, relative to the difference of
eager and PyTorch's, in 16-bit dtypes.
"""

FAULT, FAULT_16_BIT = 1e-3, 0.2
"""Differences of weights beyond rounding, in float32 and in other dtypes. A wrong mask or scaling
moves weights by far more. In float32 the two agree to a few millionths; in bfloat16 weights move by
up to 0.05.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """Largest differences between tap and eager attention over layers, heads and positions."""

    weights: float
    """max |Δα|, unitless."""
    log_weights: float
    """max |Δ log α| in nats, where both weights exceed `LOG_FLOOR`."""
    hidden: float
    """max ‖Δh‖/‖h‖ over the last hidden states h at all positions except padding, unitless."""
    invisible: float
    """Largest weight of a position invisible to the query, in either; 0 unless a mask is wrong."""
    layer: int
    """Layer of the largest |Δα|."""

    def judge(self, dtype: str) -> None:
        """Refuse weights that differ beyond rounding, and weight of invisible positions."""
        limit = FAULT if dtype == "float32" else FAULT_16_BIT
        if not self.weights <= limit or self.invisible > 0:
            raise InputError(
                f"layer {self.layer}: tapped weights differ from eager attention by up to"
                f" {self.weights:.2g}, expected at most {limit:g} in {dtype}, and invisible"
                f" positions have weight {self.invisible:.2g}. Nothing was measured; try --dtype"
                " float32 or another model."
            )


def parity(
    model: PreTrainedModel,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    queries: Tensor | None = None,
) -> Parity:
    """Compare the tap with the eager implementation, layer by layer; arguments as of `tap`. One
    document is enough: eager's memory grows with the square of its length.

    Raises:
        InputError: as `tap` does; if the eager implementation returns no weights; or if the model
            is damaged (every value state is zero, or the states after attention are not finite). A
            captured row that is not finite is left to the caller, which can name it.
    """
    layers: list[tuple[torch.nn.Module | None, Tensor, Tensor]] = []
    largest: list[float] = []  # of each layer; 0 if every value state is 0

    def keep_layer(layer: TappedLayer) -> None:
        layers.append((layer.module, layer.alpha, layer.visible))
        magnitude = layer.values.abs().max() + layer.alpha.max()
        largest.append(float(magnitude) if bool(layer.values.any()) else 0.0)

    tapped = tap(model, input_ids, keep_layer, attention_mask, queries)
    decoder = decoder_of(model)
    mask = checked_mask(decoder, input_ids, attention_mask)
    positions = analysed_positions(input_ids, mask, queries).to(device_of(decoder))
    modules = [module for module, _, _ in layers if module is not None]
    eager, rows = _eager(decoder, input_ids, mask, positions, modules)
    if len(rows) != len(layers):
        raise InputError(
            f"{decoder.config.model_type}: its eager attention returns no weights for comparison."
            " Use another model."
        )
    length = eager.float().norm(dim=-1)
    error = (tapped.float() - eager.float()).norm(dim=-1) / length
    if bool(length.any()):
        both_zero = (length == 0) & (tapped == 0).all(dim=-1)  # as for a padding token
        error = torch.where(both_zero, 0.0, error)
    hidden = float((error if mask is None else error[mask]).max())
    if not any(largest):
        raise InputError(
            f"{decoder.config.model_type}: every value state of the first document is zero,"
            " expected a trained model, and a text whose tokens have embeddings. Download the model"
            " again, or use another text."
        )
    if not math.isfinite(hidden) and math.isfinite(sum(largest)):
        raise InputError(
            f"{decoder.config.model_type}: its last hidden states are NaN, infinite or all zero"
            " although its attention is finite, so weights are damaged. Download the model again,"
            " or try --dtype float32."
        )
    return _largest([(alpha, visible) for _, alpha, visible in layers], rows, hidden)


def refuse_other_forward(model: torch.nn.Module, decoder: PreTrainedModel) -> None:
    """Refuse by an InputError a model that differs from its decoder run alone through the tap.

    The model's forward may give the decoder more than the tokens, or the decoder's attention or
    masks may not be those of transformers. The check compares hidden states of a few tokens. A
    transformers model whose forward takes other inputs than tokens, or does not call its decoder,
    is accepted, and so is a module without a forward; other modules are refused.
    """
    name = f"model={type(model).__name__}"
    count = min(PROBED, longest_input(decoder.config) or PROBED)
    ids = torch.arange(3, 3 + count, device="cpu")[None] % (known_tokens(decoder) or PROBED)
    with alone(decoder):
        try:
            native = forward(decoder, ids, None)
        except InputError:  # for example, a kernel that this machine lacks
            native = None
        tapped = run_decoder(decoder, ids, None, Attention.output)
        with implementation(decoder, "eager"):
            expected = forward(decoder, ids, None)
        limit = PROBE_FAULT
        if decoder.dtype != torch.float32:
            limit = min(KERNEL_FAULT, max(limit, KERNELS * relative_difference(tapped, expected)))
        if native is not None and not relative_difference(native, tapped) <= limit:
            raise InputError(
                f"{name}: its own attention ({decoder.config._attn_implementation}) gives other"
                " hidden states than that of transformers, expected the same. Remove the"
                " replacement of its attention or masks."
            )
        if model is decoder:
            return
        with implementation(decoder, "eager"):
            through_model, reason = _handed(model, decoder, ids.to(device_of(decoder)))
    if through_model is not None:
        if not relative_difference(through_model, expected) <= PROBE_FAULT:
            raise InputError(
                f"{name}: its own forward gives other hidden states than its decoder alone,"
                " expected a model that passes the tokens on unchanged. Pass the model inside it to"
                " measure that one."
            )
    elif not isinstance(model, PreTrainedModel) and (
        type(model).forward is not torch.nn.Module.forward
    ):
        raise InputError(
            f"{name}: the inputs that its own forward gives its decoder are unknown ({reason}),"
            " expected a model that takes input_ids. Pass the model inside it to measure that one."
        )


def _handed(
    model: torch.nn.Module, decoder: PreTrainedModel, ids: Tensor
) -> tuple[Tensor | None, str]:
    """Return the decoder's last states in the model's own forward pass, or None, and the reason."""
    states: list[Tensor] = []
    reason = "it does not call it"
    hook = decoder.register_forward_hook(lambda module, args, output: states.append(output[0]))
    try:
        for call in (
            partial(model, input_ids=ids, use_cache=False),
            partial(model, input_ids=ids),
            partial(model, ids),
        ):
            try:
                with plain_mode(model):
                    call()
                break
            except InputError as error:
                states.clear()
                reason = str(error.__cause__)
    finally:
        hook.remove()
    return (states[-1] if states else None), reason


def relative_difference(found: Tensor, expected: Tensor) -> float:
    """Return ‖found − expected‖/‖expected‖ of hidden states over finite entries; infinity if they
    are finite in different places. The result is NaN if a norm overflows, so compare with `not … <=
    limit`.
    """
    finite = expected.isfinite()
    if found.shape != expected.shape or not torch.equal(found.isfinite(), finite):
        return math.inf
    found, expected = (torch.where(finite, states, 0.0).float() for states in (found, expected))
    difference, length = float((found - expected).norm()), float(expected.norm())
    return difference / length if length else math.inf if difference else 0.0


def _largest(
    tapped: Sequence[tuple[Tensor, Tensor]], rows: Sequence[Tensor], hidden: float
) -> Parity:
    """Return the largest differences over layers. `tapped` holds α and visibility of each layer,
    `rows` eager's weights.

    If a learned sink takes its share after eager's softmax, eager's rows sum to 1 and are scaled by
    the tapped sum. The hidden states then test the share.
    """
    weights = log_weights = invisible = 0.0
    worst = 0
    for index, ((alpha, visible), row) in enumerate(zip(tapped, rows, strict=True)):
        tapped_sum, eager_sum = alpha.sum(dim=-1, keepdim=True), row.sum(dim=-1, keepdim=True)
        nearer_to_1 = (eager_sum - 1).abs() < (eager_sum - tapped_sum).abs()
        sink_after_softmax = (tapped_sum < 1 - SHARE) & nearer_to_1
        if bool(sink_after_softmax.any()):
            row = torch.where(sink_after_softmax, row * tapped_sum, row)
            weights = max(weights, hidden)
        difference = float((alpha - row).abs().max())
        if difference > weights:  # False for NaN
            weights, worst = difference, index
        comparable = (alpha > LOG_FLOOR) & (row > LOG_FLOOR)
        if bool(comparable.any()):
            logs = (alpha[comparable].log() - row[comparable].log()).abs()
            log_weights = max(log_weights, float(logs.max()))
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
    """Return the last hidden states of the eager implementation, and the weights of the queries at
    `positions`, (document, query, head, position), of each module that returns any.
    """
    rows: list[Tensor] = []

    def keep_row(module: torch.nn.Module, args: object, output: object) -> None:
        """Take eager's weights, (document, head, query, position), from a module's output."""
        weights = output[1] if isinstance(output, tuple) and len(output) > 1 else None
        if isinstance(weights, Tensor) and weights.ndim == 4:
            documents = torch.arange(weights.shape[0], device=weights.device)[:, None]
            # A copy, because the full weights of all layers would not fit.
            rows.append(weights[documents, :, positions.to(weights.device)].float())

    with implementation(decoder, "eager"):  # holds the decoder's lock
        hooks = [module.register_forward_hook(keep_row) for module in modules]
        try:
            return forward(decoder, input_ids, mask), rows
        finally:
            for hook in hooks:
                hook.remove()
