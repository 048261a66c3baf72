"""A head with its tokens in the order of selection, and what each top-N selection sums up to; the
printed part of that for many heads.

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

    order (T,): position at each rank. By rank: a (T,) effective weights, norms (T,) ‖v‖, cosines
    (T, T) float64 with unit diagonal. sink: the sink's rank, None where no sink is visible.
    """

    order: IntArray
    a: FloatArray
    norms: FloatArray
    cosines: FloatArray
    sink: int | None

    @property
    def tokens(self) -> int:
        """T."""
        return len(self.a)

    @property
    def content(self) -> BoolArray:
        """Which ranks are not the sink's, shape (T,)."""
        return np.arange(self.tokens) != (-1 if self.sink is None else self.sink)


def rank_tokens(
    alpha: FloatArray, norms: FloatArray, cosines: npt.NDArray[Any], sink: int | None
) -> Ranked:
    """Return the head in order of selection, largest α first, ties by lower index: α and ‖v‖
    (T,), cosines (T, T), the sink's position.
    """
    order = selection_order(alpha)
    return ranked(order, (alpha * norms)[order], norms[order], cosines, sink)


def ranked(
    order: IntArray, a: FloatArray, norms: FloatArray, cosines: npt.NDArray[Any], sink: int | None
) -> Ranked:
    """Return the head in a given order; `a` and `norms` are by rank already, `cosines` and
    `sink` by position.
    """
    by_rank = cosines.take(order, axis=0).take(order, axis=1).astype(np.float64, copy=False)
    np.fill_diagonal(by_rank, 1.0)
    return Ranked(order=order, a=a, norms=norms, cosines=by_rank, sink=rank_of(order, sink))


def rank_of(order: IntArray, sink: int | None) -> int | None:
    """Return the rank at which the sink's position enters, None where no sink is visible."""
    return None if sink is None else int(np.flatnonzero(order == sink)[0])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Extremes:
    r"""What eq. (8) needs of each selection, by profile of weights, (…, K), for sizes n (K,), all <
    T.

    In units of value norm: s_in, a_min_in (inf if I\0 is empty), a_max_in and a_max_in_with_sink (0
    if empty), a_max_out. rho_in: largest cosine among I\0 (0 if fewer than two). rho_out: of J with
    I\0 (0 if empty). rho_least: smallest cosine of I\0 with any other content token (0 if none).
    a_sink (…, 1): a₀, 0 where no sink is visible. sink_selected (…, K).
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
    r"""What eq. (7), (8) and (11) need of each selection of one head: its `Extremes`, and sigma
    (K, T): σ_l by rank, sigma_ss (K,): σ_ss.
    """

    sigma: FloatArray
    sigma_ss: FloatArray


def summarise(head: Ranked, n: IntArray) -> Summary:
    """Return the sums and extremes of every selection in `n` (each 1 <= n < T), adding tokens
    block by block: O(T²) in all.
    """
    sizes, content = np.unique(n), head.content
    sigma, cosine = np.empty((len(sizes), head.tokens)), np.empty((3, len(sizes)))
    total, nearest, farthest, rho_in = (
        np.zeros(head.tokens),
        np.full(head.tokens, -np.inf),
        np.inf,
        -np.inf,
    )
    start = 0
    for at, stop in enumerate(sizes.tolist()):
        # σ_l grows by the covariances with the tokens that enter between two sizes
        total += head.a * (head.a[start:stop] @ head.cosines[start:stop])
        sigma[at] = total
        rows = np.flatnonzero(content[start:stop]) + start
        if rows.size:
            # cosines of the entering content with what was selected before, then among itself
            rho_in = max(rho_in, float(nearest[rows].max()))
            block = head.cosines[start:stop][rows - start]
            inner = block[:, rows]
            if rows.size > 1:
                rho_in = max(rho_in, float(inner[~np.eye(rows.size, dtype=bool)].max()))
            # largest cosine of every token with selected content, and the least of selected with
            # any content
            nearest = np.maximum(nearest, block.max(axis=0))
            farthest = min(farthest, float(block[:, content].min()))
        cosine[:, at] = rho_in, nearest[stop:].max(), farthest
        start = stop
    return summary_of(head, n, sigma, cosine)


def distinct(n: IntArray) -> tuple[IntArray, Any]:
    """Return np.unique(n), and what takes its entries back to those of `n`; sizes that ascend, as
    almost all do, are taken as they are.

    >>> distinct(np.array([3, 1, 3]))
    (array([1, 3]), array([1, 0, 1]))
    """
    if (n[1:] > n[:-1]).all():
        return n, slice(None)
    return np.unique(n, return_inverse=True)


def summary_of(head: Ranked, n: IntArray, sigma: FloatArray, extremes: FloatArray) -> Summary:
    """Return the summary for sizes `n` from what costs O(T²), for each of np.unique(n): σ_l (K, T),
    and ρ_in, ρ_out, ρ_least (3, K).

    A ρ is infinite where there is no such pair.
    """
    sizes, back = distinct(n)
    found = extremes_of(head.a, np.array(-1 if head.sink is None else head.sink), n, extremes)
    total = [row[:size].sum() for row, size in zip(sigma, sizes.tolist(), strict=True)]
    sums = {"sigma": sigma[back], "sigma_ss": np.array(total)[back]}
    return Summary(**{name: getattr(found, name) for name in Extremes.__slots__}, **sums)


def extremes_of(a: FloatArray, sink: IntArray, n: IntArray, cosines: FloatArray) -> Extremes:
    """Return the extremes for sizes `n` of profiles: by rank `a` (…, T), the sink's rank (…), −1
    for none; for each of np.unique(n) ρ_in, ρ_out, ρ_least (3, …, K), infinite without a pair.
    """
    sizes, back = distinct(n)
    before, at = sizes - 1, sink[..., None]
    content = np.arange(a.shape[-1]) != at
    kept = np.where(content, a, 0.0)
    rho_in, rho_out, rho_least = np.where(np.isfinite(cosines), cosines, 0.0)[..., back]

    def largest(values: FloatArray) -> FloatArray:
        return np.maximum.accumulate(values, axis=-1)

    lowest = np.minimum.accumulate(np.where(content, a, np.inf), axis=-1)
    return Extremes(
        n=n,
        s_in=np.cumsum(kept, axis=-1)[..., before][..., back],
        a_min_in=lowest[..., before][..., back],
        a_max_in=largest(kept)[..., before][..., back],
        a_max_in_with_sink=largest(a)[..., before][..., back],
        a_max_out=largest(a[..., ::-1])[..., ::-1][..., sizes][..., back],
        rho_in=rho_in,
        rho_out=rho_out,
        rho_least=rho_least,
        a_sink=np.where(at < 0, 0.0, np.take_along_axis(a, at, axis=-1)),
        sink_selected=(at >= 0) & (at < n),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selections:
    r"""What eq. (8) and (12) need of I_N, arrays (profile, n); in units of value norm.

    a_min_in over I\0 (NaN where that is empty), a_max_in (sink included or not), a_max_out, s_in
    over I\0; a_sink (profile, 1). content_in, content_out: whether I\0 and J\0 hold a token.
    sink_in: whether the sink is selected.
    """

    a_min_in: FloatArray
    a_max_in: FloatArray
    a_max_out: FloatArray
    s_in: FloatArray
    a_sink: FloatArray
    content_in: BoolArray
    content_out: BoolArray
    sink_in: BoolArray


def selections(alpha: FloatArray, norms: FloatArray, n: IntArray, *, sink_in_b: bool) -> Selections:
    """Select the N largest weights of each profile (ties by lower index) for every N of `n`, 1 ≤ N
    ≤ T.

    alpha, norms: (profile, T); the sink stands at position 0. sink_in_b: whether a_max_in includes
    the sink.
    """
    order = np.argsort(-alpha, axis=1, kind="stable")
    a = np.take_along_axis(alpha * norms, order, axis=1)
    content = order != 0
    before = n - 1
    kept = np.where(content, a, 0.0)
    # running extremes and sums by rank, read at rank N − 1 (inside) and from rank N on (outside)
    lowest = np.minimum.accumulate(np.where(content, a, np.inf), axis=1)[:, before]
    beyond = np.concatenate(
        [np.maximum.accumulate(a[:, ::-1], axis=1)[:, ::-1], np.full((len(a), 1), np.nan)], axis=1
    )[:, n]
    sink_in = np.argmin(content, axis=1)[:, None] < n[None]
    inside = n[None] - sink_in
    return Selections(
        a_min_in=np.where(np.isfinite(lowest), lowest, np.nan),
        a_max_in=np.maximum.accumulate(a if sink_in_b else kept, axis=1)[:, before],
        a_max_out=beyond,
        s_in=np.cumsum(kept, axis=1)[:, before],
        a_sink=(alpha[:, 0] * norms[:, 0])[:, None],
        content_in=inside > 0,
        content_out=inside < alpha.shape[1] - 1,
        sink_in=sink_in,
    )
