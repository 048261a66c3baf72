"""Counterexamples to the assumptions, theorems and proofs: the two numbers that each of errata 1-20
sets side by side.

Source: arXiv 2602.01893; equation numbers are the paper's. The words of each erratum, and the head
it is shown at, are in errata.toml. Computed by this room's own code. Imports numpy and
scipy.
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

from theory.editions.printed import floor_probability, harmonic, pair_levels, printed_margins
from theory.editions.repaired import exact_means
from theory.errata.examples import Numbers, bounds_of, four, head_of, short_sink
from theory.head.attention_profile import WeightProfile
from theory.head.gram import feasible_edge, smallest_eigenvalue
from theory.head.results import KAPPA
from theory.head.similarity_decay import exponential


def units() -> Numbers:
    """Erratum 1: units."""
    a, gram = four()
    before, after = (
        float(bounds_of(a, gram, 16, 2, "printed", norms=scale).precision_lower[0])
        for scale in (1.0, 10.0)
    )
    fixed, moved = (
        float(bounds_of(a, gram, 16, 2, "sharp", norms=scale).precision_upper[0])
        for scale in (1.0, 10.0)
    )
    shown = before < after > moved and bool(np.isclose(moved, fixed, rtol=1e-12))
    return Numbers(after, moved, shown, {"before": before})


def rho_in() -> Numbers:
    """Erratum 2: ρ_in is never defined."""
    gram = exponential(float(np.log(2)), 0.0, 11).matrix(11)
    head, summary = head_of(
        [0.3, 1.0, 0.16, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.5], gram, [0, 1, 10]
    )
    printed = float(
        printed_margins(summary, delta0="in", sink_in_b=True, sink_visible=True).margin_sink[0]
    )
    true = float(exact_means(head, summary, 0)[0].min())
    return Numbers(printed, true, printed > 0 > true)


def count() -> Numbers:
    """Erratum 3: count of tokens outside."""
    length, size = 3, 2
    outside = len(head_of(*four(), [0, 3])[0].a) - size
    return Numbers(length - size, outside, outside == length - size + 1)


def sink_terms() -> Numbers:
    """Erratum 4: the sink's terms in the mean."""
    head, summary = head_of(*four(-0.3), [0, 3])
    levels = pair_levels(head, summary, 0)
    printed, true = float(levels[2] - levels[1]), float(exact_means(head, summary, 0)[1, 0])
    dropped = 2 * head.a[0] * -0.3 * (head.a[1] - head.a[2])
    return Numbers(printed, true, printed > true and bool(np.isclose(true - printed, dropped)))


def own_sink_term() -> Numbers:
    """Erratum 5: the mean at i = 0."""
    head, summary = head_of([0.5, 0.1, 0.2], exponential(float(np.log(4)), 0.1, 3).matrix(3), [0])
    levels = pair_levels(head, summary, 0)
    printed, true = float(levels[1] - levels[0]), float(exact_means(head, summary, 0)[0, 0])
    return Numbers(printed, true, printed < 0 < true)


def negative_cosines() -> Numbers:
    """Erratum 6: signs of cosines."""
    head, summary = head_of(*four(-0.3), [0, 3])
    margins = printed_margins(summary, delta0="out", sink_in_b=True, sink_visible=True)
    printed, true = float(margins.margin[0]), float(exact_means(head, summary, 0)[1].min())
    return Numbers(printed, true, true < printed)


def lower_tail() -> Numbers:
    """Erratum 7: a lower tail from an upper-tail condition."""
    alpha, gram = [0.01, 0.6, 0.4, 0.05], np.eye(4)

    def excess(kappa: float, level: float) -> float:
        bounds = bounds_of(alpha, gram, 64, 2, "printed", kappa=kappa)
        return float(bounds.recall_upper[0]) - level

    sharp = bounds_of(alpha, gram, 64, 2, "sharp")
    low, high = float(sharp.recall_lower[0]), float(sharp.recall_upper[0])
    # the printed bound rises with κ: it crosses the sharp lower bound, then the upper one
    fails, holds = (
        float(brentq(excess, KAPPA, 100 * KAPPA, args=(level,))) for level in (low, high)
    )
    printed = excess(KAPPA, 0.0)
    return Numbers(printed, low, low > printed + 0.05, {"fails": fails, "holds": holds})


def last_outside(square: float) -> float:
    """Return P{D_2 ≤ square} for independent uniform directions, d = 3, a = (3/4, 1, 1/2), I_N =
    {0, 1}.

    D_2 = t² + 1/4 − tc with t = ‖s‖, t² uniform on (1/16, 49/16) and c uniform on (−1, 1).
    """
    root = np.sqrt(square)
    value, _ = quad(
        lambda t: 2 * t * np.clip((1 - (t**2 + 0.25 - square) / t) / 2, 0, 1),
        0.25,
        1.75,
        points=[abs(root - 0.5), root + 0.5],
    )
    return float(value / 3)


def concave() -> Numbers:
    """Erratum 8: F(r_min) is concave in R."""
    # D_0 = 1 and D_1 = 9/16: R is 0, 1/2 or 1 as D_2 passes them
    none, at_most_one = last_outside(9 / 16), last_outside(1.0)
    recall = np.array([0.0, 0.5, 1.0])
    chance = np.array([none, at_most_one - none, 1 - at_most_one])
    printed, true = float(harmonic(chance @ recall)), float(chance @ harmonic(recall))
    return Numbers(printed, true, true < printed)


def feasibility() -> Numbers:
    """Erratum 9: feasibility of the Gram matrix."""
    gram = exponential(0.1, 0.5, 65)
    true = smallest_eigenvalue(gram, 65)
    return Numbers(0.0, true, true < -1e-6 and feasible_edge(0.1, 64) < 0.5)


def normalisation() -> Numbers:
    """Erratum 10: normalisation of the weights."""
    profile = WeightProfile(
        length=1024, plateau_end=100, growth_start=800, p_sink=0.5, eta=0.1, omega=1.0, p_base=1e-5
    )
    largest = float(profile.weights().max())
    limit = np.log(1e5) / 224
    return Numbers(largest, 1.0, largest > 1 and limit < 0.052)


def jump() -> Numbers:
    """Erratum 11: the floor jumps."""
    printed = float(floor_probability(0.0))
    return Numbers(printed, 0.5, printed == 0.0 and float(floor_probability(-1e-12)) == 0.5)


def only_the_sink() -> Numbers:
    """Erratum 12: one selected token."""
    alpha, gram = [0.5, 0.1, 0.2], exponential(float(np.log(4)), 0.1, 3)
    result = bounds_of(alpha, gram, 128, 1, "printed")
    truth = float(bounds_of(alpha, gram, 128, 1, "sharp").precision_lower[0])
    upper = float(result.precision_upper[0])
    return Numbers(upper, truth, bool(np.isnan(result.margin[0])) and upper < truth)


def kappa() -> Numbers:
    """Erratum 13: κ is nowhere given."""
    a, gram = four()
    low, high = (
        float(bounds_of(a, gram, 128, 2, "printed", kappa=kappa).precision_lower[0])
        for kappa in (0.125, 2.0)
    )
    sharp = [
        float(bounds_of(a, gram, 128, 2, "sharp", kappa=kappa).precision_lower[0])
        for kappa in (0.125, 2.0)
    ]
    return Numbers(high - low, sharp[1] - sharp[0], high - low > 0.3)


def closed_balls() -> Numbers:
    """Erratum 14: closed balls."""
    # In one dimension: s = 3, squared distances 1, 4 inside and 9, 4 outside; the nearest outside
    # lies on the inner sphere.
    inside, outside = np.array([1.0, 4.0]), np.array([9.0, 4.0])
    k_in, k_out = int((inside <= outside.min()).sum()), int((outside <= outside.min()).sum())
    true = k_in / (k_in + k_out)
    return Numbers(1.0, true, true < 1)


def largest_inside() -> Numbers:
    """Erratum 15: a_max_in is never defined."""
    gram = np.eye(4)
    gram[1:, 1:] = 0.1 ** np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    _, summary = head_of([0.6, 0.3, 0.01, 0.005], gram, [0, 1])
    with_sink, without = (
        float(printed_margins(summary, delta0="out", sink_in_b=choice, sink_visible=True).scale[0])
        for choice in (True, False)
    )
    return Numbers(without, with_sink, with_sink > 1.4 * without)


def squared() -> Numbers:
    """Erratum 16: the sign of Δ₀."""
    a, gram = short_sink()
    # The sink has a large weight and a short value: it is selected although a₀ is small.
    alpha, norms = np.array([2.0, 1.0, 0.3, 0.01]) / 3.31, np.array([0.025, 1.0, 1.0, 1.0])
    result = bounds_of(list(alpha), gram, 10**6, 2, "printed", norms=norms)
    truth = float(bounds_of(list(alpha), gram, 10**6, 2, "sharp", norms=norms).precision_upper[0])
    assert np.allclose(alpha * norms, np.array(a) / 3.31)
    printed = float(result.precision_lower[0])
    return Numbers(printed, truth, float(result.margin_sink[0]) < 0 and printed > truth)


def everything_but_one() -> Numbers:
    """Erratum 17: N = L."""
    printed = float(bounds_of([0.75, 1.0, 0.5], np.eye(3), 3, 2, "printed").precision_lower[0])
    true = 1 - last_outside(1.0) / 3
    return Numbers(printed, true, printed == 1.0 > true)


def unclipped() -> Numbers:
    """Erratum 18: a negative recall bound."""
    result = bounds_of(
        [0.5, 0.05, 0.05, 0.05, 0.05, 0.6], exponential(float(np.log(4)), 0.1, 6), 16, 2, "printed"
    )
    printed = float(result.f_inner_lower[0])
    return Numbers(
        printed,
        1.0,
        float(result.recall_lower[0]) < -1
        and printed > 2
        and result.margin[0] > 0
        and result.margin_sink[0] > 0,
    )


def sink_left_out() -> Numbers:
    """Erratum 19: the sink need not be selected."""
    gram = exponential(float(np.log(4)), 0.3, 4).matrix(4)
    _, summary = head_of([0.02, 0.05, 0.3, 0.5], gram, [2, 3])
    true = float(summary.rho_out[0])
    return Numbers(0.25, true, true > 0.25)


def literal() -> Numbers:
    """Erratum 20: assumption 2 to the letter."""
    a, gram = short_sink()
    head, summary = head_of(a, gram, [0, 1])
    distance = summary.sigma_ss[0] + head.a**2 - 2 * summary.sigma[0]
    true = 2 / (2 + int((distance[2:] <= distance[:2].max()).sum()))
    margins = printed_margins(summary, delta0="out", sink_in_b=True, sink_visible=True)
    tail = np.exp(
        -0.125
        * 1e6
        * (np.array([margins.margin[0], margins.margin_sink[0]]) / margins.scale[0]) ** 2
    )
    printed = float(1 / (1 + tail[0] + tail[1] / 2))
    return Numbers(printed, true, true < printed)
