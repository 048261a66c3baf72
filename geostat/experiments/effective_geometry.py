"""Does separability go with the loss, over N? Rank correlations of mean Precision, Recall and F
with the relative rise of the loss where every query keeps the N tokens of largest weight.

Source: arXiv 2609.37879. Over powers of two, which every search tries, so that the sizes do not
depend on where N* lies. Two curves that both fall with N have a rank correlation of 1 by that
alone. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.separability import WITH_F
from geostat.datasets.variable import Value, Variable, variables, words_along
from geostat.experiments.effective_size import Cell, rises
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import jackknife, leave_one_out_mean
from geostat.statistics.losses import mean_over_documents
from geostat.statistics.ranks import ranks

RANGES: Final = {"all": 1, "from 8": 8}
"""Ranges of N, by the smallest."""
LEAST: Final = 4
"""Sizes over which a correlation is told."""
DIMS: Final = ("mode", "statistic", "range")
VARIABLES: Final = (
    Variable(
        "rank_correlation",
        "rank correlation over N, powers of two, of a mean over heads and documents with the mean"
        " relative rise of the loss",
        symbol=r"\rho_S",
        equation="arXiv 2609.37879",
        dims=DIMS,
        estimated=True,
    ),
    Variable("sizes", "sizes N that are correlated", dims=("mode", "range")),
)


def over_sizes(
    measured: xr.Dataset, plain: FloatArray, losses: Mapping[Cell, FloatArray]
) -> xr.Dataset | None:
    """Correlate curves of a run with losses under cuts of all layers and heads by weight.

    Args:
        measured: /capture, means over queries where there are several.
        plain: losses of the model as it is, (document).
        losses: those under cuts, (document).

    Returns:
        `rank_correlation` (mode, statistic, range) and `sizes` (mode, range); the correlation is
        NaN over fewer than LEAST sizes, or where a curve is level. None where no such cut was made.
    """
    modes = list(dict.fromkeys(cell.mode for cell in losses))
    if not any(cell[:2] == ("all", "attention") for cell in losses):
        return None
    shape = (len(modes), len(WITH_F), len(RANGES))
    value, counts = np.full(shape, np.nan), np.zeros((len(modes), len(RANGES)))
    without = np.full((len(plain), *shape), np.nan)
    grid = {int(n): place for place, n in enumerate(measured["n"].values)}
    for at, mode in enumerate(modes):
        known = {c.n: row for c, row in losses.items() if c[:3] == ("all", "attention", mode)}
        rise = rises(plain, {n: row for n, row in known.items() if n in grid and _power(n)})
        for place, least in enumerate(RANGES.values()):
            chosen = [n for n in rise if n >= least]
            counts[at, place] = len(chosen)
            if len(chosen) < LEAST:
                continue
            lost = np.stack([rise[n] for n in chosen], axis=1)  # (document, n)
            for index, statistic in enumerate(WITH_F):
                curve = _curve(measured[statistic], [grid[n] for n in chosen])
                value[at, index, place] = spearman(
                    mean_over_documents(curve), mean_over_documents(lost)
                )
                without[:, at, index, place] = spearman(
                    leave_one_out_mean(curve), leave_one_out_mean(lost)
                )
    numbers: dict[str, Value] = {"rank_correlation": jackknife(value, without), "sizes": counts}
    return xr.Dataset(
        variables(VARIABLES, numbers),
        coords={
            "mode": words_along("mode", modes, "what becomes of tokens that are not kept"),
            "statistic": words_along("statistic", WITH_F, "measure of separability"),
            "range": words_along("range", RANGES, "range of N"),
        },
    )


def _power(n: int) -> bool:
    return n & (n - 1) == 0


def _curve(values: xr.DataArray, places: list[int]) -> FloatArray:
    """Return each document's mean over heads, (document, n)."""
    taken = values.isel(n=places).astype(np.float64)
    others = [name for name in taken.dims if name not in ("document", "n")]
    return taken.mean(others).transpose("document", "n").values


def spearman(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the rank correlation along the last axis; NaN where one of the two is level.

    >>> float(spearman(np.array([1.0, 2.0, 4.0]), np.array([9.0, 8.0, 1.0])))
    -1.0
    """
    a, b = (ranks(x) for x in (first, second))
    a, b = (x - x.mean(axis=-1, keepdims=True) for x in (a, b))
    return ratio((a * b).sum(axis=-1), np.sqrt((a**2).sum(axis=-1) * (b**2).sum(axis=-1)))
