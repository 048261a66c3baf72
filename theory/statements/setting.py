"""Setting in print: representative, radii and scores of eq. (1)-(5), Assumptions 1-3, and the
notation of the appendix.

Source: arXiv 2602.01893, eq. (1)-(6), (18)-(20), Definitions 1-3, Assumptions 1-3, Appendix A.1.
Imports sympy.
"""

from __future__ import annotations

from functools import partial

import sympy as sp

from theory.statements.record import Entry, definition
from theory.symbolic import definitions
from theory.symbolic import symbols as s
from theory.symbolic.operations import MaxOver, MinOver, Norm

APPENDIX = "Appendix A.1"

AT_R_MIN, AT_R_MAX = r"(r_{\min}, N)", r"(r_{\max}, N)"
BALL = "the ball read as closed, as in (20); Definitions 1 and 2 leave that open"
OPEN_BALL = "an open ball, and some selected token in it"

EVERYWHERE = "every layer and head; true in expectation at best"
"""What Assumption 2 claims."""

_section, _appendix = partial(Entry, part="Section 3"), partial(Entry, part=APPENDIX)
_after = partial(Entry, part=f"{APPENDIX}, after (18)")


def _of_token(name: str, expression: sp.Expr, letter: str) -> Entry:
    """Define what (18) names for every token ℓ."""
    return definition(
        name,
        "18",
        expression,
        of=letter,
        left=f"{letter}[l]",
        left_latex=rf"{letter}_{{\ell}}",
        part=APPENDIX,
    )


METRICS: tuple[Entry, ...] = (
    definition("representative", "1", definitions.REPRESENTATIVE, of="s", part="Section 2"),
    Entry(
        "precision",
        "precision at a radius",
        "P(r, N)",
        "=",
        definitions.PRECISION,
        BALL,
        equation="2",
        part="Definition 1",
    ),
    Entry(
        "recall",
        "recall at a radius",
        "R(r, N)",
        "=",
        definitions.RECALL,
        BALL,
        equation="3",
        part="Definition 2",
    ),
    definition("r_min", "", definitions.R_MIN, part="Section 3", conditions="N ≤ L"),
    definition("r_max", "", definitions.R_MAX, part="Section 3"),
    _section(
        "precision_inside",
        "precision at r_min",
        "P(r_min, N)",
        "==",
        sp.Integer(1),
        OPEN_BALL,
        "",
        f"P{AT_R_MIN}",
        "4",
        errata=(14,),
    ),
    _section(
        "recall_outside",
        "recall at r_max",
        "R(r_max, N)",
        "==",
        sp.Integer(1),
        "a closed ball",
        "",
        f"R{AT_R_MAX}",
        "4",
    ),
    Entry(
        "f_score",
        "harmonic mean of precision and recall",
        "F(r, N)",
        "=",
        definitions.F_SCORE,
        equation="5",
        part="Definition 3",
    ),
)
"""Eq. (1)-(5) and the two radii between them."""

ASSUMPTIONS: tuple[Entry, ...] = (
    Entry(
        "stable_norms",
        "stable norms",
        Norm(s.v[s.i]),
        "=",
        s.C,
        "i > 0, C > 0",
        "norm",
        part="Assumption 1.1",
    ),
    Entry(
        "sink_norm",
        "norm of the sink",
        Norm(s.v[0]),
        "=",
        definitions.SINK_NORM,
        "0 < λ ≪ 1",
        "norm",
        part="Assumption 1.2",
    ),
    Entry(
        "cosine",
        "cosine of two value states",
        s.rho[s.i, s.j],
        "=",
        definitions.COSINE,
        equation="6",
        part="Section 3.2",
        errata=(35,),
    ),
    Entry(
        "similarity_decay",
        "exponential decay of similarity",
        s.rho[s.i, s.j],
        "=",
        definitions.SIMILARITY,
        f"i, j > 0, β > 0; {EVERYWHERE}",
        part="Assumption 2.1",
        errata=(9, 20, 35),
    ),
    Entry(
        "sink_similarity",
        "similarity of the sink",
        s.rho[0, s.j],
        "=",
        s.rho_0,
        f"j ≠ 0; {EVERYWHERE}; |ρ₀| at most the feasible edge",
        part="Assumption 2.2",
        errata=(9, 20),
    ),
    Entry(
        "weight_profile",
        "attention weights in four phases",
        s.alpha[s.i],
        "=",
        definitions.WEIGHTS,
        "0 ≤ T₁ ≤ T₂ ≤ L, 0 < η ≤ 1; the weights should sum to 1",
        part="Assumption 3",
        errata=(10, 28, 36),
    ),
)
"""Eq. (6) and Assumptions 1-3."""

NOTATION: tuple[Entry, ...] = (
    _of_token("direction", definitions.DIRECTION, "u"),
    _of_token("effective_weight", definitions.EFFECTIVE_WEIGHT, "a"),
    _of_token("contribution", definitions.CONTRIBUTION, "y"),
    definition(
        "representative_of_contributions",
        "18",
        definitions.REPRESENTATIVE_OF_CONTRIBUTIONS,
        of="s",
        part=APPENDIX,
    ),
    _of_token("squared_distance", definitions.SQUARED_DISTANCE, "D"),
    *(
        _appendix(
            f"{name}_of_distances",
            f"{name} from squared distances",
            radius,
            "=",
            extreme(sp.sqrt(s.D[index]), index, side),
            units="norm",
            equation="18",
        )
        for name, radius, extreme, index, side in (
            ("r_max", s.r_max, MaxOver, s.i, s.I_N),
            ("r_min", s.r_min, MinOver, s.j, s.J),
        )
    ),
    Entry(
        "r_max_squared",
        "square of r_max",
        s.r_max**2,
        "=",
        definitions.R_MAX_SQUARED,
        units="norm²",
        equation="19",
    ),
    Entry(
        "r_min_squared",
        "square of r_min",
        s.r_min**2,
        "=",
        definitions.R_MIN_SQUARED,
        units="norm²",
        equation="19",
    ),
    _after(
        "precision_by_count",
        "precision at r_max by counting",
        "P(r_max, N)",
        "=",
        definitions.PRECISION_BY_COUNT,
        left_latex=f"P{AT_R_MAX}",
    ),
    _after(
        "recall_by_count",
        "recall at r_min by counting",
        "R(r_min, N)",
        "=",
        definitions.RECALL_BY_COUNT,
        left_latex=f"R{AT_R_MIN}",
    ),
    definition("K_out", "20", definitions.COUNT_OUT, part=APPENDIX),
    definition("K_in", "20", definitions.COUNT_IN, (14,), part=APPENDIX),
)
"""Eq. (18)-(20): directions, contributions, distances, radii and counts, and the counting forms."""
