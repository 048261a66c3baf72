"""Assumption 3: attention weights have a sink, a plateau, an oscillation, and exponential growth to the last token.

Source: arXiv 2602.01893, §3.3, Assumption 3 and Figure 4. The profile is fitted to the document mean of log α over visible tokens behind
the sink; p_sink, Σα and the masses of the phases are those of the arithmetic mean. Forms: *shared* (as printed: one η for oscillation and
growth), *separate* (η_osc and η_tail), *monotone* (T₁ = T₂: no oscillation). Break points are integers and are searched (`profile_search`).

What is called identified. A phase is, if it passes two tests. First, its strength is at least NOISE (2) times the standard error that
it would have in independent noise of the fit's own rmse σ: σ√(2/(T₂−T₁)) for the amplitude of an oscillation, σ/√Σ(i−T₂)² for the rate
of growth. Second, with two documents or more, a document left out is predicted better with it than without by more than one standard
error over documents: an oscillating form against the monotone one, the monotone form against a constant. With one document instead,
n ln(S_simple/S_rich) must exceed 2 ln(number of places searched), n³/4 for an oscillation (frequencies times pairs of break points)
and n for growth: the reach of the largest of that many chance gains in white noise.
Imports numpy and xarray.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from geostat.errors import InputError
from geostat.fitting import (
    LayerTokens,
    Progress,
    bayesian_information,
    layer_tokens,
    mean_over_documents,
    paired_gain,
    require,
)
from geostat.jackknife import BoolArray, FloatArray, interval, leave_one_out_mean
from geostat.phases import MODELS, fit_row, log_profile, profile
from geostat.profile_search import FORMS, search
from geostat.weights_variables import dataset

__all__ = ["FORMS", "MODELS", "fit_weights", "log_profile", "profile"]

NEEDS = {"attention_weight": ("document", "layer", "head", "position")}
MONOTONE, SHARED = FORMS.index("monotone"), FORMS.index("shared")
NOISE = 2.0
"""How many standard errors of white noise a phase must reach."""
FREE = {"monotone": 3, "shared": 5, "separate": 6}
"""Parameters counted by the BIC: b, the slopes, ω, and each free break point."""


def layer_weights(capture: xr.Dataset, layer: int) -> tuple[LayerTokens, FloatArray, FloatArray]:
    """Return a layer's tokens, its weights (document, head, token), and its content tokens' log weights (NaN where α is 0 or unknown).

    Raises:
        InputError: if a weight is negative.
    """
    seen = layer_tokens(capture, layer)
    weight = capture["attention_weight"][:, layer, :, seen.start :].values.astype(np.float64)
    lowest = np.nanmin(weight) if np.isfinite(weight).any() else 0.0
    if lowest < 0:
        name = capture["layer"].values[layer]
        raise InputError(f"attention_weight of layer {name} has {lowest:.3g}, expected weights of at least 0. Capture the run again.")
    content = weight[..., seen.first_content :]
    positive = np.isfinite(content) & (content > 0)
    return seen, weight, np.log(content, out=np.full(content.shape, np.nan), where=positive)


def fit_weights(capture: xr.Dataset, progress: Progress | None = None) -> xr.Dataset:
    """Fit Assumption 3 and its two rivals to every query head.

    p_base, eta, omega, t1, t2 are those of the shared form where the oscillation is identified (see the module), else of the
    monotone form, with omega NaN ("none") and t1 = t2. Estimates are lmfit's optimum at the break points searched; replicates
    repeat the whole search.

    Args:
        capture: a /capture dataset; uses attention_weight (document, layer, head, position), tokens, sink_visible (layer).
        progress: called with the fraction done after each layer.

    Returns:
        Dataset over (layer, head): p_sink, p_base, eta, omega, t1, t2, total, each with _se, _lower, _upper; total_model, rmse, mae (nats),
        r2, bic, loss_left_out(_se), oscillation_gain(_se), growth_gain(_se), mass_plateau, mass_oscillation, mass_tail, zero_weight_share,
        documents, flags oscillation_identified, growth_identified, identified, eta_at_bound, omega_at_bound, converged.
        Over (form, layer, head), form = monotone, shared, separate: form_p_base, form_eta, form_eta_tail, form_omega, form_t1, form_t2,
        form_rmse, form_r2, form_bic, form_loss_left_out, form_loss_left_out_se, form_oscillation_to_noise, form_growth_to_noise (what the
        first test compares with 2), form_oscillation_identified, form_converged.
        Over (layer, head, position): log_weight_mean, weight_mean, log_weight_model.
        t1 and t2 are positions counted from the first visible token. Where the sink is not visible p_sink is NaN; a head
        without weights is NaN throughout and not converged.

    Raises:
        InputError: if a variable is missing, misshapen or empty, or a weight is negative.
    """
    require(capture, NEEDS)
    layers = capture.sizes["layer"]
    parts = []
    for layer in range(layers):
        parts.append(_fit_layer(capture, layer))
        if progress:
            progress((layer + 1) / layers)
    return dataset(capture, parts)


def _fit_layer(capture: xr.Dataset, layer: int) -> dict[str, np.ndarray]:
    seen, weight, log_weight = layer_weights(capture, layer)
    documents, heads, content = log_weight.shape
    position = seen.first_content + np.arange(content, dtype=np.float64)
    carries: BoolArray = np.asarray(np.isfinite(log_weight).any(axis=-1))
    mean = mean_over_documents(log_weight)
    without = leave_one_out_mean(log_weight)
    found = search(np.concatenate([mean, without.reshape(documents * heads, content)]), seen.first_content)
    best = {name: rows[:, :heads].copy() for name, rows in found.items()}
    again = {name: rows[:, heads:].reshape(len(FORMS), documents, heads) for name, rows in found.items()}
    at_bound = _polish(best, position, mean)
    fits = _goodness(best, position, mean)
    loss = _left_out(again, position, log_weight)
    level = mean_over_documents(np.moveaxis(without, -1, 0))[..., None]
    flat_loss = mean_over_documents(np.moveaxis((log_weight - level) ** 2, -1, 0))
    out = _identified(best, fits, loss, flat_loss, mean, seen.tokens - 1.0)
    chosen = np.where(out["oscillation_identified"], SHARED, MONOTONE)
    out |= _chosen(best, again, fits, loss, at_bound, chosen, carries)
    out |= _arithmetic(weight, seen, out, position)
    out |= {f"form_{name}": best[name] for name in ("eta_tail", "omega", "t1", "t2")}
    out["form_eta"] = np.concatenate([best["eta_tail"][:1], best["eta_osc"][1:]])
    out["form_p_base"], out["form_converged"] = np.exp(best["b"]), best["converged"] == 1.0
    out |= {f"form_{name}": fits[name] for name in ("rmse", "r2", "bic")}
    pairs = [paired_gain(own, np.zeros_like(own)) for own in loss]
    out["form_loss_left_out"], out["form_loss_left_out_se"] = (np.stack([pair[k] for pair in pairs]) for k in range(2))
    out["documents"] = carries.sum(axis=0)
    model = _predict(best, position)[chosen, np.arange(heads)]
    for name, rows in (("log_weight_mean", mean), ("log_weight_model", model), ("weight_mean", mean_over_documents(weight))):
        full = np.full((heads, capture.sizes["position"]), np.nan)
        full[:, full.shape[1] - rows.shape[1] :] = rows
        out[name] = full
    return out


def _predict(found: dict[str, FloatArray], position: FloatArray) -> FloatArray:
    """Return log α of every fit, shape (..., token)."""
    return log_profile(position, *(found[name][..., None] for name in ("b", "eta_osc", "eta_tail", "omega", "t1", "t2")))


def _polish(best: dict[str, FloatArray], position: FloatArray, mean: FloatArray) -> dict[str, BoolArray]:
    """Put lmfit's optimum in place of the search's, in `best`; return which parameters are at a bound, shape (form, head)."""
    shape = best["b"].shape
    at_bound = {name: np.zeros(shape, dtype=bool) for name in ("eta", "omega")}
    for k, form in enumerate(FORMS):
        for head in np.flatnonzero(np.isfinite(best["b"][k])):
            start = {name: float(rows[k, head]) for name, rows in best.items()}
            result = fit_row(form, position, mean[head], start)
            value = result.params.valuesdict()
            best["b"][k, head] = value["log_p_base"]
            if form == "monotone":
                best["eta_tail"][k, head] = value["eta"]
            else:
                best["eta_osc"][k, head], best["omega"][k, head] = value["eta"], value["omega"]
                best["eta_tail"][k, head] = value.get("eta_tail", value["eta"])
                at_bound["omega"][k, head] = not result.params["omega"].vary
            at_bound["eta"][k, head] = not result.params["eta"].vary
            best["converged"][k, head] = float(result.success and start["converged"] == 1.0)
    return at_bound


def _goodness(best: dict[str, FloatArray], position: FloatArray, mean: FloatArray) -> dict[str, FloatArray]:
    """Return squares, rmse, mae, r2, bic of every form, shape (form, head)."""
    residual = mean - _predict(best, position)
    points = np.isfinite(mean).sum(axis=-1)
    per_token = mean_over_documents(np.moveaxis(residual**2, -1, 0))
    centre = mean_over_documents(np.moveaxis(mean, -1, 0))[:, None]
    around = mean_over_documents(np.moveaxis((mean - centre) ** 2, -1, 0))
    rounding = 1e-24 * (1.0 + centre[:, 0] ** 2)
    per_token = np.where(per_token > rounding, per_token, 0.0 * per_token)
    with np.errstate(invalid="ignore", divide="ignore"):
        r2 = np.where(around > rounding, 1.0 - per_token / around, np.nan)
    squares = per_token * points
    bic = np.stack([bayesian_information(squares[k], points, FREE[form]) for k, form in enumerate(FORMS)])
    return {
        "squares": squares,
        "rmse": np.sqrt(per_token),
        "mae": mean_over_documents(np.moveaxis(np.abs(residual), -1, 0)),
        "r2": r2,
        "bic": bic,
    }


def _left_out(again: dict[str, FloatArray], position: FloatArray, log_weight: FloatArray) -> FloatArray:
    """Return each document's mean squared residual under the fit to the others, shape (form, document, head), nats²."""
    one_form = ({name: rows[k] for name, rows in again.items()} for k in range(len(FORMS)))  # one at a time, for memory
    return np.stack([mean_over_documents(np.moveaxis((log_weight - _predict(fit, position)) ** 2, -1, 0)) for fit in one_form])


def _identified(
    best: dict[str, FloatArray], fits: dict[str, FloatArray], loss: FloatArray, flat_loss: FloatArray, mean: FloatArray, last: float
) -> dict[str, np.ndarray]:
    """Return which phases stand above the noise, by the module's two tests, and the numbers they rest on (gains: nats²)."""
    points = np.maximum(np.isfinite(mean).sum(axis=-1), 1).astype(np.float64)
    strength = _strength(best, fits["rmse"], last)
    centre = mean_over_documents(np.moveaxis(mean, -1, 0))[:, None]
    flat = np.where(np.isfinite(mean), (mean - centre) ** 2, 0.0).sum(axis=-1)
    out: dict[str, np.ndarray] = {f"form_{phase}_to_noise": value for phase, value in strength.items()}
    growth = (flat_loss, loss[MONOTONE], flat, fits["squares"][MONOTONE], points)
    out["growth_gain"], out["growth_gain_se"], better = _better(*growth, points)
    out["growth_identified"] = better & (strength["growth"][MONOTONE] >= NOISE)
    waves = [np.zeros(points.shape, dtype=bool)]
    for form in range(SHARED, len(FORMS)):
        wave = (loss[MONOTONE], loss[form], fits["squares"][MONOTONE], fits["squares"][form], points**3 / 4.0)
        gain, se, better = _better(*wave, points)
        waves.append(better & (strength["oscillation"][form] >= NOISE))
        if form == SHARED:
            out["oscillation_gain"], out["oscillation_gain_se"] = gain, se
    out["form_oscillation_identified"] = np.stack(waves)
    out["oscillation_identified"] = waves[SHARED]
    out["identified"] = out["oscillation_identified"] | out["growth_identified"]
    return out


def _strength(best: dict[str, FloatArray], rmse: FloatArray, last: float) -> dict[str, FloatArray]:
    """Return amplitude and growth rate in units of their standard errors in white noise, shape (form, head); NaN without the phase."""
    wave, tail = best["t2"] - best["t1"], last - best["t2"]
    sum_squares = tail * (tail + 1.0) * (2.0 * tail + 1.0) / 6.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "oscillation": np.where(wave > 0, best["eta_osc"] * np.sqrt(wave / 2.0) / rmse, np.nan),
            "growth": np.where(tail > 0, best["eta_tail"] * np.sqrt(sum_squares) / rmse, np.nan),
        }


def _better(
    simple: FloatArray, rich: FloatArray, simple_squares: FloatArray, rich_squares: FloatArray, places: FloatArray, points: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the gain of the richer form by left-out loss, its standard error, and whether it is more than chance."""
    gain, se = paired_gain(simple, rich)
    with np.errstate(divide="ignore", invalid="ignore"):
        alone = points * np.log(simple_squares / rich_squares) > 2.0 * np.log(places)
    beyond_rounding = gain > 1e-12 * mean_over_documents(simple)
    return gain, se, np.where(np.isfinite(se), (gain > se) & beyond_rounding, alone)


def _chosen(
    best: dict[str, FloatArray],
    again: dict[str, FloatArray],
    fits: dict[str, FloatArray],
    loss: FloatArray,
    at_bound: dict[str, BoolArray],
    chosen: np.ndarray,
    carries: BoolArray,
) -> dict[str, np.ndarray]:
    """Return the parameters of each head's chosen form with their intervals, and its goodness of fit."""
    heads = np.arange(chosen.size)
    out: dict[str, np.ndarray] = {name: fits[name][chosen, heads] for name in ("rmse", "mae", "r2", "bic")}
    own = loss[chosen, :, heads].T
    out["loss_left_out"], out["loss_left_out_se"] = paired_gain(own, np.zeros_like(own))
    out["converged"] = best["converged"][chosen, heads] == 1.0
    out |= {f"{name}_at_bound": flag[chosen, heads] for name, flag in at_bound.items()}
    for name, source in (("log_p_base", "b"), ("eta", "eta_tail"), ("omega", "omega"), ("t1", "t1"), ("t2", "t2")):
        value, replicates = best[source][chosen, heads], again[source][chosen, :, heads].T
        spread = interval(value, replicates, carries)
        if name == "log_p_base":
            name, value = "p_base", np.exp(value)
            spread = spread.exp(value)
        held = _without_error(name, out)
        parts = {"se": spread.se, "lower": spread.lower, "upper": spread.upper}
        out |= {name: value} | {f"{name}_{part}": np.where(held, np.nan, values) for part, values in parts.items()}
    return out


def _without_error(name: str, out: dict[str, np.ndarray]) -> BoolArray:
    """Return where a parameter has no standard error: at its bound; and at η = 0 nothing marks T₁, T₂ or ω either."""
    if name == "p_base":
        return np.zeros(out["eta_at_bound"].shape, dtype=bool)
    return out["eta_at_bound"] | out["omega_at_bound"] if name == "omega" else out["eta_at_bound"]


def _arithmetic(weight: FloatArray, seen: LayerTokens, fit: dict[str, np.ndarray], position: FloatArray) -> dict[str, np.ndarray]:
    """Return what rests on the arithmetic mean of α: the sink, the total, the masses of the phases, and the share of zero weights."""
    known = np.isfinite(weight)
    content = weight[..., seen.first_content :]
    known_content = known[..., seen.first_content :]
    total_each = np.where(known.any(axis=-1), np.where(known, weight, 0.0).sum(axis=-1), np.nan)
    sink_each = weight[..., 0] if seen.sink else np.full(total_each.shape, np.nan)
    out: dict[str, np.ndarray] = {}
    for name, each in (("p_sink", sink_each), ("total", total_each)):
        value = mean_over_documents(each)
        spread = interval(value, leave_one_out_mean(each), np.isfinite(each))
        out |= {name: value, f"{name}_se": spread.se, f"{name}_lower": spread.lower, f"{name}_upper": spread.upper}
    zero = (known_content & (content == 0)).sum(axis=(0, -1))
    number = known_content.sum(axis=(0, -1))
    out["zero_weight_share"] = np.divide(zero, number, out=np.full(zero.shape, np.nan), where=number > 0)
    mean = np.nan_to_num(mean_over_documents(content))
    fitted = np.isfinite(fit["p_base"])
    t1, t2 = fit["t1"][:, None], fit["t2"][:, None]
    for name, phase in (("plateau", position <= t1), ("oscillation", (position > t1) & (position <= t2)), ("tail", position > t2)):
        out[f"mass_{name}"] = np.where(fitted, np.where(phase, mean, 0.0).sum(axis=-1), np.nan)
    parameters = [fit[name][:, None] for name in ("p_base", "eta", "eta", "omega", "t1", "t2")]
    parameters[0] = np.log(parameters[0])
    out["total_model"] = np.exp(log_profile(position, *parameters)).sum(axis=-1) + (out["p_sink"] if seen.sink else 0.0)
    return out
