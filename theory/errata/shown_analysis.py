"""Numbers that contradict Appendix A.2: Tables 1 and 2, eq. (32)-(33), and Figure 4 against Assumption 3.

Source: arXiv 2602.01893; equation numbers are the paper's. Each function shows the erratum it names. Simulation is under Model G with a
fixed seed. Imports numpy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from theory.arrays import selection_order
from theory.errata.shown_setting import FOUR, Finding, four, head_of
from theory.head.weights import regimes
from theory.tables.neighbours import Head, Point, one_more
from theory.tables.table_1 import true_change
from theory.tables.table_2 import EXAMPLE, alias, entry_order, figure_4_profile, sink_rank, tail_trend

TABLE_1_POINT = Point(
    length=32, plateau_end=8, growth_start=24, n=4, dimension=32, beta=2.0, eta=0.3, omega=0.7, p_sink=0.4, sink_ratio=0.5
)
"""A head with Δ > 0 and Δ₀ > 0, for Table 1."""

IN_WORDS = "L = 32, T₁ = 8, T₂ = 24, η = 0.3, ω = 0.7, p_sink = 0.4, Σα = 1, d = 32, ρ₀ = 0, κ = 1/8"

DRAWS = 4000
"""Simulated heads of a counterexample."""


def _change(before: Head, after: Head) -> tuple[float, float, float]:
    """Return the change of the printed lower bound of E P, of the true E P, and its standard error."""
    low, high = (float(head.bounds("printed").precision_lower[0]) for head in (before, after))
    seen = true_change(before, after, draws=DRAWS, seed=1)
    return high - low, seen.precision, seen.precision_se


def order_of_entry() -> Finding:
    """Erratum 21: valleys enter last."""
    found, order = regimes(EXAMPLE), entry_order(EXAMPLE).tolist()
    plateau = min(order.index(i) for i in range(1, EXAMPLE.plateau_end + 1)) + 1
    assert order == selection_order(EXAMPLE.weights()).tolist()
    return Finding(
        printed=plateau,
        true=found.m3,
        shown=plateau == found.m2 < found.m3,
        what="size N at which the first valley enters",
        given="L = 40, T₁ = 10, T₂ = 30, η = 0.2, ω = 0.7, p_sink = 0.5",
    )


def trend_of_the_tail() -> Finding:
    """Erratum 22: Δ/B falls in the tail."""
    found = tail_trend()
    return Finding(
        printed=found.steps,
        true=found.grew,
        shown=found.grew == 0 < found.steps,
        what="steps from N to N + 1 within the tail, of all with Δ > 0, at which Δ/B grows",
        given="C = 1, 30 values of η from 0.005 to 1 and 20 of β from 0.5 to 8, N − 1 from 1 to 63",
    )


def frequency() -> Finding:
    """Erratum 23: ω and 2π − ω cannot be told apart."""
    low, high = (replace(TABLE_1_POINT, n=10, omega=omega).head().bounds("printed").precision_lower[0] for omega in (0.7, alias(0.7)))
    change = float(high - low)
    return Finding(
        printed=1.0,
        true=float(np.sign(change)) if abs(change) > 1e-12 else 0.0,
        shown=abs(change) <= 1e-12,
        what="sign of the change of every bound as ω rises from 0.7 to 2π − 0.7 ≈ 5.58",
        given=f"{IN_WORDS.replace('ω = 0.7, ', '')}, β = 2, N = 10, the peaks being entered",
    )


def decay() -> Finding:
    """Erratum 24: larger β lowers the truth."""
    bound, truth, error = _change(TABLE_1_POINT.head(), replace(TABLE_1_POINT, beta=4.0).head())
    return Finding(
        printed=bound,
        true=truth,
        shown=bound > 0 and truth < -8 * error,
        what=f"change of the lower bound of E P, against that of E P itself (standard error {error:.2g}), from β = 2 to β = 4",
        given=f"{IN_WORDS}, λ = 1/2, N = 4; Δ, Δ₀ > 0 at both",
    )


def count_of_pairs() -> Finding:
    """Erratum 25: the count of pairs first rises with N."""
    length = 1023
    printed = (length - 4) - (length - 2)
    true = 3 * (length + 1 - 4) / 4 - (length + 1 - 2) / 2
    return Finding(
        printed=printed,
        true=true,
        shown=printed < 0 < true,
        what="change of the count in front of the content's tail, from N = 2 to N = 4",
        given="L = 1023, 0 ∈ I_N; √(L+1) = 32",
    )


def heavier_sink() -> Finding:
    """Erratum 26: a heavier sink lowers the truth."""
    point = replace(TABLE_1_POINT, n=3)
    bound, truth, error = _change(point.head(), replace(point, sink_ratio=1.0).head())
    return Finding(
        printed=bound,
        true=truth,
        shown=bound > 0 and truth < -8 * error,
        what=f"change of the lower bound of E P, against that of E P itself (standard error {error:.2g}), from λ = 1/2 to λ = 1",
        given=f"{IN_WORDS}, β = 2, N = 3; Δ, Δ₀ > 0 at both",
    )


def pull_of_the_sink() -> Finding:
    """Erratum 27: a negative ρ₀ draws tokens closer, by a₀ and not by a_i."""
    rho0, token = -0.3, 2
    distances = []
    for cosine in (rho0, 0.0):
        head, summary = head_of(*four(cosine), [0, 3])
        by_rank = summary.sigma_ss[0] + head.a**2 - 2 * summary.sigma[0]
        distances.append(float(by_rank[head.order.tolist().index(token)]))
    a, _ = four()
    printed, true = 2 * a[token] * a[3] * rho0, distances[0] - distances[1]
    return Finding(
        printed=printed,
        true=true,
        shown=true < 0 and bool(np.isclose(true, 2 * a[0] * rho0 * (a[3] - a[token]))) and not np.isclose(printed, true),
        what="change of E D_2 from ρ₀ = 0 to ρ₀ = −0.3 (to first order in print)",
        given=f"{FOUR}, I = {{0, 3}}",
    )


def rank_of_the_sink() -> Finding:
    """Erratum 28: Figure 4's numbers do not put the sink first."""
    profile = figure_4_profile()
    rank = sink_rank(profile)
    return Finding(
        printed=1.0,
        true=rank,
        shown=rank > 1 and int(selection_order(profile.weights())[0]) == profile.length,
        what="N from which the sink is selected",
        given=f"L = 1024, T₁ = 100, T₂ = 800, p_base = 10⁻⁵, p_sink = 10⁻³; Σα = 1 then gives η = {profile.eta:.4f}",
    )


def peaks() -> Finding:
    """Erratum 29: a peak that enters need not help."""
    point = replace(TABLE_1_POINT, n=regimes(TABLE_1_POINT.profile()).m1 - 1)
    pair = one_more(point, "peak")
    assert pair is not None
    seen = true_change(*pair, draws=DRAWS, seed=1)
    return Finding(
        printed=1.0,
        true=float(np.sign(seen.recall)),
        shown=seen.recall < -8 * seen.recall_se,
        what=f"sign of the change as the first peak enters; E R changes by −{-seen.recall:.3f} (standard error {seen.recall_se:.2g})",
        given=f"{IN_WORDS}, β = 2, λ = 1/2, N = {point.n} to {point.n + 1}",
    )
