"""Exact law of the length of a sum of vectors with fixed lengths and uniform directions.

R = ‖Σ a_j u_j‖ in d dimensions (a random walk). P{R ≤ r} is a Hankel integral of the product of the
steps' characteristic functions: J. C. Kluyver, Proc. Kon. Akad. Wet. Amsterdam 8 (1905), 341-350,
in the plane; G. N. Watson, Theory of Bessel Functions, §13.48, in d dimensions. Imports numpy and
scipy.special.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import betainc, gammaln, hyp0f1, jv

from theory.arrays import FloatArray
from theory.errors import InputError

LEAST, MOST = 8, 128
"""Dimensions for three or more steps: slow decay of the integrand below, overflow above."""

NEGLIGIBLE = 1e-12
"""The integral is cut off where the envelope of the integrand falls below this value."""

NODES = 12
"""Gauss-Legendre nodes per panel; a panel is half a period of the fastest oscillation."""


def share_within(steps: Any, radius: Any, dimension: int) -> FloatArray:
    """Return P{‖Σ a_j u_j‖ ≤ r}, shape of `radius`.

    Args:
        steps: (n,) lengths a_j ≥ 0; zeros are dropped.
        radius: any shape, r ≥ 0, in the units of the steps.
        dimension: d; 8 to 128 for three or more steps, otherwise at least 2.

    Raises:
        InputError: for an unsupported dimension.

    Example:
        >>> round(float(share_within([1.0, 1.0], 2**0.5, 3)), 6)
        0.5
        >>> round(float(share_within([1.0] * 40, 40**0.5, 64)), 3)
        0.523
    """
    lengths, r = np.asarray(steps, dtype=np.float64), np.asarray(radius, dtype=np.float64)
    lengths = lengths[lengths > 0]
    least, most = (LEAST, MOST) if lengths.size > 2 else (2, np.inf)
    if not least <= dimension <= most:
        raise InputError(
            f"dimension is {dimension}, expected {least} to {most} for {lengths.size} steps. Use"
            " the bounds, which need none."
        )
    if lengths.size < 2:
        return np.asarray((lengths.sum() <= r) * 1.0)
    if lengths.size == 2:
        return _of_two(lengths, r, dimension)
    scale = np.sqrt((lengths**2).sum())
    within = np.array([_by_integral(lengths / scale, x, dimension) for x in (r / scale).flat])
    return np.asarray(within.reshape(r.shape))


def _of_two(lengths: FloatArray, r: FloatArray, dimension: int) -> FloatArray:
    """Return the probability for two steps: (1 + cos)/2 has a symmetric beta law."""
    first, second = lengths
    cosine = (r**2 - first**2 - second**2) / (2 * first * second)
    half = (dimension - 1) / 2
    return np.asarray(betainc(half, half, np.clip((1 + cosine) / 2, 0, 1)))


def _by_integral(lengths: FloatArray, r: float, dimension: int) -> float:
    """Return r^{ν+1}/(2^ν Γ(ν+1)) ∫ t^ν J_{ν+1}(rt) Π Λ(a_j t) dt, ν = d/2 − 1, Σ a_j² = 1."""
    if r <= 0:
        return 0.0
    if r >= lengths.sum():
        return 1.0
    nu = dimension / 2 - 1
    end = _end(lengths, r, nu)
    panels = int(np.ceil(end * (r + lengths.sum()) / np.pi)) + 8
    edges = np.linspace(0, end, panels + 1)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    half = np.diff(edges)[:, None] / 2
    t = (edges[:-1, None] + half * (1 + nodes)).ravel()
    log_scale = (nu + 1) * np.log(r) - nu * np.log(2) - gammaln(nu + 1) + nu * np.log(t)
    integrand = np.exp(log_scale) * jv(nu + 1, r * t) * _characteristic(lengths, t, nu)
    return float(np.clip((half * weights).ravel() @ integrand, 0, 1))


def _characteristic(lengths: FloatArray, t: FloatArray, nu: float) -> FloatArray:
    """Return Π Λ(a_j t), Λ(x) = Γ(ν+1) (2/x)^ν J_ν(x) = ₀F₁(; ν+1; −x²/4)."""
    distinct, counts = np.unique(lengths, return_counts=True)
    result = np.ones_like(t)
    for length, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        result *= hyp0f1(nu + 1, -((length * t) ** 2) / 4) ** count
    return result


def _end(lengths: FloatArray, r: float, nu: float) -> float:
    """Return t beyond which |integrand| < `NEGLIGIBLE`, by |J_ν(x)| ≤ √(2/πx) and |Λ| ≤ 1."""
    t = np.geomspace(1e-2, 1e6, 2000)
    x = np.maximum(np.outer(lengths, t), 1e-300)
    step = gammaln(nu + 1) + nu * np.log(2 / x) + 0.5 * np.log(2 / (np.pi * x))
    envelope = np.minimum(step, 0).sum(axis=0) + (nu + 1) * np.log(r * t)
    envelope -= nu * np.log(2) + gammaln(nu + 1)
    above = np.flatnonzero(envelope > np.log(NEGLIGIBLE))
    return float(t[min(above[-1] + 1, len(t) - 1)]) if above.size else 1.0
