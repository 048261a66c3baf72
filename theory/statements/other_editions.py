"""Statements that replace those in print: the repaired, sharp and conditional editions.

They replace eq. (7)-(17) and (30)-(31) of arXiv 2602.01893. Imports sympy.
"""

from functools import partial

from theory.statements.record import MEANS, MODEL_G, PAIR, Entry, bound
from theory.symbolic import margins, theorems
from theory.symbolic import symbols as s
from theory.symbolic.meanings import MEANINGS
from theory.symbolic.operations import SumOver

UNIT = "independent uniform directions"
INDEPENDENT = f"{UNIT}; p[i, j] is the repaired tail, κ = 1/8"
NO_BOUND = "an approximation, no bound"
NORMAL_PAIR = (
    f"{NO_BOUND}: p[i, j] of a normal difference with the exact mean (mu_exact) and, for unit"
    " directions, its variance to first order in 1/d"
)
WITH_SINK = "0 ∈ I_N"
BOUNDS = [f"{quantity}_{side}" for quantity in MEANS for side in ("lower", "upper")]

_mended = partial(Entry, edition="repaired")


def repaired() -> list[Entry]:
    """Return the repaired edition: pairs, margins and counts mended, then the bounds."""
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
    return [*_repaired_pairs(), *_repaired_margins(), *_repaired_counts(), *bounds]


def _repaired_pairs() -> list[Entry]:
    """Return the exact mean of a pair, its widths and its tail."""
    return [
        _mended(
            "mu_exact",
            "mean of the difference of squared distances, the sink's and the own term included",
            "mu",
            "=",
            margins.MU_EXACT,
            PAIR,
            "norm²",
            r"\mu_{ij}",
        ),
        _mended(
            "width",
            "scale-free width of a pair",
            "w[i, j]",
            "=",
            margins.WIDTH,
            PAIR,
            "norm²",
            "w_{ij}",
        ),
        _mended(
            "sigma_repaired",
            "width of the difference with the scale squared",
            "sigma_ij",
            "=",
            margins.SIGMA_REPAIRED,
            "",
            "norm²",
            r"\sigma_{ij}",
        ),
        _mended(
            "tail_repaired",
            "scale-free tail of a pair",
            "P{X_ij <= 0}",
            "<=",
            margins.TAIL_REPAIRED,
            f"{PAIR}; {UNIT}, κ = 1/8",
            "",
            r"\mathbb{P}\{X_{ij} \le 0\}",
        ),
    ]


def _repaired_margins() -> list[Entry]:
    """Return the margins with the sink's terms put back."""
    return [
        _mended(
            "Delta_with_sink",
            "Δ with the sink's terms",
            "Delta",
            "=",
            margins.DELTA_WITH_SINK,
            WITH_SINK,
            "norm²",
            r"\Delta",
        ),
        _mended(
            "Delta_0_with_sink",
            "Δ₀ with the sink's terms",
            "Delta_0",
            "=",
            margins.DELTA_0_WITH_SINK,
            WITH_SINK,
            "norm²",
            r"\Delta_0",
        ),
    ]


def _repaired_counts() -> list[Entry]:
    """Return what stands for L − N and (L − N)/N."""
    counts = {
        "count_of_losses": (
            "content pairs a selected token, in place of L - N",
            theorems.COUNT_OF_LOSSES,
        ),
        "count_of_sink_losses": (
            "sink pairs a selected token, in place of (L - N)/N",
            theorems.COUNT_OF_SINK_LOSSES,
        ),
    }
    return [
        _mended(name, title, name, "=", value, WITH_SINK, "", "n")
        for name, (title, value) in counts.items()
    ]


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
    title = MEANINGS["count"].meaning
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
