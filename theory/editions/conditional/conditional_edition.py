r"""Edition `conditional`: bounds under Model G from the exact law of every distance given s and one
selected token Z_i = (s, y_i).

Given Z_i, D_i is known and the D_j are noncentral chi-square (`conditioning`). F_j = P{D_j ≤ D_i |
Z_i}, κ_i = Σ_j F_j, K_i = #{j∈J: D_j ≤ D_i}, V_i = Σ_jk |ρ̃_jk| √(F_j(1−F_j)F_k(1−F_k)) with ρ̃ the
residual correlation of y_j, y_k. Gebelein's inequality |Cov(φ(x), ψ(y))| ≤ |ρ| √(Var φ Var ψ) for
jointly Gaussian vectors, coordinates independent and each pair of correlation ρ, gives Var(K_i |
Z_i) ≤ V_i. f(k) = N/(N+k), F(k) = 2N/(2N+k), g(k) = 2k/(N+k), δ_m = f(m−1) − f(m); h_int
interpolates between integers; x_(m): the m-th largest.

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

The code computes a narrower form: the few tokens with the most expected intruders jointly
(`several_tokens`), the sum over the others. Two more bounds of E P condition on s alone (`sphere`).
**F(r_max)** = F(max_i K_i): as P, with 2N for N.

All bounds are intersected with `sharp`. Averages are computed by quadrature: independently shifted
lattice rules over (t, z, τ), interleaved grids over ‖s‖, scrambled Sobol points over several
tokens. Nodes are added where the average of a token is still uncertain; κ_i, whose mean is known
exactly, serves as a control variate where it reduces the error. The error of an average is the
spread of its parts (`quadrature_error`: exceeded in one case of 10,000 at each check, with one
check after each doubling) plus an allowance for an event that the quadrature nodes missed. Every
bound is moved outwards by its error. Moved bounds are still bounds: the integrand is a bound at
each node, and each result is linear or monotone in the averages. A minimum or maximum takes bounds
that are moved separately; a sum is moved by the summed error; F(r_min) orders tokens by their exact
law, not by their averages. An average whose error may exceed `WITHIN` is dropped; the remaining
bounds (`sharp` at least) take its place, and `error` reports it. Source: Model G replaces eq.
(9)-(17) of arXiv 2602.01893. Unit-free. Imports numpy and scipy; numba on first use.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from theory.arrays import FloatArray
from theory.editions.conditional.conditioning import GivenSum, given_sum, given_token
from theory.editions.conditional.one_token import SIDES_UPPER, Known, one_token_bounds
from theory.editions.conditional.quadrature_error import TOLERANCE, WITHIN, moved_outwards
from theory.editions.conditional.several_tokens import MOST_TOKENS, crowd_bounds
from theory.editions.conditional.sphere import sphere_bounds
from theory.editions.sharp.sharp_law import PairwiseLaw, followup_f, pairwise_bounds, pairwise_law
from theory.head.ranked import Ranked, Summary
from theory.head.results import BOUNDS, ROUNDING

VARIANCE_UP_TO = 512
"""Largest T for which V_i is computed, at O(N M²); beyond it the bounds omit the terms in V_i."""

OUTER_UPPER = [BOUNDS.index("precision_upper"), BOUNDS.index("f_outer_upper")]
"""Indices of the upper bounds of P and F(r_max) in `BOUNDS`."""

OUTER = [side for upper in OUTER_UPPER for side in (upper - 1, upper)]
"""Indices of the lower and upper bounds of P and F(r_max) in `BOUNDS`."""


def conditional_bounds(
    head: Ranked,
    summary: Summary,
    index: int,
    dimension: int,
    *,
    followup: bool,
    shared: dict[tuple[int, bool], tuple[FloatArray, float]] | None = None,
) -> tuple[FloatArray, float]:
    """Return the conditional bounds of the selection `summary.n[index]`, `BOUNDS` (8,) in [0, 1],
    and the largest error of an average in use.

    They are intersected with the sharp bounds and moved outwards by the errors of their averages.
    An error above `WITHIN`: that average was dropped and the other bounds (`sharp` at least) take
    its place. The bounds hold in both cases.

    followup: strict inner balls (a tied token is outside) and one F of both P and R. shared: bounds
    that both conventions have in common, by index and ties; filled here.

    Raises:
        InputError: if a 2×2 determinant is clearly negative (the Gram is not PSD).
    """
    law, shared = pairwise_law(head, summary, index, dimension), {} if shared is None else shared
    strict = followup and bool((law.closed > law.strict).any())
    if (index, strict) not in shared:
        # rows of the follow-up, but two F here: its one F comes from the narrowed P and R
        inner_balls = replace(law, strict=law.closed) if strict else law
        sharp = pairwise_bounds(inner_balls, followup=False)
        variance = head.tokens <= VARIANCE_UP_TO
        selection = given_sum(head, summary, index, dimension, law, variance=variance)
        shared[index, strict] = sharp, 0.0
        if selection is not None and (sharp[1::2] - sharp[::2] > TOLERANCE).any():
            shared[index, strict] = _narrowed(selection, law, sharp, followup=strict)
    result, error = shared[index, strict]
    if followup:
        f = followup_f((result[0], result[1]), (result[2], result[3]))
        result = np.array([*result[:4], *f, *f])
    return result, error


def _narrowed(
    selection: GivenSum, law: PairwiseLaw, sharp: FloatArray, *, followup: bool
) -> tuple[FloatArray, float]:
    """Return the eight bounds and the largest error of an average."""
    tokens = [given_token(selection, i, law.closed[i]) for i in range(selection.n)]
    order = np.argsort(law.closed.sum(axis=1), kind="stable")
    best = sharp.copy()
    worst = 0.0
    joint_loss = np.zeros(2)
    single = np.ones(selection.n, dtype=bool)
    if sharp[1] - sharp[0] > TOLERANCE:
        values, error = sphere_bounds(selection)
        best[OUTER] = moved_outwards(values, error, sharp[OUTER], SIDES_UPPER[OUTER])
        crowd = order[::-1][: max(1, min(MOST_TOKENS, selection.dimension - 1))]
        values, crowd_error = crowd_bounds(selection, crowd)
        worst = float(min(error.max(), crowd_error.max()))  # both narrow the same bounds
        if crowd_error.max() <= WITHIN:
            best[OUTER_UPPER] = np.minimum(best[OUTER_UPPER], values[1::2] + crowd_error[1::2])
            joint_loss, single[crowd] = 1 - values[::2] + crowd_error[::2], False
    count = law.strict.sum(axis=1)
    known = Known(bounds=best, count=count, loss=joint_loss, single=single, order=order)
    result, error = one_token_bounds(selection, tokens, known, followup=followup)
    low, high = np.maximum(result[::2], sharp[::2]), np.minimum(result[1::2], sharp[1::2])
    if (low > high + ROUNDING).any():  # an error exceeds its estimate: discard all averages
        return sharp, np.inf
    narrowed = np.stack([np.minimum(low, high), np.maximum(low, high)], axis=1)
    return narrowed.ravel(), max(worst, float(error.max()))
