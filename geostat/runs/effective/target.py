"""Which tokens of a window are predicted. Imports the standard library."""

from __future__ import annotations

import re
from dataclasses import dataclass

from geostat.errors import InputError


@dataclass(frozen=True, slots=True)
class Target:
    """`--target`, checked when made.

    >>> Target("last:128").of(512), Target("all").of(512)
    (128, 511)
    """

    text: str = "all"

    def __post_init__(self) -> None:
        _ = self.targets

    @property
    def targets(self) -> int | None:
        """How many tokens at a window's end are predicted; None: all but the first."""
        if self.text == "all":
            return None
        match = re.fullmatch(r"last:(\d{1,9})", self.text)
        if match is None or int(match[1]) < 1:
            raise InputError(
                f"--target {self.text}: expected all, or last:K with a whole number from 1. Use"
                " for instance last:128."
            )
        return int(match[1])

    def of(self, tokens: int) -> int:
        """Return how many tokens of a window are predicted."""
        return tokens - 1 if self.targets is None else self.targets

    def refuse_misfit(self, tokens: int) -> None:
        """Refuse more targets than a window has."""
        if self.targets is not None and self.targets >= tokens:
            raise InputError(
                f"--target {self.text}: a window of {tokens} tokens has {tokens - 1} to predict."
                f" Use last:{tokens - 1} or fewer, or a longer --length."
            )
