"""Symbols and expressions of the normaliser's statements: Lemmas 1-2 and Theorems 1-2.

Source: arXiv 2508.17821. Its x_i are the value states v_i here, y_i = α_i v_i, a_i = ‖y_i‖; other
symbols are those of `theory.symbolic.symbols`. Imports sympy only.
"""

from __future__ import annotations

import sympy as sp

from theory.symbolic import symbols as s
from theory.symbolic.meanings import family, symbol
from theory.symbolic.operations import Inner, MaxOver, Norm, SumOver

length = symbol("length", "L", "number of tokens that the query sees", integer=True, positive=True)
tokens = symbol("tokens", r"\{1, \dots, L\}", "the tokens that the query sees")
temperature = symbol("temperature", "T", "temperature, which divides the logits", positive=True)
logit_max = symbol("logit_max", r"\Delta", "bound of every |logit|, ‖q‖‖k‖", positive=True)
response = family("response", "F", "response of the normaliser to a token's logit", positive=True)
response_min = symbol("response_min", r"F_{\min}", "least response within the bound", positive=True)
response_max = symbol("response_max", r"F_{\max}", "largest response within it", positive=True)
share_in = symbol(
    "share_in", r"\bar{\alpha}_N", "summed attention weight of the selected", positive=True
)
d_1 = symbol("d_1", "d_1", "largest distance of a value outside from one inside", "norm")
norm_in = symbol("norm_in", r"M_I", "largest norm of a selected value", "norm", positive=True)
outside = symbol("outside", "o", "sum of the contributions outside, a vector", "norm")
whole = symbol("whole", "y", "sum of all contributions, a vector", "norm")
own = symbol("own", "A", "sum of the squared effective weights of all tokens", "norm²")
squares = symbol("squares", "Q", "mean over sets of the sum of squared distances outside", "norm²")
rms = family(
    "rms", r"\xi", "root mean square distance of a selected token from s", "norm", nonnegative=True
)
mean_of = family("mean_of", "m", "mean distance of a selected token from s", "norm")
variance = family("variance", "V", "variance of the squared distance of a selected token", "norm⁴")

# Lemma 1
WEIGHT = response[s.i] / SumOver(response[s.j], s.j, tokens)
WEIGHT_LOWER = response_min / response_max / length
WEIGHT_UPPER = response_max / response_min / length
SPREAD = 2 * logit_max / temperature
SOFTMAX_LOWER, SOFTMAX_UPPER = sp.exp(-SPREAD) / length, sp.exp(SPREAD) / length
SHARP_WEIGHT_LOWER = 1 / (1 + (length - 1) * sp.exp(SPREAD))
SHARP_WEIGHT_UPPER = 1 / (1 + (length - 1) * sp.exp(-SPREAD))

# Theorem 1: sets I_N of N tokens, J the other L − N
DISTANCE = SumOver(sp.sqrt(s.D[s.j]), s.j, s.J)
SHARE_IN = SumOver(s.alpha[s.i], s.i, s.I_N)
FARTHEST = MaxOver(Norm(s.v[s.i] - s.v[s.j]), s.i, s.I_N, s.j, s.J)
NORM_IN = MaxOver(Norm(s.v[s.i]), s.i, s.I_N)
DISTANCE_UPPER = (1 - share_in) * d_1 + norm_in * (share_in * (length - s.N) - (1 - share_in))
MENDED_DISTANCE_UPPER = (1 - share_in) * d_1 + norm_in * SumOver(
    sp.Abs(share_in - s.alpha[s.j]), s.j, s.J
)
SHARP_DISTANCE_UPPER = sp.sqrt(
    (length - s.N)
    * ((length - s.N) * Norm(s.s) ** 2 - 2 * Inner(s.s, outside) + SumOver(s.a[s.j] ** 2, s.j, s.J))
)
SHARP_DISTANCE_LOWER = Norm((length - s.N) * s.s - outside)
RANDOM_SQUARES = (
    (length - s.N)
    / length
    * ((s.N + 1) * own + s.N * (s.N - 3) / (length - 1) * (Norm(whole) ** 2 - own))
)
RANDOM_UPPER = sp.sqrt((length - s.N) * squares)
RANDOM_LOWER = (length - s.N) * (s.N - 1) / length * Norm(whole)

# Theorem 2: directions independent and uniform, lengths kept
RMS = sp.sqrt(SumOver(s.a[s.k] ** 2, s.k, s.I_N) - s.a[s.i] ** 2)
SHARE_LOWER = 1 - SumOver(rms[s.i], s.i, s.I_N) / (s.radius * s.N)
SHARE_UPPER = (
    SumOver(sp.exp(-(sp.Max(0, rms[s.i] - s.radius) ** 2) / (2 * norm_in**2)), s.i, s.I_N) / s.N
)
MENDED = sp.exp(-(s.d - 1) * sp.Max(0, mean_of[s.i] - s.radius) ** 2 / (2 * rms[s.i] ** 2))
MENDED_SHARE_UPPER = SumOver(MENDED, s.i, s.I_N) / s.N
MEAN_LOWER = rms[s.i] * sp.sqrt(1 - 1 / (s.d - 1))
VARIANCE = 2 / s.d * (rms[s.i] ** 4 - SumOver(s.a[s.k] ** 4, s.k, s.I_N) + s.a[s.i] ** 4)


def _cantelli(gap: sp.Expr) -> sp.Expr:
    return variance[s.i] / (variance[s.i] + sp.Max(0, gap) ** 2)


GAP = s.radius**2 - rms[s.i] ** 2
SHARP_SHARE_LOWER = SumOver(1 - _cantelli(GAP), s.i, s.I_N) / s.N
SHARP_SHARE_UPPER = SumOver(_cantelli(-GAP), s.i, s.I_N) / s.N

# Lemma 2: Jacobians c (diag g − g gᵀ/Σg)
NORM_PRINTED = sp.Min(1 / (4 * temperature), sp.sqrt(2))
SUPPORT = symbol("support", "k", "tokens with some weight", integer=True, positive=True)
root = family("root", "g", "square root of a weight, √α_i", nonnegative=True)


def own_entry(gain: sp.Expr, total: sp.Expr, scale: sp.Expr) -> sp.Expr:
    """Return ∂α_i/∂l_i = c g_i (1 − g_i/Σg)."""
    return scale * gain * (1 - gain / total)


def other_entry(gain: sp.Expr, other: sp.Expr, total: sp.Expr, scale: sp.Expr) -> sp.Expr:
    """Return ∂α_i/∂l_j = −c g_i g_j/Σg, i ≠ j."""
    return -scale * gain * other / total


COLD = 1 / temperature
ROOTS = SumOver(root[s.k], s.k, tokens)
JACOBIANS: dict[str, tuple[sp.Expr, sp.Expr]] = {
    "softmax": (
        own_entry(s.alpha[s.i], sp.Integer(1), COLD),
        other_entry(s.alpha[s.i], s.alpha[s.j], sp.Integer(1), COLD),
    ),
    "scalable": (
        own_entry(s.alpha[s.i], sp.Integer(1), sp.log(length) * COLD),
        other_entry(s.alpha[s.i], s.alpha[s.j], sp.Integer(1), sp.log(length) * COLD),
    ),
    "sparsemax": (
        own_entry(sp.Integer(1), SUPPORT, COLD),
        other_entry(sp.Integer(1), sp.Integer(1), SUPPORT, COLD),
    ),
    "entmax15": (
        own_entry(root[s.i], ROOTS, COLD),
        other_entry(root[s.i], root[s.j], ROOTS, COLD),
    ),
}
"""Entries on and off the diagonal, by normaliser; of tokens with some weight."""

ENTRY_LIMITS: dict[str, sp.Expr] = {
    "softmax": COLD / 4,
    "scalable": sp.log(length) * COLD / 4,
    "sparsemax": (1 - 1 / length) * COLD,
    "entmax15": COLD,
}
NORM_LIMITS: dict[str, sp.Expr] = {
    "softmax": COLD / 2,
    "scalable": sp.log(length) * COLD / 2,
    "sparsemax": COLD,
    "entmax15": COLD,
}
"""What no entry, and no spectral norm, exceeds, whatever the logits."""

shift = symbol("step", r"\varepsilon", "length of a change of the logits", positive=True)
CHANGE_UPPER = sp.Min(shift / (2 * temperature), sp.sqrt(2))
SHARP_NORM = (
    sp.Min(
        MaxOver(s.alpha[s.i], s.i, tokens),
        2 * MaxOver(s.alpha[s.i] * (1 - s.alpha[s.i]), s.i, tokens),
    )
    / temperature
)
