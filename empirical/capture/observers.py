"""The measurements that come with geostat: the geometry of every head, and its null baselines.

Source: arXiv 2602.01893, (1)-(8), (18)-(20), Figures 2, 3, 5, 7 and 9. Imports selection, summaries and nulls of this room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from empirical.capture.observer import LayerView, RunShape
from empirical.errors import InputError
from empirical.measure import layer as summaries
from empirical.measure import nulls
from empirical.schema import CAPTURE, NULL, NULLS, PRINCIPAL, Coordinate
from empirical.store.layout import GroupPlan

MOST_NAMED_HEADS = 12
"""Principal components are a picture, not a statistic: at most a page of them."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Everything of /capture: separability, curves over N, norms, cosines by lag; principal components of `named` heads (layer, head)."""

    named: Sequence[tuple[int, int]] = ()
    group: ClassVar[str] = "capture"

    def plan(self, shape: RunShape) -> GroupPlan:
        """Lay out /capture."""
        refuse_unknown_heads(self.named, layers=shape.layers, heads=shape.heads)
        bins = summaries.lag_bins(shape.positions)
        cosines = summaries.cosine_bins()
        blocks = summaries.position_blocks(shape.positions)
        sizes = shape.sizes() | {
            "lag": max(shape.positions - 2, 0),
            "lag_bin": len(bins),
            "cosine_bin": len(cosines) - 1,
            "position_block": len(blocks),
            "named_head": len(self.named),
            "component": 3,
        }
        coordinates = shape.coordinates("layer", "head", "kv_head", "position", "n") | {
            "lag": Coordinate(dims=("lag",), values=np.arange(1, sizes["lag"] + 1), long_name="lag |i-j|", units="tokens"),
            **_ranges("lag_bin", bins, "lag", "tokens"),
            "cosine_bin": Coordinate(dims=("cosine_bin",), values=np.arange(sizes["cosine_bin"]), long_name="cosine bin"),
            "cosine_bin_left": Coordinate(dims=("cosine_bin",), values=cosines[:-1], long_name="left edge of the cosine bin"),
            "cosine_bin_right": Coordinate(dims=("cosine_bin",), values=cosines[1:], long_name="right edge of the cosine bin"),
            **_ranges("position_block", blocks, "position", "1"),
        }
        variables = dict(CAPTURE)
        if self.named:
            variables |= PRINCIPAL
            coordinates |= {
                "named_head": Coordinate(
                    dims=("named_head",), values=np.array([f"L{a}H{b}" for a, b in self.named]), long_name="named head"
                ),
                "component": Coordinate(dims=("component",), values=np.arange(3), long_name="principal component"),
            }
        attributes = {"dimension": shape.dimension, "convention": shape.convention.value, "positions": shape.positions}
        return GroupPlan(variables=variables, coordinates=coordinates, sizes=sizes, attributes=attributes)

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        """Measure one layer of one document."""
        shape = view.shape
        measured = summaries.measure_layer(
            view.alpha, view.values, shape.n, sink=view.sink, convention=shape.convention, positions=shape.positions
        )
        return measured | ({"principal_components": self._components(view)} if self.named else {})

    def _components(self, view: LayerView) -> np.ndarray:
        """Principal components of the named heads of this layer; NaN for those of other layers."""
        shape = view.shape
        components = np.full((len(self.named), shape.positions, 3), np.nan, dtype=np.float32)
        for index, (layer, head) in enumerate(self.named):
            if layer == view.layer:
                values = view.values[head // (shape.heads // shape.kv_heads)]
                components[index, view.first :] = summaries.principal_components(view.alpha[head], values)
        return components


@dataclass(frozen=True, slots=True)
class Baselines:
    """Everything of /null: what separability a random selection, and random directions, would have at the same weights and norms."""

    group: ClassVar[str] = "null"

    def plan(self, shape: RunShape) -> GroupPlan:
        """Lay out /null."""
        coordinates = shape.coordinates("layer", "head", "n") | {
            "null": Coordinate(dims=("null",), values=np.array(NULLS), long_name="null baseline")
        }
        sizes = shape.sizes() | {"null": len(NULLS)}
        return GroupPlan(variables=NULL, coordinates=coordinates, sizes=sizes, attributes={"convention": shape.convention.value})

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        """Draw both baselines for one layer of one document; the seed depends on run, window and layer only."""
        return nulls.measure_layer(view.alpha, view.values, view.shape.n, seed=view.seed, convention=view.shape.convention)


def _ranges(name: str, bins: np.ndarray, what: str, units: str) -> dict[str, Coordinate]:
    return {
        name: Coordinate(dims=(name,), values=np.arange(len(bins)), long_name=f"{what} bin"),
        f"{name}_start": Coordinate(dims=(name,), values=bins[:, 0], long_name=f"first {what} of the bin", units=units),
        f"{name}_stop": Coordinate(dims=(name,), values=bins[:, 1], long_name=f"last {what} of the bin", units=units),
    }


def refuse_unknown_heads(named: Sequence[tuple[int, int]], *, layers: int, heads: int) -> None:
    """Refuse names (layer, head) of heads that a model of so many layers and heads has not, and more names than are kept.

    Raises:
        InputError: for either.
    """
    if len(named) > MOST_NAMED_HEADS:
        raise InputError(f"{len(named)} heads were named for principal components, at most {MOST_NAMED_HEADS} are kept. Name fewer.")
    for layer, head in named:
        if not (0 <= layer < layers and 0 <= head < heads):
            raise InputError(f"L{layer}H{head}: no such head; layers run 0 to {layers - 1}, heads 0 to {heads - 1}. Name another head.")
