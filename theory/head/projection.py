"""Projection of an infeasible Gram to a feasible one: ρ₀ to its edge, a matrix to the nearest, a
lag profile by its spectrum.

A stationary sequence is positive semidefinite if its spectrum is non-negative (Herglotz).
`clip_spectrum` extends the sequence symmetrically to a circle, sets the negative part of its
spectrum to 0 and rescales it to 1 at lag 0: every Toeplitz matrix of the result is positive
semidefinite. The result is not the nearest correlation matrix (`nearest_correlation`, minutes for a
thousand tokens), but it depends only on the lag and takes milliseconds. Source: arXiv 2602.01893,
Assumption 2, erratum 9. Imports numpy and scipy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from theory.arrays import FloatArray
from theory.errors import InputError
from theory.head.gram import Gram, LagGram, as_matrix, is_feasible


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Projection:
    """A feasible Gram and its distance from the input.

    kind: "none" (the input is feasible), "sink" (ρ₀ moved to its edge), "nearest" (nearest positive
    semidefinite with unit diagonal). distance: |Δρ₀| for "sink", Frobenius norm of the change for
    "nearest".
    """

    gram: LagGram | FloatArray
    kind: Literal["none", "sink", "nearest"]
    distance: float


def project(gram: Gram, tokens: int, *, sink: int | None = 0) -> Projection:
    """Return the nearest feasible Gram: ρ₀ at its edge if the lag part is feasible, otherwise the
    nearest correlation matrix.

    Example:
        >>> from theory.head.gram import exponential
        >>> found = project(exponential(0.1, 0.5, 65), 65)
        >>> found.kind, round(found.gram.rho0, 3)
        ('sink', 0.491)
    """
    if is_feasible(gram, tokens, sink=sink):
        unchanged = gram if isinstance(gram, LagGram) else np.asarray(gram, dtype=np.float64)
        return Projection(gram=unchanged, kind="none", distance=0.0)
    if isinstance(gram, LagGram) and sink in (0, tokens - 1):
        edge = gram.edge(tokens - 1)
        if np.isfinite(edge):
            moved = LagGram(
                gram.by_lag, float(np.copysign(edge, gram.rho0)), beta=gram.beta, offset=gram.offset
            )
            return Projection(gram=moved, kind="sink", distance=abs(moved.rho0 - gram.rho0))
    before = np.asarray(as_matrix(gram, tokens, sink=sink), dtype=np.float64)
    after = nearest_correlation(before)
    return Projection(gram=after, kind="nearest", distance=float(np.linalg.norm(after - before)))


def nearest_correlation(matrix: FloatArray) -> FloatArray:
    """Return the positive semidefinite matrix with unit diagonal nearest to `matrix` in Frobenius
    norm.

    Minimises the smooth dual ½‖(G + Diag y)₊‖² − Σy of Malick (2004); its gradient is diag((G +
    Diag y)₊) − 1.
    """
    from scipy.linalg import eigh
    from scipy.optimize import minimize

    def positive_part(y: FloatArray) -> FloatArray:
        values, vectors = eigh(matrix + np.diag(y))
        positive = values > 0
        return np.asarray((vectors[:, positive] * values[positive]) @ vectors[:, positive].T)

    def dual(y: FloatArray) -> tuple[float, FloatArray]:
        part = positive_part(y)
        return 0.5 * float(np.vdot(part, part)) - float(y.sum()), np.diagonal(part) - 1.0

    # the dual is smooth and convex: quasi-Newton, then rescaling to an exact unit diagonal
    result = minimize(
        dual,
        np.zeros(len(matrix)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 200, "ftol": 1e-15, "gtol": 1e-9},
    )
    part = positive_part(result.x)
    scale = 1 / np.sqrt(np.diagonal(part))
    return np.asarray(part * np.outer(scale, scale))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LagProjection:
    """Feasible cosines by lag, and the root mean squared change over all pairs of tokens."""

    by_lag: FloatArray
    distance: float


def clip_spectrum(by_lag: FloatArray) -> LagProjection:
    """Return cosines by lag near the input whose Toeplitz matrix is positive semidefinite.

    Args:
        by_lag: cosines at lags 0, 1, 2, …; the first is 1.

    Returns:
        The projected sequence; the input with distance 0 if its spectrum is non-negative.

    Raises:
        InputError: if it is not a finite 1-d sequence that starts with 1.

    Example:
        >>> clip_spectrum(np.array([1.0, -0.9, 0.9])).by_lag.round(3).tolist()
        [1.0, -0.9, 0.9]
    """
    sequence = np.asarray(by_lag, dtype=np.float64)
    if (
        sequence.ndim != 1
        or sequence.size == 0
        or not np.isfinite(sequence).all()
        or abs(sequence[0] - 1) > 1e-12
    ):
        raise InputError(
            f"by_lag has shape {sequence.shape}, expected a finite sequence of cosines by lag that"
            " starts with 1. Prepend 1 to it."
        )
    spectrum = np.fft.hfft(sequence) if sequence.size > 1 else np.ones(1)
    if (spectrum >= 0).all():
        return LagProjection(by_lag=sequence, distance=0.0)
    clipped = np.fft.ihfft(np.maximum(spectrum, 0.0)).real
    result = clipped / clipped[0]
    pairs = np.arange(sequence.size, 0, -1) * np.where(np.arange(sequence.size) > 0, 2.0, 1.0)
    return LagProjection(
        by_lag=result,
        distance=float(np.sqrt((pairs * (result - sequence) ** 2).sum() / pairs.sum())),
    )
