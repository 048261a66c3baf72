"""Fit of cosine similarity, Assumption 2: cosines of content values decay with the lag, and the
sink's cosine with every token is a constant ρ₀.

Source: arXiv 2602.01893, §3.2, eq. (6), Assumption 2, Figure 3. e^{−βk} and its rivals
(`geostat.fits.similarity.forms`) are fitted to each KV head's document mean of the mean cosine by
lag, weighted by pairs. Held-out loss chooses among forms (`geostat.statistics.one_standard_error`).
`feasible` flags a Gram that is not PSD; nothing is clipped. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np
import xarray as xr

from empirical.schema import Quantity
from geostat.datasets.overlap import Progress, part_of
from geostat.datasets.table import table
from geostat.datasets.tokens import require, tokens_of_layers
from geostat.datasets.variable import (
    Value,
    codes,
    combined,
    fit_dataset,
    flags,
    join_heads,
    join_rows,
    variables,
    words_along,
)
from geostat.fits.similarity.drift import Blocks, drift, sink_cosines
from geostat.fits.similarity.forms import FORM, FORMS, PARAMETER, feasible_edges
from geostat.fits.similarity.one_form import (
    Cosines,
    Fit,
    failed_replicates,
    fit_forms,
    numbers_of,
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
from geostat.statistics.arrays import FloatArray, pieces
from geostat.statistics.jackknife import Estimate
from geostat.statistics.losses import paired_gain
from geostat.statistics.one_standard_error import gain_over

HEAD: Final = ("layer", "kv_head")
GRAM: Final = ("gram", *HEAD)

FIT_REASONS: Final = {
    "no_data": "no document has a finite cosine",
    "too_few_lags": "fewer lags than parameters",
    "not_converged": "solver or lmfit did not converge; no standard errors",
    "at_bound": "a parameter is at its bound or undetermined, without standard error",
    "singular": "the parameters cannot be distinguished; no standard errors",
    "one_document": "one document: no standard errors, no held-out loss",
    "replicates": (
        "a leave-one-out fit failed or is at a bound: standard errors are rough or missing"
    ),
    "infeasible_content": "the Gram matrix of content tokens is not positive semidefinite",
    "saturated": "as many parameters as lags: the fit is exact, standard errors are meaningless",
}
HEAD_REASONS: Final = {
    "no_data": "no document has a finite cosine",
    "one_document": "one document: no standard errors, BIC chooses the form",
    "no_sink_visible": "the analysed query does not see the sink",
    "no_sink_cosine": "the sink is visible, but its cosines are not finite",
    "steady_cosine": "the mean cosine is the same at every lag",
    "no_drift": "fewer than two blocks of positions share a lag bin",
    "two_documents": "two documents: drift_rms has no standard error",
    "no_dimension": "the capture lacks the head dimension: no chance levels",
}

_form = partial(Quantity, equation="Assumption 2.1", dims=GRAM)
_PARAMETERS: Final = table(
    r"""
    beta | 1/token | \beta | decay of similarity | tested | note: a unitless exponent in the power
        forms; NaN for the constant, which has no decay
    offset | 1 | c | cosine at long lags; 0 for forms without offset | tested
    stretch | 1 | s | exponent of the stretched form; 1 for the others | estimated
""",
    equation="Assumption 2.1",
    dims=GRAM,
)
BY_FORM: Final = (
    *_PARAMETERS.values(),
    *table(
        r"""
    mae_by_lag | 1 | \mathrm{MAE}_{\mathrm{lag}} | mean over lags of |mean cosine - model| | tested
        | Fig. 3
    mae_by_pair | 1 | \mathrm{MAE}_{\mathrm{pair}} | mean over pairs of |cosine - model|, density
        uniform within histogram bins | estimated | Fig. 3 | interval: 95% document jackknife,
        t(K-1), the fit held fixed
    rmse | 1 | \mathrm{RMSE} | root mean squared residual of the mean cosine by lag, weighted by
        pairs
    r2 | 1 | R^2 | coefficient of determination of the mean cosine by lag, weighted by pairs
    loss_held_out | 1 | \mathcal{L}_{\mathrm{out}} | mean squared residual of a held-out document,
        weighted by pairs
    loss_held_out_se | 1 | \mathrm{se}(\mathcal{L}_{\mathrm{out}}) | standard error over documents
        of the held-out loss
    loss_excess | 1 | \Delta\mathcal{L}_{\mathrm{out}} | held-out loss minus that of the best form,
        mean over documents
    loss_excess_se | 1 | \mathrm{se}(\Delta\mathcal{L}_{\mathrm{out}}) | standard error over
        documents of the excess loss
    within_one_se | 1 | \Delta\mathcal{L} \leq \mathrm{se} | the form's excess loss is within its
        standard error
    clearly_lowest | 1 | \Delta\mathcal{L} > t\,\mathrm{se} | lowest held-out loss, below every
        other form's by a paired t-test at 95%
    gain_over_constant | 1 | \Delta\mathcal{L}_c | held-out loss of a constant minus that of the
        form
    gain_over_constant_se | 1 | \mathrm{se}(\Delta\mathcal{L}_c) | standard error over documents of
        the gain over a constant
    gain_over_constant_p | 1 | p_c | p-value of the gain over a constant, by a one-sided paired
        t-test
    bic | 1 | \mathrm{BIC} | Bayesian information criterion, assuming independent lags
    aicc | 1 | \mathrm{AICc} | Akaike information criterion, corrected, assuming independent lags
    rho0_edge | 1 | |\rho_0|_{\max} | largest sink cosine for which the fitted Gram is feasible |
        Assumption 2
    feasible | 1 | G \succeq 0 | the fitted Gram with the head's sink cosine is positive
        semidefinite | Assumption 2
""",
        equation="Assumption 2.1",
        dims=GRAM,
    ).values(),
    *(
        _form(
            f"{name}_at_bound",
            f"the optimum of {parameter.called} is {parameter.bound}",
            "1",
            parameter.bound_symbol,
        )
        for name, parameter in PARAMETER.items()
    ),
    *table(
        r"""
    converged | 1 | \mathrm{ok} | solver, and lmfit where it refines, converged
    singular | 1 | \det\Sigma = 0 | the covariance of the parameters is singular
""",
        equation="Assumption 2.1",
        dims=GRAM,
    ).values(),
    *(
        _form(
            f"{name}_se_lags",
            f"standard error of {PARAMETER[name].called}, if lags were independent",
            record.units,
            rf"\mathrm{{se}}_{{\mathrm{{lags}}}}({record.symbol})",
        )
        for name, record in _PARAMETERS.items()
    ),
    flags("flags", "why a number of a fit is missing or imprecise", FIT_REASONS, GRAM),
    _form("parameters", "free parameters of the form", "1", "p", dims=("gram",)),
)
BY_HEAD: Final = (
    *table(
        r"""
    rho0 | 1 | \rho_0 | cosine between the sink and a content token | tested | Assumption 2.2
    rho0_spread | 1 | \mathrm{sd}_j(\rho_{0j}) | standard deviation of the sink cosine over tokens
        within a document | estimated | Assumption 2.2
    sink_slope | 1 | \Delta_j\rho_{0j} | change of the sink cosine from the first content token to
        the last | tested | Assumption 2.2
    negative_fraction | 1 | \mathrm{P}(\rho_{ij} < 0) | share of negative cosines among pairs of
        content tokens | estimated | eq. (6)
    drift_slope | 1 | \Delta_i\rho_{i,i+k} | change of the mean cosine at fixed lag from the first
        token to the last | tested
    drift_rms | 1 | \mathrm{rms}_i(\rho_{i,i+k}) | root mean square deviation of a position block's
        mean cosine from its lag's mean, noise removed | estimated
    drift_slope_by_lag | 1 | \Delta_i\rho_{i,i+k} | change of the mean cosine in a lag bin from the
        first token to the last | estimated | dims: layer kv_head lag_bin
    rho0_spread_floor | 1 | (1-\rho_0^2)/\sqrt{d} | spread of sink cosines in d dimensions if the
        true cosine is constant, (1 − ρ₀²)/√d | Assumption 2.2
    drift_document_rms | 1 | \mathrm{rms}_{i,k} | root mean square deviation of a position block's
        mean cosine from its lag's mean in single documents, noise included
    chance_by_lag | 1 | \mathrm{E}|\bar c_k| | chance level of the error by lag for random
        directions, mean over lags of √(2/(π d m_k K)) | Fig. 3
    chance_by_pair | 1 | \mathrm{E}|\cos| | mean absolute cosine of two independent random
        directions, about √(2/(π d)) | Fig. 3 | dims: none
    offset_gain | 1 | \Delta\mathcal{L}_{\mathrm{out}} | held-out loss of the exponential form minus
        that of the offset form
    offset_gain_se | 1 | \mathrm{se}(\Delta\mathcal{L}_{\mathrm{out}}) | standard error over
        documents of the offset's gain
    offset_preferred | 1 | c \neq 0 | the offset's gain exceeds one standard error (by BIC with one
        document)
    documents | 1 | K | number of documents with data for the head | none
""",
        equation="Assumption 2.1",
        dims=HEAD,
    ).values(),
    flags("head_flags", "why a number of a head is missing or imprecise", HEAD_REASONS, HEAD),
    codes(
        "chosen",
        "preferred form: simplest within one standard error of the lowest held-out loss",
        FORMS,
        missing="none",
        symbol=r"\hat f",
        equation="Assumption 2.1",
        dims=HEAD,
    ),
)


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


FIT_MEMORY: Final = 4
"""Memory factor of a fit: it holds 48 arrays like its mean cosines (traced), 384 MB per piece."""


def _heads(capture: xr.Dataset, name: str) -> FloatArray:
    """Return a variable as (document, head, ...), layer by layer, in double precision."""
    values = capture[name].values
    return values.reshape(values.shape[0], -1, *values.shape[3:]).astype(np.float64)


def _histograms(capture: xr.Dataset) -> Iterator[FloatArray]:
    """Yield the cosine histograms head by head, (document, lag_bin, cosine_bin)."""
    heads = np.ndindex(capture.sizes["layer"], capture.sizes["kv_head"])
    for layer, kv_head in heads:
        yield capture["cosine_histogram"][:, layer, kv_head].values.astype(np.float64)


def _cosines(capture: xr.Dataset) -> Cosines:
    """Return the mean cosines at lags between content tokens."""
    content, lag = tokens_of_layers(capture).content, capture["lag"].values.astype(np.float64)
    keep = lag < content
    cosine = _heads(capture, "cosine_mean")[..., keep]
    cosine[~np.isfinite(cosine)] = np.nan
    return Cosines(lag=lag[keep], pairs=pairs_by_lag(lag[keep], content), cosine=cosine)


def layer_cosines(capture: xr.Dataset, layer: int) -> Cosines:
    """Return the mean cosines of one layer's KV heads, at lags between content tokens."""
    return _cosines(capture.isel(layer=[layer]))


def fit_similarity(capture: xr.Dataset, progress: Progress | None = None) -> xr.Dataset:
    """Fit Assumption 2 and its rivals to every KV head.

    Estimates of the printed and of the chosen form are lmfit's optima, started from the batched
    solver; those of other forms and the leave-one-document-out replicates are the solver's. A
    parameter at its bound keeps its value, is flagged, and has no standard error.

    Args:
        capture: a /capture dataset whose layers see equally many tokens; uses the variables of
            NEEDS, tokens and sink_visible, and the attribute `dimension` for chance levels.
        progress: called with the fraction done.

    Returns:
        The variables of `variables`, over (gram, layer, kv_head) and (layer, kv_head). beta is NaN
        for the constant; offset and stretch are 0 and 1 for forms without them; x_se_lags are
        errors that treat lags as independent.

    Raises:
        InputError: if a variable is missing, misshapen or empty.
    """
    require(capture, NEEDS)
    curves = int(np.prod([capture.sizes[dim] for dim in ("document", "kv_head", "lag")]))
    chunks = pieces(capture.sizes["layer"], FIT_MEMORY * curves)
    parts: list[dict[str, Value]] = []
    for number, chunk in enumerate(chunks):
        layers = capture.isel(layer=chunk)
        data = _cosines(layers)
        part = part_of(progress, number / len(chunks), (number + 1) / len(chunks))
        fits, choice = fit_forms(FORMS, data, part)
        heads = _by_head(layers, data)
        forms = join_rows([_by_form(fit, layers, data, heads["rho0"]) for fit in fits])
        parts.append(
            heads
            | forms
            | _offset_gain(fits, np.asarray(forms["bic"]))
            | _gain_over_constant(fits)
            | {
                "chosen": choice.chosen,
                "loss_excess": choice.excess,
                "loss_excess_se": choice.excess_se,
                "within_one_se": choice.within,
                "clearly_lowest": choice.clear,
            }
        )
    whole = join_heads((*BY_FORM, *BY_HEAD), parts, capture.sizes["kv_head"])
    dimension = int(capture.attrs.get("dimension", 0))
    whole["chance_by_pair"] = np.asarray(chance_by_pair(dimension) if dimension else np.nan)
    whole["parameters"] = np.array([form.number for form in FORM.values()])
    return fit_dataset(
        capture,
        variables((*BY_FORM, *BY_HEAD), whole),
        (*HEAD, "document", "lag_bin_start", "lag_bin_stop"),
        gram=words_along("gram", FORMS, "form of similarity"),
    )


def _by_form(fit: Fit, capture: xr.Dataset, data: Cosines, rho0: Value) -> dict[str, Value]:
    """Return the numbers of a form by variable, (head,), with errors by pair, feasibility, flags.

    Feasibility concerns the head's ρ₀ or, without a visible sink, content tokens alone.
    """
    assert isinstance(rho0, Estimate)
    visible, values = tokens_of_layers(capture), fit.estimate.values
    numbers = numbers_of(fit, data)
    numbers["mae_by_pair"] = mae_by_pair(
        _histograms(capture), Bins.of(capture), visible.content, fit.form, values
    )
    edge = feasible_edges(fit.form, **values, content=visible.content)
    feasible = np.isfinite(edge)
    if visible.sink:
        feasible &= np.abs(rho0.value) <= edge
    fitted, has_data = np.isfinite(fit.estimate.squares), np.isfinite(data.mean).any(axis=-1)
    reasons = {
        "no_data": ~has_data,
        "too_few_lags": has_data & ~fitted,
        "not_converged": fitted & ~fit.estimate.converged,
        "at_bound": np.asarray(numbers["at_bound"]),
        "singular": fit.singular,
        "one_document": data.carries.sum(axis=0) == 1,
        "replicates": fitted & failed_replicates(fit, data),
        "infeasible_content": fitted & ~np.isfinite(edge),
        "saturated": fitted & saturated(fit.form, data),
    }
    return numbers | {
        "feasible": feasible,
        "rho0_edge": edge if visible.sink else np.full(edge.shape, np.nan),
        "flags": combined(reasons, tuple(FIT_REASONS)),
    }


def _by_head(capture: xr.Dataset, data: Cosines) -> dict[str, Value]:
    """Return numbers without a form: sink, negative cosines, drift, chance levels, and flags."""
    visible = tokens_of_layers(capture)
    sink = _heads(capture, "sink_cosine")[..., visible.start + visible.first_content :]
    sink = np.where(np.isfinite(sink) & visible.sink, sink, np.nan)
    edges = ("position_block_start", "position_block_stop", "lag_bin_start", "lag_bin_stop")
    blocks = Blocks.of(visible, *(capture[name].values for name in edges))
    sinks = sink_cosines(sink)
    (drifts, document_rms) = drift(_heads(capture, "cosine_block_mean"), blocks)
    rho0 = sinks["rho0"].value
    out: dict[str, Value] = {**sinks, **drifts, "drift_document_rms": document_rms}
    out["negative_fraction"] = negative_share(
        _heads(capture, "cosine_negative_fraction")[..., : data.lag.size], data.pairs
    )
    documents = data.carries.sum(axis=0)
    dimension = int(capture.attrs.get("dimension", 0))
    missing = np.full(documents.shape, np.nan)
    out["chance_by_lag"] = chance_by_lag(dimension, data.pairs, documents) if dimension else missing
    out["rho0_spread_floor"] = (1.0 - rho0**2) / np.sqrt(dimension) if dimension else missing
    mean = data.mean
    constant = (
        np.nanmax(mean, axis=-1, initial=-np.inf) - np.nanmin(mean, axis=-1, initial=np.inf)
        <= CONSTANT_RANGE
    )
    reasons = {
        "no_data": documents == 0,
        "one_document": documents == 1,
        "no_sink_visible": np.full(documents.shape, not visible.sink),
        "no_sink_cosine": ~np.isfinite(rho0) & visible.sink,
        "steady_cosine": constant & (documents > 0),
        "no_drift": ~np.isfinite(drifts["drift_slope"].value),
        "two_documents": documents == 2,
        "no_dimension": np.full(documents.shape, dimension == 0),
    }
    return out | {"documents": documents, "head_flags": combined(reasons, tuple(HEAD_REASONS))}


CONSTANT_RANGE = 4.0 * float(np.finfo(np.float32).eps)
"""Range of the mean cosine over lags within rounding: it has no decay and no R²."""


def _gain_over_constant(fits: list[Fit]) -> dict[str, Value]:
    """Compare every form with the constant by held-out loss, (form, head)."""
    losses = np.stack([fit.loss for fit in fits], axis=1)
    gains = gain_over(losses[:, [FORMS.index("constant")]], losses)
    return {
        f"gain_over_constant{part}": x for part, x in zip(("", "_se", "_p"), gains, strict=True)
    }


def _offset_gain(fits: list[Fit], bic: FloatArray) -> dict[str, np.ndarray]:
    """Compare the printed form with its offset rival by held-out loss, or BIC with one document."""
    printed, rival = FORMS.index("exponential"), FORMS.index("offset")
    gain, se = paired_gain(fits[printed].loss, fits[rival].loss)
    preferred = np.where(np.isfinite(se), gain > se, bic[rival] < bic[printed])
    return {"offset_gain": gain, "offset_gain_se": se, "offset_preferred": preferred}
