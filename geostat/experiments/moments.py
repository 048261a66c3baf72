"""Moments over heads of products of documents: what correlations of document means, and those free
of the documents' noise, are made from.

A correlation free of noise is made from products of different documents only, whose errors are
independent (Spearman 1904, correction for attenuation). Imports numpy and xarray.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.separability import STATISTICS
from geostat.datasets.tokens import require, value_heads
from geostat.statistics.arrays import FloatArray
from geostat.statistics.losses import mean_of_known

LEAST_HEADS: Final = 4
"""Heads that a correlation needs: with fewer than two degrees of freedom it is ±1 or arbitrary."""
ROUNDING: Final = 1e-12
"""Variances below this share of the squared mean are rounding."""
NEEDS: Final = {
    **{name: ("document", "layer", "head", "n") for name in STATISTICS},
    "attention_weight": ("document", "layer", "head", "position"),
    "sink_cosine": ("document", "layer", "kv_head", "position"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What the heads of a model show, document by document; heads in one row, those without a
    visible sink left out.
    """

    similarity: FloatArray
    """ρ₀, shape (document, head)."""
    weight: FloatArray
    """α₀, shape (document, head)."""
    recall: FloatArray
    """R(r_min, N), or the statistic asked for, shape (document, head, n); NaN for an n that some
    head does not reach.
    """
    layer: np.ndarray
    """Layer of each head, (head)."""
    value_head: np.ndarray
    """Which value head it reads, numbered over the whole model, (head)."""

    @classmethod
    def of(cls, capture: xr.Dataset, statistic: str = "recall") -> Table:
        """Read the heads that see the sink and have ρ₀, α₀ and the statistic in every document."""
        require(capture, NEEDS)
        group = value_heads(capture)
        cosine = capture["sink_cosine"].values.astype(np.float64)
        documents, layers, heads = capture[statistic].shape[:3]
        rho = mean_of_known(cosine)[:, :, group].reshape(documents, -1)
        first = (capture.sizes["position"] - capture["tokens"].values).astype(int)
        of_sink = capture["attention_weight"].values[
            :, np.arange(layers), :, first
        ]  # (layer, document, head)
        weight = of_sink.transpose(1, 0, 2).astype(np.float64).reshape(documents, -1)
        recall = capture[statistic].values.astype(np.float64).reshape(documents, layers * heads, -1)
        seen = np.repeat(capture["sink_visible"].values.astype(bool), heads)
        seen = seen & (
            np.isfinite(rho) & np.isfinite(weight) & np.isfinite(recall).any(axis=-1)
        ).all(axis=0)
        layer = np.repeat(np.arange(layers), heads)
        return cls(
            similarity=rho[:, seen],
            weight=weight[:, seen],
            recall=recall[:, seen],
            layer=layer[seen],
            value_head=(layer * capture.sizes["kv_head"] + np.tile(group, layers))[seen],
        )

    @property
    def heads(self) -> int:
        """Number of heads."""
        return int(self.layer.size)

    def by_value_head(self) -> Table:
        """The same with one row for each value head, averaged over the heads that share it."""
        names, first, place = np.unique(self.value_head, return_index=True, return_inverse=True)
        number = np.bincount(place).astype(np.float64)
        pick = (np.arange(names.size)[:, None] == place).astype(np.float64) / number[:, None]
        return Table(
            similarity=self.similarity @ pick.T,
            weight=self.weight @ pick.T,
            recall=np.einsum("gh,khn->kgn", pick, self.recall),
            layer=self.layer[first],
            value_head=names,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Covariances over heads of x, the control w, if there is one, and y, by their letters: "xx"
    and "xw" (K, K), "xy" (K, K, n).

    Entry (k, l) is between documents k and l. Every document mean's covariance is a quadratic form
    of these, so that replicates need no second look at the heads.
    """

    by_letters: dict[str, FloatArray]

    @classmethod
    def of(
        cls,
        x: FloatArray,
        y: FloatArray,
        w: FloatArray | None = None,
        layer: np.ndarray | None = None,
    ) -> Moments | None:
        """Take the moments over heads, within layers if `layer` is given; None where fewer than two
        degrees of freedom remain.

        x and the control w have shape (document, head), y (document, head, n), and the factor
        `layer` (head).
        """
        groups = 1 if layer is None else np.unique(layer).size
        if x.shape[1] - groups - (w is not None) - 1 < LEAST_HEADS - 2:
            return None
        x, y = _within(x, layer), _within(y, layer)
        moments = {
            "xx": x @ x.T,
            "xy": np.einsum("kh,lhn->kln", x, y),
            "yy": np.einsum("khn,lhn->kln", y, y),
        }
        if w is not None:
            w = _within(w, layer)
            moments |= {"xw": x @ w.T, "ww": w @ w.T, "wy": np.einsum("kh,lhn->kln", w, y)}
        return cls(by_letters=moments)

    def _entries(self, shares: FloatArray, *, apart: bool) -> dict[str, FloatArray]:
        """Each moment of the mean of documents weighted by `shares` (replicate, document), shape
        (replicate, n); `apart`: of different documents only.
        """
        out = {}
        for name, moment in self.by_letters.items():
            moment = moment[..., None] if moment.ndim == 2 else moment
            value = np.einsum("bk,bl,kln->bn", shares, shares, moment, optimize=True)
            if apart:
                squares = shares**2
                own = squares @ np.einsum("kkn->kn", moment)
                rest = 1.0 - squares.sum(axis=1, keepdims=True)
                value = np.divide(
                    value - own, rest, out=np.full(value.shape, np.nan), where=rest > ROUNDING
                )
            out[name] = value
        return out

    def correlation(
        self, shares: FloatArray, *, apart: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return the (partial) correlation of x and y and the slope of y in x, shape (replicate,
        n), of documents weighted by `shares`.

        Rows of `shares`, (replicate, document), sum to 1. `apart`: from products of different
        documents only, equal in expectation to the moments of the documents' expectations. NaN
        where a variance is 0 or, for `apart`, estimated as not positive.
        """
        at = self._entries(shares, apart=apart)
        xx, xy, yy = at["xx"], at["xy"], at["yy"]
        if "ww" in at:
            ww = at["ww"]
            fit = np.divide(at["xw"], ww, out=np.zeros(ww.shape), where=ww > 0)
            explained = np.divide(at["wy"] ** 2, ww, out=np.zeros(at["wy"].shape), where=ww > 0)
            xx, xy, yy = xx - fit * at["xw"], xy - fit * at["wy"], yy - explained
        sound_x, sound_y = xx > ROUNDING * np.abs(at["xx"]), yy > ROUNDING * np.abs(at["yy"])
        empty = np.full(np.broadcast_shapes(xy.shape, xx.shape), np.nan)
        with np.errstate(invalid="ignore"):
            r = np.divide(
                xy, np.sqrt(xx * yy), out=empty.copy(), where=sound_x & sound_y & np.isfinite(yy)
            )
        return np.where(np.abs(r) > 1, np.sign(r), r), np.divide(
            xy, xx, out=empty, where=sound_x & np.isfinite(xy)
        )


def shares_of(documents: int) -> tuple[FloatArray, FloatArray]:
    """Return the weights of the mean over all documents (1, document), and of those over all but
    one (document, document).
    """
    return np.full((1, documents), 1 / documents), (1 - np.eye(documents)) / max(documents - 1, 1)


def _within(values: FloatArray, layer: np.ndarray | None) -> FloatArray:
    """Deviations along axis 1 from the mean over heads, or over the heads of the same layer;
    exactly 0 where they are rounding.
    """
    out = np.empty_like(values)
    for name in [None] if layer is None else np.unique(layer):
        heads = slice(None) if layer is None else layer == name
        part = values[:, heads]
        out[:, heads] = part - part.mean(axis=1, keepdims=True)
    scale = np.sqrt((values**2).mean(axis=1, keepdims=True))
    return np.where(np.abs(out) <= ROUNDING * scale, 0.0, out)
