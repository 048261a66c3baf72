"""Edition `sharp`: the exact pairwise law under Model G, and the best bounds the pairwise
probabilities alone allow.

Model G: each of the d coordinates of the contributions (y_0..y_L) is an independent N(0, C/d),
C_kl = a_k a_l ρ_kl. With w_l = s − y_l and Γ_kl = E⟨w_k, w_l⟩ = σ_ss − σ_k − σ_l + C_kl,
exactly

    P{D_j ≤ D_i} = F_t(−√d (Γ_jj − Γ_ii) / (2√(Γ_ii Γ_jj − Γ_ij²)); d),

F_t Student's distribution function with d degrees of freedom. Unit-free; neither κ nor a sign of ρ
enters. It replaces eq. (9) and (30)-(31) of arXiv 2602.01893. Imports numpy and scipy.special.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import stdtr

from theory.arrays import FloatArray
from theory.errors import InputError
from theory.head.ranked import Ranked, Summary
from theory.head.results import BoundPairs

SUM_ROUNDING = 64 * float(np.finfo(np.float64).eps)
"""Relative rounding of long sums: a determinant this near 0 is 0, tokens this near are tied."""

GRAM_ROUNDING = 1e-5
"""How far below 0 a determinant may fall, relative to its terms, in a feasible Gram of float32."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairwiseLaw:
    """P{D_j ≤ D_i} (closed) and P{D_j < D_i} (strict), shape (N, M): rows i∈I, columns j∈J. They
    differ at exact ties only.
    """

    closed: FloatArray
    strict: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairSums:
    """All that the bounds use of a pairwise law.

    column_total (M,): Σ_i p_ij; column_largest (M,): max_i p_ij, both closed. row_total (N,): Σ_j
    p_ij; row_largest (N,): max_j p_ij, strict (convention `paper`) or closed (`followup`).
    """

    column_total: FloatArray
    column_largest: FloatArray
    row_total: FloatArray
    row_largest: FloatArray


def pairwise_law(head: Ranked, summary: Summary, at: int, dimension: int) -> PairwiseLaw:
    """Return the exact law of D_j − D_i for the selection `summary.n[at]`.

    From ‖w_i − w_j‖² = E‖y_i − y_j‖² (`apart`), ‖w_i + w_j‖² (`opposite`) and their inner product
    Γ_jj − Γ_ii (`rise`), since 4(Γ_ii Γ_jj − Γ_ij²) = apart·opposite − rise²: exact to rounding
    however small a_i and a_j are.

    Raises:
        InputError: if some 2×2 determinant is clearly negative: no vectors have this Gram.
    """
    n = int(summary.n[at])
    own = head.a**2
    moment = own - 2 * summary.sigma[at]
    mine, theirs = own[:n, None], own[None, n:]
    cross = head.a[:n, None] * head.a[None, n:] * head.cosines[:n, n:]
    rise = moment[None, n:] - moment[:n, None]
    size = (head.a[:n].sum() + head.a[n:]) ** 2
    apart = mine + theirs - 2 * cross
    opposite = (
        4 * summary.sigma_ss[at]
        + 2 * (moment[:n, None] + moment[None, n:])
        - mine
        - theirs
        + 2 * cross
    )
    determinant = apart * opposite - rise**2
    slack = (
        (mine + theirs) * np.abs(opposite)
        + apart * size
        + np.abs(rise) * (np.abs(moment[:n, None]) + np.abs(moment[None, n:]))
    )
    if (determinant < -GRAM_ROUNDING * slack).any():
        raise infeasible(float((determinant / np.maximum(slack, np.finfo(float).tiny)).min()))
    flat = determinant <= SUM_ROUNDING * slack
    ratio = rise / np.sqrt(np.where(flat, 1.0, determinant))
    closed = np.where(
        flat, np.where(rise > 0, 0.0, 1.0), stdtr(dimension, -np.sqrt(dimension) * ratio)
    )
    tie = (apart <= SUM_ROUNDING * (mine + theirs)) | (opposite <= SUM_ROUNDING * size)
    return PairwiseLaw(closed=np.where(tie, 1.0, closed), strict=np.where(tie, 0.0, closed))


def infeasible(worst: float) -> InputError:
    """Return the error for a Gram that no vectors have; `worst` is the offending determinant
    over its scale.
    """
    return InputError(
        f"the Gram is infeasible: a 2x2 determinant is {worst:.2g} of its scale, expected >= 0."
        " Project it first with theory.project."
    )


def pair_sums(law: PairwiseLaw, *, followup: bool) -> PairSums:
    """Return row and column sums and maxima; rows follow the convention's inner ball (strict in
    `paper`, closed in `followup`).
    """
    rows = law.closed if followup else law.strict
    return PairSums(
        column_total=law.closed.sum(axis=0),
        column_largest=law.closed.max(axis=0),
        row_total=rows.sum(axis=1),
        row_largest=rows.max(axis=1),
    )


def best_bounds(sums: PairSums, *, followup: bool) -> BoundPairs[float]:
    """Return the best bounds that the pairwise probabilities alone allow, in [0, 1].

    Lower sides by Jensen on the integers, upper sides by the comonotone coupling (F(r_min) the
    other way round, being concave).
    """
    precision, precision_steps, outer, outer_steps, inner, inner_steps = _at_counts(
        len(sums.row_total), len(sums.column_total)
    )
    covered = float(np.minimum(1.0, sums.column_total).sum())
    largest = np.sort(sums.column_largest)[::-1]
    kept_low = np.sort(1 - np.minimum(1.0, sums.row_total))[::-1]
    kept_high = 1 - sums.row_largest
    p = (_between(covered, precision), 1 - float(precision_steps @ largest))
    r = (float(kept_low.mean()), float(kept_high.mean()))
    if followup:
        one_f = followup_f(p, r)
        return BoundPairs(precision=p, recall=r, f_outer=one_f, f_inner=one_f)
    f_outer = (_between(covered, outer), 1 - float(outer_steps @ largest))
    f_inner = (float(inner_steps @ kept_low), _between(float(kept_high.sum()), inner))
    return BoundPairs(precision=p, recall=r, f_outer=f_outer, f_inner=f_inner)


@lru_cache(maxsize=64)
def _at_counts(rows: int, columns: int) -> tuple[FloatArray, ...]:
    """Return P and F(r_max) by how many unselected tokens are in the ball, F(r_min) by how many
    selected ones are, and by how much each changes from one count to the next, in size.
    """
    outside, inside = np.arange(columns + 1), np.arange(rows + 1)
    precision = rows / (rows + outside)
    outer = 2 * rows / (2 * rows + outside)
    inner = 2 * inside / (rows + inside)
    return precision, -np.diff(precision), outer, -np.diff(outer), inner, np.diff(inner)


def followup_f(p: tuple[float, float], r: tuple[float, float]) -> tuple[float, float]:
    """Return bounds on the follow-up's one F, 2PR/(P+R), from those on E P and E R: F ≥ P + R −
    1, and F is concave in (P, R).
    """
    return max(0.0, p[0] + r[0] - 1), 2 * p[1] * r[1] / (p[1] + r[1]) if p[1] + r[1] > 0 else 0.0


def exact_bounds(
    head: Ranked, summary: Summary, at: int, dimension: int, *, followup: bool
) -> BoundPairs[float]:
    """Return the sharp bounds of one selection, every pair's probability computed exactly."""
    return best_bounds(
        pair_sums(pairwise_law(head, summary, at, dimension), followup=followup), followup=followup
    )


def _between(x: float, at_integers: FloatArray) -> float:
    """Return the linear interpolation of values at 0, 1, 2, … at x."""
    return float(np.interp(x, np.arange(len(at_integers)), at_integers))
