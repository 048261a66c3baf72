"""What an ablation is asked for. Imports the standard library."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal

from geostat.errors import InputError, refuse_unknown
from geostat.runs.effective.target import Target

PARTS: Final = ("heads", "budgets", "regimes", "context")
USUAL: Final = "heads,budgets,regimes"
CONTEXT_TAU: Final = 0.05
"""Share by which the loss may rise at a context's N*."""
Mode = Literal["deletion", "renormalisation"]
MODES: Final[tuple[Mode, ...]] = ("deletion", "renormalisation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked for, as the command's options have it; checked when made."""

    parts: str = USUAL
    mode: str = "renormalisation"
    sizes: str = "1,8,64"
    tau: float = 0.001
    budgets: str = "8,16,32"
    draws: int = 20
    contexts: str = "64,128,256"
    target: str = "all"

    def __post_init__(self) -> None:
        for part in self.parts.split(","):
            refuse_unknown(part, PARTS, f"--part {part}:", verb="Name")
        refuse_unknown(self.mode, (*MODES, "both"), f"--mode {self.mode}:", verb="Use")
        if not isinstance(self.tau, int | float) or not 0 < self.tau < math.inf:
            raise InputError(f"--tau {self.tau}: expected a share above 0. Use for instance .001.")
        if not isinstance(self.draws, int) or not 1 <= self.draws <= 10_000:
            raise InputError(
                f"--draws {self.draws}: expected a whole number from 1 to 10000. Use for instance"
                " 20."
            )
        _ = self.tried, self.shared, self.of_contexts, self.targeted
        if {"budgets", "heads"} <= set(self.measured) and self.tried[0] != 1:
            raise InputError(
                f"--sizes {self.sizes}: the greedy budget starts from N = 1, which is missing. Add"
                " it."
            )

    @property
    def measured(self) -> tuple[str, ...]:
        """Parts, in the order in which they are measured."""
        return tuple(part for part in PARTS if part in self.parts.split(","))

    @property
    def modes(self) -> tuple[Mode, ...]:
        """What becomes of the tokens that are not kept."""
        return tuple(mode for mode in MODES if self.mode in (mode, "both"))

    @property
    def tried(self) -> tuple[int, ...]:
        """Tokens that a head keeps where it alone is cut, ascending."""
        return _numbers("--sizes", self.sizes)

    @property
    def shared(self) -> tuple[int, ...]:
        """Budgets, in tokens a head, ascending."""
        return _numbers("--budgets", self.budgets)

    @property
    def looked_at(self) -> tuple[int, ...]:
        """N at which curves of heads are needed, ascending."""
        return tuple(sorted({*self.tried, *self.shared}))

    @property
    def of_contexts(self) -> tuple[int, ...]:
        """Contexts, in tokens, ascending; none where that part is not asked for."""
        if "context" not in self.measured:
            return ()
        found = _numbers("--contexts", self.contexts)
        least = 1 if self.targeted.targets is None else self.targeted.targets
        if self.targeted.targets is None or len(found) < 2 or found[0] <= least:
            raise InputError(
                f"--contexts {self.contexts}, --target {self.target}: expected two contexts or"
                " more, and targets last:K that all of them hold. Use for instance --target"
                f" last:{max(1, found[0] // 2)}."
            )
        return found

    @property
    def targeted(self) -> Target:
        """Which tokens are predicted."""
        return Target(self.target)

    def refuse_misfit(self, tokens: int) -> None:
        """Refuse sizes at which nothing is cut, and contexts that a window does not hold."""
        if self.of_contexts and self.of_contexts[-1] > tokens:
            raise InputError(
                f"--contexts {self.of_contexts[-1]}: a window has {tokens} tokens. Use fewer, or a"
                " longer --length."
            )
        options = (("--sizes", self.tried, "heads"), ("--budgets", self.shared, "budgets regimes"))
        for option, numbers, parts in options:
            if numbers[-1] >= tokens and set(parts.split()) & set(self.measured):
                raise InputError(
                    f"{option} {numbers[-1]}: a window has {tokens} tokens, so nothing would be"
                    f" cut. Use less than {tokens}, or a longer --length."
                )


def _numbers(option: str, text: str) -> tuple[int, ...]:
    """Read whole numbers with commas between."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\d{1,9}", part) and int(part) for part in parts):
        raise InputError(
            f"{option} {text}: expected whole numbers from 1 with commas between. Use for instance"
            " 1,8,64."
        )
    return tuple(sorted({int(part) for part in parts}))
