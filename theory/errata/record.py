"""Errata: false, undefined or unproven statements of the papers (text in errata.toml), each with a
grade and an example evaluated on demand; Markdown report.

Source: arXiv 2602.01893; equation numbers are the paper's. Errata 1-20 concern the theorems, 21-29
the analysis of Appendix A.2, 30-44 claims and omissions of the text. Those from 101 on concern
arXiv 2508.17821 (normaliser.toml). `python -m theory.errata` writes a report addressed to the
authors. Imports numpy when a counterexample is evaluated.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from theory.errata.counterexamples import Numbers

Grade = Literal["false", "undefined", "gap", "true of the bound, not of the quantity", "remark"]
"""Grade of an erratum: a claim that fails under its hypotheses; a symbol or an expectation without
a meaning; a step that does not follow and is repaired without changing the claim; a claim that
holds only for the printed bound; none of these.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erratum:
    """A statement of the paper that needs correction, the reason, and the corrected statement.

    equations: its places: equation numbers, or parts such as "Assumption 2", "Figure 5" and "Table
    1 row beta". what, given: quantity and head of the example, with quoted numbers in braces
    (`filled`). shown_by: the function of `theory.errata.counterexamples` that computes it.
    compared: labels of the two numbers. digits: their significant digits.
    """

    number: int
    title: str
    grade: Grade
    equations: tuple[str, ...]
    printed: str
    why: str
    true: str
    what: str
    given: str
    shown_by: str
    compared: tuple[str, str] = ("as printed", "correct")
    digits: int = 6

    def __post_init__(self) -> None:
        if self.grade not in get_args(Grade):
            raise ValueError(
                f"erratum {self.number} has grade {self.grade!r}, expected one of"
                f" {', '.join(get_args(Grade))}."
            )

    @property
    def where(self) -> str:
        """Return the places: equations in brackets, those of the second paper by arXiv number."""
        places = (f"({place})" if place.isdigit() else place for place in self.equations)
        return ", ".join(place.replace("Normaliser ", "arXiv 2508.17821, ") for place in places)

    def counterexample(self) -> Numbers:
        """Evaluate the example."""
        return _numbers(self.shown_by)

    def filled(self, text: str) -> str:
        """Return the text with "{name}" and "{name:format}" replaced by the quoted numbers."""
        quoted = self.counterexample().quoted

        def number(match: re.Match[str]) -> str:
            name, how = match["name"], match["how"] or ""
            return format(quoted[name], how).replace("-", "−") if name in quoted else match[0]

        return re.sub(r"\{(?P<name>\w+)(?::(?P<how>[^}]*))?\}", number, text)


@cache
def _numbers(shown_by: str) -> Numbers:
    from theory.errata import counterexamples

    numbers: Numbers = getattr(counterexamples, shown_by)()
    return numbers


def _words(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


_WORDS, _NORMALISER = _words("errata.toml"), _words("normaliser.toml")

PREFACE: tuple[str, ...] = tuple(_WORDS["preface"])
"""Paragraphs before the list."""


def _erratum(words: dict[str, Any]) -> Erratum:
    """Return an erratum from its fields in errata.toml, lists as tuples."""
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in words.items()}
    return Erratum(**fields)


ERRATA: tuple[Erratum, ...] = tuple(_erratum(words) for words in _WORDS["erratum"])
"""All errata of arXiv 2602.01893, by number."""

OF_NORMALISER: tuple[Erratum, ...] = tuple(_erratum(words) for words in _NORMALISER["erratum"])
"""All errata of arXiv 2508.17821, by number, from 101 on."""

COMMAND = ".venv/bin/python -m theory.errata docs/reference/errata.md"


def number_of(value: float, digits: int) -> str:
    """Return a number as text with `digits` significant digits."""
    return f"{value:.{digits}g}".replace("-", "−")


def example_sentence(erratum: Erratum) -> str:
    """Return the example as one sentence."""
    example, what = erratum.counterexample(), erratum.filled(erratum.what)
    if what[:2].isascii() and what[:2].isalpha():
        what = what[0].upper() + what[1:]
    numbers = [
        f"{number_of(value, erratum.digits)} ({label})"
        for value, label in zip((example.printed, example.true), erratum.compared, strict=True)
    ]
    return f"{erratum.filled(erratum.given)}. {what}: {', '.join(numbers)}"


def sentences(erratum: Erratum) -> tuple[tuple[str, str], ...]:
    """Return the labelled texts of an erratum, with the example evaluated."""
    return (
        ("Printed", erratum.printed),
        ("Why", erratum.why),
        ("Instead", erratum.true),
        ("Example", f"{example_sentence(erratum)}."),
    )


def markdown() -> str:
    """Return the report as Markdown, with every example evaluated."""
    from theory.paper_tables import table_2

    lines = [
        f"# {PREFACE[0]}",
        "",
        f"Written by `{COMMAND}`; `geostat theory --errata` prints the list.",
        "",
    ]
    for paragraph in PREFACE[1:]:
        lines += [paragraph, ""]
    lines += _listed(ERRATA)
    lines += [
        "",
        "## Table 2, row by row",
        "",
        table_2.markdown(),
        "",
        "Table 1, row by row: [Table 1](../studies/table1.md).",
    ]
    lines += [line for paragraph in _NORMALISER["preface"] for line in ("", paragraph)]
    lines += ["", *_listed(OF_NORMALISER)]
    return "\n".join(lines) + "\n"


def _listed(errata: tuple[Erratum, ...]) -> list[str]:
    """Return a table of errata and a section for each, with the examples evaluated."""
    lines = ["| | concerns | what | grade |", "|---|---|---|---|"]
    lines += [f"| {item.number} | {item.where} | {item.title} | {item.grade} |" for item in errata]
    for item in errata:
        lines += ["", f"## {item.number}. {item.title} — {item.where}", "", f"*{item.grade}*"]
        for label, text in sentences(item):
            lines += ["", f"**{label}.** {text}"]
    return lines
