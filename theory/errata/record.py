"""What an erratum is: a frozen record with a counterexample that can be evaluated. Imports nothing but its counterexamples' type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from theory.errata.shown_setting import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Erratum:
    """A statement of the paper that does not hold, why, and what does.

    equations: where it stands: equation numbers, or parts such as "Assumption 2" and "Table 1 row beta".
    """

    number: int
    title: str
    printed: str
    why: str
    true: str
    equations: tuple[str, ...]
    counterexample: Callable[[], Finding]

    @property
    def where(self) -> str:
        """Return the places, equation numbers in brackets."""
        return ", ".join(f"({place})" if place.isdigit() else place for place in self.equations)
