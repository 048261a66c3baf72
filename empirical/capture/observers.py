"""Observers: what one sees and gives, and those that come with geostat, the geometry of every head,
its null baselines, means over several queries of a document, and sinks by what they do.

An observer sees the shape of the run and one layer of one document, and gives the arrays that it
fills; `Progress` tells how far the run is. Source: arXiv 2602.01893, (1)-(8), (18)-(20), Figures 2,
3, 5, 7 and 9. Imports the measurements and the plan of a stored group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np

from empirical.capture import on_device
from empirical.capture.layer_view import LayerView, RunShape
from empirical.capture.together import Together
from empirical.capture.waiting import Later
from empirical.errors import InputError
from empirical.measure import nulls, queries
from empirical.measure.layer import (
    COMPONENTS,
    cosine_bins,
    lag_bins,
    measure_layer,
    position_blocks,
    principal_components,
)
from empirical.measure.query_records import QUERIES
from empirical.measure.sinks import SINKS, find_sinks
from empirical.schema import CAPTURE, NULL, NULLS, PRINCIPAL, coordinates
from empirical.store.layout import GroupPlan

MOST_NAMED_HEADS = 12
"""Principal components are a picture, not a statistic: at most a page of them."""


class Observer(Protocol):
    """A measurement of one layer: the group it fills, how that is laid out, and the function
    itself.

    One that can measure layers where they live has a method `on_device` besides: from several of
    them (`Together`) to the arrays of each, of which tensors and `Later` wait there until the
    document is whole. It must not wait for the device. All others get tensors on the CPU. One that
    has `beside` set is called in a thread beside the model's own there, too, if that has several.
    """

    @property
    def group(self) -> str:
        """Name of the group."""

    def plan(self, shape: RunShape) -> GroupPlan:
        """Variables, coordinates and sizes of the group."""

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        """Named arrays, each with its variable's dimensions after `layer`; `position` may be
        shorter (the visible suffix), `lag` too (the first).
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a capture is. `tokens` counts what was measured in this process, a layer as its
    share; layers count within the batch under way. `seconds` leave out what kernels took to
    compile.
    """

    documents: int
    total: int
    layer: int
    layers: int
    tokens: float
    tokens_left: float
    seconds: float


class Buffers:
    """The arrays of one document while it is measured, filled layer by layer."""

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
        """Place one layer's arrays: `position` right-aligned (the visible suffix), every other
        dimension left-aligned.
        """
        for name, value in measured.items():
            variable = self.plans[group].variables[name]
            if variable.dims[:1] != ("layer",):
                np.copyto(self.arrays[group][name], value, where=~np.isnan(value))
                continue
            target = self.arrays[group][name][layer, ...]  # a view, of one number too
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
    """Everything of /capture: separability, curves over N, norms, cosines by lag; principal
    components of `named` heads (layer, head).
    """

    named: Sequence[tuple[int, int]] = ()
    group: ClassVar[str] = "capture"

    def plan(self, shape: RunShape) -> GroupPlan:
        """Lay out /capture."""
        refuse_unknown_heads(self.named, layers=shape.layers, heads=shape.heads)
        bins, edges, blocks = (
            lag_bins(shape.positions),
            cosine_bins(),
            position_blocks(shape.positions),
        )
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
        known = {
            name: row for name, row in CAPTURE.items() if shape.token_ids or name != "token_id"
        }
        return GroupPlan(
            variables=known | (PRINCIPAL if self.named else {}),
            coordinates=axes,
            attributes=attributes,
        )

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        """Measure one layer of one document."""
        shape = view.shape
        measured = measure_layer(
            view.alpha,
            view.values,
            shape.n,
            sink=view.sink,
            convention=shape.convention,
            positions=shape.positions,
        )
        if not self.named:
            return measured
        components = self._components(view)
        return measured | {"principal_components": components.finish(*components.tensors)}

    def on_device(self, layers: Together) -> list[dict[str, Any]]:
        """Measure layers on the device; principal components on the CPU, when all is there."""
        measured = on_device.geometry(layers)
        if self.named:
            for one, view in zip(measured, layers.views, strict=True):
                one["principal_components"] = self._components(view)
        return measured

    def _components(self, view: LayerView) -> Later:
        """Principal components of the named heads of this layer; NaN for those of other layers."""
        shape = view.shape
        here = [(at, head) for at, (layer, head) in enumerate(self.named) if layer == view.layer]
        group = shape.heads // shape.kv_heads
        rows = [one for _, head in here for one in (view.alpha[head], view.values[head // group])]
        finish = partial(self._laid, [at for at, _ in here], shape.positions, view.first)
        return Later(tuple(rows), finish)

    def _laid(self, places: Sequence[int], positions: int, first: int, *rows: Any) -> np.ndarray:
        """Lay out the components of some heads, each given by its weights and its values."""
        components = np.full((len(self.named), positions, COMPONENTS), np.nan, dtype=np.float32)
        for place, alpha, values in zip(places, rows[::2], rows[1::2], strict=True):
            components[place, first:] = principal_components(alpha, values)
        return components


@dataclass(frozen=True, slots=True)
class Baselines:
    """Everything of /null: what separability a random selection, and random directions, would
    have at the same weights and norms; means over the analysed queries of a document.
    """

    group: ClassVar[str] = "null"

    def plan(self, shape: RunShape) -> GroupPlan:
        """Lay out /null."""
        axes = shape.coordinates("layer", "head", "n") | coordinates(null=np.array(NULLS))
        return GroupPlan(
            variables=NULL, coordinates=axes, attributes={"convention": shape.convention.value}
        )

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        """Draw both baselines for one layer of one document; the seed depends on run, window and
        layer only.
        """
        n, convention = view.shape.n, view.shape.convention
        if len(view.rows) > 1:
            return queries.null_layer(
                view.rows, view.every, n, seed=view.seed, convention=convention
            )
        return nulls.measure_layer(
            view.alpha, view.values, n, seed=view.seed, convention=convention
        )

    def on_device(self, layers: Together) -> list[dict[str, Any]]:
        """Draw both baselines on the device, of each layer by its seed."""
        return on_device.baselines(layers)


@dataclass(frozen=True, slots=True)
class QueryMeans:
    """Everything of /queries: what depends on the query, averaged over the analysed queries of a
    document; for runs with more than one.
    """

    group: ClassVar[str] = "queries"

    def plan(self, shape: RunShape) -> GroupPlan:
        """Lay out /queries."""
        axes = shape.coordinates("layer", "head", "position", "n", "query")
        return GroupPlan(
            variables=QUERIES, coordinates=axes, attributes={"convention": shape.convention.value}
        )

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        """Average one layer of one document."""
        positions = {"query_position": np.array([row.position for row in view.rows], np.int32)}
        return positions | queries.measure_layer(
            view.rows, view.every, view.shape.n, convention=view.shape.convention
        )

    def on_device(self, layers: Together) -> list[dict[str, Any]]:
        """Average layers on the device."""
        return on_device.query_means(layers)


@dataclass(frozen=True, slots=True)
class Sinks:
    """Everything of /sinks: tokens that are short and much attended, wherever they stand."""

    group: ClassVar[str] = "sinks"

    def plan(self, shape: RunShape) -> GroupPlan:
        """Lay out /sinks."""
        return GroupPlan(variables=SINKS, coordinates=shape.coordinates("layer", "head"))

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        """Find those of one layer of one document."""
        return find_sinks(view.rows, view.every)


def refuse_unknown_heads(named: Sequence[tuple[int, int]], *, layers: int, heads: int) -> None:
    """Refuse by an InputError names (layer, head) of heads that a model of so many has not, and
    more names than are kept.
    """
    if len(named) > MOST_NAMED_HEADS:
        raise InputError(
            f"{len(named)} heads were named for principal components, at most {MOST_NAMED_HEADS}"
            " are kept. Name fewer."
        )
    for layer, head in named:
        if not (0 <= layer < layers and 0 <= head < heads):
            raise InputError(
                f"L{layer}H{head}: no such head; layers run 0 to {layers - 1}, heads 0 to"
                f" {heads - 1}. Name another head."
            )
