"""What an observer sees: the lengths of a run, and one layer of one document as it was tapped.
Imports torch for its tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
import xarray as xr

from empirical.errors import InputError
from empirical.measure.convention import Convention
from empirical.measure.queries import Row
from empirical.measure.selection import LEAST, MOST, in_range
from empirical.schema import coordinates
from empirical.sources.queries import LAST, Queries
from empirical.tap.tap import TappedLayer


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShape:
    """The lengths of a run: what an observer needs to lay out its arrays."""

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
    """Whether it is known which tokens the documents are."""
    visible: tuple[int, ...] = ()
    """Visible tokens T of each layer."""

    def coordinates(self, *names: str) -> dict[str, xr.Variable]:
        """The axes that every group shares, those of them that `names` asks for, with the labels
        that hang on them.
        """
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
class LayerView:
    """One layer of one document: the tokens that its last query sees, and the rows of every
    analysed query.
    """

    layer: int
    document: int
    seed: tuple[int, ...]
    alpha: torch.Tensor
    """(head, token) float32, attention row of the last query."""
    values: torch.Tensor
    """(kv_head, token, dimension) float32."""
    first: int
    """Position of the first visible token; 0 when the sink is visible."""
    rows: Sequence[Row]
    """The analysed queries in ascending order; the last of them is the window's last."""
    every: torch.Tensor
    """(kv_head, position, dimension) float32, value states of all positions."""
    shape: RunShape

    on_device: bool = False
    """Whether the tensors are on the device where the layer lives, to be measured there."""

    @property
    def sink(self) -> bool:
        """Whether the first token is the sink."""
        return self.first == 0

    def on_host(self) -> LayerView:
        """Return the layer with its tensors on the CPU, to be measured there."""
        alpha = [torch.as_tensor(row.alpha).cpu() for row in self.rows]
        every = self.every.cpu()
        return replace(
            self,
            alpha=alpha[-1],
            values=every[:, self.first :],
            rows=[replace(row, alpha=own) for row, own in zip(self.rows, alpha, strict=True)],
            every=every,
            on_device=False,
        )


def layer_view(
    tapped: TappedLayer,
    slot: int,
    positions: Sequence[int],
    shape: RunShape,
    *,
    on_device: bool,
    **which: Any,
) -> LayerView:
    """Return what an observer sees of one document of a tapped layer, on its device or on the CPU;
    `positions` are those of its analysed queries, `which` the document and the seed.
    """
    firsts = tapped.first[slot]
    alpha, every = tapped.alpha[slot].float(), tapped.values[slot].float()
    if not on_device:
        alpha, every = alpha.cpu(), every.cpu()
    rows = [
        Row(position=at, first=first, alpha=row[:, first : at + 1])
        for at, first, row in zip(positions, firsts, alpha, strict=True)
    ]
    return LayerView(
        layer=tapped.index,
        alpha=alpha[-1, :, firsts[-1] :],
        values=every[:, firsts[-1] :],
        first=firsts[-1],
        rows=rows,
        every=every,
        shape=shape,
        on_device=on_device,
        **which,
    )


KV_HEAD_RANGE: Final = "kv_head range"
FAULTS: Final = {
    "head": "NaN or infinity in the captured row. Try --dtype float32; if it stays, the model's"
    " weights are damaged.",
    KV_HEAD_RANGE: f"its largest value state is not from {LEAST:.1g} to {MOST:.1g}, which float32"
    " can square. Scale the values; of a model, look at its weights.",
}
"""What is wrong with a row that fails a check, by that."""
FAULTS["kv_head"] = FAULTS["head"]


def refuse_unsound(view: LayerView, name: str) -> None:
    """Refuse NaN, infinity, and values that cannot be squared, in what was captured, naming
    document, layer and head.
    """
    for what, tensor in (*(("head", row.alpha) for row in view.rows), ("kv_head", view.every)):
        rows = np.asarray(tensor).reshape(len(tensor), -1)
        finite = np.isfinite(rows.min(axis=1)) & np.isfinite(rows.max(axis=1))
        refuse_unless(finite, name, view.layer, what)
    refuse_unless(in_range(np.asarray(view.every)), name, view.layer, KV_HEAD_RANGE)


def sound_rows(view: LayerView) -> dict[str, torch.Tensor]:
    """Return, by check, whether what was captured passes, of each head or of each kv_head, on the
    layer's device.
    """
    weights = torch.cat([torch.as_tensor(row.alpha) for row in view.rows], dim=1)
    return {
        "head": weights.isfinite().all(dim=1),
        "kv_head": view.every.flatten(1).isfinite().all(dim=1),
        KV_HEAD_RANGE: in_range(view.every),
    }


def refuse_unless(sound: np.ndarray, name: str, layer: int, what: str) -> None:
    """Refuse a document of which a captured row, one of each head or kv_head, fails the check
    `what`.
    """
    if not sound.all():
        head = int(np.flatnonzero(~sound)[0])
        kind = what.partition(" ")[0]
        raise InputError(f"document {name!r}, layer {layer}, {kind} {head}: {FAULTS[what]}")
