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
from geostat.bounds.gaps import clustered_share, standard_error
from geostat.datasets.separability import (
    LABELS,
    MEASURED,
    SIDES,
    STATISTICS,
    WITH_F,
    bound_attributes,
    over_queries,
    statistic_attributes,
)
from geostat.datasets.variable import labelled
from geostat.statistics.arrays import pieces

CELLS: Final = {"over": "(head, N) cells with 1 < N < T, both bounds known"}
SIZES: Final = {"over": "sizes 1 < N < T"}
DRAWN: Final = {
    "inside": "inside its bounds",
    "outside": "outside by more than the 95% document interval",
}
"""Shares of heads drawn from Model G, by name suffix."""


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
    parts |= _calibration(envelope, statistic, between)
    return xr.Dataset({f"{statistic}_{part}": values for part, values in parts.items()})


def _calibration(
    envelope: xr.Dataset, statistic: str, between: xr.DataArray
) -> dict[str, xr.DataArray]:
    """Return the coverage of heads drawn from Model G, with errors."""
    if f"{statistic}_drawn_excess" not in envelope:  # confronted by an older version
        return {}
    excess, measured = (envelope[f"{statistic}_{part}"] for part in ("drawn_excess", "excess"))
    counted, known = (values.notnull() & between for values in (excess, measured))
    inside, both = (excess <= 0) & counted, counted & known
    shares = {
        "drawn_inside": (inside, counted),
        "drawn_outside": (envelope[f"{statistic}_drawn_outside"] & counted, counted),
        "inside": ((measured <= 0) & known, known),
        "drawn_gap": (
            (inside.astype(np.int8) - (measured <= 0).astype(np.int8)).where(both, 0),
            both,
        ),
    }
    parts: dict[str, xr.DataArray] = {}
    for name, (true, cells) in shares.items():
        parts[name], parts[f"{name}_se"] = clustered_share(
            true, cells, envelope["kv_head_of_head"].values
        )
    del parts["inside"]  # `_coverage` has it
    return parts
