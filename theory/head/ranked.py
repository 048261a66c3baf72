"""Tokens of a head in the order of selection, with sums and extremes of every top-N selection, for
one head or many.

Ranks run 0..T-1 in the order of entry: I_N is ranks 0..N-1 and J the rest. a = α‖v‖ in units of
value norm, C_kl = a_k a_l ρ_kl, σ_l = Σ_{k∈I} C_kl (the mean of ⟨s, y_l⟩), σ_ss = Σ_{l∈I} σ_l.
Source: arXiv 2602.01893, eq. (7)-(8) and (11). Imports numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from theory.arrays import BoolArray, FloatArray, IntArray, selection_order


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranked:
    """One head in order of selection.

    order (T,): position at each rank. By rank: a (T,) effective weights, cosines (T, T) float64
    with unit diagonal. sink: rank of the sink, None if not visible.
    """

    order: IntArray
    a: FloatArray
    cosines: FloatArray
    sink: int | None

    @property
    def tokens(self) -> int:
        """T."""
        return len(self.a)

    @property
    def content(self) -> BoolArray:
        """Return the mask of ranks other than the sink, shape (T,)."""
        return np.arange(self.tokens) != (-1 if self.sink is None else self.sink)


def rank_tokens(
    alpha: FloatArray, norms: FloatArray, cosines: npt.NDArray[Any], sink: int | None
) -> Ranked:
    """Return the head by rank from α and ‖v‖ (T,), cosines (T, T) and the sink by position."""
    order = selection_order(alpha)
    return ranked(order, (alpha * norms)[order], cosines, sink)


def ranked(order: IntArray, a: FloatArray, cosines: npt.NDArray[Any], sink: int | None) -> Ranked:
    """Return the head in an order: `a` by rank, `cosines`, `sink` by position."""
    by_rank = cosines.take(order, axis=0).take(order, axis=1).astype(np.float64, copy=False)
    np.fill_diagonal(by_rank, 1.0)
    rank = None if sink is None else int(np.flatnonzero(order == sink)[0])
    return Ranked(order=order, a=a, cosines=by_rank, sink=rank)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Extremes:
    r"""Inputs of eq. (8) for each selection, by weight profile, (…, K), for sizes n (K,), all < T.

    In units of value norm: s_in, a_min_in (inf if I\0 is empty), a_max_in and a_max_in_with_sink (0
    if empty), a_max_out. rho_in: largest cosine among I\0 (0 if fewer than two). rho_out: of J with
    I\0 (0 if empty). rho_least: smallest cosine of I\0 with any other content token (0 if none).
    a_sink (…, 1): a₀, 0 if no sink is visible. sink_selected (…, K).
    """

    n: IntArray
    s_in: FloatArray
    a_min_in: FloatArray
    a_max_in: FloatArray
    a_max_in_with_sink: FloatArray
    a_max_out: FloatArray
    rho_in: FloatArray
    rho_out: FloatArray
    rho_least: FloatArray
    a_sink: FloatArray
    sink_selected: BoolArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Summary(Extremes):
    r"""Inputs of eq. (7), (8) and (11) for each selection of one head: `Extremes`, sigma (K, T):
    σ_l by rank, sigma_ss (K,): σ_ss.
    """

    sigma: FloatArray
    sigma_ss: FloatArray


def summarise(head: Ranked, n: IntArray) -> Summary:
    """Return the sums and extremes of every selection in `n`, 1 <= n < T, in O(T²)."""
    sizes, content = np.unique(n), head.content
    sigma, cosine = np.empty((len(sizes), head.tokens)), np.empty((3, len(sizes)))
    total = np.zeros(head.tokens)
    nearest = np.full(head.tokens, -np.inf)
    farthest = np.inf
    rho_in = -np.inf
    start = 0
    for index, stop in enumerate(sizes.tolist()):
        # σ_l grows by the covariances with the tokens that enter between two sizes
        total += head.a * (head.a[start:stop] @ head.cosines[start:stop])
        sigma[index] = total
        rows = np.flatnonzero(content[start:stop]) + start
        if rows.size:
            # cosines of entering content with earlier content, then within the entering content
            rho_in = max(rho_in, float(nearest[rows].max()))
            block = head.cosines[start:stop][rows - start]
            inner = block[:, rows]
            if rows.size > 1:
                rho_in = max(rho_in, float(inner[~np.eye(rows.size, dtype=bool)].max()))
            # largest cosine of every token with selected content, and smallest of selected with any
            # content
            nearest = np.maximum(nearest, block.max(axis=0))
            farthest = min(farthest, float(block[:, content].min()))
        cosine[:, index] = rho_in, nearest[stop:].max(), farthest
        start = stop
    by_size = extremes_of(head.a, np.array(-1 if head.sink is None else head.sink), n, cosine)
    _, inverse = distinct(n)
    sigma_ss = np.array([row[:stop].sum() for row, stop in zip(sigma, sizes, strict=True)])
    extremes = {name: getattr(by_size, name) for name in Extremes.__slots__}
    return Summary(**extremes, sigma=sigma[inverse], sigma_ss=sigma_ss[inverse])


def distinct(n: IntArray) -> tuple[IntArray, Any]:
    """Return np.unique(n) and its inverse index. Ascending sizes, the usual case, are returned
    unchanged.

    >>> distinct(np.array([3, 1, 3]))
    (array([1, 3]), array([1, 0, 1]))
    """
    if (n[1:] > n[:-1]).all():
        return n, slice(None)
    return np.unique(n, return_inverse=True)


def extremes_of(
    a: FloatArray, sink: IntArray, n: IntArray, cosines: FloatArray | None = None
) -> Extremes:
    """Return the extremes of profiles for sizes `n`. a (…, T): weights by rank. sink (…): its rank,
    −1 for none. cosines (3, …, K): ρ_in, ρ_out, ρ_least for each of np.unique(n), infinite without
    a pair; None: all 0. For N = T a_max_out is NaN.
    """
    sizes, inverse = distinct(n)
    last_rank, sink_rank = sizes - 1, sink[..., None]
    content = np.arange(a.shape[-1]) != sink_rank
    content_weights = np.where(content, a, 0.0)
    if cosines is None:
        cosines = np.zeros((3, *a.shape[:-1], len(sizes)))
    rho_in, rho_out, rho_least = np.where(np.isfinite(cosines), cosines, 0.0)[..., inverse]

    def largest(values: FloatArray) -> FloatArray:
        return np.maximum.accumulate(values, axis=-1)

    lowest = np.minimum.accumulate(np.where(content, a, np.inf), axis=-1)
    outside = largest(a[..., ::-1])[..., ::-1][..., np.minimum(sizes, a.shape[-1] - 1)]
    a_max_in = largest(content_weights)[..., last_rank][..., inverse]
    a_sink = np.where(sink_rank < 0, 0.0, np.take_along_axis(a, sink_rank, axis=-1))
    sink_selected = (sink_rank >= 0) & (sink_rank < n)
    return Extremes(
        n=n,
        s_in=np.cumsum(content_weights, axis=-1)[..., last_rank][..., inverse],
        a_min_in=lowest[..., last_rank][..., inverse],
        a_max_in=a_max_in,
        a_max_in_with_sink=np.maximum(a_max_in, np.where(sink_selected, a_sink, 0.0)),
        a_max_out=np.where(n < a.shape[-1], outside[..., inverse], np.nan),
        rho_in=rho_in,
        rho_out=rho_out,
        rho_least=rho_least,
        a_sink=a_sink,
        sink_selected=sink_selected,
    )
