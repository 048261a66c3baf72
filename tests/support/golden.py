"""Golden numbers: rationals and decimals from the files in golden/."""

import json
from fractions import Fraction
from typing import Any

import numpy as np
from support.places import GOLDEN

from theory.head.ranked import Ranked, Summary, ranked, summarise

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in json.loads((GOLDEN / "theory.json").read_text())["cases"]
}
"""Cases of theory.json by name: exact arithmetic."""

SMALL: dict[str, Any] = json.loads((GOLDEN / "small_heads.json").read_text())
"""Small heads on which an edition once failed, with simulated truth."""


def names_of(kind: str) -> list[str]:
    return [name for name, case in CASES.items() if case["kind"] == kind]


def number(text: str) -> float:
    return float(Fraction(text)) if "/" in text else float(text)


def array(texts: list) -> np.ndarray:
    return np.array([array(x) if isinstance(x, list) else number(x) for x in texts])


def given_selection(case: dict) -> tuple[Ranked, Summary]:
    """Return a head whose first ranks are the case's selected set."""
    a, inside = array(case["a"]), case["I"]
    order = np.array(inside + [j for j in range(len(a)) if j not in inside])
    head = ranked(order, a[order], array(case["rho"]), 0)
    return head, summarise(head, np.array([len(inside)]))
