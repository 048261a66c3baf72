"""Operations that torch dispatches, and the memory of live tensors."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_WAITING = """
_local_scalar_dense equal is_nonzero item masked_select nonzero unique_consecutive unique_dim
_unique2 bincount repeat_interleave
"""
WAITING = frozenset(_WAITING.split())
"""Operations that read a number, or whose result has a shape that depends on one: they wait for
the device.
"""


class Operations(TorchDispatchMode):
    """Records the names of all operations, and those that wait for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.waiting: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        name = function.overloadpacket.__name__
        self.names.append(name)
        tensors = [
            leave for leave in tree_leaves((args, kwargs)) if isinstance(leave, torch.Tensor)
        ]
        out = function(*args, **(kwargs or {}))
        by_mask = name in {"index", "index_put", "index_put_"} and any(
            tensor.dtype in {torch.bool, torch.uint8} for tensor in tensors[1:]
        )
        # repeat_interleave by a tensor has a shape that its numbers give; by a number it is views.
        devices = {
            leave.device for leave in tree_leaves((tensors, out)) if hasattr(leave, "device")
        }
        copies = name in {"_to_copy", "copy_"} and len(devices) > 1
        copies = copies and not (kwargs or {}).get("non_blocking")  # small ones are staged
        if name in WAITING or by_mask or copies:
            self.waiting.append(name)
        return out


class Living(TorchDispatchMode):
    """Counts the bytes of the tensors that live at once, of those created inside it, and the
    entries of the largest one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = self.entries = 0
        self.held: dict[int, int] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        given = {
            one.untyped_storage().data_ptr()
            for one in tree_leaves((args, kwargs))
            if isinstance(one, torch.Tensor)
        }
        out = function(*args, **(kwargs or {}))
        for leave in tree_leaves(out):
            if isinstance(leave, torch.Tensor):
                self.entries = max(self.entries, leave.numel())
                storage = leave.untyped_storage()
                place = storage.data_ptr()
                if place in self.held:
                    self.held[place] += 1
                elif place not in given and storage.nbytes():
                    self.held[place] = 1
                    self.now += storage.nbytes()
                else:
                    continue
                weakref.finalize(leave, self._gone, place, storage.nbytes())
        self.most = max(self.most, self.now)
        return out

    def _gone(self, place: int, size: int) -> None:
        self.held[place] -= 1
        if not self.held[place]:
            del self.held[place]
            self.now -= size
