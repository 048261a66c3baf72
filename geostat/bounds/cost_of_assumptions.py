"""Cost of each assumption: sharp bounds from measured ingredients, with one or all replaced by
fits.

A bound needs three ingredients: weights (Assumption 3), norms (Assumption 1) and cosines
(Assumption 2). With all three fitted, the bound is the paper's theory of the head. The cost of an
assumption is the share of measured values inside the bounds with all ingredients measured, minus
the share with this ingredient fitted. Source: arXiv 2602.01893, Assumptions 1-3, Theorems 1-2.
Imports theory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from empirical.schema import Quantity
from geostat.bounds.by_document import (
    FittedGroup,
    bounds_of_layer,
    fitted_heads,
    inner_grid,
    measured_curves,
)
from geostat.bounds.head import NEEDED, Groups, kv_head_of
from geostat.datasets.overlap import Progress, overlapped
from geostat.datasets.separability import BOUNDS, SIDES, STATISTICS
from geostat.datasets.tokens import select_heads
from geostat.datasets.variable import sizes_along, variables, words_along
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import LEVEL, Estimate, jackknife, with_replicates
from geostat.statistics.t_test import critical_value

INGREDIENTS: Final = ("weights", "norms", "similarity")
SWAPS: Final[dict[str, tuple[str, ...]]] = {
    "all": INGREDIENTS,
    **{
        f"all but {name}": tuple(other for other in INGREDIENTS if other != name)
        for name in INGREDIENTS
    },
    "none": (),
}
"""Measured ingredients of each swap; the others are fitted."""
SINGLE_FITS: Final = slice(1, 1 + len(INGREDIENTS))
"""Swaps with one fitted ingredient, in the order of INGREDIENTS."""

OF_HEAD: Final = {
    "capture": (
        *("value_norm", "cosine_mean", "sink_cosine", "attention_weight"),
        *("tokens", "sink_visible"),
    ),
    "weights": ("log_weight_model", "p_sink"),
}
"""Variables that hold the ingredients of a KV head, by group."""
POINTS: Final = 4
"""Default for the approximate number of sizes N between 1 and T."""


SIMULTANEOUS: Final = "95% document jackknife, t(K-1), simultaneous over the sizes N (Šidák)"


def _records(statistic: str) -> Iterator[Quantity]:
    """Yield the records of one statistic's variables."""
    of_swap = partial(Quantity, dims=("swap",))
    for side in SIDES:
        yield Quantity(
            *(f"{statistic}_{side}", f"sharp {side} bound of {statistic}"),
            equation="Theorems 1-2, sharp edition",
            dims=("swap", "layer", "head", "n_envelope"),
        )
    yield of_swap(
        f"{statistic}_inside",
        f"{statistic}: share of (head, N) cells, 1 < N < T, inside the bounds",
        estimated=True,
    )
    yield of_swap(
        f"{statistic}_cost",
        f"{statistic}: share inside with all ingredients measured, minus that of the swap",
        estimated=True,
    )
    yield Quantity(
        f"{statistic}_lead",
        f"{statistic}: largest cost of one fitted ingredient, minus the next largest",
        estimated=True,
    )
    by_n = partial(Quantity, estimated=True, more={"interval": SIMULTANEOUS})
    yield by_n(
        f"{statistic}_inside_by_n",
        f"{statistic}: share of heads inside the bounds at N",
        dims=("swap", "n_envelope"),
    )
    yield by_n(
        f"{statistic}_cost_by_n",
        f"{statistic}: share of heads inside at N with all ingredients measured, minus that of the"
        " swap",
        dims=("swap", "n_envelope"),
    )
    yield by_n(
        f"{statistic}_lead_by_n",
        f"{statistic}: largest cost of one fitted ingredient at N, minus the next largest",
        dims=("n_envelope",),
    )
    yield of_swap(
        f"{statistic}_width",
        f"{statistic}: mean distance between the bounds, both clipped to [0, 1]",
    )


VARIABLES: Final = (
    *(record for statistic in STATISTICS for record in _records(statistic)),
    Quantity(
        "moved",
        "distance by which the measured cosines by lag were projected to be feasible",
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
    """Evaluate sharp bounds of every head with all, one or none of the ingredients fitted.

    Fitted weights are p_sink and exp of /weights' model of log α, scaled to sum 1; measured weights
    are each document's, with bounds averaged over documents. Fitted norms are C and λC; measured
    norms are the document mean by position. Fitted cosines are those of `gram` with ρ₀; measured
    cosines are document means by lag and the mean sink cosine, projected where not feasible. KV
    heads without a measured cosine at some lag are skipped.

    Args:
        tree: a run with the groups NEEDED.
        gram: fitted form of similarity.
        points: approximate number of log-spaced sizes N between 1 and T; None takes all.

    Returns:
        /ingredients: the variables VARIABLES. The document jackknife leaves out a document's curves
        and bounds and holds norms, cosines and fits fixed. `moved` is the larger of |Δρ₀| and the
        root mean squared change of a cosine, 0 where the measured cosines are feasible.
    """
    groups = {name: tree[name].to_dataset() for name in NEEDED}
    capture = groups["capture"]
    grid = inner_grid(capture, points)
    swapped = _Swapped(capture, grid)
    if grid.size:
        tasks = (
            (fitted, _of_group(groups, *fitted[:3]))
            for fitted in fitted_heads(groups, gram, progress)
        )
        for evaluated in overlapped(partial(_evaluated, grid), tasks):
            swapped.add(*evaluated)
    coords = {name: capture[name].variable for name in ("layer", "head", "kv_head")}
    coords["swap"] = words_along("swap", SWAPS, "ingredients measured, the others fitted")
    coords["n_envelope"] = sizes_along("n_envelope", grid)
    attrs = {
        "long_name": "bounds with ingredients swapped",
        "gram": gram,
        "documents": capture.sizes["document"],
    }
    return xr.Dataset(variables(VARIABLES, swapped.numbers()), coords=coords, attrs=attrs)


def _of_group(groups: Groups, layer: int, kv_head: int, heads: np.ndarray) -> Groups:
    """Return the data of one KV head and its query heads, by group."""
    indices = {"layer": [layer], "kv_head": [kv_head], "head": heads}
    return {name: select_heads(groups[name], names, **indices) for name, names in OF_HEAD.items()}


def _evaluated(
    grid: np.ndarray, task: tuple[FittedGroup, Groups]
) -> tuple[int, int, np.ndarray, float, list[FloatArray]]:
    """Return one KV head, its query heads, the projection distance, and the bounds of each swap,
    (bound, document, head, n); no bounds without measured cosines.
    """
    (layer, kv_head, heads, fitted), groups = task
    measured = kv_head_of(groups, 0, 0, np.arange(len(heads)))
    if measured.gram is None:
        return layer, kv_head, heads, measured.moved, []
    by_swap = []
    for measured_names in SWAPS.values():
        weights = measured.weights if "weights" in measured_names else measured.weight_model[None]
        norms = measured.norms if "norms" in measured_names else fitted.norms
        gram = measured.gram if "similarity" in measured_names else fitted.gram
        arguments = (weights, norms, gram, grid)
        [bounds] = bounds_of_layer(
            groups["capture"], 0, *arguments, editions=["sharp"], names=BOUNDS
        )
        by_swap.append(bounds)
    return layer, kv_head, heads, measured.moved, by_swap


class _Swapped:
    """Bounds of every swap, and numbers of measured values inside them, with replicates."""

    def __init__(self, capture: xr.Dataset, grid: np.ndarray) -> None:
        """Start without KV heads; `grid` holds sizes N."""
        layers, heads, kv_heads = (capture.sizes[name] for name in ("layer", "head", "kv_head"))
        self.between = grid < capture["tokens"].values[:, None]
        curves = measured_curves(capture, grid)
        self.curves = {
            statistic: curves[statistic].transpose("document", "layer", "head", "n_envelope").values
            for statistic in STATISTICS
        }
        self.bounds = np.full((len(BOUNDS), len(SWAPS), layers, heads, len(grid)), np.nan)
        self.moved = np.full((layers, kv_heads), np.nan)
        # Cells inside the bounds, and cells that count: (2, replicate, swap, n).
        counts = np.zeros((2, capture.sizes["document"] + 1, len(SWAPS), len(grid)))
        self.counts = {statistic: counts.copy() for statistic in STATISTICS}

    def add(
        self, layer: int, kv_head: int, heads: np.ndarray, moved: float, results: list[FloatArray]
    ) -> None:
        """Add the result of `_evaluated` for one KV head."""
        self.moved[layer, kv_head] = moved
        if not results:
            return
        for index, result in enumerate(results):
            self.bounds[:, index, layer, heads] = result.mean(axis=1)
        for statistic in STATISTICS:
            curve = _without_each(self.curves[statistic][:, layer, heads])
            sides = [BOUNDS.index(f"{statistic}_{side}") for side in SIDES]
            limits = [[_without_each(result[side]) for side in sides] for result in results]
            # A cell counts in all swaps or in none.
            all_limits = [limit[0] for pair in limits for limit in pair]
            known = np.isfinite([*all_limits, curve[0]]).all(axis=0) & self.between[layer]
            inside, counted = self.counts[statistic]
            counted += known.sum(axis=0)
            for index, (low, high) in enumerate(limits):
                inside[:, index] += (known & (low <= curve) & (curve <= high)).sum(axis=1)

    def numbers(self) -> dict[str, Any]:
        """Return the numbers of VARIABLES."""
        numbers: dict[str, Any] = dict(zip(BOUNDS, self.bounds, strict=True))
        for statistic in STATISTICS:
            inside, cost, lead = _shares(*self.counts[statistic].sum(axis=-1))
            by_n = _shares(*self.counts[statistic])
            # The width is a mean over the cells with 1 < N < T that every swap knows.
            low, high = (numbers[f"{statistic}_{side}"] for side in SIDES)
            known = (np.isfinite(low) & np.isfinite(high)).all(axis=0) & self.between[:, None]
            width = np.where(known, np.clip(high, 0, 1) - np.clip(low, 0, 1), 0.0)
            numbers |= {
                f"{statistic}_inside": jackknife(inside[0], inside[1:]),
                f"{statistic}_cost": jackknife(cost[0], cost[1:]),
                f"{statistic}_lead": jackknife(lead[0], lead[1:]),
                **{
                    f"{statistic}_{name}_by_n": _simultaneous(jackknife(values[0], values[1:]))
                    for name, values in zip(("inside", "cost", "lead"), by_n, strict=True)
                },
                f"{statistic}_width": ratio(width.sum(axis=(1, 2, 3)), known.sum()),
            }
        return numbers | {"moved": self.moved}


def _shares(inside: FloatArray, counted: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return shares inside and costs, (replicate, swap, ...), and leads, (replicate, ...).

    `inside` and `counted` are numbers of cells, (replicate, swap, ...). All documents decide which
    two ingredients cost most; replicates keep this choice.
    """
    share = ratio(inside, counted)
    cost = share[:, :1] - share
    order = np.argsort(-cost[:1, SINGLE_FITS], axis=1)[:, :2]
    first, second = np.moveaxis(np.take_along_axis(cost[:, SINGLE_FITS], order, axis=1), 1, 0)
    return share, cost, first - second


def _simultaneous(estimate: Estimate) -> Estimate:
    """Return estimates, (..., n), with limits that hold together at all n."""
    assert estimate.documents is not None
    level = LEVEL ** (1 / max(estimate.value.shape[-1], 1))
    half = critical_value(estimate.documents - 1, level) * estimate.se
    return replace(estimate, lower=estimate.value - half, upper=estimate.value + half)


def _without_each(values: FloatArray) -> FloatArray:
    """Return the mean over documents, axis 0, and the leave-one-out means."""
    # fitted weights have one row for all documents
    return values if len(values) == 1 else with_replicates(values)
