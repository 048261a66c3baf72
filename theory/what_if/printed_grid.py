"""The lower bounds of the printed edition over a whole grid in one broadcast.

Source: arXiv 2602.01893, eq. (8), (12), (14) and the lower sides of (16), (17). Imports numpy.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from theory.arrays import BoolArray, FloatArray
from theory.head.ranked import Selections, selections
from theory.what_if.grid import Grid, Similarity, batches, heads_of
from theory.what_if.parameters import BOUNDS, PARAMETERS, PROFILE, Decay


def printed_lower(grid: Grid, similarity: Similarity) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Evaluate eq. (12), (14) and the lower sides of (16), (17) in one broadcast over all axes."""
    selected, sizes_dims = _all_selections(grid)
    dims = tuple(grid.axes)

    def spread(array: np.ndarray) -> np.ndarray:
        return array.reshape([len(grid.axes[name]) if name in sizes_dims else 1 for name in dims])

    s = {name: spread(getattr(selected, name)) for name in Selections.__slots__}
    at = {name: grid.along(name, dims) for name in PARAMETERS} | {"rho0": similarity.spread("rho0", grid)}
    nearest = at["c"] + (1 - at["c"]) * _at_one(grid.question.decay, at["beta"], at["stretch"])
    # some content token inside and some outside are neighbours, so the largest cosine across is that at lag 1, or the sink's
    across = np.where(s["content_out"], nearest, -np.inf)
    across = np.where(s["sink_in"], across, np.maximum(across, at["rho0"]))
    rho_out = np.where(s["content_in"] & np.isfinite(across), across, 0.0)
    # eq. (8), every point at once
    margin = s["a_min_in"] ** 2 - 2 * s["a_max_out"] * s["s_in"] * rho_out
    margin_sink = s["a_sink"] ** 2 - (s["s_in"] * rho_out) ** 2
    scale = s["a_max_in"] + s["a_max_out"] + s["s_in"]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio, ratio_sink = (margin / scale) ** 2, (margin_sink / scale) ** 2
    allowed = similarity.spread("feasible", grid)
    whole = at["N"] == at["L"] + 1
    out = {name: np.where(whole, np.nan, array) for name, array in (("margin", margin), ("margin_sink", margin_sink))}
    out |= _lower_bounds(grid, at, ratio, ratio_sink, np.isnan(margin), scale)
    for name in grid.question.bounds:  # 1 where N = T, NaN where no vectors have the Gram
        out[name] = np.where(whole, 1.0, out[name]) if whole.any() else out[name]
        out[name] = out[name] if allowed.all() else np.where(allowed, out[name], np.nan)
    wanted = ("margin", "margin_sink", *grid.question.bounds)
    return {name: _own(array, grid, full=name in BOUNDS) for name, array in out.items() if name in wanted}


def _lower_bounds(
    grid: Grid, at: Mapping[str, FloatArray], ratio: FloatArray, ratio_sink: FloatArray, undefined: BoolArray, scale: FloatArray
) -> dict[str, FloatArray]:
    """Return the printed lower bounds from (Δ/B)² and (Δ₀/B)²; a margin that print leaves undefined loses its term."""
    strength = -at["kappa"] * at["d"]
    outside = at["L"] - at["N"]
    if undefined.any():
        ratio = np.where(undefined, np.inf, ratio)
    loss, sink = np.asarray(np.exp(strength * ratio)), np.asarray(np.exp(strength * ratio_sink))
    loss *= outside
    sink *= outside / at["N"]
    loss = loss + sink if loss.shape != np.broadcast_shapes(loss.shape, sink.shape) else np.add(loss, sink, out=loss)
    if not (scale > 0).all():
        loss = np.where(scale > 0, loss, np.nan)
    out: dict[str, FloatArray] = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        if {"precision_lower", "f_outer_lower"} & set(grid.question.bounds):
            out["precision_lower"] = 1 / (1 + loss)
        if "f_outer_lower" in grid.question.bounds:
            out["f_outer_lower"] = 2 * out["precision_lower"] / (1 + out["precision_lower"])
        if {"recall_lower", "f_inner_lower"} & set(grid.question.bounds):
            out["recall_lower"] = np.subtract(1, loss, out=loss)
        if "f_inner_lower" in grid.question.bounds:
            out["f_inner_lower"] = 2 * out["recall_lower"] / (1 + out["recall_lower"])
    return out


def _own(array: np.ndarray, grid: Grid, *, full: bool) -> tuple[tuple[str, ...], np.ndarray]:
    """Return an array with the axes it depends on, or with all of them."""
    if full:
        shape = tuple(len(values) for values in grid.axes.values())
        return tuple(grid.axes), array if array.shape == shape else np.broadcast_to(array, shape).copy()
    dims = tuple(name for name, size in zip(grid.axes, array.shape, strict=True) if size > 1 or len(grid.axes[name]) == 1)
    return dims, array.reshape([len(grid.axes[name]) for name in dims])


def _at_one(decay: Decay, beta: FloatArray, stretch: FloatArray) -> FloatArray:
    """Return the similarity at lag 1, before the offset."""
    if decay == "power":
        return np.asarray(2.0**-beta)
    return np.exp(-(beta**stretch)) if decay == "stretched" else np.exp(-beta)


def _all_selections(grid: Grid) -> tuple[Selections, tuple[str, ...]]:
    """Return the selections of every profile and N, arrays over the axes of profiles and N in the order of the study."""
    dims = grid.dims(PROFILE)
    sizes = grid.of_parameter("N").astype(np.int64)
    shape = [len(grid.axes[name]) for name in dims]
    arrays: dict[str, np.ndarray] = {}
    for batch in batches(grid.profiles()):
        alpha, norms = heads_of([values for _, values in batch])
        result = selections(alpha, norms, sizes, sink_in_b=grid.question.sink_in_b)
        where = tuple(np.array([index for index, _ in batch]).T) if dims else (slice(None),)
        for name in Selections.__slots__:
            part = np.broadcast_to(getattr(result, name), (len(batch), len(sizes)))
            room = arrays.setdefault(name, np.empty([*(shape or [1]), len(sizes)], part.dtype))
            room[where] = part
    names = (*dims, "N") if "N" in grid.axes else dims
    order = [names.index(name) for name in grid.axes if name in names]
    settled = {name: array.reshape([len(grid.axes[x]) for x in names]).transpose(order) for name, array in arrays.items()}
    return Selections(**settled), tuple(name for name in grid.axes if name in names)
