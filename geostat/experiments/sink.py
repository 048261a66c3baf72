r"""Correlations of Recall, and of Precision, with the sink's similarity ρ₀ over the heads of a
model, for each N: does the sink's similarity matter?

Source: arXiv 2602.01893, §4.1 and Figure 6. ρ₀ of a head is its mean cosine between the sink's
value and the other tokens'; heads that share a value head share it. Over few documents both ρ₀ and
Recall are noisy, and noise pulls a correlation towards 0. So each coefficient is given twice: as
measured (document means correlated, which is what the paper plots) and *unattenuated*, from
products of different documents only (`geostat.experiments.moments`). Imports numpy and xarray.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.datasets.separability import SIDES
from geostat.datasets.tokens import most_tokens
from geostat.datasets.variable import Variable, join, variables
from geostat.experiments.moments import (
    LEAST_HEADS,
    Deviations,
    Table,
    correlation,
    correlations,
    means_without,
)
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import Estimate, jackknife
from geostat.statistics.ranks import ranks

MEASURES: Final = {
    "pearson": "Pearson's correlation",
    "spearman": "Spearman's rank correlation",
    "value_heads": (
        "Pearson's correlation over value heads, Recall averaged over the heads that share one"
    ),
    "given_weight": "partial correlation given the sink's weight",
    "given_weight_and_layer": "partial correlation given the sink's weight and the layer, a factor",
}
"""Coefficients; "a factor": each layer has its own mean, so only heads of one layer are
compared.
"""
RESAMPLES: Final = 1000
"""Resamples of documents for the bootstrap band."""
SEED: Final = 0
AT_ONCE: Final = 20_000
"""Means that are ranked together: more do not stay in a processor's cache."""
SAME: Final = 1e-6
"""Means nearer than this are equal: those of Recall over K documents are multiples of 1/(NK),
rounded to single precision on the way.
"""

_curve = partial(Variable, equation="§4.1, Fig. 6", dims=("measure", "n"))
_estimated = partial(_curve, estimated=True)
_of_precision = partial(Variable, equation="§4.1", dims=("n",), estimated=True)
_AS_MEASURED: Final = r"\mathrm{corr}(R(r_{\min},N),\rho_0)"
_SLOPE: Final = "change of Recall per unit of the sink's similarity, free of the documents' noise"
_BAND: Final = "limit of the correlation as measured, percentiles of resampled documents"
COEFFICIENTS: Final = (
    _estimated(
        "correlation",
        "correlation of Recall with the sink's similarity, as measured",
        "1",
        _AS_MEASURED,
    ),
    _estimated(
        "unattenuated",
        "the same, free of the documents' noise",
        "1",
        r"\mathrm{corr}_\infty(R(r_{\min},N),\rho_0)",
    ),
    _estimated("slope", _SLOPE, "1", r"\partial R/\partial\rho_0"),
)
CURVES: Final = (
    *COEFFICIENTS,
    *(_curve(f"correlation_boot_{side}", f"{side} {_BAND}", "1", _AS_MEASURED) for side in SIDES),
)
"""What each measure has."""
OF_PRECISION: Final = (
    _of_precision(
        "precision_correlation",
        "correlation of Precision with the sink's similarity, as measured",
        "1",
        r"\mathrm{corr}(P(r_{\max},N),\rho_0)",
    ),
    _of_precision(
        "precision_unattenuated",
        "the same, free of the documents' noise",
        "1",
        r"\mathrm{corr}_\infty(P(r_{\max},N),\rho_0)",
    ),
)
VARIABLES: Final = (
    *CURVES,
    _curve(
        "peak_n",
        "size N of the largest correlation, chosen by looking",
        "1",
        "N",
        dims=("measure",),
    ),
    *OF_PRECISION,
)


def coefficients(
    table: Table, *, resamples: int = RESAMPLES, seed: int = SEED
) -> dict[str, dict[str, Any]]:
    """Return, by measure, every coefficient with intervals, and with a band from documents drawn
    anew, with replacement; each of shape (n).

    Correlations have a jackknife-t interval on Fisher's z, the slope on its own scale.
    """
    documents = table.similarity.shape[0]
    random, size = np.random.default_rng(seed), resamples if documents > 1 else 0
    draws = random.multinomial(documents, np.full(documents, 1 / documents), size=size) / documents
    parts = [_of_sizes(part, draws) for part in table.by_sizes()]
    return {
        measure: {name: join([part[measure][name] for part in parts], np.hstack) for name in found}
        for measure, found in parts[0].items()
    }


def _of_sizes(table: Table, draws: FloatArray) -> dict[str, dict[str, Any]]:
    """Return `coefficients` at some of the sizes; `draws` are shares, (resample, document)."""
    x, y, pooled = table.similarity, table.recall, table.by_value_head()
    deviations = {
        "pearson": Deviations.of(x, y),
        "value_heads": Deviations.of(pooled.similarity, pooled.recall),
        "given_weight": Deviations.of(x, y, table.weight),
        "given_weight_and_layer": Deviations.of(x, y, table.weight, table.layer),
    }
    out = {"spearman": _ranked(table, draws)}
    for name, one in deviations.items():
        out[name] = (
            _estimates({}, y.shape[-1])
            if one is None
            else _estimates(_parts(one), y.shape[-1], correlation(one.resampled(draws))[0])
        )
    return out


def of_precision(capture: xr.Dataset) -> dict[str, Estimate]:
    """Return Pearson's correlation over heads of Precision with ρ₀, as measured and free of noise,
    each of shape (n), by the names of OF_PRECISION.
    """
    found = correlations(Table.of(capture, "precision"))
    names = ("correlation", "unattenuated")
    parts = {} if found is None else dict(zip(names, found, strict=True))
    estimates = _estimates(parts, capture.sizes["n"])
    return {f"precision_{name}": estimates[name] for name in names}


def _parts(deviations: Deviations) -> dict[str, FloatArray]:
    """Each coefficient of all documents, then without each."""
    measured, of_others = deviations.all_and_without()
    apart, slope = correlation(of_others)
    return {"correlation": correlation(measured)[0], "unattenuated": apart, "slope": slope}


def _ranked(table: Table, draws: FloatArray) -> dict[str, Any]:
    """Spearman's coefficient; ranks of a mean are no mean of ranks, so each replicate is ranked
    anew, and nothing is unattenuated.
    """
    sizes = table.recall.shape[-1]
    if table.heads < LEAST_HEADS:
        return _estimates({}, sizes)

    def one(x: FloatArray, y: FloatArray) -> FloatArray:
        x, y = x - x.mean(), y - y.mean(axis=-1, keepdims=True)
        scale = np.sqrt((x**2).sum() * (y**2).sum(axis=-1))
        return np.divide(y @ x, scale, out=np.full(scale.shape, np.nan), where=scale > 0)

    def each(x: FloatArray, y: FloatArray) -> FloatArray:
        # Means of x, (replicate, head), and of y, (replicate, head, n).
        pairs = zip(ranks(x, apart=SAME), ranks(np.swapaxes(y, 1, 2), apart=SAME), strict=True)
        return np.array([one(*pair) for pair in pairs])

    step = max(1, AT_ONCE // (sizes * table.heads))
    x, y = (means_without(values) for values in (table.similarity, table.recall))
    rows = [
        each(x[first : first + step], y[first : first + step]) for first in range(0, len(x), step)
    ]
    band = [
        each(shares @ table.similarity, np.tensordot(shares, table.recall, 1))
        for shares in (draws[first : first + step] for first in range(0, len(draws), step))
    ]
    drawn = np.concatenate(band) if band else np.empty((0, sizes))
    return _estimates({"correlation": np.concatenate(rows)}, sizes, drawn)


def _estimates(
    parts: dict[str, FloatArray], sizes: int, draws: FloatArray | None = None
) -> dict[str, Any]:
    """Estimates from rows of which the first is of all documents, the others each without one,
    with a band; NaN for what is not there.
    """
    unknown, limits = np.full(sizes, np.nan), np.full((2, sizes), np.nan)
    out: dict[str, Any] = {
        record.name: Estimate(value=unknown, se=unknown, lower=unknown, upper=unknown)
        for record in COEFFICIENTS
    }
    for name, rows in parts.items():
        estimate = (jackknife if name == "slope" else fisher)(rows[0], rows[1:])
        if name == "unattenuated":
            estimate = replace(
                estimate, value=np.where(without_noise(rows[0], rows[1:]), rows[0], np.nan)
            )
        out[name] = replace(estimate, skew=None, without=None, documents=None)
    if draws is not None and len(draws):
        some = np.isfinite(draws).all(axis=0)
        limits[:, some] = np.quantile(draws[:, some], (0.025, 0.975), axis=0)
    return out | {"correlation_boot_lower": limits[0], "correlation_boot_upper": limits[1]}


def without_noise(correlation: FloatArray, replicates: FloatArray) -> BoolArray:
    """Return where a correlation can be freed of noise: it is neither at the edge, ±1, nor
    beyond, nor is it so without some document.
    """
    return np.asarray(np.isfinite(fisher(correlation, replicates).se))


def fisher(correlation: FloatArray, replicates: FloatArray) -> Estimate:
    """Return a correlation r with its jackknife-t interval, made on z = artanh r and carried back;
    its standard error by the delta method.

    >>> round(float(fisher(np.array(0.5), np.array([0.4, 0.5, 0.6])).upper), 2)
    0.84
    """
    with np.errstate(divide="ignore"):
        z = jackknife(np.arctanh(correlation), np.arctanh(replicates))
    return Estimate(
        value=correlation,
        se=z.se * (1 - correlation**2),
        lower=np.tanh(z.lower),
        upper=np.tanh(z.upper),
    )


def correlate_with_sink(
    capture: xr.Dataset, *, resamples: int = RESAMPLES, seed: int = SEED
) -> xr.Dataset:
    """Correlate Recall with ρ₀ over the heads of a model, for each N (Figure 6), from /capture; the
    bootstrap band is of `resamples` of the documents.

    Returns:
        /sink, as in VARIABLES, measures as in `MEASURES`; correlations have their interval on
        Fisher's z, and a 95% percentile band. peak_n (measure) is the N at which the measured
        coefficient is largest, 1 < N < T, 0 where none is known. NaN where not determined
        (unattenuated also where the documents' noise is too large to be taken out); the attribute
        `notes` says why; `distinct` counts the values of ρ₀.
    """
    table, documents = Table.of(capture), capture.sizes["document"]
    n = capture["n"].values
    by_measure = (
        coefficients(table, resamples=resamples, seed=seed)
        if table.heads
        else dict.fromkeys(MEASURES, _estimates({}, n.size))
    )
    numbers: dict[str, Any] = {
        record.name: join([by_measure[measure][record.name] for measure in MEASURES], np.stack)
        for record in CURVES
    } | of_precision(capture)
    correlation = np.stack([by_measure[measure]["correlation"].value for measure in MEASURES])
    inside = (n > 1) & (n < most_tokens(capture))
    curves = np.where(inside & np.isfinite(correlation), correlation, -np.inf)
    numbers["peak_n"] = np.where(np.isfinite(curves).any(axis=1), n[curves.argmax(axis=1)], 0)
    coords = {"measure": np.array(list(MEASURES), dtype=object), "n": capture["n"].variable}
    data = xr.Dataset(variables(VARIABLES, numbers), coords=coords)
    data.attrs = {
        "long_name": "Recall and the sink's similarity over heads",
        "heads": table.heads,
        "distinct": int(np.unique(table.value_head).size),
        "documents": documents,
        "resamples": resamples if documents > 1 else 0,
        "seed": seed,
        "notes": _notes(table, documents),
        "measures": list(MEASURES.values()),
    }
    return data


def _notes(table: Table, documents: int) -> list[str]:
    """What is not determined, and why."""
    notes = {
        "No head sees the sink: there is no ρ₀.": not table.heads,
        f"{table.heads} heads see the sink; a correlation needs {LEAST_HEADS}.": (
            0 < table.heads < LEAST_HEADS
        ),
        "One document: no intervals, and nothing free of its noise.": documents < 2,
    }
    return [note for note, applies in notes.items() if applies]
