"""What is wrong in the assumptions, theorems and proofs: one frozen record an erratum.

Source: arXiv 2602.01893; equation numbers are the paper's. Every claim has a counterexample in `theory.errata.shown_setting` or `theory.errata.shown_bounds`.
"""

from __future__ import annotations

from theory.errata import shown_bounds, shown_setting
from theory.errata.record import Erratum

ERRATA: tuple[Erratum, ...] = (
    Erratum(
        number=1,
        title="Units",
        printed="Tails e^{−κd(Δ/B)²} with Δ in units of a² and B in units of a, σ = B/√(2κd).",
        why=(
            "a carries the unit of value norms, so Δ is in its square and B in itself: the exponent κd(Δ/B)² is in norm², not a "
            "number, and ξ = μ/σ, with it (13) and (15), is in norm. Multiply every value state by t and the exponent grows t²-fold, "
            "while every comparison of distances, hence P and R, stays."
        ),
        true="The bounds change when all values are multiplied by a constant, P and R do not. Scale-free: κd(Δ/B²)² and σ = B²/√(2κd).",
        equations=("8", "9", "10", "12", "13", "14", "15", "30", "31"),
        counterexample=shown_setting.units,
    ),
    Erratum(
        number=2,
        title="ρ_in is never defined",
        printed="Δ₀ = a₀² − (S_in ρ_in)².",
        why=(
            "(8) uses ρ_in, which nothing defines; (29) and Table 1 have ρ_out. The derivation has only cosines between tokens "
            "outside and inside: at ρ₀ = 0, E X_0j ≥ a₀² + a_j² − 2a_j S_in ρ_out, smallest at a_j = S_in ρ_out. Similarity among "
            "the selected cannot enter, and with it the margin can exceed the mean it bounds."
        ),
        true="Minimising a_j² − 2a_j S_in ρ_out over a_j gives ρ_out, as in (29) and Table 1.",
        equations=("8", "29"),
        counterexample=shown_setting.rho_in,
    ),
    Erratum(
        number=3,
        title="Count of tokens outside",
        printed="Union factors (L − N) and (L − N)/N for the tokens outside I_N.",
        why=(
            "Tokens are numbered 0, 1, …, L, which are L + 1, so L + 1 − N lie outside. With the sink selected the union bound, divided "
            "by N, has (N−1)(L+1−N)/N pairs of content and (L+1−N)/N of the sink."
        ),
        true=("L + 1 − N tokens lie outside. The sink's count is always short; the other, (L−N) for (N−1)(L+1−N)/N, only for N > (L+1)/2."),
        equations=("12", "14"),
        counterexample=shown_setting.count,
    ),
    Erratum(
        number=4,
        title="The sink's terms in the mean",
        printed="M_j sums over I_N without the sink.",
        why=(
            "(25) has s = Σ_{k∈I} y_k with the sink in it; (10) and (11) leave the sink out of the sum. E X_ij = a_j² + a_i² + 2a_i"
            " Σ_{k∈I∖i} a_kρ_ki − 2a_j Σ_{k∈I} a_kρ_kj, over all of I."
        ),
        true=(
            "s contains y₀ where the sink is selected. The dropped part is 2a₀ρ₀(a_i − a_j) for i ≠ 0; where a_i > a_j the lower bounds "
            "can be too high for ρ₀ < 0, and the upper ones too low for ρ₀ > 0."
        ),
        equations=("10", "11", "28"),
        counterexample=shown_setting.sink_terms,
    ),
    Erratum(
        number=5,
        title="The mean at i = 0",
        printed="μ_0j = a_j² − a₀² − 2a_jM_j + 2a₀M₀, M₀ without a₀ itself.",
        why="For i = 0 the sum in (11) omits a₀ρ₀₀ = a₀. In E X_0j the own term 2a₀·a₀ turns −a₀² into +a₀², as (29) has it.",
        true="a₀² enters with the wrong sign: the own term adds 2a₀².",
        equations=("10",),
        counterexample=shown_setting.own_sink_term,
    ),
    Erratum(
        number=6,
        title="Signs of cosines",
        printed="μ_ij ≥ Δ.",
        why=(
            "(28) drops 2a_i Σ_{k∈I∖i} a_kρ_ki, which is sure to be ≥ 0 only where the cosines among the selected are. Assumption 2 makes "
            "those of content positive, but leaves the sign of ρ₀ open. A negative one can bring the mean below Δ."
        ),
        true="Holds where every cosine among the tokens used is ≥ 0 and a_i ≥ a_j; cosines of real heads are often negative.",
        equations=("8", "28"),
        counterexample=shown_setting.negative_cosines,
    ),
    Erratum(
        number=7,
        title="A lower tail from an upper-tail condition",
        printed="Upper bounds with p̲, Gordon's lower bound of a normal tail, at the sub-Gaussian σ.",
        why=(
            "A variance proxy says how little mass lies in a tail, not how much: X_ij could be nearly constant with the same σ. "
            "Gordon's lower bound needs X_ij to be Gaussian with variance σ², and σ, which only bounds the spread, may be far wider."
        ),
        true="Sub-Gaussian bounds tails from above only: the upper bounds can fail. Under Model G the exact law of a pair replaces both.",
        equations=("9", "13", "15"),
        counterexample=shown_bounds.lower_tail,
    ),
    Erratum(
        number=8,
        title="F(r_min) is concave in R",
        printed="2R_lo/(1+R_lo) ≤ E F(r_min).",
        why=(
            "F(r_min) = 2R/(1+R) is concave, so E f(R) ≤ f(E R): Jensen's inequality runs against the claim. F(r_max) = 2P/(1+P) = "
            "2N/(2N+K_out) is convex in the count instead."
        ),
        true=(
            "Does not follow, and f(E R) ≤ E F(r_min) is false (a head: erratum 17); E F(r_min) ≥ R_lo holds. The lower side of (17) "
            "follows from (12), but only because P_lo has the form N/(N + k) with E K_out ≤ k."
        ),
        equations=("16", "17"),
        counterexample=shown_bounds.concave,
    ),
    Erratum(
        number=9,
        title="Feasibility of the Gram matrix",
        printed="Any β > 0 with any ρ₀.",
        why=(
            "Cosines of actual vectors form a positive semidefinite matrix. With A_ij = e^{−β|i−j|} the sink's row requires ρ₀² "
            "1ᵀA⁻¹1 ≤ 1; 1ᵀA⁻¹1 grows with L, so ρ₀ must shrink. Besides, an L×L matrix of full rank needs L dimensions, and a head"
            " has d."
        ),
        true="Only |ρ₀| ≤ √((1+φ)/(L(1−φ)+2φ)), φ = e^{−β}; with an offset c, √(c + (1−c)(1+φ)/(L(1−φ)+2φ)).",
        equations=("Assumption 2",),
        counterexample=shown_setting.feasibility,
    ),
    Erratum(
        number=10,
        title="Normalisation of the weights",
        printed="Parameters p_sink, η, ω, T₁, T₂; η drives both oscillation and growth.",
        why=(
            "Softmax weights sum to 1, which Assumption 3 never imposes; p_base is used but not listed. One η has to be small enough "
            "for growth over hundreds of positions and large enough for an oscillation that is seen."
        ),
        true=(
            "Σα = 1 determines p_base from the rest. One η for both: growth over 224 positions from 10⁻⁵ without exceeding 1 forces "
            "η ≤ ln(10⁵)/224 ≈ 0.051, hence an oscillation of about 5% at most."
        ),
        equations=("Assumption 3",),
        counterexample=shown_setting.normalisation,
    ),
    Erratum(
        number=11,
        title="The floor jumps",
        printed="p̲ = φ(ξ)/(ξ + 1/ξ) for ξ ≥ 0, else ½.",
        why=(
            "φ(ξ)/(ξ + 1/ξ) = φ(ξ)ξ/(1+ξ²) tends to 0 as ξ falls to 0, where the normal tail it floors is ½. A floor that grows "
            "from 0 to its peak at ξ ≈ 0.64 is a weak one just where pairs are close; the branch for ξ < 0 jumps to ½."
        ),
        true="It is 0 at ξ = 0 (by its limit) and ½ just below, although a normal tail is ≥ ½ for ξ ≤ 0.",
        equations=("9",),
        counterexample=shown_bounds.jump,
    ),
    Erratum(
        number=12,
        title="One selected token",
        printed="a_min_in = min over I_N without the sink.",
        why=(
            "The minimum and maximum of (7) run over an empty set when the sink is the one token selected, and N = 1 is allowed. "
            "There s = y_i, D_i = 0, so P = R = 1 whatever was selected, equal contributions aside; the printed upper bounds fall below."
        ),
        true="Undefined at N = 1 where the sink leads. P = R = 1 holds trivially there, for random selection too.",
        equations=("7", "8", "13", "15"),
        counterexample=shown_bounds.only_the_sink,
    ),
    Erratum(
        number=13,
        title="κ is nowhere given",
        printed="A universal κ > 0.",
        why=(
            "“For some universal κ > 0” is an existence claim; Figure 5 draws the bounds, for which a number must have been chosen."
            " The bound runs from vacuous to nearly 1 over plausible values."
        ),
        true=(
            "Without its value no bound can be evaluated; 1/8 is proven with scale-free tails for independent uniform directions. It never "
            "enters sharp values."
        ),
        equations=("10", "12", "14", "31"),
        counterexample=shown_bounds.kappa,
    ),
    Erratum(
        number=14,
        title="Closed balls",
        printed="P(r_min) ≡ 1 and R(r_max) ≡ 1; (20) counts D ≤ r² at both radii.",
        why=(
            "r_min is the distance of a token that is not selected, so the closed ball of radius r_min holds it. By (2) then "
            "P(r_min) = K_in/(K_in + 1) < 1, ties aside. An open ball may hold no token at all: 0/0."
        ),
        true="The closed inner ball gives P(r_min) = K_in/(K_in + 1); (4) needs an open ball inside, a closed one outside.",
        equations=("2", "4", "20"),
        counterexample=shown_bounds.closed_balls,
    ),
    Erratum(
        number=15,
        title="a_max_in is never defined",
        printed="B = a_max_in + a_max_out + S_in.",
        why=(
            "(8) and (27) use a_max_in, which neither (7) nor (26) defines. With the sink in it, and the largest there, B grows with a₀, "
            "and so does the content's tail."
        ),
        true="Whether it includes the sink changes B and Table 1's arrow for a₀. Default: include; both readings are offered.",
        equations=("8", "27"),
        counterexample=shown_setting.largest_inside,
    ),
    Erratum(
        number=16,
        title="The sign of Δ₀",
        printed="e^{−κd(Δ₀/B)²} under Δ > 0 alone.",
        why=(
            "The tail bound holds for a positive mean only, but the exponent squares the margin: the more negative Δ₀, the better "
            "the bound."
        ),
        true="Δ₀ < 0 then gives a bound near 1. Positive parts are needed; Δ > 0 alone does not suffice.",
        equations=("12", "14"),
        counterexample=shown_bounds.squared,
    ),
    Erratum(
        number=17,
        title="N = L",
        printed="The lower bounds (12) and (14) are exactly 1 at N = L.",
        why="(L − N) vanishes at N = L, although one of the L + 1 tokens is still outside and may come closer than a selected one.",
        true=(
            "One token is outside and can come closer: d = 3, L = N = 2, a = (3/4, 1, 1/2), so Δ = 1 and Δ₀ = 9/16, independent uniform "
            "directions give E P = 391/432, E R = 227/288 and E F(r_min) = 13/16 < f(E R) = 454/515."
        ),
        equations=("12", "14"),
        counterexample=shown_bounds.everything_but_one,
    ),
    Erratum(
        number=18,
        title="A negative recall bound",
        printed="2R_lo/(1+R_lo) with R_lo of any sign.",
        why=(
            "R_lo = 1 − … is not clipped, and 2x/(1+x) has a pole at −1: it is negative, and says nothing, for −1 < x < 0, and exceeds 2 "
            "below −1."
        ),
        true="False where R_lo < −1. Clip R_lo to [0, 1] first.",
        equations=("14", "16"),
        counterexample=shown_bounds.unclipped,
    ),
    Erratum(
        number=19,
        title="The sink need not be selected",
        printed="Δ₀ stands in every bound and ρ_out ≤ e^{−β}.",
        why=(
            "(7) takes k over I_N without the sink but j over all tokens outside: the sink, when outside, brings ρ₀ into ρ_out, "
            "which e^{−β} need not exceed. Its own margin Δ₀ then stands for no pair."
        ),
        true="If the sink is not in I_N no Δ₀ term should stand, ρ_out may be ρ₀, and the effect of ρ₀ reverses.",
        equations=("7", "8", "12", "14"),
        counterexample=shown_bounds.sink_left_out,
    ),
    Erratum(
        number=20,
        title="Assumption 2 to the letter",
        printed="cos(v_i, v_j) = e^{−β|i−j|} for i, j > 0, cos(v_0, v_j) = ρ₀.",
        why=(
            "If all cosines and norms are fixed numbers, so is every ⟨y_k, y_l⟩, hence X_ij in (25), K_in, K_out, P and R. "
            "Expectations and tails then mean nothing: where both margins are positive and the cosines ≥ 0, every X_ij > 0 and P = R = 1; "
            "where Δ₀ < 0 the bounds can be false."
        ),
        true="Then X_ij is a number and P is not random; it must be read in expectation.",
        equations=("Assumption 2", "25", "31"),
        counterexample=shown_setting.literal,
    ),
)
"""Errata 1-20."""
