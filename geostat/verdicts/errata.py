"""Errata of the paper that a report tells of, each with why it matters to its reader; the paper's
tables, settled. Imports theory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

READING: Final[Mapping[int, str]] = {
    1: (
        "The printed bounds move when all values are multiplied by a constant: where they lie"
        " against the measured curves is partly an accident of units."
    ),
    4: (
        "The printed margins leave out the sink's own terms; with a strong sink the printed upper"
        " bounds come out too low."
    ),
    6: (
        "The printed margin needs cosines of one sign; the share of negative ones is given with"
        " Assumption 2."
    ),
    8: "The printed lower bound of F at the inner radius does not hold; the sharp edition's does.",
    9: "Why some fitted Grams are marked projected: no vectors have those cosines.",
    12: (
        "At N = 1 Precision and Recall are 1 for any selection; that is not counted as separability"
        " here."
    ),
    13: "κ is not given in print; printed bounds are drawn at κ = 1/8, the sharp ones need none.",
    16: "Where Δ₀ is negative the printed lower bound is near 1 for the wrong reason.",
    17: "At N = L the printed lower bound is exactly 1, and the truth is below it.",
    18: (
        "A negative lower bound of Recall, put into the printed bound of F, has a pole: F's printed"
        " bounds at the inner radius are not read here."
    ),
    30: (
        "The printed lower bound of Recall holds no ρ₀ where the sink is selected: a correlation of"
        " the two that is measured here confirms a measurement of the paper, not its theorem."
    ),
    31: (
        "Why printed lower bounds of Recall lie below 0: how large κC² would have to be at the"
        " paper's own levels."
    ),
    35: "The misfit of the cosines is an absolute error; 0.09 is not 9% of a cosine.",
}
"""Why an erratum matters to someone who reads a report."""


def paper_for_readers() -> dict[str, str]:
    """Return what is known of the paper whatever the run, as JSON: `errata` and `paper_tables`."""
    from theory.paper_tables.settled import settled_tables  # sympy takes its time to load

    told = {"errata": errata_for_readers(), "paper_tables": settled_tables()}
    return {name: json.dumps(rows, ensure_ascii=False) for name, rows in told.items()}


def errata_for_readers() -> list[dict[str, str | int]]:
    """Return the errata of READING: number, title, what is printed, what is true, and why it
    matters.
    """
    from theory.statements import catalogue  # sympy takes its time to load

    out: list[dict[str, str | int]] = []
    for number, matters in READING.items():
        entry = catalogue.find_erratum(number)
        out.append(
            {
                "number": number,
                "title": entry.title,
                "printed": entry.printed,
                "true": entry.true,
                "reading": matters,
            }
        )
    return out
