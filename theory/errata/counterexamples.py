"""Counterexamples: the two numbers that each erratum compares.

Errata 1-20 concern the assumptions, theorems and proofs; 21-29 and 33 Appendix A.2 and the levels
of Section 3.3; 30-32 and 34-44 claims and omissions of the text. Texts and example heads are in
errata.toml. Simulation is under Model G with a fixed seed. Source: arXiv 2602.01893; equation
numbers are the paper's; those from 101 on concern arXiv 2508.17821 (normaliser.toml). Imports numpy
and scipy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import betainc, betaincinv, hyp0f1

from theory.arrays import FloatArray, selection_order
from theory.editions.printed import (
    Margins,
    floor_probability,
    harmonic,
    pair_levels,
    printed_margins,
)
from theory.editions.repaired import exact_means
from theory.errata.neighbours import Change, Point, PointHead, closer_sink, one_more, true_change
from theory.evaluate.envelopes import envelope
from theory.evaluate.simulate import simulate
from theory.head.attention_profile import WeightProfile, profile_shape, regimes
from theory.head.gram import exponential, feasible_edge, smallest_eigenvalue
from theory.head.ranked import Ranked, Summary, ranked, summarise
from theory.head.results import BOUNDS, KAPPA, Envelope
from theory.normaliser.direction_sums import share_within
from theory.normaliser.distances import distances
from theory.normaliser.normalisers import jacobian, weights
from theory.paper_tables.table_2 import EXAMPLE, figure_4_profile, tail_trend


@dataclass(frozen=True, slots=True)
class Numbers:
    """The printed number, the number it is compared with (the true one unless `compared` says
    otherwise), whether they differ as claimed, and other numbers quoted in the text.
    """

    printed: float
    true: float
    shown: bool
    quoted: Mapping[str, float] = field(default_factory=dict)


def head_of(
    a: Sequence[float], cosines: Any, inside: Sequence[int], sink: int | None = 0
) -> tuple[Ranked, Summary]:
    """Return a head with these effective weights whose first ranks are the tokens `inside`."""
    order = np.array([*inside, *(j for j in range(len(a)) if j not in inside)])
    weights_of = np.asarray(a, dtype=float)[order]
    head = ranked(order, weights_of, np.asarray(cosines, dtype=float), sink)
    return head, summarise(head, np.array([len(inside)]))


def squared_distances(head: Ranked, summary: Summary) -> FloatArray:
    """Return the mean squared distances E D_l by rank, (T,), for the only size."""
    return np.asarray(summary.sigma_ss[0] + head.a**2 - 2 * summary.sigma[0])


def four(rho0: float = 0.1) -> tuple[list[float], Any]:
    """Return a = (1/2, 1/20, 1/10, 3/5), e^{−β} = 1/4: tokens 0 and 3 are selected at N = 2."""
    return [0.5, 0.05, 0.1, 0.6], exponential(float(np.log(4)), rho0, 4).matrix(4)


def short_sink() -> tuple[list[float], Any]:
    """Return a head whose sink has a small value norm: Δ₀ < 0 at N = 2 with the sink selected."""
    return [0.05, 1.0, 0.3, 0.01], exponential(float(np.log(2)), 0.0, 4).matrix(4)


def only(bounds: Envelope) -> dict[str, float]:
    """Return the bounds and margins at the only size, by name."""
    return {name: float(getattr(bounds, name)[0]) for name in (*BOUNDS, "margin", "margin_sink")}


def bounds_of(
    alpha: Any,
    gram: Any,
    dimension: int,
    size: int,
    edition: Any,
    *,
    norms: Any = 1.0,
    **options: Any,
) -> dict[str, float]:
    """Return the bounds and margins of one head at one size, by name."""
    return only(envelope(alpha, norms, gram, dimension, [size], edition=edition, **options))


def margins_of(
    summary: Summary, *, delta0: Any = "out", sink_in_b: bool = True
) -> dict[str, float]:
    """Return Δ, Δ₀ and B of eq. (8) at the only size, by name; the sink is visible."""
    margins = printed_margins(summary, delta0=delta0, sink_in_b=sink_in_b, sink_visible=True)
    return {name: float(getattr(margins, name)[0]) for name in Margins.__slots__}


def units() -> Numbers:
    """Erratum 1: units."""
    before, after = (
        bounds_of(*four(), 16, 2, "printed", norms=scale)["precision_lower"]
        for scale in (1.0, 10.0)
    )
    fixed, moved = (
        bounds_of(*four(), 16, 2, "sharp", norms=scale)["precision_upper"] for scale in (1.0, 10.0)
    )
    shown = before < after > moved and bool(np.isclose(moved, fixed, rtol=1e-12))
    return Numbers(after, moved, shown, {"before": before})


def rho_in() -> Numbers:
    """Erratum 2: ρ_in is never defined."""
    gram = exponential(float(np.log(2)), 0.0, 11).matrix(11)
    head, summary = head_of([0.3, 1.0, 0.16, *[0.1] * 7, 0.5], gram, [0, 1, 10])
    printed = margins_of(summary, delta0="in")["margin_sink"]
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
    printed = margins_of(summary)["margin"]
    true = float(exact_means(head, summary, 0)[1].min())
    return Numbers(printed, true, true < printed)


SPLIT = [0.01, 0.57, 0.38, 0.04]
"""Effective weights of erratum 7, tokens 1 and 2 selected: C = 1, Σα = 1."""


def recall_of_two(a: Sequence[float], dimension: int) -> float:
    """Return E R for four independent uniform directions, tokens 1 and 2 selected.

    Given the cosine of the two, ‖s‖ is fixed and the others' cosines with s are independent.
    """
    half, nodes = (dimension - 1) / 2, 20_000
    cosine = 2 * betaincinv(half, half, (np.arange(nodes) + 0.5) / nodes) - 1
    square = a[1] ** 2 + a[2] ** 2 + 2 * a[1] * a[2] * cosine
    within = np.ones((2, nodes))
    for other, (i, own) in product((a[0], a[3]), enumerate((a[2], a[1]))):  # D_1 = a_2², D_2 = a_1²
        below = (square + other**2 - own**2) / (2 * other * np.sqrt(square))
        within[i] *= betainc(half, half, np.clip((1 + below) / 2, 0, 1))
    return float(within.mean())


LARGEST_KAPPA = 18 * float(np.log(4 / 3))
"""Largest κ of (31) for d → ∞, C = 1, a_i = 1/2 for both selected tokens, a_j → 0, independent
uniform directions: Δ/B = (1/4)/(3/2), and P{X_ij ≤ 0} = P{cos ≤ −1/2} falls as (3/4)^{d/2}.
"""


def lower_tail() -> Numbers:
    """Erratum 7: a lower tail from an upper-tail condition."""
    exact = recall_of_two(SPLIT, 64)

    def excess(kappa: float) -> float:
        return bounds_of(SPLIT, np.eye(4), 64, 2, "printed", kappa=kappa)["recall_upper"] - exact

    fails = float(brentq(excess, KAPPA, 100 * KAPPA))  # the printed bound rises with κ
    printed = excess(KAPPA) + exact
    shown = exact > printed + 0.05 and fails > LARGEST_KAPPA
    return Numbers(printed, exact, shown, {"fails": fails, "largest": LARGEST_KAPPA})


def last_outside(square: float) -> float:
    """Return P{D_2 ≤ square} for independent uniform directions, d = 3, a = (3/4, 1, 1/2), I_N =
    {0, 1}.

    D_2 = t² + 1/4 − tc with t = ‖s‖, t² uniform on (1/16, 49/16) and c uniform on (−1, 1).
    """
    root = np.sqrt(square)

    def density(t: float) -> float:
        return float(2 * t * np.clip((1 - (t**2 + 0.25 - square) / t) / 2, 0, 1))

    value, _ = quad(density, 0.25, 1.75, points=[abs(root - 0.5), root + 0.5])
    return float(value / 3)


def concave() -> Numbers:
    """Erratum 8: F(r_min) is concave in R."""
    # D_0 = 1 and D_1 = 9/16: R is 0, 1/2 or 1 depending on D_2
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


def below_the_mean(cosine: float = 0.54) -> tuple[float, float]:
    """Return μ_ij and P{X_ij ≤ 0} for the chain of `proxy_of_a_chain`, d → ∞: a_i = 1 alone, a_j =
    0.8 directly before 20 selected tokens of 0.9.

    X_ij = a_i² + a_j² − 2a_j a_k M, M the number of directions repeated in a row after j.
    """
    mine, theirs, others = 1.0, 0.8, 0.9
    runs = cosine ** np.arange(1, 21)  # P{M ≥ 1}, P{M ≥ 2}, …
    gap, step = mine**2 + theirs**2, 2 * theirs * others
    return gap - step * float(runs.sum()), float(runs[int(np.ceil(gap / step)) - 1])


def jump() -> Numbers:
    """Erratum 11: the floor jumps."""
    printed = float(floor_probability(0.0))
    mean, chance = below_the_mean()
    shown = printed == 0.0 and float(floor_probability(-1e-12)) == 0.5 and mean < 0 and chance < 0.5
    return Numbers(printed, 0.5, shown, {"mean": mean, "chance": chance})


def only_the_sink() -> Numbers:
    """Erratum 12: one selected token."""
    alpha, gram = [0.5, 0.1, 0.2], exponential(float(np.log(4)), 0.1, 3)
    result = bounds_of(alpha, gram, 128, 1, "printed")
    truth = bounds_of(alpha, gram, 128, 1, "sharp")["precision_lower"]
    upper = result["precision_upper"]
    return Numbers(upper, truth, bool(np.isnan(result["margin"])) and upper < truth)


def kappa() -> Numbers:
    """Erratum 13: κ is nowhere given."""
    rise, sharp_rise = (
        bounds_of(*four(), 128, 2, edition, kappa=2.0)["precision_lower"]
        - bounds_of(*four(), 128, 2, edition, kappa=0.125)["precision_lower"]
        for edition in ("printed", "sharp")
    )
    return Numbers(rise, sharp_rise, rise > 0.3)


def closed_balls() -> Numbers:
    """Erratum 14: closed balls."""
    # One dimension: s = 3, squared distances 1, 4 inside and 9, 4 outside. The nearest token
    # outside is on the inner sphere.
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
        margins_of(summary, sink_in_b=choice)["scale"] for choice in (True, False)
    )
    return Numbers(without, with_sink, with_sink > 1.4 * without)


def squared() -> Numbers:
    """Erratum 16: the sign of Δ₀."""
    a, gram = short_sink()
    # The sink has a large weight and a small value norm: it is selected although a₀ is small.
    alpha, norms = np.array([2.0, 1.0, 0.3, 0.01]) / 3.31, np.array([0.025, 1.0, 1.0, 1.0])
    result = bounds_of(alpha, gram, 10**6, 2, "printed", norms=norms)
    truth = bounds_of(alpha, gram, 10**6, 2, "sharp", norms=norms)["precision_upper"]
    assert np.allclose(alpha * norms, np.array(a) / 3.31)
    printed = result["precision_lower"]
    return Numbers(printed, truth, result["margin_sink"] < 0 and printed > truth)


def everything_but_one() -> Numbers:
    """Erratum 17: N = L."""
    printed = bounds_of([0.75, 1.0, 0.5], np.eye(3), 3, 2, "printed")["precision_lower"]
    true = 1 - last_outside(1.0) / 3
    return Numbers(printed, true, printed == 1.0 > true)


def unclipped() -> Numbers:
    """Erratum 18: a negative recall bound."""
    gram = exponential(float(np.log(4)), 0.1, 6)
    result = bounds_of([0.5, 0.05, 0.05, 0.05, 0.05, 0.6], gram, 16, 2, "printed")
    printed = result["f_inner_lower"]
    positive = result["margin"] > 0 and result["margin_sink"] > 0
    return Numbers(printed, 1.0, positive and result["recall_lower"] < -1 and printed > 2)


def sink_left_out() -> Numbers:
    """Erratum 19: the sink need not be selected."""
    gram = exponential(float(np.log(4)), 0.3, 4).matrix(4)
    _, summary = head_of([0.02, 0.05, 0.3, 0.5], gram, [2, 3])
    true = float(summary.rho_out[0])
    return Numbers(0.25, true, true > 0.25)


def literal() -> Numbers:
    """Erratum 20: assumption 2 taken literally."""
    head, summary = head_of(*short_sink(), [0, 1])
    distance = squared_distances(head, summary)
    true = 2 / (2 + int((distance[2:] <= distance[:2].max()).sum()))
    margins = margins_of(summary)
    exceeds = np.array([margins["margin"], margins["margin_sink"]]) / margins["scale"]
    tail = np.exp(-0.125 * 1e6 * exceeds**2)
    printed = float(1 / (1 + tail[0] + tail[1] / 2))
    return Numbers(printed, true, true < printed)


TABLE_1_POINT = Point(
    length=32,
    plateau_end=8,
    growth_start=24,
    n=4,
    dimension=32,
    beta=2.0,
    eta=0.3,
    omega=0.7,
    p_sink=0.4,
    sink_ratio=0.5,
)
"""Example head with Δ > 0 and Δ₀ > 0 for the errata on Table 1."""

DRAWS = 4000
"""Number of simulated heads of a counterexample."""


def _change(before: PointHead, after: PointHead) -> tuple[float, float, float]:
    """Return the changes of the printed lower bound of E P and of E P, and the latter's error."""
    low, high = (only(head.bounds("printed"))["precision_lower"] for head in (before, after))
    simulated = true_change(before, after, draws=DRAWS, seed=1)
    return high - low, simulated.precision, simulated.precision_se


def order_of_entry() -> Numbers:
    """Erratum 21: valleys enter last."""
    result, order = regimes(EXAMPLE), selection_order(EXAMPLE.weights()).tolist()
    plateau = min(order.index(i) for i in range(1, EXAMPLE.plateau_end + 1)) + 1
    return Numbers(plateau, result.m3, plateau == result.m2 < result.m3)


def trend_of_the_tail() -> Numbers:
    """Erratum 22: Δ/B falls in the tail."""
    result = tail_trend()
    return Numbers(result.steps, result.grew, result.grew == 0 < result.steps)


def frequency() -> Numbers:
    """Erratum 23: the bound rises and falls with ω."""
    heavy = Point(length=12, plateau_end=3, growth_start=10, n=4, dimension=128, norm=20.0)
    point = replace(heavy, beta=5.0, eta=0.5, p_sink=0.4)
    by_omega = [
        only(replace(point, omega=omega).head().bounds("printed")) for omega in (0.3, 0.6, 1.2)
    ]
    least, most, less = (bounds["precision_lower"] for bounds in by_omega)
    positive = all(bounds["margin"] > 0 < bounds["margin_sink"] for bounds in by_omega)
    shown = positive and least < most > less and regimes(point.profile()).m1 == point.n
    return Numbers(most, less, shown, {"least": least})


def decay() -> Numbers:
    """Erratum 24: larger β lowers the truth."""
    bound, truth, error = _change(TABLE_1_POINT.head(), replace(TABLE_1_POINT, beta=4.0).head())
    return Numbers(bound, truth, bound > 0 and truth < -8 * error, {"error": error})


def count_of_pairs() -> Numbers:
    """Erratum 25: the count of pairs first rises with N."""
    length = 1023
    printed = (length - 4) - (length - 2)
    true = 3 * (length + 1 - 4) / 4 - (length + 1 - 2) / 2
    return Numbers(printed, true, printed < 0 < true)


def heavier_sink() -> Numbers:
    """Erratum 26: a heavier sink lowers the truth."""
    point = replace(TABLE_1_POINT, n=3)
    bound, truth, error = _change(point.head(), replace(point, sink_ratio=1.0).head())
    return Numbers(bound, truth, bound > 0 and truth < -8 * error, {"error": error})


def pull_of_the_sink() -> Numbers:
    """Erratum 27: a negative ρ₀ moves tokens closer, in proportion to a₀ and not a_i."""
    rho0, token = -0.3, 2
    squares = []
    for cosine in (rho0, 0.0):
        head, summary = head_of(*four(cosine), [0, 3])
        rank = head.order.tolist().index(token)
        squares.append(float(squared_distances(head, summary)[rank]))
    a, _ = four()
    printed, true = 2 * a[token] * a[3] * rho0, squares[0] - squares[1]
    exact = bool(np.isclose(true, 2 * a[0] * rho0 * (a[3] - a[token])))
    return Numbers(printed, true, true < 0 and exact and not np.isclose(printed, true))


def rank_of_the_sink() -> Numbers:
    """Erratum 28: the levels of Section 3.3 do not put the sink first."""
    profile = figure_4_profile()
    rank = regimes(profile).sink_rank
    last_first = int(selection_order(profile.weights())[0]) == profile.length
    return Numbers(1.0, rank, rank > 1 and last_first, {"eta": profile.eta})


def peaks() -> Numbers:
    """Erratum 29: an entering peak need not help, and a valley need not harm."""
    point = replace(TABLE_1_POINT, beta=5.0, n=regimes(TABLE_1_POINT.profile()).m1 - 1)
    late = replace(point, n=point.length - 4)
    peak, valley = one_more(point, "peak"), one_more(late, "valley")
    assert peak is not None
    assert valley is not None
    bounds = [only(head.bounds("printed")) for head in (*peak, *valley)]
    recall = [of_head["recall_lower"] for of_head in bounds]
    bound, valley_bound = recall[1] - recall[0], recall[3] - recall[2]
    after_peak, after_valley = (true_change(*pair, draws=DRAWS, seed=1) for pair in (peak, valley))
    quoted = {
        "error": after_peak.recall_se,
        "n": point.n,
        "one_more": point.n + 1,
        "late": late.n,
        "valley": valley_bound,
        "rise": after_valley.recall,
        "rise_error": after_valley.recall_se,
    }
    margins = [of_head[name] for of_head in bounds for name in ("margin", "margin_sink")]
    shown = min(margins) > 0 < bound and after_peak.recall < -8 * after_peak.recall_se
    helped = valley_bound > 0 and after_valley.recall > 8 * after_valley.recall_se
    return Numbers(bound, after_peak.recall, shown and helped, quoted)


def slope_of_steps() -> Numbers:
    """Erratum 33: the share of selected tokens within a radius is a step function."""
    inside, r_min, recall = [], [], []
    for cosine in (0.0, -0.6):
        head, summary = head_of(*four(cosine), [0, 3])
        distance = np.sqrt(squared_distances(head, summary))
        inside.append(distance[:2])
        r_min.append(float(distance[2:].min()))
        recall.append(float((distance[:2] <= r_min[-1]).mean()))
    below, above = (float((inside[0] <= r_min[0] + step).mean()) for step in (-1e-6, 1e-6))
    printed, true = (above - below) / 2e-6 * (r_min[0] - r_min[1]), recall[1] - recall[0]
    return Numbers(printed, true, printed == 0 > true and r_min[1] < r_min[0])


BREADTH = 128
"""Head size of LLaMA-2-7B."""


def _of_the_sinks_cosine(size: int) -> tuple[float, Change, float]:
    """Return the changes of (14) and of the truth for ρ₀ from −e to e, and e, 2/5 of the edge."""
    pair = closer_sink(replace(TABLE_1_POINT, n=size))
    low, high = (only(head.bounds("printed"))["recall_lower"] for head in pair)
    return high - low, true_change(*pair, draws=DRAWS, seed=1), pair[1].point.rho0


def no_sink_effect() -> Numbers:
    """Erratum 30: the lower bound of Recall does not depend on ρ₀."""
    bound, simulated, edge = _of_the_sinks_cosine(4)
    shown = bound == 0 and simulated.recall > 8 * simulated.recall_se
    return Numbers(bound, simulated.recall, shown, {"edge": edge, "error": simulated.recall_se})


def least_scale(size: int) -> float:
    """Return the κC² above which (14) is positive at the levels of Section 3.3, d = 128, ρ_out = 0.

    The sink has rank 99 there: the `size` largest weights are tail weights, and its term is
    omitted.
    """
    a = np.sort(figure_4_profile().weights())[::-1]
    length = len(a) - 1
    scale = a[0] + a[size] + a[:size].sum()
    exponent = BREADTH * (a[size - 1] ** 2 / scale) ** 2
    return float(brentq(lambda x: 1 - (length - size) * np.exp(-x * exponent), 0, 1e6))


def scale_of_figure_5() -> Numbers:
    """Erratum 31: the scale required by the lower envelope of Figure 5."""
    two, four_tokens = least_scale(2), least_scale(4)
    quoted = {"norm": float(np.sqrt(two / KAPPA))}
    return Numbers(two, four_tokens, 1 < two < four_tokens, quoted)


def proxy_of_a_chain(dimension: int, cosine: float = 0.25) -> float:
    """Return the least c of (30) for a chain of directions: each repeats the previous direction
    with probability e^{−β} and is uniform otherwise; a_i = 0.2 selected alone, a_j = 0.1 next to
    it.

    X_ij = a_i² + a_j² − 2a_i a_j cos, and a variance proxy is at least the variance.
    """
    mine, theirs = 0.2, 0.1
    variance = cosine + (1 - cosine) / dimension - cosine**2
    scale = mine + theirs + mine
    return dimension * (2 * mine * theirs) ** 2 * variance / scale**2


def law_of_the_directions() -> Numbers:
    """Erratum 32: (30) depends on the law of the directions."""
    few, many = (proxy_of_a_chain(dimension) for dimension in (128, 12_800))
    uniform, wide = (proxy_of_a_chain(dimension, 0.0) for dimension in (128, 12_800))
    shown = many > 50 * few and bool(np.isclose(uniform, wide, rtol=1e-12))
    return Numbers(few, many, shown, {"uniform": uniform})


def recall_for_precision() -> Numbers:
    """Erratum 34: a correlation with Recall does not carry over to Precision."""
    _, simulated, edge = _of_the_sinks_cosine(12)
    recall, precision = simulated.recall, simulated.precision
    errors = {"recall_error": simulated.recall_se, "precision_error": simulated.precision_se}
    shown = recall > 8 * simulated.recall_se and precision < recall / 2
    return Numbers(recall, precision, shown, errors | {"edge": edge})


def error_of_cosines() -> Numbers:
    """Erratum 35: an absolute error of cosines is not a percentage."""
    lags, cosine = np.arange(1, 1024), 0.09
    misses = [np.abs(np.exp(-beta * lags) - cosine) for beta in np.geomspace(1e-4, 10, 2000)]
    best = min(misses, key=np.mean)
    absolute, relative = float(best.mean()), float((best / cosine).mean())
    return Numbers(absolute, relative, relative > 0.99 > 0.1 > absolute)


def strong_oscillation() -> Numbers:
    """Erratum 36: η > 1 gives negative weights."""
    shape = profile_shape(np.arange(1, 33), eta=1.5, rate=1.5, omega=0.7, t1=8, t2=24)
    return Numbers(0.0, float(shape.min()), bool(shape.min() < 0))


def which_extreme() -> Numbers:
    """Erratum 37: R_max as a bound of the mean, or as the largest value of R."""
    as_bound = bounds_of(*four(), 16, 2, "printed")["f_inner_upper"]
    as_largest = float(harmonic(1.0))
    return Numbers(as_bound, as_largest, as_bound < as_largest)


def tokens_of_the_context() -> Numbers:
    """Erratum 38: L or L + 1 tokens."""
    margins = margins_of(head_of(*four(), [0, 3])[1])
    exponent = KAPPA * 128 / margins["scale"] ** 2
    tail, tail_sink = (np.exp(-exponent * margins[m] ** 2) for m in ("margin", "margin_sink"))
    by_index, by_row = (1 / (1 + outside * (tail + tail_sink / 2)) for outside in (1, 2))
    as_evaluated = bounds_of(*four(), 128, 2, "printed")["precision_lower"]
    shown = bool(np.isclose(by_index, as_evaluated)) and by_row < by_index
    return Numbers(float(by_index), float(by_row), bool(shown))


def width_of_the_model() -> Numbers:
    """Erratum 39: the width of the model in place of the head size."""
    head, model = (
        bounds_of(*four(), d, 2, "printed")["precision_lower"] for d in (BREADTH, 32 * BREADTH)
    )
    return Numbers(head, model, model > head + 0.3)


def large_enough() -> Numbers:
    """Erratum 40: independent uniform directions need no large d."""
    t = np.geomspace(0.1, 100, 61)
    proxies = [2 * d * np.log(hyp0f1(d / 2, t**2 / 4)) / t**2 for d in range(1, 129)]
    largest = float(np.max(proxies))
    return Numbers(largest, 1.0, 0.99 < largest < 1)


def same_selection() -> Numbers:
    """Erratum 41: ρ₀ does not change the selection."""
    before, after = closer_sink(TABLE_1_POINT)
    selected = [set(selection_order(head.alpha)[: head.point.n]) for head in (before, after)]
    _, simulated, edge = _of_the_sinks_cosine(4)
    shown = simulated.recall > 8 * simulated.recall_se
    quoted = {"edge": edge, "error": simulated.recall_se}
    return Numbers(len(selected[0] ^ selected[1]), simulated.recall, shown, quoted)


def any_single_token() -> Numbers:
    """Erratum 42: P = 1 at N = 1 although nothing distinguishes the tokens."""
    found = simulate(np.full(16, 1 / 16), 1.0, np.eye(16), 4, [1, 4], draws=DRAWS, seed=1)
    one, few = (float(precision) for precision in found.precision)
    return Numbers(one, few, one == 1 > few + 0.2, {"error": float(found.precision_se[1])})


def exchanged_last() -> Numbers:
    """Erratum 43: the bounds know no regime."""
    heads = [0.1, 0.1, 0.1, 0.1, 0.6], [0.1, 0.6, 0.1, 0.1, 0.1]
    bounds = [
        [*bounds_of(head, np.eye(5), 64, 2, edition).values()]
        for head in heads
        for edition in ("printed", "sharp")
    ]
    change = float(np.abs(np.subtract(bounds[:2], bounds[2:])).max())
    return Numbers(heads[1][-1] - heads[0][-1], change, change == 0)


def first_in_depth() -> Numbers:
    """Erratum 44: two regimes in the first layers."""
    heads = {"retriever": (3, 3, 0, 0), "reset": (5, 5, 6, 2), "mixer": (0, 0, 2, 6)}
    early = {name: sum(counts[:2]) for name, counts in heads.items()}
    retriever, reset, mixer = (
        float(np.average(range(4), weights=counts)) for counts in heads.values()
    )
    shown = early["reset"] > early["retriever"] and retriever < reset < mixer
    quoted = {"retriever": retriever, "reset": reset}
    return Numbers(early["retriever"], early["reset"], shown, quoted)


def weight_of_one() -> Numbers:
    """Erratum 101: a weight of one half in a long context."""
    length, bound = 10_000, 5.0
    logits = np.full(length, -bound)
    logits[0] = bound
    largest, upper = float(weights(logits).max()), float(np.exp(2 * bound) / length)
    quoted = {"length": float(length), "bound": upper}
    return Numbers(1 / length, largest, largest > 0.5 and upper > 1, quoted)


def one_norm() -> Numbers:
    """Erratum 102: d̃ as one norm."""
    bounds = distances([1 / 3] * 3, [[1.0], [2.0], [2.0]], [True, False, False])
    bound, as_one_norm = float(bounds.printed), float(bounds.one_norm)
    total = float(bounds.total)
    return Numbers(bound, as_one_norm, total <= bound * (1 + 1e-12) < as_one_norm, {"total": total})


def heavy_outside() -> Numbers:
    """Erratum 103: a token outside with more weight than all selected tokens."""
    bounds = distances([0.1, 0.9], [[1.0], [1.0]], [True, False])
    bound, truth = float(bounds.printed), float(bounds.total)
    return Numbers(bound, truth, bound < truth and bool(np.isclose(bounds.repaired, truth)))


def mean_below_rms() -> Numbers:
    """Erratum 104: the mean of a distance lies below its root mean square."""
    angles = (np.arange(4096) + 0.5) * 2 * np.pi / 4096  # angle between two unit vectors
    mean = float(np.sqrt(2 + 2 * np.cos(angles)).mean())
    return Numbers(2**0.5, mean, bool(np.isclose(mean, 4 / np.pi, rtol=1e-6)))


def largest_contribution() -> Numbers:
    """Erratum 105: M as the largest contribution."""
    tokens, dimension = 65, 8
    rms = (tokens - 1) ** 0.5
    bound = float(np.exp(-((rms / 2) ** 2) / 2))
    truth = float(share_within(np.ones(tokens - 1), rms / 2, dimension))
    return Numbers(bound, truth, bound < truth, {"tokens": float(tokens)})


def tied_pair() -> Numbers:
    """Erratum 106: the spectral norm of a tied pair."""
    norm = float(np.linalg.norm(jacobian([0.5, 0.5]), 2))
    return Numbers(0.25, norm, bool(np.isclose(norm, 0.5)))


def cold_pair() -> Numbers:
    """Erratum 107: slopes at a low temperature."""
    entry = float(jacobian([0.5, 0.5], 0.1).max())
    return Numbers(2**0.5, entry, entry > 2**0.5)
