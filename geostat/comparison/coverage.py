"""Coverage of the bounds: the share of cells (head, N) whose measured curve lies within them, with
what it is without each document.

Source: arXiv 2602.01893, Theorems 1-2. Imports numpy, xarray and theory.
"""

from __future__ import annotations

from typing import Final, cast

import numpy as np

from geostat.bounds.by_document import bounds_of_layer, fitted_heads, measured_curves
from geostat.bounds.head import Groups, document_weights
from geostat.datasets.progress import Progress, tracked
from geostat.datasets.separability import BOUNDS, STATISTICS
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import leave_one_out_mean
from theory.head.results import Edition

CELL: Final = ("layer", "head", "n_envelope")
Share = tuple[float, FloatArray, int]
"""The share within, the same without each document (NaN where it was not asked for), and how
many heads it is of.
"""


def shares_inside(
    groups: Groups, *, errors: bool = True, progress: Progress | None = None
) -> dict[tuple[str, str, str], Share]:
    """Return the share of (head, 1 < N < T) cells within bounds, by statistic, edition and Gram,
    with and without each document: curves and bounds both.

    A bound is a mean over documents, each at its own weights, so a document moves a head's curve
    and its bounds together, and the share less or more than either alone. Bounds are evaluated
    again by document, at the run's fits.

    `groups` holds /capture, /norms, /similarity and /envelope, of fitted Grams. `errors`: evaluate
    bounds by document too, which takes as long as to confront the run; `progress` is told the share
    of it done.
    """
    capture, envelope = groups["capture"], groups["envelope"]
    grid, tokens = envelope["n_envelope"].values, capture["tokens"].values
    between = ((grid > 1) & (grid < tokens[:, None]))[:, None, :]
    curves = measured_curves(capture, grid)
    pairs = [
        (cast(Edition, str(edition)), str(gram))
        for edition in envelope["edition"].values
        for gram in envelope["gram"].values
    ]
    out: dict[tuple[str, str, str], Share] = {}
    for edition, gram in tracked(pairs, progress):
        at = envelope.sel(edition=edition, gram=gram)
        by_document = (
            _evaluated(groups, edition, gram, grid)
            if errors and capture.sizes["document"] > 1
            else None
        )
        for statistic in STATISTICS:
            low, high = (
                at[f"{statistic}_{side}"].transpose(*CELL).values for side in ("lower", "upper")
            )
            mean = envelope[statistic].transpose(*CELL).values
            counted = between & np.isfinite(low) & np.isfinite(high) & np.isfinite(mean)
            if not counted.any():
                continue
            without = np.full(capture.sizes["document"], np.nan)
            if by_document is not None:
                left = leave_one_out_mean(curves[statistic].transpose("document", *CELL).values)
                lower, upper = (
                    leave_one_out_mean(by_document[f"{statistic}_{side}"])
                    for side in ("lower", "upper")
                )
                without = np.array(
                    [_inside(*row, counted) for row in zip(left, lower, upper, strict=True)]
                )
            out[statistic, edition, gram] = (
                _inside(mean, low, high, counted),
                without,
                int(counted.any(axis=-1).sum()),
            )
    return out


def _inside(curve: FloatArray, low: FloatArray, high: FloatArray, counted: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        outside = (curve < low) | (curve > high)
    return float(1 - (outside & counted).sum() / counted.sum())


def _evaluated(
    groups: Groups, edition: Edition, gram: str, grid: np.ndarray
) -> dict[str, FloatArray]:
    """Bounds of every document, (document, layer, head, n)."""
    capture = groups["capture"]
    bounds = np.full(
        (len(BOUNDS), *(capture.sizes[dim] for dim in ("document", "layer", "head")), grid.size),
        np.nan,
    )
    fits = (groups["norms"], groups["similarity"])
    for layer, _, heads, model in fitted_heads(capture, *fits, gram):
        weights = document_weights(capture, layer, heads)
        own = (weights, model.norms, model.gram, grid)
        found = bounds_of_layer(capture, layer, *own, editions=[edition], names=BOUNDS)
        bounds[:, :, layer, heads] = found[0]
    return dict(zip(BOUNDS, bounds, strict=True))
