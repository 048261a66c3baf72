"""Fit of the four-phase attention profile, Assumption 3: attention weights have a sink, a plateau,
an oscillation, and exponential growth to the last token.

Source: arXiv 2602.01893, §3.3, Assumption 3 and Figure 4. The profile is fitted to the document
mean of log α over visible content tokens; p_sink, Σα and the masses of the phases use the
arithmetic mean. Forms: *shared* (as printed: one η for oscillation and growth), *separate* (η_osc
and η_tail), *monotone* (T₁ = T₂: no oscillation); `rivals` adds simpler forms and chooses among
all. Break points are integers, found by search (`break_points`). Residuals are autocorrelated noise
(`autocorrelation`). `identifiability` decides which phases exceed the noise and which break points
the data identify. Imports numpy and xarray.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import xarray as xr

from geostat.datasets.overlap import overlapped
from geostat.datasets.progress import Progress, tracked
from geostat.datasets.tokens import LayerTokens, layer_tokens, require, select_heads
from geostat.datasets.variable import (
    Value,
    mapped,
    side_by_side,
    sink_flag,
    stack_layers,
    variables,
)
from geostat.errors import InputError
from geostat.fits.weights.autocorrelation import background, lag_one, long_run_noise
from geostat.fits.weights.break_points import FORMS, search, search_documents
from geostat.fits.weights.effects import arithmetic, common_variance, distance, growth
from geostat.fits.weights.forms import CURVE, predict, refine
from geostat.fits.weights.identifiability import (
    form_values,
    phase_significance,
    placement,
    reasons,
    reported,
    strength,
)
from geostat.fits.weights.rivals import FREE, RIVALS, SIMPLE, compare, simple_fits, simple_slopes
from geostat.fits.weights.variables import RECORDS, TOKEN
from geostat.statistics.arrays import BoolArray, FloatArray, pieces
from geostat.statistics.jackknife import leave_one_out_mean
from geostat.statistics.losses import (
    bayesian_information,
    mean_of_known,
    mean_over_documents,
)

NEEDS = {"attention_weight": ("document", "layer", "head", "position")}


def layer_weights(capture: xr.Dataset, layer: int) -> tuple[LayerTokens, FloatArray, FloatArray]:
    """Return a layer's tokens, weights (document, head, token), and log weights of content tokens.

    Log weights are NaN where α is 0 or unknown.

    Raises:
        InputError: if a weight is negative.
    """
    visible = layer_tokens(capture, layer)
    weight = capture["attention_weight"][:, layer, :, visible.start :].values.astype(np.float64)
    lowest = np.nanmin(weight) if np.isfinite(weight).any() else 0.0
    if lowest < 0:
        name = capture["layer"].values[layer]
        raise InputError(
            f"attention_weight of layer {name} has {lowest:.3g}, expected weights of at least 0."
            " Capture the run again."
        )
    content = weight[..., visible.first_content :]
    if "log_attention_weight" in capture:  # mean of logs over queries, not log of the mean
        logs = capture["log_attention_weight"][:, layer, :, visible.start :].values
        return visible, weight, logs[..., visible.first_content :].astype(np.float64)
    positive = np.isfinite(content) & (content > 0)
    return visible, weight, np.log(content, out=np.full(content.shape, np.nan), where=positive)


def fit_weights(capture: xr.Dataset, progress: Progress | None = None) -> xr.Dataset:
    """Fit Assumption 3 and its rivals to every query head.

    p_base, eta, omega, t1 and t2 come from the form of Assumption 3 whose oscillation exceeds the
    noise (`identifiability.reported`), otherwise from the monotone form, with omega NaN ("none")
    and t1 = t2. In the separate form, eta is the oscillation's. Estimates are lmfit's optimum at
    the break points of the search; replicates repeat the whole search. `variables` defines all
    variables.

    Args:
        capture: a /capture dataset; uses attention_weight (document, layer, head, position),
            log_attention_weight with the same dims if present, tokens, sink_visible (layer).
        progress: called with the fraction done after each group of heads.

    Returns:
        The variables of `variables`, over (layer, head), by form (form_…), rival (rival_…),
        document (document_…) and position. x_reason is the code why a parameter x has no x_se;
        x_se_tokens is lmfit's error, which treats tokens as independent. t1 and t2 count from the
        first visible token. p_sink is NaN where the sink is not visible; a head without weights is
        NaN throughout and not converged.

    Raises:
        InputError: if a variable is missing, misshapen or empty, or a weight is negative.
    """
    require(capture, NEEDS)
    documents, layers, heads, positions = (capture.sizes[dim] for dim in NEEDS["attention_weight"])
    groups = pieces(heads, documents * positions)
    names = (*NEEDS, "log_attention_weight", "tokens", "sink_visible")
    tasks = [
        select_heads(capture, names, layer=[layer], head=group)
        for layer, group in product(range(layers), groups)
    ]
    # One thread searches while lmfit, which holds the GIL, fits other heads in the second thread.
    fitted = overlapped(_fit_heads, tasks)
    parts = [part for _, part in zip(tracked(tasks, progress), fitted, strict=True)]
    by_layer = [
        side_by_side(RECORDS, parts[first : first + len(groups)], "head")
        for first in range(0, len(parts), len(groups))
    ]
    out = variables(RECORDS, stack_layers(RECORDS, by_layer)) | {"sink_visible": sink_flag(capture)}
    # Set after moderation, to agree with the moderated interval.
    lower, upper = (out[f"total_model_{end}"].values for end in ("lower", "upper"))
    out["total_model_differs"].values[:] = (lower > 1.0) | (upper < 1.0)
    coords = {
        dim: capture[dim].variable
        for dim in ("document", *TOKEN, "kv_head_of_head")
        if dim in capture.coords
    }
    labels = {
        dim: xr.Variable((dim,), np.array(values, dtype=object))
        for dim, values in {"form": FORMS, "rival": RIVALS}.items()
    }
    return xr.Dataset(out, coords=coords | labels)


def _fit_heads(capture: xr.Dataset) -> dict[str, Value]:
    """Return the numbers of heads of one layer, by the names of RECORDS."""
    visible, weight, log_weight = layer_weights(capture, 0)
    first, last, position = visible.first_content, visible.tokens - 1.0, visible.position
    carries: BoolArray = np.asarray(np.isfinite(log_weight).any(axis=-1))
    mean, without = mean_over_documents(log_weight), leave_one_out_mean(log_weight)
    documents, heads, content = without.shape
    # One search fits the means, (form, head), and the replicates, (form, document, head).
    searched = search(np.concatenate([mean, without.reshape(documents * heads, content)]), first)
    best = {name: rows[:, :heads].copy() for name, rows in searched.items()}
    replicates = {
        name: rows[:, heads:].reshape(len(FORMS), documents, heads)
        for name, rows in searched.items()
    }
    at_bound, tokens_se = refine(best, position, mean)
    residual = mean - predict(best, position)
    simple = simple_fits(position, log_weight, mean, without)
    residuals = np.concatenate([simple.residual, residual])
    # Held-out losses, (rival, document, head), form by form to save memory.
    fits = ({name: rows[form] for name, rows in replicates.items()} for form in range(len(FORMS)))
    of_forms = [mean_of_known((log_weight - predict(fit, position)) ** 2) for fit in fits]
    losses = np.concatenate([simple.loss, np.stack(of_forms)])
    noises = background(residuals)
    long_runs = np.sqrt(noises.density(np.zeros(1))[..., 0])
    noise, long_run = noises.take(slice(len(SIMPLE), None)), long_runs[len(SIMPLE) :]
    strengths = strength(best, noise, long_run, last)
    significance, numbers = phase_significance(strengths, losses, mean, residuals, noises, first)
    half_width = placement(best, noise, position, np.isfinite(mean))
    codes = reasons(best, significance, half_width, at_bound, last)
    rivals = compare(residuals, losses, long_runs)
    by_form: dict[str, Value] = {
        **form_values(best, replicates, carries, codes, half_width),
        **_goodness(residual, mean),
        "form_converged": best["converged"] == 1.0,
        "form_loss_held_out": rivals["rival_loss_held_out"][len(SIMPLE) :],
        "form_loss_held_out_se": rivals["rival_loss_held_out_se"][len(SIMPLE) :],
        **{f"form_{name}_se_tokens": values for name, values in tokens_se.items()},
    }
    # The head's form: an index of FORMS, and of arrays (form, head).
    form = reported(significance, losses)
    pick = (form, np.arange(heads))
    fit = {name: best[name][pick] for name in CURVE}
    fit_replicates = {name: np.moveaxis(replicates[name], 1, -1)[pick].T for name in CURVE}
    model = mean - residual[pick]
    centred = log_weight - model
    centred = centred - mean_of_known(centred)[..., None]
    out: dict[str, Value] = {
        **numbers,
        **by_form,
        # Numbers of the head's form, without form_ in their names; `numbers` has its own.
        **{
            name.removeprefix("form_"): mapped(value, lambda array: array[pick])
            for name, value in by_form.items()
        },
        **rivals,
        "form_chosen": form,
        "preferred_differs": (rivals["preferred"] >= 0)
        & (rivals["preferred"] != len(SIMPLE) + form),
        **{f"{name}_at_bound": values[pick] for name, values in at_bound.items()},
        "documents": carries.sum(axis=0),
        **arithmetic(weight, visible, fit, fit_replicates),
        **growth(
            log_weight,
            visible,
            fit,
            fit_replicates,
            significance.growth_detected[pick],
            at_bound["eta_tail"][pick],
        ),
        **distance(log_weight, visible, fit, fit_replicates),
        **common_variance(log_weight, predict(fit_replicates, position), carries),
        **simple_slopes(simple, carries),
        **search_documents(log_weight, first, form),
        "residual_autocorrelation": lag_one(residual[pick]),
        "long_run_noise": long_run[pick],
        "long_run_newey_west": long_run_noise(residual[pick]),
        "noise_phi": noise.phi[pick],
        "noise_theta": noise.theta[pick],
        "document_noise": mean_over_documents(np.sqrt(mean_of_known(centred**2))),
        "document_autocorrelation": mean_over_documents(lag_one(centred)),
    }
    curves = {
        "log_weight_mean": mean,
        "log_weight_model": model,
        "weight_mean": mean_over_documents(weight),
    }
    for name, curve in curves.items():
        hidden = capture.sizes["position"] - curve.shape[1]
        out[name] = np.pad(curve, ((0, 0), (hidden, 0)), constant_values=np.nan)
    return out


def _goodness(residual: FloatArray, mean: FloatArray) -> dict[str, FloatArray]:
    """Return form_rmse, form_mae, form_r2 and form_bic, each (form, head)."""
    points = np.isfinite(mean).sum(axis=-1)
    per_token = mean_of_known(residual**2)
    centre = mean_of_known(mean)[:, None]
    variation = mean_of_known((mean - centre) ** 2)
    rounding = 1e-24 * (1.0 + centre[:, 0] ** 2)
    per_token = np.where(per_token > rounding, per_token, 0.0 * per_token)
    with np.errstate(invalid="ignore", divide="ignore"):
        r2 = np.where(variation > rounding, 1.0 - per_token / variation, np.nan)
    free = np.array([[FREE[form]] for form in FORMS])
    return {
        "form_rmse": np.sqrt(per_token),
        "form_mae": mean_of_known(np.abs(residual)),
        "form_r2": r2,
        "form_bic": bayesian_information(per_token * points, points, free),
    }
