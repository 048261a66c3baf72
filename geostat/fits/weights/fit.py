"""Fit of the four-phase attention profile, Assumption 3: attention weights have a sink, a plateau,
an oscillation, and exponential growth to the last token.

Source: arXiv 2602.01893, §3.3, Assumption 3 and Figure 4. The profile is fitted to the document
mean of log α over visible tokens behind the sink; p_sink, Σα and the masses of the phases are those
of the arithmetic mean. Forms: *shared* (as printed: one η for oscillation and growth), *separate*
(η_osc and η_tail), *monotone* (T₁ = T₂: no oscillation); `rivals` adds simpler ones and chooses.
Break points are integers and are searched (`break_points`). Noise is taken as it is, with its
autocorrelation (`autocorrelation`); what stands out of it, and which break points it lets the data
place, is decided in `identifiability`. Imports numpy and xarray.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from geostat.datasets.progress import Progress, tracked
from geostat.datasets.tokens import LayerTokens, layer_tokens, require
from geostat.datasets.variable import Value, sink_flag, stack_layers, variables
from geostat.errors import InputError
from geostat.fits.weights.autocorrelation import Background, background, lag_one, long_run_noise
from geostat.fits.weights.break_points import FORMS, search
from geostat.fits.weights.effects import distance, growth, total_log
from geostat.fits.weights.forms import CURVE, fit_row, predict
from geostat.fits.weights.identifiability import (
    AMPLITUDE,
    Standing,
    chosen_values,
    form_values,
    placement,
    reasons,
    strength,
)
from geostat.fits.weights.phase_mass import alone, arithmetic
from geostat.fits.weights.rivals import FREE, RIVALS, SIMPLE, compare, simple_fits, simple_slopes
from geostat.fits.weights.surrogates import judge, without_oscillation
from geostat.fits.weights.variables import RECORDS, TOKEN
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import SIGNIFICANCE, Estimate, leave_one_out_mean
from geostat.statistics.losses import (
    bayesian_information,
    mean_of_known,
    mean_over_documents,
    paired_gain,
)

NEEDS = {"attention_weight": ("document", "layer", "head", "position")}
MONOTONE, SHARED = FORMS.index("monotone"), FORMS.index("shared")
LMFIT_NAMES = {"p_base": "log_p_base", "eta": "eta", "eta_tail": "eta_tail", "omega": "omega"}


def layer_weights(capture: xr.Dataset, layer: int) -> tuple[LayerTokens, FloatArray, FloatArray]:
    """Return a layer's tokens, its weights (document, head, token), and its content tokens' log
    weights (NaN where α is 0 or unknown).

    Raises:
        InputError: if a weight is negative.
    """
    seen = layer_tokens(capture, layer)
    weight = capture["attention_weight"][:, layer, :, seen.start :].values.astype(np.float64)
    lowest = np.nanmin(weight) if np.isfinite(weight).any() else 0.0
    if lowest < 0:
        name = capture["layer"].values[layer]
        raise InputError(
            f"attention_weight of layer {name} has {lowest:.3g}, expected weights of at least 0."
            " Capture the run again."
        )
    content = weight[..., seen.first_content :]
    positive = np.isfinite(content) & (content > 0)
    return seen, weight, np.log(content, out=np.full(content.shape, np.nan), where=positive)


def fit_weights(capture: xr.Dataset, progress: Progress | None = None) -> xr.Dataset:
    """Fit Assumption 3 and its rivals to every query head.

    p_base, eta, omega, t1, t2 are those of the shared form where its oscillation stands out of the
    noise, else of the monotone form, with omega NaN ("none") and t1 = t2. Estimates are lmfit's
    optimum at the break points searched; replicates repeat the whole search. `variables` names
    every variable, with units and meaning.

    Args:
        capture: a /capture dataset; uses attention_weight (document, layer, head, position),
            tokens, sink_visible (layer).
        progress: called with the fraction done after each layer.

    Returns:
        What `variables` names, over (layer, head), by form (form_…), by rival (rival_…), by
        document (document_…) and by position. x_reason is the code why a parameter x has no x_se,
        x_se_tokens lmfit's own error, with tokens taken as independent. t1 and t2 are counted from
        the first visible token. Where the sink is not visible p_sink is NaN; a head without weights
        is NaN throughout and not converged.

    Raises:
        InputError: if a variable is missing, misshapen or empty, or a weight is negative.
    """
    require(capture, NEEDS)
    parts = [
        _fit_layer(capture, layer) for layer in tracked(range(capture.sizes["layer"]), progress)
    ]
    out = variables(RECORDS, stack_layers(RECORDS, parts)) | {"sink_visible": sink_flag(capture)}
    coords = {
        d: capture[d].variable
        for d in ("document", *TOKEN, "kv_head_of_head")
        if d in capture.coords
    }
    names = {
        dim: xr.Variable((dim,), np.array(values, dtype=object))
        for dim, values in {"form": FORMS, "rival": RIVALS}.items()
    }
    return xr.Dataset(out, coords=coords | names)


def _fit_layer(capture: xr.Dataset, layer: int) -> dict[str, Value]:
    seen, weight, log_weight = layer_weights(capture, layer)
    documents, heads, content = log_weight.shape
    first, last = seen.first_content, seen.tokens - 1.0
    position = first + np.arange(content, dtype=np.float64)
    carries: BoolArray = np.asarray(np.isfinite(log_weight).any(axis=-1))
    mean = mean_over_documents(log_weight)
    without = leave_one_out_mean(log_weight)
    result = search(np.concatenate([mean, without.reshape(documents * heads, content)]), first)
    best = {name: rows[:, :heads].copy() for name, rows in result.items()}
    again = {
        name: rows[:, heads:].reshape(len(FORMS), documents, heads) for name, rows in result.items()
    }
    at_bound, tokens_se = _polish(best, position, mean)
    residual = mean - predict(best, position)
    fits = _goodness(residual, mean)
    # Each document's mean squared residual under the fit to the others, (form, document, head),
    # nats²; one form at a time, for memory.
    fits_again = ({name: rows[k] for name, rows in again.items()} for k in range(len(FORMS)))
    loss = np.stack(
        [mean_of_known((log_weight - predict(one, position)) ** 2) for one in fits_again]
    )
    simple = simple_fits(position, log_weight, mean, without)
    every, losses = np.concatenate([simple.residual, residual]), np.concatenate([simple.loss, loss])
    noises = background(every)
    long_runs = np.sqrt(noises.density(np.zeros(1))[..., 0])
    noise, long_run = noises.take(slice(len(SIMPLE), None)), long_runs[len(SIMPLE) :]
    strong = strength(best, noise, long_run, last)
    standing, numbers = _standing(strong, losses, mean, every, noises, first)
    out: dict[str, Value] = {**numbers}
    half_width = placement(best, noise, position, np.isfinite(mean))
    codes = reasons(best, standing, half_width, at_bound, last)
    by_form = form_values(best, again, carries, codes, half_width)
    chosen = np.where(standing.oscillation[SHARED], SHARED, MONOTONE)
    pick = (chosen, np.arange(heads))
    out |= by_form | chosen_values(by_form, pick)
    rivals = compare(every, losses, long_runs)
    of_forms = (
        {f"{name}_se_tokens": values for name, values in tokens_se.items()}
        | fits
        | {"converged": best["converged"] == 1.0}
    )
    of_forms |= {
        name: rivals[f"rival_{name}"][len(SIMPLE) :]
        for name in ("loss_left_out", "loss_left_out_se")
    }
    out |= {f"form_{name}": values for name, values in of_forms.items()} | {
        name: values[pick] for name, values in of_forms.items()
    }
    out |= (
        {f"{name}_at_bound": values[pick] for name, values in at_bound.items()}
        | {"documents": carries.sum(axis=0)}
        | rivals
    )
    fit = {name: best[name][pick] for name in CURVE}
    fit_again = {name: np.moveaxis(again[name], 1, -1)[pick].T for name in CURVE}
    out |= arithmetic(weight, seen, fit, fit_again)
    total = out["total_model"]
    assert isinstance(total, Estimate)
    out["total_model_log"] = total_log(total)
    out |= growth(
        log_weight,
        position,
        last,
        fit,
        fit_again,
        standing.growth_seen[pick],
        at_bound["eta_tail"][pick],
        carries,
    )
    out |= distance(log_weight, position, fit, fit_again, carries)
    out |= simple_slopes(simple, carries)
    out |= alone(log_weight, first, chosen == SHARED)
    out |= _noise(
        residual[pick], noise.take(pick), long_run[pick], log_weight - (mean - residual[pick])
    )
    curves = {
        "log_weight_mean": mean,
        "log_weight_model": mean - residual[pick],
        "weight_mean": mean_over_documents(weight),
    }
    positions = capture.sizes["position"]
    return out | {
        name: np.pad(rows, ((0, 0), (positions - rows.shape[1], 0)), constant_values=np.nan)
        for name, rows in curves.items()
    }


def _polish(
    best: dict[str, FloatArray], position: FloatArray, mean: FloatArray
) -> tuple[dict[str, BoolArray], dict[str, FloatArray]]:
    """Put lmfit's optimum in place of the search's, in `best`.

    Returns:
        Which parameters are at a bound, and lmfit's own standard errors (tokens taken as
        independent), by name, shape (form, head).
    """
    shape = best["b"].shape
    at_bound = {name: np.zeros(shape, dtype=bool) for name in ("eta", "eta_tail", "omega")}
    error = {name: np.full(shape, np.nan) for name in LMFIT_NAMES}
    for k, form in enumerate(FORMS):
        for head in np.flatnonzero(np.isfinite(best["b"][k])):
            start = {name: float(rows[k, head]) for name, rows in best.items()}
            result = fit_row(form, position, mean[head], start)
            value = result.params.valuesdict()
            best["b"][k, head] = value["log_p_base"]
            best["eta_tail"][k, head] = value.get("eta_tail", value["eta"])
            if form != "monotone":
                best["eta_osc"][k, head], best["omega"][k, head] = value["eta"], value["omega"]
                at_bound["omega"][k, head] = not result.params["omega"].vary
            for name in ("eta", "eta_tail"):
                at_bound[name][k, head] = not result.params[name if name in value else "eta"].vary
            for name, source in LMFIT_NAMES.items():
                own = result.params.get(
                    source, result.params["eta"] if name == "eta_tail" else None
                )
                if own is not None and own.vary and own.stderr is not None:
                    error[name][k, head] = own.stderr
            best["converged"][k, head] = float(result.success and start["converged"] == 1.0)
    error["p_base"] *= np.exp(best["b"])
    return at_bound, error


def _goodness(residual: FloatArray, mean: FloatArray) -> dict[str, FloatArray]:
    """Return rmse, mae, r2, bic of every form, shape (form, head)."""
    points = np.isfinite(mean).sum(axis=-1)
    per_token = mean_of_known(residual**2)
    centre = mean_of_known(mean)[:, None]
    around = mean_of_known((mean - centre) ** 2)
    rounding = 1e-24 * (1.0 + centre[:, 0] ** 2)
    per_token = np.where(per_token > rounding, per_token, 0.0 * per_token)
    with np.errstate(invalid="ignore", divide="ignore"):
        r2 = np.where(around > rounding, 1.0 - per_token / around, np.nan)
    bic = np.stack(
        [
            bayesian_information(per_token[k] * points, points, FREE[form])
            for k, form in enumerate(FORMS)
        ]
    )
    return {
        "rmse": np.sqrt(per_token),
        "mae": mean_of_known(np.abs(residual)),
        "r2": r2,
        "bic": bic,
    }


def _standing(
    strong: dict[str, FloatArray],
    loss: FloatArray,
    mean: FloatArray,
    residual: FloatArray,
    noise: Background,
    first: int,
) -> tuple[Standing, dict[str, np.ndarray]]:
    """Return which phases stand out of the noise, and the numbers that rests on (gains: nats²);
    loss, residual and noise are by RIVALS.
    """
    power, constant, ahead = (RIVALS.index(form) for form in ("power_law", "constant", "monotone"))
    least = without_oscillation(residual[ahead], residual[power])
    less = np.nansum(residual[power] ** 2, axis=-1) < np.nansum(residual[ahead] ** 2, axis=-1)
    tested = judge(
        mean, least, noise.take((np.where(less, power, ahead), np.arange(less.size))), first
    )
    out: dict[str, np.ndarray] = {
        f"form_{phase}_to_noise": value for phase, value in strong.items()
    }
    out |= {"oscillation_p": tested.oscillation_p, "growth_p": tested.growth_p}
    out["growth_gain"], out["growth_gain_se"], grows = _better(loss[constant], loss[ahead])
    waves = [np.zeros(mean.shape[0], dtype=bool)]
    for form in ("shared", "separate"):
        gain, se, better = _better(loss[ahead], loss[RIVALS.index(form)])
        waves.append(better)
        if form == "shared":
            out["oscillation_gain"], out["oscillation_gain_se"] = gain, se
    with np.errstate(invalid="ignore"):
        standing = Standing(
            oscillation_seen=np.stack(waves) & (tested.oscillation_p <= SIGNIFICANCE),
            oscillation_large=strong["oscillation"] >= AMPLITUDE,
            growth_seen=np.broadcast_to(
                grows & (tested.growth_p <= SIGNIFICANCE), strong["growth"].shape
            ),
            growth_large=strong["growth"] >= 1.0,
        )
    out["form_oscillation_identified"] = standing.oscillation
    out["oscillation_identified"], out["growth_identified"] = (
        standing.oscillation[SHARED],
        standing.growth_seen[MONOTONE],
    )
    out["identified"] = out["oscillation_identified"] | out["growth_identified"]
    return standing, out


def _better(simple: FloatArray, rich: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the gain of the richer form by left-out loss, its standard error, and whether that
    speaks for it (one document: nothing does not).
    """
    gain, se = paired_gain(simple, rich)
    beyond_rounding = gain > 1e-12 * mean_over_documents(simple)
    return gain, se, np.where(np.isfinite(se), (gain > se) & beyond_rounding, True)


def _noise(
    residual: FloatArray, noise: Background, long_run: FloatArray, each: FloatArray
) -> dict[str, np.ndarray]:
    """Return how noisy the chosen fit's residuals, (head, token), are: of the mean, and of
    single documents (`each`) about their level.
    """
    about = each - mean_of_known(each)[..., None]
    return {
        "residual_autocorrelation": lag_one(residual),
        "long_run_noise": long_run,
        "long_run_newey_west": long_run_noise(residual),
        "noise_phi": noise.phi,
        "noise_theta": noise.theta,
        "document_noise": mean_over_documents(np.sqrt(mean_of_known(about**2))),
        "document_autocorrelation": mean_over_documents(lag_one(about)),
    }
