"""Edition `repaired`: the printed argument with the exact mean, a scale-free width and κ = 1/8.

Lower bounds are proven for independent uniform directions; for correlated ones they are only
checked. Not true of Model G. Upper values are an approximation for unit directions, never a bound.
Units: μ and w in a², probabilities unit-free. Repairs eq. (8)-(17) of arXiv 2602.01893 (errata 1,
4, 5, 7, 8). Imports numpy and scipy.special.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from theory.arrays import FloatArray
from theory.editions.printed import harmonic
from theory.head.ranked import Ranked, Summary
from theory.head.results import BoundPairs


def exact_means(head: Ranked, summary: Summary, at: int) -> FloatArray:
    """Return μ_ij = E X_ij = m_j − m_i, m_l = a_l² − 2a_l Σ_{k∈I} a_k ρ_kl, shape (N, M),
    units a² (erratum 4).
    """
    n = int(summary.n[at])
    moment = head.a**2 - 2 * summary.sigma[at]
    return np.asarray(moment[None, n:] - moment[:n, None])


def pair_widths(head: Ranked, n: int) -> FloatArray:
    """Return w_ij = A(a_i + a_j) − a_i², A = Σ_{k∈I} a_k, shape (N, M), units a²."""
    mine, theirs = head.a[:n, None], head.a[None, n:]
    return np.asarray(head.a[:n].sum() * (mine + theirs) - mine**2)


def tails(means: FloatArray, widths: FloatArray, dimension: int, kappa: float) -> FloatArray:
    """Return T_ij = exp(−κ d (μ_ij⁺/w_ij)²), with 1 where the mean is not positive."""
    positive = np.maximum(means, 0.0)
    ratio = np.divide(positive, widths, out=np.zeros_like(positive), where=widths > 0)
    return np.asarray(np.exp(-kappa * dimension * ratio**2))


def union_bounds(tail: FloatArray) -> tuple[float, float]:
    """Return the lower bounds of E P and E R from tails (N, M): N/(N + Σ_j min(1, Σ_i T)), 1 −
    (1/N) Σ_i min(1, Σ_j T).
    """
    n = tail.shape[0]
    covered = float(np.minimum(1.0, tail.sum(axis=0)).sum())
    return n / (n + covered), 1 - float(np.minimum(1.0, tail.sum(axis=1)).mean())


def pair_variances(head: Ranked, summary: Summary, at: int, dimension: int) -> FloatArray:
    """Return Var X_ij = (2/d) tr[(M R)²] for unit directions, leading order in 1/d, shape (N, M),
    units a⁴.

    M = W + D: X_ij = const + Σ_{k≠l} W_kl cos_kl and D_kk = −Σ_l W_kl ρ_kl. W has rank four
    and D's entries are linear in (i, j), so the trace splits into matrix products over I.
    """
    n = int(summary.n[at])
    a, sigma, ss = head.a, summary.sigma[at], summary.sigma_ss[at]
    own_i, own_j, sigma_i, sigma_j = (
        (a[:n] ** 2)[:, None],
        (a[n:] ** 2)[None],
        sigma[:n, None],
        sigma[None, n:],
    )
    a_i, a_j = a[:n, None], a[None, n:]
    cosines = head.cosines[:n]
    cross = a_i * a_j * cosines[:, n:]
    # tr[(W R)²], W of rank four: inner products of contributions, s and the pair
    wide = 2 * ((sigma_i - own_i) ** 2 + own_i * (ss - 2 * sigma_i + own_i)) + 2 * (
        sigma_j**2 + own_j * ss
    )
    wide = wide - 4 * ((sigma_j - cross) * sigma_i + (ss - sigma_i) * cross)
    mend = 2 * own_i - sigma_i
    return np.asarray(
        2
        / dimension
        * (wide + 2 * _mixed(head, n, sigma, mend) + _diagonal(head, n, sigma_j, mend))
    )


def _mixed(head: Ranked, n: int, sigma: FloatArray, mend: FloatArray) -> FloatArray:
    """Return tr(W R D R) = Σ_k D_kk z_k, z_k = 2a_i ρ_ki(τ_k − a_i ρ_ki) − 2a_j ρ_kj τ_k,
    τ_k = Σ_{l∈I} a_l ρ_kl; shape (N, M).
    """
    a, rho = head.a, head.cosines[:n]
    a_i, a_j, inner, outer = a[:n, None], a[None, n:], rho[:, :n], rho[:, n:]
    tau = inner @ a[:n]
    tau_j = head.cosines[n:, :n] @ a[:n]
    load = (a[:n] * tau)[:, None]
    weight = a[:n, None]
    from_j = 2 * a_i * a_j * (inner.T @ (load * outer) - a_i * ((inner**2).T @ (weight * outer)))
    from_j = from_j - 2 * a_j**2 * (load * outer**2).sum(axis=0)[None]
    from_i = (
        2
        * a_i**2
        * ((load * inner**2).sum(axis=0)[:, None] - a_i * (weight * inner**3).sum(axis=0)[:, None])
    )
    from_i = from_i - 2 * a_i * a_j * (inner.T @ (load * outer))
    at_i = 2 * a_i * (tau[:, None] - a_i) - 2 * a_j * outer * tau[:, None]
    at_j = 2 * a_i * outer * (tau_j[None] - a_i * outer) - 2 * a_j * tau_j[None]
    return np.asarray(from_j - from_i + mend * at_i + sigma[None, n:] * at_j)


def _diagonal(head: Ranked, n: int, sigma_j: FloatArray, mend: FloatArray) -> FloatArray:
    """Return tr(D R D R) = Σ_kl D_kk D_ll ρ_kl², D = a_j g_j − a_i g_i + mend e_i + σ_j e_j,
    (g_l)_k = a_k ρ_kl on I; shape (N, M).
    """
    a_i, a_j = head.a[:n, None], head.a[None, n:]
    rho = head.cosines[:n]
    square = rho**2
    g = head.a[:n, None] * rho
    spread = square[:, :n] @ g
    own_i, own_j = (
        (g[:, :n] * spread[:, :n]).sum(axis=0)[:, None],
        (g[:, n:] * spread[:, n:]).sum(axis=0)[None],
    )
    total = a_j**2 * own_j - 2 * a_i * a_j * (g[:, :n].T @ spread[:, n:]) + a_i**2 * own_i
    at_i = a_j * spread[:, n:] - a_i * np.diagonal(spread[:, :n])[:, None]
    at_j = a_j * (square[:, n:] * g[:, n:]).sum(axis=0)[None] - a_i * (g[:, :n].T @ square[:, n:])
    return np.asarray(
        total
        + 2 * mend * at_i
        + 2 * sigma_j * at_j
        + mend**2
        + sigma_j**2
        + 2 * mend * sigma_j * square[:, n:]
    )


def repaired_bounds(
    head: Ranked, summary: Summary, at: int, dimension: int, kappa: float
) -> BoundPairs[float]:
    """Return the repaired lower bounds and the upper approximations for one selection.

    E F(r_max) ≥ f(P_lo), E F(r_min) ≥ R_lo (not f(R_lo), erratum 8); upper sides f of the upper
    approximations.
    """
    n = int(summary.n[at])
    means = exact_means(head, summary, at)
    p_low, r_low = union_bounds(tails(means, pair_widths(head, n), dimension, kappa))
    spread = np.sqrt(np.maximum(pair_variances(head, summary, at, dimension), 0.0))
    floor = np.where(means > 0, 0.0, np.where(means < 0, 1.0, 0.5))
    beyond = ndtr(-np.divide(means, spread, out=np.full_like(means, np.inf), where=spread > 0))
    chance = np.where(spread > 0, beyond, floor)
    p_high = 1 - float(chance.max()) / (n + 1)
    r_high = 1 - float(chance.max(axis=1).mean())
    return BoundPairs(
        precision=(p_low, p_high),
        recall=(r_low, r_high),
        f_outer=(harmonic(p_low), harmonic(p_high)),
        f_inner=(r_low, harmonic(r_high)),
    )
