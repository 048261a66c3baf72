"""Next-token loss of hidden states, a few positions at a time, so the full logits never exist.
Imports torch and transformers.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from empirical.errors import InputError
from empirical.tap.decoder import decoder_of, device_of
from empirical.tap.interface import forward, plain_mode, returning
from empirical.tap.parity import PROBE_FAULT, PROBED, relative_difference

LOGITS: Final = 2**24
"""Number of logits that exist at once; 64 MB in float32."""


def next_token_losses(
    model: PreTrainedModel, hidden: Tensor, input_ids: Tensor, targets: int | None = None
) -> Tensor:
    """Return −log p of the last `targets` tokens, (document, target) float32, in nats.

    Args:
        hidden: the last hidden states of the model's decoder, (document, position, hidden).
        input_ids: (document, position) integers, without padding.
        targets: None: every token except the first.

    Raises:
        InputError: the model has no head, or the window has fewer tokens to predict.
    """
    refuse_headless(model)
    documents, positions = input_ids.shape
    count = positions - 1 if targets is None else targets
    if not 1 <= count < positions:
        raise InputError(
            f"targets {count}: a window of {positions} tokens has 1 to {positions - 1} tokens to"
            " predict. Use fewer targets, or longer windows."
        )
    first = positions - 1 - count
    weight = getattr(model.get_output_embeddings(), "weight", None)
    if isinstance(weight, Tensor):
        vocabulary = weight.shape[0]
    else:  # heads that are quantised or nested
        vocabulary = logits_of(model, hidden[:, :1]).shape[-1]
    rows = max(1, LOGITS // (documents * vocabulary))
    losses = []
    for start in range(first, positions - 1, rows):
        stop = min(start + rows, positions - 1)
        logits = logits_of(model, hidden[:, start:stop]).float()
        target_ids = input_ids[:, start + 1 : stop + 1].to(logits.device)
        block_losses = cross_entropy(logits.flatten(0, 1), target_ids.flatten(), reduction="none")
        losses.append(block_losses.view_as(target_ids))
    return torch.cat(losses, dim=1)


def refuse_headless(model: PreTrainedModel) -> None:
    """Refuse by an InputError a model that predicts no tokens."""
    if getattr(model, "get_output_embeddings", lambda: None)() is None:
        raise InputError(
            f"{type(model).__name__}: has no head that predicts tokens, expected a causal language"
            " model. Load it as one (AutoModelForCausalLM)."
        )


def logits_of(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Return logits, (document, position, vocabulary), by the model's own head and soft-cap."""
    with plain_mode(model), returning(decoder_of(model), _Output(hidden)):
        return _logits(model, torch.zeros(hidden.shape[:2], dtype=torch.long, device=hidden.device))


def _logits(model: PreTrainedModel, ids: Tensor) -> Tensor:
    return model(input_ids=ids, use_cache=False).logits


def refuse_other_logits(model: PreTrainedModel, input_ids: Tensor) -> None:
    """Refuse a model whose own forward gives other logits than `logits_of` on the first tokens."""
    decoder = decoder_of(model)
    ids = input_ids[:, :PROBED].to(device_of(decoder))
    head_logits = logits_of(model, forward(decoder, ids, None))
    with plain_mode(model):
        model_logits = _logits(model, ids)
    if not relative_difference(head_logits, model_logits) <= PROBE_FAULT:
        raise InputError(
            f"model={type(model).__name__}: its own forward gives other logits than its head on its"
            " decoder's last hidden states, expected the same. Pass a model whose head alone makes"
            " the logits."
        )


class _Output:
    """A decoder output of which only the hidden states are known."""

    def __init__(self, hidden: Tensor) -> None:
        self.last_hidden_state = hidden

    def __getitem__(self, place: int) -> Any:
        return self.last_hidden_state if place == 0 else None

    def __getattr__(self, name: str) -> None:
        """Return None for router logits, caches and other outputs."""
