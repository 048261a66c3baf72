"""Covariances over heads of document means, and correlations from them: as measured, and free of
the documents' noise.

A correlation free of noise is made from products of different documents only, whose errors are
independent (Spearman 1904, correction for attenuation). Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.separability import STATISTICS
from geostat.datasets.tokens import require, value_heads
from geostat.statistics.arrays import FloatArray, pieces, ratio
from geostat.statistics.jackknife import sum_of_others
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
        recall = capture[statistic].values.reshape(documents, layers * heads, -1)
        seen = np.repeat(capture["sink_visible"].values.astype(bool), heads)
        seen = seen & (
            np.isfinite(rho) & np.isfinite(weight) & np.isfinite(recall).any(axis=-1)
        ).all(axis=0)
        layer = np.repeat(np.arange(layers), heads)
        return cls(
            similarity=rho[:, seen],
            weight=weight[:, seen],
            recall=recall if seen.all() else recall[:, seen],
            layer=layer[seen],
            value_head=(layer * capture.sizes["kv_head"] + np.tile(group, layers))[seen],
        )

    @property
    def heads(self) -> int:
        """Number of heads."""
        return int(self.layer.size)

    def by_sizes(self) -> Iterator[Table]:
        """The same in tables of so many sizes N at once as memory has place for, in double
        precision.
        """
        for sizes in pieces(self.recall.shape[-1], self.similarity.size):
            yield replace(self, recall=self.recall[..., sizes].astype(np.float64))

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


Covariances = dict[str, FloatArray]
"""Covariances over heads of document means of x, the control w, if there is one, and y, by their
letters, (replicate, n), those without y (replicate, 1).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviations:
    """What heads of a document differ by from their mean: x and the control w, (document, head),
    and y, (document, head, n).
    """

    x: FloatArray
    y: FloatArray
    w: FloatArray | None = None

    @classmethod
    def of(
        cls,
        x: FloatArray,
        y: FloatArray,
        w: FloatArray | None = None,
        layer: np.ndarray | None = None,
    ) -> Deviations | None:
        """Take the deviations from the mean over heads, within layers if `layer`, (head,), is
        given; None where fewer than two degrees of freedom remain.
        """
        groups = 1 if layer is None else np.unique(layer).size
        if x.shape[1] - groups - (w is not None) - 1 < LEAST_HEADS - 2:
            return None
        control = None if w is None else _within(w, layer)
        return cls(x=_within(x, layer), y=_within(y, layer), w=control)

    def all_and_without(self) -> tuple[Covariances, Covariances]:
        """Return covariances of the mean over all documents and, behind it, of that without each,
        (1 + document, n): as measured, and from products of different documents only, which are
        equal in expectation to those of the documents' expectations; NaN where there are no two.
        """
        documents = len(self.x)
        measured = _covariances(*(means_without(values) for values in self._parts))
        own = _covariances(*self._parts)
        number = np.full((1 + documents, 1), documents - 1.0)
        number[0] = documents
        apart = {}
        for name, value in measured.items():
            same = np.concatenate([own[name].sum(axis=0)[None], sum_of_others(own[name])])
            # A mean of m documents has m of its m² products of one document with itself.
            rest = ratio(value - ratio(same, number**2, 0.0), 1.0 - ratio(1.0, number, 0.0))
            apart[name] = rest
        return measured, apart

    def resampled(self, shares: FloatArray) -> Covariances:
        """Return covariances of documents' means weighted by `shares`, (replicate, document), as
        measured.
        """
        x, w = (None if one is None else shares @ one for one in (self.x, self.w))
        assert x is not None
        # One size at a time: means of all would not stay in a processor's cache.
        each = [
            _covariances(x, (shares @ self.y[..., size])[..., None], w)
            for size in range(self.y.shape[-1])
        ]
        return {
            name: np.concatenate([one[name] for one in each], axis=1) if "y" in name else first
            for name, first in each[0].items()
        }

    @property
    def _parts(self) -> tuple[FloatArray, ...]:
        return (self.x, self.y) if self.w is None else (self.x, self.y, self.w)


def means_without(values: FloatArray) -> FloatArray:
    """Return the mean over all documents and, behind it, that without each, (document, ...) → (1 +
    document, ...); NaN where a document's is.
    """
    others = sum_of_others(values) / max(len(values) - 1, 1)
    return np.concatenate([values.mean(axis=0)[None], others])


def _covariances(x: FloatArray, y: FloatArray, w: FloatArray | None = None) -> Covariances:
    """Sums over heads of products of deviations, replicate by replicate."""

    def alone(one: FloatArray, other: FloatArray) -> FloatArray:
        return np.einsum("kh,kh->k", one, other)[:, None]

    def with_y(one: FloatArray) -> FloatArray:
        return np.einsum("kh,khn->kn", one, y)

    out = {"xx": alone(x, x), "xy": with_y(x), "yy": np.einsum("khn,khn->kn", y, y)}
    return out if w is None else out | {"xw": alone(x, w), "ww": alone(w, w), "wy": with_y(w)}


def correlation(at: Covariances) -> tuple[FloatArray, FloatArray]:
    """Return the (partial) correlation of x and y and the slope of y in x, shape (replicate, n).

    NaN where a variance is 0 or, from products of different documents, estimated as not positive.
    """
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


def correlations(table: Table) -> tuple[FloatArray, FloatArray] | None:
    """Return the correlation over heads of y with x of all documents and, behind it, of all but
    each, (1 + document, n): as measured, and free of noise; None where too few heads have both.
    """
    both = []
    for part in table.by_sizes():
        deviations = Deviations.of(part.similarity, part.recall) if table.heads else None
        if deviations is None:
            return None
        both.append([correlation(at)[0] for at in deviations.all_and_without()])
    measured, apart = (np.hstack(of_sizes) for of_sizes in zip(*both, strict=True))
    return measured, apart


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
