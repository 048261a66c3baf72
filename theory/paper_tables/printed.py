"""Table 2 in print, column by column.

Source: arXiv 2602.01893, Table 2. Imports nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PrintedRegime:
    """A row of Table 2: the sizes N, the composition of I_N, the trend of Δ/B and the effect on
    statistics, as printed.
    """

    sizes: str
    composition: str
    trend: str
    effect: str


PRINTED_REGIMES: dict[str, PrintedRegime] = {
    "I": PrintedRegime("N = 1", "{0} only", "n/a", "All statistics equal to 1"),
    "II": PrintedRegime(
        "1 < N < m₁",
        "{0} + top of tail",
        "↑ (large α_(N), small S_in)",
        "Δ > 0 and large ⇒ bounds near 1",
    ),
    "III": PrintedRegime(
        "m₁ ≤ N < m₂",
        "Add oscillatory peaks",
        "↘ (α_(N) ↓, S_in ↑)",
        "Still high; slow decline. Larger η, ω help.",
    ),
    "IV": PrintedRegime(
        "m₂ ≤ N < m₃",
        "Valleys + 1..T₁ in",
        "⇓ (α_(N) ≈ p_base; jump in S_in)",
        "Δ often ≤ 0; bounds weaken",
    ),
    "V": PrintedRegime(
        "N ≥ m₃",
        "All oscillations + tail",
        "↓ (small α_(N), large S_in)",
        "Weak guarantees; require large d or β",
    ),
}
"""Rows of Table 2 by name; nothing in print defines m₁, m₂ and m₃ (erratum 21)."""
