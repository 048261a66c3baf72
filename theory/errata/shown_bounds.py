"""Numbers that contradict the printed bounds themselves, for each erratum that concerns them.

Source: arXiv 2602.01893; equation numbers are the paper's. Each function shows the erratum it names. Imports numpy only.
"""

from __future__ import annotations

import numpy as np

from theory.editions.printed import floor_probability, harmonic
from theory.errata.shown_setting import FOUR, Finding, bounds_of, four, head_of, short_sink
from theory.head.gram import exponential


def lower_tail() -> Finding:
    """Erratum 7: a lower tail from an upper-tail condition."""
    alpha, gram = [0.6, 0.4, 0.05], np.eye(3)
    printed = float(bounds_of(alpha, gram, 64, 2, "printed", sink=None).recall_upper[0])
    true = float(bounds_of(alpha, gram, 64, 2, "sharp", sink=None).recall_lower[0])
    return Finding(
        printed=printed,
        true=true,
        shown=true > printed + 0.05,
        what="printed upper bound of E R, against its sharp lower bound",
        given="a = (0.6, 0.4, 0.05), independent directions, no sink, d = 64, N = 2, κ = 1/8",
    )


def concave() -> Finding:
    """Erratum 8: F(r_min) is concave in R."""
    recall = np.array([0.0, 1.0])
    printed, true = float(harmonic(recall.mean())), float(harmonic(recall).mean())
    return Finding(
        printed=printed,
        true=true,
        shown=true < printed,
        what="f(E R), against E F(r_min) where R is 0 or 1 with probability ½",
        given="R = 0 or R = 1, each with probability ½",
    )


def jump() -> Finding:
    """Erratum 11: the floor jumps."""
    printed = float(floor_probability(0.0))
    return Finding(
        printed=printed,
        true=0.5,
        shown=printed == 0.0 and float(floor_probability(-1e-12)) == 0.5,
        what="p̲ at ξ = 0, a floor of ½",
        given="ξ = 0, and ξ = −10⁻¹² for the other side",
    )


def only_the_sink() -> Finding:
    """Erratum 12: one selected token."""
    alpha, gram = [0.5, 0.1, 0.2], exponential(float(np.log(4)), 0.1, 3)
    found = bounds_of(alpha, gram, 128, 1, "printed")
    truth = float(bounds_of(alpha, gram, 128, 1, "sharp").precision_lower[0])
    upper = float(found.precision_upper[0])
    return Finding(
        printed=upper,
        true=truth,
        shown=bool(np.isnan(found.margin[0])) and upper < truth,
        what="upper bound of E P at N = 1, P = 1",
        given="a = (0.5, 0.1, 0.2), e^{−β} = 1/4, ρ₀ = 0.1, d = 128, N = 1",
    )


def kappa() -> Finding:
    """Erratum 13: κ is nowhere given."""
    a, gram = four()
    low, high = (float(bounds_of(a, gram, 128, 2, "printed", kappa=kappa).precision_lower[0]) for kappa in (0.125, 2.0))
    sharp = [float(bounds_of(a, gram, 128, 2, "sharp", kappa=kappa).precision_lower[0]) for kappa in (0.125, 2.0)]
    return Finding(
        printed=high - low,
        true=sharp[1] - sharp[0],
        shown=high - low > 0.3,
        what="lower bound of E P from κ = 1/8 to κ = 2",
        given=f"{FOUR}, ρ₀ = 0.1, d = 128, N = 2",
    )


def closed_balls() -> Finding:
    """Erratum 14: closed balls."""
    # In one dimension: s = 3, squared distances 1, 4 inside and 9, 4 outside; the nearest outside lies on the inner sphere.
    inside, outside = np.array([1.0, 4.0]), np.array([9.0, 4.0])
    k_in, k_out = int((inside <= outside.min()).sum()), int((outside <= outside.min()).sum())
    true = k_in / (k_in + k_out)
    return Finding(
        printed=1.0,
        true=true,
        shown=true < 1,
        what="P(r_min) with the closed ball of eq. (2)",
        given="on a line, s = 3, squared distances 1 and 4 selected, 9 and 4 not",
    )


def squared() -> Finding:
    """Erratum 16: the sign of Δ₀."""
    a, gram = short_sink()
    # The sink has a large weight and a short value: it is selected although a₀ is small.
    alpha, norms = np.array([2.0, 1.0, 0.3, 0.01]) / 3.31, np.array([0.025, 1.0, 1.0, 1.0])
    found = bounds_of(list(alpha), gram, 10**6, 2, "printed", norms=norms)
    truth = float(bounds_of(list(alpha), gram, 10**6, 2, "sharp", norms=norms).precision_upper[0])
    assert np.allclose(alpha * norms, np.array(a) / 3.31)
    printed = float(found.precision_lower[0])
    return Finding(
        printed=printed,
        true=truth,
        shown=float(found.margin_sink[0]) < 0 and printed > truth,
        what="lower bound of E P where Δ₀ < 0",
        given="α = (2, 1, 0.3, 0.01)/3.31, ‖v‖ = (0.025, 1, 1, 1), e^{−β} = 1/2, ρ₀ = 0, d = 10⁶, N = 2, κ = 1/8",
    )


def everything_but_one() -> Finding:
    """Erratum 17: N = L."""
    printed = float(bounds_of([0.75, 1.0, 0.5], np.eye(3), 3, 2, "printed").precision_lower[0])
    # ‖s‖² is uniform on (1/16, 49/16) and ⟨s, y₂⟩/(‖s‖a₂) on (−1, 1): P{D₂ ≤ 1} = 41/144, so E P = 1 − (41/144)/3.
    true = 1 - 41 / 432
    return Finding(
        printed=printed,
        true=true,
        shown=printed == 1.0 > true,
        what="E P(r_max) at N = L",
        given="independent uniform directions, d = 3, L = N = 2, a = (3/4, 1, 1/2)",
    )


def unclipped() -> Finding:
    """Erratum 18: a negative recall bound."""
    found = bounds_of([0.5, 0.05, 0.05, 0.05, 0.05, 0.6], exponential(float(np.log(4)), 0.1, 6), 16, 2, "printed")
    printed = float(found.f_inner_lower[0])
    return Finding(
        printed=printed,
        true=1.0,
        shown=float(found.recall_lower[0]) < -1 and printed > 2 and found.margin[0] > 0 and found.margin_sink[0] > 0,
        what="lower bound of E F(r_min), which is at most 1",
        given="a = (0.5, 0.05, 0.05, 0.05, 0.05, 0.6), e^{−β} = 1/4, ρ₀ = 0.1, d = 16, N = 2, κ = 1/8; Δ, Δ₀ > 0",
    )


def sink_left_out() -> Finding:
    """Erratum 19: the sink need not be selected."""
    gram = exponential(float(np.log(4)), 0.3, 4).matrix(4)
    _, summary = head_of([0.02, 0.05, 0.3, 0.5], gram, [2, 3])
    true = float(summary.rho_out[0])
    return Finding(
        printed=0.25,
        true=true,
        shown=true > 0.25,
        what="e^{−β}, against ρ_out where the sink is not selected",
        given="a = (0.02, 0.05, 0.3, 0.5), e^{−β} = 1/4, ρ₀ = 0.3, I = {2, 3}",
    )
