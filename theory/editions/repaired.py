"""Edition `repaired`: the printed argument with the exact mean, a scale-free width and κ = 1/8.

Lower bounds are proven for independent uniform directions and checked numerically for correlated
ones. They do not hold under Model G. Upper values approximate unit directions and are not bounds.
Units: μ and w in a², probabilities unit-free. Repairs eq. (8)-(17) of arXiv 2602.01893 (errata 1,
4, 5, 7, 8). Imports numpy and scipy.special.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from theory.arrays import FloatArray
from theory.editions.printed import harmonic
from theory.head.ranked import Ranked, Summary


def exact_means(head: Ranked, summary: Summary, index: int) -> FloatArray:
    """Return μ_ij = m_j − m_i, m_l = a_l² − 2a_l Σ_I a_k ρ_kl (erratum 4), (N, M), units a²."""
    n = int(summary.n[index])
    moment = head.a**2 - 2 * summary.sigma[index]
    return np.asarray(moment[None, n:] - moment[:n, None])


def pair_widths(head: Ranked, n: int) -> FloatArray:
    """Return w_ij = A(a_i + a_j) − a_i², A = Σ_{k∈I} a_k, shape (N, M), units a²."""
    a_i, a_j = head.a[:n, None], head.a[None, n:]
    return np.asarray(head.a[:n].sum() * (a_i + a_j) - a_i**2)


def tails(means: FloatArray, widths: FloatArray, dimension: int, kappa: float) -> FloatArray:
    """Return T_ij = exp(−κ d (μ_ij⁺/w_ij)²), and 1 for a non-positive mean."""
    positive = np.maximum(means, 0.0)
    ratio = np.divide(positive, widths, out=np.zeros_like(positive), where=widths > 0)
    return np.asarray(np.exp(-kappa * dimension * ratio**2))


def union_bounds(tail: FloatArray) -> tuple[float, float]:
    """Return N/(N + Σ_j min(1, Σ_i T)) and 1 − (1/N) Σ_i min(1, Σ_j T) from tails (N, M)."""
    n = tail.shape[0]
    covered = float(np.minimum(1.0, tail.sum(axis=0)).sum())
    return n / (n + covered), 1 - float(np.minimum(1.0, tail.sum(axis=1)).mean())


def pair_variances(head: Ranked, summary: Summary, index: int, dimension: int) -> FloatArray:
    """Return Var X_ij = (2/d) tr[(M R)²] for unit directions, leading order in 1/d, shape (N, M),
    units a⁴.

    M = W + D: X_ij = const + Σ_{k≠l} W_kl cos_kl and D_kk = −Σ_l W_kl ρ_kl. W has rank four
    and D's entries are linear in (i, j), so the trace splits into matrix products over I.
    """
    n = int(summary.n[index])
    a, sigma, ss = head.a, summary.sigma[index], summary.sigma_ss[index]
    square_i = (a[:n] ** 2)[:, None]
    square_j = (a[n:] ** 2)[None]
    sigma_i = sigma[:n, None]
    sigma_j = sigma[None, n:]
    a_i, a_j = a[:n, None], a[None, n:]
    cosines = head.cosines[:n]
    cross = a_i * a_j * cosines[:, n:]
    # tr[(W R)²], W of rank four: inner products of contributions, s and the pair
    trace = 2 * ((sigma_i - square_i) ** 2 + square_i * (ss - 2 * sigma_i + square_i)) + 2 * (
        sigma_j**2 + square_j * ss
    )
    trace = trace - 4 * ((sigma_j - cross) * sigma_i + (ss - sigma_i) * cross)
    correction_i = 2 * square_i - sigma_i
    mixed = _mixed(head, n, sigma, correction_i)
    diagonal = _diagonal(head, n, sigma_j, correction_i)
    return np.asarray(2 / dimension * (trace + 2 * mixed + diagonal))


def _mixed(head: Ranked, n: int, sigma: FloatArray, correction_i: FloatArray) -> FloatArray:
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
    second = (load * inner**2).sum(axis=0)[:, None]
    third = (weight * inner**3).sum(axis=0)[:, None]
    from_i = 2 * a_i**2 * (second - a_i * third)
    from_i = from_i - 2 * a_i * a_j * (inner.T @ (load * outer))
    at_i = 2 * a_i * (tau[:, None] - a_i) - 2 * a_j * outer * tau[:, None]
    at_j = 2 * a_i * outer * (tau_j[None] - a_i * outer) - 2 * a_j * tau_j[None]
    return np.asarray(from_j - from_i + correction_i * at_i + sigma[None, n:] * at_j)


def _diagonal(head: Ranked, n: int, sigma_j: FloatArray, correction_i: FloatArray) -> FloatArray:
    """Return tr(D R D R) = Σ_kl D_kk D_ll ρ_kl², D = a_j g_j − a_i g_i + c_i e_i + σ_j e_j,
    (g_l)_k = a_k ρ_kl on I, c_i = `correction_i`; shape (N, M).
    """
    a_i, a_j = head.a[:n, None], head.a[None, n:]
    rho = head.cosines[:n]
    square = rho**2
    g = head.a[:n, None] * rho
    spread = square[:, :n] @ g
    quadratic_i = (g[:, :n] * spread[:, :n]).sum(axis=0)[:, None]
    quadratic_j = (g[:, n:] * spread[:, n:]).sum(axis=0)[None]
    total = (
        a_j**2 * quadratic_j - 2 * a_i * a_j * (g[:, :n].T @ spread[:, n:]) + a_i**2 * quadratic_i
    )
    at_i = a_j * spread[:, n:] - a_i * np.diagonal(spread[:, :n])[:, None]
    at_j = a_j * (square[:, n:] * g[:, n:]).sum(axis=0)[None] - a_i * (g[:, :n].T @ square[:, n:])
    total = total + 2 * correction_i * at_i + 2 * sigma_j * at_j + correction_i**2 + sigma_j**2
    return np.asarray(total + 2 * correction_i * sigma_j * square[:, n:])


def repaired_bounds(
    head: Ranked, summary: Summary, index: int, dimension: int, kappa: float
) -> FloatArray:
    """Return the repaired lower bounds and upper approximations of one selection, `BOUNDS` (8,).

    E F(r_max) ≥ f(P_lo), E F(r_min) ≥ R_lo (not f(R_lo), erratum 8); upper sides f of the upper
    approximations.
    """
    n = int(summary.n[index])
    means = exact_means(head, summary, index)
    p_low, r_low = union_bounds(tails(means, pair_widths(head, n), dimension, kappa))
    spread = np.sqrt(np.maximum(pair_variances(head, summary, index, dimension), 0.0))
    floor = np.where(means > 0, 0.0, np.where(means < 0, 1.0, 0.5))
    beyond = ndtr(-np.divide(means, spread, out=np.full_like(means, np.inf), where=spread > 0))
    chance = np.where(spread > 0, beyond, floor)
    p_high = 1 - float(chance.max()) / (n + 1)
    r_high = 1 - float(chance.max(axis=1).mean())
    outer = [harmonic(p_low), harmonic(p_high)]
    return np.array([p_low, p_high, r_low, r_high, *outer, r_low, harmonic(r_high)])
