"""A run in a few curves: mean Precision and Recall over heads with document errors, their null
baselines, mean bounds, and coverage.

Documents are the sampling unit: heads are averaged within a document first, and the spread over
documents is the error. Imports empirical and xarray.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np
import xarray as xr

from empirical.schema import SEPARABILITY
from geostat.bounds.calibration import clustered_share
from geostat.bounds.gaps import standard_error
from geostat.datasets.queries import MEASURED, over_queries
from geostat.datasets.separability import (
    SIDES,
    STATISTICS,
    WITH_F,
    bound_attributes,
    statistic_attributes,
)
from geostat.datasets.variable import Variable, labelled
from geostat.statistics.arrays import pieces

CELLS: Final = {"over": "(head, N) cells with 1 < N < T, both bounds known"}
SIZES: Final = {"over": "sizes 1 < N < T"}
DRAWN: Final = {
    "inside": "inside its bounds",
    "outside": "outside by more than the 95% document interval",
}
"""What is counted of heads drawn from Model G, by the ends of the names."""


def _records(statistic: str) -> tuple[Variable, ...]:
    """Records of the mean bounds on a statistic, of cells inside them, and of its mean curve
    inside them.
    """
    label, words = statistic.replace("_", " "), statistic_attributes(statistic)
    share = partial(
        Variable,
        dims=("edition", "gram"),
        units=words["units"],
        symbol=words["symbol"],
        equation=words["equation"],
    )
    return (
        *(
            Variable(
                f"{statistic}_{side}",
                dims=("edition", "gram", "n_envelope"),
                **bound_attributes(f"{statistic}_{side}"),
            )
            for side in SIDES
        ),
        share(
            f"{statistic}_inside",
            f"share of cells with measured {label} inside its bounds",
            more=CELLS,
        ),
        share(
            f"{statistic}_outside",
            f"share of cells with measured {label} outside by more than the 95% document interval",
            more=CELLS,
        ),
        *_drawn(share, statistic),
        share(
            f"{statistic}_excess",
            f"mean distance of measured {label} from its bounds where outside",
            more=CELLS,
        ),
        share(f"{statistic}_cells", "number of cells", more=CELLS),
        share(
            f"{statistic}_width",
            f"mean distance between the bounds of {label}, both cut to [0, 1]",
            more=CELLS,
        ),
        share(
            f"{statistic}_means_inside",
            f"number of sizes N at which mean {label} lies inside the mean bounds",
            more=SIZES,
        ),
        share(
            f"{statistic}_means_counted",
            f"number of sizes N at which mean {label} and its bounds are known",
            more=SIZES,
        ),
        share(
            f"{statistic}_means_excess",
            f"largest distance of mean {label} from the mean bounds",
            more=SIZES,
        ),
    )


def _drawn(share: Callable[..., Variable], statistic: str) -> Iterator[Variable]:
    """Records of the shares of heads drawn from Model G, of how far measured ones lie below them,
    and of errors.
    """
    label = statistic.replace("_", " ")
    for where, words in DRAWN.items():
        for error, of_error in {"": "", "_se": "standard error over kv_heads of the "}.items():
            yield share(
                f"{statistic}_drawn_{where}{error}",
                f"{of_error}share of cells with {label} of heads drawn from Model G {words}",
                more=CELLS,
            )
    inside = f"share of cells with measured {label} inside its bounds"
    yield share(
        f"{statistic}_inside_se", f"standard error over kv_heads of the {inside}", more=CELLS
    )
    gap = f"share of cells with {label} inside, of heads drawn from Model G less of measured ones"
    yield share(f"{statistic}_drawn_gap", gap, more=CELLS)
    yield share(
        f"{statistic}_drawn_gap_se", f"standard error over kv_heads of the {gap}", more=CELLS
    )


def _curves(statistic: str) -> tuple[Variable, ...]:
    measured = SEPARABILITY[statistic]
    curve = partial(
        Variable, units="1", symbol=measured.symbol, equation=measured.equation, dims=("n",)
    )
    return (
        curve(f"{statistic}_mean", f"mean {statistic} over heads"),
        curve(f"{statistic}_se", f"standard error over documents of mean {statistic}"),
        curve(f"{statistic}_null", f"mean {statistic} of the null baseline", dims=("null", "n")),
    )


VARIABLES: Final = (
    *(record for statistic in STATISTICS for record in _curves(statistic)),
    Variable("floor", "smallest possible Precision N/T", "1", "N/T", "(2)", dims=("n",)),
    *(record for statistic in WITH_F for record in _records(statistic)),
)
"""Without null baselines in the run, all but `x_null`."""


def mean_and_error(values: xr.DataArray, over: Sequence[str]) -> tuple[xr.DataArray, xr.DataArray]:
    """Average (document, *over, ...) `over` heads within each document, then over documents; NaN is
    left out.

    Returns:
        Mean and its standard error over documents, dims those left; the error is NaN with one
        document.
    """
    documents = values.sizes["document"]
    parts = [
        values.isel(document=some).astype(np.float64).mean(over)
        for some in pieces(documents, values.size // max(documents, 1))
    ]
    each = xr.concat(parts, "document") if len(parts) > 1 else parts[0]
    return each.mean("document"), standard_error(each)


def readable(envelope: xr.Dataset) -> xr.Dataset:
    """Take out printed lower bounds of F(r_min) that say nothing: eq. (16) of a negative bound of
    Recall, whose pole lies at -1 (erratum 18).

    Returns /envelope with NaN for f_inner_lower and f_inner_excess, and False for f_inner_outside,
    where the printed lower bound of Recall is negative, or the lower bound of F(r_min) above 1,
    which only a bound of Recall below the pole can make.
    """
    printed = xr.DataArray(
        [str(name) == "printed" for name in envelope["edition"].values], dims="edition"
    )
    void = printed & ((envelope["recall_lower"] < 0) | (envelope["f_inner_lower"] > 1))
    kept = {name: envelope[name].where(~void) for name in ("f_inner_lower", "f_inner_excess")}
    return envelope.assign(
        kept | {"f_inner_outside": envelope["f_inner_outside"].astype(bool) & ~void}
    )


def overall(tree: xr.DataTree) -> xr.Dataset:
    """Summarise a confronted run: /capture, /envelope and, if measured, /queries and /null.

    Returns what VARIABLES names, over (n), (null, n), (edition, gram, n_envelope) and (edition,
    gram): mean curves and bounds, and how many cells, and sizes N of the mean curve, lie inside the
    bounds, and how far outside the others do. What `readable` takes out counts nowhere; where
    nothing is left, f_inner_* are NaN.
    """
    groups = {name: tree[name].to_dataset() for name in MEASURED if name in tree.children}
    capture, envelope = over_queries(groups), readable(tree["envelope"].to_dataset())
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
    between = (envelope["n_envelope"] > 1) & (
        envelope["n_envelope"] < capture["tokens"].rename(None)
    )
    for statistic in WITH_F:
        summary = summary.merge(
            _coverage(
                envelope, statistic, between.drop_vars(["tokens", "sink_visible"], errors="ignore")
            )
        )
    return labelled(
        summary.drop_vars([name for name in summary.coords if name not in summary.dims]), VARIABLES
    )


def _coverage(envelope: xr.Dataset, statistic: str, between: xr.DataArray) -> xr.Dataset:
    """Mean bounds of one statistic, and how many cells, and mean curves, lie inside them."""
    cell = ("layer", "head", "n_envelope")
    lower, upper, excess = (
        envelope[f"{statistic}_{part}"] for part in ("lower", "upper", "excess")
    )
    counted = excess.notnull() & between
    cells, out = counted.sum(cell), (excess > 0) & counted
    means = {side: envelope[f"{statistic}_{side}"].mean(("layer", "head")) for side in SIDES}
    mean = (
        envelope[statistic].where(lower.notnull()).mean(("layer", "head"))
    )  # over the heads that have bounds, as the bounds' own mean
    beside = xr.DataArray(np.maximum(means["lower"] - mean, mean - means["upper"]))
    sizes = between.any("layer") & means["lower"].notnull()
    parts = means | {
        "inside": 1 - out.sum(cell) / cells,
        "outside": (envelope[f"{statistic}_outside"] & counted).sum(cell) / cells,
        "excess": excess.where(out).mean(cell).fillna(0.0).where(cells > 0),
        "cells": cells,
        "width": (upper.clip(0, 1) - lower.clip(0, 1)).where(counted).mean(cell),
        "means_inside": ((beside <= 0) & sizes).sum("n_envelope"),
        "means_counted": sizes.sum("n_envelope"),
        "means_excess": beside.where(sizes).max("n_envelope").clip(min=0),
    }
    parts |= _calibration(envelope, statistic, between)
    return xr.Dataset({f"{statistic}_{part}": values for part, values in parts.items()})


def _calibration(
    envelope: xr.Dataset, statistic: str, between: xr.DataArray
) -> dict[str, xr.DataArray]:
    """What the coverage of heads drawn from Model G is, with errors; nothing of a run confronted
    before it was known.
    """
    if f"{statistic}_drawn_excess" not in envelope:
        return {}
    excess = envelope[f"{statistic}_drawn_excess"]
    counted = excess.notnull() & between
    cluster = envelope["kv_head_of_head"].values
    parts: dict[str, xr.DataArray] = {}
    inside = (excess <= 0) & counted
    for where, true in {
        "inside": inside,
        "outside": envelope[f"{statistic}_drawn_outside"] & counted,
    }.items():
        share, error = clustered_share(true, counted, cluster)
        parts |= {f"drawn_{where}": share, f"drawn_{where}_se": error}
    measured = envelope[f"{statistic}_excess"]
    known = measured.notnull() & between
    _, parts["inside_se"] = clustered_share((measured <= 0) & known, known, cluster)
    both = counted & known
    less = (inside.astype(np.int8) - (measured <= 0).astype(np.int8)).where(both, 0)
    parts["drawn_gap"], parts["drawn_gap_se"] = clustered_share(less, both, cluster)
    return parts
