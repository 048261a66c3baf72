"""Statements that are not in print: the repaired, sharp and conditional editions, and the predicted
one.

The first three replace eq. (7)-(17) and (30)-(31) of arXiv 2602.01893. `predicted` approximates the
expectations under Model G and is never a bound; Clark's formulas are from Operations Research 9
(1961), Mendell and Elston's from Biometrics 30 (1974). Imports sympy.
"""

from __future__ import annotations

from functools import partial

from theory.statements.record import MEANS, MODEL_G, PAIR, Entry, bound
from theory.symbolic import approximations as x
from theory.symbolic import symbols as s
from theory.symbolic import theorems
from theory.symbolic.operations import SumOver

UNIT = "independent uniform directions"
INDEPENDENT = f"{UNIT}; p[i, j] is the repaired tail, κ = 1/8"
NO_BOUND = "an approximation, no bound"
NORMAL_PAIR = (
    f"{NO_BOUND}: p[i, j] of a normal difference with the exact mean (mu_exact) and, for unit"
    " directions, its variance to first order in 1/d"
)
WITH_SINK = "0 ∈ I_N"

GIVEN_T = f"{MODEL_G}; given ‖s‖² = t"
NORMAL = (
    "Y and the W normal; Y the largest W of some tokens of a group, W[k] that of others (one token"
    " each at first)"
)
COUNTED = "the W normal given Y = υ"
RIVALS = (
    f"{COUNTED} and given that another group's largest W lies below; once for each of the other"
    " groups"
)
OUTER = (
    "to second order; mean over t = σ_ss χ²_d/d (3 nodes) and over Y, the largest W of I_N (by"
    " groups of like spread); small counts: a beta-binomial law"
)
INNER = (
    "to second order; mean over t = σ_ss χ²_d/d (3 nodes) and over Y, the largest −W of J (by"
    " groups); K counts in I_N"
)

BOUNDS = [f"{quantity}_{side}" for quantity in MEANS for side in ("lower", "upper")]


def repaired() -> list[Entry]:
    """Return the repaired edition: pairs, margins and counts mended, then the bounds."""
    mean = "mean of the difference of squared distances, the sink's and the own term included"
    scaled = "width of the difference with the scale squared"
    tail, unit = r"\mathbb{P}\{X_{ij} \le 0\}", f"{PAIR}; {UNIT}, κ = 1/8"
    counts = (
        (
            "count_of_losses",
            "content pairs a selected token, in place of L - N",
            theorems.COUNT_OF_LOSSES,
        ),
        (
            "count_of_sink_losses",
            "sink pairs a selected token, in place of (L - N)/N",
            theorems.COUNT_OF_SINK_LOSSES,
        ),
    )
    stated = partial(Entry, edition="repaired")
    pairs = [
        stated("mu_exact", mean, "mu", "=", theorems.MU_EXACT, PAIR, "norm²", r"\mu_{ij}"),
        stated(
            "width",
            "scale-free width of a pair",
            "w[i, j]",
            "=",
            theorems.WIDTH,
            PAIR,
            "norm²",
            "w_{ij}",
        ),
        stated(
            "sigma_repaired",
            scaled,
            "sigma_ij",
            "=",
            theorems.SIGMA_REPAIRED,
            "",
            "norm²",
            r"\sigma_{ij}",
        ),
        stated(
            "tail_repaired",
            "scale-free tail of a pair",
            "P{X_ij <= 0}",
            "<=",
            theorems.TAIL_REPAIRED,
            unit,
            "",
            tail,
        ),
        stated(
            "Delta_with_sink",
            "Δ with the sink's terms",
            "Delta",
            "=",
            theorems.DELTA_WITH_SINK,
            WITH_SINK,
            "norm²",
            r"\Delta",
        ),
        stated(
            "Delta_0_with_sink",
            "Δ₀ with the sink's terms",
            "Delta_0",
            "=",
            theorems.DELTA_0_WITH_SINK,
            WITH_SINK,
            "norm²",
            r"\Delta_0",
        ),
        *(
            stated(name, title, name, "=", value, WITH_SINK, "", "n")
            for name, title, value in counts
        ),
    ]
    conditions = {
        "precision_lower": INDEPENDENT,
        "recall_lower": INDEPENDENT,
        "f_outer_lower": f"P_lower is repaired_precision_lower; {UNIT}",
        "f_inner_lower": f"R_lower is repaired_recall_lower; {UNIT}",
        "precision_upper": NORMAL_PAIR,
        "recall_upper": NORMAL_PAIR,
        "f_outer_upper": f"P_upper is repaired_precision_upper; {NO_BOUND}",
        "f_inner_upper": f"R_upper is repaired_recall_upper; {NO_BOUND}",
    }
    bounds = [bound("repaired", name, condition) for name, condition in conditions.items()]
    return [*pairs, *bounds]


def sharp() -> list[Entry]:
    """Return the sharp edition: the exact law of a pair, then the bounds."""
    stated = partial(Entry, edition="sharp")
    return [
        stated(
            "separation",
            "standardised separation of a pair",
            "r",
            "=",
            theorems.SEPARATION,
            MODEL_G,
            left_latex="r_{ij}",
        ),
        stated(
            "pairwise_law",
            "exact law of a pair",
            "p[i, j]",
            "=",
            theorems.PAIRWISE_LAW,
            MODEL_G,
            left_latex="p_{ij}",
        ),
        stated(
            "chernoff",
            "best Chernoff bound of a pair",
            "p[i, j]",
            "<=",
            theorems.CHERNOFF,
            f"{MODEL_G}; r > 0",
            left_latex="p_{ij}",
        ),
        *(bound("sharp", name, MODEL_G) for name in BOUNDS),
    ]


def conditional() -> list[Entry]:
    """Return the conditional edition: the sharp argument given the representative and one
    selected token.
    """
    count, rivals = s.count[s.i], SumOver(s.beat[s.i, s.j], s.j, s.J)
    title = s.MEANINGS["count"].meaning
    return [
        Entry(
            "conditional_count",
            title,
            count,
            "=",
            rivals,
            f"i ∈ I_N; {MODEL_G}",
            edition="conditional",
        ),
        *(bound("conditional", name, f"{MODEL_G}; means over s and y_i") for name in BOUNDS),
    ]


_stated = partial(Entry, edition="predicted")


def predicted() -> list[Entry]:
    """Return the moments given t, Clark's recursion, the count, and the four means."""
    return [*_moments(), *_clark(), *_count(), *_means()]


def _moments() -> list[Entry]:
    k, l = s.k, s.l  # noqa: E741
    given_t = "given the representative's length"
    roots = "covariance of two cube roots, to first order"
    two, distances = (
        "covariance of two contributions given the representative",
        f"covariance of two squared distances {given_t}",
    )
    return [
        _stated(
            "share",
            "regression of a contribution on the representative",
            x.share[l],
            "=",
            x.SHARE,
            MODEL_G,
        ),
        _stated("residual_covariance", two, x.residual[k, l], "=", x.RESIDUAL, MODEL_G, "norm²"),
        _stated(
            "distance_mean",
            f"mean squared distance {given_t}",
            x.D_mean[l],
            "=",
            x.MEAN_GIVEN_T,
            GIVEN_T,
            "norm²",
        ),
        _stated(
            "distance_covariance",
            distances,
            x.D_cov[k, l],
            "=",
            x.COVARIANCE_GIVEN_T,
            GIVEN_T,
            "norm⁴",
        ),
        _stated(
            "cube_root", "squared distance made nearly normal", x.W[l], "=", x.CUBE_ROOT, GIVEN_T
        ),
        _stated(
            "cube_root_mean",
            "mean of the cube root, to second order",
            x.W_mean[l],
            "~",
            x.CUBE_ROOT_MEAN,
            GIVEN_T,
        ),
        _stated("cube_root_covariance", roots, x.W_cov[k, l], "~", x.CUBE_ROOT_COVARIANCE, GIVEN_T),
    ]


def _clark() -> list[Entry]:
    covariance = r"\mathrm{Cov}(\max(Y, W_k), W_\ell)"
    rows = (
        ("spread", "standard deviation of the difference of the two", x.theta, x.CLARK_SPREAD, ""),
        ("ratio", "standardised difference of the two", x.z, x.CLARK_RATIO, ""),
        (
            "mean",
            "mean of the larger of two",
            "E max(Y, W[k])",
            x.CLARK_MEAN,
            r"\mathbb{E}\max(Y, W_k)",
        ),
        (
            "square",
            "mean square of the larger of two",
            "E max(Y, W[k])**2",
            x.CLARK_SQUARE,
            r"\mathbb{E}\max(Y, W_k)^2",
        ),
        (
            "covariance",
            "covariance of the larger of two with a third",
            "cov(max(Y, W[k]), W[l])",
            x.CLARK_COVARIANCE,
            covariance,
        ),
    )
    return [
        _stated(f"clark_{name}", f"Clark: {title}", left, "=", value, NORMAL, "", latex)
        for name, title, left, value, latex in rows
    ]


def _count() -> list[Entry]:
    j, k = s.j, s.k
    rivals = "that distance, given that another group's largest is below too"
    return [
        _stated(
            "count_rest", "standard deviation given the largest", x.rest[j], "=", x.REST, COUNTED
        ),
        _stated(
            "count_threshold",
            "standardised distance below the largest",
            x.h[j],
            "=",
            x.STANDARDISED,
            COUNTED,
        ),
        _stated("count_threshold_of_groups", rivals, x.h[j], "~", x.SHIFTED, RIVALS),
        _stated(
            "count_correlation",
            "correlation given the largest",
            x.R_res[j, k],
            "=",
            x.RESIDUAL_CORRELATION,
            COUNTED,
        ),
        _stated(
            "count_mean",
            "mean count of tokens outside within the largest distance",
            x.K_mean,
            "=",
            x.COUNT_MEAN,
            COUNTED,
        ),
        _stated(
            "count_covariance",
            "tetrachoric series, and its end at R = 1",
            x.K_cov[j, k],
            "~",
            x.PAIR_COVARIANCE,
            COUNTED,
        ),
        _stated(
            "count_variance", "variance of that count", x.K_var, "~", x.COUNT_VARIANCE, COUNTED
        ),
    ]


def _means() -> list[Entry]:
    rows = (
        ("precision", x.PRECISION, OUTER),
        ("recall", x.RECALL, INNER),
        ("f_outer", x.F_OUTER, OUTER),
        ("f_inner", x.F_INNER, INNER),
    )
    return [
        _stated(
            f"predicted_{quantity}",
            f"approximation of {left}",
            left,
            "~",
            value,
            conditions,
            left_latex=latex,
        )
        for quantity, value, conditions in rows
        for left, latex in (MEANS[quantity],)
    ]
