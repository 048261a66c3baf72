"""Assumption 2: cosines of content values decay with the lag, and the sink's cosine with every token is a constant ρ₀.

Source: arXiv 2602.01893, §3.2, eq. (6), Assumption 2, Figure 3. Each value head is fitted with e^{−βk} and its rivals (`geostat.fits.similarity.forms`), to the
document mean of the mean cosine by lag, lags weighted by their pairs; rivals are chosen by left-out loss (`geostat.statistics.choice`).
Cosines that no vectors have are told by `feasible`, nothing is clipped. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr

from geostat.datasets.flags import combined
from geostat.datasets.tokens import LayerTokens, Progress, layer_tokens, require
from geostat.fits.similarity.drift import Blocks, drift, sink_cosines
from geostat.fits.similarity.feasible import feasible_edges
from geostat.fits.similarity.forms import FORM, FORMS, PARAMETERS
from geostat.fits.similarity.one_form import (
    Cosines,
    Fit,
    fit_batched,
    goodness,
    intervals,
    mean_loss,
    refine,
    replicate_trouble,
    resampled,
    saturated,
)
from geostat.fits.similarity.pairs import Bins, chance_by_lag, mae_by_pair, negative_share, pairs_by_lag
from geostat.fits.similarity.variables import FIT_REASONS, HEAD_REASONS, dataset
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.choice import choose
from geostat.statistics.jackknife import Interval, stored
from geostat.statistics.losses import paired_gain

__all__ = ["NEEDS", "fit_similarity", "layer_cosines"]

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


@dataclass(frozen=True, slots=True)
class _Group:
    """Layers that see the same tokens, and what a capture holds of them; heads are layer-major."""

    capture: xr.Dataset
    layers: np.ndarray
    seen: LayerTokens

    def heads(self, name: str) -> FloatArray:
        """Return a variable as (document, head, ...) in double precision."""
        found = self.capture[name][:, self.layers].values
        return found.reshape(found.shape[0], -1, *found.shape[3:]).astype(np.float64)

    def cosines(self) -> Cosines:
        lag = self.capture["lag"].values.astype(np.float64)
        keep = lag < self.seen.content
        cosine = self.heads("cosine_mean")[..., keep]
        cosine[~np.isfinite(cosine)] = np.nan
        return Cosines(lag=lag[keep], pairs=pairs_by_lag(lag[keep], self.seen.content), cosine=cosine)


def _groups(capture: xr.Dataset) -> Iterator[_Group]:
    """Yield the layers, gathered by the tokens they see."""
    seen = [layer_tokens(capture, layer) for layer in range(capture.sizes["layer"])]
    for kind in dict.fromkeys(seen):
        yield _Group(capture, np.flatnonzero([one == kind for one in seen]), kind)


def layer_cosines(capture: xr.Dataset, layer: int) -> Cosines:
    """Return the mean cosines of one layer's value heads, at the lags that its content tokens span."""
    return _Group(capture, np.array([layer]), layer_tokens(capture, layer)).cosines()


def fit_similarity(capture: xr.Dataset, progress: Progress | None = None) -> xr.Dataset:
    """Fit Assumption 2 and its rivals to every value head.

    Estimates are lmfit's optima, started from the batched solver, which alone gives the leave-one-document-out replicates.
    A parameter at its bound keeps its value, is flagged, and has no standard error.

    Args:
        capture: a /capture dataset; uses the variables of NEEDS, tokens and sink_visible; the attribute `dimension` for the floors.
        progress: called with the fraction done.

    Returns:
        Dataset; x* stands for x, x_se, x_lower, x_upper. Over (gram, layer, kv_head): beta* (NaN for the constant), offset* and stretch* (0 and 1 for
        forms without), beta_se_lags, … (lmfit's errors); mae_by_lag* (mean over lags of |c̄_k − f(k)|, the paper's kind), mae_by_pair*, rmse, r2
        (weighted by pairs), loss_left_out with _se, loss_excess with _se (over the best form), within_one_se, bic, aicc, rho0_edge, feasible,
        …_at_bound, converged, singular, flags.
        Over (layer, kv_head): chosen (index of the form), rho0*, rho0_spread*, rho0_spread_floor, sink_slope*, negative_fraction*, drift_slope*,
        drift_rms*, drift_document_rms, chance_by_lag, offset_gain with _se, offset_preferred, documents, head_flags; drift_slope_by_lag* with
        lag_bin. Without dimension: chance_by_pair. Over (gram): parameters. The module of each part says more.

    Raises:
        InputError: if a variable is missing, misshapen or empty.
    """
    require(capture, NEEDS)
    groups = list(_groups(capture))
    whole: tuple[dict[str, np.ndarray], dict[str, np.ndarray]] = ({}, {})
    for number, group in enumerate(groups):

        def part_done(share: float, number: int = number) -> None:
            if progress:
                progress((number + share) / len(groups))

        by_form, by_head = _fit_group(group, part_done)
        _place(whole[0], by_form, group, lead=1)
        _place(whole[1], by_head, group, lead=0)
    return dataset(capture, *whole)


def _place(whole: dict[str, np.ndarray], found: dict[str, np.ndarray], group: _Group, lead: int) -> None:
    """Write a group's arrays (…, head, …) into those of all layers, (…, layer, kv_head, …); `lead` dims stand before the head."""
    layers, kv_heads = group.capture.sizes["layer"], group.capture.sizes["kv_head"]
    for name, array in found.items():
        before, after = array.shape[:lead], array.shape[lead + 1 :]
        into = whole.setdefault(name, np.empty((*before, layers, kv_heads, *after), dtype=array.dtype))
        into[(slice(None),) * lead + (group.layers,)] = array.reshape(*before, group.layers.size, kv_heads, *after)


def _fit_group(group: _Group, progress: Progress) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Fit the heads of some layers; returns arrays by form, (form, head), and by head, (head, ...)."""
    data = group.cosines()
    by_head = _by_head(group, data)
    bins, counts = Bins.of(group.capture), group.heads("cosine_histogram")
    parts, losses = [], []
    for number, form in enumerate(FORMS):
        fit = refine(fit_batched(form, data), data)
        part, loss = _of_form(fit, data)
        found, spread = mae_by_pair(counts, bins, group.seen.content, form, fit.estimate.values())
        part |= stored("mae_by_pair", found, spread) | _feasibility(fit, group.seen, by_head["rho0"])
        part["flags"] = _fit_flags(fit, data, part)
        parts.append(part)
        losses.append(loss)
        progress((number + 1) / len(FORMS))
    by_form = {name: np.stack([part[name] for part in parts]) for name in parts[0] if name != "squares"}
    exact = np.where(np.stack([part["squares"] for part in parts]) <= 0, -np.inf, by_form["bic"])
    loss = np.stack(losses)
    choice = choose(loss, exact, np.array([FORM[form].number for form in FORMS]))
    by_form |= {"loss_excess": choice.excess, "loss_excess_se": choice.excess_se, "within_one_se": choice.within}
    return by_form, by_head | {"chosen": choice.chosen} | _offset_gain(loss, by_form["bic"])


def _of_form(fit: Fit, data: Cosines) -> tuple[dict[str, np.ndarray], FloatArray]:
    """Return what one form's fit says of each head, and its left-out loss by document."""
    found: dict[str, np.ndarray] = dict(goodness(fit, data))
    loss, mae = resampled(fit, data, found["mae_by_lag"])
    found |= stored("mae_by_lag", found["mae_by_lag"], mae)
    found["loss_left_out"], found["loss_left_out_se"] = mean_loss(loss)
    for name, spread in intervals(fit, data).items():
        value = fit.estimate.values()[name]
        found |= stored(name, value, spread)
        found |= {f"{name}_at_bound": fit.estimate.at_bound(name), f"{name}_se_lags": fit.se_lags.get(name, np.full(value.shape, np.nan))}
    return found | {"converged": fit.estimate.converged, "singular": fit.singular}, loss


def _feasibility(fit: Fit, seen: LayerTokens, rho0: FloatArray) -> dict[str, np.ndarray]:
    """Return rho0_edge and whether the Gram exists: with the head's own ρ₀, or of the content tokens alone where no sink is visible."""
    edge = feasible_edges(fit.form, **fit.estimate.values(), content=seen.content)
    feasible = np.isfinite(edge) & (np.abs(rho0) <= edge) if seen.sink else np.isfinite(edge)
    return {"feasible": feasible, "rho0_edge": edge if seen.sink else np.full(edge.shape, np.nan), "content_infeasible": _lost(fit, edge)}


def _lost(fit: Fit, edge: FloatArray) -> BoolArray:
    return np.asarray(np.isfinite(fit.estimate.squares) & ~np.isfinite(edge))


def _fit_flags(fit: Fit, data: Cosines, part: dict[str, np.ndarray]) -> np.ndarray:
    fitted, some = np.isfinite(fit.estimate.squares), np.isfinite(data.mean).any(axis=-1)
    said = {
        "no_data": ~some,
        "too_few_lags": some & ~fitted,
        "not_converged": fitted & ~fit.estimate.converged,
        "at_bound": np.any([fit.estimate.at_bound(name) for name in PARAMETERS], axis=0),
        "singular": fit.singular,
        "one_document": data.carries.sum(axis=0) == 1,
        "replicates": fitted & replicate_trouble(fit, data),
        "infeasible_content": part.pop("content_infeasible"),
        "saturated": fitted & saturated(fit.form, data),
    }
    return combined(said, tuple(FIT_REASONS))


def _by_head(group: _Group, data: Cosines) -> dict[str, np.ndarray]:
    """Return what is told without a form: the sink, negative cosines, drift over position, floors, and why any of it is missing."""
    capture, seen = group.capture, group.seen
    sink = group.heads("sink_cosine")[..., seen.start + seen.first_content :]
    sink = np.where(np.isfinite(sink) & seen.sink, sink, np.nan)
    edges = ("position_block_start", "position_block_stop", "lag_bin_start", "lag_bin_stop")
    blocks = Blocks.of(seen, *(capture[name].values for name in edges))
    moved = sink_cosines(sink) | drift(group.heads("cosine_block_mean"), blocks)
    found: dict[str, np.ndarray] = {}
    for name, value in moved.items():
        if isinstance(value, Interval):
            found |= stored(name.removesuffix("_interval"), found.pop(name.removesuffix("_interval")), value)
        else:
            found[name] = value
    share, spread = negative_share(group.heads("cosine_negative_fraction")[..., : data.lag.size], data.pairs)
    found |= stored("negative_fraction", share, spread)
    documents = data.carries.sum(axis=0)
    dimension = int(capture.attrs.get("dimension", 0))
    nothing = np.full(documents.shape, np.nan)
    found["chance_by_lag"] = chance_by_lag(dimension, data.pairs, documents) if dimension else nothing
    found["rho0_spread_floor"] = (1.0 - found["rho0"] ** 2) / np.sqrt(dimension) if dimension else nothing
    mean = data.mean
    steady = np.nanmax(mean, axis=-1, initial=-np.inf) - np.nanmin(mean, axis=-1, initial=np.inf) <= STEADY
    said = {
        "no_data": documents == 0,
        "one_document": documents == 1,
        "no_sink_visible": np.full(documents.shape, not seen.sink),
        "no_sink_cosine": ~np.isfinite(found["rho0"]) & seen.sink,
        "steady_cosine": steady & (documents > 0),
        "no_drift": ~np.isfinite(found["drift_slope"]),
        "two_documents": documents == 2,
        "no_dimension": np.full(documents.shape, dimension == 0),
    }
    return found | {"documents": documents, "head_flags": combined(said, tuple(HEAD_REASONS))}


STEADY = 4.0 * float(np.finfo(np.float32).eps)
"""Range of the mean cosine over lags that rounding alone explains: then every decay is at a bound and R² has no meaning."""


def _offset_gain(loss: FloatArray, bic: FloatArray) -> dict[str, np.ndarray]:
    """Compare the printed form with its offset rival alone: by left-out loss, or with one document by BIC."""
    printed, rival = FORMS.index("exponential"), FORMS.index("offset")
    gain, se = paired_gain(loss[printed], loss[rival])
    preferred = np.where(np.isfinite(se), gain > se, bic[rival] < bic[printed])
    return {"offset_gain": gain, "offset_gain_se": se, "offset_preferred": preferred}
