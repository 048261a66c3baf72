"""Names of ablation modes and selection rules, for option parsing without torch."""

from __future__ import annotations

from typing import Final, Literal

Mode = Literal["deletion", "renormalisation"]
MODES: Final[tuple[Mode, ...]] = ("deletion", "renormalisation")
"""Treatment of the unselected tokens."""
RANKING_NAMES: Final = (
    "attention",
    "contribution",
    "sink-orthogonal",
    "recent",
    "sink-recent",
    "greedy",
)
"""Rules that rank tokens, except random ones; `rules.RANKINGS` holds their functions."""
SET_NAMES: Final = ("sparsemax", "entmax15")
"""Rules that select a set of their own size; `rules.SETS` holds their functions."""
