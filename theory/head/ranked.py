"""A head with its tokens in the order of selection, and what each top-N selection sums up to.

Ranks run 0..T-1 in the order of entry: I_N is ranks 0..N-1 and J the rest. a = α‖v‖ in units of value norm,
C_kl = a_k a_l ρ_kl, σ_l = Σ_{k∈I} C_kl (the mean of ⟨s, y_l⟩), σ_ss = Σ_{l∈I} σ_l.
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

    order (T,): position at each rank. By rank: a (T,) effective weights, norms (T,) ‖v‖, cosines (T, T) float64 with unit diagonal.
    sink: the sink's rank, None where no sink is visible.
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


def rank_tokens(alpha: FloatArray, norms: FloatArray, cosines: npt.NDArray[Any], sink: int | None) -> Ranked:
    """Return the head in order of selection: largest α first, ties by lower index.

    Args:
        alpha: (T,) attention weights.
        norms: (T,) value norms.
        cosines: (T, T) Gram matrix.
        sink: position of the sink, or None.
    """
    order = selection_order(alpha)
    return ranked(order, (alpha * norms)[order], norms[order], cosines, sink)


def ranked(order: IntArray, a: FloatArray, norms: FloatArray, cosines: npt.NDArray[Any], sink: int | None) -> Ranked:
    """Return the head in a given order; `a` and `norms` are by rank already, `cosines` and `sink` by position."""
    by_rank = cosines.take(order, axis=0).take(order, axis=1).astype(np.float64, copy=False)
    np.fill_diagonal(by_rank, 1.0)
    return Ranked(order=order, a=a, norms=norms, cosines=by_rank, sink=rank_of(order, sink))


def rank_of(order: IntArray, sink: int | None) -> int | None:
    """Return the rank at which the sink's position enters, None where no sink is visible."""
    return None if sink is None else int(np.flatnonzero(order == sink)[0])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Summary:
    r"""What eq. (7), (8) and (11) need of each selection; one entry for each of K sizes n (all < T).

    sigma (K, T): σ_l by rank. sigma_ss (K,): σ_ss. In units of value norm: s_in, a_min_in (inf if I\0 is empty), a_max_in and
    a_max_in_with_sink (0 if empty), a_max_out. rho_in: largest cosine among I\0 (0 if fewer than two). rho_out: of J with I\0 (0 if empty).
    rho_least: smallest cosine of I\0 with any other content token (0 if none). a_sink: a₀, 0 where no sink is visible. sink_selected (K,).
    """

    n: IntArray
    sigma: FloatArray
    sigma_ss: FloatArray
    s_in: FloatArray
    a_min_in: FloatArray
    a_max_in: FloatArray
    a_max_in_with_sink: FloatArray
    a_max_out: FloatArray
    rho_in: FloatArray
    rho_out: FloatArray
    rho_least: FloatArray
    a_sink: float
    sink_selected: BoolArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunningSums:
    """What summarising costs O(T²) for: sigma (K, T), and rho_in, rho_out, rho_least (K,), infinite where there is no such pair."""

    sigma: FloatArray
    rho_in: FloatArray
    rho_out: FloatArray
    rho_least: FloatArray


def running_sums(head: Ranked, sizes: IntArray) -> RunningSums:
    """Return sums and extremes over the selections of rising `sizes` (each 1 <= n < T), adding tokens block by block."""
    content = content_ranks(head)
    sigma, cosine = np.empty((len(sizes), head.tokens)), np.empty((3, len(sizes)))
    total, nearest, farthest, rho_in = np.zeros(head.tokens), np.full(head.tokens, -np.inf), np.inf, -np.inf
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
            # largest cosine of every token with selected content, and the least of selected with any content
            nearest = np.maximum(nearest, block.max(axis=0))
            farthest = min(farthest, float(block[:, content].min()))
        cosine[:, at] = rho_in, nearest[stop:].max(), farthest
        start = stop
    return RunningSums(sigma=sigma, rho_in=cosine[0], rho_out=cosine[1], rho_least=cosine[2])


def content_ranks(head: Ranked) -> BoolArray:
    """Return which ranks are not the sink's, shape (T,)."""
    content = np.ones(head.tokens, dtype=bool)
    if head.sink is not None:
        content[head.sink] = False
    return content


def summarise(head: Ranked, n: IntArray) -> Summary:
    """Return the sums and extremes of every selection in `n` (each 1 <= n < T): O(T²) in all."""
    return summary_of(head, n, running_sums(head, np.unique(n)))


def summary_of(head: Ranked, n: IntArray, sums: RunningSums) -> Summary:
    """Return the summary for sizes `n`, from the running sums over np.unique(n)."""
    sizes, back = np.unique(n, return_inverse=True)
    before = sizes - 1
    content = content_ranks(head)
    kept = np.where(content, head.a, 0.0)
    rho_in, rho_out, rho_least = (np.where(np.isfinite(x), x, 0.0)[back] for x in (sums.rho_in, sums.rho_out, sums.rho_least))
    return Summary(
        n=n,
        sigma=sums.sigma[back],
        sigma_ss=np.array([row[:size].sum() for row, size in zip(sums.sigma, sizes.tolist(), strict=True)])[back],
        s_in=np.cumsum(kept)[before][back],
        a_min_in=np.minimum.accumulate(np.where(content, head.a, np.inf))[before][back],
        a_max_in=np.maximum.accumulate(kept)[before][back],
        a_max_in_with_sink=np.maximum.accumulate(head.a)[before][back],
        a_max_out=np.maximum.accumulate(head.a[::-1])[::-1][sizes][back],
        rho_in=rho_in,
        rho_out=rho_out,
        rho_least=rho_least,
        a_sink=0.0 if head.sink is None else float(head.a[head.sink]),
        sink_selected=np.zeros(len(n), dtype=bool) if head.sink is None else head.sink < n,
    )
