"""What is wrong in Appendix A.2 and Figure 4: one frozen record an erratum.

Source: arXiv 2602.01893; equation numbers are the paper's. Every claim has a counterexample in `theory.errata.shown_analysis`.
"""

from __future__ import annotations

from theory.errata import shown_analysis
from theory.errata.record import Erratum

ERRATA: tuple[Erratum, ...] = (
    Erratum(
        number=21,
        title="The order of entry",
        printed="Regime IV: valleys and 1..T₁ in; regime V: all oscillations and the tail.",
        why=(
            "By Assumption 3 a valley weighs p_base(1 + η cos ωi) < p_base, less than the plateau. Top-N selection takes the "
            "plateau first. The tail, the heaviest content, entered in regime II; if row V lists all that is in by then, the plateau "
            "is missing."
        ),
        true="Tail, peaks, plateau, valleys, in this order: m₁ = L − T₂ + 2, m₂ = m₁ + n₊, m₃ = L + 2 − n₋ with the sink in.",
        equations=(
            "Table 2 row IV",
            "Table 2 row V",
        ),
        counterexample=shown_analysis.order_of_entry,
    ),
    Erratum(
        number=22,
        title="Δ/B in the tail",
        printed="Regime II: Δ/B ↑ as the top of the tail enters.",
        why=(
            "Let x = e^{−η} and m = N − 1 tail tokens be selected, the largest weight being 1: Δ = x^{2m−2}(1 − "
            "2e^{−β}x^{2−m}(1−x^m)/(1−x)), both factors falling in m, and B gains x^{m+1} at each step."
        ),
        true="It falls at every step while Δ > 0. Δ > 0 needs β > ln 2 + ln[(1−x^m)/((1−x)x^{m−2})], m = N − 1, x = e^{−η}.",
        equations=("Table 2 row II",),
        counterexample=shown_analysis.trend_of_the_tail,
    ),
    Erratum(
        number=23,
        title="Larger ω",
        printed="Regime III: larger η, ω help.",
        why="cos(ωi) = cos((2π − ω)i) at every integer i: the weights, and with them all statistics, are the same for ω and for 2π − ω.",
        true="“Larger ω helps” cannot hold over 0 < ω < 2π, since ω and 2π − ω give the same weights.",
        equations=("Table 2 row III",),
        counterexample=shown_analysis.frequency,
    ),
    Erratum(
        number=24,
        title="The arrow of β",
        printed="Larger β improves the bounds, through a smaller ρ_out.",
        why=(
            "The printed margin knows β through ρ_out only. But s is built from the selected: as β grows they stop pointing the "
            "same way, and μ_ij loses the term 2a_i Σ_{k∈I∖i} a_kρ_ki, which Δ drops; ρ_out, the worst case of a few pairs, matters"
            " less."
        ),
        true="Right on the printed bound where Δ, Δ₀ > 0; mostly reversed in truth from N = 3 on, mildly right at N = 2: docs/table1.md.",
        equations=("Table 1 row beta",),
        counterexample=shown_analysis.decay,
    ),
    Erratum(
        number=25,
        title="The arrow of N",
        printed="Among mixed effects: the (L − N) terms fall with N, which improves the bounds.",
        why=(
            "The union bound on the content's part of 1 − E R is (N−1)(L+1−N)/N tails, whose derivative in N, (L+1)/N² − 1, is "
            "positive up to N = √(L+1). Only the printed count (L − N) falls throughout."
        ),
        true="True of the printed count only: the count it stands for grows up to N = √(L+1).",
        equations=(
            "Table 1 row N",
            "12",
            "14",
        ),
        counterexample=shown_analysis.count_of_pairs,
    ),
    Erratum(
        number=26,
        title="The arrow of a₀",
        printed="A larger a₀ improves the bounds, often strongly.",
        why=(
            "Δ₀ grows with a₀, and with B free of the sink and Δ₀ > 0 so does the bound. With the sink in B (the default reading of (8)) the "
            "content's tail grows too; and in truth a heavy sink is noise: it adds a₀²‖y_j − y_i‖²/d to the variance of ⟨s, y_j − "
            "y_i⟩ and, at ρ₀ = 0, nothing to μ_ij for i ≠ 0."
        ),
        true="Right on the bound where Δ₀ > 0 and B leaves the sink out, mixed if not, and mostly reversed in truth: docs/table1.md.",
        equations=("Table 1 row a_0",),
        counterexample=shown_analysis.heavier_sink,
    ),
    Erratum(
        number=27,
        title="The effect of the sink's cosine",
        printed="d_i(neg) ≈ d_i(ort) + a_iS_inρ₀/d_i(ort): a negative ρ₀ pushes non-selected tokens away, ΔR ≈ F'Δr < 0.",
        why=(
            "The shift carries a_i where the sink's own weight a₀ belongs, and 2a₀ρ₀S_in is common to all tokens but the sink, so "
            "it cannot reorder them; only −2a₀ρ₀a_l does. For ρ₀ < 0 both print's formula and the true one bring tokens closer (d "
            "falls), against “push non-selected tokens away”; and with Δr = r_min(ort) − r_min(neg) > 0, F'Δr is positive, not "
            "negative."
        ),
        true=(
            "With the sink selected E D_l changes by 2a₀ρ₀(S_in − a_l) for l ≠ 0 and by 0 for the sink: a negative ρ₀ draws tokens "
            "with a_l < S_in closer. R falls, in the mean, because gaps change by 2a₀ρ₀(a_i − a_j)."
        ),
        equations=(
            "32",
            "33",
        ),
        counterexample=shown_analysis.pull_of_the_sink,
    ),
    Erratum(
        number=28,
        title="The sink is not first in Figure 4",
        printed="Regime I: I₁ = {0}; a sink two orders of magnitude above the content.",
        why=(
            "With growth by e^{η(i−T₂)} over 224 positions, Σα = 1 and the levels that Section 3.3 reads off the figure fix η, and the "
            "tail rises above the sink's 10⁻³."
        ),
        true="The sink's rank is 1 + #{weights above p_sink}; with those levels it is 99, and I₁ = {L}.",
        equations=(
            "Assumption 3",
            "Figure 4",
            "Table 2 row I",
        ),
        counterexample=shown_analysis.rank_of_the_sink,
    ),
    Erratum(
        number=29,
        title="Peaks and valleys",
        printed="Peaks entering I_N improve the bounds, valleys weaken them.",
        why=(
            "When a token enters, Δ changes by a_max_out² − a_min_in² + 2ρ_out(a_max_out S_in − a_next(S_in + a_max_out)). Its sign"
            " depends on the gap below the entering weight, a_max_out − a_next, not on peak or valley; the first two terms never "
            "gain."
        ),
        true=(
            "Unsupported: in truth peaks that enter mostly lower E P and E R, and the last valleys raise them, as N nears T: "
            "docs/table1.md."
        ),
        equations=("Table 1 row profile",),
        counterexample=shown_analysis.peaks,
    ),
)
"""Errata 21-29."""
