"""Observers: their interface, and those of geostat for the geometry of every head, null baselines,
means over several queries of a document, functional sinks, and weights and values by rank.

An observer receives the sizes of the run and one layer of one document, and returns named arrays.
`Progress` reports how far a run is. Source: arXiv 2602.01893, (1)-(8), (18)-(20), Figures 2, 3, 5,
7 and 9. Imports the measurements and the plan of a stored group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np

from empirical.capture.layer_view import Later, LayerView, RunShape, Seen, Together
from empirical.errors import InputError
from empirical.measure import nulls, queries, ranks
from empirical.measure.device import layer as device_layer
from empirical.measure.device import nulls as device_nulls
from empirical.measure.device import queries as device_queries
from empirical.measure.device import ranks as device_ranks
from empirical.measure.layer import (
    COMPONENTS,
    cosine_bins,
    lag_bins,
    measure_layer,
    position_blocks,
    principal_components,
)
from empirical.measure.sinks import SINKS, find_sinks
from empirical.schema import CAPTURE, NULL, NULLS, PRINCIPAL, QUERIES, RANKS, coordinates
from empirical.store.layout import GroupPlan

MOST_NAMED_HEADS = 12
"""Most heads with principal components, which are a picture rather than a statistic: one page."""


class Observer(Protocol):
    """A measurement of one layer: the group that it fills, the group's layout, and the function.

    An observer with a method `on_device` measures layers on their device: it maps several layers
    (`Together`) to the arrays of each. Tensors and `Later` stay on the device until the document is
    complete; the method must not wait for the device. Other observers get tensors on the CPU. On a
    machine with several cores, an observer with `in_background` set runs in a background thread.
    """

    @property
    def group(self) -> str:
        """Name of the group."""

    def plan(self, shape: RunShape) -> GroupPlan:
        """Return variables, coordinates and sizes of the group."""

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        """Return named arrays, each with its variable's dimensions after `layer`; `position` may be
        shorter (the visible suffix), and so may `lag` (the first lags).
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a capture. `tokens` counts those measured in this process, with layers as
    fractions; `layer` counts within the current batch. `seconds` exclude the compilation of
    kernels.
    """

    documents: int
    total: int
    layer: int
    layers: int
    tokens: float
    tokens_left: float
    seconds: float


class Buffers:
    """Arrays of one document, filled layer by layer during its measurement."""

    def __init__(self, plans: Mapping[str, GroupPlan]) -> None:
        self.plans = plans
        self.arrays = {
            group: {
                name: np.full(plan.shape(row), row.fill, row.dtype)
                for name, row in plan.variables.items()
            }
            for group, plan in plans.items()
        }

    def put(self, group: str, layer: int, measured: Mapping[str, np.ndarray]) -> None:
        """Store one layer's arrays, left-aligned except `position` (the visible suffix)."""
        for name, value in measured.items():
            variable = self.plans[group].variables[name]
            if variable.dims[:1] != ("layer",):
                np.copyto(self.arrays[group][name], value, where=~np.isnan(value))
                continue
            target = self.arrays[group][name][layer, ...]  # a view, even of a single number
            where = tuple(
                slice(full - part, full) if dim == "position" else slice(0, part)
                for dim, full, part in zip(
                    variable.dims[1:], target.shape, value.shape, strict=True
                )
            )
            if variable.invisible is not None:
                target[...] = variable.invisible
            target[where] = value


@dataclass(frozen=True, slots=True)
class Geometry:
    """Variables of /capture; principal components of the `named` heads (layer, head)."""

    named: Sequence[tuple[int, int]] = ()
    group: ClassVar[str] = "capture"

    def plan(self, shape: RunShape) -> GroupPlan:
        """Lay out /capture."""
        refuse_unknown_heads(self.named, layers=shape.layers, heads=shape.heads)
        bins, blocks = lag_bins(shape.positions), position_blocks(shape.positions)
        edges = cosine_bins()
        axes = shape.coordinates("layer", "head", "kv_head", "position", "n") | coordinates(
            lag=np.arange(1, max(shape.positions - 1, 1)),
            lag_bin=np.arange(len(bins)),
            lag_bin_start=bins[:, 0],
            lag_bin_stop=bins[:, 1],
            cosine_bin=np.arange(len(edges) - 1),
            cosine_bin_left=edges[:-1],
            cosine_bin_right=edges[1:],
            position_block=np.arange(len(blocks)),
            position_block_start=blocks[:, 0],
            position_block_stop=blocks[:, 1],
        )
        if self.named:
            axes |= coordinates(
                named_head=np.array([f"L{a}H{b}" for a, b in self.named]),
                component=np.arange(COMPONENTS),
            )
        attributes = {
            "dimension": shape.dimension,
            "convention": shape.convention.value,
            "positions": shape.positions,
        }
        variables = {
            name: row for name, row in CAPTURE.items() if shape.token_ids or name != "token_id"
        }
        return GroupPlan(
            variables=variables | (PRINCIPAL if self.named else {}),
            coordinates=axes,
            attributes=attributes,
        )

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        """Measure one layer of one document."""
        measured: Mapping[str, np.ndarray] = self._measured(view, measure_layer)
        if not self.named:
            return measured
        components = self._components(view)
        return {**measured, "principal_components": components.finish(*components.tensors)}

    def on_device(self, layers: Together) -> list[dict[str, Any]]:
        """Measure layers on the device; principal components on the CPU, after the transfer."""
        measured = layers.apart(self._measured(layers, device_layer.measure_layer))
        if self.named:
            for arrays, view in zip(measured, layers.views, strict=True):
                arrays["principal_components"] = self._components(view)
        return measured

    @staticmethod
    def _measured(view: Seen, measure: Callable[..., Any]) -> Any:
        return measure(
            view.alpha,
            view.values,
            view.shape.n,
            sink=view.sink,
            convention=view.shape.convention,
            positions=view.shape.positions,
        )

    def _components(self, view: LayerView) -> Later:
        """Return principal components of this layer's named heads; NaN for other layers'."""
        shape = view.shape
        matches = [
            (index, head) for index, (layer, head) in enumerate(self.named) if layer == view.layer
        ]
        group = shape.heads // shape.kv_heads
        rows = [
            tensor
            for _, head in matches
            for tensor in (view.alpha[head], view.values[head // group])
        ]
        finish = partial(self._laid, [index for index, _ in matches], shape.positions, view.first)
        return Later(tuple(rows), finish)

    def _laid(self, places: Sequence[int], positions: int, first: int, *rows: Any) -> np.ndarray:
        """Assemble the components of some heads, each given by its weights and values."""
        components = np.full((len(self.named), positions, COMPONENTS), np.nan, dtype=np.float32)
        for place, alpha, values in zip(places, rows[::2], rows[1::2], strict=True):
            components[place, first:] = principal_components(alpha, values)
        return components


@dataclass(frozen=True, slots=True)
class Baselines:
    """Variables of /null: separability of the null baselines of `measure.nulls`, means over the
    analysed queries of a document.
    """

    group: ClassVar[str] = "null"

    def plan(self, shape: RunShape) -> GroupPlan:
        """Lay out /null."""
        axes = shape.coordinates("layer", "head", "n") | coordinates(null=np.array(NULLS))
        return GroupPlan(
            variables=NULL, coordinates=axes, attributes={"convention": shape.convention.value}
        )

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        """Draw all baselines for one layer; the seed depends only on run, window and layer."""
        drawn: Mapping[str, np.ndarray] = self._drawn(view, nulls.measure_layer, seed=view.seed)
        return drawn

    def on_device(self, layers: Together) -> list[dict[str, Any]]:
        """Draw all baselines on the device, with each layer's seed."""
        drawn = self._drawn(layers, device_nulls.measure_layer, seeds=layers.seeds)
        return layers.apart(drawn)

    @staticmethod
    def _drawn(view: Seen, measure: Callable[..., Any], **seed: Any) -> Any:
        shape = view.shape
        return measure(view.rows, view.every, shape.n, convention=shape.convention, **seed)


@dataclass(frozen=True, slots=True)
class QueryMeans:
    """Variables of /queries: means over the analysed queries of a document, if several."""

    group: ClassVar[str] = "queries"

    def plan(self, shape: RunShape) -> GroupPlan:
        """Lay out /queries."""
        axes = shape.coordinates("layer", "head", "position", "n", "query")
        return GroupPlan(
            variables=QUERIES, coordinates=axes, attributes={"convention": shape.convention.value}
        )

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        """Average one layer of one document."""
        return self._averaged(view, queries.measure_layer)

    def on_device(self, layers: Together) -> list[dict[str, Any]]:
        """Average layers on the device."""
        return layers.apart(self._averaged(layers, device_queries.measure_layer))

    @staticmethod
    def _averaged(seen: Seen, measure: Callable[..., dict[str, Any]]) -> dict[str, Any]:
        positions = np.array([row.position for row in seen.rows], np.int32)
        shape = seen.shape
        measured = measure(seen.rows, seen.every, shape.n, convention=shape.convention)
        return {"query_position": positions} | measured


@dataclass(frozen=True, slots=True)
class Sinks:
    """Variables of /sinks: functional sinks (short value, much attention) at any position."""

    group: ClassVar[str] = "sinks"

    def plan(self, shape: RunShape) -> GroupPlan:
        """Lay out /sinks."""
        return GroupPlan(variables=SINKS, coordinates=shape.coordinates("layer", "head"))

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        """Find the functional sinks of one layer of one document."""
        return find_sinks(view.rows, view.every)


@dataclass(frozen=True, slots=True)
class Ranks:
    """Variables of /ranks: weights and values by rank of the weight, functional sinks apart."""

    group: ClassVar[str] = "ranks"

    def plan(self, shape: RunShape) -> GroupPlan:
        """Lay out /ranks."""
        octaves = np.arange(ranks.octaves(shape.positions))
        axes = shape.coordinates("layer", "head", "query") | coordinates(
            octave=octaves,
            octave_other=octaves,
            lag_octave=octaves,
            rank=ranks.ranks(shape.positions),
            sink=np.arange(ranks.MOST_SINKS),
        )
        return GroupPlan(variables=RANKS, coordinates=axes)

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        """Describe one layer of one document."""
        return ranks.measure_layer(view.rows, view.every, view.token_ids)

    def on_device(self, layers: Together) -> list[dict[str, Any]]:
        """Describe layers on the device."""
        measured = device_ranks.measure_layer(layers.rows, layers.every, layers.token_ids)
        return layers.apart(measured)


def refuse_unknown_heads(named: Sequence[tuple[int, int]], *, layers: int, heads: int) -> None:
    """Refuse by an InputError heads (layer, head) that the model lacks, or too many names."""
    if len(named) > MOST_NAMED_HEADS:
        raise InputError(
            f"{len(named)} heads were named for principal components, expected at most"
            f" {MOST_NAMED_HEADS}. Name fewer."
        )
    for layer, head in named:
        if not (0 <= layer < layers and 0 <= head < heads):
            raise InputError(
                f"L{layer}H{head}: no such head; layers run 0 to {layers - 1}, heads 0 to"
                f" {heads - 1}. Name another head."
            )
