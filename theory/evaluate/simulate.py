"""Monte Carlo simulation of expected separability, under Model G or with exactly unit directions.

Model G: each of the d coordinates of (y_0..y_L) is an independent N(0, C/d), C_kl = a_k a_l ρ_kl.
Reference for every edition: Model G for `sharp`, unit directions for `repaired`. Definitions 1-3 of
arXiv 2602.01893 give P, R and F. Imports numpy; scipy.linalg and numba lazily.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

import numpy as np

from theory.arrays import FloatArray, IntArray, selection_order
from theory.editions.sharp.sharp_law import SUM_ROUNDING
from theory.errors import InputError
from theory.head.gram import Gram, LagGram, as_matrix
from theory.head.inputs import HeadInput, checked_input
from theory.head.results import QUANTITIES, Convention

CHUNK_NUMBERS = 2**19
"""Number of normals drawn at once: 4 MB of float64, which stay in the cache."""

TIE = 1e-9
"""Relative difference of squared distances below which two tokens are tied."""

Directions = Literal["gaussian", "unit"]

FOLLOWUP: Final = "f_followup"
"""The follow-up's one F: harmonic mean of P(r_max) and R(r_min) with strict inner balls."""

FOLLOWUP_RECALL: Final = "recall_followup"
"""R(r_min) with strict inner balls, which differs for small heads with tied tokens."""

AUDITED: Final = (*QUANTITIES, FOLLOWUP_RECALL, FOLLOWUP)
"""Simulated quantities: the four of the paper, then the two of the follow-up."""

AS_AUDITED: Final[dict[Convention, tuple[str, ...]]] = {
    "paper": QUANTITIES,
    "followup": ("precision", FOLLOWUP_RECALL, FOLLOWUP, FOLLOWUP),
}
"""Simulated quantity for each of `QUANTITIES`, by convention."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulation:
    """Means over draws of P(r_max), R(r_min), F(r_max), F(r_min) with their standard errors, one
    entry for each n; NaN for n > T.

    Under `followup` f_outer and f_inner both hold its one F, and n = T is NaN.
    """

    n: IntArray
    precision: FloatArray
    precision_se: FloatArray
    recall: FloatArray
    recall_se: FloatArray
    f_outer: FloatArray
    f_outer_se: FloatArray
    f_inner: FloatArray
    f_inner_se: FloatArray
    draws: int
    directions: Directions


def simulate(
    alpha: Any,
    norms: Any,
    gram: Gram,
    dimension: int,
    n: Any,
    *,
    draws: int = 1000,
    seed: int = 0,
    sink: int | None = 0,
    directions: Directions = "gaussian",
    convention: Convention = "paper",
) -> Simulation:
    """Estimate E P, E R and E F of a head from independent draws.

    Args:
        alpha: (T,) attention weights, non-negative.
        norms: (T,) value norms, or one number.
        gram: T×T cosines, or a `LagGram`; an exponential or offset one is drawn in O(T d).
        dimension: head size d.
        n: (K,) sizes N >= 1.
        sink: position of the sink, None where it is not visible.
        draws: number of heads to draw, at least 2.
        seed: seed of the generator; equal seeds give equal results.
        directions: "gaussian" is Model G; "unit" rescales every direction to length 1.
        convention: "paper" or "followup".

    Returns:
        A `Simulation` with arrays of shape (K,).

    Raises:
        InputError: on bad input or an infeasible Gram.

    Example:
        >>> from theory.head.gram import exponential
        >>> alpha, gram = [0.5, 0.1, 0.2, 0.2], exponential(1.0, 0.0, 4)
        >>> found = simulate(alpha, 1.0, gram, 64, [2], draws=100, seed=0)
        >>> bool(0 < found.precision[0] <= 1), found.draws
        (True, 100)
    """
    valid = directions in get_args(Directions) and convention in get_args(Convention)
    if draws < 2 or not valid:
        raise InputError(
            f"draws={draws}, directions={directions!r}, convention={convention!r}: expected at"
            " least 2 draws, 'gaussian' or 'unit', 'paper' or 'followup'."
        )
    head = checked_input(alpha, norms, gram, dimension, n, sink=sink)
    below = head.n < head.tokens
    inner, inverse = np.unique(head.n[below], return_inverse=True)
    drawn = means_of_draws(replace(head, n=inner), draws, seed, [directions])[directions]
    audited = [AUDITED.index(name) for name in AS_AUDITED[convention]]
    values = np.full((2, len(QUANTITIES), len(head.n)), np.nan)
    values[:, :, below] = np.stack(drawn)[:, audited][:, :, inverse]
    if convention == "paper":
        values[0][:, head.n == head.tokens], values[1][:, head.n == head.tokens] = 1.0, 0.0
    names = [f"{name}{of}" for of in ("", "_se") for name in QUANTITIES]
    named = dict(zip(names, values.reshape(len(names), len(head.n)), strict=True))
    return Simulation(n=head.n, draws=draws, directions=directions, **named)


def means_of_draws(
    head: HeadInput, draws: int, seed: int, kinds: Sequence[Directions]
) -> dict[Directions, tuple[FloatArray, FloatArray]]:
    """Return mean and standard error of each of `AUDITED`, shape (6, K) each, from the same draws,
    by kind of directions.

    Args:
        head: checked weights (T,), norms (T,), Gram and ascending sizes n (K,), each 1 <= n < T.
        draws: how many heads to draw.
        seed: of the generator.
        kinds: "gaussian", or "unit" to rescale every direction to length 1.
    """
    order, a = selection_order(head.alpha), head.alpha * head.norms
    sums = {kind: np.zeros((2, len(AUDITED), len(head.n))) for kind in kinds}
    for units in draw_directions(
        head.gram, head.tokens, head.dimension, draws, seed, sink=head.sink
    ):
        for kind, (total, square) in sums.items():
            length = np.linalg.norm(units, axis=2, keepdims=True) if kind == "unit" else 1.0
            y = units / length
            y *= a[:, None, None]
            separability = separability_of_draws(y, order, head.n)
            total += separability.sum(axis=2)
            square += (separability**2).sum(axis=2)
    means = {kind: (total / draws, square / draws) for kind, (total, square) in sums.items()}
    return {
        kind: (mean, np.sqrt(np.maximum(of_squares - mean**2, 0) / (draws - 1)))
        for kind, (mean, of_squares) in means.items()
    }


def draw_directions(
    gram: Gram,
    tokens: int,
    dimension: int,
    draws: int,
    seed: int,
    *,
    sink: int | None = 0,
    triangular: bool = False,
) -> Iterator[FloatArray]:
    """Yield chunks (T, m, d) of Gaussian directions whose inner products have the Gram as mean;
    Σm = draws.

    Args:
        gram: T×T cosines, or a `LagGram`.
        tokens: T.
        dimension: d.
        draws: number of heads to draw, in chunks of m.
        seed: of the generator.
        sink: position of the sink, None where it is not visible.
        triangular: whether a Gram that is positive definite is factored by Cholesky, which is
            faster than by eigenvectors and gives other draws.
    """
    generator = np.random.default_rng(seed)
    at_once = max(1, CHUNK_NUMBERS // (tokens * dimension))
    markov = (
        isinstance(gram, LagGram)
        and gram.beta is not None
        and 0 <= (gram.offset or 0.0) < 1 - 1e-9
        and sink in (0, None)
        and tokens > 1
    )
    factor, index = (None, None) if markov else _factor(gram, tokens, sink, triangular)
    for start in range(0, draws, at_once):
        count = min(at_once, draws - start)
        if factor is None:
            assert isinstance(gram, LagGram)
            chunk = _markov_chunk(gram, tokens, dimension, count, generator, sink)
        else:
            noise = generator.standard_normal((factor.shape[1], count * dimension))
            chunk = (factor @ noise).reshape(-1, count, dimension)
            chunk = chunk if index is None else chunk[index]
        yield chunk / np.sqrt(dimension)


def _factor(
    gram: Gram, tokens: int, sink: int | None, triangular: bool
) -> tuple[FloatArray, IntArray | None]:
    """Return H with H Hᵀ the Gram of the distinct tokens, and the index of each token among them
    (None if all are distinct).

    Tokens of cosine 1 are drawn once: rounding must not separate equal vectors.
    """
    from scipy.linalg import LinAlgError, cholesky, eigh

    cosines = np.asarray(as_matrix(gram, tokens, sink=sink), dtype=np.float64)
    distinct, index = np.unique(np.argmax(cosines >= 1 - SUM_ROUNDING, axis=0), return_inverse=True)
    if triangular and len(distinct) == tokens:
        with suppress(LinAlgError):
            return np.asarray(cholesky(cosines, lower=True)), None
    values, vectors = eigh(cosines[np.ix_(distinct, distinct)])
    positive = values > 1e-12 * values[-1]
    return np.asarray(vectors[:, positive] * np.sqrt(values[positive])), (
        None if len(distinct) == tokens else index
    )


def _markov_chunk(
    gram: LagGram,
    tokens: int,
    dimension: int,
    count: int,
    generator: np.random.Generator,
    sink: int | None,
) -> FloatArray:
    """Draw a common part plus an AR(1) sequence, and the sink by regression: O(T d) a draw."""
    assert gram.beta is not None
    phi, offset = float(np.exp(-gram.beta)), gram.offset or 0.0
    units = np.empty((tokens, count, dimension))
    content = units if sink is None else units[1:]
    length = len(content)
    generator.standard_normal(out=content)
    # AR(1): φ times the previous token plus fresh noise
    step = np.sqrt(1 - phi**2)
    for t in range(1, length):
        content[t] *= step
        content[t] += phi * content[t - 1]
    # a common part gives the offset c
    content *= np.sqrt(1 - offset)
    content += np.sqrt(offset) * generator.standard_normal((count, dimension))
    if sink is not None:
        # A⁻¹1 in closed form (the inverse of an AR(1) matrix is tridiagonal), then with the offset
        # by Sherman and Morrison
        ends = np.full(length, (1 - phi) / (1 + phi))
        ends[[0, -1]] = 1 / (1 + phi) if length > 1 else 1.0
        solved = ends / (1 - offset)
        solved /= 1 + offset * solved.sum()
        left = np.sqrt(max(0.0, 1 - gram.rho0**2 * solved.sum()))
        units[0] = gram.rho0 * np.tensordot(
            solved, content, axes=1
        ) + left * generator.standard_normal((count, dimension))
    return units


def separability_of_draws(y: FloatArray, order: IntArray, n: IntArray) -> FloatArray:
    """Return each of `AUDITED` in each draw, shape (6, K, m).

    Squared distances are compared without the common ‖s‖²: D_l − ‖s‖² = ‖y_l‖² − 2⟨s, y_l⟩ keeps
    digits for tiny weights.

    Args:
        y: contributions (T, m, d).
        order: (T,) order of selection, or (m, T) for each draw.
        n: ascending sizes, each 1 <= n < T.
    """
    from theory.evaluate.simulate_kernels import counts_of_draws

    count = y.shape[1]
    outside, closed, strict = counts_of_draws(
        y, np.broadcast_to(order, (count, len(y))), np.asarray(n), TIE
    )
    p, closed, strict = (
        n[:, None] / (n[:, None] + outside),
        closed / n[:, None],
        strict / n[:, None],
    )
    f_outer, f_inner = 2 * p / (1 + p), 2 * closed / (1 + closed)
    return np.stack([p, closed, f_outer, f_inner, strict, 2 * p * strict / (p + strict)])
