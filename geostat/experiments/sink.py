r"""Does the sink's similarity matter? Correlations of Recall with ρ₀ over the heads of a model, for each N.

Source: arXiv 2602.01893, §4.1 and Figure 6. ρ₀ of a head is its mean cosine between the sink's value and the other tokens'; heads that share a value
head share it. Over few documents both ρ₀ and Recall are noisy, and noise pulls a correlation towards 0. So each coefficient is given twice: as
measured (document means correlated, which is what the paper plots) and *unattenuated*, from products of different documents only, whose errors are
independent (Spearman 1904, correction for attenuation). Imports numpy, xarray and scipy.special.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.datasets.tokens import require
from geostat.datasets.words import described, described_parameter
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import Estimate, jackknife
from geostat.statistics.ranks import ranks

__all__ = ["MEASURES", "Moments", "Table", "can_be_freed", "coefficients", "correlate_with_sink"]

MEASURES: Final = {
    "pearson": "Pearson's correlation",
    "spearman": "Spearman's rank correlation",
    "value_heads": "Pearson's correlation over value heads, Recall averaged over the heads that share one",
    "given_weight": "partial correlation given the sink's weight",
    "given_weight_and_layer": "partial correlation given the sink's weight and the layer, a factor",
}
"""Coefficients; "a factor": each layer has its own mean, so only heads of one layer are compared."""
LINEAR: Final = tuple(name for name in MEASURES if name != "spearman")
LEAST_HEADS: Final = 4
"""Heads that a correlation needs: with fewer than two degrees of freedom it is ±1 or arbitrary."""
RESAMPLES: Final = 1000
"""Resamples of documents for the bootstrap band."""
SEED: Final = 0
ROUNDING: Final = 1e-12
"""Variances below this share of the squared mean are rounding."""
SAME: Final = 1e-6
"""Means nearer than this are equal: those of Recall over K documents are multiples of 1/(NK), rounded to single precision on the way."""
NEEDS: Final = {
    "recall": ("document", "layer", "head", "n"),
    "attention_weight": ("document", "layer", "head", "position"),
    "sink_cosine": ("document", "layer", "kv_head", "position"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What the heads of a model show, document by document; heads in one row, those without a visible sink left out."""

    similarity: FloatArray
    """ρ₀, shape (document, head)."""
    weight: FloatArray
    """α₀, shape (document, head)."""
    recall: FloatArray
    """R(r_min, N), shape (document, head, n); NaN for an n that some head does not reach."""
    layer: np.ndarray
    """Layer of each head, (head)."""
    value_head: np.ndarray
    """Which value head it reads, numbered over the whole model, (head)."""

    @classmethod
    def of(cls, capture: xr.Dataset) -> Table:
        """Read the heads that see the sink and have ρ₀, α₀ and Recall in every document."""
        require(capture, NEEDS)
        group = capture["kv_head_of_head"].values
        cosine = capture["sink_cosine"].values.astype(np.float64)
        known = np.isfinite(cosine)
        number = known.sum(axis=-1)
        mean = np.divide(np.where(known, cosine, 0.0).sum(axis=-1), number, out=np.full(number.shape, np.nan), where=number > 0)
        documents, layers, heads = capture["recall"].shape[:3]
        rho = mean[:, :, group].reshape(documents, -1)
        first = (capture.sizes["position"] - capture["tokens"].values).astype(int)
        weight = (
            capture["attention_weight"].values[:, np.arange(layers), :, first].transpose(1, 0, 2).astype(np.float64).reshape(documents, -1)
        )
        recall = capture["recall"].values.astype(np.float64).reshape(documents, layers * heads, -1)
        seen = (
            np.repeat(capture["sink_visible"].values.astype(bool), heads) & np.isfinite(rho).all(axis=0) & np.isfinite(weight).all(axis=0)
        )
        seen &= np.isfinite(recall).any(axis=-1).all(axis=0)
        layer = np.repeat(np.arange(layers), heads)
        return cls(
            similarity=rho[:, seen], weight=weight[:, seen], recall=recall[:, seen], layer=layer[seen],
            value_head=(layer * capture.sizes["kv_head"] + np.tile(group, layers))[seen],
        )  # fmt: skip

    @property
    def heads(self) -> int:
        """Number of heads."""
        return int(self.layer.size)

    @property
    def distinct(self) -> int:
        """Number of distinct ρ₀: value heads."""
        return int(np.unique(self.value_head).size)

    def by_value_head(self) -> Table:
        """The same with one row for each value head, averaged over the heads that share it."""
        names, first, place = np.unique(self.value_head, return_index=True, return_inverse=True)
        number = np.bincount(place).astype(np.float64)
        pick = (np.arange(names.size)[:, None] == place).astype(np.float64) / number[:, None]
        return Table(
            similarity=self.similarity @ pick.T, weight=self.weight @ pick.T, recall=np.einsum("gh,khn->kgn", pick, self.recall),
            layer=self.layer[first], value_head=names,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Covariances over heads of x, w (K, K) and y (K, K, n), entry (k, l) between documents k and l; with w None there is no control.

    Every document mean's covariance is a quadratic form of these, so that replicates need no second look at the heads.
    """

    xx: FloatArray
    xy: FloatArray
    yy: FloatArray
    xw: FloatArray | None = None
    ww: FloatArray | None = None
    wy: FloatArray | None = None

    @classmethod
    def of(cls, x: FloatArray, y: FloatArray, w: FloatArray | None = None, layer: np.ndarray | None = None) -> Moments | None:
        """Take the moments over heads, within layers if `layer` is given; None where fewer than two degrees of freedom remain.

        Args:
            x: shape (document, head).
            y: shape (document, head, n).
            w: control, shape (document, head).
            layer: factor, shape (head).
        """
        groups = 1 if layer is None else np.unique(layer).size
        if x.shape[1] - groups - (w is not None) - 1 < LEAST_HEADS - 2:
            return None
        x, y = _within(x, layer), _within(y, layer)
        known = {"xx": x @ x.T, "xy": np.einsum("kh,lhn->kln", x, y), "yy": np.einsum("khn,lhn->kln", y, y)}
        if w is not None:
            w = _within(w, layer)
            known |= {"xw": x @ w.T, "ww": w @ w.T, "wy": np.einsum("kh,lhn->kln", w, y)}
        return cls(**known)

    def _entries(self, shares: FloatArray, *, apart: bool) -> dict[str, FloatArray]:
        """Each moment of the mean of documents weighted by `shares` (replicate, document), shape (replicate, n); `apart`: of different documents only."""
        found = {}
        for name in ("xx", "xy", "yy", "xw", "ww", "wy"):
            moment = getattr(self, name)
            if moment is None:
                continue
            moment = moment[..., None] if moment.ndim == 2 else moment
            value = np.einsum("bk,bl,kln->bn", shares, shares, moment, optimize=True)
            if apart:
                squares = shares**2
                own = squares @ np.einsum("kkn->kn", moment)
                rest = 1.0 - squares.sum(axis=1, keepdims=True)
                value = np.divide(value - own, rest, out=np.full(value.shape, np.nan), where=rest > ROUNDING)
            found[name] = value
        return found

    def correlation(self, shares: FloatArray, *, apart: bool = False) -> tuple[FloatArray, FloatArray]:
        """Return the (partial) correlation of x and y and the slope of y in x, of documents weighted by `shares`.

        Args:
            shares: shape (replicate, document), rows sum to 1.
            apart: from products of different documents only, equal in expectation to the moments of the documents' expectations.

        Returns:
            Correlation and slope, shape (replicate, n); NaN where a variance is 0 or, for `apart`, estimated as not positive.
        """
        at = self._entries(shares, apart=apart)
        xx, xy, yy = at["xx"], at["xy"], at["yy"]
        if "ww" in at:
            ww = at["ww"]
            fit = np.divide(at["xw"], ww, out=np.zeros(ww.shape), where=ww > 0)
            xx, xy, yy = (
                xx - fit * at["xw"],
                xy - fit * at["wy"],
                yy - np.divide(at["wy"] ** 2, ww, out=np.zeros(at["wy"].shape), where=ww > 0),
            )
        sound_x, sound_y = xx > ROUNDING * np.abs(at["xx"]), yy > ROUNDING * np.abs(at["yy"])
        empty = np.full(np.broadcast_shapes(xy.shape, xx.shape), np.nan)
        with np.errstate(invalid="ignore"):
            r = np.divide(xy, np.sqrt(xx * yy), out=empty.copy(), where=sound_x & sound_y & np.isfinite(yy))
        return np.where(np.abs(r) > 1, np.sign(r), r), np.divide(xy, xx, out=empty, where=sound_x & np.isfinite(xy))


def _within(values: FloatArray, layer: np.ndarray | None) -> FloatArray:
    """Deviations along axis 1 from the mean over heads, or over the heads of the same layer; exactly 0 where they are rounding."""
    out = np.empty_like(values)
    for name in [None] if layer is None else np.unique(layer):
        heads = slice(None) if layer is None else layer == name
        part = values[:, heads]
        out[:, heads] = part - part.mean(axis=1, keepdims=True)
    scale = np.sqrt((values**2).mean(axis=1, keepdims=True))
    return np.where(np.abs(out) <= ROUNDING * scale, 0.0, out)


def coefficients(table: Table, *, resamples: int = RESAMPLES, seed: int = SEED) -> dict[str, dict[str, FloatArray]]:
    """Return every coefficient with intervals.

    Args:
        table: the heads.
        resamples: how many times the documents are drawn anew, with replacement.
        seed: of those draws.

    Returns:
        By measure: correlation, unattenuated and slope, each with _se, _lower, _upper, and correlation_boot_lower and _boot_upper; each shape (n).
        Correlations have a jackknife-t interval on Fisher's z, the slope on its own scale.
    """
    documents = table.similarity.shape[0]
    whole = np.full((1, documents), 1 / documents)
    without = (1 - np.eye(documents)) / max(documents - 1, 1)
    draws = (
        np.random.default_rng(seed).multinomial(documents, np.full(documents, 1 / documents), size=resamples if documents > 1 else 0)
        / documents
    )
    pooled = table.by_value_head()
    x, y = table.similarity, table.recall
    moments = {
        "pearson": Moments.of(x, y),
        "value_heads": Moments.of(pooled.similarity, pooled.recall),
        "given_weight": Moments.of(x, y, table.weight),
        "given_weight_and_layer": Moments.of(x, y, table.weight, table.layer),
    }
    found = {}
    for name in MEASURES:
        if name == "spearman":
            found[name] = _ranked(table, whole, without, draws)
            continue
        moment = moments[name]
        if moment is None:
            found[name] = _summarised({}, y.shape[-1])
            continue
        apart, slope = (np.concatenate(pair) for pair in zip(*(moment.correlation(w, apart=True) for w in (whole, without)), strict=True))
        parts = {"correlation": np.concatenate([moment.correlation(w)[0] for w in (whole, without)]), "unattenuated": apart, "slope": slope}
        found[name] = _summarised(parts, y.shape[-1], moment.correlation(draws)[0])
    return found


def _ranked(table: Table, whole: FloatArray, without: FloatArray, draws: FloatArray) -> dict[str, FloatArray]:
    """Spearman's coefficient; ranks of a mean are no mean of ranks, so each replicate is ranked anew, and nothing is unattenuated."""
    sizes = table.recall.shape[-1]
    if table.heads < LEAST_HEADS:
        return _summarised({}, sizes)

    def of(shares: FloatArray) -> FloatArray:
        x = ranks(table.similarity.T @ shares, apart=SAME)
        y = ranks(np.einsum("khn,k->nh", table.recall, shares), apart=SAME)
        x, y = x - x.mean(), y - y.mean(axis=-1, keepdims=True)
        scale = np.sqrt((x**2).sum() * (y**2).sum(axis=-1))
        return np.divide(y @ x, scale, out=np.full(scale.shape, np.nan), where=scale > 0)

    band = np.array([of(row) for row in draws]).reshape(-1, sizes)
    return _summarised({"correlation": np.array([of(row) for row in np.concatenate([whole, without])])}, sizes, band)


def _summarised(parts: dict[str, FloatArray], sizes: int, draws: FloatArray | None = None) -> dict[str, FloatArray]:
    """Estimates in row 0 and left-out replicates behind it, as estimate, standard error and limits; NaN for what is not there."""
    out = {
        f"{name}{part}": np.full(sizes, np.nan)
        for name in ("correlation", "unattenuated", "slope")
        for part in ("", "_se", "_lower", "_upper")
    }
    out |= {f"correlation_boot_{side}": np.full(sizes, np.nan) for side in ("lower", "upper")}
    for name, rows in parts.items():
        spread = jackknife(rows[0], rows[1:]) if name == "slope" else fisher(rows[0], rows[1:])
        if name == "unattenuated":
            rows = np.where(can_be_freed(rows[0], rows[1:]), rows, np.nan)
        out |= {name: rows[0], f"{name}_se": spread.se, f"{name}_lower": spread.lower, f"{name}_upper": spread.upper}
    if draws is not None and len(draws):
        some = np.isfinite(draws).all(axis=0)
        limits = np.full((2, sizes), np.nan)
        limits[:, some] = np.quantile(draws[:, some], (0.025, 0.975), axis=0)
        out["correlation_boot_lower"], out["correlation_boot_upper"] = limits
    return out


def can_be_freed(estimate: FloatArray, replicates: FloatArray) -> BoolArray:
    """Return where a coefficient can be freed of noise: it is neither at the edge, ±1, nor beyond, nor is it so without some document."""
    return np.asarray(np.isfinite(fisher(estimate, replicates).se))


def fisher(estimate: FloatArray, replicates: FloatArray) -> Estimate:
    """Jackknife-t interval of a correlation, made on z = artanh r and carried back; its standard error by the delta method."""
    with np.errstate(divide="ignore"):
        z = jackknife(np.arctanh(estimate), np.arctanh(replicates))
    return Estimate(value=estimate, se=z.se * (1 - estimate**2), lower=np.tanh(z.lower), upper=np.tanh(z.upper))


WORDS: Final = {
    "correlation": ("correlation of Recall with the sink's similarity, as measured", r"\mathrm{corr}(R(r_{\min},N),\rho_0)"),
    "unattenuated": ("the same, free of the documents' noise", r"\mathrm{corr}_\infty(R(r_{\min},N),\rho_0)"),
    "slope": ("change of Recall per unit of the sink's similarity, free of the documents' noise", r"\partial R/\partial\rho_0"),
}


def correlate_with_sink(capture: xr.Dataset, *, resamples: int = RESAMPLES, seed: int = SEED) -> xr.Dataset:
    """Correlate Recall with ρ₀ over the heads of a model, for each N (Figure 6).

    Args:
        capture: a /capture dataset.
        resamples: resamples of documents for the bootstrap band.
        seed: of the resamples.

    Returns:
        /sink, over (measure, n), measures as in `MEASURES`: correlation (as measured), unattenuated and slope (Recall per unit of ρ₀), each with _se,
        _lower, _upper (95% document jackknife with t(K−1), correlations on Fisher's z); correlation_boot_lower and _upper (95% percentile band);
        peak_n (measure): the N at which the measured coefficient is largest, 1 < N < T, 0 where none is known. NaN where not determined (unattenuated
        also where the documents' noise is too large to be taken out); the attribute
        `notes` says why. Other attributes: heads, distinct (values of ρ₀), documents, resamples, seed.
    """
    table = Table.of(capture)
    n = capture["n"].values
    found = coefficients(table, resamples=resamples, seed=seed) if table.heads else {name: _summarised({}, n.size) for name in MEASURES}
    dims = ("measure", "n")
    out: dict[str, xr.Variable] = {}
    stacked = {name: np.stack([found[measure][name] for measure in MEASURES]) for name in found["pearson"]}
    common: dict[str, Any] = {"units": "1", "equation": "§4.1, Fig. 6"}
    for name, (long_name, symbol) in WORDS.items():
        spread = Estimate(value=stacked[name], **{part: stacked[f"{name}_{part}"] for part in ("se", "lower", "upper")})
        out |= described_parameter(name, dims, stacked[name], spread, long_name=long_name, symbol=symbol, **common)
    for side in ("lower", "upper"):
        name = f"correlation_boot_{side}"
        long_name = f"{side} limit of the correlation as measured, percentiles of resampled documents"
        out[name] = described(dims, stacked[name], long_name=long_name, symbol=WORDS["correlation"][1], **common)
    inside = (n > 1) & (n < capture.sizes["position"])
    curves = np.where(inside & np.isfinite(stacked["correlation"]), stacked["correlation"], -np.inf)
    peak = np.where(np.isfinite(curves).any(axis=1), n[curves.argmax(axis=1)], 0)
    out["peak_n"] = described(("measure",), peak, long_name="size N of the largest correlation, chosen by looking", symbol="N", **common)
    data = xr.Dataset(out, coords={"measure": np.array(list(MEASURES), dtype=object), "n": capture["n"].variable})
    documents = capture.sizes["document"]
    data.attrs = {
        "long_name": "Recall and the sink's similarity over heads", "heads": table.heads, "distinct": table.distinct, "documents": documents,
        "resamples": resamples if documents > 1 else 0, "seed": seed, "notes": _notes(table, documents), "measures": list(MEASURES.values()),
    }  # fmt: skip
    return data


def _notes(table: Table, documents: int) -> list[str]:
    """What is not determined, and why."""
    notes = []
    if not table.heads:
        notes.append("No head sees the sink: there is no ρ₀.")
    elif table.heads < LEAST_HEADS:
        notes.append(f"{table.heads} heads see the sink; a correlation needs {LEAST_HEADS}.")
    if documents < 2:
        notes.append("One document: no intervals, and nothing free of its noise.")
    return notes
