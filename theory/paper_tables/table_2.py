"""Table 2 with verdicts: the sizes at which the composition of I_N changes, and a verdict on each
printed row.

For 0 < η ≤ 1 tokens enter by weight: the tail from L down to T₂+1, oscillation peaks by falling
cosine, the plateau, valleys; the sink at rank 1 + #{weights above p_sink}. The boundaries m₁, m₂,
m₃, undefined in the paper, follow (`theory.head.attention_profile.regimes`). Source: arXiv
2602.01893, Assumption 3, Figure 4, Table 2 (errata 21-23, 28). Unitless. Imports numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np

from theory.arrays import selection_order
from theory.head.attention_profile import WeightProfile, regimes

Verdict = Literal["right", "conditional", "unclear", "wrong"]
"""Unclear: the statement depends on boundaries that the paper leaves undefined."""

FIGURE_4 = WeightProfile(
    length=1024, plateau_end=100, growth_start=800, p_base=1e-5, p_sink=1e-3, eta=0.01, omega=1.0
)
"""Section 3.3 on Figure 4: plateau 1-100 around 1e-5, oscillation to 800, growth to 1024, a sink
two orders of magnitude above the plateau; η and ω are not given.
"""

GROWTHS, DECAYS, LONGEST_TAIL = np.geomspace(0.005, 1, 30), np.geomspace(0.5, 8, 20), 64
"""Values of η and β of the tested tails, and their length."""


def tail_margin(eta: float, beta: float, selected: int) -> tuple[float, float]:
    """Return Δ and B of eq. (8) for the top `selected` tokens of an exponential tail with largest
    weight 1.

    a = 1, x, x², … with x = e^{−η}: S_in = (1 − x^m)/(1 − x), a_min_in = x^{m−1}, a_max_out =
    x^m, ρ_out = e^{−β}, a_max_in = 1.
    """
    x = np.exp(-eta)
    inside = (1 - x**selected) / (1 - x)
    margin = x ** (2 * selected - 2) - 2 * x**selected * inside * np.exp(-beta)
    return float(margin), float(1 + x**selected + inside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Steps from one size to the next from Δ > 0 in a tail, and how often Δ/B grew."""

    grew: int
    steps: int


def tail_trend() -> Trend:
    """Return how often Δ/B grows as tail tokens enter (never: Δ falls and B rises)."""
    grew = steps = 0
    for eta, beta in product(GROWTHS, DECAYS):
        before = tail_margin(eta, beta, 1)
        for selected in range(2, LONGEST_TAIL):
            if before[0] <= 0:
                break
            after = tail_margin(eta, beta, selected)
            steps, grew = steps + 1, grew + (after[0] / after[1] > before[0] / before[1])
            before = after
    return Trend(grew=grew, steps=steps)


def figure_4_profile() -> WeightProfile:
    """Return the profile of Section 3.3 with ω = 1 and the η that gives Σα = 1 (bisection)."""
    low, high = 1e-6, 0.2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if replace(FIGURE_4, eta=middle).weights().sum() < 1 else (low, middle)
        )
    return replace(FIGURE_4, eta=low)


@dataclass(frozen=True, slots=True)
class RegimeRow:
    """A row of Table 2. As printed: the sizes N, the composition of I_N, the trend of Δ/B and the
    effect on statistics (the paper does not define m₁, m₂ and m₃, erratum 21). Then the correct
    statement, the verdict and its numeric evidence.
    """

    row: str
    sizes: str
    composition: str
    trend: str
    effect: str
    true: str
    verdict: Verdict
    evidence: Callable[[], str]


EXAMPLE = WeightProfile(length=40, plateau_end=10, growth_start=30, p_sink=0.5, eta=0.2, omega=0.7)
"""Example profile with every phase."""


def _row_1() -> str:
    result = figure_4_profile()
    first = selection_order(result.weights())[0]
    return (
        "the levels of Section 3.3 (p_base = 1e-5, p_sink = 1e-3, growth over 224 positions) sum to"
        f" 1 at eta = {result.eta:.4f}: the sink has rank {regimes(result).sink_rank} and I_1 ="
        f" {{{first}}}"
    )


def _row_2() -> str:
    result = tail_trend()
    return (
        f"Delta/B grew in {result.grew} of {result.steps} steps that start at Delta > 0, over 30"
        " eta and 20 beta"
    )


def _row_3() -> str:
    frequencies = np.linspace(0.05, 3.1, 62)
    profiles = [replace(EXAMPLE, omega=float(omega)) for omega in frequencies]
    waves = [profile.weights()[1:][profile.oscillates()] for profile in profiles]
    steps = np.diff([np.sort(wave)[-3:].sum() for wave in waves])
    return (
        f"the three highest peaks together rise in {int((steps > 0).sum())} and fall in"
        f" {int((steps < 0).sum())} of {len(steps)} steps of omega from 0.05 to 3.1"
    )


def _row_4() -> str:
    result, order = regimes(EXAMPLE), selection_order(EXAMPLE.weights()).tolist()
    plateau, valley = order.index(1) + 1, result.m3
    return (
        f"L = 40, T1 = 10, T2 = 30, eta = 0.2, omega = 0.7: the plateau enters from N = {plateau},"
        f" the first valley at N = {valley}"
    )


def _row_5() -> str:
    result, order = regimes(EXAMPLE), selection_order(EXAMPLE.weights()).tolist()
    last = max(order.index(i) for i in range(31, 41)) + 1
    return (
        f"same profile: the tail is complete at N = {last}, {result.m3 - last} sizes before"
        " regime V"
    )


TABLE_2: tuple[RegimeRow, ...] = (
    RegimeRow(
        "I",
        "N = 1",
        "{0} only",
        "n/a",
        "All statistics equal to 1",
        "P = R = 1 for any single token; it is the sink only if p_sink is the largest weight.",
        "conditional",
        _row_1,
    ),
    RegimeRow(
        "II",
        "1 < N < m₁",
        "{0} + top of tail",
        "↑ (large α_(N), small S_in)",
        "Δ > 0 and large ⇒ bounds near 1",
        "With m₁ = L − T₂ + 2 and the sink first the composition holds; Δ/B falls while Δ > 0: Δ"
        " falls, B rises.",
        "wrong",
        _row_2,
    ),
    RegimeRow(
        "III",
        "m₁ ≤ N < m₂",
        "Add oscillatory peaks",
        "↘ (α_(N) ↓, S_in ↑)",
        "Still high; slow decline. Larger η, ω help.",
        "With m₂ = m₁ + n₊ the composition holds. Larger ω alternately helps and harms (erratum"
        " 23).",
        "wrong",
        _row_3,
    ),
    RegimeRow(
        "IV",
        "m₂ ≤ N < m₃",
        "Valleys + 1..T₁ in",
        "⇓ (α_(N) ≈ p_base; jump in S_in)",
        "Δ often ≤ 0; bounds weaken",
        "m₂ and m₃ are undefined in print. The plateau enters before the valleys, so with m₃ = L +"
        " 2 − n₋ row IV adds the plateau alone.",
        "unclear",
        _row_4,
    ),
    RegimeRow(
        "V",
        "N ≥ m₃",
        "All oscillations + tail",
        "↓ (small α_(N), large S_in)",
        "Weak guarantees; require large d or β",
        "m₃ is undefined in print. With m₃ = L + 2 − n₋ row V adds the valleys; the tail has been"
        " in since regime II.",
        "unclear",
        _row_5,
    ),
)
"""Rows of Table 2."""


def markdown() -> str:
    """Return Table 2 with its verdicts as a Markdown table.

    Example:
        >>> markdown().splitlines()[0]
        '| row | N | composition of I_N | trend of Δ/B | effect | true | verdict | numbers |'
    """
    columns = ("row", "N", "composition of I_N", "trend of Δ/B", "effect", "true")
    lines = [f"| {' | '.join((*columns, 'verdict', 'numbers'))} |", f"|{'---|' * 8}"]
    for row in TABLE_2:
        cells = (row.row, row.sizes, row.composition, row.trend, row.effect, row.true, row.verdict)
        lines.append(f"| {' | '.join((*cells, row.evidence()))} |")
    return "\n".join(lines)
