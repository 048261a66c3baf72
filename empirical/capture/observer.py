"""What an observer sees and gives: the shape of the run, one layer of one document, the arrays it fills; and how far the run is.

Imports the plan of a stored group, and torch for its tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
import xarray as xr

from empirical.measure.selection import Convention
from empirical.schema import coordinates
from empirical.store.layout import GroupPlan


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
    visible: tuple[int, ...] = ()
    """Visible tokens T of each layer."""

    def coordinates(self, *names: str) -> dict[str, xr.Variable]:
        """The axes that every group shares, those of them that `names` asks for, with the labels that hang on them."""
        tokens, heads = np.asarray(self.visible, dtype=np.int64), np.arange(self.heads)
        labels = {
            "layer": {"layer": np.arange(self.layers), "tokens": tokens, "sink_visible": tokens == self.positions},
            "head": {"head": heads, "kv_head_of_head": heads // (self.heads // self.kv_heads)},
            "kv_head": {"kv_head": np.arange(self.kv_heads)},
            "position": {"position": np.arange(self.positions)},
            "n": {"n": np.asarray(self.n, dtype=np.int64)},
        }
        return coordinates(**{name: values for axis in names for name, values in labels[axis].items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerView:
    """One layer of one document: its visible tokens, nothing else."""

    layer: int
    document: int
    seed: tuple[int, ...]
    alpha: torch.Tensor
    """(head, token) float32, attention row of the last query."""
    values: torch.Tensor
    """(kv_head, token, dimension) float32."""
    first: int
    """Position of the first visible token; 0 when the sink is visible."""
    shape: RunShape

    @property
    def sink(self) -> bool:
        """Whether the first token is the sink."""
        return self.first == 0


class Observer(Protocol):
    """A measurement of one layer: the group it fills, how that is laid out, and the function itself."""

    @property
    def group(self) -> str:
        """Name of the group."""

    def plan(self, shape: RunShape) -> GroupPlan:
        """Variables, coordinates and sizes of the group."""

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        """Named arrays, each with its variable's dimensions after `layer`; `position` may be shorter (the visible suffix), `lag` too (the first)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a capture is. `tokens` counts what was measured in this process, a layer as its share; layers count within the batch under way."""

    documents: int
    total: int
    layer: int
    layers: int
    tokens: float
    tokens_left: float
    seconds: float


@dataclass(slots=True)
class Buffers:
    """The arrays of one document while it is measured, filled layer by layer."""

    plans: Mapping[str, GroupPlan]
    arrays: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for group, plan in self.plans.items():
            self.arrays[group] = {
                name: np.full(plan.shape(variable), variable.fill, dtype=variable.dtype) for name, variable in plan.variables.items()
            }

    def put(self, group: str, layer: int, measured: Mapping[str, np.ndarray]) -> None:
        """Place one layer's arrays: `position` right-aligned (the visible suffix), every other dimension left-aligned."""
        for name, value in measured.items():
            variable = self.plans[group].variables[name]
            if not variable.layered:
                np.copyto(self.arrays[group][name], value, where=~np.isnan(value))
                continue
            target = self.arrays[group][name][layer]
            where = tuple(
                slice(full - part, full) if dim == "position" else slice(0, part)
                for dim, full, part in zip(variable.dims[1:], target.shape, value.shape, strict=True)
            )
            if variable.invisible is not None:
                target[...] = variable.invisible
            target[where] = value
