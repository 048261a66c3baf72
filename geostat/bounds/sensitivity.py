"""Sensitivity of the sharp bounds to one parameter, at a representative head of every layer.

The page's explorer shows these bounds. They use the first document's weights at its last query,
fitted norms and the fitted decay with offset; one of β, c, ρ₀, λ and d is then changed by a step.
Everything else, including the weights, is fixed: the result does not predict the effect of
training. Source: arXiv 2602.01893, Assumptions 1-2, Theorems 1-2. Imports theory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np
import xarray as xr

from empirical.schema import Quantity
from geostat.bounds.by_document import evaluate, inner_grid
from geostat.bounds.head import Groups, document_weights, fitted_norms, fitted_parameters
from geostat.datasets.overlap import Progress, overlapped, tracked
from geostat.datasets.separability import BOUNDS, STATISTICS, bound_attributes
from geostat.datasets.tokens import kv_head_of_head, layer_tokens, select_heads
from geostat.datasets.variable import join_rows, sizes_along, variables, words_along
from geostat.statistics.losses import mean_over_documents
from theory.head.gram import offset_exponential
from theory.head.projection import project

NEEDED: Final = ("capture", "norms", "similarity")
GRAM: Final = "offset"
POINTS: Final = 12
"""Approximate number of sizes N between 1 and T."""
MEDIAN_SIZE: Final = 8
"""Size at which the head with median Recall represents its layer (nearest measured N)."""
STEPS: Final = (-2, -1, 0, 1, 2)
COSINE_STEP: Final = 0.1
"""Change of a cosine per step; other parameters are doubled or halved."""
LARGEST_COSINE: Final = 0.95
"""Largest cosine at long lags, and largest |ρ₀|."""

_STEP: Final = ("layer", "parameter", "step")
VARIABLES: Final = (
    *(
        Quantity(
            *(name, f"sharp {bound_attributes(name)['long_name']}, one parameter changed"),
            equation="Theorems 1-2",
            dims=(*_STEP, "n_envelope"),
        )
        for name in BOUNDS
    ),
    *(
        Quantity(
            *(name, f"measured {name} of the representative head in the first document"),
            dims=("layer", "n_envelope"),
        )
        for name in STATISTICS
    ),
    Quantity(
        *("value", "value of the parameter; beta in 1/token, c, rho0 and lam unitless, d a count"),
        dims=_STEP,
    ),
    Quantity(
        *("moved", "distance by which rho0 was projected to be feasible"),
        equation="erratum 9",
        dims=_STEP,
    ),
    Quantity(
        "of_head",
        "head with the median Recall of the layer; -1: none could be fitted",
        dims=("layer",),
    ),
)


def _cosine(value: float, step: int, least: float) -> float:
    """Return a cosine changed by steps, within its limits; step 0 is the fit itself."""
    return float(np.clip(value + COSINE_STEP * step, least, LARGEST_COSINE)) if step else value


CHANGED: Final[dict[str, Callable[[float, int], float]]] = {
    "beta": lambda value, step: value * 2.0**step,
    "c": partial(_cosine, least=0),
    "rho0": partial(_cosine, least=-LARGEST_COSINE),
    "lam": lambda value, step: value * 2.0**step,
    "d": lambda value, step: float(max(round(value * 2.0**step), 2)),
}
"""Value of each parameter after a number of steps; the scale C of the norms is not changed."""
OF_SINK: Final = ("rho0", "lam")
"""Parameters of the sink, undefined where it is not visible."""


def sensitivity(tree: xr.DataTree, progress: Progress | None = None) -> xr.Dataset:
    """Evaluate the sharp bounds of one head per layer with one parameter changed at a time.

    Args:
        tree: a run with the groups NEEDED.

    Returns:
        /sensitivity, the variables VARIABLES: bounds (layer, parameter, step, n_envelope),
        unitless; step 0 is the fit. NaN where a layer has no head with a complete fit, a parameter
        belongs to an invisible sink, or the cosines are not feasible for any ρ₀.
    """
    groups = {name: tree[name].to_dataset() for name in NEEDED}
    capture = groups["capture"]
    grid = inner_grid(capture, POINTS)
    layers = list(range(capture.sizes["layer"]))
    names = (*STATISTICS, "attention_weight", "tokens", "sink_visible", "kv_head")
    reduced = groups | {"capture": select_heads(capture, names)}
    changed = overlapped(partial(_of_layer, reduced, grid), layers)
    results = changed if grid.size else (_missing(grid) for _ in layers)
    rows = [row for _, row in zip(tracked(layers, progress), results, strict=True)]
    coords = {
        "layer": capture["layer"].variable,
        "parameter": words_along("parameter", CHANGED, "the parameter that is changed"),
        "step": xr.Variable(("step",), list(STEPS), {"long_name": "steps from the fit"}),
        "n_envelope": sizes_along("n_envelope", grid),
    }
    attrs = {
        "long_name": "sharp bounds with one parameter changed",
        "gram": GRAM,
        "median_at": _size(capture),
    }
    return xr.Dataset(variables(VARIABLES, join_rows(rows)), coords=coords, attrs=attrs)


def _missing(grid: np.ndarray) -> dict[str, Any]:
    """Return NaN (or −1) for all numbers of one layer, by the names of VARIABLES."""
    shape = (len(CHANGED), len(STEPS))
    return {
        **{name: np.full((*shape, grid.size), np.nan) for name in BOUNDS},
        **{name: np.full(grid.size, np.nan) for name in STATISTICS},
        **{name: np.full(shape, np.nan) for name in ("value", "moved")},
        "of_head": np.array(-1),
    }


def _of_layer(groups: Groups, grid: np.ndarray, layer: int) -> dict[str, Any]:
    """Return the numbers of one layer, with every parameter changed, by the names of VARIABLES."""
    capture, numbers, median_head = groups["capture"], _missing(grid), _median_head(groups, layer)
    if median_head is None:
        return numbers
    head, fitted = median_head
    visible = layer_tokens(capture, layer)
    numbers["of_head"] = np.array(int(capture["head"].values[head]))
    for name in STATISTICS:
        numbers[name] = capture[name].isel(document=0, layer=layer, head=head).sel(n=grid).values
    weights = document_weights(capture, layer, np.array([head]))[0]
    for (row, name), (column, step) in product(enumerate(CHANGED), enumerate(STEPS)):
        if name in OF_SINK and not visible.sink:
            continue
        if row and step == 0:  # step 0 is the fit, evaluated with the first parameter
            numbers["value"][row, column] = fitted[name]
            for copied in (*BOUNDS, "moved"):
                numbers[copied][row, column] = numbers[copied][0, column]
            continue
        changed = fitted | {name: CHANGED[name](fitted[name], step)}
        numbers["value"][row, column] = changed[name]
        gram = offset_exponential(changed["beta"], changed["c"], changed["rho0"], visible.tokens)
        if not np.isfinite(gram.edge(visible.content)):
            continue
        projection = project(gram, visible.tokens, sink=0 if visible.sink else None)
        numbers["moved"][row, column] = projection.distance
        norms = fitted_norms(changed, visible.tokens)
        [bounds] = evaluate(
            *(weights, norms, projection.gram, int(changed["d"]), grid),
            editions=["sharp"],
            sink=visible.sink,
            convention=str(capture.attrs["convention"]),
        )
        for bound in BOUNDS:
            numbers[bound][row, column] = bounds[bound][0]
    return numbers


def _median_head(groups: Groups, layer: int) -> tuple[int, dict[str, float]] | None:
    """Return the head (index) with median Recall among heads with fits, and its parameters."""
    if GRAM not in groups["similarity"]["gram"].values:
        return None
    capture = groups["capture"]
    by_document = capture["recall"].sel(n=_size(capture)).isel(layer=layer)
    recall = mean_over_documents(by_document.transpose("document", "head").values).astype(
        by_document.dtype
    )
    known: dict[int, dict[str, float]] = {}
    for head, kv_head in enumerate(kv_head_of_head(capture)):
        fitted = fitted_parameters(groups, GRAM, layer, int(kv_head))
        weights = document_weights(capture, layer, np.array([head]))[0]
        finite = np.isfinite(weights).all() and np.isfinite(recall[head])
        if fitted is not None and fitted["beta"] > 0 and finite:
            known[head] = fitted | {"d": float(capture.attrs["dimension"])}
    if not known:
        return None
    median = float(np.median(recall[list(known)]))
    head = min(known, key=lambda index: abs(recall[index] - median))
    return head, known[head]


def _size(capture: xr.Dataset) -> int:
    """Return the measured N at which the representative head is chosen."""
    n = capture["n"].values
    return int(n[np.abs(n - MEDIAN_SIZE).argmin()])
