"""Where a decoder takes its tokens, and where its weights are used.

Imports torch and transformers only.
"""

from __future__ import annotations

import torch
from transformers import PreTrainedModel


def device_of(decoder: PreTrainedModel) -> torch.device:
    """Return where a decoder takes its tokens."""
    if decoder.device.type != "meta":
        return decoder.device
    return brought_to(decoder) or torch.device("cpu")


def brought_to(model: torch.nn.Module) -> torch.device | None:
    """Return where accelerate brings weights that lie elsewhere until they are needed; None where
    it does not.
    """
    for module in model.modules():
        device = getattr(getattr(module, "_hf_hook", None), "execution_device", None)
        if device is not None:
            return torch.device(device)
    return None
