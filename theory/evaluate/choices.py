"""Options of an evaluation, checked: edition, readings of ambiguous definitions, convention, and
known properties of the head.

Source: arXiv 2602.01893; errata 2 and 15 list the ambiguous definitions. Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Required, TypedDict, get_args

import numpy as np

from theory.errors import InputError
from theory.head.results import KAPPA, UNDER_MODEL_G, Convention, Edition


class Choices(TypedDict, total=False):
    """Edition, readings of ambiguous definitions, known properties: see `theory.envelope`."""

    edition: Required[Edition]
    kappa: float | None
    sink: int | None
    delta0: Literal["out", "in"]
    sink_in_b: bool
    convention: Convention
    feasible: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Checked `Choices`. fast: use the tabulated sharp law."""

    fast: bool
    edition: Edition
    kappa: float | None = None
    sink: int | None = 0
    delta0: Literal["out", "in"] = "out"
    sink_in_b: bool = True
    convention: Convention = "paper"
    feasible: bool | None = None

    def __post_init__(self) -> None:
        for name, allowed in (
            ("edition", get_args(Edition)),
            ("delta0", ("out", "in")),
            ("convention", get_args(Convention)),
        ):
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"{name} is {getattr(self, name)!r}, expected one of {', '.join(allowed)}."
                )
        if self.followup and self.edition not in UNDER_MODEL_G:
            raise InputError(
                f"convention 'followup' has no {self.edition} edition, expected 'paper'. Use"
                " edition='sharp' with 'followup'."
            )
        if self.kappa is not None and not 0 < self.kappa < np.inf:
            raise InputError(
                f"kappa is {self.kappa}, expected a finite constant > 0. Leave it out for 1/8."
            )

    @property
    def constant(self) -> float:
        """Return κ of the tails; 1/8 by default."""
        return KAPPA if self.kappa is None else float(self.kappa)

    @property
    def followup(self) -> bool:
        """Return whether the convention has strict inner balls and one F."""
        return self.convention == "followup"
