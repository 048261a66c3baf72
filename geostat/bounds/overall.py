"""Summary of a run: mean Precision and Recall over heads, null baselines, mean bounds, and
coverage.

Documents are the sampling unit: heads are averaged within a document first, and the spread over
documents gives the error. Imports empirical and xarray.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np
import xarray as xr

from empirical.schema import SEPARABILITY, Quantity
from geostat.bounds.gaps import clustered_mean, standard_error
from geostat.datasets.separability import (
    LABELS,
    MEASURED,
    RANGES,
    SIDES,
    STATISTICS,
    WITH_F,
    bound_attributes,
    over_queries,
    statistic_attributes,
)
from geostat.datasets.variable import labelled, words_along
from geostat.statistics.arrays import pieces
from geostat.statistics.jackknife import LEVEL, SIGNIFICANCE
from geostat.statistics.proportion import wilson
from geostat.statistics.t_test import critical_value

CELLS: Final = {"over": "(head, N) cells with 1 < N < T, both bounds known"}
SIZES: Final = {"over": "sizes 1 < N < T"}
DRAWN: Final = {
    "inside": "inside its bounds",
    "outside": "outside by more than the 95% document interval",
}
"""Shares of heads drawn from Model G, by name suffix."""
MEASURES: Final = {
    "inside": "share of heads inside",
    "outside": "share of heads clearly outside",
    "drawn_inside": "share of heads drawn from Model G inside",
    "drawn_outside": "share of heads drawn from Model G clearly outside",
    "drawn_gap": "share inside, drawn minus measured heads",
    "width": "distance between the bounds, both clipped to [0, 1]",
    "score": "interval score of the bounds, width + (2/a) × distance outside, a = 0.05",
    "drawn_score": "interval score of the bounds for heads drawn from Model G",
    "score_gap": "interval score, measured minus drawn heads",
}
"""Means over heads and sizes that curves over N and ranges of N have.

The interval score (Gneiting & Raftery 2007, eq. 43) adds to the width of an interval a penalty for
values outside, at level 1 − a; lower is better, so narrow bounds do not lose by being narrow alone.
"""
SHARES: Final = ("inside", "outside", "drawn_inside", "drawn_outside")
"""Measures that are shares."""
ALONG: Final = {
    "n": ("n_envelope", "size N"),
    "range": ("size_range", "range of sizes N"),
}
"""Dim of these means, and its words, by name suffix."""
SIMULTANEOUS: Final = (
    "95% over KV heads, simultaneous over the {}s (Šidák): t; for shares Wilson's with the"
    " effective number of heads"
)


def _records(statistic: str) -> Iterator[Quantity]:
    """Yield the records of a statistic's mean bounds and coverage."""
    label, errors = LABELS[statistic], "standard error over KV heads of the "
    inside = f"share of cells with measured {label} inside its bounds"
    gap = f"share of cells with {label} inside, heads drawn from Model G minus measured heads"
    rows = {
        "inside": inside,
        "outside": (
            f"share of cells with measured {label} outside by more than the 95% document interval"
        ),
    }
    for where, words in DRAWN.items():
        drawn = f"share of cells with {label} of heads drawn from Model G {words}"
        rows |= {f"drawn_{where}": drawn, f"drawn_{where}_se": errors + drawn}
    rows |= {
        "inside_se": errors + inside,
        "drawn_gap": gap,
        "drawn_gap_se": errors + gap,
        "excess": f"mean distance of measured {label} from its bounds where outside",
        "cells": "number of cells",
        "width": f"mean distance between the bounds of {label}, both clipped to [0, 1]",
        "means_inside": f"number of sizes N at which mean {label} lies inside the mean bounds",
        "means_counted": f"number of sizes N at which mean {label} and its bounds are known",
        "means_excess": f"largest distance of mean {label} from the mean bounds",
    }
    for side in SIDES:
        name = f"{statistic}_{side}"
        yield Quantity(name, dims=("edition", "gram", "n_envelope"), **bound_attributes(name))
    for part, words in rows.items():
        yield Quantity(
            *(f"{statistic}_{part}", words),
            dims=("edition", "gram"),
            more=SIZES if part.startswith("means_") else CELLS,
            **statistic_attributes(statistic),
        )


def _curves(statistic: str) -> tuple[Quantity, ...]:
    """Return the records of a statistic's mean curve and null baseline."""
    measured = SEPARABILITY[statistic]
    curve = partial(
        Quantity, units="1", symbol=measured.symbol, equation=measured.equation, dims=("n",)
    )
    return (
        curve(f"{statistic}_mean", f"mean {statistic} over heads"),
        curve(f"{statistic}_se", f"standard error over documents of mean {statistic}"),
        curve(f"{statistic}_null", f"mean {statistic} of the null baseline", dims=("null", "n")),
    )


VARIABLES: Final = (
    *(record for statistic in STATISTICS for record in _curves(statistic)),
    Quantity("floor", "smallest possible Precision N/T", "1", "N/T", "(2)", dims=("n",)),
    *(record for statistic in WITH_F for record in _records(statistic)),
    *(
        Quantity(
            f"{statistic}_by_{suffix}",
            f"bounds of {LABELS[statistic]}: means over heads at a {words}",
            dims=("measure", "edition", "gram", dim),
            more=CELLS | {"interval": SIMULTANEOUS.format(words)},
            estimated=True,
            **statistic_attributes(statistic),
        )
        for statistic in STATISTICS
        for suffix, (dim, words) in ALONG.items()
    ),
)
"""Variables of /summary; `x_null` only if the run has null baselines."""


def mean_and_error(values: xr.DataArray, over: Sequence[str]) -> tuple[xr.DataArray, xr.DataArray]:
    """Average (document, *over, ...) `over` heads within each document, then over documents.

    NaN is ignored.

    Returns:
        Mean and its standard error over documents, over the remaining dims; the error is NaN with
        one document.
    """
    documents = values.sizes["document"]
    parts = [
        values.isel(document=chunk).astype(np.float64).mean(over)
        for chunk in pieces(documents, values.size // max(documents, 1))
    ]
    by_document = xr.concat(parts, "document") if len(parts) > 1 else parts[0]
    return by_document.mean("document"), standard_error(by_document)


def mask_void_bounds(envelope: xr.Dataset) -> xr.Dataset:
    """Mask printed lower bounds of F(r_min) that are void.

    Eq. (16) has a pole where the bound of Recall is −1 (erratum 18). Bounds are void where the
    printed lower bound of Recall is negative, or the lower bound of F(r_min) exceeds 1, which needs
    a bound of Recall below the pole. There f_inner_lower and f_inner_excess become NaN and
    f_inner_outside False.
    """
    printed = xr.DataArray(
        [str(name) == "printed" for name in envelope["edition"].values], dims="edition"
    )
    void = printed & ((envelope["recall_lower"] < 0) | (envelope["f_inner_lower"] > 1))
    masked = {name: envelope[name].where(~void) for name in ("f_inner_lower", "f_inner_excess")}
    return envelope.assign(
        masked | {"f_inner_outside": envelope["f_inner_outside"].astype(bool) & ~void}
    )


def overall(tree: xr.DataTree) -> xr.Dataset:
    """Summarise a run with /capture, /envelope and, if measured, /queries and /null.

    Returns VARIABLES over (n), (null, n), (edition, gram, n_envelope) and (edition, gram): mean
    curves and bounds, the numbers of cells and of sizes N of the mean curve inside the bounds, and
    distances outside. Bounds that `mask_void_bounds` removes do not count; f_inner_* are NaN where
    none is left.
    """
    groups = {name: tree[name].to_dataset() for name in MEASURED if name in tree.children}
    capture, envelope = over_queries(groups), mask_void_bounds(tree["envelope"].to_dataset())
    summary = xr.Dataset(
        attrs={"long_name": "summary of the run", "documents": capture.sizes["document"]}
    )
    for name in STATISTICS:
        summary[f"{name}_mean"], summary[f"{name}_se"] = mean_and_error(
            capture[name], ("layer", "head")
        )
        if "null" in tree:
            null, _ = mean_and_error(tree["null"].to_dataset()[name], ("layer", "head"))
            summary[f"{name}_null"] = null.transpose("null", "n")
    summary["floor"] = (
        (capture["n"] / capture["tokens"]).where(capture["n"] <= capture["tokens"]).mean("layer")
    )
    sizes = envelope["n_envelope"]
    between = (sizes > 1) & (sizes < capture["tokens"].rename(None))
    between = between.drop_vars(["tokens", "sink_visible"], errors="ignore")
    for statistic in WITH_F:
        summary = summary.merge(_coverage(envelope, statistic, between))
    unlabelled = [name for name in summary.coords if name not in summary.dims]
    return labelled(summary.drop_vars(unlabelled), VARIABLES)


def _coverage(envelope: xr.Dataset, statistic: str, between: xr.DataArray) -> xr.Dataset:
    """Return mean bounds of a statistic, and coverage of cells and of the mean curve."""
    cell = ("layer", "head", "n_envelope")
    lower, upper, excess = (
        envelope[f"{statistic}_{part}"] for part in ("lower", "upper", "excess")
    )
    counted = excess.notnull() & between
    cells, outside = counted.sum(cell), (excess > 0) & counted
    means = {side: envelope[f"{statistic}_{side}"].mean(("layer", "head")) for side in SIDES}
    # The mean is over heads with bounds, like the mean of the bounds.
    mean = envelope[statistic].where(lower.notnull()).mean(("layer", "head"))
    distance = xr.DataArray(np.maximum(means["lower"] - mean, mean - means["upper"]))
    sizes = between.any("layer") & means["lower"].notnull()
    parts = means | {
        "inside": 1 - outside.sum(cell) / cells,
        "outside": (envelope[f"{statistic}_outside"] & counted).sum(cell) / cells,
        "excess": excess.where(outside).mean(cell).fillna(0.0).where(cells > 0),
        "cells": cells,
        "width": (upper.clip(0, 1) - lower.clip(0, 1)).where(counted).mean(cell),
        "means_inside": ((distance <= 0) & sizes).sum("n_envelope"),
        "means_counted": sizes.sum("n_envelope"),
        "means_excess": distance.where(sizes).max("n_envelope").clip(min=0),
    }
    cells_of = _cells(envelope, statistic, between)
    for name in ("inside", *(f"drawn_{where}" for where in DRAWN), "drawn_gap"):
        if name in cells_of:
            total, count = (values.sum("n_envelope") for values in cells_of[name])
            mean, error, _ = clustered_mean(total, count, envelope["kv_head_of_head"].values)
            parts |= {name: parts.get(name, mean), f"{name}_se": error}
    result = xr.Dataset({f"{statistic}_{part}": values for part, values in parts.items()})
    return (
        result.merge(_by_size(cells_of, statistic, envelope)) if statistic in STATISTICS else result
    )


def _cells(
    envelope: xr.Dataset, statistic: str, between: xr.DataArray
) -> dict[str, tuple[xr.DataArray, xr.DataArray]]:
    """Return by name the numbers of all cells, 0 where not counted, and which cells count.

    Names are those of MEASURES; those of drawn heads need their curves, which runs confronted by
    an older version lack.
    """
    penalty = 2 / SIGNIFICANCE
    lower, upper, excess = (
        envelope[f"{statistic}_{part}"] for part in ("lower", "upper", "excess")
    )
    width, known = upper.clip(0, 1) - lower.clip(0, 1), excess.notnull() & between
    inside = (excess <= 0).astype(np.float64)
    cells = {
        "inside": (inside, known),
        "outside": (envelope[f"{statistic}_outside"], known),
        "width": (width, known),
        "score": (width + penalty * excess, known),
    }
    if f"{statistic}_drawn_excess" in envelope:
        drawn = envelope[f"{statistic}_drawn_excess"]
        counted, drawn_inside = drawn.notnull() & between, (drawn <= 0).astype(np.float64)
        cells |= {
            "drawn_inside": (drawn_inside, counted),
            "drawn_outside": (envelope[f"{statistic}_drawn_outside"], counted),
            "drawn_gap": (drawn_inside - inside, counted & known),
            "drawn_score": (width + penalty * drawn, counted),
            "score_gap": (penalty * (excess - drawn), counted & known),
        }
    return {
        name: (values.where(counted, 0.0), counted) for name, (values, counted) in cells.items()
    }


def _by_size(
    cells_of: dict[str, tuple[xr.DataArray, xr.DataArray]], statistic: str, envelope: xr.Dataset
) -> xr.Dataset:
    """Return the means MEASURES at each N and in each range of N, with errors over KV heads."""
    sizes, cluster = envelope["n_envelope"], envelope["kv_head_of_head"].values
    names = [name for name in MEASURES if name in cells_of]
    measure = words_along("measure", names, "mean over heads and sizes")
    ranges = words_along("size_range", RANGES, "range of sizes N")
    within = [(sizes >= first) & (sizes <= last) for first, last in RANGES.values()]
    values, counted = (
        xr.concat([cells_of[name][index] for name in names], "measure").assign_coords(
            measure=measure
        )
        for index in (0, 1)
    )
    result = xr.Dataset(coords={"measure": measure, "size_range": ranges})
    for suffix, (dim, _) in ALONG.items():
        total, count = values, counted.astype(np.float64)
        if dim != "n_envelope":
            member = xr.concat(within, "size_range")
            total, count = (part.dot(member, dim="n_envelope") for part in (total, count))
        parts = band_limits(*clustered_mean(total, count, cluster), dim)
        result = result.assign(
            {f"{statistic}_by_{suffix}{part}": array for part, array in parts.items()}
        )
    return result


def band_limits(
    mean: xr.DataArray, error: xr.DataArray, clusters: xr.DataArray, dim: str
) -> dict[str, xr.DataArray]:
    """Return means, errors, and 95% limits that hold together along `dim`, by suffix.

    Student's t at Šidák's level; an error of 0 has no information. A share has Wilson's limits with
    the effective number of heads, p(1 − p)/se², or of clusters where all agree. They depend on the
    critical value and this number by z²/n alone.
    """
    mean, error, clusters = xr.broadcast(mean, error, clusters)
    over = [name for name in mean.dims if name != dim]
    tests = max(int(mean.notnull().any(over).sum()), 1)
    critical = critical_value(clusters.values - 1, LEVEL ** (1 / tests))
    half = critical * error.where(error > 0)
    limits = {"_lower": mean - half, "_upper": mean + half}
    trials = xr.where(error > 0, mean * (1 - mean) / error**2, clusters.where(error.notnull()))
    trials = trials * (critical_value(np.inf) / critical) ** 2
    share = wilson((mean * trials).values, trials.values)
    is_share = mean["measure"].isin(SHARES)
    for side, wilson_limit in (("_lower", share.lower), ("_upper", share.upper)):
        limits[side] = xr.where(is_share, mean.copy(data=wilson_limit), limits[side])
    return {"": mean, "_se": error} | limits
