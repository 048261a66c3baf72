"""Statements of the setting: the metrics, the assumptions, and the deterministic steps of the proofs.

Source: arXiv 2602.01893, eq. (1)-(6), (18)-(25), Definitions 1-3, Assumptions 1-3. Imports sympy.
"""

from __future__ import annotations

import sympy as sp

from theory.statements.record import Entry, definition, stated
from theory.symbolic import definitions as d
from theory.symbolic import symbols as s
from theory.symbolic.operations import Indicator, Norm

SQUARED = "norm²"


def metrics() -> list[Entry]:
    """Return eq. (1)-(5) and the two radii between them."""
    return [
        definition("representative", "1", d.REPRESENTATIVE, of="s", part="Section 2"),
        stated("precision", "precision at a radius", "P(r, N)", "=", d.PRECISION, equation="2", part="Definition 1", errata=(14,)),
        stated("recall", "recall at a radius", "R(r, N)", "=", d.RECALL, equation="3", part="Definition 2"),
        definition("r_min", "", d.R_MIN, part="Section 3", conditions="N ≤ L"),
        definition("r_max", "", d.R_MAX, part="Section 3"),
        stated(
            "precision_inside",
            "precision at r_min",
            "P(r_min, N)",
            "=",
            sp.Integer(1),
            equation="4",
            part="Section 3",
            left_latex=r"P(r_{\min}, N)",
            conditions="an open ball, and some selected token in it",
            errata=(14,),
        ),
        stated(
            "recall_outside",
            "recall at r_max",
            "R(r_max, N)",
            "=",
            sp.Integer(1),
            equation="4",
            part="Section 3",
            left_latex=r"R(r_{\max}, N)",
            conditions="a closed ball",
        ),
        stated("f_score", "harmonic mean of precision and recall", "F(r, N)", "=", d.F_SCORE, equation="5", part="Definition 3"),
    ]


def assumptions() -> list[Entry]:
    """Return eq. (6) and Assumptions 1-3."""
    exact = "every layer and head; true in expectation at best"
    return [
        stated("cosine", "cosine of two value states", s.rho[s.i, s.j], "=", d.COSINE, equation="6", part="Section 3.2"),
        stated("stable_norms", "stable norms", Norm(s.v[s.i]), "=", s.C, part="Assumption 1.1", conditions="i > 0, C > 0", units="norm"),
        stated(
            "sink_norm", "norm of the sink", Norm(s.v[0]), "=", d.SINK_NORM, part="Assumption 1.2", conditions="0 < λ ≪ 1", units="norm"
        ),
        stated(
            "similarity_decay",
            "exponential decay of similarity",
            s.rho[s.i, s.j],
            "=",
            d.SIMILARITY,
            part="Assumption 2.1",
            conditions=f"i, j > 0, β > 0; {exact}",
            errata=(6, 9, 20),
        ),
        stated(
            "sink_similarity",
            "similarity of the sink",
            s.rho[0, s.j],
            "=",
            s.rho_0,
            part="Assumption 2.2",
            conditions=f"j ≠ 0; {exact}; |ρ₀| at most the feasible edge",
            errata=(9, 20),
        ),
        stated(
            "weight_profile",
            "attention weights in four phases",
            s.alpha[s.i],
            "=",
            d.WEIGHTS,
            part="Assumption 3",
            conditions="0 ≤ T₁ ≤ T₂ ≤ L, 0 < η ≤ 1; the weights should sum to 1",
            errata=(10, 28),
        ),
    ]


def notation() -> list[Entry]:
    """Return eq. (18)-(20) and the two counting forms between them."""
    where = "Appendix A.1"
    return [
        definition("direction", "18", d.DIRECTION, of="u", left="u[l]", left_latex=r"u_{\ell}", part=where),
        definition("effective_weight", "18", d.EFFECTIVE_WEIGHT, of="a", left="a[l]", left_latex=r"a_{\ell}", part=where),
        definition("contribution", "18", d.CONTRIBUTION, of="y", left="y[l]", left_latex=r"y_{\ell}", part=where),
        definition("representative_of_contributions", "18", d.REPRESENTATIVE_OF_CONTRIBUTIONS, of="s", part=where),
        definition("squared_distance", "18", d.SQUARED_DISTANCE, of="D", left="D[l]", left_latex=r"D_{\ell}", part=where),
        stated(
            "r_max_of_distances",
            "r_max from squared distances",
            s.r_max,
            "=",
            sp.sqrt(d.R_MAX_SQUARED),
            equation="18",
            part=where,
            units="norm",
        ),
        stated(
            "r_min_of_distances",
            "r_min from squared distances",
            s.r_min,
            "=",
            sp.sqrt(d.R_MIN_SQUARED),
            equation="18",
            part=where,
            units="norm",
        ),
        stated(
            "precision_by_count",
            "precision at r_max by counting",
            "P(r_max, N)",
            "=",
            d.PRECISION_BY_COUNT,
            part=f"{where}, after (18)",
            left_latex=r"P(r_{\max}, N)",
        ),
        stated(
            "recall_by_count",
            "recall at r_min by counting",
            "R(r_min, N)",
            "=",
            d.RECALL_BY_COUNT,
            part=f"{where}, after (18)",
            left_latex=r"R(r_{\min}, N)",
        ),
        stated("r_max_squared", "square of r_max", s.r_max**2, "=", d.R_MAX_SQUARED, equation="19", units=SQUARED),
        stated("r_min_squared", "square of r_min", s.r_min**2, "=", d.R_MIN_SQUARED, equation="19", units=SQUARED),
        definition("K_out", "20", d.COUNT_OUT, part=where),
        definition("K_in", "20", d.COUNT_IN, (14,), part=where),
    ]


def reductions() -> list[Entry]:
    """Return eq. (21)-(25)."""
    out, inside = Indicator(s.D[s.j] <= s.r_max**2), Indicator(s.D[s.i] > s.r_min**2)
    where, always = "Appendix A.1", "none: true of any numbers D"
    return [
        stated(
            "outside_within_reach",
            "a token outside counts only if it beats a selected one",
            out,
            "<=",
            d.BEATEN_BY_SOME,
            equation="21",
            part=where,
            conditions=always,
        ),
        stated("K_out_at_most", "K_out counts at most the pairs", s.K_out, "<=", d.PAIRS, equation="22", part=where, conditions=always),
        stated(
            "inside_out_of_reach",
            "a selected token is lost only if one outside beats it",
            inside,
            "<=",
            d.BEATING_SOME,
            equation="23",
            part=where,
            conditions=always,
        ),
        stated(
            "K_in_at_least", "N - K_in counts at most the pairs", s.N - s.K_in, "<=", d.PAIRS, equation="24", part=where, conditions=always
        ),
        stated(
            "difference",
            "difference of the squared distances of a pair",
            "X[i, j]",
            "=",
            d.DIFFERENCE,
            equation="25",
            part=where,
            left_latex="X_{ij}",
            conditions="X_ij = D_j − D_i; a number, not a random variable, if Assumption 2 is read to the letter",
            units=SQUARED,
            errata=(20,),
        ),
    ]


def setting() -> list[Entry]:
    """Return all of them, in the order of the paper's numbers."""
    return [*metrics(), *assumptions(), *notation(), *reductions()]
