"""Statements of the sibling theory, of the normaliser: printed, repaired and sharp.

Source: arXiv 2508.17821, Lemma 1 and Theorems 1-2, in the symbols of arXiv 2602.01893; parts are
called "Normaliser Lemma 1" and so on. Lemma 2 is in `theory.statements.slopes`. Imports sympy.
"""

from functools import partial

from theory.normaliser import expressions as x
from theory.statements.record import Entry
from theory.symbolic import symbols as s

PAPER = "arXiv 2508.17821"

BOUNDED = "every |logit| ≤ Δ, which does not grow with L"
DIRECTIONS = "independent uniform directions, lengths kept; d ≥ 2"
ANY_SET = "I_N any set with some weight; no other condition"
SETS = "I_N uniform among the sets of N tokens"
SHARE = {"left": "E N_s/N", "left_latex": r"\mathbb{E}N_s/N"}
LONG = {"left": "d_tilde", "left_latex": r"\tilde{d}"}
LONG_MEAN = {"left": "E d_tilde", "left_latex": r"\mathbb{E}\tilde{d}"}

stated = partial(Entry, paper=PAPER)
_lemma_1 = partial(stated, part="Normaliser Lemma 1", left="alpha[i]", left_latex=r"\alpha_i")
_theorem_1 = partial(stated, part="Normaliser Theorem 1")
_theorem_2 = partial(stated, part="Normaliser Theorem 2")
_sharp = partial(stated, edition="sharp")
_repaired = partial(stated, edition="repaired")
_sharp_weight = partial(_sharp, left="alpha[i]", left_latex=r"\alpha_i")

WEIGHTS: tuple[Entry, ...] = (
    _lemma_1("normalised_weight", "weight of a token", relation="=", expression=x.WEIGHT),
    *(
        _lemma_1(
            f"weight_{side}",
            f"{side} bound of a weight",
            relation=sign,
            expression=value,
            conditions="F free of L, every |logit| ≤ a",
            errata=(101,),
        )
        for side, sign, value in (("lower", ">=", x.WEIGHT_LOWER), ("upper", "<=", x.WEIGHT_UPPER))
    ),
    *(
        _lemma_1(
            f"softmax_weight_{side}",
            f"{side} bound of a softmax weight",
            relation=sign,
            expression=value,
            conditions=BOUNDED,
            errata=(101,),
        )
        for side, sign, value in (
            ("lower", ">=", x.SOFTMAX_LOWER),
            ("upper", "<=", x.SOFTMAX_UPPER),
        )
    ),
    *(
        _sharp_weight(
            f"sharp_weight_{side}",
            f"{side} bound of a softmax weight, attained",
            relation=sign,
            expression=value,
            conditions=BOUNDED,
        )
        for side, sign, value in (
            ("lower", ">=", x.SHARP_WEIGHT_LOWER),
            ("upper", "<=", x.SHARP_WEIGHT_UPPER),
        )
    ),
)
"""Lemma 1 and its corollary, and what logits between −Δ and Δ can attain."""

DISTANCES: tuple[Entry, ...] = (
    _theorem_1(
        "distance_sum",
        "summed distance of the tokens outside from s",
        relation="=",
        expression=x.DISTANCE,
        units="norm",
        errata=(102,),
        **LONG,
    ),
    _theorem_1("share_in", "summed weight of the selected", x.share_in, "=", x.SHARE_IN),
    _theorem_1(
        "farthest_pair",
        "largest distance between a selected token and another",
        x.d_1,
        "=",
        x.FARTHEST,
        units="norm",
    ),
    _theorem_1("norm_in", "largest norm selected", x.norm_in, "=", x.NORM_IN, units="norm"),
    _theorem_1(
        "distance_sum_upper",
        "upper bound of the summed distance",
        relation="<=",
        expression=x.DISTANCE_UPPER,
        units="norm",
        conditions="α_i ≤ share_in for every i outside, as for the N largest weights",
        errata=(102, 103),
        **LONG,
    ),
    _repaired(
        "repaired_distance_sum_upper",
        "upper bound of the summed distance of any set",
        relation="<=",
        expression=x.MENDED_DISTANCE_UPPER,
        units="norm",
        conditions=ANY_SET,
        **LONG,
    ),
    _sharp(
        "sharp_distance_sum_upper",
        "upper bound from s and the rest",
        relation="<=",
        expression=x.SHARP_DISTANCE_UPPER,
        units="norm",
        conditions=ANY_SET,
        **LONG,
    ),
    _sharp(
        "sharp_distance_sum_lower",
        "lower bound from s and the rest",
        relation=">=",
        expression=x.SHARP_DISTANCE_LOWER,
        units="norm",
        conditions=ANY_SET,
        **LONG,
    ),
    _sharp(
        "random_set_squares",
        "mean of the summed squared distances",
        "E sum D[j]",
        "=",
        x.RANDOM_SQUARES,
        SETS,
        "norm²",
        r"\mathbb{E}\sum_{j \notin I_N} D_j",
    ),
    _sharp(
        "random_set_upper",
        "upper bound of the mean summed distance",
        relation="<=",
        expression=x.RANDOM_UPPER,
        units="norm",
        conditions=f"{SETS}; squares is random_set_squares",
        **LONG_MEAN,
    ),
    _sharp(
        "random_set_lower",
        "lower bound of the mean summed distance",
        relation=">=",
        expression=x.RANDOM_LOWER,
        units="norm",
        conditions=SETS,
        **LONG_MEAN,
    ),
)
"""Theorem 1, and what holds for any set and in the mean over sets."""

SHARES: tuple[Entry, ...] = (
    _theorem_2(
        "rms_distance",
        "root mean square distance from s",
        x.rms[s.i],
        "=",
        x.RMS,
        DIRECTIONS,
        "norm",
    ),
    _theorem_2(
        "share_within_lower",
        "lower bound of the expected share within r",
        relation=">=",
        expression=x.SHARE_LOWER,
        conditions=DIRECTIONS,
        **SHARE,
    ),
    _theorem_2(
        "share_within_upper",
        "upper bound of the expected share within r",
        relation="<=",
        expression=x.SHARE_UPPER,
        conditions=f"{DIRECTIONS}; M_I as printed is undefined",
        errata=(104, 105),
        **SHARE,
    ),
    _sharp(
        "mean_distance_lower",
        "lower bound of the mean distance",
        x.mean_of[s.i],
        ">=",
        x.MEAN_LOWER,
        DIRECTIONS,
        "norm",
    ),
    _repaired(
        "repaired_share_within_upper",
        "upper bound of the expected share within r",
        relation="<=",
        expression=x.MENDED_SHARE_UPPER,
        conditions=f"{DIRECTIONS}; mean_of may be replaced by a lower bound",
        **SHARE,
    ),
    _sharp(
        "square_variance",
        "variance of a squared distance",
        x.variance[s.i],
        "=",
        x.VARIANCE,
        DIRECTIONS,
        "norm⁴",
    ),
    _sharp(
        "sharp_share_within_lower",
        "lower bound of the expected share within r",
        relation=">=",
        expression=x.SHARP_SHARE_LOWER,
        conditions=f"{DIRECTIONS}; a term 0/0 is 1",
        **SHARE,
    ),
    _sharp(
        "sharp_share_within_upper",
        "upper bound of the expected share within r",
        relation="<=",
        expression=x.SHARP_SHARE_UPPER,
        conditions=f"{DIRECTIONS}; a term 0/0 is 1",
        **SHARE,
    ),
)
"""Theorem 2: the share of the selected tokens within r of their sum."""


NORMALISER: tuple[Entry, ...] = (*WEIGHTS, *DISTANCES, *SHARES)
"""Lemma 1 and Theorems 1-2."""
