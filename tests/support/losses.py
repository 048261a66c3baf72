"""Losses from whole forward passes, without what a session of losses caches."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from empirical.intervention.cut import Cut, intervened
from empirical.intervention.loss import next_token_losses


def mean_losses(
    model: Any,
    token_ids: Any,
    cut_of: Callable[[int], Cut | None] = lambda layer: None,
    targets: int | None = None,
) -> np.ndarray:
    """Return the mean next-token loss of each document; `cut_of` gives the ablation of a layer."""
    losses = []
    for row in torch.as_tensor(token_ids, dtype=torch.long):
        hidden = intervened(model, row[None], cut_of)
        losses.append(float(next_token_losses(model, hidden, row[None], targets).double().mean()))
    return np.array(losses)
