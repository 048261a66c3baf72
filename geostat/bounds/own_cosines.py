"""Observer that computes bounds at the Gram of measured cosines during capture. Imports torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import torch
import xarray as xr

from empirical.capture.layer_view import LayerView, RunShape
from empirical.schema import Quantity
from empirical.store.layout import GroupPlan
from geostat.bounds.by_document import EDITIONS, ENVELOPE_POINTS, envelope_grid, evaluate
from geostat.datasets.separability import ALL_BOUNDS, bound_attributes
from theory.editions.sharp.sharp_law import WorkArrays

_GRAMS: Final = WorkArrays()


@dataclass(frozen=True, slots=True)
class MeasuredEnvelope:
    """Observer: bounds from the measured Gram of each head, which is too large to store."""

    points: int | None = ENVELOPE_POINTS
    group: ClassVar[str] = "measured_envelope"
    in_background: ClassVar[bool] = True

    def plan(self, shape: RunShape) -> GroupPlan:
        """Return the layout of /measured_envelope (layer, edition, head, n_envelope)."""
        grid = envelope_grid(shape.n, self.points)
        coordinates = shape.coordinates("layer", "head") | {
            "edition": xr.Variable(
                "edition", np.array(EDITIONS), {"long_name": "edition of the theory", "units": "1"}
            ),
            "n_envelope": xr.Variable(
                "n_envelope", grid, {"long_name": "selected tokens N", "units": "1"}
            ),
        }
        dims = ("layer", "edition", "head", "n_envelope")
        variables = {
            name: Quantity(name, dims=dims, **bound_attributes(name)) for name in ALL_BOUNDS
        }
        return GroupPlan(variables=variables, coordinates=coordinates)

    def __call__(self, view: LayerView) -> dict[str, np.ndarray]:
        """Return the bounds of one layer of one document at its Gram."""
        grid = envelope_grid(view.shape.n, self.points)
        values = view.values.double().numpy()
        alpha = view.alpha.double().numpy()
        group = view.shape.heads // view.shape.kv_heads
        out = {
            name: np.full((len(EDITIONS), view.shape.heads, len(grid)), np.nan, dtype=np.float32)
            for name in ALL_BOUNDS
        }
        for kv_head in range(view.shape.kv_heads):
            heads = slice(kv_head * group, (kv_head + 1) * group)
            norms = np.linalg.norm(values[kv_head], axis=1)
            directions = values[kv_head] / np.where(norms > 0, norms, 1.0)[:, None]
            gram = _GRAMS.take(len(norms))
            unit = torch.from_numpy(directions)
            torch.matmul(unit, unit.T, out=torch.from_numpy(gram))  # a third of numpy's time
            np.fill_diagonal(gram, 1.0)
            arguments = (alpha[heads], norms, gram, view.shape.dimension, grid)
            convention = view.shape.convention.value
            results = evaluate(*arguments, editions=EDITIONS, sink=view.sink, convention=convention)
            for index, bounds in enumerate(results):
                for name in ALL_BOUNDS:
                    out[name][index, heads] = bounds[name]
            _GRAMS.give_back([gram])
        return out
