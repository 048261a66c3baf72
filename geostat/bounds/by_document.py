"""Bounds evaluated at each document's own weights, and the measured curves that they bound.

A bound holds for one profile of weights, so it is evaluated at each document's and then averaged; a
bound at the mean profile would not bound mean Precision. Source: arXiv 2602.01893, Theorems 1-2.
Imports empirical, theory and xarray.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import xarray as xr

from empirical.schema import with_f_scores
from geostat.bounds.gaps import means_and_gaps, standard_error
from geostat.bounds.head import FittedHead, fitted_head
from geostat.datasets.progress import Progress, tracked
from geostat.datasets.separability import ALL_BOUNDS, WITH_F, statistic_of
from geostat.datasets.tokens import heads_of, layer_tokens
from geostat.statistics.arrays import FloatArray, pieces
from theory.evaluate.choices import Choices
from theory.evaluate.envelopes import envelopes_by_edition
from theory.head.gram import LagGram
from theory.head.results import Edition

EDITIONS: Final[tuple[Edition, ...]] = ("printed", "sharp")
FITTED_GRAMS: Final = ("exponential", "offset")

ENVELOPE_POINTS: Final = 24
"""How many sizes N an envelope is evaluated at by default."""
OF_A_BOUND: Final = 300
"""Numbers that the evaluation of both editions keeps of a profile at one N until it ends: traced,
59 kB a profile at 24 sizes.
"""


def envelope_grid(n: np.ndarray, points: int | None = ENVELOPE_POINTS) -> np.ndarray:
    """Choose about `points` log-spaced sizes among the measured ones, the first and the last
    included; None takes all.

    >>> envelope_grid(np.arange(1, 1001), 4).tolist()
    [1, 10, 100, 1000]
    """
    n = np.asarray(n, dtype=np.int64)
    if points is None or points >= len(n):
        return n
    wanted = np.geomspace(n[0], n[-1], points)
    return np.unique(n[np.abs(np.log(n)[None, :] - np.log(wanted)[:, None]).argmin(axis=1)])


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
    """Bounds of heads that share one feasible Gram, of each edition by name, each (head, n).

    Only the sharp edition knows the followup convention; there the printed bounds of P and R stand
    (their balls differ in ties only), those of F do not.

    Weights `alpha` are (head, token), `norms` of the values (token,), `gram` holds their cosines,
    `grid` sizes N, (n,); `sink` tells whether the first token is the sink, `convention` is "paper"
    or "followup".

    >>> gram, alpha = LagGram(0.5 ** np.arange(8.0)), np.full((1, 8), 1 / 8)
    >>> n, how = np.array([2, 4]), {"editions": ["sharp"], "sink": False, "convention": "paper"}
    >>> [found] = evaluate(alpha, np.ones(8), gram, 64, n, **how)
    >>> sorted(found)[:2], found["recall_lower"].shape
    (['f_inner_lower', 'f_inner_upper'], (1, 2))
    """
    followup, first = convention == "followup", 0 if sink else None
    each: list[Choices] = [
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
    for bounds in envelopes_by_edition(alpha, norms, gram, dimension, grid, each):
        one = {name: np.array(getattr(bounds, name)) for name in ALL_BOUNDS}
        if followup and bounds.edition != "sharp":
            one |= {
                name: np.full_like(array, np.nan)
                for name, array in one.items()
                if name.startswith("f_")
            }
        out.append(one)
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
    """Bounds at each profile of weights, (…, token) → (edition, bound, …, n); NaN of a profile that
    holds NaN.

    The heads share one value head, whose `norms`, (token,), and feasible `gram` are given; /capture
    tells the dimension, the convention and what the layer, by its index, sees. `grid` holds sizes
    N, (n,), `names` those of the bounds.
    """
    rows = weights.reshape(-1, weights.shape[-1])
    every = np.flatnonzero(np.isfinite(rows).all(axis=-1))
    stacked = np.full((len(editions), len(names), len(rows), len(grid)), np.nan)
    sink, convention = layer_tokens(capture, layer).sink, str(capture.attrs["convention"])
    for some in pieces(len(every), OF_A_BOUND * len(grid)):
        at = every[some]
        own = (rows[at], norms, gram, int(capture.attrs["dimension"]), grid)
        results = evaluate(*own, editions=editions, sink=sink, convention=convention)
        stacked[:, :, at] = [[result[name] for name in names] for result in results]
    return stacked.reshape(len(editions), len(names), *weights.shape[:-1], len(grid))


def fitted_heads(
    capture: xr.Dataset,
    norms: xr.Dataset,
    similarity: xr.Dataset,
    gram: str,
    progress: Progress | None = None,
) -> Iterator[tuple[int, int, np.ndarray, FittedHead]]:
    """Yield the layer, the value head, the heads that share it (indices all) and its fitted
    model, wherever there is one and they have weights.
    """
    groups = {"capture": capture, "norms": norms, "similarity": similarity}
    value_heads = list(np.ndindex(capture.sizes["layer"], capture.sizes["kv_head"]))
    for layer, kv_head in tracked(value_heads, progress):
        model = fitted_head(groups, gram, layer, kv_head)
        heads = heads_of(capture, layer, kv_head)
        if model is not None and heads.size:
            yield layer, kv_head, heads, model


def measured_curves(capture: xr.Dataset, grid: np.ndarray, **place: Any) -> xr.Dataset:
    """The four measured statistics on a grid of N, by document: dims (document, layer, head,
    n_envelope), float64; at a `place` (indices by dim) only, if given.
    """
    held = capture[[name for name in WITH_F if name in capture]].isel(place).sel(n=grid)
    return with_f_scores(held)[list(WITH_F)].rename(n="n_envelope").astype(np.float64)


def means_and_errors(capture: xr.Dataset, grid: np.ndarray) -> tuple[xr.Dataset, xr.Dataset]:
    """Means over documents of the measured curves on a grid of N, (layer, head, n_envelope), and
    their standard errors.
    """
    documents, layers, heads = (capture.sizes[name] for name in ("document", "layer", "head"))
    means, errors = [], []
    for some in pieces(layers, documents * heads * len(grid)):
        curves = measured_curves(capture, grid, layer=some)
        means.append(curves.mean("document"))
        errors.append(curves.map(standard_error))
    return xr.concat(means, "layer"), xr.concat(errors, "layer")


def curve_of_each_bound(curves: xr.Dataset) -> FloatArray:
    """The curve that each bound bounds: (bound, document, ...)."""
    return np.stack([curves[statistic_of(name)].values for name in ALL_BOUNDS])


def measured_bounds(
    measured_envelope: xr.Dataset,
    capture: xr.Dataset,
    editions: Sequence[Edition],
    grid: np.ndarray,
) -> FloatArray:
    """Return what is kept of the measured Gram's bounds, as captured: their means over documents,
    errors of the measured gaps, and NaN for those of drawn ones, (3, bound, edition, 1, layer,
    head, n).
    """
    documents, layers, heads = (capture.sizes[name] for name in ("document", "layer", "head"))
    dims = ("document", "layer", "head", "n_envelope")
    parts = []
    for some in pieces(layers, len(ALL_BOUNDS) * documents * heads * len(grid)):
        measured = curve_of_each_bound(measured_curves(capture, grid, layer=some))
        one = measured_envelope.isel(layer=some).reindex(n_envelope=grid)
        each = [
            np.stack([one[name].sel(edition=edition).transpose(*dims) for name in ALL_BOUNDS])
            for edition in editions
        ]
        parts.append(np.stack([means_and_gaps(bounds, measured) for bounds in each], axis=2))
    known = np.concatenate(parts, axis=-3)[:, :, :, None]
    return np.concatenate([known, np.full_like(known[:1], np.nan)])
