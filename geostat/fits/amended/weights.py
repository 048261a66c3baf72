"""Weights by rank: quantile functions of the log weights of a query's content tokens.

Assumption 3 of arXiv 2602.01893 gives the weight by position; here log α_(k) = a + σQ(p_k), k the
rank, p_k = (k − 3/8)/(n + 1/4) of n content tokens (Blom 1958), and Q the quantile function of a
form, z the normal one. Scale and shape are fitted to every query by least squares over the ranks
kept in /ranks, the shape on a grid; a makes the weights add up to those of the content. Forms are
compared on held-out documents. Source: geostat; Tukey (1977) for the g and h distributions. Imports
numpy, scipy and xarray.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import xarray as xr
from scipy.special import ndtr, ndtri

from geostat.datasets.table import quantities
from geostat.datasets.variable import join_heads, variables, words_along
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import document_mean, leave_one_out_mean
from geostat.statistics.losses import mean_over_documents

SHAPES: Final = {
    "gaussian": np.zeros(1),
    "logistic": np.zeros(1),
    "g": np.linspace(-0.6, 0.6, 25),
    "h": np.linspace(-0.06, 0.4, 24),
    "gpd": np.linspace(-0.6, 0.8, 15),
    "zipf_mandelbrot": np.append(0.0, np.geomspace(0.1, 1000.0, 15)),
}
"""Shapes of each form among which the best is taken."""
WEIGHT_FORMS: Final = (*SHAPES, "measured")
"""Forms, and the measured weights of the other documents."""
LAW: Final = "h"
"""Form whose parameters are stored and from which heads are predicted."""
TAIL: Final = float(ndtri(0.9))
"""Normal quantile beyond which `gpd` has a generalised Pareto tail, for the largest tenth."""

PARAMETERS: Final = ("weight_scale", "weight_tail", "sink_weight")
LEVELS: Final = ("head", "document", "query")
SIZES: Final = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Sizes N at which selected mass is compared."""
LEAST: Final = 8
"""Kept ranks below which a query has no fit."""
AT_ONCE: Final = 2048
"""Queries whose weights are interpolated at once."""

RECORDS: Final = (
    *quantities(
        r"""
    weight_scale | 1 | \sigma | scale of the log weights of content tokens by rank, form h
        | estimated
    weight_tail | 1 | h | tail of the log weights by rank, form h: 0 is normal, more is heavier
        | estimated
    sink_weight | 1 | \alpha_S | weight of functional sinks | estimated
    """,
        dims=("layer", "head"),
        equation="amended assumptions",
    ),
    *quantities(
        r"""
    mass_r2 | 1 | R^2_M | share of the variance of selected mass M(N) between heads and documents,
        about the mean curve, explained by the other documents
    top_error | 1 | \mathrm{RMSE}_{(1)} | root mean squared error over heads and documents of the
        log of the largest content weight, predicted by the other documents
    top_bias | 1 | \bar e_{(1)} | mean error of the same
    """,
        dims=("weight_form",),
        equation="amended assumptions",
    ),
    *quantities(
        "weight_variance | 1 | - | share of a parameter's variance between heads, between documents"
        " of a head, and between queries of a document",
        dims=("weight_parameter", "level"),
        equation="amended assumptions",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Log weights at the kept ranks, (document, case, query, rank), of a fit or measured; scale and
    shape, (document, case, query); NaN where a query has too few content tokens.
    """

    logs: FloatArray
    scale: FloatArray
    shape: FloatArray


def quantile(form: str, shape: float, rank: FloatArray, count: FloatArray) -> FloatArray:
    """Return Q(p) at ranks of `count` tokens; it falls with the rank.

    >>> rank = np.array([1.0, 5.0, 9.0])
    >>> np.array_equal(quantile("h", 0.0, rank, 9), quantile("gaussian", 0.0, rank, 9))
    True
    >>> quantile("zipf_mandelbrot", 0.0, rank, 9).round(2).tolist()
    [-0.0, -1.61, -2.2]
    """
    p = (rank - 3 / 8) / (count + 1 / 4)
    z = -ndtri(p)
    if form == "gaussian" or (form == "g" and abs(shape) < 1e-9):
        out = z
    elif form == "logistic":
        out = np.log((1 - p) / p)
    elif form == "g":
        out = np.expm1(shape * z) / shape
    elif form == "h":
        out = z * np.exp(shape * z * z / 2)
    elif form == "zipf_mandelbrot":
        out = -np.log(rank + shape)
    else:
        share = ndtr(-TAIL)
        density = np.exp(-(TAIL**2) / 2) / np.sqrt(2 * np.pi)
        beyond = np.log(share / p)
        if abs(shape) > 1e-9:
            beyond = np.expm1(shape * beyond) / shape
        out = np.where(p < share, TAIL + share / density * beyond, z)
    return np.asarray(out)


def fit_weights(ranks: xr.Dataset, form: str = LAW) -> Weights:
    """Fit a form to every query of /ranks; "measured" returns its weights as they are."""
    logs, count, rank = _measured(ranks)
    known = np.isfinite(logs)
    enough = known.sum(axis=-1) >= LEAST
    scale, shape = (np.full(count.shape, np.nan) for _ in range(2))
    fitted = np.where(enough[..., None], logs, np.nan)
    if form == "measured":
        return Weights(logs=fitted, scale=scale, shape=shape)
    for document in range(len(logs)):
        least = np.full(count[document].shape, np.inf)
        log, used = logs[document], known[document]
        tokens = np.maximum(count[document], 1.0)[..., None]
        at = np.where(used, np.minimum(rank, tokens), 1.0)
        total = used.sum(axis=-1)
        level = ratio(np.where(used, log, 0.0).sum(axis=-1), total)
        z = np.where(used, log - level[..., None], 0.0)
        for value in SHAPES[form].tolist():
            x = quantile(form, value, at, tokens)
            x -= ratio(np.where(used, x, 0.0).sum(axis=-1), total)[..., None]
            x = np.where(used, x, 0.0)
            slope = ratio((x * z).sum(axis=-1), (x * x).sum(axis=-1))
            squares = ((z - slope[..., None] * x) ** 2).sum(axis=-1)
            better = enough[document] & (squares < least)
            least[better], scale[document][better] = squares[better], slope[better]
            shape[document][better] = value
            fitted[document][better] = (level[..., None] + slope[..., None] * x)[better]
    fitted[~known] = np.nan
    content, own = (_content(array, count, rank)[1] for array in (logs, fitted))
    with np.errstate(divide="ignore", invalid="ignore"):
        fitted += np.log(content / own)[..., None]
    return Weights(logs=fitted, scale=scale, shape=shape)


def _measured(ranks: xr.Dataset) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log weights, (document, case, query, rank), numbers of content tokens, (document,
    case, query), and ranks.
    """
    order = ("document", "layer", "head", "query")
    logs = ranks["log_weight"].transpose(*order, "rank").values.astype(np.float64)
    count = ranks["content_tokens"].transpose(*order).values.astype(np.float64)
    documents, queries = len(logs), logs.shape[3]
    return (
        logs.reshape(documents, -1, queries, logs.shape[-1]),
        count.reshape(documents, -1, queries),
        ranks["rank"].values.astype(np.float64),
    )


def _content(
    logs: FloatArray, count: FloatArray, rank: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the weight of the N largest, (..., n), and of all content tokens, (...), interpolated
    between the kept ranks.
    """
    every = np.arange(1, max(int(count.max()), 1) + 1)
    low = np.clip(np.searchsorted(rank, every, side="right") - 1, 0, max(len(rank) - 2, 0))
    high = np.minimum(low + 1, len(rank) - 1)
    size = count.reshape(-1, 1)
    flat = logs.reshape(-1, len(rank))
    selected, whole = np.empty((len(flat), len(SIZES))), np.empty(len(flat))
    for start in range(0, len(flat), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        ends = np.minimum(rank[[low, high]][:, None], np.maximum(size[part], 1))
        width = np.log(ends[1] / ends[0])
        share = np.where(width > 0, np.log(every / ends[0]) / np.where(width > 0, width, 1), 0.0)
        values = flat[part]
        step = np.where(share > 0, share * (values[:, high] - values[:, low]), 0.0)
        weight = np.where(every <= size[part], np.exp(values[:, low] + step), 0.0)
        total = weight.cumsum(axis=1)
        selected[part] = total[:, np.minimum(SIZES, len(every)) - 1]
        whole[part] = total[:, -1]
    return selected.reshape(*count.shape, -1), whole.reshape(count.shape)


def compare_weights(ranks: xr.Dataset) -> xr.Dataset:
    """Return RECORDS: the parameters of the law of each head, and the forms compared."""
    _, count, rank = _measured(ranks)
    measured, law = fit_weights(ranks, "measured"), fit_weights(ranks)
    curves = mean_over_documents(np.moveaxis(_content(measured.logs, count, rank)[0], 2, 0))
    top = mean_over_documents(np.moveaxis(measured.logs[..., 0], 2, 0))
    about = curves - mean_over_documents(curves.reshape(-1, len(SIZES)))
    scores = []
    for form in WEIGHT_FORMS:
        of_form = {"measured": measured, LAW: law}.get(form) or fit_weights(ranks, form)
        selected = np.moveaxis(_content(of_form.logs, count, rank)[0], 2, 0)
        missed = curves - leave_one_out_mean(mean_over_documents(selected))
        largest = mean_over_documents(np.moveaxis(of_form.logs[..., 0], 2, 0))
        error = (leave_one_out_mean(largest) - top).ravel()
        explained = 1 - ratio(np.nansum(missed**2), np.nansum(about**2))
        # rounded: the measured weights have no bias
        bias = mean_over_documents(error).round(12) + 0.0
        scores.append((explained, np.sqrt(mean_over_documents(error**2)), bias))
    sinks = ranks["sink_log_weight"].transpose("document", "layer", "head", "query", "sink")
    apart = np.nansum(np.exp(sinks.values.astype(np.float64)), axis=-1).reshape(count.shape)
    found = dict(zip(PARAMETERS, (law.scale, law.shape, apart), strict=True))
    of_heads = {
        name: document_mean(mean_over_documents(np.moveaxis(array, 2, 0)))
        for name, array in found.items()
    }
    numbers = join_heads(RECORDS, [of_heads], ranks.sizes["head"])
    numbers |= dict(zip(("mass_r2", "top_error", "top_bias"), np.array(scores).T, strict=True))
    numbers["weight_variance"] = np.array([_components(array) for array in found.values()])
    return xr.Dataset(
        variables(RECORDS, numbers),
        coords={
            "weight_form": words_along("weight_form", WEIGHT_FORMS, "form of the weights by rank"),
            "weight_parameter": words_along("weight_parameter", PARAMETERS, "weight parameter"),
            "level": words_along("level", LEVELS, "level of variation"),
        },
    )


def _components(values: FloatArray) -> FloatArray:
    """Return the shares of the variance between heads, documents and queries, (document, case,
    query), from the mean squares of a nested design; negative components count as 0.
    """
    whole = values[:, np.isfinite(values).all(axis=(0, 2))]
    documents, cases, queries = whole.shape
    if min(documents, cases, queries) < 2:
        return np.full(len(LEVELS), np.nan)
    of_document = whole.mean(axis=2)
    of_query = whole.var(axis=2, ddof=1).mean()
    between = queries * of_document.var(axis=0, ddof=1).mean()
    of_head = documents * queries * of_document.mean(axis=0).var(ddof=1)
    parts = np.array(
        [
            (of_head - between) / (documents * queries),
            (between - of_query) / queries,
            of_query,
        ]
    ).clip(0)
    return np.asarray(ratio(parts, parts.sum()))
