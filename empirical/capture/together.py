"""Layers of one document that are measured together on their device: their heads stand one behind
the other, as those of one layer with many.

A device is asked for some hundred operations a layer, many of them small; asked for several layers
at once they are hardly more, and none of them smaller than need be. Imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor

from empirical.capture.layer_view import LayerView, RunShape
from empirical.measure.queries import Row

LAYERS: Final = 8
"""Layers that are measured together at most; their weights and values stay on the device till
then.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Some layers whose queries see equally many tokens, in their order."""

    views: Sequence[LayerView]
    alpha: Tensor
    """(layer · head, token), attention rows of the last query."""
    values: Tensor
    """(layer · kv_head, token, dimension), of the tokens that it sees."""
    every: Tensor
    """(layer · kv_head, position, dimension), of all positions."""
    rows: Sequence[Row]
    """The analysed queries, with the weights of all layers."""

    @property
    def shape(self) -> RunShape:
        """The lengths of the run."""
        return self.views[0].shape

    @property
    def sink(self) -> bool:
        """Whether the first token is the sink."""
        return self.views[0].sink

    @property
    def seeds(self) -> list[tuple[int, ...]]:
        """The seed of each layer."""
        return [view.seed for view in self.views]

    def apart(self, measured: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what was measured of each layer: of a tensor its heads, all of an array."""
        count = len(self.views)
        parts = {
            name: one.chunk(count) if isinstance(one, Tensor) else [one] * count
            for name, one in measured.items()
        }
        return [{name: part[place] for name, part in parts.items()} for place in range(count)]


def alike(one: LayerView, other: LayerView) -> bool:
    """Whether two layers may be measured together: on one device, with queries that see the
    same.
    """
    seen = ([(row.position, row.first) for row in view.rows] for view in (one, other))
    return one.every.device == other.every.device and next(seen) == next(seen)


def together(views: Sequence[LayerView]) -> Together:
    """Lay the tensors of some layers, all `alike`, one behind the other."""
    weights = [[torch.as_tensor(row.alpha) for row in view.rows] for view in views]
    rows = [
        replace(row, alpha=torch.cat(own))
        for row, own in zip(views[0].rows, zip(*weights, strict=True), strict=True)
    ]
    every, last = torch.cat([view.every for view in views]), rows[-1].alpha
    assert isinstance(last, Tensor)
    return Together(
        views=views, alpha=last, values=every[:, views[0].first :], every=every, rows=rows
    )
