"""Amended assumptions of each head: norms, similarity and residual directions by rank of the
weight, and the class of functional sinks.

The cosine of two content tokens is c(r) = c∞ + (c₁ − c∞)r^(−γ), r the larger of their ranks, where
the paper's Assumption 2 has e^(−βk), k their lag. Whether cosines depend on the rank, the lag or
both is tested on sampled cosines of held-out documents. Source: geostat; arXiv 2602.01893,
Assumptions 1 and 2, for the rivals. Imports numpy and xarray.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.datasets.table import quantities
from geostat.datasets.variable import codes, combined, flags, join_heads, variables, words_along
from geostat.fits.amended.forms import EFFECTS, FORMS, GAMMAS, fit, fit_coherence, loss
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import (
    SIGNIFICANCE,
    Estimate,
    document_mean,
    jackknife,
    sum_of_others,
)
from geostat.statistics.losses import mean_loss, mean_over_documents
from geostat.statistics.one_standard_error import gain_over

HEAD: Final = ("layer", "head")
FORM: Final = ("cosine_form", *HEAD)
LEAST: Final = 10
"""Largest number of pairs in a cell of two octaves that is left out."""

FLAGS: Final = {
    "no_octaves": "fewer than two octaves of ranks with enough pairs: no rank coherence",
    "exponent_at_bound": "the exponent of rank coherence is at the edge of its grid",
    "limit_at_bound": "c∞ is 0 or c₁ is 1 with all documents or all but one: no standard error",
    "no_residual": "fewer than 33 content tokens: no dimension, no prediction",
    "no_repeats": "no two tokens are equal, or their ids are unknown: pairs may be of equal tokens",
    "one_document": "one document: no standard errors, no held-out loss",
    "no_sink": "no document has a functional sink in the head",
    "all_sinks": "every visible token is a functional sink in some document",
}
RECORDS: Final = (
    *quantities(
        r"""
    coherence_first | 1 | c_1 | cosine at rank 1, extrapolated | estimated
    coherence_limit | 1 | c_\infty | limit of the cosine as the rank grows, extrapolated | estimated
    coherence_exponent | 1 | \gamma | exponent of the decay of cosines with rank
    coherence_rmse | 1 | \mathrm{RMSE} | root mean squared residual over pairs of octaves
    norm_slope | 1/octave | b_n | change of the log squared norm per octave of rank | estimated
    dimension | 1 | d_s | effective dimension of residuals along the sum of the top 31 values
        | estimated
    repeat_cosine | 1 | \kappa | correlation of the residuals of equal tokens | estimated
    class_norm_ratio | 1 | \lambda_S | root mean square norm of functional sinks over that of
        content tokens | estimated
    class_cosine | 1 | \rho_S | mean cosine of functional sinks with content tokens | estimated
    class_share | 1 | \mathrm{P}(S) | share of documents with a functional sink in the head
    first_share | 1 | \mathrm{P}(0 \in S) | share of documents in which the token at position 0 is
        a functional sink
    rank_added | 1 | \Delta\mathcal{L}_r | held-out loss of the lag's effect minus that of both
        effects
    rank_added_se | 1 | \mathrm{se}(\Delta\mathcal{L}_r) | its standard error over documents
    rank_added_p | 1 | p_r | p-value that the rank adds nothing to the lag, by a one-sided paired
        t-test
    lag_added | 1 | \Delta\mathcal{L}_k | held-out loss of the rank's effect minus that of both
        effects
    lag_added_se | 1 | \mathrm{se}(\Delta\mathcal{L}_k) | its standard error over documents
    lag_added_p | 1 | p_k | p-value that the lag adds nothing to the rank, by a one-sided paired
        t-test
    documents | 1 | K | number of documents
    """,
        dims=HEAD,
        equation="amended assumptions",
    ),
    *quantities(
        r"""
    loss_held_out | 1 | \mathcal{L}_{\mathrm{out}} | mean squared residual of a held-out document's
        cells, weighted by pairs
    loss_held_out_se | 1 | \mathrm{se}(\mathcal{L}_{\mathrm{out}}) | standard error over documents
        of the held-out loss
    """,
        dims=FORM,
        equation="amended assumptions",
    ),
    *quantities(
        r"""
    cosine | 1 | \overline{\cos(v_r,v_{r'})} | mean cosine of different tokens, by octave of the
        larger rank and of the lag: mean over heads, then over documents | estimated
    cosine_heads | 1 | - | heads with such pairs in at least one document
    """,
        dims=("octave", "lag_octave"),
        equation="amended assumptions",
    ),
    codes(
        "depends_on",
        "what cosines are shown to depend on: the rank or the lag adds to the other (rank_added_p,"
        " lag_added_p at 95%)",
        EFFECTS,
        missing="unknown",
        equation="amended assumptions",
        dims=HEAD,
    ),
    flags("flags", "why a number of a head is missing", FLAGS, HEAD),
)


def fit_amended(ranks: xr.Dataset) -> xr.Dataset:
    """Fit the amended assumptions.

    ranks: /ranks of a run. Returns /amended with RECORDS; errors from the document jackknife.
    """
    documents = ranks.sizes["document"]
    found = parameters(ranks)
    of_forms, of_heads = _forms(ranks)
    sink = _cases(ranks, "class_square")
    shares = {
        "class_share": np.isfinite(sink).mean(axis=0),
        "first_share": _cases(ranks, "sink_first").mean(axis=0),
    }
    none = np.zeros(sink.shape[1], dtype=bool)
    gamma = found["coherence_exponent"][0]
    decays = found["coherence_first"][0] > found["coherence_limit"][0]
    limits = found["coherence_first"], found["coherence_limit"]
    inside = ((limits[0] < 1) & (limits[1] > 0)).all(axis=0) | ~np.isfinite(gamma)
    raised = {
        "no_octaves": ~np.isfinite(gamma),
        "exponent_at_bound": decays & np.isin(gamma, GAMMAS[[0, -1]]),
        "limit_at_bound": ~inside,
        "no_residual": ~np.isfinite(found["dimension"][0]),
        "no_repeats": _cases(ranks, "equal_pairs").sum(axis=0) == 0,
        "one_document": none | (documents < 2),
        "no_sink": shares["class_share"] == 0,
        "all_sinks": (_cases(ranks, "content_tokens") == 0).any(axis=(0, 2)),
    }
    numbers: dict[str, Any] = {
        **{name: _estimate(found[name]) for name in ESTIMATED},
        **{name: _estimate(found[name]).with_error_where(inside) for name in COHERENCE},
        "coherence_exponent": np.where(decays, gamma, np.nan),
        "coherence_rmse": found["coherence_rmse"][0],
        "class_norm_ratio": document_mean(_norm_ratio(ranks)),
        "class_cosine": document_mean(_cases(ranks, "class_cosine")),
        "documents": np.full(none.shape, documents),
        "flags": combined(raised, tuple(FLAGS)),
    }
    whole = join_heads(RECORDS, [numbers | shares | of_heads | of_forms], ranks.sizes["head"])
    octaves = {name: ranks[name].variable for name in ("octave", "lag_octave") if name in ranks}
    forms = words_along("cosine_form", FORMS, "form of the cosine")
    return xr.Dataset(
        variables(RECORDS, whole | _by_rank_and_lag(ranks)),
        coords={"cosine_form": forms} | octaves,
        attrs={"long_name": "amended assumptions, by rank of the weight", "documents": documents},
    )


ESTIMATED: Final = ("norm_slope", "dimension", "repeat_cosine")
"""Parameters of `parameters` with a standard error."""
COHERENCE: Final = ("coherence_first", "coherence_limit")
"""Those that may be at a bound."""


def parameters(ranks: xr.Dataset) -> dict[str, FloatArray]:
    """Return the parameters of each head from all documents and from all but one, (replicate,
    case), a case for each head, by name of RECORDS; and `square`, the mean squared norm by octave.
    """
    square, slope = _norms(ranks)
    return (
        {"square": square, "norm_slope": slope}
        | _coherence(ranks, square)
        | {
            "dimension": ratio(1.0, _others(_cases(ranks, "residual_along_s"))),
            "class_norm_ratio": _others(_norm_ratio(ranks)),
            "class_cosine": _others(_cases(ranks, "class_cosine")),
        }
    )


def _cases(ranks: xr.Dataset, name: str) -> FloatArray:
    """Return a variable of /ranks as (document, case, ...), a case for each head."""
    values = ranks[name].values.astype(np.float64)
    return values.reshape(values.shape[0], -1, *values.shape[3:])


def _pooled(total: FloatArray) -> FloatArray:
    """Return sums over documents: all, then all but one; (replicate, ...)."""
    return np.concatenate([total.sum(axis=0)[None], sum_of_others(total)])


def _means(ranks: xr.Dataset, mean: str, count: str) -> tuple[FloatArray, FloatArray]:
    """Return means weighted by their counts, over all documents and all but one, and the counts."""
    counts = _cases(ranks, count)
    total = np.where(counts > 0, np.nan_to_num(_cases(ranks, mean)) * counts, 0.0)
    pooled = _pooled(counts)
    return ratio(_pooled(total), pooled), pooled


def _estimate(replicates: FloatArray) -> Estimate:
    """Return the jackknife of (replicate, case): all documents, then all but one."""
    return jackknife(replicates[0], replicates[1:])


def _others(values: FloatArray) -> FloatArray:
    """Return the mean over all documents, then over all but one, ignoring NaN."""
    known = np.isfinite(values)
    return ratio(_pooled(np.where(known, values, 0.0)), _pooled(known.astype(np.float64)))


def _norms(ranks: xr.Dataset) -> tuple[FloatArray, FloatArray]:
    """Return the mean squared norms by octave, (replicate, case, octave), and the slope of their
    logarithm, (replicate, case).
    """
    square, count = _means(ranks, "octave_square", "octave_tokens")
    known = (count > 0) & (square > 0)
    log = np.log(np.where(known, square, 1.0))
    octave = np.arange(log.shape[-1], dtype=np.float64)
    weight = known.astype(np.float64)

    def mean(values: FloatArray) -> FloatArray:
        return ratio((weight * values).sum(axis=-1), weight.sum(axis=-1))[..., None]

    centred = octave - mean(np.broadcast_to(octave, log.shape))
    slope = ratio(
        (weight * centred * (log - mean(log))).sum(axis=-1), (weight * centred**2).sum(axis=-1)
    )
    return np.where(known, square, np.nan), slope


def _norm_ratio(ranks: xr.Dataset) -> FloatArray:
    """Return the norm of functional sinks over that of content tokens, (document, case)."""
    count = _cases(ranks, "octave_tokens")
    total = np.nansum(_cases(ranks, "octave_square") * count, axis=-1)
    return np.sqrt(ratio(_cases(ranks, "class_square"), ratio(total, count.sum(axis=-1))))


def _coherence(ranks: xr.Dataset, square: FloatArray) -> dict[str, FloatArray]:
    """Return the parameters of rank coherence, its residual, and the correlation of residuals of
    equal tokens.
    """
    product, ordered = _means(ranks, "octave_product", "octave_pairs")
    larger, smaller = np.tril_indices(square.shape[-1])
    cosine = ratio(
        product[..., larger, smaller], np.sqrt(square[..., larger] * square[..., smaller])
    )
    pairs = ordered[..., larger, smaller] / np.where(larger == smaller, 2, 1)
    # the cells of all documents, in every replicate that has them
    used = np.isfinite(cosine) & (pairs > 0) & (pairs[0] > LEAST)
    used &= (used @ np.eye(square.shape[-1])[larger] > 0).sum(axis=-1, keepdims=True) > 1
    cosine, weight = (array.reshape(-1, len(larger)) for array in (cosine, used.astype(float)))
    fitted = fit_coherence(cosine, weight, larger)
    first, limit, gamma, squares = (
        array.reshape(square.shape[:2])
        for array in (
            *(fitted.first, fitted.limit, fitted.gamma),
            loss(fitted.cosine, cosine, weight),
        )
    )
    product, _ = _means(ranks, "equal_product", "equal_pairs")
    of_pairs, _ = _means(ranks, "equal_square", "equal_pairs")
    low = limit + (first - limit) * LOW**-gamma
    repeat = ratio(ratio(product, of_pairs) - low, 1 - low)
    return {
        "coherence_first": first,
        "coherence_limit": limit,
        "coherence_exponent": gamma,
        "coherence_rmse": np.sqrt(squares),
        "repeat_cosine": repeat.clip(0.0, 0.99),
    }


LOW: Final = 190.0
"""Rank, in octave 7, whose cosine is that of different tokens: beyond it c(r) hardly falls."""


def _forms(ranks: xr.Dataset) -> tuple[dict[str, Any], dict[str, Any]]:
    """Compare forms of the cosine by rank and by lag on held-out documents."""
    cosine, count = _cases(ranks, "lag_cosine"), _cases(ranks, "lag_pairs")
    documents, cases, octaves, lags = cosine.shape
    total = np.where(count > 0, np.nan_to_num(cosine) * count, 0.0)
    cells = [octave.ravel() for octave in np.indices((octaves, lags))]
    size = octaves * lags
    rest, rest_count = sum_of_others(total).reshape(-1, size), sum_of_others(count)
    rest_count = rest_count.reshape(-1, size)
    held_out = []
    for form in FORMS:
        fitted = fit(form, ratio(rest, rest_count), rest_count, *cells)
        of_form = loss(fitted, cosine.reshape(-1, size), count.reshape(-1, size))
        held_out.append(of_form.reshape(documents, cases))
    losses = np.stack(held_out)
    mean, se = mean_loss(np.moveaxis(losses, 1, 0))
    by_form = dict(zip(FORMS, losses, strict=True))
    of_heads: dict[str, Any] = {}
    added: dict[str, Any] = {}
    for name, without in (("rank", "lag"), ("lag", "rank")):
        gain, gain_se, p = gain_over(by_form[without], by_form["rank_and_lag"])
        of_heads |= {f"{name}_added": gain, f"{name}_added_se": gain_se, f"{name}_added_p": p}
        added[name] = p <= SIGNIFICANCE
    # the code of EFFECTS: 1 for the rank, 2 for the lag, 3 for both
    shown = added["rank"] + 2 * added["lag"]
    of_heads["depends_on"] = np.where(np.isfinite(of_heads["rank_added_p"]), shown, -1)
    return {"loss_held_out": mean, "loss_held_out_se": se}, of_heads


def _by_rank_and_lag(ranks: xr.Dataset) -> dict[str, Any]:
    """Return the mean cosine over heads by octave of the larger rank and of the lag."""
    cosine = _cases(ranks, "lag_cosine")
    means = [mean_over_documents(of_document) for of_document in cosine]
    heads = np.isfinite(cosine).any(axis=0).sum(axis=0)
    return {"cosine": document_mean(np.stack(means)), "cosine_heads": heads}
