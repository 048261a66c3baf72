"""Calibration of a coverage: the share of curves inside their bounds that heads drawn from Model G
have, at the very weights, norms and Gram that the bounds are evaluated at.

A bound holds for an expectation; a curve measured on a few documents scatters about it. So even
where every assumption is true a coverage is not 100%. For each document and each kv_head one set of
values is drawn, shared by its heads as real values are; from there on a drawn curve is treated as a
measured one is. Source: Model G is that of `theory.audit.simulate`; the error of a share over heads
that share values is the ratio estimator's over clusters (Cochran 1977, "Sampling Techniques",
§9A.2). Imports theory, numpy and xarray.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import xarray as xr

from geostat.bounds.head import FittedHead
from geostat.datasets.separability import WITH_F
from geostat.datasets.tokens import layer_tokens
from geostat.statistics.arrays import FloatArray
from theory.arrays import selection_order
from theory.audit.simulate import AS_AUDITED, AUDITED, draw_directions, separability_of_draws
from theory.head.results import Convention

AT_ONCE: Final = 2**17
"""Numbers of contributions compared at once, at most, but for one document's: they stay in the
processor's cache.
"""


def drawn_curves(
    capture: xr.Dataset,
    layer: int,
    weights: FloatArray,
    model: FittedHead,
    grid: np.ndarray,
    seed: int,
) -> FloatArray:
    """Return the statistics of one draw from Model G a document, (statistic of WITH_F, document,
    head, n); NaN from N = T on, and where weights are unknown.

    `weights`, (document, head, token), are those of the heads of one value head of the layer (an
    index), whose fitted norms and Gram `model` holds; `grid` holds sizes N, (n,).
    """
    documents, heads, tokens = weights.shape
    convention: Convention = "followup" if capture.attrs["convention"] == "followup" else "paper"
    kept = [AUDITED.index(name) for name in AS_AUDITED[convention]]
    sizes, at = np.unique(grid[grid < tokens], return_inverse=True)
    out = np.full((len(WITH_F), documents, heads, len(grid)), np.nan)
    sink, d = 0 if layer_tokens(capture, layer).sink else None, int(capture.attrs["dimension"])
    below, step, first = np.flatnonzero(grid < tokens), max(1, AT_ONCE // (tokens * d)), 0
    for directions in draw_directions(model.gram, tokens, d, documents, seed, sink=sink):
        values = directions * model.norms[:, None, None]
        some = slice(first, first + values.shape[1])
        for head in range(heads):
            known = np.flatnonzero(np.isfinite(weights[some, head]).all(axis=-1))
            for few in np.split(known, range(step, len(known), step)):
                alpha = weights[first + few, head]
                y = values[:, few] * alpha.T[:, :, None]
                seen = separability_of_draws(y, selection_order(alpha), sizes)[kept][:, at]
                out[:, (first + few)[:, None], head, below] = seen.transpose(0, 2, 1)
        first = some.stop
    return out


def clustered_share(
    true: xr.DataArray, counted: xr.DataArray, cluster: np.ndarray
) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the share of the counted cells that are true, and its standard error over clusters.

    Args:
        true: (..., layer, head, n_envelope); false where not counted. A difference of two such, 1,
            0 or -1, gives the difference of the shares.
        counted: the same.
        cluster: kv_head of each head, (head,); heads of one kv_head in a layer are one cluster.

    Returns:
        Both over the other dims; the error is NaN with fewer than two clusters.
    """
    hits, cells = (
        cells_of.astype(np.float64)
        .sum("n_envelope")
        .assign_coords(cluster=("head", cluster))
        .groupby("cluster")
        .sum()
        .stack(place=("layer", "cluster"))
        for cells_of in (true, counted)
    )
    total = cells.sum("place")
    share = hits.sum("place") / total.where(total > 0)
    clusters = (cells > 0).sum("place")
    squares = ((hits - share * cells) ** 2).sum("place")
    error = (squares * clusters / (clusters - 1).where(clusters > 1)) ** 0.5 / total
    return share, error
