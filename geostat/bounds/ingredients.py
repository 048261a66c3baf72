"""Which assumption breaks a failing bound: sharp bounds from fitted ingredients, with some swapped for what was measured.

A bound needs three ingredients: weights (Assumption 3), norms (Assumption 1) and cosines (Assumption 2). From all three fitted, the
bound is what the paper's theory can say of a head; each swap puts the measured ingredient in place of one fit, or of all but one.
Where a measured curve returns into its bounds with a swap, that assumption had kept it out; where it leaves them once one fit is put
back, that assumption alone suffices to break the bound. Source: arXiv 2602.01893, Assumptions 1-3, Theorems 1-2. Imports theory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import xarray as xr

from geostat.bounds.evaluate import envelope_grid, evaluate, measured_curves
from geostat.bounds.head import FittedHead, ValueHead, fitted_head, value_head
from geostat.datasets.tokens import heads_of, layer_tokens
from geostat.datasets.words import described
from geostat.statistics.arrays import FloatArray

INGREDIENTS: Final = ("weights", "norms", "similarity")
SWAPS: Final[dict[str, tuple[str, ...]]] = {
    "none": (),
    **{name: (name,) for name in INGREDIENTS},
    **{f"all but {name}": tuple(other for other in INGREDIENTS if other != name) for name in INGREDIENTS},
    "all": INGREDIENTS,
}
"""What each swap takes from the measurement: none of the ingredients, one, all but one, or all."""

POINTS: Final = 12
"""Sizes N by default: half of an envelope's, for there are eight bounds to evaluate."""

STATISTICS: Final = ("precision", "recall")
BOUNDS: Final = tuple(f"{statistic}_{side}" for statistic in STATISTICS for side in ("lower", "upper"))


def swap_ingredients(
    tree: xr.DataTree, *, gram: str = "exponential", points: int | None = POINTS, progress: Callable[[float], None] | None = None
) -> xr.Dataset:
    """Evaluate sharp bounds of every head with fitted ingredients swapped for measured ones, one at a time and all but one.

    Fitted weights are p_sink and exp of /weights' model of log α, scaled to sum to 1; measured ones each document's own, bounds then averaged.
    Fitted norms are C and λC, measured ones the document mean by position. Fitted cosines are those of `gram` with ρ₀; measured ones the
    document means by lag and the mean sink cosine, moved to be feasible where no vectors have them.

    Args:
        tree: a run with /capture, /norms, /similarity and /weights.
        gram: the fitted form of similarity.
        points: about how many log-spaced sizes N; None takes all.
        progress: called with the share of the work done.

    Returns:
        /ingredients: over (swap, layer, head, n_envelope) precision_lower, precision_upper, recall_lower, recall_upper; over (swap): precision_inside,
        recall_inside (share of (head, N) cells with 1 < N < T inside), precision_regained, recall_regained (of the cells outside under
        "none", the share inside with the swap; NaN where none was outside), precision_width, recall_width; precision_lost, recall_lost (cells
        outside under "none"); over (layer, kv_head): moved, by how much measured cosines had to be moved to be feasible (0: not at all; the larger
        of |Δρ₀| and the root mean squared change of a cosine).
    """
    capture, norms, similarity, weights = (tree[name].to_dataset() for name in ("capture", "norms", "similarity", "weights"))
    grid = envelope_grid(capture["n"].values, points)
    layers, heads, kv_heads = (capture.sizes[name] for name in ("layer", "head", "kv_head"))
    bounds = np.full((len(BOUNDS), len(SWAPS), layers, heads, len(grid)), np.nan)
    moved = np.full((layers, kv_heads), np.nan)
    work = list(np.ndindex(layers, kv_heads))
    for step, (layer, kv_head) in enumerate(work):
        of_group = heads_of(capture, layer, kv_head)
        fitted = fitted_head(capture, norms, similarity, gram, layer, kv_head)
        if fitted is not None and of_group.size:
            head = value_head(capture, weights, layer, kv_head, of_group)
            moved[layer, kv_head] = head.moved
            for place, swapped in enumerate(SWAPS.values()):
                bounds[:, place, layer, of_group] = _bounds(capture, fitted, head, swapped, layer, grid)
        if progress is not None:
            progress((step + 1) / len(work))
    return _dataset(capture, bounds, moved, grid, gram)


def _bounds(capture: xr.Dataset, fitted: FittedHead, head: ValueHead, swapped: Sequence[str], layer: int, grid: np.ndarray) -> FloatArray:
    """Bounds with some ingredients measured, (bound, head, n); NaN for a head whose weights could not be fitted."""
    seen = layer_tokens(capture, layer)
    weights = head.weights if "weights" in swapped else head.weight_model[None]
    profiles, heads, tokens = weights.shape
    rows = weights.reshape(-1, tokens)
    known = np.isfinite(rows).all(axis=-1)
    stacked = np.full((len(BOUNDS), len(rows), len(grid)), np.nan)
    if known.any():
        found = evaluate(
            rows[known],
            head.norms if "norms" in swapped else fitted.norms(seen.tokens, sink=seen.sink),
            head.gram if "similarity" in swapped else fitted.gram,
            int(capture.attrs["dimension"]),
            grid,
            edition="sharp",
            sink=seen.sink,
            convention=str(capture.attrs["convention"]),
        )
        stacked[:, known] = np.stack([found[name] for name in BOUNDS])
    return stacked.reshape(len(BOUNDS), profiles, heads, len(grid)).mean(axis=1)


def _dataset(capture: xr.Dataset, bounds: FloatArray, moved: FloatArray, grid: np.ndarray, gram: str) -> xr.Dataset:
    dims = ("swap", "layer", "head", "n_envelope")
    curves = measured_curves(capture, grid).mean("document").transpose("layer", "head", "n_envelope")
    between = (grid > 1) & (grid < capture["tokens"].values[:, None, None])
    out: dict[str, xr.Variable] = {}
    for place, name in enumerate(BOUNDS):
        statistic, side = name.rsplit("_", 1)
        out[name] = described(
            dims,
            bounds[place],
            long_name=f"sharp {side} bound of {statistic}",
            units="1",
            symbol="",
            equation="Theorems 1-2, sharp edition",
        )
    for statistic in STATISTICS:
        low, high = (bounds[BOUNDS.index(f"{statistic}_{side}")] for side in ("lower", "upper"))
        measured = curves[statistic].values
        known = np.isfinite(low) & np.isfinite(high) & np.isfinite(measured) & between
        inside = known & (low <= measured) & (measured <= high)
        lost = known[0] & ~inside[0]
        width = np.where(known, np.clip(high, 0, 1) - np.clip(low, 0, 1), 0.0)
        over = tuple(range(1, inside.ndim))
        parts = {
            "inside": (inside.sum(axis=over), known.sum(axis=over), "share of (head, N) cells, 1 < N < T, inside the bounds"),
            "regained": ((inside & lost).sum(axis=over), (known & lost).sum(axis=over), "share inside of the cells that are outside with all fitted"),
            "width": (width.sum(axis=over), known.sum(axis=over), "mean distance of the bounds, both cut to [0, 1]"),
        }  # fmt: skip
        for part, (top, bottom, words) in parts.items():
            value = np.divide(top, bottom, out=np.full(len(SWAPS), np.nan), where=bottom > 0)
            out[f"{statistic}_{part}"] = described(("swap",), value, long_name=f"{statistic}: {words}", units="1", symbol="", equation="")
        out[f"{statistic}_lost"] = described((), np.array(int(lost.sum())), long_name=f"{statistic}: cells outside with all ingredients fitted", units="1",
                                             symbol="", equation="")  # fmt: skip
    out["moved"] = described(
        ("layer", "kv_head"),
        moved,
        long_name="how far the measured cosines by lag were moved to be feasible",
        units="1",
        symbol="",
        equation="erratum 9",
    )
    coords = {name: capture[name].variable for name in ("layer", "head", "kv_head")}
    coords["swap"] = xr.Variable(("swap",), np.array(list(SWAPS), dtype=object), {"long_name": "ingredients measured in place of fitted"})
    coords["n_envelope"] = xr.Variable(("n_envelope",), grid, {"long_name": "selected tokens N", "units": "tokens"})
    return xr.Dataset(
        out, coords=coords, attrs={"long_name": "bounds with ingredients swapped", "gram": gram, "documents": capture.sizes["document"]}
    )
