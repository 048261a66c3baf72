"""A number that contradicts print, for each erratum: computed by this room's own code.

Source: arXiv 2602.01893; equation numbers are the paper's. Each function shows the erratum it names. Imports numpy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.editions.printed import pair_levels, printed_margins
from theory.editions.repaired import exact_means
from theory.evaluate.envelopes import envelope
from theory.head.gram import exponential, feasible_edge, smallest_eigenvalue
from theory.head.ranked import Ranked, Summary, ranked, summarise
from theory.head.results import Envelope
from theory.head.weights import WeightProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A number as printed, the true one, and whether they contradict in the way the erratum says.

    what: the quantity. given: the head or the numbers it is computed from.
    """

    printed: float
    true: float
    shown: bool
    what: str
    given: str


def head_of(a: Sequence[float], cosines: Any, inside: Sequence[int], sink: int | None = 0) -> tuple[Ranked, Summary]:
    """Return a head of given effective weights whose first ranks are the tokens `inside`."""
    order = np.array([*inside, *(j for j in range(len(a)) if j not in inside)])
    head = ranked(order, np.asarray(a, dtype=float)[order], np.ones(len(a)), np.asarray(cosines, dtype=float), sink)
    return head, summarise(head, np.array([len(inside)]))


FOUR = "a = (1/2, 1/20, 1/10, 3/5), e^{−β} = 1/4"
"""The head of `four`, in words."""


def four(rho0: float = 0.1) -> tuple[list[float], Any]:
    """Return a = (1/2, 1/20, 1/10, 3/5) with e^{−β} = 1/4: the sink and the last token are selected at N = 2."""
    return [0.5, 0.05, 0.1, 0.6], exponential(float(np.log(4)), rho0, 4).matrix(4)


def bounds_of(alpha: Sequence[float], gram: Any, dimension: int, size: int, edition: Any, norms: Any = 1.0, **options: Any) -> Envelope:
    """Return the bounds of one head at one size."""
    return envelope(np.asarray(alpha), norms, gram, dimension, [size], edition=edition, **options)


def units() -> Finding:
    """Erratum 1: units."""
    a, gram = four()
    one, ten = (bounds_of(a, gram, 128, 2, "printed", norms=scale) for scale in (1.0, 10.0))
    sharp_one, sharp_ten = (bounds_of(a, gram, 128, 2, "sharp", norms=scale) for scale in (1.0, 10.0))
    moved = float(ten.precision_lower[0] - one.precision_lower[0])
    fixed = float(sharp_ten.precision_lower[0] - sharp_one.precision_lower[0])
    return Finding(
        printed=moved,
        true=fixed,
        shown=moved > 0.3 and abs(fixed) < 1e-12,
        what="change of the lower bound of E P under v → 10v",
        given=f"{FOUR}, ρ₀ = 0.1, d = 128, N = 2, κ = 1/8",
    )


def rho_in() -> Finding:
    """Erratum 2: ρ_in is never defined."""
    gram = exponential(float(np.log(2)), 0.0, 11).matrix(11)
    head, summary = head_of([0.3, 1.0, 0.16, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.5], gram, [0, 1, 10])
    printed = float(printed_margins(summary, delta0="in", sink_in_b=True, sink_visible=True).margin_sink[0])
    true = float(exact_means(head, summary, 0)[0].min())
    return Finding(
        printed=printed,
        true=true,
        shown=printed > 0 > true,
        what="Δ₀ with ρ_in, against the smallest mean it should bound",
        given="a = (0.3, 1, 0.16, 0.1, …, 0.1, 0.5) on tokens 0..10, e^{−β} = 1/2, ρ₀ = 0, I = {0, 1, 10}",
    )


def count() -> Finding:
    """Erratum 3: count of tokens outside."""
    length, size = 3, 2
    outside = len(head_of(*four(), [0, 3])[0].a) - size
    return Finding(
        printed=length - size, true=outside, shown=outside == length - size + 1, what="tokens outside I_N", given="four tokens, N = 2"
    )


def sink_terms() -> Finding:
    """Erratum 4: the sink's terms in the mean."""
    head, summary = head_of(*four(-0.3), [0, 3])
    levels = pair_levels(head, summary, 0)
    printed, true = float(levels[2] - levels[1]), float(exact_means(head, summary, 0)[1, 0])
    dropped = 2 * head.a[0] * -0.3 * (head.a[1] - head.a[2])
    return Finding(
        printed=printed,
        true=true,
        shown=printed > true and bool(np.isclose(true - printed, dropped)),
        what="μ_ij",
        given=f"{FOUR}, ρ₀ = −0.3, I = {{0, 3}}, i = 3, j = 1",
    )


def own_sink_term() -> Finding:
    """Erratum 5: the mean at i = 0."""
    head, summary = head_of([0.5, 0.1, 0.2], exponential(float(np.log(4)), 0.1, 3).matrix(3), [0])
    levels = pair_levels(head, summary, 0)
    printed, true = float(levels[1] - levels[0]), float(exact_means(head, summary, 0)[0, 0])
    return Finding(
        printed=printed,
        true=true,
        shown=printed < 0 < true,
        what="μ_0j where only the sink is selected",
        given="a = (0.5, 0.1, 0.2), e^{−β} = 1/4, ρ₀ = 0.1, I = {0}, j = 1",
    )


def negative_cosines() -> Finding:
    """Erratum 6: signs of cosines."""
    gram = np.array([[1, -0.5, 0], [-0.5, 1, 0], [0, 0, 1.0]])
    head, summary = head_of([1.0, 1.0, 0.1], gram, [0, 1], sink=None)
    printed = float(printed_margins(summary, delta0="out", sink_in_b=True, sink_visible=False).margin[0])
    true = float(exact_means(head, summary, 0).min())
    return Finding(
        printed=printed,
        true=true,
        shown=true < printed,
        what="Δ, against the smallest mean it should bound",
        given="a = (1, 1, 0.1), no sink, ρ_01 = −1/2, the other cosines 0, I = {0, 1}",
    )


def feasibility() -> Finding:
    """Erratum 9: feasibility of the Gram matrix."""
    gram = exponential(0.1, 0.5, 65)
    true = smallest_eigenvalue(gram, 65)
    return Finding(
        printed=0.0,
        true=true,
        shown=true < -1e-6 and feasible_edge(0.1, 64) < 0.5,
        what="smallest eigenvalue of the Gram, taken to be ≥ 0",
        given="L = 64, β = 0.1, ρ₀ = 0.5",
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
        what="largest attention weight, at most",
        given="L = 1024, T₁ = 100, T₂ = 800, p_base = 10⁻⁵, η = 0.1",
    )


def largest_inside() -> Finding:
    """Erratum 15: a_max_in is never defined."""
    gram = np.eye(4)
    gram[1:, 1:] = 0.1 ** np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    _, summary = head_of([0.6, 0.3, 0.01, 0.005], gram, [0, 1])
    with_sink, without = (
        float(printed_margins(summary, delta0="out", sink_in_b=choice, sink_visible=True).scale[0]) for choice in (True, False)
    )
    return Finding(
        printed=without,
        true=with_sink,
        shown=with_sink > 1.4 * without,
        what="B without and with the sink in a_max_in",
        given="a = (0.6, 0.3, 0.01, 0.005), I = {0, 1}",
    )


def short_sink() -> tuple[list[float], Any]:
    """Return a head whose sink has a short value: Δ₀ < 0 at N = 2 with the sink selected."""
    return [0.05, 1.0, 0.3, 0.01], exponential(float(np.log(2)), 0.0, 4).matrix(4)


def literal() -> Finding:
    """Erratum 20: assumption 2 to the letter."""
    a, gram = short_sink()
    head, summary = head_of(a, gram, [0, 1])
    distance = summary.sigma_ss[0] + head.a**2 - 2 * summary.sigma[0]
    true = 2 / (2 + int((distance[2:] <= distance[:2].max()).sum()))
    margins = printed_margins(summary, delta0="out", sink_in_b=True, sink_visible=True)
    tail = np.exp(-0.125 * 1e6 * (np.array([margins.margin[0], margins.margin_sink[0]]) / margins.scale[0]) ** 2)
    printed = float(1 / (1 + tail[0] + tail[1] / 2))
    return Finding(
        printed=printed,
        true=true,
        shown=true < printed,
        what="P where every cosine is exactly as assumed: one number, no expectation",
        given="a = (0.05, 1, 0.3, 0.01), e^{−β} = 1/2, ρ₀ = 0, d = 10⁶, I = {0, 1}, κ = 1/8",
    )
