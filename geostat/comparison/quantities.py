"""Quantities that runs are compared by, in the order of the report.

Source: arXiv 2602.01893, Assumptions 1-2, §4, §4.1, Theorems 1-2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from geostat.datasets.separability import LETTERS, STATISTICS
from geostat.fits.similarity.forms import FORMS
from geostat.paper import CORRELATION_SIZES, WORKING_SIZE

KINDS: Final = {"correlation": "as measured", "unattenuated": "free of the documents' noise"}
FEW_DOCUMENTS: Final = "documents"
"""Of a quantity that averaging over more documents changes: it is not that of one document, nor
that of ever more.
"""


@dataclass(frozen=True, slots=True)
class Quantity:
    """What runs are compared by; `minds` names the settings, beside those of the text, that must
    be equal for a difference to be the models'.
    """

    key: str
    long_name: str
    symbol: str
    equation: str
    over: str
    minds: tuple[str, ...] = ()


NORMS: Final = (
    Quantity(
        "cv_token",
        "CV of value norms within a document",
        r"\mathrm{CV}_{\mathrm{token}}",
        "Assumption 1.1",
        "value heads",
    ),
    Quantity(
        "cv_profile",
        "CV of value norms averaged over documents",
        r"\mathrm{CV}_{\mathrm{profile}}",
        "Fig. 2",
        "value heads",
        (FEW_DOCUMENTS,),
    ),
    Quantity(
        "lam",
        "norm of the sink's value over the others'",
        r"\lambda",
        "Assumption 1.2",
        "value heads",
    ),
)
MISFITS: Final = tuple(
    Quantity(
        f"mae_{form}",
        f"misfit (MAE) of mean cosines, {form.replace('_', ' ')} form",
        r"\mathrm{MAE}",
        "§3.2, Fig. 3",
        "value heads",
        (FEW_DOCUMENTS,),
    )
    for form in FORMS
)
SEPARABILITY: Final = tuple(
    Quantity(
        f"{name}_at_{WORKING_SIZE}",
        f"mean {name.capitalize()} at N = {WORKING_SIZE}",
        LETTERS[name],
        "Fig. 5",
        "heads",
        ("convention",),
    )
    for name in STATISTICS
)
THEOREMS: Final = {"precision": "Theorem 1", "recall": "Theorem 2"}


def quantities(pairs: Sequence[tuple[str, str]]) -> list[Quantity]:
    """Every quantity, in the order of the report; those of bounds for each (edition, Gram)."""
    return [
        *NORMS,
        *MISFITS,
        *SEPARABILITY,
        *(quantity for kind in KINDS for quantity in _correlations(kind)),
        *_coverage(pairs),
    ]


def _correlations(kind: str) -> list[Quantity]:
    """Correlations of Recall with the sink's similarity: the largest, and those at named N."""
    minds = ("convention", *((FEW_DOCUMENTS,) if kind == "correlation" else ()))
    of_heads = (r"\mathrm{corr}(R,\rho_0)", "§4.1, Fig. 6", "heads")
    label = f"correlation of Recall with the sink's similarity, {KINDS[kind]}"
    return [
        Quantity(f"{kind}_peak", f"largest {label}", *of_heads, (*minds, "sizes")),
        *(
            Quantity(f"{kind}_at_{n}", f"{label}, at N = {n}", *of_heads, minds)
            for n in CORRELATION_SIZES
        ),
    ]


def _coverage(pairs: Sequence[tuple[str, str]]) -> list[Quantity]:
    """The share of cells within the bounds of each (edition, Gram)."""
    return [
        Quantity(
            f"{name}_inside_{edition}_{gram}",
            f"{name.capitalize()} within its bounds, {edition}, {gram} Gram",
            r"\mathrm{share}",
            THEOREMS[name],
            "heads",
            ("convention", FEW_DOCUMENTS, "bound_sizes"),
        )
        for (edition, gram), name in product(pairs, STATISTICS)
    ]
