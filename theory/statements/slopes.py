"""Statements of the sibling theory on slopes: Jacobians of four normalisers and what bounds them.

Source: arXiv 2508.17821, Lemma 2; sparsemax (Martins and Astudillo 2016), 1.5-entmax (Peters,
Niculae and Martins 2019) and scalable softmax (Nakanishi 2025) beside it. Imports sympy.
"""

from functools import partial

from theory.normaliser import expressions as x
from theory.statements.normaliser import stated
from theory.statements.record import Entry

NAMES = {
    "softmax": "softmax",
    "scalable": "scalable softmax",
    "sparsemax": "sparsemax",
    "entmax15": "1.5-entmax",
}


NORM = {"left": "norm(J)", "left_latex": r"\left\|J\right\|_2"}

_lemma_2 = partial(stated, part="Normaliser Lemma 2")
_sharp = partial(stated, edition="sharp")
_repaired = partial(stated, edition="repaired")


def _of_normaliser(kind: str) -> tuple[Entry, ...]:
    """Return the Jacobian of one normaliser and what bounds it; print has softmax's entries."""
    make = _lemma_2 if kind == "softmax" else _sharp
    own, other = x.JACOBIANS[kind]
    named = f"{NAMES[kind]} at temperature T"
    some = "α_i, α_j > 0" if kind in ("sparsemax", "entmax15") else ""
    reached = "approached as L grows" if kind == "entmax15" else "attained"
    return (
        make(
            f"{kind}_own_slope",
            f"slope of a weight by its own logit, {named}",
            "dalpha[i]/dl[i]",
            "=",
            own,
            some,
            left_latex=r"\partial\alpha_i/\partial l_i",
        ),
        make(
            f"{kind}_other_slope",
            f"slope of a weight by another logit, {named}",
            "dalpha[i]/dl[j]",
            "=",
            other,
            f"i ≠ j{'; ' + some if some else ''}",
            left_latex=r"\partial\alpha_i/\partial l_j",
        ),
        make(
            f"{kind}_slope_upper",
            f"largest slope, in absolute value, {named}",
            "abs(dalpha[i]/dl[j])",
            "<=",
            x.ENTRY_LIMITS[kind],
            reached,
            left_latex=r"\left|\partial\alpha_i/\partial l_j\right|",
        ),
        _sharp(
            f"{kind}_norm_upper",
            f"largest spectral norm of the Jacobian, {named}",
            relation="<=",
            expression=x.NORM_LIMITS[kind],
            conditions=reached,
            **NORM,
        ),
    )


SLOPES: tuple[Entry, ...] = (
    _lemma_2(
        "jacobian_norm_upper",
        "upper bound of the Jacobian's norm, softmax",
        relation="<=",
        expression=x.NORM_PRINTED,
        conditions="false of the spectral norm at every T",
        errata=(106, 107),
        **NORM,
    ),
    *(entry for kind in NAMES for entry in _of_normaliser(kind)),
    _repaired(
        "weight_change_upper",
        "how far softmax weights move",
        "change",
        "<=",
        x.CHANGE_UPPER,
        "logits moved by a vector of length ε",
        left_latex=r"\left\|\alpha(l + \varepsilon u) - \alpha(l)\right\|_2",
    ),
    _sharp(
        "sharp_jacobian_norm_upper",
        "upper bound of the Jacobian's norm at given weights",
        relation="<=",
        expression=x.SHARP_NORM,
        conditions="softmax",
        **NORM,
    ),
)
"""Lemma 2, and the Jacobians of four normalisers."""
