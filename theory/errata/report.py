"""Report of the errata: everything that is wrong in print, by number, as Markdown that a reviewer could be sent.

`python -m theory.errata docs/errata.md` writes it. Imports numpy, through the counterexamples.
"""

from __future__ import annotations

from theory.errata.record import ERRATA, PREFACE, Finding

COMMAND = ".venv/bin/python -m theory.errata docs/errata.md"


def number_of(value: float) -> str:
    """Return a number as the report prints it."""
    return f"{value:.6g}".replace("-", "−")


def example_sentence(finding: Finding) -> str:
    """Return the counterexample in one sentence."""
    word = finding.what[:2].isascii() and finding.what[:2].isalpha()
    what = finding.what[0].upper() + finding.what[1:] if word else finding.what
    return f"{finding.given}. {what}: {number_of(finding.printed)} as printed, {number_of(finding.true)} in truth"


def markdown() -> str:
    """Return the whole report as Markdown, every counterexample evaluated."""
    from theory.paper_tables import table_2

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
        lines += ["", f"**True.** {item.true}", "", f"**Counterexample.** {example_sentence(item.counterexample())}."]
    lines += ["", "## Table 2, row by row", "", table_2.markdown(), "", "Table 1, row by row: [table1.md](table1.md)."]
    return "\n".join(lines) + "\n"
