"""Cosines of single pairs, from histograms: errors of a form, negative cosines, chance levels.

Source: arXiv 2602.01893, eq. (6) and Figure 3. The jackknife of a pooled share leaves documents out
of numerator and denominator. A chance level is the value for independent random directions. Imports
numpy and scipy.special.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.special import gammaln

from geostat.fits.similarity.forms import PARAMETERS, by_lag
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import Estimate, jackknife


def pairs_by_lag(lag: FloatArray, content: int) -> FloatArray:
    """Return m_k = L − k, the number of pairs of L content tokens at lag k; 0 for k ≥ L."""
    return np.maximum(content - np.asarray(lag, dtype=np.float64), 0.0)


@dataclass(frozen=True, slots=True)
class Bins:
    """Edges of a cosine histogram.

    Cosine bins are [left, right]; lag bins run from start to stop, both inclusive.
    """

    left: FloatArray
    right: FloatArray
    start: FloatArray
    stop: FloatArray

    @classmethod
    def of(cls, capture: xr.Dataset) -> Bins:
        """Return the edges of a /capture dataset."""
        names = ("cosine_bin_left", "cosine_bin_right", "lag_bin_start", "lag_bin_stop")
        return cls(*(capture[name].values.astype(np.float64) for name in names))


def share_of_lags(bins: Bins, content: int) -> FloatArray:
    """Return the share of lags 1 to content − 1 among the pairs of each bin, (lag_bin, lag)."""
    lag = np.arange(1, content, dtype=np.float64)
    pairs = pairs_by_lag(lag, content) * (
        (lag >= bins.start[:, None]) & (lag <= bins.stop[:, None])
    )
    return ratio(pairs, pairs.sum(axis=-1, keepdims=True), 0.0)


def error_by_bin(bins: Bins, share: FloatArray, model: FloatArray) -> FloatArray:
    """Return the expected |cosine − model| of a pair in each histogram cell, (lag_bin, cosine_bin).

    The result is exact for a density that is uniform within each cosine bin and equal at all lags
    of a lag bin (lags weighted by pairs). E|x − f| over a bin [l, r] is |(l+r)/2 − f| for f outside
    it and ((f−l)² + (r−f)²) / (2(r−l)) inside.

    `share` is that of each lag in each lag bin, (lag_bin, lag), `model` the cosine f, (lag,).
    """
    error = np.abs((bins.left + bins.right) / 2.0 - model[:, None])
    index = np.clip(np.searchsorted(bins.left, model, side="right") - 1, 0, bins.left.size - 1)
    left, right = bins.left[index], bins.right[index]
    rows = np.flatnonzero((model > left) & (model < right))
    error[rows, index[rows]] = (
        ((model - left) ** 2 + (right - model) ** 2) / (2.0 * (right - left))
    )[rows]
    # A bin has few lags: the full product with the matrix of shares would be mostly zeros.
    spans = [np.flatnonzero(row) for row in share]
    return (
        np.stack([row[span] @ error[span] for row, span in zip(share, spans, strict=True)])
        if spans
        else np.zeros((0, bins.left.size))
    )


def pooled(part: FloatArray, whole: FloatArray) -> Estimate:
    """Return Σ part / Σ whole over documents with its jackknife; whole = 0 does not carry it."""
    total, denominator = part.sum(axis=0), whole.sum(axis=0)
    return jackknife(ratio(total, denominator), ratio(total - part, denominator - whole), whole > 0)


def mae_by_pair(
    counts: Iterable[FloatArray],
    bins: Bins,
    content: int,
    form: str,
    values: dict[str, FloatArray],
) -> Estimate:
    """Return the mean over pairs of |cosine − model|, (head,); its interval holds the fit fixed.

    `counts` yields the number of pairs of each head, (document, lag_bin, cosine_bin); `values` are
    beta, offset and stretch, (head,). NaN for an empty histogram or a head that was not fitted.
    """
    share, lag = share_of_lags(bins, content), np.arange(1, content, dtype=np.float64)
    part, whole = [], []
    for head, count in enumerate(counts):
        model = by_lag(form, lag, *(float(values[name][head]) for name in PARAMETERS))
        fitted = np.isfinite(model).all()
        total_error = (
            np.einsum("klc,lc->k", count, error_by_bin(bins, share, model)) if fitted else 0.0
        )
        part.append(np.broadcast_to(total_error, len(count)))
        whole.append(count.sum(axis=(-2, -1)) * fitted)
    return pooled(np.stack(part, axis=1), np.stack(whole, axis=1))


def negative_share(fraction: FloatArray, pairs: FloatArray) -> Estimate:
    """Return the share of negative cosines from that at each lag, (document, head, lag)."""
    known = np.isfinite(fraction)
    weight = known * pairs
    return pooled((weight * np.where(known, fraction, 0.0)).sum(axis=-1), weight.sum(axis=-1))


def chance_by_pair(dimension: int) -> float:
    """Return E|cos| of two independent random directions: Γ(d/2)/(√π Γ((d+1)/2)) ≈ √(2/πd).

    It is the chance level of an error by pair.
    """
    return float(np.exp(gammaln(dimension / 2.0) - gammaln((dimension + 1) / 2.0)) / np.sqrt(np.pi))


def chance_by_lag(dimension: int, pairs: FloatArray, documents: FloatArray) -> FloatArray:
    """Return the mean over lags of E|c̄_k| for random directions, the chance level of an error.

    c̄_k is the mean over m_k > 0 pairs, (lag,), and K documents. Cosines are uncorrelated with
    variance 1/d (also for pairs that share a token); c̄_k is close to normal with variance
    1/(d m_k K), and E|c̄_k| = √(2/(π d m_k K)). NaN where K = 0.
    """
    with np.errstate(divide="ignore"):
        by_document = np.sqrt(2.0 / (np.pi * dimension * np.asarray(documents, dtype=np.float64)))
        level = by_document * np.mean(pairs**-0.5 if pairs.size else np.nan)
    return np.where(np.isfinite(level), level, np.nan)
