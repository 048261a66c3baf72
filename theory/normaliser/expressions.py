"""Statements on the normaliser: Lemmas 1-2 and Theorems 1-2, printed, repaired and sharp.

Source: arXiv 2508.17821. Its x_i are the value states v_i here, y_i = α_i v_i, a_i = ‖y_i‖; other
symbols are those of `theory.symbolic.symbols`; parts are called "Normaliser Lemma 1" and so on.
Jacobians also of sparsemax (Martins and Astudillo 2016), 1.5-entmax (Peters, Niculae and Martins
2019) and scalable softmax (Nakanishi 2025). Imports sympy only.
"""

from __future__ import annotations

from functools import partial

import sympy as sp

from theory.symbolic import symbols as s
from theory.symbolic.operations import Inner, MaxOver, Norm, SumOver
from theory.symbolic.record import (
    Entry,
    family,
    nonnegatives,
    positive,
    positive_integer,
    positives,
    stated,
    symbol,
)

length = positive_integer("length", "L", "number of tokens visible to the query")
tokens = symbol("tokens", r"\{1, \dots, L\}", "tokens visible to the query")
temperature = positive("temperature", "T", "temperature (logits are divided by it)")
logit_max = positive("logit_max", r"\Delta", "bound of every |logit|, ‖q‖‖k‖")
response = positives("response", "F", "response of the normaliser to the logit of a token")
response_min = positive("response_min", r"F_{\min}", "smallest response within the logit bound")
response_max = positive("response_max", r"F_{\max}", "largest response within the logit bound")
share_in = positive("share_in", r"\bar{\alpha}_N", "summed attention weight of the selected tokens")
d_1 = symbol("d_1", "d_1", "largest distance between an unselected and a selected value", "norm")
norm_in = positive("norm_in", r"M_I", "largest norm of a selected value", "norm")
outside = symbol("outside", "o", "sum of the unselected contributions, a vector", "norm")
whole = symbol("whole", "y", "sum of all contributions, a vector", "norm")
own = symbol("own", "A", "sum of squared effective weights over all tokens", "norm²")
squares = symbol("squares", "Q", "mean over sets of the sum of squared distances outside", "norm²")
rms = nonnegatives("rms", r"\xi", "root mean square distance of a selected token from s", "norm")
mean_of = family("mean_of", "m", "mean distance of a selected token from s", "norm")
variance = family("variance", "V", "variance of the squared distance of a selected token", "norm⁴")

SUPPORT = positive_integer("support", "k", "number of tokens with positive weight")
root = nonnegatives("root", "g", "square root of a weight, √α_i")
shift = positive("step", r"\varepsilon", "length of a change of the logits")

COMPANION = "arXiv 2508.17821"

INDEPENDENT = "F independent of L, every |logit| ≤ a"
BOUNDED = "every |logit| ≤ Δ, which does not grow with L"
DIRECTIONS = "independent uniform directions, lengths kept; d ≥ 2"
ANY_SET = "I_N any set of positive weight"
SETS = "I_N uniform over the sets of N tokens"
WEIGHT = ("alpha[i]", r"\alpha_i")
SHARE = ("E N_s/N", r"\mathbb{E}N_s/N")
LONG = ("d_tilde", r"\tilde{d}")
LONG_MEAN = ("E d_tilde", r"\mathbb{E}\tilde{d}")
NORM = ("norm(J)", r"\left\|J\right\|_2")

_stated = partial(stated, paper=COMPANION)
_lemma_1 = partial(_stated, part="Normaliser Lemma 1")
_theorem_1 = partial(_stated, part="Normaliser Theorem 1")
_theorem_2 = partial(_stated, part="Normaliser Theorem 2")
_lemma_2 = partial(_stated, part="Normaliser Lemma 2")
_sharp = partial(_stated, edition="sharp")
_repaired = partial(_stated, edition="repaired")

# Lemma 1 and its corollary, and the attained limits for logits between −Δ and Δ
_SPREAD = 2 * logit_max / temperature

NORMALISED_WEIGHT = _lemma_1("normalised_weight", "weight of a token")(
    WEIGHT, "=", response[s.i] / SumOver(response[s.j], s.j, tokens)
)
WEIGHT_LOWER = _lemma_1("weight_lower", "lower bound of a weight", errata=(101,))(
    WEIGHT, ">=", response_min / response_max / length, INDEPENDENT
)
WEIGHT_UPPER = _lemma_1("weight_upper", "upper bound of a weight", errata=(101,))(
    WEIGHT, "<=", response_max / response_min / length, INDEPENDENT
)
SOFTMAX_LOWER = _lemma_1("softmax_weight_lower", "lower bound of a softmax weight", errata=(101,))(
    WEIGHT, ">=", sp.exp(-_SPREAD) / length, BOUNDED
)
SOFTMAX_UPPER = _lemma_1("softmax_weight_upper", "upper bound of a softmax weight", errata=(101,))(
    WEIGHT, "<=", sp.exp(_SPREAD) / length, BOUNDED
)
SHARP_WEIGHT_LOWER = _sharp("sharp_weight_lower", "lower bound of a softmax weight, attained")(
    WEIGHT, ">=", 1 / (1 + (length - 1) * sp.exp(_SPREAD)), BOUNDED
)
SHARP_WEIGHT_UPPER = _sharp("sharp_weight_upper", "upper bound of a softmax weight, attained")(
    WEIGHT, "<=", 1 / (1 + (length - 1) * sp.exp(-_SPREAD)), BOUNDED
)

# Theorem 1: sets I_N of N tokens, J the other L − N; then any set, and the mean over sets
DISTANCE = _theorem_1(
    "distance_sum", "summed distance of the unselected tokens from s", errata=(102,)
)(LONG, "=", SumOver(sp.sqrt(s.D[s.j]), s.j, s.J), units="norm")
SHARE_IN = _theorem_1("share_in", "summed weight of the selected tokens")(
    share_in, "=", SumOver(s.alpha[s.i], s.i, s.I_N)
)
FARTHEST = _theorem_1("farthest_pair", "largest distance between a selected token and another")(
    d_1, "=", MaxOver(Norm(s.v[s.i] - s.v[s.j]), s.i, s.I_N, s.j, s.J), units="norm"
)
NORM_IN = _theorem_1("norm_in", "largest norm of a selected value")(
    norm_in, "=", MaxOver(Norm(s.v[s.i]), s.i, s.I_N), units="norm"
)
DISTANCE_UPPER = _theorem_1(
    "distance_sum_upper", "upper bound of the summed distance", errata=(102, 103)
)(
    LONG,
    "<=",
    (1 - share_in) * d_1 + norm_in * (share_in * (length - s.N) - (1 - share_in)),
    "α_i ≤ share_in for every i outside, as for the N largest weights",
    "norm",
)
REPAIRED_DISTANCE_UPPER = _repaired(
    "repaired_distance_sum_upper", "upper bound of the summed distance of any set"
)(
    LONG,
    "<=",
    (1 - share_in) * d_1 + norm_in * SumOver(sp.Abs(share_in - s.alpha[s.j]), s.j, s.J),
    ANY_SET,
    "norm",
)
_SQUARES = (length - s.N) * Norm(s.s) ** 2 - 2 * Inner(s.s, outside)

SHARP_DISTANCE_UPPER = _sharp(
    "sharp_distance_sum_upper", "upper bound of the summed distance from s and the unselected sum"
)(
    LONG,
    "<=",
    sp.sqrt((length - s.N) * (_SQUARES + SumOver(s.a[s.j] ** 2, s.j, s.J))),
    ANY_SET,
    "norm",
)
SHARP_DISTANCE_LOWER = _sharp(
    "sharp_distance_sum_lower", "lower bound of the summed distance from s and the unselected sum"
)(LONG, ">=", Norm((length - s.N) * s.s - outside), ANY_SET, "norm")
RANDOM_SQUARES = _sharp("random_set_squares", "mean of the summed squared distances")(
    ("E sum D[j]", r"\mathbb{E}\sum_{j \notin I_N} D_j"),
    "=",
    (length - s.N)
    / length
    * ((s.N + 1) * own + s.N * (s.N - 3) / (length - 1) * (Norm(whole) ** 2 - own)),
    SETS,
    "norm²",
)
RANDOM_UPPER = _sharp("random_set_upper", "upper bound of the mean summed distance")(
    LONG_MEAN,
    "<=",
    sp.sqrt((length - s.N) * squares),
    f"{SETS}; squares is random_set_squares",
    "norm",
)
RANDOM_LOWER = _sharp("random_set_lower", "lower bound of the mean summed distance")(
    LONG_MEAN, ">=", (length - s.N) * (s.N - 1) / length * Norm(whole), SETS, "norm"
)

# Theorem 2: the share of the selected tokens within r of their sum; directions independent and
# uniform, lengths kept
RMS = _theorem_2("rms_distance", "root mean square distance from s")(
    rms[s.i], "=", sp.sqrt(SumOver(s.a[s.k] ** 2, s.k, s.I_N) - s.a[s.i] ** 2), DIRECTIONS, "norm"
)
SHARE_LOWER = _theorem_2("share_within_lower", "lower bound of the expected share within r")(
    SHARE, ">=", 1 - SumOver(rms[s.i], s.i, s.I_N) / (s.radius * s.N), DIRECTIONS
)
SHARE_UPPER = _theorem_2(
    "share_within_upper", "upper bound of the expected share within r", errata=(104, 105)
)(
    SHARE,
    "<=",
    SumOver(sp.exp(-(sp.Max(0, rms[s.i] - s.radius) ** 2) / (2 * norm_in**2)), s.i, s.I_N) / s.N,
    f"{DIRECTIONS}; M_I as printed is undefined",
)
MEAN_LOWER = _sharp("mean_distance_lower", "lower bound of the mean distance")(
    mean_of[s.i], ">=", rms[s.i] * sp.sqrt(1 - 1 / (s.d - 1)), DIRECTIONS, "norm"
)
_REPAIRED_TERM = sp.exp(-(s.d - 1) * sp.Max(0, mean_of[s.i] - s.radius) ** 2 / (2 * rms[s.i] ** 2))

REPAIRED_SHARE_UPPER = _repaired(
    "repaired_share_within_upper", "upper bound of the expected share within r"
)(
    SHARE,
    "<=",
    SumOver(_REPAIRED_TERM, s.i, s.I_N) / s.N,
    f"{DIRECTIONS}; mean_of may be replaced by a lower bound",
)
VARIANCE = _sharp("square_variance", "variance of a squared distance")(
    variance[s.i],
    "=",
    2 / s.d * (rms[s.i] ** 4 - SumOver(s.a[s.k] ** 4, s.k, s.I_N) + s.a[s.i] ** 4),
    DIRECTIONS,
    "norm⁴",
)


def _cantelli(gap: sp.Expr) -> sp.Expr:
    return variance[s.i] / (variance[s.i] + sp.Max(0, gap) ** 2)


_GAP = s.radius**2 - rms[s.i] ** 2

SHARP_SHARE_LOWER, SHARP_SHARE_UPPER = (
    _sharp(f"sharp_share_within_{side}", f"{side} bound of the expected share within r")(
        SHARE, sign, SumOver(term, s.i, s.I_N) / s.N, f"{DIRECTIONS}; a term 0/0 is 1"
    )
    for side, sign, term in (
        ("lower", ">=", 1 - _cantelli(_GAP)),
        ("upper", "<=", _cantelli(-_GAP)),
    )
)

# Lemma 2, and the Jacobians c (diag g − g gᵀ/Σg) of four normalisers
JACOBIAN_NORM_UPPER = _lemma_2(
    "jacobian_norm_upper", "upper bound of the Jacobian norm, softmax", errata=(106, 107)
)(NORM, "<=", sp.Min(1 / (4 * temperature), sp.sqrt(2)), "false for the spectral norm at every T")
_INVERSE_TEMPERATURE = 1 / temperature
ROOTS = SumOver(root[s.k], s.k, tokens)


def _of_normaliser(
    kind: str,
    name: str,
    gains: tuple[sp.Expr, sp.Expr, sp.Expr],
    scale: sp.Expr,
    largest: tuple[sp.Expr, sp.Expr],
) -> tuple[Entry, ...]:
    """Return the Jacobian of one normaliser and its bounds; only the softmax entries are in print.

    gains: g_i, g_j and Σg. scale: c. largest: upper limits of the entries and of the spectral norm
    over all logits.
    """
    own_gain, other_gain, total = gains
    entry_of = _lemma_2 if kind == "softmax" else _sharp
    named = f"{name} at temperature T"
    positive_weights = "α_i, α_j > 0" if kind in ("sparsemax", "entmax15") else ""
    limit_note = "approached as L grows" if kind == "entmax15" else "attained"
    return (
        entry_of(f"{kind}_own_slope", f"derivative of a weight by its logit, {named}")(
            ("dalpha[i]/dl[i]", r"\partial\alpha_i/\partial l_i"),
            "=",
            scale * own_gain * (1 - own_gain / total),
            positive_weights,
        ),
        entry_of(f"{kind}_other_slope", f"derivative of a weight by another logit, {named}")(
            ("dalpha[i]/dl[j]", r"\partial\alpha_i/\partial l_j"),
            "=",
            -scale * own_gain * other_gain / total,
            f"i ≠ j{'; ' + positive_weights if positive_weights else ''}",
        ),
        entry_of(f"{kind}_slope_upper", f"largest absolute derivative, {named}")(
            ("abs(dalpha[i]/dl[j])", r"\left|\partial\alpha_i/\partial l_j\right|"),
            "<=",
            largest[0],
            limit_note,
        ),
        _sharp(f"{kind}_norm_upper", f"largest spectral norm of the Jacobian, {named}")(
            NORM, "<=", largest[1], limit_note
        ),
    )


_GAINS = (s.alpha[s.i], s.alpha[s.j], sp.Integer(1))
_SCALABLE = sp.log(length) * _INVERSE_TEMPERATURE

JACOBIANS: dict[str, tuple[Entry, ...]] = {
    "softmax": _of_normaliser(
        "softmax",
        "softmax",
        _GAINS,
        _INVERSE_TEMPERATURE,
        (_INVERSE_TEMPERATURE / 4, _INVERSE_TEMPERATURE / 2),
    ),
    "scalable": _of_normaliser(
        "scalable", "scalable softmax", _GAINS, _SCALABLE, (_SCALABLE / 4, _SCALABLE / 2)
    ),
    "sparsemax": _of_normaliser(
        "sparsemax",
        "sparsemax",
        (sp.Integer(1), sp.Integer(1), SUPPORT),
        _INVERSE_TEMPERATURE,
        ((1 - 1 / length) * _INVERSE_TEMPERATURE, _INVERSE_TEMPERATURE),
    ),
    "entmax15": _of_normaliser(
        "entmax15",
        "1.5-entmax",
        (root[s.i], root[s.j], ROOTS),
        _INVERSE_TEMPERATURE,
        (_INVERSE_TEMPERATURE, _INVERSE_TEMPERATURE),
    ),
}
"""By normaliser, for tokens of positive weight: diagonal and off-diagonal entries, and limits."""

CHANGE_UPPER = _repaired("weight_change_upper", "change of softmax weights")(
    ("change", r"\left\|\alpha(l + \varepsilon u) - \alpha(l)\right\|_2"),
    "<=",
    sp.Min(shift / (2 * temperature), sp.sqrt(2)),
    "logits change by a vector of length ε",
)
SHARP_NORM = _sharp(
    "sharp_jacobian_norm_upper", "upper bound of the Jacobian norm at given weights"
)(
    NORM,
    "<=",
    sp.Min(
        MaxOver(s.alpha[s.i], s.i, tokens),
        2 * MaxOver(s.alpha[s.i] * (1 - s.alpha[s.i]), s.i, tokens),
    )
    / temperature,
    "softmax",
)
