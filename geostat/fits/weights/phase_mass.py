"""Attention mass by phase, from the arithmetic mean of the weights. Imports numpy.

Shares of attention (p_sink, phase masses) lie between 0 and 1 and differ a lot between documents,
so their intervals are found on the logit scale and carried back. Totals of fitted weights have
theirs on the log scale.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from geostat.datasets.tokens import LayerTokens
from geostat.datasets.variable import Value
from geostat.fits.weights.forms import predict
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import Estimate, document_mean, jackknife, leave_one_out_mean
from geostat.statistics.losses import mean_over_documents


def share_estimate(share: FloatArray, replicates: FloatArray, carries: BoolArray) -> Estimate:
    """Return the jackknife of a share, its interval found on the logit scale where the share and
    all replicates lie inside (0, 1).

    Elsewhere the interval is the plain one. The standard error is that of the share itself in
    either case. Arguments are those of `jackknife`.
    """
    plain = jackknife(share, replicates, carries)
    with np.errstate(divide="ignore", invalid="ignore"):
        bent = jackknife(
            np.log(share / (1.0 - share)), np.log(replicates / (1.0 - replicates)), carries
        )
    inside = np.isfinite(bent.se)
    assert bent.skew is not None
    assert plain.skew is not None
    lower, upper = (
        np.where(inside, 1.0 / (1.0 + np.exp(-np.where(inside, limit, 0.0))), other)
        for limit, other in ((bent.lower, plain.lower), (bent.upper, plain.upper))
    )
    return replace(
        plain,
        lower=lower,
        upper=upper,
        skew=np.where(inside, bent.skew, plain.skew),
        scale="logit",
    )


def arithmetic(
    weight: FloatArray, seen: LayerTokens, fit: dict[str, FloatArray], again: dict[str, FloatArray]
) -> dict[str, Value]:
    """Return the sink, the totals and the masses of the phases with their errors, and the share of
    zero weights.

    Weights are (document, head, token); `fit` holds the parameters (as CURVE) of each head's chosen
    form, (head,), `again` those of each replicate, (document, head).
    """
    known = np.isfinite(weight)
    content = weight[..., seen.first_content :]
    total_each = np.where(known.any(axis=-1), np.where(known, weight, 0.0).sum(axis=-1), np.nan)
    sink_each = weight[..., 0] if seen.sink else np.full(total_each.shape, np.nan)
    sink, sinks = mean_over_documents(sink_each), leave_one_out_mean(sink_each)
    p_sink = share_estimate(sink, sinks, np.isfinite(sink_each))
    out: dict[str, Value] = {
        "p_sink": p_sink,
        "mass_sink": p_sink,
        "document_p_sink": sink_each,
        "total": document_mean(total_each),
    }
    of_content = known[..., seen.first_content :]
    out["zero_weight_share"] = ratio(
        (of_content & (content == 0)).sum(axis=(0, -1)), of_content.sum(axis=(0, -1))
    )
    position, carries = seen.position, np.asarray(known.any(axis=-1))
    masses = _masses(mean_over_documents(content), fit, position)
    masses_again = _masses(leave_one_out_mean(content), again, position)
    for name, mass in masses.items():
        out[f"mass_{name}"] = share_estimate(mass, masses_again[name], carries).with_error_where(
            mass > 0
        )
    added, added_again = (
        (sink, sinks) if seen.sink else (np.zeros(sink.shape), np.zeros(sinks.shape))
    )
    model, models = (np.exp(predict(one, position)).sum(axis=-1) for one in (fit, again))
    model, models = model + added, models + added_again
    with np.errstate(divide="ignore", invalid="ignore"):
        fitted = jackknife(np.log(model), np.log(models), carries).exp(model)
    return out | {
        "total_model": fitted,
        "total_model_differs": (fitted.lower > 1.0) | (fitted.upper < 1.0),
    }


def _masses(
    mean: FloatArray, fit: dict[str, FloatArray], position: FloatArray
) -> dict[str, FloatArray]:
    """Return the mean attention in each fitted phase; NaN where nothing was fitted."""
    filled, fitted = np.nan_to_num(mean), np.isfinite(fit["b"])
    t1, t2 = fit["t1"][..., None], fit["t2"][..., None]
    phases = {
        "plateau": position <= t1,
        "oscillation": (position > t1) & (position <= t2),
        "tail": position > t2,
    }
    return {
        name: np.where(fitted, np.where(inside, filled, 0.0).sum(axis=-1), np.nan)
        for name, inside in phases.items()
    }
