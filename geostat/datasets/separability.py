"""Separability statistics and their bounds: names, symbols, equations.

Source: arXiv 2602.01893, Definitions 1-2, eq. (12)-(17).
"""

from __future__ import annotations

from typing import Any, Final

STATISTICS: Final = ("precision", "recall")
WITH_F: Final = (*STATISTICS, "f_outer", "f_inner")
"""Precision and Recall, and F = 2PR/(P+R) at the outer and the inner radius."""
SIDES: Final = ("lower", "upper")
BOUNDS: Final = tuple(f"{statistic}_{side}" for statistic in STATISTICS for side in SIDES)
ALL_BOUNDS: Final = tuple(f"{statistic}_{side}" for statistic in WITH_F for side in SIDES)
LETTERS: Final = {
    "precision": "P",
    "recall": "R",
    "f_outer": r"F(r_{\max})",
    "f_inner": r"F(r_{\min})",
}
"""LaTeX symbols."""
_EQUATIONS: Final = {
    "precision": "(12)-(13)",
    "recall": "(14)-(15)",
    "f_outer": "(17)",
    "f_inner": "(16)",
}


def statistic_of(bound: str) -> str:
    """Return the statistic of a bound such as `f_outer_lower`.

    >>> statistic_of("f_outer_lower")
    'f_outer'
    """
    return bound.rpartition("_")[0]


def statistic_attributes(statistic: str) -> dict[str, Any]:
    """Return the attributes that a measured statistic shares with its bounds.

    The equation is that of the bounds.
    """
    return {"units": "1", "symbol": LETTERS[statistic], "equation": _EQUATIONS[statistic]}


def bound_attributes(bound: str) -> dict[str, Any]:
    """Return the attributes of a bound variable such as `precision_lower`.

    >>> bound_attributes("recall_lower")["long_name"]
    'lower bound on expected recall'
    """
    statistic, _, side = bound.rpartition("_")
    words = {"long_name": f"{side} bound on expected {statistic.replace('_', ' ')}"}
    return (
        words | statistic_attributes(statistic) | {"symbol": rf"\mathbb{{E}}{LETTERS[statistic]}"}
    )
