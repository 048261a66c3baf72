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

from itertools import product

import numpy as np
import xarray as xr

from geostat.datasets.overlap import overlapped
from geostat.datasets.progress import Progress, tracked
from geostat.datasets.tokens import LayerTokens, layer_tokens, require, some_heads
from geostat.datasets.variable import (
    Value,
    side_by_side,
    sink_flag,
    stack_layers,
    variables,
)
from geostat.errors import InputError
from geostat.fits.weights.autocorrelation import Background, background, lag_one, long_run_noise
from geostat.fits.weights.break_points import FORMS, search, search_documents
from geostat.fits.weights.common_variance import common_variance
from geostat.fits.weights.effects import distance, growth, total_log
from geostat.fits.weights.forms import CURVE, predict, refine
from geostat.fits.weights.identifiability.estimates import chosen_values, form_values, reasons
from geostat.fits.weights.identifiability.placement import placement
from geostat.fits.weights.identifiability.standing import reported, stand_out, strength
from geostat.fits.weights.phase_mass import arithmetic
from geostat.fits.weights.rivals import FREE, RIVALS, SIMPLE, compare, simple_fits, simple_slopes
from geostat.fits.weights.variables.parameters import TOKEN
from geostat.fits.weights.variables.records import RECORDS
from geostat.statistics.arrays import BoolArray, FloatArray, pieces
from geostat.statistics.jackknife import Estimate, leave_one_out_mean
from geostat.statistics.losses import (
    bayesian_information,
    mean_of_known,
    mean_over_documents,
)

NEEDS = {"attention_weight": ("document", "layer", "head", "position")}


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
    if "log_attention_weight" in capture:  # a mean over queries, no logarithm of their mean
        logs = capture["log_attention_weight"][:, layer, :, seen.start :].values
        return seen, weight, logs[..., seen.first_content :].astype(np.float64)
    positive = np.isfinite(content) & (content > 0)
    return seen, weight, np.log(content, out=np.full(content.shape, np.nan), where=positive)


def fit_weights(capture: xr.Dataset, progress: Progress | None = None) -> xr.Dataset:
    """Fit Assumption 3 and its rivals to every query head.

    p_base, eta, omega, t1, t2 are those of the form of Assumption 3 whose oscillation stands out of
    the noise (`identifiability.standing.reported`), else of the monotone form, with omega NaN
    ("none") and t1 = t2; where both oscillate, eta is the oscillation's. Estimates are lmfit's
    optimum at the break points searched; replicates repeat the whole search. `variables` names
    every variable, with units and meaning.

    Args:
        capture: a /capture dataset; uses attention_weight (document, layer, head, position),
            log_attention_weight of the same dims if it is there, tokens, sink_visible (layer).
        progress: called with the fraction done after some heads.

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
    documents, layers, heads, positions = (capture.sizes[dim] for dim in NEEDS["attention_weight"])
    groups = pieces(heads, documents * positions)
    names = (*NEEDS, "log_attention_weight", "tokens", "sink_visible")
    tasks = [
        some_heads(capture, names, layer=[layer], head=some)
        for layer, some in product(range(layers), groups)
    ]
    # The search of some heads goes on while lmfit, which has Python's lock, fits others.
    fitted = overlapped(_fit_heads, tasks)
    parts = [part for _, part in zip(tracked(tasks, progress), fitted, strict=True)]
    each = [
        side_by_side(RECORDS, parts[first : first + len(groups)], "head")
        for first in range(0, len(parts), len(groups))
    ]
    out = variables(RECORDS, stack_layers(RECORDS, each)) | {"sink_visible": sink_flag(capture)}
    # After moderation, so that the flag says what the interval says.
    lower, upper = (out[f"total_model_{end}"].values for end in ("lower", "upper"))
    out["total_model_differs"].values[:] = (lower > 1.0) | (upper < 1.0)
    coords = {
        d: capture[d].variable
        for d in ("document", *TOKEN, "kv_head_of_head")
        if d in capture.coords
    }
    words = {
        dim: xr.Variable((dim,), np.array(values, dtype=object))
        for dim, values in {"form": FORMS, "rival": RIVALS}.items()
    }
    return xr.Dataset(out, coords=coords | words)


def _fit_heads(capture: xr.Dataset) -> dict[str, Value]:
    """Return the numbers of heads of one layer, by the names of RECORDS."""
    seen, weight, log_weight, best, again = _searched(capture)
    first, last, position = seen.first_content, seen.tokens - 1.0, seen.position
    carries: BoolArray = np.asarray(np.isfinite(log_weight).any(axis=-1))
    mean, without = mean_over_documents(log_weight), leave_one_out_mean(log_weight)
    at_bound, tokens_se = refine(best, position, mean)
    residual = mean - predict(best, position)
    simple = simple_fits(position, log_weight, mean, without)
    every = np.concatenate([simple.residual, residual])
    losses = np.concatenate([simple.loss, _left_out_loss(log_weight, again, position)])
    noises = background(every)
    long_runs = np.sqrt(noises.density(np.zeros(1))[..., 0])
    noise, long_run = noises.take(slice(len(SIMPLE), None)), long_runs[len(SIMPLE) :]
    strong = strength(best, noise, long_run, last)
    standing, numbers = stand_out(strong, losses, mean, every, noises, first)
    half_width = placement(best, noise, position, np.isfinite(mean))
    codes = reasons(best, standing, half_width, at_bound, last)
    by_form = form_values(best, again, carries, codes, half_width)
    pick = (reported(standing, losses), np.arange(mean.shape[0]))
    rivals = compare(every, losses, long_runs)
    preferred = rivals["preferred"]
    out: dict[str, Value] = {**numbers, **by_form, **chosen_values(by_form, pick), **rivals}
    out["preferred_differs"] = (preferred >= 0) & (preferred != len(SIMPLE) + pick[0])
    goodness = _goodness(residual, mean) | {"converged": best["converged"] == 1.0}
    out |= _by_form_and_chosen(goodness, tokens_se, rivals, pick)
    out |= {f"{name}_at_bound": values[pick] for name, values in at_bound.items()}
    out["documents"] = carries.sum(axis=0)
    fit = {name: best[name][pick] for name in CURVE}
    fit_again = {name: np.moveaxis(again[name], 1, -1)[pick].T for name in CURVE}
    out |= arithmetic(weight, seen, fit, fit_again)
    total = out["total_model"]
    assert isinstance(total, Estimate)
    out["total_model_log"] = total_log(total)
    seen_growth, stuck = standing.growth_seen[pick], at_bound["eta_tail"][pick]
    out |= growth(log_weight, seen, fit, fit_again, seen_growth, stuck)
    out |= distance(log_weight, seen, fit, fit_again)
    out |= common_variance(log_weight, predict(fit_again, seen.position), carries)
    out |= simple_slopes(simple, carries)
    out |= search_documents(log_weight, first, pick[0])
    model = mean - residual[pick]
    out |= _noise(residual[pick], noise.take(pick), long_run[pick], log_weight - model)
    curves = {
        "log_weight_mean": mean,
        "log_weight_model": model,
        "weight_mean": mean_over_documents(weight),
    }
    return out | _by_position(curves, capture.sizes["position"])


def _searched(
    capture: xr.Dataset,
) -> tuple[LayerTokens, FloatArray, FloatArray, dict[str, FloatArray], dict[str, FloatArray]]:
    """Return `layer_weights` of the one layer, and search every form in the mean log weight and in
    the means without one document: parameters, (form, head) and (form, document, head).
    """
    seen, weight, log_weight = layer_weights(capture, 0)
    mean, without = mean_over_documents(log_weight), leave_one_out_mean(log_weight)
    documents, heads, content = without.shape
    rows = np.concatenate([mean, without.reshape(documents * heads, content)])
    result = search(rows, seen.first_content)
    best = {name: rows[:, :heads].copy() for name, rows in result.items()}
    again = {
        name: rows[:, heads:].reshape(len(FORMS), documents, heads) for name, rows in result.items()
    }
    return seen, weight, log_weight, best, again


def _left_out_loss(
    log_weight: FloatArray, again: dict[str, FloatArray], position: FloatArray
) -> FloatArray:
    """Return each document's mean squared residual under the fit to the others, (form, document,
    head), nats²; form by form, for memory.
    """
    fits_again = ({name: rows[k] for name, rows in again.items()} for k in range(len(FORMS)))
    return np.stack(
        [mean_of_known((log_weight - predict(one, position)) ** 2) for one in fits_again]
    )


def _by_form_and_chosen(
    goodness: dict[str, np.ndarray],
    tokens_se: dict[str, FloatArray],
    rivals: dict[str, np.ndarray],
    pick: tuple[np.ndarray, np.ndarray],
) -> dict[str, np.ndarray]:
    """Return goodness, left-out losses and lmfit's own errors of every form, form_x, (form, head),
    and of each head's own, x, (head,).
    """
    of_forms = {f"{name}_se_tokens": values for name, values in tokens_se.items()} | goodness
    for name in ("loss_left_out", "loss_left_out_se"):
        of_forms[name] = rivals[f"rival_{name}"][len(SIMPLE) :]
    return {f"form_{name}": values for name, values in of_forms.items()} | {
        name: values[pick] for name, values in of_forms.items()
    }


def _by_position(curves: dict[str, FloatArray], positions: int) -> dict[str, np.ndarray]:
    """Return curves, (head, token), over all positions; NaN at those that are not seen."""
    return {
        name: np.pad(rows, ((0, 0), (positions - rows.shape[1], 0)), constant_values=np.nan)
        for name, rows in curves.items()
    }


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
    free = np.array([[FREE[form]] for form in FORMS])
    return {
        "rmse": np.sqrt(per_token),
        "mae": mean_of_known(np.abs(residual)),
        "r2": r2,
        "bic": bayesian_information(per_token * points, points, free),
    }


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
