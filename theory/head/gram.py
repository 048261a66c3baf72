"""Gram matrices of cosines (Assumption 2), their generators and their feasibility (positive
semidefinite).

Generators: exponential, offset, constant, stretched and power-law decay with lag; decay with the
rank of the attention weight. Source: arXiv 2602.01893, Assumption 2, which prints the exponential;
the feasible edge of ρ₀ is erratum 9. Unitless; the decay β is per position. A Gram is either a
`LagGram` (cosine by lag, and ρ₀ to the sink) or a full T×T matrix. Imports numpy and scipy.linalg.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from theory.arrays import FloatArray
from theory.errors import InputError


def exponential(beta: float, rho0: float, tokens: int) -> LagGram:
    """Return the printed Gram of Assumption 2, e^{−β·lag}, for windows of up to `tokens` positions.

    Example:
        >>> exponential(0.7, 0.0, 3).by_lag.round(3).tolist()
        [1.0, 0.497, 0.247]
    """
    return offset_exponential(beta, 0.0, rho0, tokens)


def offset_exponential(beta: float, offset: float, rho0: float, tokens: int) -> LagGram:
    """Return the offset Gram c + (1−c)e^{−β·lag}, for windows of up to `tokens` positions.

    Example:
        >>> offset_exponential(0.7, 0.2, 0.0, 3).by_lag.round(3).tolist()
        [1.0, 0.597, 0.397]
    """
    if not beta > 0:
        raise InputError(
            f"beta is {beta}, expected a decay > 0 per position. Use a small positive value for a"
            " slow decay."
        )
    by_lag = offset + (1 - offset) * np.exp(-beta * np.arange(tokens))
    return LagGram(by_lag, rho0, beta=float(beta), offset=float(offset))


def constant(cosine: float, rho0: float, tokens: int) -> LagGram:
    """Return the Gram with one cosine at every lag, for windows of up to `tokens` positions: the
    offset Gram with infinite decay.

    Feasible for cosine ≥ −1/(L−1) and |ρ₀| ≤ √(cosine + (1 − cosine)/L) with L content tokens: the
    closed edge at β = ∞.

    Example:
        >>> constant(0.3, 0.0, 3).by_lag.tolist()
        [1.0, 0.3, 0.3]
    """
    by_lag = np.full(max(tokens, 1), float(cosine))
    by_lag[0] = 1.0
    return LagGram(by_lag, rho0, beta=np.inf, offset=float(cosine))


def decaying(
    form: Literal["exponential", "stretched", "power"],
    beta: float,
    tokens: int,
    *,
    rho0: float = 0.0,
    offset: float = 0.0,
    stretch: float = 1.0,
) -> LagGram:
    """Return c + (1−c)f(lag) for windows of up to `tokens` positions.

    f is e^{−βk} ("exponential", Assumption 2), e^{−(βk)^s} ("stretched") or (1+k)^{−β} ("power"),
    each 1 at lag 0 and decreasing.

    Raises:
        InputError: if β or s is not positive, or the form is unknown.

    Example:
        >>> decaying("power", 1.0, 3).by_lag.round(3).tolist()
        [1.0, 0.5, 0.333]
    """
    if form == "exponential":
        return offset_exponential(beta, offset, rho0, tokens)
    if form not in ("stretched", "power") or not beta > 0 or not stretch > 0:
        raise InputError(
            f"form={form!r}, beta={beta}, stretch={stretch}: expected exponential, stretched or"
            " power, and positive numbers."
        )
    lag = np.arange(tokens)
    fall = np.exp(-((beta * lag) ** stretch)) if form == "stretched" else (1.0 + lag) ** -beta
    return LagGram(np.asarray(offset + (1 - offset) * fall, dtype=np.float64), rho0)


def rank_coherence(
    first: float, limit: float, gamma: float, rho0: float, tokens: int
) -> FloatArray:
    """Return the Gram (T, T) of rank coherence, for tokens ordered by weight: the sink, then
    content tokens r = 1, 2, … by descending attention weight.

    Two content tokens have the cosine of the one with less weight: c(max(r, r')), with
    c(r) = c∞ + (c₁ − c∞) r^(−γ); every content token has ρ₀ to the sink. Without ρ₀ it is always
    feasible: it is the sum of (c(k) − c(k+1)) 11ᵀ over the first k tokens, of c(L) 11ᵀ over all,
    and of the diagonal 1 − c(r), all non-negative. With ρ₀ see `rank_coherence_edge`.

    Args:
        first, limit: c₁ and c∞, 0 ≤ c∞ ≤ c₁ ≤ 1.
        gamma: γ ≥ 0.
        rho0: cosine of content tokens to the sink.
        tokens: T = L + 1.

    Raises:
        InputError: if c₁, c∞ or γ is outside its range.

    Example:
        >>> rank_coherence(0.5, 0.1, 1.0, 0.0, 4)[1:, 1:].round(3).tolist()
        [[1.0, 0.3, 0.233], [0.3, 1.0, 0.233], [0.233, 0.233, 1.0]]
    """
    if not (0 <= limit <= first <= 1 and gamma >= 0):
        raise InputError(
            f"first={first}, limit={limit}, gamma={gamma}: expected 0 <= limit <= first <= 1 and"
            " gamma >= 0. Change the parameters."
        )
    rank = np.maximum(np.arange(float(tokens)), 1)
    gram = limit + (first - limit) * np.maximum.outer(rank, rank) ** -gamma
    gram[0], gram[:, 0] = rho0, rho0
    np.fill_diagonal(gram, 1.0)
    return np.asarray(gram, dtype=np.float64)


def rank_coherence_edge(first: float, limit: float, gamma: float, content: int) -> float:
    """Return the largest |ρ₀| for which rank coherence over `content` tokens admits a sink; NaN
    unless 0 ≤ c∞ ≤ c₁ ≤ 1 and γ ≥ 0.

    (ρ₀ max)² = 1/(1ᵀA⁻¹1) = c(L) + V(L), where V(r) is the variance of the best mean of the first r
    tokens without their common part c(r): 1/V(r) = 1/(V(r−1) + c(r−1) − c(r)) + 1/(1 − c(r)), with
    V(1) = 1 − c(1).

    Example:
        >>> round(rank_coherence_edge(0.5, 0.5, 1.0, 2) ** 2, 9)  # (1 + c)/2, as of any two tokens
        0.75
    """
    if not (0 <= limit <= first <= 1 and gamma >= 0 and content >= 1):
        return float("nan")
    cosine = limit + (first - limit) * np.arange(1.0, content + 1) ** -gamma
    variance = 1 - cosine[0]
    for before, here in pairwise(cosine.tolist()):
        apart = variance + before - here
        variance = apart * (1 - here) / (apart + 1 - here) if apart > 0 else 0.0
    return float(np.sqrt(cosine[-1] + variance))


ROUNDING = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): float(np.finfo(np.float32).eps)}
"""Rounding of entries by dtype: an eigenvalue may lie below 0 by this times ‖R‖."""

WELL_CONDITIONED = 1e-5
"""Smallest Cholesky pivot for which a triangular solve is accurate."""

TOLERANCE = 1e-3
"""Tolerance of the symmetry of cosines and of the unit diagonal."""

ROWS_AT_ONCE = 32
"""Number of rows compared with columns at once; both stay in the processor cache."""


@dataclass(frozen=True, eq=False)
class LagGram:
    """Cosines that depend only on the lag, with one cosine to the sink (Assumption 2).

    by_lag[k] is the cosine of two content tokens k positions apart (by_lag[0] is 1); rho0 is the
    cosine of the sink with any other token. beta and offset are set if the sequence is offset + (1
    − offset)e^{−beta·lag}; feasibility then has a closed form.

    Example:
        >>> LagGram([1.0, 0.5], rho0=0.1).matrix(3).tolist()
        [[1.0, 0.1, 0.1], [0.1, 1.0, 0.5], [0.1, 0.5, 1.0]]
    """

    by_lag: FloatArray
    rho0: float = 0.0
    beta: float | None = field(default=None, kw_only=True)
    offset: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        by_lag = np.array(self.by_lag, dtype=np.float64)
        if by_lag.ndim != 1 or by_lag.size == 0 or not np.isfinite(by_lag).all():
            raise InputError(
                f"by_lag has shape {by_lag.shape}, expected a finite 1-d sequence by lag 0, 1, 2, …"
                " Fill missing lags."
            )
        if abs(by_lag[0] - 1) > 1e-12:
            raise InputError(
                f"by_lag starts with {by_lag[0]:.6g}, expected the cosine at lag 0, which is 1."
                " Prepend 1 to the sequence."
            )
        if np.abs(by_lag).max() > 1 + 1e-12 or not abs(self.rho0) <= 1:
            raise InputError(
                "a cosine lies outside [-1, 1], expected cosines in by_lag and rho0. Divide inner"
                " products by both norms."
            )
        by_lag.flags.writeable = False
        object.__setattr__(self, "by_lag", by_lag)
        object.__setattr__(self, "rho0", float(self.rho0))

    def matrix(self, tokens: int, *, sink: int | None = 0) -> FloatArray:
        """Return the T×T matrix of cosines; `sink` is the position of the sink, None if it is not
        visible.

        Raises:
            InputError: if by_lag has fewer entries than these tokens need.
        """
        reach = tokens - 1 if sink == 0 and tokens > 1 else tokens
        if self.by_lag.size < reach:
            raise InputError(
                f"by_lag has {self.by_lag.size} lags, expected {reach} for {tokens} tokens. Extend"
                f" it to lag {reach - 1}."
            )
        lagged = np.concatenate([self.by_lag, np.zeros(max(0, tokens - self.by_lag.size))])[:tokens]
        line = np.concatenate([lagged[:0:-1], lagged])
        cosines = np.lib.stride_tricks.sliding_window_view(line, tokens)[::-1].copy()
        if sink is not None:
            cosines[sink, :] = cosines[:, sink] = self.rho0
            cosines[sink, sink] = 1.0
        return cosines

    @cached_property
    def _edges(self) -> dict[int, float]:
        return {}

    def edge(self, content: int) -> float:
        """Return the largest feasible |ρ₀| with `content` non-sink tokens; NaN if the lag part is
        infeasible.

        (ρ₀ max)² = 1/(1ᵀA⁻¹1), A the lag matrix; in closed form for the exponential and the offset
        Gram (erratum 9).
        """
        if self.beta is not None:
            return feasible_edge(self.beta, content, offset=self.offset or 0.0)
        if content not in self._edges:
            lag_part = LagGram(self.by_lag).matrix(content, sink=None)
            self._edges[content] = _largest_sink_cosine(lag_part)
        return self._edges[content]


Gram = LagGram | npt.NDArray[Any]


def feasible_edge(beta: float, content: int, *, offset: float = 0.0) -> float:
    """Return the largest |ρ₀| for which cosines offset + (1−offset)e^{−β·lag} over `content`
    tokens admit a sink (erratum 9).

    |ρ₀| ≤ √(c + (1−c)(1+φ)/(L(1−φ)+2φ)), φ = e^{−β}, capped at 1. Unitless. NaN for an offset below
    the edge c ≥ −(1−c)·(1+φ)/(L(1−φ)+2φ), where the lag part is not positive semidefinite.

    Example:
        >>> round(feasible_edge(0.1, 1024), 3)
        0.139
    """
    if beta <= 0 or content < 1 or offset > 1:
        raise InputError(
            f"beta={beta}, content={content}, offset={offset}: expected beta > 0, at least one"
            " token and offset <= 1."
        )
    phi = float(np.exp(-beta))
    square = offset + (1 - offset) * (1 + phi) / (content * (1 - phi) + 2 * phi)
    return float(np.sqrt(min(square, 1.0))) if square >= 0 else float("nan")


def as_matrix(gram: Gram, tokens: int, *, sink: int | None = 0) -> npt.NDArray[Any]:
    """Return the T×T cosines of either kind of Gram, float64 or float32 as given.

    Raises:
        InputError: if a matrix is not T×T, symmetric, finite and 1 on the diagonal.

    Example:
        >>> as_matrix(LagGram([1.0, 0.4, 0.1]), 3).shape
        (3, 3)
    """
    if isinstance(gram, LagGram):
        return gram.matrix(tokens, sink=sink)
    matrix = np.asarray(gram)
    if matrix.dtype not in ROUNDING:
        matrix = matrix.astype(np.float64)
    if matrix.shape != (tokens, tokens):
        raise InputError(
            f"gram has shape {matrix.shape}, expected ({tokens}, {tokens}) for {tokens} tokens, or"
            " a LagGram."
        )
    diagonal = np.diagonal(matrix)
    if not np.isfinite(matrix.sum()) or np.abs(diagonal - 1).max() > TOLERANCE:
        raise InputError(
            "gram is not finite with 1 on its diagonal, expected cosines. Divide inner products by"
            " both norms and drop NaN."
        )
    if _asymmetry(matrix) > TOLERANCE:
        raise InputError(
            "gram is not symmetric, expected cos(v_i, v_j) = cos(v_j, v_i). Use (gram + gram.T)"
            " / 2."
        )
    return matrix


def _asymmetry(matrix: npt.NDArray[Any]) -> float:
    """Return max |M − Mᵀ| over all pairs of entries, in blocks of rows (1 ms at T = 1025)."""
    worst = 0.0
    for start in range(0, len(matrix), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        apart = matrix[rows, start:] - matrix[start:, rows].T
        worst = max(worst, float(apart.max()), -float(apart.min()))
    return worst


def is_feasible(gram: Gram, tokens: int, *, sink: int | None = 0) -> bool:
    """Return whether the Gram is positive semidefinite up to rounding.

    Closed form for exponential and offset Grams, the Toeplitz edge of ρ₀ for other lag Grams, the
    smallest eigenvalue otherwise.

    Example:
        >>> is_feasible(LagGram([1.0, 0.5], rho0=0.9), 3)
        False
    """
    if isinstance(gram, LagGram):
        if sink is None or tokens == 1:
            return bool(np.isfinite(gram.edge(tokens)))
        if sink in (0, tokens - 1):
            return bool(abs(gram.rho0) <= gram.edge(tokens - 1) * (1 + 1e-12))
        return _semidefinite(gram.matrix(tokens, sink=sink))
    return _semidefinite(as_matrix(gram, tokens, sink=sink))


def smallest_eigenvalue(gram: Gram, tokens: int, *, sink: int | None = 0) -> float:
    """Return the smallest eigenvalue of the T×T Gram (negative: infeasible)."""
    from scipy.linalg import eigvalsh

    return float(
        eigvalsh(
            np.asarray(as_matrix(gram, tokens, sink=sink), dtype=np.float64), subset_by_index=[0, 0]
        )[0]
    )


def _semidefinite(matrix: npt.NDArray[Any]) -> bool:
    """Return whether all eigenvalues ≥ −rounding·‖R‖, by Cholesky of the shifted matrix."""
    from scipy.linalg import LinAlgError, cholesky

    shift = 16 * ROUNDING[matrix.dtype] * float(np.linalg.norm(matrix))
    shifted = matrix.astype(np.float64) + shift * np.eye(len(matrix))
    try:
        cholesky(shifted, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return False
    return True


def _largest_sink_cosine(lag_part: FloatArray) -> float:
    """Return 1/√(1ᵀA⁻¹1), NaN if A is not PSD: by Cholesky, or eigenvalues if near singular."""
    from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

    try:
        factor = cholesky(lag_part, lower=True, check_finite=False)
        # 1ᵀA⁻¹1 = ‖L⁻¹1‖²
        if (np.diagonal(factor) > WELL_CONDITIONED).all():
            solved = solve_triangular(
                factor, np.ones(len(lag_part)), lower=True, check_finite=False
            )
            return min(1.0, 1 / float(np.linalg.norm(solved)))
    except LinAlgError:
        if not _semidefinite(lag_part):
            return float("nan")
    # nearly singular: by eigenvectors; if 1 has a part in the null space, only ρ₀ = 0 is feasible
    values, vectors = eigh(lag_part)
    load = vectors.sum(axis=0) ** 2
    floor = ROUNDING[lag_part.dtype] * len(lag_part) * values[-1]
    if (load[values <= floor] > 1e-12 * len(lag_part)).any():
        return 0.0
    positive = values > floor
    return float(min(1.0, 1 / np.sqrt((load[positive] / values[positive]).sum())))
