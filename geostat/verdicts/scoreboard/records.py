"""Records of a key result: its answer, its number, its counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Answer = Literal["holds", "fails", "mixed", "undetermined"]
"""Mixed: neither holds nor fails in most heads, but either in most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number with its 95% interval, over documents or, of bounds, value heads; None for what is
    not known.
    """

    of: str
    value: float | None
    lower: float | None = None
    upper: float | None = None
    expected: float | None = None
    """What it would be if the assumptions were true as fitted, where that is known."""
    tolerated: float | None = None
    """Up to where the claim asks a head's own number to lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many of what is counted hold, fail, or are undetermined; no_estimate: have no number."""

    of: str
    holds: int = 0
    fails: int = 0
    undetermined: int = 0
    no_estimate: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.holds + self.fails + self.undetermined + self.no_estimate


@dataclass(frozen=True, slots=True)
class KeyResult:
    """One answer. claim: the verdict that its heads are counted by, where there is one."""

    key: str
    answer: Answer
    verdict: str
    number: Number
    counts: Counts
    claim: str = ""
    tokens: int | None = None
    """T of the layers it is of, where layers see different numbers of tokens."""
