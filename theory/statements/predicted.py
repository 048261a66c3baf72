"""Statements of the predicted edition: means of Precision, Recall and F as sums over t and the
largest rival, with every approximation that is made.

It approximates the expectations under Model G and is never a bound; Clark's formulas are from
Operations Research 9 (1961), Mendell and Elston's from Biometrics 30 (1974). Imports sympy.
"""

from functools import partial

from theory.statements.record import MEANS, MODEL_G, Entry
from theory.symbolic import approximations as x
from theory.symbolic.symbols import j, k, l

_stated = partial(Entry, edition="predicted")

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

OF_TWO = "covariance of two contributions given the representative"
THEN = "given the representative's length"
COVARIANCE = r"\mathrm{Cov}(\max(Y, W_k), W_\ell)"

PREDICTED: tuple[Entry, ...] = (
    _stated(
        "share",
        "regression of a contribution on the representative",
        x.share[l],
        "=",
        x.SHARE,
        MODEL_G,
    ),
    _stated("residual_covariance", OF_TWO, x.residual[k, l], "=", x.RESIDUAL, MODEL_G, "norm²"),
    _stated(
        "distance_mean",
        f"mean squared distance {THEN}",
        x.D_mean[l],
        "=",
        x.MEAN_GIVEN_T,
        GIVEN_T,
        "norm²",
    ),
    _stated(
        "distance_covariance",
        f"covariance of two squared distances {THEN}",
        x.D_cov[k, l],
        "=",
        x.COVARIANCE_GIVEN_T,
        GIVEN_T,
        "norm⁴",
    ),
    _stated("cube_root", "squared distance made nearly normal", x.W[l], "=", x.CUBE_ROOT, GIVEN_T),
    _stated(
        "cube_root_mean",
        "mean of the cube root, to second order",
        x.W_mean[l],
        "~",
        x.CUBE_ROOT_MEAN,
        GIVEN_T,
    ),
    _stated(
        "cube_root_covariance",
        "covariance of two cube roots, to first order",
        x.W_cov[k, l],
        "~",
        x.CUBE_ROOT_COVARIANCE,
        GIVEN_T,
    ),
    *(
        _stated(f"clark_{name}", f"Clark: {title}", left, "=", value, NORMAL, left_latex=latex)
        for name, title, left, value, latex in (
            (
                "spread",
                "standard deviation of the difference of the two",
                x.theta,
                x.CLARK_SPREAD,
                "",
            ),
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
                COVARIANCE,
            ),
        )
    ),
    _stated("count_rest", "standard deviation given the largest", x.rest[j], "=", x.REST, COUNTED),
    _stated(
        "count_threshold",
        "standardised distance below the largest",
        x.h[j],
        "=",
        x.STANDARDISED,
        COUNTED,
    ),
    _stated(
        "count_threshold_of_groups",
        "that distance, given that another group's largest is below too",
        x.h[j],
        "~",
        x.SHIFTED,
        RIVALS,
    ),
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
    _stated("count_variance", "variance of that count", x.K_var, "~", x.COUNT_VARIANCE, COUNTED),
    *(
        _stated(
            f"predicted_{quantity}",
            f"approximation of {left}",
            left,
            "~",
            value,
            conditions,
            left_latex=latex,
        )
        for (quantity, (left, latex)), value, conditions in zip(
            MEANS.items(),
            (x.PRECISION, x.RECALL, x.F_OUTER, x.F_INNER),
            (OUTER, INNER, OUTER, INNER),
            strict=True,
        )
    ),
)
"""The moments given t, Clark's recursion, the count, and the four means."""
