"""Theorems 1-2 and Corollary 1 in print, and the repaired, sharp and conditional editions that
replace them.

Source: arXiv 2602.01893, eq. (12)-(17); the other editions replace eq. (7)-(17) and (30)-(31).
Imports sympy.
"""

from functools import partial

from theory.statements.record import (
    MEANS,
    MODEL_G,
    NO_CONDITIONS,
    PRINTED_CONDITIONS,
    UNIT,
    WITH_SINK,
    Entry,
    bound,
)
from theory.symbolic import symbols as s
from theory.symbolic import theorems
from theory.symbolic.meanings import MEANINGS
from theory.symbolic.operations import SumOver

INDEPENDENT = f"{UNIT}; p[i, j] is the repaired tail, κ = 1/8"
NO_BOUND = "an approximation, no bound"
NORMAL_PAIR = (
    f"{NO_BOUND}: p[i, j] of a normal difference with the exact mean (mu_exact) and, for unit"
    " directions, its variance to first order in 1/d"
)
BOUNDS = [f"{quantity}_{side}" for quantity in MEANS for side in ("lower", "upper")]

LOWER_ERRATA = (1, 3, 13, 16, 17, 19, 32, 37)
UPPER_ERRATA = (1, 4, 5, 7, 11, 12, 32, 37)
"""What is wrong with both printed lower bounds, and with both upper ones."""

_printed = partial(bound, "printed", conditions=PRINTED_CONDITIONS)
_unproven = partial(bound, "printed", conditions=NO_CONDITIONS)
_repaired = partial(Entry, edition="repaired")
_sharp = partial(Entry, edition="sharp")

PRINTED: tuple[Entry, ...] = (
    _printed("precision_lower", equation="12", part="Theorem 1", errata=LOWER_ERRATA),
    _unproven("precision_upper", equation="13", part="Theorem 1", errata=UPPER_ERRATA),
    _printed(
        "recall_lower",
        equation="14",
        part="Theorem 2",
        errata=tuple(sorted((*LOWER_ERRATA, 18, 30, 31))),
    ),
    _unproven("recall_upper", equation="15", part="Theorem 2", errata=UPPER_ERRATA),
    _unproven("f_inner_lower", equation="16", part="Corollary 1", errata=(8, 18, 37)),
    _unproven("f_inner_upper", equation="16", part="Corollary 1", errata=(7, 37)),
    _printed("f_outer_lower", equation="17", part="Corollary 1", errata=(8, 37)),
    _unproven("f_outer_upper", equation="17", part="Corollary 1", errata=(7, 37)),
)
"""Eq. (12)-(17)."""

REPAIRED: tuple[Entry, ...] = (
    *(
        _repaired(name, title, name, "=", value, WITH_SINK, left_latex="n")
        for name, title, value in (
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
    ),
    bound("repaired", "precision_lower", INDEPENDENT),
    bound("repaired", "recall_lower", INDEPENDENT),
    bound("repaired", "f_outer_lower", f"P_lower is repaired_precision_lower; {UNIT}"),
    bound("repaired", "f_inner_lower", f"R_lower is repaired_recall_lower; {UNIT}"),
    bound("repaired", "precision_upper", NORMAL_PAIR),
    bound("repaired", "recall_upper", NORMAL_PAIR),
    bound("repaired", "f_outer_upper", f"P_upper is repaired_precision_upper; {NO_BOUND}"),
    bound("repaired", "f_inner_upper", f"R_upper is repaired_recall_upper; {NO_BOUND}"),
)
"""Counts repaired, then the bounds; pairs and margins are in `theory.statements.margins`."""

SHARP: tuple[Entry, ...] = (
    _sharp(
        "separation",
        "standardised separation of a pair",
        "r",
        "=",
        theorems.SEPARATION,
        MODEL_G,
        left_latex="r_{ij}",
    ),
    _sharp(
        "pairwise_law",
        "exact law of a pair",
        "p[i, j]",
        "=",
        theorems.PAIRWISE_LAW,
        MODEL_G,
        left_latex="p_{ij}",
    ),
    _sharp(
        "chernoff",
        "best Chernoff bound of a pair",
        "p[i, j]",
        "<=",
        theorems.CHERNOFF,
        f"{MODEL_G}; r > 0",
        left_latex="p_{ij}",
    ),
    *(bound("sharp", name, MODEL_G) for name in BOUNDS),
)
"""The exact law of a pair, then the bounds."""

CONDITIONAL: tuple[Entry, ...] = (
    Entry(
        "conditional_count",
        MEANINGS["count"].meaning,
        s.count[s.i],
        "=",
        SumOver(s.beat[s.i, s.j], s.j, s.J),
        f"i ∈ I_N; {MODEL_G}",
        edition="conditional",
    ),
    *(bound("conditional", name, f"{MODEL_G}; means over s and y_i") for name in BOUNDS),
)
"""The sharp argument given the representative and one selected token."""
