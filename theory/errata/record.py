"""Errata: what is wrong in print, in words (errata.toml), each with a counterexample that is
evaluated when it is asked for; and all as Markdown.

Source: arXiv 2602.01893; equation numbers are the paper's. Errata 1-20 concern the theorems, 21-29
the analysis of Appendix A.2. `python -m theory.errata` writes the report, by number, that a
reviewer could be sent. Imports numpy, through the counterexamples, when one is evaluated.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A number as printed, the true one, and whether they contradict in the way the erratum says.

    what: the quantity. given: the head or the numbers it is computed from.
    """

    printed: float
    true: float
    shown: bool
    what: str
    given: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Erratum:
    """A statement of the paper that does not hold, why, and what does.

    equations: where it stands: equation numbers, or parts such as "Assumption 2" and "Table 1 row
    beta". what, given: of its counterexample, with the numbers that it quotes in braces. shown_by:
    the function that computes it, "module.name".
    """

    number: int
    title: str
    equations: tuple[str, ...]
    printed: str
    why: str
    true: str
    what: str
    given: str
    shown_by: str

    @property
    def where(self) -> str:
        """Return the places, equation numbers in brackets."""
        return ", ".join(f"({place})" if place.isdigit() else place for place in self.equations)

    def counterexample(self) -> Finding:
        """Evaluate the counterexample."""
        from theory.errata import counterexamples, counterexamples_tables

        modules = {
            "counterexamples": counterexamples,
            "counterexamples_tables": counterexamples_tables,
        }
        module, name = self.shown_by.split(".")
        numbers = getattr(modules[module], name)()
        what, given = (
            text.format(**numbers.quoted) if numbers.quoted else text
            for text in (self.what, self.given)
        )
        return Finding(
            printed=numbers.printed,
            true=numbers.true,
            shown=numbers.contradict,
            what=what,
            given=given,
        )


_WORDS = tomllib.loads(Path(__file__).with_name("errata.toml").read_text(encoding="utf-8"))

PREFACE: tuple[str, ...] = tuple(_WORDS["preface"])
"""What stands before the list."""

ERRATA: tuple[Erratum, ...] = tuple(
    Erratum(**words | {"equations": tuple(words["equations"])}) for words in _WORDS["erratum"]
)
"""All errata, by number."""

COMMAND = ".venv/bin/python -m theory.errata docs/errata.md"


def number_of(value: float) -> str:
    """Return a number as the report prints it."""
    return f"{value:.6g}".replace("-", "−")


def example_sentence(finding: Finding) -> str:
    """Return the counterexample in one sentence."""
    word = finding.what[:2].isascii() and finding.what[:2].isalpha()
    what = finding.what[0].upper() + finding.what[1:] if word else finding.what
    return (
        f"{finding.given}. {what}: {number_of(finding.printed)} as printed,"
        f" {number_of(finding.true)} in truth"
    )


def markdown() -> str:
    """Return the whole report as Markdown, every counterexample evaluated."""
    from theory.paper_tables import table_2

    lines = [
        f"# {PREFACE[0]}",
        "",
        f"Written by `{COMMAND}`; `geostat theory --errata` prints the list.",
        "",
    ]
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
        lines += [
            "",
            f"**True.** {item.true}",
            "",
            f"**Counterexample.** {example_sentence(item.counterexample())}.",
        ]
    lines += [
        "",
        "## Table 2, row by row",
        "",
        table_2.markdown(),
        "",
        "Table 1, row by row: [table1.md](table1.md).",
    ]
    return "\n".join(lines) + "\n"
