"""Input of an observer: the sizes of a run, and one tapped layer of one document; on a device,
several layers at once, with results that stay there until the document is complete.

The heads of these layers are concatenated. A device runs some hundred operations per layer, many of
them small, so several layers at once cost hardly more than one. A copy to the host waits for all
queued work; one copy per document instead of one per number keeps the queue filled. Imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from empirical.errors import InputError
from empirical.measure.queries import Row
from empirical.measure.selection import LEAST, MOST, Convention, in_range
from empirical.schema import coordinates
from empirical.sources.queries import LAST, Queries
from empirical.tap.tap import TappedLayer

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShape:
    """Sizes of a run, from which an observer lays out its arrays."""

    layers: int
    heads: int
    kv_heads: int
    positions: int
    dimension: int
    n: np.ndarray
    convention: Convention
    seed: int
    queries: Queries = LAST
    """Analysed queries of a document."""
    token_ids: bool = True
    """Whether the documents' tokens are known."""
    visible: tuple[int, ...] = ()
    """Number of visible tokens T of each layer."""

    def coordinates(self, *names: str) -> dict[str, xr.Variable]:
        """Return the axes in `names`, shared by all groups, with their label coordinates."""
        tokens, heads = np.asarray(self.visible, dtype=np.int64), np.arange(self.heads)
        labels = {
            "layer": {
                "layer": np.arange(self.layers),
                "tokens": tokens,
                "sink_visible": tokens == self.positions,
            },
            "head": {"head": heads, "kv_head_of_head": heads // (self.heads // self.kv_heads)},
            "kv_head": {"kv_head": np.arange(self.kv_heads)},
            "position": {"position": np.arange(self.positions)},
            "n": {"n": np.asarray(self.n, dtype=np.int64)},
            "query": {"query": np.arange(self.queries.count)},
        }
        return coordinates(
            **{name: values for axis in names for name, values in labels[axis].items()}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Rows of the analysed queries, and the value states that they weigh."""

    rows: Sequence[Row]
    """Analysed queries in ascending order; the last is the window's last query."""
    every: Tensor
    """Value states of all positions, (kv_head, position, dimension) float32."""
    shape: RunShape
    token_ids: np.ndarray | None = None
    """Ids of all positions; None if unknown."""

    @property
    def alpha(self) -> Tensor:
        """Attention row of the last query, (head, token) float32."""
        return torch.as_tensor(self.rows[-1].alpha)

    @property
    def values(self) -> Tensor:
        """Value states of the tokens that the last query sees, (kv_head, token, dimension)."""
        return self.every[:, self.first :]

    @property
    def first(self) -> int:
        """Position of the first token that the last query sees; 0 if it sees the sink."""
        return self.rows[-1].first

    @property
    def sink(self) -> bool:
        """Whether the first token is the sink."""
        return self.first == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerView(Seen):
    """One layer of one document."""

    layer: int
    document: int
    seed: tuple[int, ...]
    on_device: bool = False
    """Whether the tensors are on the layer's device, to be measured there."""

    def on_host(self) -> LayerView:
        """Return the layer with its tensors on the CPU."""
        rows = [replace(row, alpha=torch.as_tensor(row.alpha).cpu()) for row in self.rows]
        return replace(self, rows=rows, every=self.every.cpu(), on_device=False)


def layer_view(
    tapped: TappedLayer,
    slot: int,
    positions: Sequence[int],
    shape: RunShape,
    *,
    on_device: bool,
    **kwargs: Any,
) -> LayerView:
    """Return an observer's view of one document of a tapped layer, on its device or on the CPU.
    `positions` are those of its analysed queries; `kwargs` are document, seed and token ids.
    """
    alpha, every = tapped.alpha[slot].float(), tapped.values[slot].float()
    if not on_device:
        alpha, every = alpha.cpu(), every.cpu()
    rows = [
        Row(position=position, first=first, alpha=row[:, first : position + 1])
        for position, first, row in zip(positions, tapped.first[slot], alpha, strict=True)
    ]
    return LayerView(
        layer=tapped.index, rows=rows, every=every, shape=shape, on_device=on_device, **kwargs
    )


KV_HEAD_RANGE: Final = "kv_head range"
FAULTS: Final = {
    "head": "NaN or infinity in the captured row. Try --dtype float32; if it persists, the model's"
    " weights are damaged.",
    KV_HEAD_RANGE: f"its largest value state is not between {LEAST:.1g} and {MOST:.1g}, which"
    " float32 can square. Scale the values, or check the model's weights.",
}
"""Message for a row that fails a check, by check."""
FAULTS["kv_head"] = FAULTS["head"]


def refuse_unsound(view: LayerView, name: str) -> None:
    """Refuse captured arrays with NaN, infinity or values that cannot be squared."""
    for what, sound in sound_rows(view).items():
        refuse_unless(np.asarray(sound), name, view.layer, what)


def sound_rows(view: LayerView) -> dict[str, Tensor]:
    """Return, by check, which heads or kv_heads pass, on the layer's device."""
    weights = torch.cat([torch.as_tensor(row.alpha) for row in view.rows], dim=1)
    return {
        "head": weights.isfinite().all(dim=1),
        "kv_head": view.every.flatten(1).isfinite().all(dim=1),
        KV_HEAD_RANGE: in_range(view.every),
    }


def refuse_unless(sound: np.ndarray, name: str, layer: int, what: str) -> None:
    """Refuse a document if a captured row, one per head or kv_head, fails the check `what`."""
    if not sound.all():
        head = int(np.flatnonzero(~sound)[0])
        kind = what.partition(" ")[0]
        raise InputError(f"document {name!r}, layer {layer}, {kind} {head}: {FAULTS[what]}")


LAYERS: Final = 8
"""Most layers measured together; their weights and values stay on the device until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Together(Seen):
    """Layers, in order, whose queries see equally many tokens; their heads are concatenated."""

    views: Sequence[LayerView]

    @property
    def seeds(self) -> list[tuple[int, ...]]:
        """Seed of each layer."""
        return [view.seed for view in self.views]

    def apart(self, measured: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Split the measurements by layer: tensors along their heads, arrays repeated."""
        count = len(self.views)
        parts = {
            name: array.chunk(count) if isinstance(array, Tensor) else [array] * count
            for name, array in measured.items()
        }
        return [{name: part[index] for name, part in parts.items()} for index in range(count)]


def alike(first: LayerView, second: LayerView) -> bool:
    """Return whether two layers may be measured together: equal device and visible ranges."""
    ranges = ([(row.position, row.first) for row in view.rows] for view in (first, second))
    return first.every.device == second.every.device and next(ranges) == next(ranges)


def together(views: Sequence[LayerView]) -> Together:
    """Concatenate the tensors of some layers, all `alike`."""
    rows = [
        replace(row, alpha=torch.cat([torch.as_tensor(view.rows[query].alpha) for view in views]))
        for query, row in enumerate(views[0].rows)
    ]
    every = torch.cat([view.every for view in views])
    return Together(
        views=views, rows=rows, every=every, shape=views[0].shape, token_ids=views[0].token_ids
    )


@dataclass(frozen=True, slots=True)
class Later:
    """An array that a function computes from tensors once they are on the host."""

    tensors: tuple[Tensor, ...]
    finish: Callable[..., np.ndarray]


def fetched(waiting: Mapping[Key, Tensor | Later]) -> dict[Key, np.ndarray]:
    """Return the final arrays by key, with one transfer from each device."""
    later = {
        key: Later((value,), np.asarray) if isinstance(value, Tensor) else value
        for key, value in waiting.items()
    }
    arrays = iter(to_host([tensor for value in later.values() for tensor in value.tensors]))
    return {
        key: value.finish(*(next(arrays) for _ in value.tensors)) for key, value in later.items()
    }


def to_host(tensors: list[Tensor]) -> list[np.ndarray]:
    """Return tensors as arrays, in order; those of one device are concatenated there and copied at
    once.

    >>> to_host([torch.tensor([True]), torch.tensor([[1.5, 2.5]])])
    [array([ True]), array([[1.5, 2.5]], dtype=float32)]
    """
    out: dict[int, np.ndarray] = {}
    for device in {tensor.device for tensor in tensors}:
        # Widest dtypes first, so that each array is aligned.
        on_device = sorted(
            (place for place, tensor in enumerate(tensors) if tensor.device == device),
            key=lambda place: -tensors[place].element_size(),
        )
        flat = [tensors[place].reshape(-1).view(torch.uint8) for place in on_device]
        data = _copied(torch.cat(flat)).numpy()
        start = 0
        for place in on_device:
            tensor = tensors[place]
            stop = start + tensor.numel() * tensor.element_size()
            dtype = torch.empty(0, dtype=tensor.dtype).numpy().dtype
            out[place] = data[start:stop].view(dtype).reshape(tensor.shape)
            start = stop
    return [out[place] for place in range(len(tensors))]


def _copied(data: Tensor) -> Tensor:
    """Copy bytes to the host; from CUDA into pinned memory, which saves a second copy."""
    if data.device.type != "cuda":
        return data.cpu()
    host = torch.empty(data.shape, dtype=data.dtype, pin_memory=True)
    host.copy_(data, non_blocking=True)
    torch.cuda.current_stream(data.device).synchronize()
    return host
