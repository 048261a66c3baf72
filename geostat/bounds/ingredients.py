"""Which assumption breaks a failing bound: sharp bounds from fitted ingredients, with some swapped
for what was measured.

A bound needs three ingredients: weights (Assumption 3), norms (Assumption 1) and cosines
(Assumption 2). From all three fitted, the bound is what the paper's theory can say of a head; each
swap puts the measured ingredient in place of one fit, or of all but one. Where a measured curve
returns into its bounds with a swap, that assumption had kept it out; where it leaves them once one
fit is put back, that assumption alone suffices to break the bound. Source: arXiv 2602.01893,
Assumptions 1-3, Theorems 1-2. Imports theory.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import xarray as xr

from geostat.bounds.by_document import bounds_of_layer, envelope_grid, fitted_heads, measured_curves
from geostat.bounds.head import NEEDED, Groups, value_head
from geostat.datasets.progress import Progress
from geostat.datasets.separability import BOUNDS, SIDES, STATISTICS
from geostat.datasets.variable import Variable, variables, words_along
from geostat.statistics.arrays import FloatArray, ratio

INGREDIENTS: Final = ("weights", "norms", "similarity")
SWAPS: Final[dict[str, tuple[str, ...]]] = {
    "none": (),
    **{name: (name,) for name in INGREDIENTS},
    **{
        f"all but {name}": tuple(other for other in INGREDIENTS if other != name)
        for name in INGREDIENTS
    },
    "all": INGREDIENTS,
}
"""What each swap takes from the measurement: none of the ingredients, one, all but one, or all."""

POINTS: Final = 12
"""Sizes N by default: half of an envelope's, for there are eight bounds to evaluate."""


def _records(statistic: str) -> tuple[Variable, ...]:
    """Records of one statistic's variables."""
    dims, sharp = ("swap", "layer", "head", "n_envelope"), "Theorems 1-2, sharp edition"
    shares = {
        "inside": "share of (head, N) cells, 1 < N < T, inside the bounds",
        "regained": "share inside of the cells that are outside with all fitted",
        "width": "mean distance of the bounds, both cut to [0, 1]",
    }
    return (
        *(
            Variable(
                f"{statistic}_{side}",
                f"sharp {side} bound of {statistic}",
                equation=sharp,
                dims=dims,
            )
            for side in SIDES
        ),
        *(
            Variable(f"{statistic}_{part}", f"{statistic}: {words}", dims=("swap",))
            for part, words in shares.items()
        ),
        Variable(f"{statistic}_lost", f"{statistic}: cells outside with all ingredients fitted"),
    )


VARIABLES: Final = (
    *(record for statistic in STATISTICS for record in _records(statistic)),
    Variable(
        "moved",
        "how far the measured cosines by lag were moved to be feasible",
        equation="erratum 9",
        dims=("layer", "kv_head"),
    ),
)


def swap_ingredients(
    tree: xr.DataTree,
    *,
    gram: str = "exponential",
    points: int | None = POINTS,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Evaluate sharp bounds of every head with fitted ingredients swapped for measured ones, one at
    a time and all but one.

    Fitted weights are p_sink and exp of /weights' model of log α, scaled to sum to 1; measured ones
    each document's own, bounds then averaged. Fitted norms are C and λC, measured ones the document
    mean by position. Fitted cosines are those of `gram` with ρ₀; measured ones the document means
    by lag and the mean sink cosine, moved to be feasible where no vectors have them.

    `tree` holds the groups NEEDED; `points` is about how many log-spaced sizes N, None takes all.

    Returns:
        /ingredients: what VARIABLES names. `inside` is a share of (head, N) cells with 1 < N < T;
        of those that are outside under "none" (`lost`), `regained` is the share inside with the
        swap, NaN where none was outside; `moved` is the larger of |Δρ₀| and the root mean squared
        change of a cosine, 0 where the measured cosines are feasible.
    """
    groups = {name: tree[name].to_dataset() for name in NEEDED}
    capture = groups["capture"]
    grid = envelope_grid(capture["n"].values, points)
    bounds, moved = _swapped_bounds(groups, gram, grid, progress)
    curves = (
        measured_curves(capture, grid).mean("document").transpose("layer", "head", "n_envelope")
    )
    between = (grid > 1) & (grid < capture["tokens"].values[:, None, None])
    numbers: dict[str, np.ndarray] = dict(zip(BOUNDS, bounds, strict=True)) | {"moved": moved}
    for statistic in STATISTICS:
        low, high = (numbers[f"{statistic}_{side}"] for side in SIDES)
        parts = _counts(curves[statistic].values, low, high, between)
        numbers |= {f"{statistic}_{part}": values for part, values in parts.items()}
    coords = {name: capture[name].variable for name in ("layer", "head", "kv_head")}
    coords["swap"] = words_along("swap", SWAPS, "ingredients measured in place of fitted")
    coords["n_envelope"] = xr.Variable(
        ("n_envelope",), grid, {"long_name": "selected tokens N", "units": "tokens"}
    )
    attrs = {
        "long_name": "bounds with ingredients swapped",
        "gram": gram,
        "documents": capture.sizes["document"],
    }
    return xr.Dataset(variables(VARIABLES, numbers), coords=coords, attrs=attrs)


def _swapped_bounds(
    groups: Groups, gram: str, grid: np.ndarray, progress: Progress | None
) -> tuple[FloatArray, FloatArray]:
    """Evaluate the bounds of every swap, (bound, swap, layer, head, n), and how far the measured
    cosines were moved, (layer, kv_head).
    """
    capture = groups["capture"]
    layers, heads, kv_heads = (capture.sizes[name] for name in ("layer", "head", "kv_head"))
    bounds = np.full((len(BOUNDS), len(SWAPS), layers, heads, len(grid)), np.nan)
    moved = np.full((layers, kv_heads), np.nan)
    fits = (groups["norms"], groups["similarity"])
    for layer, kv_head, group, fitted in fitted_heads(capture, *fits, gram, progress):
        measured = value_head(groups, layer, kv_head, group)
        moved[layer, kv_head] = measured.moved
        for at, swapped in enumerate(SWAPS.values()):
            weights_of = measured.weights if "weights" in swapped else measured.weight_model[None]
            norms_of = measured.norms if "norms" in swapped else fitted.norms
            gram_of = measured.gram if "similarity" in swapped else fitted.gram
            result = bounds_of_layer(
                capture, layer, weights_of, norms_of, gram_of, grid, edition="sharp", names=BOUNDS
            )
            bounds[:, at, layer, group] = result.mean(axis=1)
    return bounds, moved


def _counts(
    measured: FloatArray, low: FloatArray, high: FloatArray, between: np.ndarray
) -> dict[str, np.ndarray]:
    """Shares of the (head, N) cells by swap, and the cells that are outside with all fitted;
    bounds (swap, layer, head, n).
    """
    known = np.isfinite(low) & np.isfinite(high) & np.isfinite(measured) & between
    inside = known & (low <= measured) & (measured <= high)
    lost = known[0] & ~inside[0]
    width = np.where(known, np.clip(high, 0, 1) - np.clip(low, 0, 1), 0.0)
    cells = (1, 2, 3)
    return {
        "inside": ratio(inside.sum(axis=cells), known.sum(axis=cells)),
        "regained": ratio((inside & lost).sum(axis=cells), (known & lost).sum(axis=cells)),
        "width": ratio(width.sum(axis=cells), known.sum(axis=cells)),
        "lost": np.array(int(lost.sum())),
    }
