"""Fit of cosine similarity, Assumption 2: cosines of content values decay with the lag, and the
sink's cosine with every token is a constant ρ₀.

Source: arXiv 2602.01893, §3.2, eq. (6), Assumption 2, Figure 3. Each value head is fitted with
e^{−βk} and its rivals (`geostat.fits.similarity.forms`), to the document mean of the mean cosine by
lag, lags weighted by their pairs; rivals are chosen by left-out loss
(`geostat.statistics.one_standard_error`). Cosines that no vectors have are told by `feasible`,
nothing is clipped. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.flags import combined
from geostat.datasets.overlap import overlapped
from geostat.datasets.progress import Progress, part_of, tracked
from geostat.datasets.tokens import LayerTokens, layer_tokens, require
from geostat.datasets.variable import Value, join, sink_flag, variables, words_along
from geostat.fits.similarity.drift import Blocks, drift, sink_cosines
from geostat.fits.similarity.feasible import feasible_edges
from geostat.fits.similarity.forms import FORM, FORMS, PARAMETERS
from geostat.fits.similarity.one_form import (
    Cosines,
    Fit,
    Outcome,
    chosen_form,
    fit_form,
    replicate_trouble,
    saturated,
)
from geostat.fits.similarity.pairs import (
    Bins,
    chance_by_lag,
    chance_by_pair,
    mae_by_pair,
    negative_share,
    pairs_by_lag,
)
from geostat.fits.similarity.variables import BY_FORM, BY_HEAD, FIT_REASONS, HEAD, HEAD_REASONS
from geostat.statistics.arrays import FloatArray, pieces
from geostat.statistics.jackknife import Estimate
from geostat.statistics.losses import paired_gain

NEEDS = {
    "cosine_mean": ("document", "layer", "kv_head", "lag"),
    "cosine_negative_fraction": ("document", "layer", "kv_head", "lag"),
    "cosine_histogram": ("document", "layer", "kv_head", "lag_bin", "cosine_bin"),
    "cosine_block_mean": ("document", "layer", "kv_head", "position_block", "lag_bin"),
    "sink_cosine": ("document", "layer", "kv_head", "position"),
    "lag_bin_start": ("lag_bin",),
    "lag_bin_stop": ("lag_bin",),
    "cosine_bin_left": ("cosine_bin",),
    "cosine_bin_right": ("cosine_bin",),
    "position_block_start": ("position_block",),
    "position_block_stop": ("position_block",),
}


OF_A_FIT: Final = 4
"""By how much pieces are smaller: a fit holds 48 arrays as its mean cosines (traced), so 384 MB."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Layers that see the same tokens, and what a capture holds of them; heads are layer-major."""

    capture: xr.Dataset
    layers: np.ndarray
    seen: LayerTokens

    def heads(self, name: str) -> FloatArray:
        """Return a variable as (document, head, ...) in double precision."""
        result = self.capture[name][:, self.layers].values
        return result.reshape(result.shape[0], -1, *result.shape[3:]).astype(np.float64)

    def by_head(self, name: str) -> Iterator[FloatArray]:
        """Yield a variable of one head after the other, (document, ...), in double precision."""
        for layer in self.layers:
            for kv_head in range(self.capture.sizes["kv_head"]):
                yield self.capture[name][:, layer, kv_head].values.astype(np.float64)

    def cosines(self) -> Cosines:
        lag = self.capture["lag"].values.astype(np.float64)
        keep = lag < self.seen.content
        cosine = self.heads("cosine_mean")[..., keep]
        cosine[~np.isfinite(cosine)] = np.nan
        return Cosines(
            lag=lag[keep], pairs=pairs_by_lag(lag[keep], self.seen.content), cosine=cosine
        )


def _groups(capture: xr.Dataset) -> Iterator[_Group]:
    """Yield the layers, gathered by the tokens they see, as many at once as memory holds."""
    seen = [layer_tokens(capture, layer) for layer in range(capture.sizes["layer"])]
    curves = int(np.prod([capture.sizes[dim] for dim in ("document", "kv_head", "lag")]))
    for kind in dict.fromkeys(seen):
        layers = np.flatnonzero([one == kind for one in seen])
        for some in pieces(len(layers), OF_A_FIT * curves):
            yield _Group(capture, layers[some], kind)


def layer_cosines(capture: xr.Dataset, layer: int) -> Cosines:
    """Return the mean cosines of one layer's value heads, at the lags that its content tokens
    span.
    """
    return _Group(capture, np.array([layer]), layer_tokens(capture, layer)).cosines()


def fit_similarity(capture: xr.Dataset, progress: Progress | None = None) -> xr.Dataset:
    """Fit Assumption 2 and its rivals to every value head.

    Estimates are lmfit's optima, started from the batched solver, which alone gives the
    leave-one-document-out replicates. A parameter at its bound keeps its value, is flagged, and has
    no standard error.

    Args:
        capture: a /capture dataset; uses the variables of NEEDS, tokens and sink_visible; the
            attribute `dimension` for the floors.
        progress: called with the fraction done.

    Returns:
        What `variables` names, over (gram, layer, kv_head) and (layer, kv_head). beta is NaN for
        the constant, offset and stretch are 0 and 1 for forms without; x_se_lags are lmfit's
        errors. The module of each part says more.

    Raises:
        InputError: if a variable is missing, misshapen or empty.
    """
    require(capture, NEEDS)
    groups = list(_groups(capture))
    parts = [
        _fit_group(group, part_of(progress, number / len(groups), (number + 1) / len(groups)))
        for number, group in enumerate(groups)
    ]
    whole = _all_layers(groups, [by_form for by_form, _ in parts], lead=1) | _all_layers(
        groups, [by_head for _, by_head in parts], lead=0
    )
    dimension = int(capture.attrs.get("dimension", 0))
    whole["chance_by_pair"] = np.asarray(chance_by_pair(dimension) if dimension else np.nan)
    whole["parameters"] = np.array([form.number for form in FORM.values()])
    out = variables((*BY_FORM, *BY_HEAD), whole) | {"sink_visible": sink_flag(capture)}
    coords = {
        d: capture[d].variable
        for d in (*HEAD, "document", "lag_bin_start", "lag_bin_stop")
        if d in capture.coords
    }
    coords["gram"] = words_along("gram", FORMS, "form of similarity")
    return xr.Dataset(out, coords=coords)


def _all_layers(groups: list[_Group], parts: list[dict[str, Value]], lead: int) -> dict[str, Value]:
    """Put the numbers of groups (…, head, …) together as those of all layers, (…, layer,
    kv_head, …); `lead` dims stand before the head.
    """
    order = np.argsort(np.concatenate([group.layers for group in groups]))
    kv_heads = groups[0].capture.sizes["kv_head"]

    def whole(arrays: Sequence[np.ndarray]) -> np.ndarray:
        by_layer = [
            array.reshape(*array.shape[:lead], -1, kv_heads, *array.shape[lead + 1 :])
            for array in arrays
        ]
        return np.concatenate(by_layer, axis=lead).take(order, axis=lead)

    return {name: join([part[name] for part in parts], whole) for name in parts[0]}


def _fit_group(
    group: _Group, progress: Progress | None
) -> tuple[dict[str, Value], dict[str, Value]]:
    """Fit the heads of some layers; returns numbers by form, (form, head), and by head, (head,
    ...).
    """
    data = group.cosines()
    by_head = _by_head(group, data)
    rho0 = by_head["rho0"]
    assert isinstance(rho0, Estimate)
    bins = Bins.of(group.capture)
    outcomes: list[Outcome] = []
    parts: list[dict[str, Value]] = []
    fitted = overlapped(partial(fit_form, data=data), FORMS, at_once=1)
    for form, outcome in zip(tracked(FORMS, progress), fitted, strict=True):
        outcomes.append(outcome)
        fit = outcome.fit
        counts = group.by_head("cosine_histogram")
        pairs = mae_by_pair(counts, bins, group.seen.content, form, fit.estimate.values)
        parts.append(
            outcome.numbers
            | {
                "mae_by_pair": pairs,
                **_of_form(fit, group.seen, data, rho0.value),
            }
        )
    choice = chosen_form(outcomes)
    by_form = {name: join([part[name] for part in parts], np.stack) for name in parts[0]}
    by_form |= {
        "loss_excess": choice.excess,
        "loss_excess_se": choice.excess_se,
        "within_one_se": choice.within,
        "clearly_lowest": choice.clear,
    }
    return by_form, by_head | {"chosen": choice.chosen} | _offset_gain(
        dict(zip(FORMS, outcomes, strict=True))
    )


def _of_form(fit: Fit, seen: LayerTokens, data: Cosines, rho0: FloatArray) -> dict[str, np.ndarray]:
    """Return lmfit's errors, flags, whether the Gram is feasible, with the head's own ρ₀ or,
    without a sink, of content tokens alone.
    """
    edge = feasible_edges(fit.form, **fit.estimate.values, content=seen.content)
    unknown = np.full(edge.shape, np.nan)
    feasible = np.isfinite(edge) & (np.abs(rho0) <= edge) if seen.sink else np.isfinite(edge)
    se_lags = {f"{name}_se_lags": fit.se_lags.get(name, unknown) for name in PARAMETERS}
    fitted, some = np.isfinite(fit.estimate.squares), np.isfinite(data.mean).any(axis=-1)
    reasons = {
        "no_data": ~some,
        "too_few_lags": some & ~fitted,
        "not_converged": fitted & ~fit.estimate.converged,
        "at_bound": np.any([fit.estimate.at_bound[name] for name in PARAMETERS], axis=0),
        "singular": fit.singular,
        "one_document": data.carries.sum(axis=0) == 1,
        "replicates": fitted & replicate_trouble(fit, data),
        "infeasible_content": fitted & ~np.isfinite(edge),
        "saturated": fitted & saturated(fit.form, data),
    }
    flags = combined(reasons, tuple(FIT_REASONS))
    return se_lags | {
        "feasible": feasible,
        "rho0_edge": edge if seen.sink else unknown,
        "singular": fit.singular,
        "flags": flags,
    }


def _by_head(group: _Group, data: Cosines) -> dict[str, Value]:
    """Return what is told without a form: the sink, negative cosines, drift over position,
    floors, and why any of it is missing.
    """
    capture, seen = group.capture, group.seen
    sink = group.heads("sink_cosine")[..., seen.start + seen.first_content :]
    sink = np.where(np.isfinite(sink) & seen.sink, sink, np.nan)
    edges = ("position_block_start", "position_block_stop", "lag_bin_start", "lag_bin_stop")
    blocks = Blocks.of(seen, *(capture[name].values for name in edges))
    sinks, (drifts, document_rms) = (
        sink_cosines(sink),
        drift(group.heads("cosine_block_mean"), blocks),
    )
    rho0 = sinks["rho0"].value
    out: dict[str, Value] = {**sinks, **drifts, "drift_document_rms": document_rms}
    out["negative_fraction"] = negative_share(
        group.heads("cosine_negative_fraction")[..., : data.lag.size], data.pairs
    )
    documents = data.carries.sum(axis=0)
    dimension = int(capture.attrs.get("dimension", 0))
    nothing = np.full(documents.shape, np.nan)
    out["chance_by_lag"] = chance_by_lag(dimension, data.pairs, documents) if dimension else nothing
    out["rho0_spread_floor"] = (1.0 - rho0**2) / np.sqrt(dimension) if dimension else nothing
    mean = data.mean
    steady = (
        np.nanmax(mean, axis=-1, initial=-np.inf) - np.nanmin(mean, axis=-1, initial=np.inf)
        <= STEADY
    )
    reasons = {
        "no_data": documents == 0,
        "one_document": documents == 1,
        "no_sink_visible": np.full(documents.shape, not seen.sink),
        "no_sink_cosine": ~np.isfinite(rho0) & seen.sink,
        "steady_cosine": steady & (documents > 0),
        "no_drift": ~np.isfinite(drifts["drift_slope"].value),
        "two_documents": documents == 2,
        "no_dimension": np.full(documents.shape, dimension == 0),
    }
    return out | {"documents": documents, "head_flags": combined(reasons, tuple(HEAD_REASONS))}


STEADY = 4.0 * float(np.finfo(np.float32).eps)
"""Range of the mean cosine over lags that rounding alone explains: it tells no decay and no R²."""


def _offset_gain(outcomes: Mapping[str, Outcome]) -> dict[str, np.ndarray]:
    """Compare the printed form with its offset rival alone: by left-out loss, or with one
    document by BIC.
    """
    printed, rival = outcomes["exponential"], outcomes["offset"]
    gain, se = paired_gain(printed.loss, rival.loss)
    preferred = np.where(
        np.isfinite(se),
        gain > se,
        np.asarray(rival.numbers["bic"]) < np.asarray(printed.numbers["bic"]),
    )
    return {"offset_gain": gain, "offset_gain_se": se, "offset_preferred": preferred}
