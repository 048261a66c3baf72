"""A number that contradicts print, for each erratum: computed by this room's own code.

Source: arXiv 2602.01893; equation numbers are the paper's. Each function shows the erratum it names. Imports numpy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.evaluate import envelope
from theory.gram import exponential, feasible_edge, smallest_eigenvalue
from theory.printed import floor_probability, harmonic, pair_levels, printed_margins
from theory.profile import WeightProfile
from theory.ranked import Ranked, Summary, ranked, summarise
from theory.repaired import exact_means
from theory.results import Envelope


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A number as printed, the true one, and whether they contradict in the way the erratum says."""

    printed: float
    true: float
    shown: bool
    what: str


def _head(a: Sequence[float], cosines: Any, inside: Sequence[int], sink: int | None = 0) -> tuple[Ranked, Summary]:
    """Return a head of given effective weights whose first ranks are the tokens `inside`."""
    order = np.array([*inside, *(j for j in range(len(a)) if j not in inside)])
    head = ranked(order, np.asarray(a, dtype=float)[order], np.ones(len(a)), np.asarray(cosines, dtype=float), sink)
    return head, summarise(head, np.array([len(inside)]))


def _four(rho0: float = 0.1) -> tuple[list[float], Any]:
    """Return a = (1/2, 1/20, 1/10, 3/5) with e^{−β} = 1/4: the sink and the last token are selected at N = 2."""
    return [0.5, 0.05, 0.1, 0.6], exponential(float(np.log(4)), rho0, 4).matrix(4)


def _bounds(alpha: Sequence[float], gram: Any, dimension: int, size: int, edition: Any, norms: Any = 1.0, **options: Any) -> Envelope:
    return envelope(np.asarray(alpha), norms, gram, dimension, [size], edition=edition, **options)


def units() -> Finding:
    """Erratum 1: units."""
    a, gram = _four()
    one, ten = (_bounds(a, gram, 128, 2, "printed", norms=scale) for scale in (1.0, 10.0))
    sharp_one, sharp_ten = (_bounds(a, gram, 128, 2, "sharp", norms=scale) for scale in (1.0, 10.0))
    moved = float(ten.precision_lower[0] - one.precision_lower[0])
    fixed = float(sharp_ten.precision_lower[0] - sharp_one.precision_lower[0])
    return Finding(
        printed=moved, true=fixed, shown=moved > 0.3 and abs(fixed) < 1e-12, what="change of the lower bound of E P under v → 10v"
    )


def rho_in() -> Finding:
    """Erratum 2: ρ_in is never defined."""
    gram = exponential(float(np.log(2)), 0.0, 11).matrix(11)
    head, summary = _head([0.3, 1.0, 0.16, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.5], gram, [0, 1, 10])
    printed = float(printed_margins(summary, delta0="in", sink_in_b=True, sink_visible=True).margin_sink[0])
    true = float(exact_means(head, summary, 0)[0].min())
    return Finding(printed=printed, true=true, shown=printed > 0 > true, what="Δ₀ with ρ_in, against the smallest mean it should bound")


def count() -> Finding:
    """Erratum 3: count of tokens outside."""
    length, size = 3, 2
    outside = len(_head(*_four(), [0, 3])[0].a) - size
    return Finding(printed=length - size, true=outside, shown=outside == length - size + 1, what="tokens outside I_N at L = 3, N = 2")


def sink_terms() -> Finding:
    """Erratum 4: the sink's terms in the mean."""
    head, summary = _head(*_four(-0.3), [0, 3])
    levels = pair_levels(head, summary, 0)
    printed, true = float(levels[2] - levels[1]), float(exact_means(head, summary, 0)[1, 0])
    dropped = 2 * head.a[0] * -0.3 * (head.a[1] - head.a[2])
    return Finding(
        printed=printed, true=true, shown=printed > true and bool(np.isclose(true - printed, dropped)), what="μ_ij at ρ₀ = −0.3, i ≠ 0"
    )


def own_sink_term() -> Finding:
    """Erratum 5: the mean at i = 0."""
    head, summary = _head([0.5, 0.1, 0.2], exponential(float(np.log(4)), 0.1, 3).matrix(3), [0])
    levels = pair_levels(head, summary, 0)
    printed, true = float(levels[1] - levels[0]), float(exact_means(head, summary, 0)[0, 0])
    return Finding(printed=printed, true=true, shown=printed < 0 < true, what="μ_0j where only the sink is selected")


def negative_cosines() -> Finding:
    """Erratum 6: signs of cosines."""
    gram = np.array([[1, -0.5, 0], [-0.5, 1, 0], [0, 0, 1.0]])
    head, summary = _head([1.0, 1.0, 0.1], gram, [0, 1], sink=None)
    printed = float(printed_margins(summary, delta0="out", sink_in_b=True, sink_visible=False).margin[0])
    true = float(exact_means(head, summary, 0).min())
    return Finding(printed=printed, true=true, shown=true < printed, what="Δ, against the smallest mean it should bound, at ρ = −1/2")


def lower_tail() -> Finding:
    """Erratum 7: a lower tail from an upper-tail condition."""
    alpha, gram = [0.6, 0.4, 0.05], np.eye(3)
    printed = float(_bounds(alpha, gram, 64, 2, "printed", sink=None).recall_upper[0])
    true = float(_bounds(alpha, gram, 64, 2, "sharp", sink=None).recall_lower[0])
    return Finding(
        printed=printed, true=true, shown=true > printed + 0.05, what="printed upper bound of E R, against its sharp lower bound"
    )


def concave() -> Finding:
    """Erratum 8: F(r_min) is concave in R."""
    recall = np.array([0.0, 1.0])
    printed, true = float(harmonic(recall.mean())), float(harmonic(recall).mean())
    return Finding(printed=printed, true=true, shown=true < printed, what="f(E R), against E F(r_min) where R is 0 or 1 with probability ½")


def feasibility() -> Finding:
    """Erratum 9: feasibility of the Gram matrix."""
    gram = exponential(0.1, 0.5, 65)
    true = smallest_eigenvalue(gram, 65)
    return Finding(
        printed=0.0, true=true, shown=true < -1e-6 and feasible_edge(0.1, 64) < 0.5, what="smallest eigenvalue at L = 64, β = 0.1, ρ₀ = 0.5"
    )


def normalisation() -> Finding:
    """Erratum 10: normalisation of the weights."""
    profile = WeightProfile(length=1024, plateau_end=100, growth_start=800, p_sink=0.5, eta=0.1, omega=1.0, p_base=1e-5)
    largest = float(profile.weights().max())
    limit = np.log(1e5) / 224
    return Finding(
        printed=largest,
        true=1.0,
        shown=largest > 1 and limit < 0.052,
        what="largest weight at η = 0.1, p_base = 10⁻⁵, 224 growing positions",
    )


def jump() -> Finding:
    """Erratum 11: the floor jumps."""
    printed = float(floor_probability(0.0))
    return Finding(
        printed=printed, true=0.5, shown=printed == 0.0 and float(floor_probability(-1e-12)) == 0.5, what="p̲ at ξ = 0, a floor of ½"
    )


def only_the_sink() -> Finding:
    """Erratum 12: one selected token."""
    alpha, gram = [0.5, 0.1, 0.2], exponential(float(np.log(4)), 0.1, 3)
    found = _bounds(alpha, gram, 128, 1, "printed")
    truth = float(_bounds(alpha, gram, 128, 1, "sharp").precision_lower[0])
    upper = float(found.precision_upper[0])
    return Finding(
        printed=upper, true=truth, shown=bool(np.isnan(found.margin[0])) and upper < truth, what="upper bound of E P at N = 1, P = 1"
    )


def kappa() -> Finding:
    """Erratum 13: κ is nowhere given."""
    a, gram = _four()
    low, high = (float(_bounds(a, gram, 128, 2, "printed", kappa=kappa).precision_lower[0]) for kappa in (0.125, 2.0))
    sharp = [float(_bounds(a, gram, 128, 2, "sharp", kappa=kappa).precision_lower[0]) for kappa in (0.125, 2.0)]
    return Finding(printed=high - low, true=sharp[1] - sharp[0], shown=high - low > 0.3, what="lower bound of E P from κ = 1/8 to κ = 2")


def closed_balls() -> Finding:
    """Erratum 14: closed balls."""
    # In one dimension: s = 3, squared distances 1, 4 inside and 9, 4 outside; the nearest outside lies on the inner sphere.
    inside, outside = np.array([1.0, 4.0]), np.array([9.0, 4.0])
    k_in, k_out = int((inside <= outside.min()).sum()), int((outside <= outside.min()).sum())
    true = k_in / (k_in + k_out)
    return Finding(printed=1.0, true=true, shown=true < 1, what="P(r_min) with the closed ball of eq. (2)")


def largest_inside() -> Finding:
    """Erratum 15: a_max_in is never defined."""
    gram = np.eye(4)
    gram[1:, 1:] = 0.1 ** np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    _, summary = _head([0.6, 0.3, 0.01, 0.005], gram, [0, 1])
    with_sink, without = (
        float(printed_margins(summary, delta0="out", sink_in_b=choice, sink_visible=True).scale[0]) for choice in (True, False)
    )
    return Finding(printed=without, true=with_sink, shown=with_sink > 1.4 * without, what="B without and with the sink in a_max_in")


def _sign_of_delta_0() -> tuple[list[float], Any]:
    return [0.05, 1.0, 0.3, 0.01], exponential(float(np.log(2)), 0.0, 4).matrix(4)


def squared() -> Finding:
    """Erratum 16: the sign of Δ₀."""
    a, gram = _sign_of_delta_0()
    # The sink has a large weight and a short value: it is selected although a₀ is small.
    alpha, norms = np.array([2.0, 1.0, 0.3, 0.01]), np.array([0.025, 1.0, 1.0, 1.0])
    found = _bounds(list(alpha), gram, 10**6, 2, "printed", norms=norms)
    truth = float(_bounds(list(alpha), gram, 64, 2, "sharp", norms=norms).precision_upper[0])
    assert np.allclose(alpha * norms, a)
    printed = float(found.precision_lower[0])
    return Finding(
        printed=printed, true=truth, shown=float(found.margin_sink[0]) < 0 and printed > truth, what="lower bound of E P where Δ₀ < 0"
    )


def everything_but_one() -> Finding:
    """Erratum 17: N = L."""
    printed = float(_bounds([0.75, 1.0, 0.5], np.eye(3), 3, 2, "printed").precision_lower[0])
    # ‖s‖² is uniform on (1/16, 49/16) and ⟨s, y₂⟩/(‖s‖a₂) on (−1, 1): P{D₂ ≤ 1} = 41/144, so E P = 1 − (41/144)/3.
    true = 1 - 41 / 432
    return Finding(
        printed=printed, true=true, shown=printed == 1.0 > true, what="E P at L = N = 2, d = 3, a = (3/4, 1, 1/2), independent directions"
    )


def unclipped() -> Finding:
    """Erratum 18: a negative recall bound."""
    found = _bounds([0.02, 0.05, 0.3, 0.5], exponential(float(np.log(4)), 0.3, 4), 256, 2, "printed")
    printed = float(found.f_inner_lower[0])
    return Finding(
        printed=printed, true=0.0, shown=float(found.recall_lower[0]) < 0 and printed < 0, what="lower bound of E F(r_min) at R_lo < 0"
    )


def sink_left_out() -> Finding:
    """Erratum 19: the sink need not be selected."""
    gram = exponential(float(np.log(4)), 0.3, 4).matrix(4)
    _, summary = _head([0.02, 0.05, 0.3, 0.5], gram, [2, 3])
    true = float(summary.rho_out[0])
    return Finding(printed=0.25, true=true, shown=true > 0.25, what="e^{−β}, against ρ_out where the sink is not selected")


def literal() -> Finding:
    """Erratum 20: assumption 2 to the letter."""
    a, gram = _sign_of_delta_0()
    head, summary = _head(a, gram, [0, 1])
    distance = summary.sigma_ss[0] + head.a**2 - 2 * summary.sigma[0]
    true = 2 / (2 + int((distance[2:] <= distance[:2].max()).sum()))
    margins = printed_margins(summary, delta0="out", sink_in_b=True, sink_visible=True)
    tail = np.exp(-0.125 * 1e6 * (np.array([margins.margin[0], margins.margin_sink[0]]) / margins.scale[0]) ** 2)
    printed = float(1 / (1 + tail[0] + tail[1] / 2))
    return Finding(
        printed=printed, true=true, shown=true < printed, what="P where every cosine is exactly as assumed: one number, no expectation"
    )
