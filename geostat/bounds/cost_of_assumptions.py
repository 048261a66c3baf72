"""Which assumption costs the bounds most: sharp bounds from measured ingredients, with one, or all,
of the fitted ones put in their place.

A bound needs three ingredients: weights (Assumption 3), norms (Assumption 1) and cosines
(Assumption 2). From all three fitted, the bound is what the paper's theory can say of a head. What
an assumption costs is the share of measured values that lie inside the bounds with all ingredients
measured, less the share with this one fitted. Source: arXiv 2602.01893, Assumptions 1-3, Theorems
1-2. Imports theory.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.bounds.by_document import bounds_of_layer, envelope_grid, fitted_heads, measured_curves
from geostat.bounds.head import NEEDED, FittedHead, Groups, value_head
from geostat.datasets.overlap import overlapped
from geostat.datasets.progress import Progress
from geostat.datasets.separability import BOUNDS, SIDES, STATISTICS
from geostat.datasets.tokens import some_heads
from geostat.datasets.variable import Variable, variables, words_along
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import jackknife, leave_one_out_mean

INGREDIENTS: Final = ("weights", "norms", "similarity")
SWAPS: Final[dict[str, tuple[str, ...]]] = {
    "all": INGREDIENTS,
    **{
        f"all but {name}": tuple(other for other in INGREDIENTS if other != name)
        for name in INGREDIENTS
    },
    "none": (),
}
"""What each swap takes from the measurement: all ingredients, all but one, or none."""
ALONE: Final = slice(1, 1 + len(INGREDIENTS))
"""The swaps in which one ingredient alone is fitted, in the order of INGREDIENTS."""

OF_HEAD: Final = {
    "capture": (
        *("value_norm", "cosine_mean", "sink_cosine", "attention_weight"),
        *("tokens", "sink_visible"),
    ),
    "weights": ("log_weight_model", "p_sink"),
}
"""What the ingredients of a value head are read from, by group."""
POINTS: Final = 4
"""About how many sizes N between 1 and T by default."""


def _records(statistic: str) -> tuple[Variable, ...]:
    """Records of one statistic's variables."""
    dims, sharp = ("swap", "layer", "head", "n_envelope"), "Theorems 1-2, sharp edition"
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
        Variable(
            f"{statistic}_inside",
            f"{statistic}: share of (head, N) cells, 1 < N < T, inside the bounds",
            dims=("swap",),
            estimated=True,
        ),
        Variable(
            f"{statistic}_cost",
            f"{statistic}: share inside with all ingredients measured, less that of the swap",
            dims=("swap",),
            estimated=True,
        ),
        Variable(
            f"{statistic}_lead",
            f"{statistic}: largest cost of one fitted ingredient, less the next largest",
            estimated=True,
        ),
        Variable(
            f"{statistic}_width",
            f"{statistic}: mean distance of the bounds, both cut to [0, 1]",
            dims=("swap",),
        ),
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
    """Evaluate sharp bounds of every head from measured ingredients, with one fitted in place of
    each in turn, and with all three fitted.

    Fitted weights are p_sink and exp of /weights' model of log α, scaled to sum to 1; measured ones
    each document's own, bounds then averaged. Fitted norms are C and λC, measured ones the document
    mean by position. Fitted cosines are those of `gram` with ρ₀; measured ones the document means
    by lag and the mean sink cosine, moved to be feasible where no vectors have them. Value heads
    without a measured cosine at some lag are left out.

    `tree` holds the groups NEEDED; `points` is about how many log-spaced sizes N between 1 and T,
    None takes all.

    Returns:
        /ingredients: what VARIABLES names. Errors and limits are of the document jackknife, which
        leaves out a document's curves and bounds; norms, cosines and fits are held. `moved` is the
        larger of |Δρ₀| and the root mean squared change of a cosine, 0 where the measured cosines
        are feasible.
    """
    groups = {name: tree[name].to_dataset() for name in NEEDED}
    capture = groups["capture"]
    sizes = capture["n"].values
    inner = sizes[(sizes > 1) & (sizes < capture.sizes["position"])]  # of every part the same
    grid = envelope_grid(inner, points) if inner.size else inner
    swapped = _Swapped(groups, grid)
    if grid.size:
        each = (
            (found, _own(groups, *found[:3]))
            for found in fitted_heads(
                capture, groups["norms"], groups["similarity"], gram, progress
            )
        )
        for evaluated in overlapped(partial(_evaluated, grid), each):
            swapped.add(*evaluated)
    coords = {name: capture[name].variable for name in ("layer", "head", "kv_head")}
    coords["swap"] = words_along("swap", SWAPS, "ingredients measured, the others fitted")
    coords["n_envelope"] = xr.Variable(
        ("n_envelope",), grid, {"long_name": "selected tokens N", "units": "tokens"}
    )
    attrs = {
        "long_name": "bounds with ingredients swapped",
        "gram": gram,
        "documents": capture.sizes["document"],
    }
    return xr.Dataset(variables(VARIABLES, swapped.numbers()), coords=coords, attrs=attrs)


def _own(groups: Groups, layer: int, kv_head: int, heads: np.ndarray) -> Groups:
    """Take what the groups hold of one value head and the heads that share it."""
    at = {"layer": [layer], "kv_head": [kv_head], "head": heads}
    return {name: some_heads(groups[name], names, **at) for name, names in OF_HEAD.items()}


def _evaluated(
    grid: np.ndarray, task: tuple[tuple[int, int, np.ndarray, FittedHead], Groups]
) -> tuple[int, int, np.ndarray, float, list[FloatArray]]:
    """Return one value head, the heads that share it, how far its cosines were moved, and the
    bounds of each swap, (bound, document, head, n); none where it has no measured cosines.
    """
    (layer, kv_head, heads, fitted), groups = task
    measured = value_head(groups, 0, 0, np.arange(len(heads)))
    if measured.gram is None:
        return layer, kv_head, heads, measured.moved, []
    each = []
    for taken in SWAPS.values():
        weights_of = measured.weights if "weights" in taken else measured.weight_model[None]
        norms_of = measured.norms if "norms" in taken else fitted.norms
        gram_of = measured.gram if "similarity" in taken else fitted.gram
        own = (weights_of, norms_of, gram_of, grid)
        [bounds] = bounds_of_layer(groups["capture"], 0, *own, editions=["sharp"], names=BOUNDS)
        each.append(bounds)
    return layer, kv_head, heads, measured.moved, each


class _Swapped:
    """Bounds of every swap, and how many measured values lie inside: of all documents, and without
    each.
    """

    def __init__(self, groups: Groups, grid: np.ndarray) -> None:
        """Of no value head yet; `grid` holds sizes N."""
        capture = groups["capture"]
        layers, heads, kv_heads = (capture.sizes[name] for name in ("layer", "head", "kv_head"))
        self.groups, self.grid = groups, grid
        curves = measured_curves(capture, grid)
        self.curves = {
            statistic: curves[statistic].transpose("document", "layer", "head", "n_envelope").values
            for statistic in STATISTICS
        }
        self.bounds = np.full((len(BOUNDS), len(SWAPS), layers, heads, len(grid)), np.nan)
        self.moved = np.full((layers, kv_heads), np.nan)
        counted = (capture.sizes["document"] + 1, len(SWAPS))
        self.inside = {statistic: np.zeros(counted) for statistic in STATISTICS}
        self.known = {statistic: np.zeros(counted) for statistic in STATISTICS}

    def add(
        self, layer: int, kv_head: int, heads: np.ndarray, moved: float, results: list[FloatArray]
    ) -> None:
        """Add what was `evaluated` of one value head."""
        self.moved[layer, kv_head] = moved
        if not results:
            return
        for at, result in enumerate(results):
            self.bounds[:, at, layer, heads] = result.mean(axis=1)
        each = [dict(zip(BOUNDS, result, strict=True)) for result in results]
        between = self.grid < int(self.groups["capture"]["tokens"][layer])
        for statistic in STATISTICS:
            curve = _without_each(self.curves[statistic][:, layer, heads])
            limits = [[_without_each(one[f"{statistic}_{side}"]) for side in SIDES] for one in each]
            # a cell counts in all swaps or in none
            whole = [limit[0] for pair in limits for limit in pair]
            known = np.isfinite([*whole, curve[0]]).all(axis=0) & between
            self.known[statistic] += known.sum()
            for at, (low, high) in enumerate(limits):
                inside = known & (low <= curve) & (curve <= high)
                self.inside[statistic][:, at] += inside.sum(axis=(1, 2))

    def numbers(self) -> dict[str, Any]:
        """Return what VARIABLES names."""
        found: dict[str, Any] = dict(zip(BOUNDS, self.bounds, strict=True)) | {"moved": self.moved}
        for statistic in STATISTICS:
            inside = ratio(self.inside[statistic], self.known[statistic])
            cost = inside[:, :1] - inside
            # which two cost most is asked of all documents, and held
            order = np.argsort(-cost[0, ALONE])
            lead = cost[:, ALONE][:, order[0]] - cost[:, ALONE][:, order[1]]
            low, high = (found[f"{statistic}_{side}"] for side in SIDES)
            found |= {
                f"{statistic}_inside": jackknife(inside[0], inside[1:]),
                f"{statistic}_cost": jackknife(cost[0], cost[1:]),
                f"{statistic}_lead": jackknife(lead[0], lead[1:]),
                f"{statistic}_width": self._width(low, high),
            }
        return found

    def _width(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Mean width by swap, over the cells between 1 and T that every swap knows; bounds (swap,
        layer, head, n).
        """
        tokens = self.groups["capture"]["tokens"].values[:, None, None]
        known = (np.isfinite(low) & np.isfinite(high)).all(axis=0) & (self.grid < tokens)
        width = np.where(known, np.clip(high, 0, 1) - np.clip(low, 0, 1), 0.0)
        return ratio(width.sum(axis=(1, 2, 3)), np.full(len(SWAPS), known.sum()))


def _without_each(values: FloatArray) -> FloatArray:
    """The mean over documents, axis 0, and behind it the means without each; what does not depend
    on the document is as it is.
    """
    if len(values) == 1:
        return values
    return np.concatenate([values.mean(axis=0)[None], leave_one_out_mean(values)])
