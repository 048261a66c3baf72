"""Normal law of the distances given t = ‖s‖², each transformed to be nearly normal, and the nodes
of t to average over.

The cube root of a squared distance is nearly normal (Wilson and Hilferty 1931); the exact moments
of D_l under Model G are carried over, as `theory.editions.predicted.clark` states them. Imports
numpy; scipy.linalg and numba lazily.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from theory.arrays import FloatArray
from theory.head.ranked import Ranked, Summary

if TYPE_CHECKING:
    from theory.editions.predicted.clark import Law

NODES = 3
"""Nodes of t = ‖s‖²; five change a value by 0.001 at most in nine cases of ten."""

POWER = 1 / 3
"""Exponent that makes a squared distance nearly normal (Wilson and Hilferty 1931, for χ²)."""

NO_SUM = 1e-12
"""E‖s‖² relative to (Σa)² below which the selected contributions cancel: s = 0."""


def squared_sum_nodes(dimension: int, nodes: int = NODES) -> tuple[FloatArray, FloatArray]:
    """Return Gauss nodes and weights of t/σ_ss = χ²_d/d, from the recurrence of Laguerre's
    polynomials (Golub and Welsch 1969).
    """
    from scipy.linalg import eigh_tridiagonal

    shape, k = dimension / 2, np.arange(nodes)
    values, vectors = eigh_tridiagonal(2 * k + shape, np.sqrt(k[1:] * (k[1:] + shape - 1)))
    return np.asarray(values / shape, dtype=np.float64), np.asarray(
        vectors[0] ** 2, dtype=np.float64
    )


def conditional_law(
    head: Ranked, summary: Summary, at: int, ratio: float, dimension: int, power: float = POWER
) -> Law:
    """Return the normal law of the D_l, transformed, given t = ratio·E‖s‖², for the selection
    `summary.n[at]`.

    The transform is ((D/t)^power − 1), so that tokens of tiny weight, whose D is nearly t, keep
    their digits; where s = 0 surely t is replaced by the largest a². Its mean takes the
    second-order term, E h(D) = h(m) + ½h''(m)V.
    """
    from theory.editions.predicted.clark import Law

    a, sigma, sigma_ss = head.a, summary.sigma[at], float(summary.sigma_ss[at])
    inside = float(a[: summary.n[at]].sum())
    if sigma_ss > NO_SUM * inside**2:
        load = np.divide(sigma, a, out=np.zeros_like(a), where=a > 0)
        along, pull, t = (
            np.clip(load / np.sqrt(sigma_ss), -1, 1),
            sigma / sigma_ss,
            ratio * sigma_ss,
        )
        reference = t
    else:
        along, pull, t = np.zeros_like(a), np.zeros_like(a), 0.0
        reference = float((a**2).max()) or 1.0
    residual = a**2 * (1 - along) * (1 + along)
    excess = (residual + (pull - 2) * pull * t + (t - reference)) / reference
    away, mean = 1 - pull, np.maximum(1 + excess, 0.0)
    variance = (2 * residual + 4 * away**2 * t) * residual / (dimension * reference**2)
    with np.errstate(divide="ignore"):
        log = np.log1p(np.maximum(excess, -1.0))
    power_of_mean = np.exp(power * log)
    slope = np.divide(power * power_of_mean, mean, out=np.zeros_like(mean), where=mean > 0)
    bend = np.divide(variance, mean**2, out=np.zeros_like(mean), where=mean > 0)
    return Law(
        cosines=head.cosines,
        a=a,
        along=along,
        away=away,
        slope=slope / reference,
        mean=np.expm1(power * log) + power_of_mean * power * (power - 1) / 2 * bend,
        variance=slope**2 * variance,
        t=t,
        dimension=float(dimension),
    )
