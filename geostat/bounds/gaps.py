"""How far measured curves lie from their bounds, and how surely: a document moves both, so it is
their gap that has a spread.

A *cell* is one bound (of Precision or Recall, lower or upper) of a head at one N. Imports numpy and
xarray.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from geostat.datasets.separability import BOUNDS
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.equivalence import PValues, against, mean_of_equals
from geostat.statistics.jackknife import LEVEL
from geostat.statistics.losses import mean_over_documents
from geostat.statistics.moderation import Errors
from geostat.statistics.t_test import critical_value

CODES: Final = dict(enumerate(BOUNDS))
"""The bounds that a verdict asks of, by the code under which /verdicts names them."""
SMOOTH: Final = ("recall",)
"""Statistics whose documents scatter enough for Student's t: a share of N tokens, each of which
may lie outside or not.
"""


def means_and_gaps(bounds: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Means of bounds (bound, document, ...) over documents, and standard errors of curve, same
    shape, less bound: (2, bound, ...).
    """
    return np.stack([bounds.mean(axis=1), gap_error(bounds, measured)])


def gap_error(bounds: FloatArray, curves: FloatArray) -> FloatArray:
    """Standard error over documents of curve less bound, (bound, document, ...) → (bound, ...);
    NaN with one document, and where a bound is infinite.
    """
    documents = bounds.shape[1]
    if documents == 1:
        return np.full(bounds[:, 0].shape, np.nan)
    with np.errstate(invalid="ignore"):  # the printed F is infinite where its P and R add up to 0
        return np.asarray((curves - bounds).std(axis=1, ddof=1) / np.sqrt(documents))


def standard_error(values: xr.DataArray) -> xr.DataArray:
    """Jackknife standard error of a mean over documents, which is the usual one; NaN with one
    document.
    """
    count = values.notnull().sum("document")
    return (
        values.std("document", ddof=1) / np.sqrt(count)
        if values.sizes["document"] > 1
        else values.mean("document") * np.nan
    )


def over_documents(curves: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean over documents, (document, ...) → (...), NaN left out, and its `standard_error`. Needs
    no warnings caught, which threads have in common.
    """
    known = np.isfinite(curves)
    count, mean = known.sum(axis=0), mean_over_documents(curves)
    squares = (np.where(known, curves - mean, 0.0) ** 2).sum(axis=0)
    return mean, np.sqrt(ratio(squares, count - 1.0)) / np.sqrt(np.maximum(count, 1))


def clearly_outside(envelope: xr.Dataset, statistic: str, documents: int) -> xr.DataArray:
    """Where a measured mean lies outside a bound surely, each side at 97.5%: its gap by a t-test,
    or by `mean_of_equals` where all documents agree.

    Precision, and F with it, lies close to its floor in most texts and at 1 in some: eight
    documents may all be of one kind and nearly agree. Their spread tells nothing of the other kind,
    so there the mean must pass `mean_of_equals` as well. With one document, wherever it lies
    outside.

    Of the statistic x, `envelope` holds `x`, `x_se`, `x_lower`, `x_upper` and the bounds'
    `_gap_se`, as /envelope does: means over `documents`.
    """
    mean, alike, level = envelope[statistic], envelope[f"{statistic}_se"] == 0, (1 - LEVEL) / 2
    both = documents > 1 and statistic not in SMOOTH
    critical = float(critical_value(documents - 1)) if documents > 1 else 0.0
    outside = xr.zeros_like(envelope[f"{statistic}_lower"], dtype=bool)
    for side, sign in (("lower", -1.0), ("upper", 1.0)):
        bound = envelope[f"{statistic}_{side}"]
        gap, error = sign * (mean - bound), envelope[f"{statistic}_{side}_gap_se"].fillna(0.0)
        broad_mean, broad_bound = xr.broadcast(mean, bound)
        chance = mean_of_equals(
            broad_mean.values,
            broad_bound.values,
            documents,
            "at_most" if side == "upper" else "at_least",
        ).fails
        seldom = (
            xr.DataArray(chance, dims=broad_bound.dims, coords=broad_bound.coords).transpose(
                *bound.dims
            )
            < level
        )
        surely = gap > critical * error
        beyond = (
            (seldom & surely)
            if both
            else xr.where(alike & (documents > 1), seldom & (gap > 0), surely)
        )
        outside = outside | beyond.transpose(*bound.dims)
    return outside


def laid_over(
    envelope: xr.Dataset, mean: xr.DataArray, error: xr.DataArray, documents: int
) -> dict[str, xr.DataArray]:
    """A statistic's mean over documents, its error, how far it lies outside its bounds, and
    whether clearly, by the ends of their names. `mean` has the statistic's name.
    """
    statistic = str(mean.name)
    lower, upper = (envelope[f"{statistic}_{side}"] for side in ("lower", "upper"))
    known = lower.notnull() & upper.notnull() & mean.notnull()
    excess = xr.DataArray(np.maximum(lower - mean, mean - upper)).clip(min=0).where(known)
    beside = envelope.assign({statistic: mean, f"{statistic}_se": error})
    outside = clearly_outside(beside, statistic, documents).where(known, False).astype(bool)
    parts = {"": mean, "_se": error, "_excess": excess, "_outside": outside}
    return {
        part: values.transpose(*(dim for dim in lower.dims if dim in values.dims))
        for part, values in parts.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """All cells of heads: how far the curve lies beyond the bound, its error and p-values, (layer,
    head, cell); NaN where N is 1 or T.

    `bound` (key of CODES) and `n` are those of each cell, (cell,).
    """

    excess: FloatArray
    se: FloatArray
    p: PValues
    bound: NDArray[np.int64]
    n: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deciding(Cells):
    """The cell of each head that an answer rests on, all (layer, head); `p` of *fails* is times
    `cells`, how many cells have p-values.
    """

    cells: NDArray[np.int64]


def cells(
    bounds: xr.Dataset, tokens: NDArray[np.int64], documents: float, tolerance: float
) -> Cells:
    """Test how far measured curves lie beyond their bounds, each cell for itself.

    A gap is tested by its own spread over documents, for these move curve and bound together. That
    spread tells nothing of texts unlike all of them, which may take Precision from its floor to 1;
    so an answer must pass `mean_of_equals` at the mean as well, but for *fails* by Recall, whose
    documents scatter.

    Args:
        bounds: /envelope at one edition and Gram.
        tokens: T, (layer,).
        documents: K.
        tolerance: of the excess.
    """
    sizes = bounds["n_envelope"].values
    between = (sizes > 1) & (sizes < tokens[:, None, None])
    parts = []
    for name in BOUNDS:
        statistic, _, side = name.partition("_")
        measured, se, edge, gap = (
            bounds[variable].transpose("layer", "head", "n_envelope").values
            for variable in (statistic, f"{statistic}_se", name, f"{name}_gap_se")
        )
        sign = 1.0 if side == "lower" else -1.0
        excess, error = (
            np.where(between, sign * (edge - measured), np.nan),
            np.where(between, gap, np.nan),
        )
        tested = against(excess, Errors.of_t(error, documents), tolerance, "at_most")
        unseen = mean_of_equals(
            measured,
            edge - sign * tolerance,
            documents,
            "at_least" if side == "lower" else "at_most",
        )
        alone = (se > 0) & (statistic in SMOOTH)
        fails = np.where(alone, tested.fails, np.maximum(tested.fails, unseen.fails))
        parts.append((excess, error, np.maximum(tested.holds, unseen.holds), fails))
    excess, error, p_holds, p_fails = (
        np.concatenate(arrays, axis=-1) for arrays in zip(*parts, strict=True)
    )
    bound, n = np.repeat(list(CODES), sizes.size), np.tile(sizes.astype(np.int64), len(BOUNDS))
    return Cells(excess=excess, se=error, p=PValues(holds=p_holds, fails=p_fails), bound=bound, n=n)


def deciding(all_of_them: Cells, fails: NDArray[np.bool_]) -> Deciding:
    """Return the cell that each head's answer rests on.

    Where the answer is *fails*, (layer, head), that is the cell of the smallest p-value against the
    bound's holding; elsewhere the one of the largest p-value against its failing, which has to be
    small for *holds*. Of equal ones it is the cell of largest excess.
    """
    p, excess = all_of_them.p, all_of_them.excess
    tested = np.isfinite(p.holds) & np.isfinite(p.fails)
    rank = np.where(tested, np.where(fails[..., None], -p.fails, p.holds), -np.inf)
    first = np.isfinite(excess) & (rank == rank.max(axis=-1, keepdims=True))
    decides = np.where(first, excess, -np.inf).argmax(axis=-1)

    def at(values: FloatArray) -> FloatArray:
        return np.take_along_axis(values, decides[..., None], axis=-1)[..., 0]

    count = tested.sum(axis=-1)
    own = PValues(holds=at(p.holds), fails=np.minimum(1.0, at(p.fails) * count))
    bound, n = all_of_them.bound[decides], all_of_them.n[decides]
    return Deciding(excess=at(excess), se=at(all_of_them.se), p=own, bound=bound, n=n, cells=count)
