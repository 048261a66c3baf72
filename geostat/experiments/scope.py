"""Scopes of an intervention (layers, heads) and predicted tokens. Imports the standard library."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from geostat.errors import InputError


@dataclass(frozen=True, slots=True)
class Scope:
    """Layers and heads of an intervention."""

    name: str
    heads: Mapping[int, Sequence[int] | None]
    """Heads by layer; None for all heads of the layer."""


@dataclass(frozen=True, slots=True)
class Target:
    """The predicted tokens of a window (`--target`), validated on creation.

    >>> Target("last:128").of(512), Target("all").of(512)
    (128, 511)
    """

    text: str = "all"

    def __post_init__(self) -> None:
        _ = self.targets

    @property
    def targets(self) -> int | None:
        """Number of predicted tokens at the end of a window; None for all but the first."""
        if self.text == "all":
            return None
        match = re.fullmatch(r"last:(\d{1,9})", self.text)
        if match is None or int(match[1]) < 1:
            raise InputError(
                f"--target {self.text}: expected all, or last:K with an integer K ≥ 1. Use for"
                " instance last:128."
            )
        return int(match[1])

    def of(self, tokens: int) -> int:
        """Return the number of predicted tokens of a window."""
        return tokens - 1 if self.targets is None else self.targets

    def refuse_misfit(self, tokens: int) -> None:
        """Refuse more predicted tokens than a window has."""
        if self.targets is not None and self.targets >= tokens:
            raise InputError(
                f"--target {self.text}: a window of {tokens} tokens has {tokens - 1} to predict."
                f" Use last:{tokens - 1} or fewer, or a longer --length."
            )
