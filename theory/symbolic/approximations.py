"""Statements of the edition `predicted`: moments given ‖s‖², Clark's maximum, the count of tokens
on the wrong side of it, and the means of Precision, Recall and F.

Not in the paper. The moments are exact under Model G; the rest is an approximation with errors of
either sign, not a bound. Numbers: `theory.editions.predicted`, `predict` (the law given t), `clark`
(the maximum), `counts` (the count). Source: Clark, Operations Research 9 (1961); Wilson and
Hilferty (1931); Mendell and Elston, Biometrics 30 (1974). W stands for the cube root of D over t; Y
for the largest W of some tokens. Imports sympy only.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import sympy as sp

from theory.symbolic.operations import Mean, SumOver, Written
from theory.symbolic.record import (
    MEANS,
    MODEL_G,
    nonnegative,
    positive,
    positives,
    real,
    reals,
    stated,
)
from theory.symbolic.symbols import D, J, N, a, d, j, k, l, rho, sigma_of, sigma_ss

GIVEN_T = f"{MODEL_G}; given ‖s‖² = t"
NORMAL = (
    "Y and the W normal; Y the largest W of some tokens of a group, W[k] that of others (one token"
    " each at first)"
)
COUNTED = "the W normal given Y = υ"
RIVALS = (
    f"{COUNTED} and given that the largest W of another group is below; once for each of the other"
    " groups"
)
OUTER = (
    "to second order; mean over t = σ_ss χ²_d/d (3 nodes) and over Y, the largest W of I_N (by"
    " groups of similar spread); small counts: a beta-binomial law"
)
INNER = (
    "to second order; mean over t = σ_ss χ²_d/d (3 nodes) and over Y, the largest −W of J (by"
    " groups); K counts in I_N"
)

_stated = partial(stated, edition="predicted")

t = positive("t", "t", "squared norm of the representative", "norm²")
share = reals("b", "b", "regression of a contribution on the representative, sigma[l]/sigma_ss")
residual = reals(
    "C_res", r"\tilde C", "covariance of two contributions given the representative", "norm²"
)
D_mean = positives("D_mean", r"\bar D", "mean squared distance given t", "norm²")
D_cov = reals("D_cov", r"V^D", "covariance of two squared distances given t", "norm⁴")
W = reals("W", "W", "cube root of a squared distance over t, minus 1")
W_mean = reals("W_mean", r"\bar W", "mean of W given t")
W_cov = reals("W_cov", "V", "covariance of two W given t")
Y_mean = real("Y_mean", r"\bar Y", "mean of the largest W of some tokens")
Y_std = positive("Y_std", r"\sigma_Y", "standard deviation of the largest W of some tokens")
Y_cov = reals("Y_cov", "c", "covariance of the largest W of some tokens with another")
theta = positive(
    "theta", r"\theta_k", "standard deviation of the largest W of some tokens minus W[k]"
)
z = real("z", "z_k", "mean of the largest W of some tokens minus W[k], over theta")
edge = real("y_edge", r"\upsilon", "value of the largest W")
h = reals("h", "h", "standardised distance of W[j] below the largest W")
rest = positives("rest", "s", "standard deviation of W[j] given the largest W")
below = real(
    "g", "g", "standardised distance of the largest W of another group below the largest W"
)
R_below = reals(
    "R_g", "R^g", "correlation of W[j] with the largest W of another group, given the largest W"
)
R_res = reals("R_res", "R", "correlation of W[j] and W[k] given the largest W")
K_mean = nonnegative(
    "K_mean", r"\bar K", "mean count of tokens on the wrong side, given t and the largest W"
)
K_var = nonnegative("K_var", "V_K", "variance of the count")
K_cov = reals("K_cov", "C^K", "covariance of the count indicators of two tokens")


class _OfNormal(Written):
    """A function of the standard normal; `python` is a format of its argument."""

    is_positive = True
    python = ""

    def _pythoncode(self, printer: Any) -> str:
        return self.python.format(printer._print(self.args[0]))


class Phi(_OfNormal):
    """Distribution function of the standard normal."""

    text, tex = "Phi({})", r"\Phi\left({}\right)"
    python = "(math.erfc(-({})/math.sqrt(2))/2)"

    def _eval_evalf(self, prec: int) -> sp.Expr:
        return (sp.erfc(-self.args[0] / sp.sqrt(2)) / 2)._eval_evalf(prec)


class NormalDensity(_OfNormal):
    """Density of the standard normal."""

    text, tex = "phi({})", r"\varphi\left({}\right)"
    python = "(math.exp(-({})**2/2)/math.sqrt(2*math.pi))"

    def _eval_evalf(self, prec: int) -> sp.Expr:
        return (sp.exp(-(self.args[0] ** 2) / 2) / sp.sqrt(2 * sp.pi))._eval_evalf(prec)


# Moments given t. y_l = b_l s + e_l with e_l independent of s, and D_l = ‖(1−b_l)s − e_l‖²
THEN = "given the representative's length"

SHARE = _stated("share", "regression of a contribution on the representative")(
    share[l], "=", sigma_of[l] / sigma_ss, MODEL_G
)
RESIDUAL = _stated(
    "residual_covariance", "covariance of two contributions given the representative"
)(
    residual[k, l],
    "=",
    a[k] * a[l] * rho[k, l] - sigma_of[k] * sigma_of[l] / sigma_ss,
    MODEL_G,
    "norm²",
)
MEAN_GIVEN_T = _stated("distance_mean", f"mean squared distance {THEN}")(
    D_mean[l], "=", residual[l, l] + (1 - share[l]) ** 2 * t, GIVEN_T, "norm²"
)
COVARIANCE_GIVEN_T = _stated("distance_covariance", f"covariance of two squared distances {THEN}")(
    D_cov[k, l],
    "=",
    (2 * residual[k, l] ** 2 + 4 * residual[k, l] * (1 - share[k]) * (1 - share[l]) * t) / d,
    GIVEN_T,
    "norm⁴",
)

_THIRD = sp.Rational(1, 3)

CUBE_ROOT = _stated("cube_root", "squared distance made nearly normal")(
    W[l], "=", (D[l] / t) ** _THIRD - 1, GIVEN_T
)
CUBE_ROOT_MEAN = _stated("cube_root_mean", "mean of the cube root, to second order")(
    W_mean[l],
    "~",
    (D_mean[l] / t) ** _THIRD * (1 - D_cov[l, l] / (9 * D_mean[l] ** 2)) - 1,
    GIVEN_T,
)
CUBE_ROOT_COVARIANCE = _stated(
    "cube_root_covariance", "covariance of two cube roots, to first order"
)(
    W_cov[k, l],
    "~",
    (D_mean[k] / t) ** _THIRD
    * (D_mean[l] / t) ** _THIRD
    * D_cov[k, l]
    / (9 * D_mean[k] * D_mean[l]),
    GIVEN_T,
)

# Clark's moments of max(Y, W_k), exact for normal Y, W_k and W_l with P{Y > W_k} = Φ(z); the
# recursion approximates the maximum as normal
CLARK_SPREAD = _stated("clark_spread", "Clark: standard deviation of the difference of the two")(
    theta, "=", sp.sqrt(Y_std**2 + W_cov[k, k] - 2 * Y_cov[k]), NORMAL
)
CLARK_RATIO = _stated("clark_ratio", "Clark: standardised difference of the two")(
    z, "=", (Y_mean - W_mean[k]) / theta, NORMAL
)
CLARK_MEAN = _stated("clark_mean", "Clark: mean of the larger of two")(
    ("E max(Y, W[k])", r"\mathbb{E}\max(Y, W_k)"),
    "=",
    Y_mean * Phi(z) + W_mean[k] * Phi(-z) + theta * NormalDensity(z),
    NORMAL,
)
CLARK_SQUARE = _stated("clark_square", "Clark: mean square of the larger of two")(
    ("E max(Y, W[k])**2", r"\mathbb{E}\max(Y, W_k)^2"),
    "=",
    (Y_std**2 + Y_mean**2) * Phi(z)
    + (W_cov[k, k] + W_mean[k] ** 2) * Phi(-z)
    + (Y_mean + W_mean[k]) * theta * NormalDensity(z),
    NORMAL,
)
CLARK_COVARIANCE = _stated(
    "clark_covariance", "Clark: covariance of the larger of two with a third"
)(
    ("cov(max(Y, W[k]), W[l])", r"\mathrm{Cov}(\max(Y, W_k), W_\ell)"),
    "=",
    Y_cov[l] * Phi(z) + W_cov[k, l] * Phi(-z),
    NORMAL,
)

# The count K = #{j : W_j ≤ υ} given Y = υ: W_j is regressed on Y, and P{W_j ≤ Y | Y = υ} = Φ(h_j)
REST = _stated("count_rest", "standard deviation given the largest")(
    rest[j], "=", sp.sqrt(W_cov[j, j] - Y_cov[j] ** 2 / Y_std**2), COUNTED
)
STANDARDISED = _stated("count_threshold", "standardised distance below the largest")(
    h[j], "=", (edge - W_mean[j] - Y_cov[j] / Y_std**2 * (edge - Y_mean)) / rest[j], COUNTED
)

_SHIFT = NormalDensity(below) / Phi(below)

SHIFTED = _stated(
    "count_threshold_of_groups",
    "standardised distance, given that the largest of another group is below",
)(
    h[j],
    "~",
    (h[j] + R_below[j] * _SHIFT) / sp.sqrt(1 - R_below[j] ** 2 * _SHIFT * (_SHIFT + below)),
    RIVALS,
)
"""Exact first two moments, normal approximation (Mendell and Elston)."""
RESIDUAL_CORRELATION = _stated("count_correlation", "correlation given the largest")(
    R_res[j, k], "=", (W_cov[j, k] - Y_cov[j] * Y_cov[k] / Y_std**2) / (rest[j] * rest[k]), COUNTED
)
COUNT_MEAN = _stated("count_mean", "mean count of unselected tokens within the largest distance")(
    K_mean, "=", SumOver(Phi(h[j]), j, J), COUNTED
)


def _series(correlation: sp.Expr) -> sp.Expr:
    """Return the tetrachoric series up to the third power."""
    second = h[j] * h[k] * correlation**2 / 2
    third = (h[j] ** 2 - 1) * (h[k] ** 2 - 1) * correlation**3 / 6
    return NormalDensity(h[j]) * NormalDensity(h[k]) * (correlation + second + third)


_ABOVE = sp.Min(Phi(h[j]), Phi(h[k])) - Phi(h[j]) * Phi(h[k])

PAIR_COVARIANCE = _stated("count_covariance", "tetrachoric series with the remainder at R = 1")(
    K_cov[j, k],
    "~",
    sp.Piecewise(
        (_series(R_res[j, k]) + R_res[j, k] ** 4 * (_ABOVE - _series(sp.S.One)), R_res[j, k] > 0),
        (_series(R_res[j, k]), True),
    ),
    COUNTED,
)
"""Cov(1{W_j ≤ υ}, 1{W_k ≤ υ} | Y = υ): three terms, plus for R > 0 their remainder at R = 1, where
the covariance is min(Φ_j, Φ_k) − Φ_jΦ_k, times R⁴.
"""
COUNT_VARIANCE = _stated("count_variance", "variance of that count")(
    K_var, "~", SumOver(Phi(h[j]) * Phi(-h[j]), j, J) + SumOver(K_cov[j, k], j, J, k, J), COUNTED
)

PRECISION, RECALL, F_OUTER, F_INNER = (
    _stated(f"predicted_{quantity}", f"approximation of {left}")(
        (left, left_latex), "~", Mean(value), conditions
    )
    for (quantity, (left, left_latex)), value, conditions in zip(
        MEANS.items(),
        (
            N / (N + K_mean) + K_var * N / (N + K_mean) ** 3,
            1 - K_mean / N,
            2 * N / (2 * N + K_mean) + K_var * 2 * N / (2 * N + K_mean) ** 3,
            2 * (N - K_mean) / (2 * N - K_mean) - 2 * N * K_var / (2 * N - K_mean) ** 3,
        ),
        (OUTER, INNER, OUTER, INNER),
        strict=True,
    )
)
"""From E K and Var K by the second-order expansion of N/(N+K), of 1 − K/N, where K counts the
selected tokens farther than the nearest one outside, and of the F of each.
"""
