"""Arrays that wait on a device until their document is whole, and come to the host together.

A copy to the host waits for all that the device was asked to do before; one a document, not one a
number, leaves it to work ahead. Imports numpy and torch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Later:
    """An array that a function makes of tensors once these are on the host."""

    tensors: tuple[Tensor, ...]
    finish: Callable[..., np.ndarray]


Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class Waiting(Generic[Key]):
    """Tensors and what they are to become, by key."""

    held: dict[Key, Later] = field(default_factory=dict)

    def add(self, key: Key, measured: Tensor | Later) -> None:
        """Keep what is to become an array."""
        one = Later((measured,), _itself) if isinstance(measured, Tensor) else measured
        self.held[key] = one

    def fetch(self) -> dict[Key, np.ndarray]:
        """Return all arrays by key, and forget them: one transfer from each device."""
        tensors = [one for later in self.held.values() for one in later.tensors]
        arrays = iter(to_host(tensors))
        made = {
            key: later.finish(*(next(arrays) for _ in later.tensors))
            for key, later in self.held.items()
        }
        self.held.clear()
        return made


def _itself(array: np.ndarray) -> np.ndarray:
    return array


def to_host(tensors: list[Tensor]) -> list[np.ndarray]:
    """Return tensors as arrays, in their order; those of a device are laid one behind the other
    there and copied at once.

    >>> to_host([torch.tensor([True]), torch.tensor([[1.5, 2.5]])])
    [array([ True]), array([[1.5, 2.5]], dtype=float32)]
    """
    out: dict[int, np.ndarray] = {}
    for device in {tensor.device for tensor in tensors}:
        # The widest types first: each array then starts where its type may.
        here = sorted(
            (place for place, one in enumerate(tensors) if one.device == device),
            key=lambda place: -tensors[place].element_size(),
        )
        flat = [tensors[place].reshape(-1).view(torch.uint8) for place in here]
        data = _copied(torch.cat(flat)).numpy()
        start = 0
        for place in here:
            tensor = tensors[place]
            stop = start + tensor.numel() * tensor.element_size()
            kind = torch.empty(0, dtype=tensor.dtype).numpy().dtype
            out[place] = data[start:stop].view(kind).reshape(tensor.shape)
            start = stop
    return [out[place] for place in range(len(tensors))]


def _copied(data: Tensor) -> Tensor:
    """Copy bytes to the host; from CUDA into pinned memory, which spares a copy of the copy."""
    if data.device.type != "cuda":
        return data.cpu()
    host = torch.empty(data.shape, dtype=data.dtype, pin_memory=True)
    host.copy_(data, non_blocking=True)
    torch.cuda.current_stream(data.device).synchronize()
    return host
