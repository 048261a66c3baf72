r"""Edition `conditional`: bounds under Model G from the exact law of every distance given s and one
selected token Z_i = (s, y_i).

Given Z_i, D_i is known and the D_j are noncentral chi-square (`conditioning`). F_j = P{D_j ≤
D_i | Z_i}, κ_i = Σ_j F_j, K_i = #{j∈J: D_j ≤ D_i}, V_i = Σ_jk |ρ̃_jk| √(F_j(1−F_j)F_k(1−F_k))
with ρ̃ the correlation of what is left of y_j, y_k. Gebelein's inequality |Cov(φ(x), ψ(y))| ≤ |ρ|
√(Var φ Var ψ) for jointly Gaussian vectors, coordinates independent and each pair of correlation ρ,
gives Var(K_i | Z_i) ≤ V_i. f(k) = N/(N+k), F(k) = 2N/(2N+k), g(k) = 2k/(N+k), δ_m = f(m−1) −
f(m); h_int interpolates between integers; x_(m): the m-th largest.

**Recall.** i is inside iff K_i = 0, so E R = (1/N) Σ_i E P{K_i = 0 | Z_i}. P{K_i = 0} ≥ 1 −
κ_i (Markov), ≤ 1 − max_j F_j, and ≤ Var K_i/E K_i² ≤ V_i/(V_i + κ_i²) (Cauchy-Schwarz on E K_i =
E K_i 1{K_i > 0}):

    E R ≥ (1/N) Σ_i E(1−κ_i)⁺        E R ≤ (1/N) Σ_i E min(1 − max_j F_j, V_i/(V_i+κ_i²))

**F(r_min)** = g(Σ_i 1{K_i=0}). g is concave and rising: with lo_i, hi_i the bounds of P{K_i = 0}
above, the comonotone coupling is the least, E ≥ Σ_m (g(m) − g(m−1)) lo_(m) (any order of the lo_i
gives less), and by Jensen on the integers E ≤ g_int(Σ_i hi_i).

**Precision.** P = f(max_i K_i) = min_i f(K_i). 1 − min_i f(K_i) ≤ Σ_i (1 − f(K_i)), and
E[f(K_i) | Z_i] ≥ f_int(κ_i), f being convex. From above P ≤ f(K_i) for each i; E[f(K_i) | Z_i] ≤
1 − Σ_m δ_m F_(m) (comonotone coupling), and, as f(K) = f(κ) + N(κ−K)/(N+κ)² + f(K)(κ−K)²/(N+κ)²
with f(K) ≤ 1, also ≤ N/(N+κ_i) + V_i/(N+κ_i)²:

    E P ≥ 1 − Σ_i E[1 − f_int(κ_i)]   E P ≤ min_i E min(1 − Σ_m δ_m F_(m), N/(N+κ_i) + V_i/(N+κ_i)²)

Narrower, and what is computed: the same for the few tokens with the most expected intruders at once
(`several_tokens`), the sum over the others. Two more bounds of E P condition on s alone (`sphere`).
**F(r_max)** = F(max_i K_i): as P, with 2N for N.

All are intersected with `sharp`. Averages are quadratures: over (t, z, τ) independently shifted
lattice rules, more nodes where a token's own average is still uncertain, and freed where that pays
of what they share with κ_i, whose mean is known exactly; over ‖s‖ interleaved grids; over several
tokens scrambled Sobol points. Each may be off by what the spread of its parts says
(`quadrature_error`: but for one case in 10,000 at each look, and there is a look after each
doubling) and by an event that no node saw, and every bound is moved outwards by both. What is
averaged is a bound at each node, and what is made of the averages is linear or rises with them, so
that a moved bound is one still: least and largest of several bounds that were moved each, a sum
moved by the sum, F(r_min) by the order of the tokens' exact law, not of their averages. An average
that may be off by more than `WITHIN` is left out: what else is known (`sharp` at least) stands in
its place, and `error` reports it. Source: Model G replaces eq. (9)-(17) of arXiv 2602.01893.
Unit-free. Imports numpy and scipy; numba on first use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theory.arrays import FloatArray
from theory.editions.conditional.conditioning import GivenSum, given_sum, given_token
from theory.editions.conditional.one_token import SIDES_UPPER, Known, one_token_bounds
from theory.editions.conditional.quadrature_error import TOLERANCE, WITHIN, moved_outwards
from theory.editions.conditional.several_tokens import MOST_TOKENS, crowd_bounds
from theory.editions.conditional.sphere import sphere_bounds
from theory.editions.sharp.sharp_law import (
    PairwiseLaw,
    best_bounds,
    followup_f,
    pair_sums,
    pairwise_law,
)
from theory.head.ranked import Ranked, Summary
from theory.head.results import QUANTITIES, ROUNDING, BoundPairs

VARIANCE_UP_TO = 512
"""Largest T for which V_i is computed, at O(N M²); beyond, the bounds do without its terms."""

OUTER_UPPER = [2 * QUANTITIES.index("precision") + 1, 2 * QUANTITIES.index("f_outer") + 1]
"""Where the upper bounds of P and F(r_max) stand among the eight."""

OUTER = [side for upper in OUTER_UPPER for side in (upper - 1, upper)]
"""Where lower and upper bound of P and of F(r_max) stand."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConditionalBounds(BoundPairs[float]):
    """Bounds in [0, 1], moved outwards by what their averages may be off.

    error: by how much an average that mattered may be off, the largest; above `WITHIN`: that
    average was left out, the bounds it was to narrow are those of the others, `sharp` at least.
    They hold either way.
    """

    error: float


def conditional_bounds(
    head: Ranked, summary: Summary, at: int, dimension: int, *, followup: bool
) -> ConditionalBounds:
    """Return the conditional bounds of the selection `summary.n[at]`, intersected with the sharp
    ones.

    followup: strict inner balls, so that ties leave a token out of reach, and one F of both P and
    R.

    Raises:
        InputError: if some 2×2 determinant is clearly negative: no vectors have this Gram.
    """
    law = pairwise_law(head, summary, at, dimension)
    sharp = _eight(best_bounds(pair_sums(law, followup=followup), followup=False))
    given = given_sum(head, summary, at, dimension, law, variance=head.tokens <= VARIANCE_UP_TO)
    result, error = sharp, 0.0
    if given is not None and (sharp[1::2] - sharp[::2] > TOLERANCE).any():
        result, error = _narrowed(given, law, sharp, followup=followup)
    pairs = {
        name: (float(result[2 * k]), float(result[2 * k + 1])) for k, name in enumerate(QUANTITIES)
    }
    if followup:
        pairs["f_outer"] = pairs["f_inner"] = followup_f(pairs["precision"], pairs["recall"])
    return ConditionalBounds(**pairs, error=error)


def _eight(bounds: BoundPairs[float]) -> FloatArray:
    """Return lower and upper bounds of each quantity, shape (8,)."""
    return np.array([side for name in QUANTITIES for side in getattr(bounds, name)])


def _narrowed(
    given: GivenSum, law: PairwiseLaw, sharp: FloatArray, *, followup: bool
) -> tuple[FloatArray, float]:
    """Return the eight bounds and by how much an average may be off."""
    tokens = [given_token(given, i, law.closed[i]) for i in range(given.n)]
    order = np.argsort(law.closed.sum(axis=1), kind="stable")
    best, worst, loss, alone = sharp.copy(), 0.0, np.zeros(2), np.ones(given.n, dtype=bool)
    if sharp[1] - sharp[0] > TOLERANCE:
        values, off = sphere_bounds(given)
        best[OUTER] = moved_outwards(values, off, sharp[OUTER], SIDES_UPPER[OUTER])
        chosen = order[::-1][: max(1, min(MOST_TOKENS, given.dimension - 1))]
        values, crowded = crowd_bounds(given, chosen)
        worst = float(min(off.max(), crowded.max()))  # either narrows the same bounds
        if crowded.max() <= WITHIN:
            best[OUTER_UPPER] = np.minimum(best[OUTER_UPPER], values[1::2] + crowded[1::2])
            loss, alone[chosen] = 1 - values[::2] + crowded[::2], False
    result, off = one_token_bounds(
        given,
        tokens,
        Known(bounds=best, count=law.strict.sum(axis=1), loss=loss, alone=alone, order=order),
        followup=followup,
    )
    low, high = np.maximum(result[::2], sharp[::2]), np.minimum(result[1::2], sharp[1::2])
    if (low > high + ROUNDING).any():  # one average is off by more than it says: none is believed
        return sharp, np.inf
    return np.stack([np.minimum(low, high), np.maximum(low, high)], axis=1).ravel(), max(
        worst, float(off.max())
    )
