"""What edition `predicted` evaluates: moments given ‖s‖², Clark's maximum, and the count of tokens
on the wrong side of it.

Not in print. The moments are exact under Model G, the rest is an approximation on either side.
Numbers: `theory.editions.predicted`, `distance_law` (the law given t), `clark` (the maximum),
`counts` (the count). Source: Clark, Operations Research 9 (1961); Wilson and Hilferty (1931);
Mendell and Elston, Biometrics 30 (1974). W stands for the cube root of D over t; Y for the largest
W of some tokens. Imports sympy only.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory.symbolic.meanings import family, symbol
from theory.symbolic.operations import Mean, SumOver
from theory.symbolic.symbols import D, J, N, a, d, j, k, l, rho, sigma_of, sigma_ss

t = symbol("t", "t", "squared norm of the representative", "norm²", positive=True)
share = family(
    "b", "b", "regression of a contribution on the representative, sigma[l]/sigma_ss", real=True
)
residual = family(
    "C_res",
    r"\tilde C",
    "covariance of two contributions given the representative",
    "norm²",
    real=True,
)
D_mean = family("D_mean", r"\bar D", "mean squared distance given t", "norm²", positive=True)
D_cov = family("D_cov", r"V^D", "covariance of two squared distances given t", "norm⁴", real=True)
W = family("W", "W", "cube root of a squared distance over t, less 1", real=True)
W_mean = family("W_mean", r"\bar W", "mean of W given t", real=True)
W_cov = family("W_cov", "V", "covariance of two W given t", real=True)
Y_mean = symbol("Y_mean", r"\bar Y", "mean of the largest W of some tokens", real=True)
Y_std = symbol(
    "Y_std", r"\sigma_Y", "standard deviation of the largest W of some tokens", positive=True
)
Y_cov = family("Y_cov", "c", "covariance of the largest W of some tokens with another", real=True)
theta = symbol(
    "theta",
    r"\theta_k",
    "standard deviation of the largest W of some tokens less W[k]",
    positive=True,
)
z = symbol("z", "z_k", "mean of the largest W of some tokens less W[k], over theta", real=True)
edge = symbol("y_edge", r"\upsilon", "value of the largest W", real=True)
h = family("h", "h", "standardised distance of W[j] below the largest W", real=True)
rest = family("rest", "s", "standard deviation of W[j] given the largest W", positive=True)
below = symbol(
    "g", "g", "standardised distance of another group's largest W below the largest W", real=True
)
R_below = family(
    "R_g",
    "R^g",
    "correlation of W[j] with another group's largest W given the largest W",
    real=True,
)
R_res = family("R_res", "R", "correlation of W[j] and W[k] given the largest W", real=True)
K_mean = symbol(
    "K_mean",
    r"\bar K",
    "mean count of tokens on the wrong side, given t and the largest W",
    nonnegative=True,
)
K_var = symbol("K_var", "V_K", "variance of that count", nonnegative=True)
K_cov = family("K_cov", "C^K", "covariance of two tokens' being counted", real=True)

SHARE = sigma_of[l] / sigma_ss
"""b_l: y_l = b_l s + e_l with e_l independent of s."""

RESIDUAL = a[k] * a[l] * rho[k, l] - sigma_of[k] * sigma_of[l] / sigma_ss
"""C̃_kl, the covariance of e_k and e_l."""

MEAN_GIVEN_T = residual[l, l] + (1 - share[l]) ** 2 * t
"""E[D_l | ‖s‖² = t], exact: D_l = ‖(1−b_l)s − e_l‖²."""

COVARIANCE_GIVEN_T = (
    2 * residual[k, l] ** 2 + 4 * residual[k, l] * (1 - share[k]) * (1 - share[l]) * t
) / d
"""Cov(D_k, D_l | ‖s‖² = t), exact."""

_THIRD = sp.Rational(1, 3)

CUBE_ROOT = (D[l] / t) ** _THIRD - 1
"""W_l, nearly normal."""

CUBE_ROOT_MEAN = (D_mean[l] / t) ** _THIRD * (1 - D_cov[l, l] / (9 * D_mean[l] ** 2)) - 1
"""E W_l to second order in D_l's spread."""

CUBE_ROOT_COVARIANCE = (
    (D_mean[k] / t) ** _THIRD
    * (D_mean[l] / t) ** _THIRD
    * D_cov[k, l]
    / (9 * D_mean[k] * D_mean[l])
)
"""Cov(W_k, W_l) to first order."""


class _OfNormal(sp.Function):
    """A function of the standard normal: `tex` and `python` name it in print, the latter is
    filled with its printed argument.
    """

    is_positive = True
    tex = python = ""

    def _latex(self, printer: Any, exp: Any = None) -> str:
        return (
            rf"{self.tex}{f'^{{{exp}}}' if exp else ''}\left({printer._print(self.args[0])}\right)"
        )

    def _pythoncode(self, printer: Any) -> str:
        return self.python.format(printer._print(self.args[0]))


class Phi(_OfNormal):
    """Distribution function of the standard normal."""

    tex, python = r"\Phi", "(math.erfc(-({})/math.sqrt(2))/2)"

    def _eval_evalf(self, prec: int) -> sp.Expr:
        return (sp.erfc(-self.args[0] / sp.sqrt(2)) / 2)._eval_evalf(prec)


class NormalDensity(_OfNormal):
    """Density of the standard normal."""

    tex, python = r"\varphi", "(math.exp(-({})**2/2)/math.sqrt(2*math.pi))"

    def _eval_evalf(self, prec: int) -> sp.Expr:
        return (sp.exp(-(self.args[0] ** 2) / 2) / sp.sqrt(2 * sp.pi))._eval_evalf(prec)

    def _sympystr(self, printer: Any) -> str:
        return f"phi({printer._print(self.args[0])})"


CLARK_SPREAD = sp.sqrt(Y_std**2 + W_cov[k, k] - 2 * Y_cov[k])
"""θ of Y − W_k."""

CLARK_RATIO = (Y_mean - W_mean[k]) / theta
"""z: P{Y > W_k} = Φ(z)."""

CLARK_MEAN = Y_mean * Phi(z) + W_mean[k] * Phi(-z) + theta * NormalDensity(z)
"""E max(Y, W_k), exact for normal Y and W_k."""

CLARK_SQUARE = (
    (Y_std**2 + Y_mean**2) * Phi(z)
    + (W_cov[k, k] + W_mean[k] ** 2) * Phi(-z)
    + (Y_mean + W_mean[k]) * theta * NormalDensity(z)
)
"""E max(Y, W_k)², exact for normal Y and W_k."""

CLARK_COVARIANCE = Y_cov[l] * Phi(z) + W_cov[k, l] * Phi(-z)
"""Cov(max(Y, W_k), W_l), exact for normal Y, W_k and W_l; the recursion takes the maximum itself
as normal, which it is not.
"""

REST = sp.sqrt(W_cov[j, j] - Y_cov[j] ** 2 / Y_std**2)
"""s_j, from the regression of W_j on Y."""

STANDARDISED = (edge - W_mean[j] - Y_cov[j] / Y_std**2 * (edge - Y_mean)) / rest[j]
"""h_j: P{W_j ≤ Y | Y = υ} = Φ(h_j)."""

_SHIFT = NormalDensity(below) / Phi(below)

SHIFTED = (h[j] + R_below[j] * _SHIFT) / sp.sqrt(1 - R_below[j] ** 2 * _SHIFT * (_SHIFT + below))
"""h_j once another group's largest W is known to lie below Y too: exact first two moments, the
law taken as normal (Mendell and Elston).
"""

RESIDUAL_CORRELATION = (W_cov[j, k] - Y_cov[j] * Y_cov[k] / Y_std**2) / (rest[j] * rest[k])
"""R_jk given Y."""

COUNT_MEAN = SumOver(Phi(h[j]), j, J)
"""Mean of K = #{j : W_j ≤ υ}."""


def _series(correlation: sp.Expr) -> sp.Expr:
    """Return the tetrachoric series up to the third power."""
    second = h[j] * h[k] * correlation**2 / 2
    third = (h[j] ** 2 - 1) * (h[k] ** 2 - 1) * correlation**3 / 6
    return NormalDensity(h[j]) * NormalDensity(h[k]) * (correlation + second + third)


_ABOVE = sp.Min(Phi(h[j]), Phi(h[k])) - Phi(h[j]) * Phi(h[k])

PAIR_COVARIANCE = sp.Piecewise(
    (_series(R_res[j, k]) + R_res[j, k] ** 4 * (_ABOVE - _series(sp.S.One)), R_res[j, k] > 0),
    (_series(R_res[j, k]), True),
)
"""Cov(1{W_j ≤ υ}, 1{W_k ≤ υ} | Y = υ): three terms, and for R > 0 what they miss at R = 1,
where it is min(Φ_j, Φ_k) − Φ_jΦ_k, times R⁴.
"""

COUNT_VARIANCE = SumOver(Phi(h[j]) * Phi(-h[j]), j, J) + SumOver(K_cov[j, k], j, J, k, J)
"""Variance of K."""

PRECISION = Mean(N / (N + K_mean) + K_var * N / (N + K_mean) ** 3)
"""E P(r_max) from E K and Var K by the second-order expansion of N/(N+K)."""

F_OUTER = Mean(2 * N / (2 * N + K_mean) + K_var * 2 * N / (2 * N + K_mean) ** 3)
"""E F(r_max) likewise, from 2N/(2N+K)."""

RECALL = Mean(1 - K_mean / N)
"""E R(r_min); K counts the selected tokens farther than the nearest one outside."""

F_INNER = Mean(2 * (N - K_mean) / (2 * N - K_mean) - 2 * N * K_var / (2 * N - K_mean) ** 3)
"""E F(r_min) likewise, from 2(N−K)/(2N−K)."""
