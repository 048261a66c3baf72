"""Everything that is wrong in print, by number, and the report a reviewer could be sent.

Errata 1-20 concern the theorems, 21-29 the analysis of Appendix A.2. `python -m theory.errata docs/errata.md` writes the report.
Source: arXiv 2602.01893; equation numbers are the paper's. Imports numpy, through the counterexamples.
"""

from __future__ import annotations

from theory.errata import of_analysis, of_theorems
from theory.errata.record import Erratum
from theory.errata.shown_setting import Finding
from theory.tables import table_2

ERRATA: tuple[Erratum, ...] = (*of_theorems.ERRATA, *of_analysis.ERRATA)
"""All errata, by number."""

COMMAND = ".venv/bin/python -m theory.errata docs/errata.md"

PREFACE = (
    "Report on “Geometric Analysis of Token Selection in Multi-Head Attention” (arXiv 2602.01893)",
    "Numbers in brackets are the paper's equations. Notation is the paper's: a = α‖v‖, I the N selected tokens, J the others, "
    "X_ij = D_j − D_i, D_l = ‖s − y_l‖², μ_ij = E X_ij; and f(x) = 2x/(1+x). The signs ≳ of (12) and ≲ of (13) and (15), which the paper "
    "does not define, are read as ≥ and ≤. Printed bounds are evaluated with κ = 1/8, which the paper leaves open, and with the sink in "
    "a_max_in. Every entry says what is printed, why it fails, what holds instead, and one example at which the two differ, computed anew "
    "whenever this list is printed. Heads are given by their effective weights a, whose sum is free as long as norms are.",
    "Sharp values are exact bounds under Model G, in which the contributions are jointly Gaussian with the assumed Gram matrix; simulated "
    "truth is drawn from it too.",
    "What stands: the reduction to pairs (18)-(25); the steps from (13) and (15) to the upper sides of (16) and (17), and from (12) to the "
    "lower side of (17); and, for independent uniform directions with C ≤ 1 and Σα ≤ 1, the lower bounds (12) and (14) with κ = 1/8, "
    "L + 1 − N for L − N and the sink in a_max_in, where Δ, Δ₀ > 0, the sink is selected and every mean gap μ_ij is at least its margin.",
)
"""What stands before the list."""


def number_of(value: float) -> str:
    """Return a number as the report prints it."""
    return f"{value:.6g}".replace("-", "−")


def shown(found: Finding) -> str:
    """Return the counterexample in one sentence."""
    word = found.what[:2].isascii() and found.what[:2].isalpha()
    what = found.what[0].upper() + found.what[1:] if word else found.what
    return f"{found.given}. {what}: {number_of(found.printed)} as printed, {number_of(found.true)} in truth"


def markdown() -> str:
    """Return the whole report as Markdown, every counterexample evaluated."""
    lines = [f"# {PREFACE[0]}", "", f"Written by `{COMMAND}`; `geostat theory --errata` prints the list.", ""]
    for paragraph in PREFACE[1:]:
        lines += [paragraph, ""]
    lines += ["| | concerns | what |", "|---|---|---|"]
    lines += [f"| {item.number} | {item.where} | {item.title} |" for item in ERRATA]
    for item in ERRATA:
        lines += [
            "",
            f"## {item.number}. {item.title} — {item.where}",
            "",
            f"**Printed.** {item.printed}",
            "",
            f"**Why it fails.** {item.why}",
        ]
        lines += ["", f"**True.** {item.true}", "", f"**Counterexample.** {shown(item.counterexample())}."]
    lines += ["", "## Table 2, row by row", "", table_2.markdown(), "", "Table 1, row by row: [table1.md](table1.md)."]
    return "\n".join(lines) + "\n"
