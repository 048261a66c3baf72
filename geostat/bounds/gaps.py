"""Gaps between measured curves and bounds, their tests, and calibration by drawn curves.

Curve and bound both vary with the document; their gap is tested by its spread over documents. A
*cell* is one bound (of Precision or Recall, lower or upper) of a head at one N.

A bound holds for an expectation; a curve measured on a few documents scatters about it, and
coverage is below 100% even if all assumptions are true. For calibration, one set of values is drawn
from Model G for each document and KV head, at the weights, norms and Gram of the bounds; query
heads of a KV head share it, as they share real values. A drawn curve is then treated like a
measured one. Source: Model G is that of `theory.evaluate.simulate`; the error of a share over heads
that share values is the ratio estimator's over clusters (Cochran 1977, "Sampling Techniques",
§9A.2). Imports theory, numpy and xarray.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from geostat.bounds.head import FittedHead
from geostat.datasets.separability import BOUNDS, WITH_F
from geostat.datasets.tokens import layer_tokens
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.equivalence import PValues, Side, against, mean_of_equals
from geostat.statistics.jackknife import LEVEL
from geostat.statistics.losses import mean_over_documents
from geostat.statistics.moderation import Errors
from geostat.statistics.t_test import critical_value
from theory.arrays import selection_order
from theory.evaluate.simulate import AS_AUDITED, AUDITED, draw_directions, separability_of_draws
from theory.head.results import Convention

CODES: Final = dict(enumerate(BOUNDS))
"""Bounds that a verdict tests, by their code in /verdicts."""
SMOOTH: Final = ("recall",)
"""Statistics whose documents scatter enough for Student's t.

Recall is a share of N tokens, each of which may lie inside or outside.
"""


def means_and_gaps(bounds: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Return means of bounds over documents, and standard errors of curve − bound: (2, bound, ...).

    `bounds` and `measured` have shape (bound, document, ...).
    """
    return np.stack([bounds.mean(axis=1), gap_error(bounds, measured)])


def gap_error(bounds: FloatArray, curves: FloatArray) -> FloatArray:
    """Return the standard error over documents of curve − bound.

    Shape (bound, document, ...) → (bound, ...); NaN with one document, and where a bound is
    infinite.
    """
    documents = bounds.shape[1]
    if documents == 1:
        return np.full(bounds[:, 0].shape, np.nan)
    with np.errstate(invalid="ignore"):  # the printed F is infinite where P + R = 0
        return np.asarray((curves - bounds).std(axis=1, ddof=1) / np.sqrt(documents))


def standard_error(values: xr.DataArray) -> xr.DataArray:
    """Return the standard error of a mean over documents, which equals its jackknife.

    NaN with one document.
    """
    count = values.notnull().sum("document")
    return (
        values.std("document", ddof=1) / np.sqrt(count)
        if values.sizes["document"] > 1
        else values.mean("document") * np.nan
    )


def over_documents(curves: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean over documents, ignoring NaN, and its `standard_error`.

    Shape (document, ...) → (...). It needs no `catch_warnings`, which is not thread-safe.
    """
    known = np.isfinite(curves)
    count, mean = known.sum(axis=0), mean_over_documents(curves)
    squares = (np.where(known, curves - mean, 0.0) ** 2).sum(axis=0)
    return mean, np.sqrt(ratio(squares, count - 1.0)) / np.sqrt(np.maximum(count, 1))


def clearly_outside(
    envelope: xr.Dataset, mean: xr.DataArray, error: xr.DataArray, documents: int
) -> xr.DataArray:
    """Return where a measured mean lies significantly outside a bound, each side at 97.5%.

    The gap is tested by a t-test, or by `mean_of_equals` where all documents agree. Precision, and
    F with it, is near its floor in most texts and 1 in some: eight documents may all be of one kind
    and nearly agree, and their spread does not cover the other kind. Precision and F must therefore
    pass `mean_of_equals` as well. With one document, every mean outside a bound counts. Arguments
    are those of `compare_with_bounds`.
    """
    statistic, all_equal, level = str(mean.name), error == 0, (1 - LEVEL) / 2
    both_tests = documents > 1 and statistic not in SMOOTH
    critical = float(critical_value(documents - 1)) if documents > 1 else 0.0
    outside = xr.zeros_like(envelope[f"{statistic}_lower"], dtype=bool)
    for side, sign in (("lower", -1.0), ("upper", 1.0)):
        bound = envelope[f"{statistic}_{side}"]
        gap, error = sign * (mean - bound), envelope[f"{statistic}_{side}_gap_se"].fillna(0.0)
        mean_of_bound, bound_of_mean = xr.broadcast(mean, bound)
        p_equal = mean_of_equals(
            *(mean_of_bound.values, bound_of_mean.values, documents),
            "at_most" if side == "upper" else "at_least",
        ).fails
        rejected = bound_of_mean.copy(data=p_equal) < level
        t_outside = gap > critical * error
        outside_side = (
            (rejected & t_outside)
            if both_tests
            else xr.where(all_equal & (documents > 1), rejected & (gap > 0), t_outside)
        )
        outside = outside | outside_side.transpose(*bound.dims)
    return outside


def compare_with_bounds(
    envelope: xr.Dataset, mean: xr.DataArray, error: xr.DataArray, documents: int
) -> dict[str, xr.DataArray]:
    """Return a statistic's mean, error, excess over its bounds and significance, by name suffix.

    `mean` is over documents and has the statistic's name; `envelope` holds its bounds and their
    errors, `_gap_se`.
    """
    statistic = str(mean.name)
    lower, upper = (envelope[f"{statistic}_{side}"] for side in ("lower", "upper"))
    known = lower.notnull() & upper.notnull() & mean.notnull()
    excess = xr.DataArray(np.maximum(lower - mean, mean - upper)).clip(min=0).where(known)
    outside = clearly_outside(envelope, mean, error, documents).where(known, False).astype(bool)
    parts = {"": mean, "_se": error, "_excess": excess, "_outside": outside}
    return {
        part: values.transpose(*(dim for dim in lower.dims if dim in values.dims))
        for part, values in parts.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """All cells of heads: excess of the curve beyond the bound, its error and p-values.

    Arrays have shape (layer, head, cell), NaN where N is 1 or T; `bound` (key of CODES) and `n`
    have shape (cell,).
    """

    excess: FloatArray
    se: FloatArray
    p: PValues
    bound: NDArray[np.int64]
    n: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deciding(Cells):
    """The decisive cell of each head, (layer, head).

    `cells` is the number of cells with p-values; `p` of *fails* is multiplied by it.
    """

    cells: NDArray[np.int64]


def cells(
    bounds: xr.Dataset, tokens: NDArray[np.int64], documents: float, tolerance: float
) -> Cells:
    """Test each cell for how far the measured curve lies beyond its bound.

    A gap is tested by its spread over documents, because curve and bound vary together. That spread
    does not cover other kinds of text, which may take Precision from its floor to 1. An answer must
    therefore also pass `mean_of_equals` at the mean; *fails* by Recall, whose documents scatter, is
    exempt.

    Args:
        bounds: /envelope at one edition and Gram.
        tokens: T, (layer,).
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
        excess = np.where(between, sign * (edge - measured), np.nan)
        error = np.where(between, gap, np.nan)
        tested = against(excess, Errors.of_t(error, documents), tolerance, "at_most")
        side_of_edge: Side = "at_least" if side == "lower" else "at_most"
        other_texts = mean_of_equals(measured, edge - sign * tolerance, documents, side_of_edge)
        t_suffices = (se > 0) & (statistic in SMOOTH)
        fails = np.where(t_suffices, tested.fails, np.maximum(tested.fails, other_texts.fails))
        parts.append((excess, error, np.maximum(tested.holds, other_texts.holds), fails))
    excess, error, p_holds, p_fails = (
        np.concatenate(arrays, axis=-1) for arrays in zip(*parts, strict=True)
    )
    bound, n = np.repeat(list(CODES), sizes.size), np.tile(sizes.astype(np.int64), len(BOUNDS))
    return Cells(excess=excess, se=error, p=PValues(holds=p_holds, fails=p_fails), bound=bound, n=n)


def deciding(tests: Cells, fails: NDArray[np.bool_]) -> Deciding:
    """Return the decisive cell of each head.

    If the answer is *fails*, (layer, head), it is the cell with the smallest p-value of *fails*;
    otherwise the cell with the largest p-value of *holds*, which has to be small for *holds*. Among
    ties it is the cell with the largest excess.
    """
    p, excess = tests.p, tests.excess
    tested = np.isfinite(p.holds) & np.isfinite(p.fails)
    rank = np.where(tested, np.where(fails[..., None], -p.fails, p.holds), -np.inf)
    candidates = np.isfinite(excess) & (rank == rank.max(axis=-1, keepdims=True))
    index = np.where(candidates, excess, -np.inf).argmax(axis=-1)

    def at_decisive(values: FloatArray) -> FloatArray:
        return np.take_along_axis(values, index[..., None], axis=-1)[..., 0]

    count = tested.sum(axis=-1)
    return Deciding(
        excess=at_decisive(excess),
        se=at_decisive(tests.se),
        p=PValues(holds=at_decisive(p.holds), fails=np.minimum(1.0, at_decisive(p.fails) * count)),
        bound=tests.bound[index],
        n=tests.n[index],
        cells=count,
    )


BATCH_NUMBERS: Final = 2**17
"""Maximum number of contributions compared in a batch, which fits the processor's cache.

A single document may exceed it.
"""


def drawn_curves(
    capture: xr.Dataset,
    layer: int,
    weights: FloatArray,
    model: FittedHead,
    grid: np.ndarray,
    seed: int,
) -> FloatArray:
    """Return the statistics of one draw from Model G per document.

    Args:
        weights: weights of the heads of one KV head, (document, head, token).
        model: fitted norms and Gram of the KV head.
        grid: sizes N, (n,).

    Returns:
        (statistic of WITH_F, document, head, n); NaN for N ≥ T, and where weights are unknown.
    """
    documents, heads, tokens = weights.shape
    convention: Convention = "followup" if capture.attrs["convention"] == "followup" else "paper"
    audited = [AUDITED.index(name) for name in AS_AUDITED[convention]]
    sizes, size_index = np.unique(grid[grid < tokens], return_inverse=True)
    out = np.full((len(WITH_F), documents, heads, len(grid)), np.nan)
    sink, d = 0 if layer_tokens(capture, layer).sink else None, int(capture.attrs["dimension"])
    below, step, first = np.flatnonzero(grid < tokens), max(1, BATCH_NUMBERS // (tokens * d)), 0
    for directions in draw_directions(
        model.gram, tokens, d, documents, seed, sink=sink, triangular=model.by_rank
    ):
        values = directions * model.norms[:, None, None]
        chunk = slice(first, first + values.shape[1])
        for head in range(heads):
            known = np.flatnonzero(np.isfinite(weights[chunk, head]).all(axis=-1))
            for batch in np.split(known, range(step, len(known), step)):
                alpha = weights[first + batch, head]
                y = values[:, batch] * alpha.T[:, :, None]
                statistics = separability_of_draws(y, selection_order(alpha), sizes)[audited][
                    :, size_index
                ]
                out[:, (first + batch)[:, None], head, below] = statistics.transpose(0, 2, 1)
        first = chunk.stop
    return out


def clustered_mean(
    total_of_head: xr.DataArray, cells_of_head: xr.DataArray, cluster: np.ndarray
) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray]:
    """Return the mean over cells, its standard error over clusters, and the number of clusters.

    Args:
        total_of_head: sum over the counted cells of each head, (..., layer, head): of 1 where a
            cell is inside, for a share; of a number, for a mean.
        cells_of_head: number of cells that count, same dims.
        cluster: KV head of each head, (head,); heads of one KV head in a layer are one cluster.

    Returns:
        All over the other dims; the error is NaN with fewer than two clusters.
    """
    hits, cells = (
        of_head.astype(np.float64)
        .assign_coords(cluster=("head", cluster))
        .groupby("cluster")
        .sum()
        .stack(place=("layer", "cluster"))
        for of_head in (total_of_head, cells_of_head)
    )
    total = cells.sum("place")
    share = hits.sum("place") / total.where(total > 0)
    clusters = (cells > 0).sum("place")
    squares = ((hits - share * cells) ** 2).sum("place")
    error = (squares * clusters / (clusters - 1).where(clusters > 1)) ** 0.5 / total
    return share, error, clusters
