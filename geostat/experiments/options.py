"""Options and scopes of interventions on attention. Heavy imports are deferred."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from empirical.intervention.names import MODES, Mode
from geostat.errors import InputError, refuse_unknown
from geostat.options import option
from geostat.runs.options import MeasurementOptions


@dataclass(frozen=True, slots=True)
class Scope:
    """Layers and heads of an intervention."""

    name: str
    heads: Mapping[int, Sequence[int] | None]
    """Heads by layer; None for all heads of the layer."""


@dataclass(frozen=True, kw_only=True)
class InterventionOptions(MeasurementOptions):
    """Options of commands that measure losses under interventions."""

    mode: str = option("both", "Treatment of unselected tokens: deletion, renormalisation or both.")
    target: str = option("all", "Predicted tokens: all, or last:K.")

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unknown(self.mode, (*MODES, "both"), f"--mode {self.mode}:", verb="Use")
        if self.targets is not None and self.targets >= self.length:
            raise InputError(
                f"--target {self.target}: a window of {self.length} tokens has {self.length - 1} to"
                f" predict. Use last:{self.length - 1} or fewer, or a longer --length."
            )

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Treatments of unselected tokens."""
        return tuple(mode for mode in MODES if self.mode in (mode, "both"))

    @property
    def targets(self) -> int | None:
        """Number of predicted tokens at the end of a window; None for all but the first."""
        if self.target == "all":
            return None
        match = re.fullmatch(r"last:(\d{1,9})", self.target)
        if match is None or int(match[1]) < 1:
            raise InputError(
                f"--target {self.target}: expected all, or last:K with an integer K ≥ 1. Use for"
                " instance last:128."
            )
        return int(match[1])

    @property
    def predicted(self) -> int:
        """Number of predicted tokens of a window."""
        return self.length - 1 if self.targets is None else self.targets
