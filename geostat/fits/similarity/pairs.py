"""Cosines of single pairs, from histograms: mean absolute error of a fitted form, share of negative
cosines, chance levels.

Source: arXiv 2602.01893, eq. (6) and Figure 3. A pooled share has its interval by leaving
documents out of numerator and denominator alike. A floor is what no similarity at all would give.
Imports numpy and scipy.special.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.special import gammaln

from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import Estimate, jackknife
from theory.head.similarity_decay import by_lag


def pairs_by_lag(lag: FloatArray, content: int) -> FloatArray:
    """Return m_k = L − k, the number of pairs of L content tokens k apart; 0 from k = L on."""
    return np.maximum(content - np.asarray(lag, dtype=np.float64), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Edges of a cosine histogram: cosine bins [left, right], lag bins from first to last lag,
    both included.
    """

    left: FloatArray
    right: FloatArray
    start: FloatArray
    stop: FloatArray

    @classmethod
    def of(cls, capture: xr.Dataset) -> Bins:
        """Read the edges of a /capture dataset."""
        names = {
            "left": "cosine_bin_left",
            "right": "cosine_bin_right",
            "start": "lag_bin_start",
            "stop": "lag_bin_stop",
        }
        return cls(
            **{edge: capture[name].values.astype(np.float64) for edge, name in names.items()}
        )


def share_of_lags(bins: Bins, content: int) -> FloatArray:
    """Return the share of each lag among the pairs of each lag bin, (lag_bin, lag), for lags 1
    to content − 1.
    """
    lag = np.arange(1, content, dtype=np.float64)
    pairs = pairs_by_lag(lag, content) * (
        (lag >= bins.start[:, None]) & (lag <= bins.stop[:, None])
    )
    return ratio(pairs, pairs.sum(axis=-1, keepdims=True), 0.0)


def error_by_bin(bins: Bins, share: FloatArray, model: FloatArray) -> FloatArray:
    """Return the expected |cosine − model| of a pair in each cell of the histogram, (lag_bin,
    cosine_bin).

    Exact for a density uniform within each cosine bin and, in a lag bin of several lags, the same
    at each of its lags (which count by their pairs): E|x − f| over a bin [l, r] is |(l+r)/2 − f|
    for f outside it and ((f−l)² + (r−f)²) / (2(r−l)) inside. `share` is that of each lag in each
    lag bin, (lag_bin, lag), `model` the modelled cosine f, (lag,).
    """
    error = np.abs((bins.left + bins.right) / 2.0 - model[:, None])
    at = np.clip(np.searchsorted(bins.left, model, side="right") - 1, 0, bins.left.size - 1)
    left, right = bins.left[at], bins.right[at]
    rows = np.flatnonzero((model > left) & (model < right))
    error[rows, at[rows]] = (((model - left) ** 2 + (right - model) ** 2) / (2.0 * (right - left)))[
        rows
    ]
    # Bin by bin, as a bin has few lags: a product with the whole matrix of shares would be mostly
    # zeros.
    spans = [np.flatnonzero(row) for row in share]
    return (
        np.stack([row[at] @ error[at] for row, at in zip(share, spans, strict=True)])
        if spans
        else np.zeros((0, bins.left.size))
    )


def pooled(part: FloatArray, whole: FloatArray) -> Estimate:
    """Return Σ part / Σ whole over documents, (document, ...), jackknifed; a document with
    whole = 0 does not carry the statistic.
    """
    total, below = part.sum(axis=0), whole.sum(axis=0)
    return jackknife(ratio(total, below), ratio(total - part, below - whole), whole > 0)


def mae_by_pair(
    counts: Iterable[FloatArray],
    bins: Bins,
    content: int,
    form: str,
    values: dict[str, FloatArray],
) -> Estimate:
    """Return the mean over pairs of |cosine − model| of each head, with an interval at which the
    fit is held fixed; in units of cosine.

    `counts` are pairs, (document, lag_bin, cosine_bin), head by head, `values` beta, offset and
    stretch, (head,). NaN for an empty histogram or a head that was not fitted.
    """
    share, lag = share_of_lags(bins, content), np.arange(1, content, dtype=np.float64)
    part, whole = [], []
    for head, own in enumerate(counts):
        model = by_lag(
            form, lag, *(float(values[name][head]) for name in ("beta", "offset", "stretch"))
        )
        fitted = np.isfinite(model).all()
        missed = np.einsum("klc,lc->k", own, error_by_bin(bins, share, model)) if fitted else 0.0
        part.append(np.broadcast_to(missed, len(own)))
        whole.append(own.sum(axis=(-2, -1)) * fitted)
    return pooled(np.stack(part, axis=1), np.stack(whole, axis=1))


def negative_share(fraction: FloatArray, pairs: FloatArray) -> Estimate:
    """Return the share of negative cosines among all content pairs from that at each lag,
    (document, head, lag), NaN where unknown.
    """
    known = np.isfinite(fraction)
    weight = known * pairs
    return pooled((weight * np.where(known, fraction, 0.0)).sum(axis=-1), weight.sum(axis=-1))


def chance_by_pair(dimension: int) -> float:
    """Return E|cos| of two independent random directions, Γ(d/2)/(√π Γ((d+1)/2)) ≈ √(2/πd): the
    floor of an error by pair.
    """
    return float(np.exp(gammaln(dimension / 2.0) - gammaln((dimension + 1) / 2.0)) / np.sqrt(np.pi))


def chance_by_lag(dimension: int, pairs: FloatArray, documents: FloatArray) -> FloatArray:
    """Return the mean over lags of E|c̄_k| for independent random directions: the floor of an error
    by lag.

    c̄_k is the mean over m_k > 0 pairs, (lag,), and K documents, any shape. Their cosines are
    uncorrelated with variance 1/d (also of pairs that share a token), so it is close to normal with
    variance 1/(d m_k K), and E|c̄_k| = √(2/(π d m_k K)); NaN where K = 0.
    """
    with np.errstate(divide="ignore"):
        by_document = np.sqrt(2.0 / (np.pi * dimension * np.asarray(documents, dtype=np.float64)))
        floor = by_document * np.mean(pairs**-0.5 if pairs.size else np.nan)
    return np.where(np.isfinite(floor), floor, np.nan)
