r"""Edition `printed`: values of eq. (8)-(17) of arXiv 2602.01893 as printed, unclipped.

Ambiguous definitions have an option for each reading: Δ₀ with ρ_out or ρ_in (erratum 2), B with or
without the sink (erratum 15). An undefined term is dropped and its margin is NaN: Δ if I\0 is
empty, Δ₀ if no sink is visible. Units are the paper's: a in units of value norm, margins in a², B
in a (erratum 1). Imports numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from theory.arrays import FloatArray, IntArray
from theory.head.ranked import Extremes, Ranked, Summary

FLOOR_PEAK = float(np.sqrt(np.sqrt(2.0) - 1.0))
"""ξ at the maximum of the printed floor φ(ξ)/(ξ+1/ξ)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Margins:
    """Δ, Δ₀ (a²) and B (a) of each profile and size, (…, K); NaN where undefined in print."""

    margin: FloatArray
    margin_sink: FloatArray
    scale: FloatArray


def printed_margins(
    summary: Extremes, *, delta0: Literal["out", "in"], sink_in_b: bool, sink_visible: bool
) -> Margins:
    """Return Δ, Δ₀ and B of eq. (8) for each selection of `summary`.

    delta0: "out" reads Δ₀ = a₀² − (S_in ρ_out)² as eq. (29), "in" with ρ_in as eq. (8). sink_in_b:
    whether a_max_in includes the sink.
    """
    least = np.where(np.isfinite(summary.a_min_in), summary.a_min_in, np.nan)
    margin = least**2 - 2 * summary.a_max_out * summary.s_in * summary.rho_out
    cosine = summary.rho_out if delta0 == "out" else summary.rho_in
    margin_sink = summary.a_sink**2 - (summary.s_in * cosine) ** 2
    largest = summary.a_max_in_with_sink if sink_in_b else summary.a_max_in
    return Margins(
        margin=margin,
        margin_sink=margin_sink if sink_visible else np.full_like(margin_sink, np.nan),
        scale=largest + summary.a_max_out + summary.s_in,
    )


def expected_losses(
    margins: Margins, n: Any, outside: Any, dimension: Any, kappa: Any
) -> FloatArray:
    """Return the sum of the printed tails of eq. (12) and (14), (L−N) e^{−κdΔ²/B²} + (L−N)/N
    e^{−κdΔ₀²/B²}; terms with a NaN margin are dropped; the sum is NaN if B = 0.

    outside: L − N. All arguments broadcast; the margins have every axis of n and outside.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        loss, sink_loss = (
            np.asarray(
                np.exp(-kappa * dimension * np.where(np.isnan(m), np.inf, (m / margins.scale) ** 2))
            )
            for m in (margins.margin, margins.margin_sink)
        )
    # in place: a study has many points
    loss *= outside
    sink_loss *= outside / n
    loss += sink_loss
    return loss if (margins.scale > 0).all() else np.where(margins.scale > 0, loss, np.nan)


def deviations(margins: Margins, dimension: int, kappa: float) -> FloatArray:
    """Return σ of eq. (9) for each of K sizes: B/√(2κd)."""
    with np.errstate(invalid="ignore"):
        return np.asarray(margins.scale / np.sqrt(2 * kappa * dimension))


def printed_bounds(
    head: Ranked, summary: Summary, margins: Margins, dimension: int, kappa: float
) -> FloatArray:
    """Return eq. (12)-(17), `BOUNDS` at each of K sizes (8, K), unclipped: a negative recall bound
    makes the bound on F meaningless (erratum 18).
    """
    rows = [
        floor_by_row(head, summary, k, deviation)
        for k, deviation in enumerate(deviations(margins, dimension, kappa).tolist())
    ]
    floors = np.array([[row.max() for row in rows], [row.mean() for row in rows]])
    return bounds_from_floors(head.tokens, summary.n, margins, floors, dimension, kappa)


def bounds_from_floors(
    tokens: int, sizes: IntArray, margins: Margins, floors: FloatArray, dimension: int, kappa: float
) -> FloatArray:
    """Return `printed_bounds` at sizes (K,) of one or several weight profiles, (…, 8, K), from the
    maximum and the mean of `floor_by_row`, (2, …, K).
    """
    n = sizes.astype(float)
    loss = expected_losses(margins, n, tokens - 1.0 - sizes, dimension, kappa)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        p_low, r_low = 1 / (1 + loss), 1 - loss
        p_high, r_high = 1 - floors[0] / (n + 1), 1 - floors[1]
        bounds = [p_low, p_high, r_low, r_high]
        return np.stack([*bounds, *map(harmonic, bounds)], axis=-2)


def harmonic(x: Any) -> Any:
    """Return f(x) = 2x/(1+x), the F-score of x with 1; eq. (16)-(17). It has a pole at −1."""
    return 2 * x / (1 + x)


def floor_probability(xi: Any) -> FloatArray:
    """Return p̲ of eq. (9): φ(ξ)/(ξ + 1/ξ) for ξ ≥ 0 (0 at 0, by the limit), 1/2 for ξ < 0."""
    xi = np.asarray(xi, dtype=np.float64)
    density = np.exp(-(xi**2) / 2) / np.sqrt(2 * np.pi)
    with np.errstate(invalid="ignore"):
        tail = np.where(np.isfinite(xi), density * xi / (1 + xi**2), 0.0)
    return np.where(np.isnan(xi), np.nan, np.where(xi < 0, 0.5, tail))


def pair_levels(head: Ranked, summary: Summary, index: int) -> FloatArray:
    """Return h_l = a_l² − 2 a_l M_l by rank, eq. (11): μ_ij = h_j − h_i in (10). Units a²."""
    sigma = summary.sigma[index]
    if summary.sink_selected[index]:
        assert head.sink is not None
        sigma = sigma - head.a[head.sink] * head.a * head.cosines[head.sink]
    return np.asarray(head.a**2 - 2 * sigma)


def floor_by_row(head: Ranked, summary: Summary, index: int, sigma: float) -> FloatArray:
    """Return max_{j∈J} p̲_ij for each i∈I, shape (N,), by bisection: O(T log T).

    p̲ is ½ below 0, otherwise unimodal: only the neighbours of its peak among the sorted h_j can be
    the maximum.
    """
    n = int(summary.n[index])
    levels = pair_levels(head, summary, index)
    selected, unselected = levels[:n], np.sort(levels[n:])
    insertion = np.searchsorted(unselected, selected + FLOOR_PEAK * sigma)
    before, after = np.maximum(insertion - 1, 0), np.minimum(insertion, len(unselected) - 1)
    neighbours = unselected[np.stack([before, after])]
    with np.errstate(divide="ignore", invalid="ignore"):
        best = floor_probability((neighbours - selected) / sigma).max(axis=0)
    return np.where(selected > unselected[0], 0.5, best)
