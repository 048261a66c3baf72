"""Bounds at each document's weights, the measured curves that they bound, and the effect of ρ₀.

A bound holds for one profile of weights: it is evaluated at each document's profile and then
averaged, because a bound at the mean profile would not bound mean Precision. Source: arXiv
2602.01893, Theorems 1-2, §4.1, (14), (15), (32)-(33); erratum 30. Imports empirical, theory and
xarray.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import xarray as xr

from empirical.schema import with_f_scores
from geostat.bounds.gaps import means_and_gaps, standard_error
from geostat.bounds.head import (
    FittedHead,
    Groups,
    document_weights,
    fitted_head,
    head_by_rank,
)
from geostat.datasets.overlap import Progress, overlapped, tracked
from geostat.datasets.separability import ALL_BOUNDS, WITH_F, statistic_of
from geostat.datasets.tokens import heads_of, layer_tokens
from geostat.paper import WORKING_SIZE
from geostat.statistics.arrays import FloatArray, pieces
from theory.evaluate.choices import Choices
from theory.evaluate.envelopes import envelopes_by_edition
from theory.head.gram import LagGram
from theory.head.results import Edition

EDITIONS: Final[tuple[Edition, ...]] = ("printed", "sharp")
FITTED_GRAMS: Final = ("exponential", "offset")
RANK_GRAM: Final = "rank"
"""Gram of the amended assumptions, of each query head; in runs with /amended."""

ENVELOPE_POINTS: Final = 24
"""Default number of log-spaced sizes N of an envelope."""
BOUND_MEMORY: Final = 300
"""Numbers that the evaluation of both editions holds per profile and N.

Traced: 59 kB per profile at 24 sizes.
"""


def envelope_grid(n: np.ndarray, points: int | None = ENVELOPE_POINTS) -> np.ndarray:
    """Return `log_spaced` sizes and the paper's working sizes.

    >>> envelope_grid(np.arange(1, 1001), 4).tolist()
    [1, 2, 3, 4, 10, 100, 1000]
    """
    return np.union1d(log_spaced(n, points), n[n <= WORKING_SIZE]).astype(np.int64)


def log_spaced(n: np.ndarray, points: int | None) -> np.ndarray:
    """Return about `points` log-spaced sizes among the measured ones, with the first and the last.

    None returns all.

    >>> log_spaced(np.arange(1, 1001), 4).tolist()
    [1, 10, 100, 1000]
    """
    n = np.asarray(n, dtype=np.int64)
    if points is None or points >= len(n):
        return n
    targets = np.geomspace(n[0], n[-1], points)
    return np.unique(n[np.abs(np.log(n)[None, :] - np.log(targets)[:, None]).argmin(axis=1)])


def inner_grid(capture: xr.Dataset, points: int | None) -> np.ndarray:
    """Return about `points` log-spaced measured sizes between 1 and T, which all layers share."""
    sizes = capture["n"].values
    inner = sizes[(sizes > 1) & (sizes < capture.sizes["position"])]
    return log_spaced(inner, points) if inner.size else inner


def evaluate(
    alpha: np.ndarray,
    norms: np.ndarray,
    gram: LagGram | np.ndarray,
    dimension: int,
    grid: np.ndarray,
    *,
    editions: Sequence[Edition],
    sink: bool,
    convention: str,
) -> list[dict[str, np.ndarray]]:
    """Return the bounds of heads that share one feasible Gram: by edition, by name, (head, n).

    Only the sharp edition supports the followup convention. Printed bounds of P and R apply there
    too (their balls differ in ties only); those of F do not.

    Args:
        alpha: weights, (head, token).
        norms: norms of the values, (token,).
        gram: cosines of the values.
        grid: sizes N, (n,).
        sink: whether the first token is the sink.
        convention: "paper" or "followup".

    >>> gram, alpha = LagGram(0.5 ** np.arange(8.0)), np.full((1, 8), 1 / 8)
    >>> n, how = np.array([2, 4]), {"editions": ["sharp"], "sink": False, "convention": "paper"}
    >>> [found] = evaluate(alpha, np.ones(8), gram, 64, n, **how)
    >>> sorted(found)[:2], found["recall_lower"].shape
    (['f_inner_lower', 'f_inner_upper'], (1, 2))
    """
    followup, first = convention == "followup", 0 if sink else None
    choices: list[Choices] = [
        {
            "edition": edition,
            "sink": first,
            "convention": "followup" if followup and edition == "sharp" else "paper",
            "feasible": True,
        }
        for edition in editions
    ]
    norms = np.broadcast_to(norms, alpha.shape)
    out = []
    for bounds in envelopes_by_edition(alpha, norms, gram, dimension, grid, choices):
        by_name = {name: np.array(getattr(bounds, name)) for name in ALL_BOUNDS}
        for name, array in by_name.items():
            if followup and bounds.edition != "sharp" and name.startswith("f_"):
                array[...] = np.nan
        out.append(by_name)
    return out


def bounds_of_layer(
    capture: xr.Dataset,
    layer: int,
    weights: FloatArray,
    norms: FloatArray,
    gram: LagGram | np.ndarray,
    grid: np.ndarray,
    *,
    editions: Sequence[Edition],
    names: Sequence[str] = ALL_BOUNDS,
) -> FloatArray:
    """Return bounds at each profile of weights, (…, token) → (edition, bound, …, n).

    A profile with NaN has NaN bounds.

    Args:
        capture: /capture, for dimension, convention and visible tokens.
        weights: profiles of heads that share one KV head, (…, token).
        norms, gram, grid, editions: as of `evaluate`.
    """
    rows = weights.reshape(-1, weights.shape[-1])
    complete = np.flatnonzero(np.isfinite(rows).all(axis=-1))
    stacked = np.full((len(editions), len(names), len(rows), len(grid)), np.nan)
    sink, convention = layer_tokens(capture, layer).sink, str(capture.attrs["convention"])
    for chunk in pieces(len(complete), BOUND_MEMORY * len(grid)):
        selected = complete[chunk]
        arguments = (rows[selected], norms, gram, int(capture.attrs["dimension"]), grid)
        results = evaluate(*arguments, editions=editions, sink=sink, convention=convention)
        stacked[:, :, selected] = [[result[name] for name in names] for result in results]
    return stacked.reshape(len(editions), len(names), *weights.shape[:-1], len(grid))


FittedGroup = tuple[int, int, np.ndarray, FittedHead]
"""Layer, KV head, its query heads or one of them (all indices) and the fitted model."""


def fitted_heads(
    groups: Groups, gram: str, progress: Progress | None = None
) -> Iterator[FittedGroup]:
    """Yield the KV heads with a fitted model and with weights; by rank, single query heads."""
    capture = groups["capture"]
    kv_heads = list(np.ndindex(capture.sizes["layer"], capture.sizes["kv_head"]))
    for layer, kv_head in tracked(kv_heads, progress):
        heads = heads_of(capture, layer, kv_head)
        if gram == RANK_GRAM:
            models = [(head_by_rank(groups, layer, kv_head, int(h[0])), h) for h in heads[:, None]]
        else:
            models = [(fitted_head(groups, gram, layer, kv_head), heads)] * (heads.size > 0)
        for model, of in models:
            if model is not None:
                yield layer, kv_head, of, model


def measured_curves(capture: xr.Dataset, grid: np.ndarray, **indices: Any) -> xr.Dataset:
    """Return the four measured statistics on a grid of N, by document, in float64.

    Dims are (document, layer, head, n_envelope). `indices` selects indices by dim.
    """
    selected = capture[[name for name in WITH_F if name in capture]].isel(indices).sel(n=grid)
    return with_f_scores(selected)[list(WITH_F)].rename(n="n_envelope").astype(np.float64)


def means_and_errors(capture: xr.Dataset, grid: np.ndarray) -> tuple[xr.Dataset, xr.Dataset]:
    """Return means over documents of the measured curves, and standard errors.

    Both have dims (layer, head, n_envelope), on a grid of N.
    """
    documents, layers, heads = (capture.sizes[name] for name in ("document", "layer", "head"))
    means, errors = [], []
    for chunk in pieces(layers, documents * heads * len(grid)):
        curves = measured_curves(capture, grid, layer=chunk)
        means.append(curves.mean("document"))
        errors.append(curves.map(standard_error))
    return xr.concat(means, "layer"), xr.concat(errors, "layer")


def curve_of_each_bound(curves: xr.Dataset) -> FloatArray:
    """Return the curve of each bound, (bound, document, ...)."""
    return np.stack([curves[statistic_of(name)].values for name in ALL_BOUNDS])


def measured_bounds(
    measured_envelope: xr.Dataset,
    capture: xr.Dataset,
    editions: Sequence[Edition],
    grid: np.ndarray,
) -> FloatArray:
    """Return the bounds of the measured Gram, as captured: means over documents and errors of the
    gaps, (2, bound, edition, 1, layer, head, n).
    """
    documents, layers, heads = (capture.sizes[name] for name in ("document", "layer", "head"))
    dims = ("document", "layer", "head", "n_envelope")
    parts = []
    for chunk in pieces(layers, len(ALL_BOUNDS) * documents * heads * len(grid)):
        measured = curve_of_each_bound(measured_curves(capture, grid, layer=chunk))
        part = measured_envelope.isel(layer=chunk).reindex(n_envelope=grid)
        by_edition = [
            np.stack([part[name].sel(edition=edition).transpose(*dims) for name in ALL_BOUNDS])
            for edition in editions
        ]
        parts.append(np.stack([means_and_gaps(bounds, measured) for bounds in by_edition], axis=2))
    return np.concatenate(parts, axis=-3)[:, :, :, None]


BOUNDS = ("recall_lower", "recall_upper")


def change_with_sink_cosine(groups: Groups, *, size: int, rise: float) -> FloatArray:
    """Return the change of the printed bounds of Recall at N = `size` with ρ₀.

    ρ₀ rises from `rise`/2 below its fit to `rise`/2 above. Each head has its fitted norms and
    exponential decay and each document's weights. Bounds are clipped to [0, 1], as in Figure 5, and
    averaged over documents.

    Returns:
        (lower or upper, layer, head); NaN for a head without fits or sink, or with no more than
        `size` tokens.
    """
    capture = groups["capture"]
    out = np.full((len(BOUNDS), capture.sizes["layer"], capture.sizes["head"]), np.nan)
    fitted = list(fitted_heads(groups, "exponential"))

    def change(kv_head: FittedGroup) -> FloatArray | float:
        layer, _, group, model = kv_head
        visible, gram = layer_tokens(capture, layer), model.gram
        if not visible.sink or visible.tokens <= size or not isinstance(gram, LagGram):
            return np.nan
        weights, n = document_weights(capture, layer, group), np.array([size])
        low, high = (
            bounds_of_layer(
                *(capture, layer, weights, model.norms),
                *(replace(gram, rho0=float(np.clip(gram.rho0 + step, -1, 1))), n),
                editions=["printed"],
                names=BOUNDS,
            )[0].clip(0, 1)
            for step in (-rise / 2, rise / 2)
        )
        return (high - low)[..., 0].mean(axis=1)

    for (layer, _, group, _), changed in zip(fitted, overlapped(change, fitted), strict=True):
        out[:, layer, group] = changed
    return out
