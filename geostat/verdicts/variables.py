"""Variables of /verdicts: the answers of each head with what they rest on, and counts over
heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from geostat.bounds.gaps import CODES
from geostat.datasets.variable import Variable
from geostat.verdicts.claims import CLAIMS, UNITS

PARTS: Final = {
    "estimate": ("estimated effect", "the effect's own"),
    "se": ("standard error of the effect over documents, moderated", "the effect's own"),
    "degrees": ("degrees of freedom of that standard error", "1"),
    "skew": (
        "skewness of single documents in the effect, moderated; NaN where it is judged without",
        "1",
    ),
    "lower": ("lower limit of the effect, 95%, not adjusted", "the effect's own"),
    "upper": ("upper limit of the effect, 95%, not adjusted", "the effect's own"),
    "p_holds": ("p-value against the claim's failing", "1"),
    "p_fails": ("p-value against the claim's holding", "1"),
    "p_holds_adjusted": ("p_holds adjusted over the heads of the claim (Benjamini-Hochberg)", "1"),
    "p_fails_adjusted": ("p_fails adjusted over the heads of the claim (Benjamini-Hochberg)", "1"),
}
"""What an answer rests on, by head."""
CELL: Final = {
    "cell_bound": (
        (
            f"bound that decided: {', '.join(f'{code} {name}' for code, name in CODES.items())}; -1"
            " of other claims"
        ),
        "1",
    ),
    "cell_n": ("N at which it decided; 0 of other claims", "1"),
    "cell_count": ("bounds tested, one for each side, statistic and N; 0 of other claims", "1"),
    "cell_p_holds": ("p-value of that bound alone against its failing", "1"),
    "cell_p_fails": ("p-value of that bound against its holding, times the number tested", "1"),
}
"""Which bound at which N the estimate of a claim on bounds is of."""


def _by_unit(unit: str, words: Mapping[str, tuple[str, str]]) -> tuple[Variable, ...]:
    dims = (f"claim_{unit}", "layer", unit)
    return tuple(
        Variable(f"{name}_{unit}", long_name, units, dims=dims)
        for name, (long_name, units) in words.items()
    )


ANSWER: Final = {"answer": ("1 holds, -1 fails, 0 undetermined, -2 no estimate", "1")}
Records = Mapping[str, tuple[Variable, ...]]
BY_UNIT: Final[Records] = {unit: _by_unit(unit, ANSWER | PARTS) for unit in UNITS}
OF_BOUNDS: Final[Records] = {
    unit: _by_unit(unit, CELL) for unit in {claim.of for claim in CLAIMS if claim.bounds}
}
"""Of the unit that claims on bounds are of."""
_claim = partial(Variable, dims=("claim",))
OVERALL: Final = (
    _claim("tolerance", "tolerance, units of the effect"),
    _claim("tested", "heads with an estimate"),
    _claim("no_estimate", "heads without one"),
    _claim("holds", "heads of which the claim holds"),
    _claim("fails", "heads of which it fails"),
    _claim("undetermined", "heads that the documents do not settle"),
    _claim(
        "holds_adjusted",
        "of the heads of which it holds, left at a false-discovery rate of q (Benjamini-Hochberg)",
    ),
    _claim("fails_adjusted", "of the heads of which it fails, left at that rate"),
    _claim("within", "share of heads with an estimate whose estimate lies within the tolerance"),
    _claim("true_share", "share of heads of which the claim is true, estimated (mixture)"),
    _claim("true_share_lower", "lower limit of that share, 95%"),
    _claim("true_share_upper", "upper limit of that share, 95%"),
)
