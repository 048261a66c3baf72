"""Bounds against measurement: the envelopes of each head from fitted and measured Grams, and whether the measured curves lie inside.

A bound holds for one profile of weights, so every bound is evaluated at each document's own weights and then averaged; a bound at the mean profile would
not bound mean Precision. Source: arXiv 2602.01893, Theorems 1-2 and Corollary 1. Imports theory; datasets are those of /capture and the fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import xarray as xr

from empirical.layout import GroupPlan
from empirical.observing import LayerView, RunShape
from empirical.schema import Coordinate, Variable, with_f_scores
from geostat.errors import InputError
from geostat.fitting import heads_of
from geostat.gaps import beyond, means_and_gaps, standard_error
from theory.evaluate import envelopes
from theory.fast import WorkArrays
from theory.gram import LagGram, offset_exponential, project
from theory.results import Edition

EDITIONS: Final[tuple[Edition, ...]] = ("printed", "sharp")
FITTED_GRAMS: Final = ("exponential", "offset")
MEASURED: Final = "measured"
STATISTICS: Final = ("precision", "recall", "f_outer", "f_inner")
SIDES: Final = ("lower", "upper")
ENVELOPE_POINTS: Final = 24
"""How many sizes N an envelope is evaluated at by default."""

BOUND_NAMES: Final = tuple(f"{statistic}_{side}" for statistic in STATISTICS for side in SIDES)
_SYMBOLS: Final = {
    "precision": r"\mathbb{E}P",
    "recall": r"\mathbb{E}R",
    "f_outer": r"\mathbb{E}F(r_{\max})",
    "f_inner": r"\mathbb{E}F(r_{\min})",
}
_EQUATIONS: Final = {"precision": "(12)-(13)", "recall": "(14)-(15)", "f_outer": "(17)", "f_inner": "(16)"}
_GRAMS: Final = WorkArrays()


def envelope_grid(n: np.ndarray, points: int | None = ENVELOPE_POINTS) -> np.ndarray:
    """Choose about `points` log-spaced sizes among the measured ones, the first and the last included; None takes all."""
    n = np.asarray(n, dtype=np.int64)
    if points is None or points >= len(n):
        return n
    wanted = np.geomspace(n[0], n[-1], points)
    return np.unique(n[np.abs(np.log(n)[None, :] - np.log(wanted)[:, None]).argmin(axis=1)])


def bound_attributes(name: str) -> dict[str, Any]:
    """Attributes of a bound's variable, by name such as `precision_lower`."""
    statistic, side = name.rsplit("_", 1)
    return {
        "long_name": f"{side} bound on expected {statistic.replace('_', ' ')}",
        "units": "1",
        "symbol": _SYMBOLS[statistic],
        "equation": _EQUATIONS[statistic],
    }


def gap_attributes(name: str) -> dict[str, Any]:
    """Attributes of the standard error of a curve less its bound."""
    about = bound_attributes(name)
    return about | {"long_name": f"standard error over documents of the measured value less the {about['long_name']}", "symbol": ""}


@dataclass(frozen=True, slots=True)
class MeasuredEnvelope:
    """An observer: bounds from each head's own Gram of cosines, which is too large to store."""

    points: int | None = ENVELOPE_POINTS
    group: ClassVar[str] = "measured_envelope"

    def plan(self, shape: RunShape) -> GroupPlan:
        """Lay out /measured_envelope (layer, edition, head, n_envelope)."""
        grid = envelope_grid(shape.n, self.points)
        coordinates = shape.coordinates("layer", "head") | {
            "edition": Coordinate(dims=("edition",), values=np.array(EDITIONS), long_name="edition of the theory"),
            "n_envelope": Coordinate(dims=("n_envelope",), values=grid, long_name="selected tokens N"),
        }
        dims = ("layer", "edition", "head", "n_envelope")
        variables = {name: Variable(dims=dims, **bound_attributes(name)) for name in BOUND_NAMES}
        return GroupPlan(
            variables=variables, coordinates=coordinates, sizes=shape.sizes() | {"edition": len(EDITIONS), "n_envelope": len(grid)}
        )

    def __call__(self, view: LayerView) -> dict[str, np.ndarray]:
        """Evaluate the bounds of one layer of one document at its own Gram."""
        grid = envelope_grid(view.shape.n, self.points)
        values = view.values.double().numpy()
        alpha = view.alpha.double().numpy()
        group = view.shape.heads // view.shape.kv_heads
        found = {name: np.full((len(EDITIONS), view.shape.heads, len(grid)), np.nan, dtype=np.float32) for name in BOUND_NAMES}
        for kv_head in range(view.shape.kv_heads):
            heads = slice(kv_head * group, (kv_head + 1) * group)
            norms = np.linalg.norm(values[kv_head], axis=1)
            directions = values[kv_head] / np.where(norms > 0, norms, 1.0)[:, None]
            gram = np.matmul(directions, directions.T, out=_GRAMS.take(len(norms)))
            np.fill_diagonal(gram, 1.0)
            for index, edition in enumerate(EDITIONS):
                bounds = evaluate(
                    alpha[heads],
                    norms,
                    gram,
                    view.shape.dimension,
                    grid,
                    edition=edition,
                    sink=view.sink,
                    convention=view.shape.convention.value,
                )
                for name in BOUND_NAMES:
                    found[name][index, heads] = bounds[name]
            _GRAMS.give_back([gram])
        return found


def evaluate(
    alpha: np.ndarray,
    norms: np.ndarray,
    gram: LagGram | np.ndarray,
    dimension: int,
    grid: np.ndarray,
    *,
    edition: Edition,
    sink: bool,
    convention: str,
) -> dict[str, np.ndarray]:
    """Bounds of heads that share one feasible Gram, by name, each (head, n).

    Only the sharp edition knows the followup convention; there the printed bounds of P and R stand (their balls differ in ties only), those of F do not.
    """
    followup = convention == "followup"
    bounds = envelopes(
        alpha,
        np.broadcast_to(norms, alpha.shape),
        gram,
        dimension,
        grid,
        edition=edition,
        sink=0 if sink else None,
        convention="followup" if followup and edition == "sharp" else "paper",
        feasible=True,
    )
    found = {name: np.array(getattr(bounds, name)) for name in BOUND_NAMES}
    if followup and edition != "sharp":
        for name in BOUND_NAMES:
            if name.startswith("f_"):
                found[name][...] = np.nan
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedHead:
    """What the fits say of one kv_head: norms C and λC, and a Gram, moved to the nearest feasible one where the fit has none."""

    scale: float
    ratio: float
    gram: LagGram | np.ndarray
    projected: bool
    distance: float

    def norms(self, tokens: int, *, sink: bool) -> np.ndarray:
        """Assumption 1's norms of the visible tokens, shape (token,), in units of value norm."""
        norms = np.full(tokens, self.scale)
        if sink:
            norms[0] *= self.ratio
        return norms


def fitted_head(capture: xr.Dataset, norms: xr.Dataset, similarity: xr.Dataset, gram: str, layer: int, kv_head: int) -> FittedHead | None:
    """Assemble the fitted model of one kv_head; None where a fit has no estimate.

    A pair of decay and ρ₀ for which no vectors exist is moved to the feasible edge and flagged `projected` (erratum 9).
    """
    norm = norms.isel(layer=layer, kv_head=kv_head)
    fit = similarity.sel(gram=gram).isel(layer=layer, kv_head=kv_head)
    tokens = int(capture["tokens"].values[layer])
    sink = bool(capture["sink_visible"].values[layer])
    beta, offset, scale = float(fit["beta"]), float(fit["offset"]), float(norm["C"])
    rho0 = float(fit["rho0"]) if sink else 0.0
    ratio = float(norm["lam"]) if sink else 1.0
    if not np.all(np.isfinite([beta, offset, scale, rho0, ratio])):
        return None
    asked = offset_exponential(beta, offset, rho0, tokens) if beta > 0 else LagGram(np.ones(tokens), rho0)
    found = project(asked, tokens, sink=0 if sink else None)
    return FittedHead(scale=scale, ratio=ratio, gram=found.gram, projected=found.kind != "none", distance=found.distance)


def confront(
    tree: xr.DataTree,
    *,
    editions: Sequence[Edition] = EDITIONS,
    grams: Sequence[str] = FITTED_GRAMS,
    points: int | None = ENVELOPE_POINTS,
    progress: Callable[[float], None] | None = None,
) -> xr.Dataset:
    """Lay the bounds of every head over its measured curves.

    Args:
        tree: a run with /capture, /norms, /similarity and, for the measured Gram, /measured_envelope.
        editions: editions of the theory.
        grams: fitted Grams; the measured one is added when the run holds it.
        points: about how many log-spaced sizes N; None takes all.
        progress: called with the share of the work done.

    Returns:
        /envelope: bounds (edition, gram, layer, head, n_envelope), averaged over documents, each at its own weights; the measured curves with
        document jackknife errors; `excess` and `outside` by statistic; `projected` (gram, layer, kv_head). The measured Gram's bounds are known at
        the sizes at which they were captured, NaN at others.

    Raises:
        InputError: for an edition that is not laid over curves.
    """
    capture, norms, similarity = (tree[name].to_dataset() for name in ("capture", "norms", "similarity"))
    grid = envelope_grid(capture["n"].values, points)
    unknown = [edition for edition in editions if edition not in EDITIONS]
    if unknown:
        raise InputError(f"edition {unknown[0]!r}: expected one of {', '.join(EDITIONS)}. Name one of those.")
    measured_too = "measured_envelope" in tree
    names = [*grams, *([MEASURED] if measured_too else [])]
    layers, heads = capture.sizes["layer"], capture.sizes["head"]
    curves = measured_curves(capture, grid)
    bounds = np.full((2, len(BOUND_NAMES), len(editions), len(names), layers, heads, len(grid)), np.nan)  # their means, errors of the gaps
    moved = np.zeros((len(grams), layers, capture.sizes["kv_head"]), dtype=bool)
    distance = np.zeros(moved.shape)
    work = list(np.ndindex(len(grams), layers, capture.sizes["kv_head"]))
    for step, (index, layer, kv_head) in enumerate(work):
        model, of_group = fitted_head(capture, norms, similarity, names[index], layer, kv_head), heads_of(capture, layer, kv_head)
        if model is not None and of_group.size:
            moved[index, layer, kv_head], distance[index, layer, kv_head] = model.projected, model.distance
            for place, edition in enumerate(editions):
                found = _bounds_by_document(capture, model, layer, of_group, grid, edition)
                bounds[:, :, place, index, layer, of_group] = means_and_gaps(found, _of_each_bound(curves.isel(layer=layer, head=of_group)))
        if progress is not None:
            progress((step + 1) / len(work))
    if measured_too:
        own = (
            tree["measured_envelope"].to_dataset().reindex(n_envelope=grid).transpose("document", "edition", "layer", "head", "n_envelope")
        )
        for place, edition in enumerate(editions):
            found = np.stack([own[name].sel(edition=edition).values for name in BOUND_NAMES])
            bounds[:, :, place, -1] = means_and_gaps(found, _of_each_bound(curves))
    return _dataset(capture, bounds, moved, distance, editions=editions, names=names, grid=grid)


def _bounds_by_document(
    capture: xr.Dataset, model: FittedHead, layer: int, heads: np.ndarray, grid: np.ndarray, edition: Edition
) -> np.ndarray:
    """Bounds of one group of heads at each document's own weights: (bound, document, head, n)."""
    tokens = int(capture["tokens"].values[layer])
    sink = bool(capture["sink_visible"].values[layer])
    weights = capture["attention_weight"].values[:, layer, heads, -tokens:].astype(np.float64)
    documents, count = weights.shape[:2]
    found = evaluate(
        weights.reshape(documents * count, tokens),
        model.norms(tokens, sink=sink),
        model.gram,
        int(capture.attrs["dimension"]),
        grid,
        edition=edition,
        sink=sink,
        convention=str(capture.attrs["convention"]),
    )
    return np.stack([found[name] for name in BOUND_NAMES]).reshape(len(BOUND_NAMES), documents, count, len(grid))


def _of_each_bound(curves: xr.Dataset) -> np.ndarray:
    """The curve that each bound bounds: (bound, document, ...)."""
    return np.stack([curves[name.rpartition("_")[0]].values for name in BOUND_NAMES])


def measured_curves(capture: xr.Dataset, grid: np.ndarray) -> xr.Dataset:
    """The four measured statistics on a grid of N, by document: dims (document, layer, head, n_envelope), float64."""
    return with_f_scores(capture)[list(STATISTICS)].sel(n=grid).rename(n="n_envelope").astype(np.float64)


def _dataset(
    capture: xr.Dataset,
    bounds: np.ndarray,
    moved: np.ndarray,
    distance: np.ndarray,
    *,
    editions: Sequence[Edition],
    names: Sequence[str],
    grid: np.ndarray,
) -> xr.Dataset:
    dims = ("edition", "gram", "layer", "head", "n_envelope")
    found = xr.Dataset(
        {name: (dims, bounds[0, index], bound_attributes(name)) for index, name in enumerate(BOUND_NAMES)}
        | {f"{name}_gap_se": (dims, bounds[1, index], gap_attributes(name)) for index, name in enumerate(BOUND_NAMES)},
        coords={
            "edition": ("edition", np.array(editions, dtype=object), {"long_name": "edition of the theory"}),
            "gram": ("gram", np.array(names, dtype=object), {"long_name": "Gram matrix of the values"}),
            "layer": capture["layer"],
            "head": capture["head"],
            "kv_head_of_head": capture["kv_head_of_head"],
            "n_envelope": ("n_envelope", grid, {"long_name": "selected tokens N", "units": "tokens"}),
        },
    )
    kv_dims = ("fitted_gram", "layer", "kv_head")
    fitted = [name for name in names if name != MEASURED]
    found = found.assign_coords(fitted_gram=("fitted_gram", np.array(fitted, dtype=object), {"long_name": "fitted Gram matrix"}))
    found["projected"] = (
        kv_dims,
        moved,
        {"long_name": "fitted Gram is infeasible and was moved", "units": "1", "symbol": "", "equation": "Assumption 2"},
    )
    found["projection_distance"] = (
        kv_dims,
        distance,
        {"long_name": "how far the Gram was moved", "units": "1", "symbol": r"|\Delta\rho_0|", "equation": "Assumption 2"},
    )
    measured = measured_curves(capture, grid)
    documents = measured.sizes["document"]
    for statistic in STATISTICS:
        mean, error = measured[statistic].mean("document"), standard_error(measured[statistic])
        attrs = {"units": "1", "symbol": _SYMBOLS[statistic].removeprefix(r"\mathbb{E}"), "equation": _EQUATIONS[statistic]}
        found[statistic] = mean.assign_attrs(long_name=f"measured {statistic.replace('_', ' ')}, mean over documents", **attrs)
        found[f"{statistic}_se"] = error.assign_attrs(long_name=f"standard error over documents of {statistic.replace('_', ' ')}", **attrs)
        excess = xr.DataArray(np.maximum(found[f"{statistic}_lower"] - mean, mean - found[f"{statistic}_upper"]))
        known = found[f"{statistic}_lower"].notnull() & found[f"{statistic}_upper"].notnull() & mean.notnull()
        found[f"{statistic}_excess"] = (
            excess.clip(min=0)
            .where(known)
            .assign_attrs(attrs | {"long_name": f"how far measured {statistic.replace('_', ' ')} lies outside its bounds"})
        )
        outside = beyond(found, statistic, documents).where(known, False)
        found[f"{statistic}_outside"] = outside.astype(bool).assign_attrs(
            attrs | {"long_name": f"measured {statistic.replace('_', ' ')} lies clearly outside its bounds (tests of the gap at 95%)"}
        )
    found.attrs = {
        "long_name": "bounds against measurement",
        "documents": measured.sizes["document"],
        "averaging": "each bound at each document's own weights, then averaged over documents",
    }
    return found.drop_vars([name for name in found.coords if name not in {*dims, *kv_dims, "kv_head_of_head"}])
