"""Golden numbers: rationals and decimals of the files in golden/."""

from fractions import Fraction

import numpy as np

from theory.head.ranked import Ranked, Summary, ranked, summarise


def number(text: str) -> float:
    return float(Fraction(text)) if "/" in text else float(text)


def array(texts: list) -> np.ndarray:
    return np.array([array(x) if isinstance(x, list) else number(x) for x in texts])


def given_selection(case: dict) -> tuple[Ranked, Summary]:
    """Return a head whose first ranks are the case's selected set."""
    a, inside = array(case["a"]), case["I"]
    order = np.array(inside + [j for j in range(len(a)) if j not in inside])
    head = ranked(order, a[order], np.ones(len(a)), array(case["rho"]), 0)
    return head, summarise(head, np.array([len(inside)]))
