"""Counterexamples to Appendix A.2 and the levels of Section 3.3: the two numbers that each of
errata 21-29 (Tables 1 and 2) and 33 (eq. (32)-(33)) sets side by side.

Source: arXiv 2602.01893; equation numbers are the paper's. The words of each erratum, and the head
it is shown at, are in errata.toml. Simulation is under Model G with a fixed seed. Imports numpy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from theory.arrays import selection_order
from theory.errata.examples import Numbers, four, head_of
from theory.head.attention_profile import regimes
from theory.paper_tables.neighbours import Point, PointHead, one_more
from theory.paper_tables.table_2 import (
    EXAMPLE,
    entry_order,
    figure_4_profile,
    sink_rank,
    tail_trend,
)
from theory.paper_tables.witnesses import true_change

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
"""A head with Δ > 0 and Δ₀ > 0, for Table 1."""

DRAWS = 4000
"""Simulated heads of a counterexample."""


def _change(before: PointHead, after: PointHead) -> tuple[float, float, float]:
    """Return the change of the printed lower bound of E P, of the true E P, and its standard
    error.
    """
    low, high = (float(head.bounds("printed").precision_lower[0]) for head in (before, after))
    seen = true_change(before, after, draws=DRAWS, seed=1)
    return high - low, seen.precision, seen.precision_se


def order_of_entry() -> Numbers:
    """Erratum 21: valleys enter last."""
    result, order = regimes(EXAMPLE), entry_order(EXAMPLE).tolist()
    plateau = min(order.index(i) for i in range(1, EXAMPLE.plateau_end + 1)) + 1
    assert order == selection_order(EXAMPLE.weights()).tolist()
    return Numbers(plateau, result.m3, plateau == result.m2 < result.m3)


def trend_of_the_tail() -> Numbers:
    """Erratum 22: Δ/B falls in the tail."""
    result = tail_trend()
    return Numbers(result.steps, result.grew, result.grew == 0 < result.steps)


def frequency() -> Numbers:
    """Erratum 23: the bound rises and falls with ω."""
    heavy = Point(length=12, plateau_end=3, growth_start=10, n=4, dimension=128, norm=20.0)
    point = replace(heavy, beta=5.0, eta=0.5, p_sink=0.4)
    low, middle, high = (
        replace(point, omega=omega).head().bounds("printed") for omega in (0.3, 0.6, 1.2)
    )
    least, most, less = (float(one.precision_lower[0]) for one in (low, middle, high))
    positive = all(one.margin[0] > 0 < one.margin_sink[0] for one in (low, middle, high))
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
    """Erratum 27: a negative ρ₀ draws tokens closer, by a₀ and not by a_i."""
    rho0, token = -0.3, 2
    distances = []
    for cosine in (rho0, 0.0):
        head, summary = head_of(*four(cosine), [0, 3])
        by_rank = summary.sigma_ss[0] + head.a**2 - 2 * summary.sigma[0]
        distances.append(float(by_rank[head.order.tolist().index(token)]))
    a, _ = four()
    printed, true = 2 * a[token] * a[3] * rho0, distances[0] - distances[1]
    return Numbers(
        printed,
        true,
        true < 0
        and bool(np.isclose(true, 2 * a[0] * rho0 * (a[3] - a[token])))
        and not np.isclose(printed, true),
    )


def rank_of_the_sink() -> Numbers:
    """Erratum 28: the levels of Section 3.3 do not put the sink first."""
    profile = figure_4_profile()
    rank = sink_rank(profile)
    return Numbers(
        1.0,
        rank,
        rank > 1 and int(selection_order(profile.weights())[0]) == profile.length,
        {"eta": profile.eta},
    )


def peaks() -> Numbers:
    """Erratum 29: a peak that enters need not help, nor a valley harm."""
    point = replace(TABLE_1_POINT, beta=5.0, n=regimes(TABLE_1_POINT.profile()).m1 - 1)
    late = replace(point, n=point.length - 4)
    peak, valley = one_more(point, "peak"), one_more(late, "valley")
    assert peak is not None
    assert valley is not None
    bound, valley_bound = (
        float(after.recall_lower[0] - before.recall_lower[0])
        for before, after in ([head.bounds("printed") for head in pair] for pair in (peak, valley))
    )
    seen, after_valley = (true_change(*pair, draws=DRAWS, seed=1) for pair in (peak, valley))
    quoted = {
        "error": seen.recall_se,
        "n": point.n,
        "one_more": point.n + 1,
        "late": late.n,
        "valley": valley_bound,
        "rise": after_valley.recall,
        "rise_error": after_valley.recall_se,
    }
    margins = [
        margin
        for head in (*peak, *valley)
        for margin in (head.bounds("printed").margin[0], head.bounds("printed").margin_sink[0])
    ]
    shown = min(margins) > 0 < bound and seen.recall < -8 * seen.recall_se
    helped = valley_bound > 0 and after_valley.recall > 8 * after_valley.recall_se
    return Numbers(bound, seen.recall, shown and helped, quoted)


def slope_of_steps() -> Numbers:
    """Erratum 33: the share of selected tokens within a radius is a step function."""
    inside, r_min, recall = [], [], []
    for cosine in (0.0, -0.6):
        head, summary = head_of(*four(cosine), [0, 3])
        distance = np.sqrt(summary.sigma_ss[0] + head.a**2 - 2 * summary.sigma[0])
        inside.append(distance[:2])
        r_min.append(float(distance[2:].min()))
        recall.append(float((distance[:2] <= r_min[-1]).mean()))
    below, above = (float((inside[0] <= r_min[0] + step).mean()) for step in (-1e-6, 1e-6))
    printed, true = (above - below) / 2e-6 * (r_min[0] - r_min[1]), recall[1] - recall[0]
    return Numbers(printed, true, printed == 0 > true and r_min[1] < r_min[0])
