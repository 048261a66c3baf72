"""What is wrong in print: one frozen record an erratum, each with a counterexample that can be evaluated.

Source: arXiv 2602.01893; equation numbers are the paper's. Imports numpy, through the counterexamples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from theory import counterexamples
from theory.counterexamples import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Erratum:
    """A statement of the paper that does not hold, and what does."""

    number: int
    title: str
    printed: str
    true: str
    equations: tuple[str, ...]
    counterexample: Callable[[], Finding]


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        number=1,
        title="Units",
        printed="Tails e^{−κd(Δ/B)²} with Δ in units of a² and B in units of a, σ = B/√(2κd).",
        true="They change when all values are multiplied by a constant, P and R do not. Scale-free: κd(Δ/B²)² and σ = B²/√(2κd).",
        equations=("8", "10", "12", "14", "30", "31"),
        counterexample=counterexamples.units,
    ),
    Erratum(
        number=2,
        title="ρ_in is never defined",
        printed="Δ₀ = a₀² − (S_in ρ_in)².",
        true="Minimising a_j² − 2a_j S_in ρ_out over a_j gives ρ_out, as in (29) and Table 1.",
        equations=("8", "29"),
        counterexample=counterexamples.rho_in,
    ),
    Erratum(
        number=3,
        title="Count of tokens outside",
        printed="L − N tokens lie outside I_N.",
        true="Indices run 0..L: L + 1 − N do. The sink's count is always short; the other, (L−N) for (N−1)(L+1−N)/N, only for N > (L+1)/2.",
        equations=("12", "14"),
        counterexample=counterexamples.count,
    ),
    Erratum(
        number=4,
        title="The sink's terms in the mean",
        printed="M_j sums over I_N without the sink.",
        true="s contains y₀. The dropped part is 2a₀ρ₀(a_i − a_j) for i ≠ 0: wrong-way for lower bounds at ρ₀ < 0; uppers are too low.",
        equations=("10", "11", "28"),
        counterexample=counterexamples.sink_terms,
    ),
    Erratum(
        number=5,
        title="The mean at i = 0",
        printed="μ_0j = a_j² − a₀² − 2a_jM_j + 2a₀M₀, M₀ without a₀ itself.",
        true="a₀² enters with the wrong sign: the own term adds 2a₀².",
        equations=("10",),
        counterexample=counterexamples.own_sink_term,
    ),
    Erratum(
        number=6,
        title="Signs of cosines",
        printed="μ_ij ≥ Δ.",
        true="Needs every cosine among the tokens used to be ≥ 0; cosines of real heads are often negative.",
        equations=("8", "28"),
        counterexample=counterexamples.negative_cosines,
    ),
    Erratum(
        number=7,
        title="A lower tail from an upper-tail condition",
        printed="Upper bounds with p̲, Gordon's lower bound of a normal tail, at the sub-Gaussian σ.",
        true="Sub-Gaussian bounds tails from above only: the upper bounds can fail. The exact pairwise law replaces both.",
        equations=("9", "13", "15"),
        counterexample=counterexamples.lower_tail,
    ),
    Erratum(
        number=8,
        title="F(r_min) is concave in R",
        printed="2R_lo/(1+R_lo) ≤ E F(r_min).",
        true="Fails; E F(r_min) ≥ R_lo holds. The lower side of (17) holds, but only because P_lo has the form N/(N + E K).",
        equations=("16", "17"),
        counterexample=counterexamples.concave,
    ),
    Erratum(
        number=9,
        title="Feasibility of the Gram matrix",
        printed="Any β > 0 with any ρ₀.",
        true="Only |ρ₀| ≤ √((1+φ)/(L(1−φ)+2φ)), φ = e^{−β}; with an offset c, √(c + (1−c)(1+φ)/(L(1−φ)+2φ)).",
        equations=("Assumption 2",),
        counterexample=counterexamples.feasibility,
    ),
    Erratum(
        number=10,
        title="Normalisation of the weights",
        printed="p_base is free, and η drives oscillation and growth.",
        true="Σα = 1 determines p_base. One η for both: growth over 224 positions from 10⁻⁵ without exceeding 1 forces η ≲ 0.05.",
        equations=("Assumption 3",),
        counterexample=counterexamples.normalisation,
    ),
    Erratum(
        number=11,
        title="The floor jumps",
        printed="p̲ = φ(ξ)/(ξ + 1/ξ) for ξ ≥ 0, else ½.",
        true="It is 0 at ξ = 0 and ½ just below, although the probability is ≥ ½ for ξ ≤ 0.",
        equations=("9",),
        counterexample=counterexamples.jump,
    ),
    Erratum(
        number=12,
        title="One selected token",
        printed="a_min_in = min over I_N without the sink.",
        true="Undefined at N = 1 where the sink leads. P = R = 1 holds trivially there, for random selection too.",
        equations=("7", "8", "13", "15"),
        counterexample=counterexamples.only_the_sink,
    ),
    Erratum(
        number=13,
        title="κ is nowhere given",
        printed="A universal κ > 0.",
        true="Without its value nothing can be evaluated; 1/8 is what the repaired tails prove. It never enters the sharp edition.",
        equations=("10", "12", "14", "31"),
        counterexample=counterexamples.kappa,
    ),
    Erratum(
        number=14,
        title="Closed balls",
        printed="P(r_min) = 1 and R(r_max) = 1 with one closed ball.",
        true="The closed inner ball gives P(r_min) = K_in/(K_in + 1); (4) needs an open ball inside, a closed one outside.",
        equations=("2", "4", "20"),
        counterexample=counterexamples.closed_balls,
    ),
    Erratum(
        number=15,
        title="a_max_in is never defined",
        printed="B = a_max_in + a_max_out + S_in.",
        true="Whether it includes the sink changes B and Table 1's arrow for a₀. Default: include; both readings are offered.",
        equations=("8", "27"),
        counterexample=counterexamples.largest_inside,
    ),
    Erratum(
        number=16,
        title="The sign of Δ₀",
        printed="e^{−κd(Δ₀/B)²} under Δ > 0 alone.",
        true="Δ₀ < 0 then gives a bound near 1. Positive parts are needed; Δ > 0 alone does not suffice.",
        equations=("12", "14"),
        counterexample=counterexamples.squared,
    ),
    Erratum(
        number=17,
        title="N = L",
        printed="The lower bounds (12) and (14) are exactly 1 at N = L.",
        true="One token is outside and can come closer: d = 3, L = N = 2, a = (3/4, 1, 1/2), independent directions give E P = 391/432.",
        equations=("12", "14"),
        counterexample=counterexamples.everything_but_one,
    ),
    Erratum(
        number=18,
        title="A negative recall bound",
        printed="2R_lo/(1+R_lo) with R_lo of any sign.",
        true="2x/(1+x) has a pole at −1: clip to [0, 1] first.",
        equations=("14", "16"),
        counterexample=counterexamples.unclipped,
    ),
    Erratum(
        number=19,
        title="The sink need not be selected",
        printed="Δ₀ stands in every bound and ρ_out ≤ e^{−β}.",
        true="If the sink is not in I_N no Δ₀ term should stand, ρ_out may be ρ₀, and the effect of ρ₀ reverses.",
        equations=("7", "8", "12", "14"),
        counterexample=counterexamples.sink_left_out,
    ),
    Erratum(
        number=20,
        title="Assumption 2 to the letter",
        printed="cos(v_i, v_j) = e^{−β|i−j|} for every pair.",
        true="Then X_ij is a number and P is not random; it must be read in expectation.",
        equations=("Assumption 2", "25", "31"),
        counterexample=counterexamples.literal,
    ),
)
"""All errata, by number."""
