"""Assumption 2: cosines of content values decay with the lag, and the sink's cosine with every token is a constant ρ₀.

Source: arXiv 2602.01893, §3.2, eq. (6), Assumption 2, Figure 3. Each value head is fitted with e^{−βk} and with the offset
rival c + (1−c)e^{−βk}, to the document mean of the mean cosine by lag, lags weighted by their pairs.
A negative c, or |ρ₀| too large, asks for a Gram matrix that no vectors have: `feasible` tells, nothing is clipped.
Imports numpy, xarray, lmfit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from geostat.decay import FORMS, by_lag, fit_row, solve
from geostat.fitting import (
    LayerTokens,
    Progress,
    at_estimate,
    bayesian_information,
    layer_tokens,
    mean_over_documents,
    paired_gain,
    require,
)
from geostat.jackknife import BoolArray, FloatArray, interval, leave_one_out_mean
from geostat.similarity_variables import dataset
from theory.gram import feasible_edge

__all__ = ["by_lag", "feasible_edges", "fit_similarity", "mae_by_pair", "pairs_by_lag"]

NEEDS = {
    "cosine_mean": ("document", "layer", "kv_head", "lag"),
    "cosine_negative_fraction": ("document", "layer", "kv_head", "lag"),
    "cosine_histogram": ("document", "layer", "kv_head", "lag_bin", "cosine_bin"),
    "sink_cosine": ("document", "layer", "kv_head", "position"),
    "lag_bin_start": ("lag_bin",),
    "lag_bin_stop": ("lag_bin",),
    "cosine_bin_left": ("cosine_bin",),
    "cosine_bin_right": ("cosine_bin",),
}


def feasible_edges(beta: FloatArray, offset: FloatArray, content: int) -> FloatArray:
    """Return the largest |ρ₀| for which each fitted Gram matrix is positive semidefinite (erratum 9, `theory.gram.feasible_edge`).

    Args:
        beta: β ≥ 0, any shape; at 0 all content tokens point one way and the edge is 1.
        offset: c, 0 for the exponential form; same shape.
        content: L, number of content tokens.

    Returns:
        Edge, same shape; NaN where the parameters are, or the content tokens' own Gram is already infeasible (c too negative).
    """
    edge = np.full(beta.shape, np.nan)
    for at in np.argwhere(np.isfinite(beta) & (content > 0)):
        where = tuple(at)
        edge[where] = feasible_edge(float(beta[where]), content, offset=float(offset[where])) if beta[where] > 0 else 1.0
    return edge


def pairs_by_lag(lag: FloatArray, content: int) -> FloatArray:
    """Return m_k = L − k, the number of pairs of L content tokens k apart; 0 from k = L on."""
    return np.maximum(content - np.asarray(lag, dtype=np.float64), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Edges of a cosine histogram: cosine bins [left, right], lag bins from first to last lag, both included."""

    left: FloatArray
    right: FloatArray
    start: FloatArray
    stop: FloatArray


def mae_by_pair(counts: FloatArray, bins: Bins, content: int, form: str, beta: float, offset: float) -> float:
    """Return the mean over pairs of |cosine − model|, from a histogram.

    Exact for a density uniform within each cosine bin and, in a lag bin of several lags, the same at each of its lags (which
    count by their pairs): E|x − f| over a bin [l, r] is |(l+r)/2 − f| for f outside it and ((f−l)² + (r−f)²) / (2(r−l)) inside.

    Args:
        counts: pairs, shape (lag_bin, cosine_bin).
        bins: their edges.
        content: number of content tokens.
        form: see `by_lag`.
        beta: β.
        offset: c.

    Returns:
        Mean absolute error in units of cosine; NaN for an empty histogram or parameters that are not finite.
    """
    total = counts.sum()
    if not total > 0 or not np.isfinite(beta):
        return float("nan")
    lag = np.arange(1, content, dtype=np.float64)
    model = by_lag(form, lag, beta, offset)[:, None]
    inside = (model > bins.left) & (model < bins.right)
    within_bin = ((model - bins.left) ** 2 + (bins.right - model) ** 2) / (2.0 * (bins.right - bins.left))
    error = np.where(inside, within_bin, np.abs((bins.left + bins.right) / 2.0 - model))
    pairs = pairs_by_lag(lag, content) * ((lag >= bins.start[:, None]) & (lag <= bins.stop[:, None]))
    mass = pairs.sum(axis=-1, keepdims=True)
    mean_error = np.divide(pairs, mass, out=np.zeros_like(pairs), where=mass > 0) @ error
    return float((counts * mean_error).sum() / total)


def fit_similarity(capture: xr.Dataset, progress: Progress | None = None) -> xr.Dataset:
    """Fit Assumption 2 and its offset rival to every value head.

    The estimate is lmfit's optimum, started from the batched solver, which alone gives the leave-one-document-out replicates.
    A parameter at its bound keeps its value, is flagged, and has no standard error.

    Args:
        capture: a /capture dataset; uses cosine_mean, cosine_negative_fraction, cosine_histogram, sink_cosine, tokens, sink_visible.
        progress: called with the fraction done after each layer.

    Returns:
        Dataset over (gram, layer, kv_head): beta, offset (0 for the exponential), each with _se, _lower, _upper; mae_by_lag
        (unweighted mean over lags of |c̄_k − f(k)|, the paper's kind), mae_by_pair (see there), rmse and r2 (weighted by pairs),
        loss_left_out with loss_left_out_se (pairs-weighted mean squared residual of a document under the fit to the others),
        bic (takes lags as independent, which they are not), rho0_edge, and flags feasible, beta_at_bound, offset_at_bound, converged.
        Over (layer, kv_head): rho0 with its interval, rho0_spread (standard deviation over j within a document, root mean square
        over documents), negative_fraction (of all content pairs), offset_gain (left-out loss of the exponential minus the
        offset's) with offset_gain_se, offset_preferred (gain above one standard error; by BIC with one document), documents.
        Where the sink is not visible ρ₀ and its edge are NaN and `feasible` speaks of the content tokens alone.

    Raises:
        InputError: if a variable is missing, misshapen or empty.
    """
    require(capture, NEEDS)
    layers = capture.sizes["layer"]
    parts = []
    for layer in range(layers):
        parts.append(_fit_layer(capture, layer))
        if progress:
            progress((layer + 1) / layers)
    return dataset(capture, parts)


def layer_cosines(capture: xr.Dataset, layer: int) -> tuple[LayerTokens, FloatArray, FloatArray, FloatArray]:
    """Return a layer's tokens, the lags its content tokens span, their pairs, and the mean cosines (document, kv_head, lag)."""
    seen = layer_tokens(capture, layer)
    lag = capture["lag"].values.astype(np.float64)
    keep = lag < seen.content
    cosine = capture["cosine_mean"][:, layer].values.astype(np.float64)[..., keep]
    return seen, lag[keep], pairs_by_lag(lag[keep], seen.content), np.where(np.isfinite(cosine), cosine, np.nan)


def _fit_layer(capture: xr.Dataset, layer: int) -> dict[str, np.ndarray]:
    seen, lag, pairs, cosine = layer_cosines(capture, layer)
    carries: BoolArray = np.asarray(np.isfinite(cosine).any(axis=-1))
    mean = mean_over_documents(cosine)
    out: dict[str, np.ndarray] = {"documents": carries.sum(axis=0)} | _sink(capture, layer, seen)
    out["negative_fraction"] = _negative(capture, layer, lag.size, seen.content)
    by_form = [_fit_form(form, lag, pairs, mean, cosine, carries) for form in FORMS]
    counts = capture["cosine_histogram"][:, layer].values.sum(axis=0, dtype=np.float64)
    names = {"left": "cosine_bin_left", "right": "cosine_bin_right", "start": "lag_bin_start", "stop": "lag_bin_stop"}
    bins = Bins(**{edge: capture[name].values.astype(np.float64) for edge, name in names.items()})
    for form, fit in zip(FORMS, by_form, strict=True):
        heads = range(counts.shape[0])
        fit["mae_by_pair"] = np.array([mae_by_pair(counts[h], bins, seen.content, form, fit["beta"][h], fit["offset"][h]) for h in heads])
        edge = feasible_edges(fit["beta"], fit["offset"], seen.content)
        fit["feasible"] = np.isfinite(edge) & (np.abs(out["rho0"]) <= edge) if seen.sink else np.isfinite(edge)
        fit["rho0_edge"] = edge if seen.sink else np.full(edge.shape, np.nan)
    out["offset_gain"], out["offset_gain_se"] = paired_gain(by_form[0]["loss"], by_form[1]["loss"])
    by_bic = by_form[1]["bic"] < by_form[0]["bic"]
    out["offset_preferred"] = np.where(np.isfinite(out["offset_gain_se"]), out["offset_gain"] > out["offset_gain_se"], by_bic)
    for name in by_form[0]:
        if name != "loss":
            out[name] = np.stack([fit[name] for fit in by_form])
    return out


def _fit_form(
    form: str, lag: FloatArray, pairs: FloatArray, mean: FloatArray, cosine: FloatArray, carries: BoolArray
) -> dict[str, np.ndarray]:
    """Fit one form to the heads of a layer: estimates by lmfit, replicates by the batched solver."""
    documents, heads = carries.shape
    without = leave_one_out_mean(cosine)
    start = solve(form, lag, mean, pairs)
    again = solve(form, lag, without.reshape(documents * heads, -1), pairs)
    beta, offset, converged = start.beta.copy(), start.offset.copy(), start.converged.copy()
    for head in np.flatnonzero(np.isfinite(start.beta)):
        result = fit_row(form, lag, mean[head], pairs, start, int(head))
        beta[head] = result.params["beta"].value
        offset[head] = result.params["offset"].value if form == "offset" else 0.0
        converged[head] &= bool(result.success) or result.nvarys == 0  # with nothing free, lmfit only evaluates
    model = by_lag(form, lag, beta[:, None], offset[:, None])
    known = np.isfinite(mean)
    residual = np.where(known, mean - model, 0.0)
    weight = known * pairs
    points, total = known.sum(axis=-1), np.maximum(weight.sum(axis=-1), np.finfo(float).tiny)
    squares = (weight * residual**2).sum(axis=-1)
    centre = (weight * np.where(known, mean, 0.0)).sum(axis=-1) / total
    around = (weight * np.where(known, mean - centre[:, None], 0.0) ** 2).sum(axis=-1)
    empty = np.where(points > 0, 0.0, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        r2 = np.where(around > 0, 1.0 - squares / around, np.nan)
        mae = np.abs(residual).sum(axis=-1) / points
        rmse = np.sqrt(squares / total) + empty
    shape = (documents, heads)
    predicted = by_lag(form, lag, again.beta.reshape(*shape, 1), again.offset.reshape(*shape, 1))
    known_each = np.isfinite(cosine) & np.isfinite(predicted)
    weight_each = known_each * pairs
    sum_each = weight_each.sum(axis=-1)
    error = (weight_each * np.where(known_each, cosine - predicted, 0.0) ** 2).sum(axis=-1)
    loss = np.divide(error, sum_each, out=np.full(shape, np.nan), where=sum_each > 0)
    loss_mean, loss_se = paired_gain(loss, np.zeros_like(loss))
    out = {"loss": loss, "loss_left_out": loss_mean, "loss_left_out_se": loss_se}
    out |= {"mae_by_lag": mae, "rmse": rmse, "r2": r2 + empty, "bic": bayesian_information(squares + empty, points, 1 + (form == "offset"))}
    out |= {"beta_at_bound": start.beta_at_bound, "offset_at_bound": start.offset_at_bound, "converged": converged}
    replicates = {"beta": again.beta.reshape(shape), "offset": again.offset.reshape(shape)}
    free = {"beta": ~start.beta_at_bound, "offset": ~start.offset_at_bound & (form == "offset")}
    for name, value in (("beta", beta), ("offset", offset)):
        spread = at_estimate(value, interval(value, replicates[name], carries), free[name])
        out |= {name: value, f"{name}_se": spread.se, f"{name}_lower": spread.lower, f"{name}_upper": spread.upper}
    return out


def _sink(capture: xr.Dataset, layer: int, seen: LayerTokens) -> dict[str, np.ndarray]:
    """Return ρ₀, its interval, and its spread over tokens."""
    cosine = capture["sink_cosine"][:, layer, :, seen.start + seen.first_content :].values.astype(np.float64)
    if not seen.sink:
        cosine = np.full_like(cosine, np.nan)
    known = np.isfinite(cosine)
    own = mean_over_documents(np.moveaxis(np.where(known, cosine, np.nan), -1, 0))
    variance = mean_over_documents(np.moveaxis((cosine - own[..., None]) ** 2, -1, 0))
    rho0 = mean_over_documents(own)
    spread = interval(rho0, leave_one_out_mean(own), np.isfinite(own))
    return {
        "rho0": rho0,
        "rho0_se": spread.se,
        "rho0_lower": spread.lower,
        "rho0_upper": spread.upper,
        "rho0_spread": np.sqrt(mean_over_documents(variance)),
    }


def _negative(capture: xr.Dataset, layer: int, lags: int, content: int) -> FloatArray:
    """Return the share of negative cosines among all content pairs of a layer's value heads."""
    fraction = capture["cosine_negative_fraction"][:, layer].values.astype(np.float64)[..., :lags]
    known = np.isfinite(fraction)
    weight = known * pairs_by_lag(capture["lag"].values[:lags], content)
    total = weight.sum(axis=(0, -1))
    return np.divide((weight * np.where(known, fraction, 0.0)).sum(axis=(0, -1)), total, out=np.full(total.shape, np.nan), where=total > 0)
