r"""Correlations over heads of Recall and Precision with the sink's similarity ρ₀, for each N.

Source: arXiv 2602.01893, §4.1 and Figure 6. ρ₀ of a head is the mean cosine between the value
vectors of the sink and of the other tokens; heads that share a KV head share ρ₀. With few documents
ρ₀ and Recall are noisy, which attenuates correlations. Each coefficient is given as measured
(correlation of document means, as in the paper) and *unattenuated*: from products of different
documents only, whose errors are independent (Spearman 1904, correction for attenuation). Imports
numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.datasets.separability import STATISTICS
from geostat.datasets.table import quantities
from geostat.datasets.tokens import kv_head_of_head, most_tokens, require
from geostat.datasets.variable import join_rows, variables
from geostat.statistics.arrays import BoolArray, FloatArray, pieces, ranks, ratio
from geostat.statistics.jackknife import Estimate, jackknife, sum_of_others
from geostat.statistics.losses import mean_of_known

LEAST_HEADS: Final = 4
"""Fewest heads of a correlation, for two degrees of freedom."""
ROUNDING: Final = 1e-12
"""Variances below this share of the squared mean are rounding error."""
NEEDS: Final = {
    **{name: ("document", "layer", "head", "n") for name in STATISTICS},
    "attention_weight": ("document", "layer", "head", "position"),
    "sink_cosine": ("document", "layer", "kv_head", "position"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Values of all heads with a visible sink, by document."""

    similarity: FloatArray
    """ρ₀, shape (document, head)."""
    weight: FloatArray
    """α₀, shape (document, head)."""
    recall: FloatArray
    """R(r_min, N), or another statistic, shape (document, head, n); NaN for N above a head's T."""
    layer: np.ndarray
    """Layer of each head, (head)."""
    kv_head: np.ndarray
    """KV head of each head, numbered over the whole model, (head)."""

    @classmethod
    def of(
        cls, capture: xr.Dataset, statistic: str = "recall", among: BoolArray | None = None
    ) -> Table:
        """Read the heads with a visible sink and finite values in every document; only those of
        `among`, (layer, head), if given.
        """
        require(capture, NEEDS)
        group = kv_head_of_head(capture)
        cosine = capture["sink_cosine"].values.astype(np.float64)
        documents, layers, heads = capture[statistic].shape[:3]
        rho = mean_of_known(cosine)[:, :, group].reshape(documents, -1)
        first = (capture.sizes["position"] - capture["tokens"].values).astype(int)
        # The indexed array has dims (layer, document, head).
        sink_weight = capture["attention_weight"].values[:, np.arange(layers), :, first]
        weight = sink_weight.transpose(1, 0, 2).astype(np.float64).reshape(documents, -1)
        recall = capture[statistic].values.reshape(documents, layers * heads, -1)
        usable = np.repeat(capture["sink_visible"].values.astype(bool), heads)
        if among is not None:
            usable &= among.ravel()
        usable = usable & (
            np.isfinite(rho) & np.isfinite(weight) & np.isfinite(recall).any(axis=-1)
        ).all(axis=0)
        layer = np.repeat(np.arange(layers), heads)
        return cls(
            similarity=rho[:, usable],
            weight=weight[:, usable],
            recall=recall if usable.all() else recall[:, usable],
            layer=layer[usable],
            kv_head=(layer * capture.sizes["kv_head"] + np.tile(group, layers))[usable],
        )

    @property
    def heads(self) -> int:
        """Number of heads."""
        return int(self.layer.size)

    def by_sizes(self) -> Iterator[Table]:
        """Yield the table in batches of sizes N that fit in memory, in double precision."""
        for sizes in pieces(self.recall.shape[-1], self.similarity.size):
            yield replace(self, recall=self.recall[..., sizes].astype(np.float64))

    def by_kv_head(self) -> Table:
        """Return the table by KV head, averaged over the heads that share a KV head."""
        names, first, place = np.unique(self.kv_head, return_index=True, return_inverse=True)
        number = np.bincount(place).astype(np.float64)
        pick = (np.arange(names.size)[:, None] == place).astype(np.float64) / number[:, None]
        return Table(
            similarity=self.similarity @ pick.T,
            weight=self.weight @ pick.T,
            recall=np.einsum("gh,khn->kgn", pick, self.recall),
            layer=self.layer[first],
            kv_head=names,
        )


def selects_sink(capture: xr.Dataset, n: int) -> BoolArray:
    """Return which heads have the sink among their N largest weights in any document, (layer,
    head).
    """
    weight = capture["attention_weight"].values
    first = capture.sizes["position"] - capture["tokens"].values.astype(int)
    sink = np.take_along_axis(weight, first[None, :, None, None], axis=-1)
    selected: BoolArray = ((weight > sink).sum(axis=-1) < n).any(axis=0)
    return selected


Deviations = dict[str, FloatArray]
"""Deviations of heads from the mean over heads, by document: of x and an optional control w,
(document, head), and of y, (document, head, n).
"""
Covariances = dict[str, FloatArray]
"""Covariances over heads of document means of x, y and w, by their letters: (replicate, n), or
(replicate, 1) without y.
"""


def deviations_of(
    x: FloatArray, y: FloatArray, w: FloatArray | None = None, layer: np.ndarray | None = None
) -> Deviations | None:
    """Return deviations from the mean over heads, or from the mean of each layer if `layer`,
    (head,), is given; None with fewer than two degrees of freedom.
    """
    groups = 1 if layer is None else np.unique(layer).size
    if x.shape[1] - groups - (w is not None) - 1 < LEAST_HEADS - 2:
        return None
    deviations = {"x": _within(x, layer), "y": _within(y, layer)}
    return deviations if w is None else deviations | {"w": _within(w, layer)}


def all_and_without(deviations: Deviations) -> tuple[Covariances, Covariances]:
    """Return covariances of document means, as measured and unattenuated, (1 + document, n).

    Row 0 is from all documents, the others are leave-one-document-out. Unattenuated covariances use
    products of different documents only; their expectation is the covariance of the expectations.
    They are NaN with fewer than two documents.
    """
    documents = len(deviations["x"])
    measured = _covariances(**{name: means_without(rows) for name, rows in deviations.items()})
    number = np.full((1 + documents, 1), documents - 1.0)
    number[0] = documents
    unattenuated = {}
    for name, products in _covariances(**deviations).items():
        same = np.concatenate([products.sum(axis=0)[None], sum_of_others(products)])
        # Of the m² products of a mean of m documents, m are of one document with itself.
        different = measured[name] - ratio(same, number**2, 0.0)
        unattenuated[name] = ratio(different, 1.0 - ratio(1.0, number, 0.0))
    return measured, unattenuated


def resampled(deviations: Deviations, shares: FloatArray) -> Covariances:
    """Return covariances, as measured, of means weighted by `shares`, (replicate, document)."""
    means = {name: shares @ rows for name, rows in deviations.items() if name != "y"}
    # Take one size at a time, so that means fit in the processor's cache.
    by_size = [
        _covariances(y=(shares @ deviations["y"][..., size])[..., None], **means)
        for size in range(deviations["y"].shape[-1])
    ]
    return {
        name: np.concatenate([size[name] for size in by_size], axis=1) if "y" in name else first
        for name, first in by_size[0].items()
    }


def means_without(values: FloatArray) -> FloatArray:
    """Return the mean over all documents, then the leave-one-document-out means, (document, ...) →
    (1 + document, ...); NaN if a document's value is NaN.
    """
    others = sum_of_others(values) / max(len(values) - 1, 1)
    return np.concatenate([values.mean(axis=0)[None], others])


def _covariances(x: FloatArray, y: FloatArray, w: FloatArray | None = None) -> Covariances:
    """Return sums over heads of products of deviations, by replicate."""

    def product(first: FloatArray, second: FloatArray) -> FloatArray:
        return np.einsum("kh,kh->k", first, second)[:, None]

    def with_y(first: FloatArray) -> FloatArray:
        return np.einsum("kh,khn->kn", first, y)

    sums = {"xx": product(x, x), "xy": with_y(x), "yy": np.einsum("khn,khn->kn", y, y)}
    if w is None:
        return sums
    return sums | {"xw": product(x, w), "ww": product(w, w), "wy": with_y(w)}


def correlation(covariances: Covariances) -> tuple[FloatArray, FloatArray]:
    """Return the (partial) correlation of x and y and the slope of y on x, (replicate, n).

    NaN if a variance, or an unattenuated estimate of it, is not positive.
    """
    xx, xy, yy = (covariances[name] for name in ("xx", "xy", "yy"))
    floor_x, floor_y = ROUNDING * np.abs(xx), ROUNDING * np.abs(yy)
    if "ww" in covariances:
        xw, ww, wy = (covariances[name] for name in ("xw", "ww", "wy"))
        fit = ratio(xw, ww, 0.0)
        xx, xy, yy = xx - fit * xw, xy - fit * wy, yy - ratio(wy**2, ww, 0.0)
    positive = (xx > floor_x) & (yy > floor_y)
    with np.errstate(invalid="ignore"):
        r = ratio(xy, np.where(positive & np.isfinite(yy), np.sqrt(xx * yy), np.nan))
    slope = ratio(xy, np.where((xx > floor_x) & np.isfinite(xy), xx, np.nan))
    return np.where(np.abs(r) > 1, np.sign(r), r), slope


def correlations(table: Table) -> tuple[FloatArray, FloatArray] | None:
    """Return correlations over heads of Recall with ρ₀, as measured and unattenuated, (1 +
    document, n): from all documents, then leave-one-document-out; None with too few heads.
    """
    pairs = []
    for part in table.by_sizes():
        deviations = deviations_of(part.similarity, part.recall) if table.heads else None
        if deviations is None:
            return None
        pairs.append([correlation(covariances)[0] for covariances in all_and_without(deviations)])
    measured, unattenuated = (np.hstack(parts) for parts in zip(*pairs, strict=True))
    return measured, unattenuated


def _within(values: FloatArray, layer: np.ndarray | None) -> FloatArray:
    """Return deviations along axis 1 from the mean over heads, or over heads of the same layer;
    0 at the level of rounding error.
    """
    deviations = np.empty_like(values)
    for name in [None] if layer is None else np.unique(layer):
        heads = slice(None) if layer is None else layer == name
        part = values[:, heads]
        deviations[:, heads] = part - part.mean(axis=1, keepdims=True)
    scale = np.sqrt((values**2).mean(axis=1, keepdims=True))
    return np.where(np.abs(deviations) <= ROUNDING * scale, 0.0, deviations)


MEASURES: Final = {
    "pearson": "Pearson's correlation",
    "spearman": "Spearman's rank correlation",
    "kv_heads": (
        "Pearson's correlation over KV heads, Recall averaged over heads that share a KV head"
    ),
    "given_weight": "partial correlation given the sink's weight",
    "given_weight_and_layer": "partial correlation given the sink's weight and the layer (factor)",
}
"""Coefficients. With the layer as a factor, heads are compared within layers."""
RESAMPLES: Final = 1000
"""Bootstrap resamples of documents."""
SEED: Final = 0
AT_ONCE: Final = 20_000
"""Means ranked per batch, chosen to fit the processor's cache."""
SAME: Final = 1e-6
"""Means closer than this are ties. Means of Recall over K documents are multiples of 1/(NK),
stored in single precision.
"""

COEFFICIENTS: Final = quantities(
    r"""
    correlation | 1 | \mathrm{corr}(R(r_{\min},N),\rho_0) | correlation of Recall with the sink's
        similarity, as measured | estimated
    unattenuated | 1 | \mathrm{corr}_\infty(R(r_{\min},N),\rho_0) | correlation of Recall with the
        sink's similarity, corrected for attenuation | estimated
    slope | 1 | \partial R/\partial\rho_0 | slope of Recall on the sink's similarity, corrected for
        attenuation | estimated
    """,
    dims=("measure", "n"),
    equation="§4.1, Fig. 6",
)
BANDS: Final = quantities(
    r"""
    correlation_boot_lower | 1 | \mathrm{corr}(R(r_{\min},N),\rho_0) | lower limit of the 95%
        bootstrap interval (over documents) of the measured correlation
    correlation_boot_upper | 1 | \mathrm{corr}(R(r_{\min},N),\rho_0) | upper limit of the 95%
        bootstrap interval (over documents) of the measured correlation
    peak_n | 1 | N | size N of the largest correlation, selected from the same data | dims: measure
    """,
    dims=("measure", "n"),
    equation="§4.1, Fig. 6",
)
OF_PRECISION: Final = quantities(
    r"""
    precision_correlation | 1 | \mathrm{corr}(P(r_{\max},N),\rho_0) | correlation of Precision with
        the sink's similarity, as measured | estimated
    precision_unattenuated | 1 | \mathrm{corr}_\infty(P(r_{\max},N),\rho_0) | correlation of
        Precision with the sink's similarity, corrected for attenuation | estimated
    """,
    dims=("n",),
    equation="§4.1",
)
VARIABLES: Final = (*COEFFICIENTS, *BANDS, *OF_PRECISION)


def coefficients(
    table: Table, *, resamples: int = RESAMPLES, seed: int = SEED
) -> dict[str, dict[str, Any]]:
    """Return every coefficient by measure, (n,), with intervals and bootstrap limits.

    Jackknife-t intervals of correlations are on the scale of Fisher's z; that of the slope is not
    transformed.
    """
    documents = table.similarity.shape[0]
    random, size = np.random.default_rng(seed), resamples if documents > 1 else 0
    draws = random.multinomial(documents, np.full(documents, 1 / documents), size=size) / documents
    parts = [_of_sizes(part, draws) for part in table.by_sizes()]
    return {
        measure: join_rows([part[measure] for part in parts], np.hstack) for measure in parts[0]
    }


def _of_sizes(table: Table, draws: FloatArray) -> dict[str, dict[str, Any]]:
    """Return `coefficients` of one batch of sizes; `draws` are weights, (resample, document)."""
    x, y, pooled = table.similarity, table.recall, table.by_kv_head()
    by_measure = {"spearman": _ranked(table, draws)}
    for name, deviations in {
        "pearson": deviations_of(x, y),
        "kv_heads": deviations_of(pooled.similarity, pooled.recall),
        "given_weight": deviations_of(x, y, table.weight),
        "given_weight_and_layer": deviations_of(x, y, table.weight, table.layer),
    }.items():
        parts: dict[str, FloatArray] = {}
        drawn = None
        if deviations is not None:
            measured, unattenuated = all_and_without(deviations)
            parts["correlation"] = correlation(measured)[0]
            parts["unattenuated"], parts["slope"] = correlation(unattenuated)
            drawn = correlation(resampled(deviations, draws))[0]
        by_measure[name] = _estimates(parts, y.shape[-1], drawn)
    return by_measure


def of_precision(capture: xr.Dataset) -> dict[str, Estimate]:
    """Return Pearson's correlation over heads of Precision with ρ₀, as measured and unattenuated,
    (n,), by the names of OF_PRECISION.
    """
    pair = correlations(Table.of(capture, "precision"))
    names = ("correlation", "unattenuated")
    parts = {} if pair is None else dict(zip(names, pair, strict=True))
    estimates = _estimates(parts, capture.sizes["n"])
    return {f"precision_{name}": estimates[name] for name in names}


def _ranked(table: Table, draws: FloatArray) -> dict[str, Any]:
    """Return Spearman's coefficient as measured; ranks allow no correction for attenuation."""
    sizes = table.recall.shape[-1]
    if table.heads < LEAST_HEADS:
        return _estimates({}, sizes)

    def pearson(x: FloatArray, y: FloatArray) -> FloatArray:
        x, y = x - x.mean(), y - y.mean(axis=-1, keepdims=True)
        scale = np.sqrt((x**2).sum() * (y**2).sum(axis=-1))
        return np.divide(y @ x, scale, out=np.full(scale.shape, np.nan), where=scale > 0)

    def spearman(x: FloatArray, y: FloatArray) -> FloatArray:
        # x: means, (replicate, head); y: means, (replicate, head, n).
        pairs = zip(ranks(x, apart=SAME), ranks(np.swapaxes(y, 1, 2), apart=SAME), strict=True)
        return np.array([pearson(*pair) for pair in pairs])

    # Ranks of means are not means of ranks, so replicates are ranked one by one.
    step = max(1, AT_ONCE // (sizes * table.heads))
    x, y = (means_without(values) for values in (table.similarity, table.recall))
    rows = np.empty((len(x), sizes))
    for first in range(0, len(x), step):
        part = slice(first, first + step)
        rows[part] = spearman(x[part], y[part])
    drawn = np.empty((len(draws), sizes))
    for first in range(0, len(draws), step):
        part = slice(first, first + step)
        shares = draws[part]
        drawn[part] = spearman(shares @ table.similarity, np.tensordot(shares, table.recall, 1))
    return _estimates({"correlation": rows}, sizes, drawn)


def _estimates(
    parts: dict[str, FloatArray], sizes: int, draws: FloatArray | None = None
) -> dict[str, Any]:
    """Return estimates and bootstrap limits; NaN for missing coefficients.

    Args:
        parts: coefficients from all documents (row 0) and leave-one-document-out (other rows).
        draws: bootstrap replicates of the correlation, (resample, n).
    """
    unknown, limits = np.full(sizes, np.nan), np.full((2, sizes), np.nan)
    estimates: dict[str, Any] = {
        record.name: Estimate(value=unknown, se=unknown, lower=unknown, upper=unknown)
        for record in COEFFICIENTS
    }
    for name, rows in parts.items():
        estimate = (jackknife if name == "slope" else fisher)(rows[0], rows[1:])
        if name == "unattenuated":
            estimate = replace(
                estimate, value=np.where(correctable(rows[0], rows[1:]), rows[0], np.nan)
            )
        estimates[name] = replace(estimate, skew=None, without=None, documents=None)
    if draws is not None and len(draws):
        known = np.isfinite(draws).all(axis=0)
        limits[:, known] = np.quantile(draws[:, known], (0.025, 0.975), axis=0)
    return estimates | {"correlation_boot_lower": limits[0], "correlation_boot_upper": limits[1]}


def correctable(correlation: FloatArray, replicates: FloatArray) -> BoolArray:
    """Return where a correlation can be corrected for attenuation: it lies within (−1, 1), as do
    its leave-one-document-out values.
    """
    return np.asarray(np.isfinite(fisher(correlation, replicates).se))


def fisher(correlation: FloatArray, replicates: FloatArray) -> Estimate:
    """Return a correlation r with its jackknife-t interval on the scale of z = artanh r.

    The standard error of r is by the delta method.

    >>> round(float(fisher(np.array(0.5), np.array([0.4, 0.5, 0.6])).upper), 2)
    0.84
    """
    with np.errstate(divide="ignore"):
        z = jackknife(np.arctanh(correlation), np.arctanh(replicates))
    lower, upper = np.tanh(z.lower), np.tanh(z.upper)
    return Estimate(value=correlation, se=z.se * (1 - correlation**2), lower=lower, upper=upper)


def correlate_with_sink(
    capture: xr.Dataset, *, resamples: int = RESAMPLES, seed: int = SEED
) -> xr.Dataset:
    """Correlate Recall with ρ₀ over the heads of a model, for each N (Figure 6).

    Args:
        resamples: bootstrap resamples of documents.

    Returns:
        /sink with VARIABLES, for the measures of `MEASURES`. Intervals of correlations are on the
        scale of Fisher's z; bootstrap limits are 95% percentiles. peak_n is the N, 1 < N < T, of
        the largest measured coefficient, 0 if there is none. Missing values are NaN, with the
        reason in the attribute `notes`; unattenuated coefficients are also NaN if documents are
        too noisy. The attribute `distinct` is the number of values of ρ₀.
    """
    table, documents = Table.of(capture), capture.sizes["document"]
    n = capture["n"].values
    by_measure = (
        coefficients(table, resamples=resamples, seed=seed)
        if table.heads
        else dict.fromkeys(MEASURES, _estimates({}, n.size))
    )
    numbers: dict[str, Any] = join_rows([by_measure[measure] for measure in MEASURES])
    numbers |= of_precision(capture)
    correlation = numbers["correlation"].value
    inside = (n > 1) & (n < most_tokens(capture))
    curves = np.where(inside & np.isfinite(correlation), correlation, -np.inf)
    numbers["peak_n"] = np.where(np.isfinite(curves).any(axis=1), n[curves.argmax(axis=1)], 0)
    coords = {"measure": np.array(list(MEASURES), dtype=object), "n": capture["n"].variable}
    attrs = {
        "long_name": "Recall and the sink's similarity over heads",
        "heads": table.heads,
        "distinct": int(np.unique(table.kv_head).size),
        "documents": documents,
        "resamples": resamples if documents > 1 else 0,
        "seed": seed,
        "notes": _notes(table, documents),
        "measures": list(MEASURES.values()),
    }
    return xr.Dataset(variables(VARIABLES, numbers), coords=coords, attrs=attrs)


def _notes(table: Table, documents: int) -> list[str]:
    """Return notes on missing results and the reasons."""
    notes = {
        "No head sees the sink: there is no ρ₀.": not table.heads,
        f"{table.heads} heads see the sink; a correlation needs {LEAST_HEADS}.": (
            0 < table.heads < LEAST_HEADS
        ),
        "One document: no intervals, and no correction for attenuation.": documents < 2,
    }
    return [note for note, applies in notes.items() if applies]
