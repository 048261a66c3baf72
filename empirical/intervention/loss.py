"""The next-token loss of hidden states, a few positions at a time, so that no logits of all
positions against the whole vocabulary exist. Imports torch and transformers.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from empirical.errors import InputError
from empirical.tap.decoder import decoder_of
from empirical.tap.interface import as_it_is, forward, returning
from empirical.tap.parity import PROBE_FAULT, PROBED, alike
from empirical.tap.placed import device_of
from empirical.tap.refusals import refuse_headless, refuse_targets

LOGITS: Final = 2**24
"""Logits that exist at once, 64 MB in float32."""


def next_token_losses(
    model: PreTrainedModel, hidden: Tensor, input_ids: Tensor, targets: int | None = None
) -> Tensor:
    """Return −log p of the last `targets` tokens, (document, target) float32, in nats.

    Args:
        model: a causal language model, with its head.
        hidden: its decoder's last hidden states, (document, position, hidden).
        input_ids: (document, position) integers, without padding.
        targets: None: every token but the first.

    Raises:
        InputError: the model has no head, or there are fewer tokens to predict.
    """
    refuse_headless(model)
    documents, positions = input_ids.shape
    count = positions - 1 if targets is None else targets
    refuse_targets(count, positions)
    first = positions - 1 - count
    rows = max(1, LOGITS // (documents * _vocabulary(model, hidden)))
    found = []
    for start in range(first, positions - 1, rows):
        stop = min(start + rows, positions - 1)
        logits = logits_of(model, hidden[:, start:stop]).float()
        wanted = input_ids[:, start + 1 : stop + 1].to(logits.device)
        each = cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none")
        found.append(each.view_as(wanted))
    return torch.cat(found, dim=1)


def logits_of(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Return the logits of hidden states, (document, position, vocabulary), as the model's own
    forward makes them, with its scaling and soft-cap.
    """
    with as_it_is(model), returning(decoder_of(model), _Output(hidden)):
        return _logits(model, torch.zeros(hidden.shape[:2], dtype=torch.long, device=hidden.device))


def _logits(model: PreTrainedModel, ids: Tensor) -> Tensor:
    return model(input_ids=ids, use_cache=False).logits


def refuse_other_logits(model: PreTrainedModel, input_ids: Tensor) -> None:
    """Refuse by an InputError a model whose own forward does more to its decoder's last hidden
    states, on the first tokens of these, than `logits_of` sees.
    """
    decoder = decoder_of(model)
    ids = input_ids[:, :PROBED].to(device_of(decoder))
    found = logits_of(model, forward(decoder, ids, None))
    with as_it_is(model):
        own = _logits(model, ids)
    if not alike(found, own, PROBE_FAULT):
        raise InputError(
            f"model={type(model).__name__}: its own forward gives other logits than its head gives"
            " of its decoder's last hidden states, expected the same. Give a model whose losses are"
            " those of its head."
        )


def _vocabulary(model: PreTrainedModel, hidden: Tensor) -> int:
    """Return how many tokens have a logit."""
    weight = getattr(model.get_output_embeddings(), "weight", None)
    if isinstance(weight, Tensor):
        return weight.shape[0]
    return logits_of(model, hidden[:, :1]).shape[-1]  # of heads that are packed, or lie deeper


class _Output:
    """What a decoder returns, of which only the hidden states are known."""

    def __init__(self, hidden: Tensor) -> None:
        self.last_hidden_state = hidden

    def __getitem__(self, place: int) -> Any:
        return self.last_hidden_state if place == 0 else None

    def __getattr__(self, name: str) -> None:
        """Nothing: routers' weights, caches and the like."""
