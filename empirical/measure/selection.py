"""Top-N selection and separability: how well the ball around the representative separates the
selected tokens from the others.

Source: arXiv 2602.01893, Definitions 1-2, (1)-(5), (18)-(20), Corollary 1; conventions of the
authors' later protocol: arXiv 2609.37879. The module also holds these conventions and the default
grid of N.

y_i = α_i v_i; I: the N largest α, ties by lower index; J: the others; s = Σ_I y. r_max is the
largest ‖s − y_i‖ over I, r_min the smallest over J, Precision = N/(N + #{j ∈ J inside the closed
r_max ball}), Recall = #{i ∈ I inside the r_min ball}/N. Imports numpy, torch and the compiled
kernels.
"""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
import torch

from empirical.errors import InputError
from empirical.measure.compiled import Task, spread
from empirical.measure.cosine_kernels import walk
from empirical.measure.head_kernels import contributions, representatives, separability_of_head
from empirical.schema import f_scores


class Convention(StrEnum):
    """Convention for counting balls and F. Recorded with every result."""

    PAPER = "paper"
    """Closed balls, F for each radius (Definitions 1-2, Corollary 1); P = R = 1 at N = T."""
    FOLLOWUP = "followup"
    """Closed outer ball, open inner ball, one F from P(r_max) and R(r_min). N < T only."""


DENSE = 64
"""Largest N up to which the default grid is dense: tables and figures of the paper use small N."""

LOG_SPACED = 96
"""Number of log-spaced values of the default grid beyond `DENSE`, before rounding to integers."""


def default_n(tokens: int) -> np.ndarray:
    """Return the default grid of N, int64: every N up to 64, then about 96 log-spaced values up to
    T.

    >>> default_n(1024)[[0, 63, 64, 65, -1]]
    array([   1,   64,   66,   68, 1024])
    """
    if tokens < 1:
        raise InputError(f"{tokens} tokens: a head needs at least one. Use a longer window.")
    sparse = (
        np.geomspace(DENSE, tokens, LOG_SPACED + 1).round().astype(np.int64)
        if tokens > DENSE
        else np.array([tokens])
    )
    return np.unique(np.concatenate([np.arange(1, min(tokens, DENSE) + 1), sparse])).astype(
        np.int64
    )


class Sizes:
    """Requested N (None: the default grid), and the distinct ones up to T, ascending (`inside`);
    int64. An InputError if an N is not a positive integer.
    """

    def __init__(self, n: Any, tokens: int) -> None:
        requested = np.atleast_1d(default_n(tokens) if n is None else np.asarray(n))
        if requested.ndim != 1 or (
            requested.size and (requested.dtype.kind not in "iu" or requested.min() < 1)
        ):
            raise InputError(
                f"n = {np.asarray(n).tolist()!r}: expected a list of integers from 1. Use range(1,"
                " T + 1) for every N."
            )
        self.requested = requested.astype(np.int64)
        self.inside = np.unique(self.requested[self.requested <= tokens])

    def scatter(self, measured: np.ndarray) -> np.ndarray:
        """Map (..., distinct N) to (..., requested N), with NaN for N > T."""
        behind = np.full((*measured.shape[:-1], 1), np.nan, measured.dtype)  # the entry for N > T
        return np.take(
            np.concatenate([measured, behind], axis=-1),
            np.searchsorted(self.inside, self.requested),
            axis=-1,
        )


MEASURES = ("precision", "recall", "r_min", "r_max")
"""Columns that a kernel writes for each N."""

LEAST: Final = 2.0**-50
MOST: Final = 2.0**50
"""Range of the largest entry of a kv_head's value states, unless all are 0. Within it, squares
summed over dimensions and tokens are finite in float32, and squares of contributions a thousand
times smaller remain normal numbers.
"""

ArrayLike = np.ndarray | torch.Tensor
A = TypeVar("A", np.ndarray, torch.Tensor)


def head_arrays(alpha: ArrayLike, values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Check one layer's arrays, α (head, token) and v (kv_head, token, dimension), or those of one
    head without the leading dimension. Return them with it, on the CPU, C-contiguous, in float64 if
    both are, else float32.

    Raises:
        InputError: shapes do not fit, a head holds NaN, infinity or a negative weight, or float32
            value states are too large or small to be squared.
    """
    a, v = _to_numpy(alpha), _to_numpy(values)
    a, v = (a[None] if a.ndim == 1 else a), (v[None] if v.ndim == 2 else v)
    fits = a.ndim == 2 and v.ndim == 3 and a.shape[1] == v.shape[1]
    if not fits or 0 in (*a.shape, *v.shape) or a.shape[0] % v.shape[0]:
        raise InputError(
            f"alpha {tuple(alpha.shape)}, values {tuple(values.shape)}: expected (head, token) and"
            " (kv_head, token, dimension) with equal tokens and heads a multiple of kv_heads. Omit"
            " the leading dimensions for one head."
        )
    dtype = np.float64 if a.dtype == v.dtype == np.float64 else np.float32
    a, v = np.ascontiguousarray(a, dtype=dtype), np.ascontiguousarray(v, dtype=dtype)
    for name, what, array in (("head", "attention weight", a), ("kv_head", "value state", v)):
        if not np.isfinite(array).all():
            bad = int(np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))[0])
            raise InputError(
                f"{name} {bad}: NaN or infinity among its {what}s, expected finite numbers. Use"
                " float32 or check the model's weights."
            )
    if dtype == np.float32 and not (fits := in_range(v)).all():
        bad = int(np.flatnonzero(~fits)[0])
        raise InputError(
            f"kv_head {bad}: its largest value state is {np.abs(v[bad]).max():.2g}, expected"
            f" {LEAST:.1g} to {MOST:.1g}, which float32 can square. Scale the values, or use"
            " float64."
        )
    if (a < 0).any():
        bad = int(np.flatnonzero((a < 0).any(axis=1))[0])
        raise InputError(
            f"head {bad}: weight {a[bad].min():g} is negative, expected attention weights. Pass"
            " weights after the softmax."
        )
    return a, v


def in_range(values: ArrayLike) -> Any:
    """Return for which kv_heads, (kv_head) bool, float32 can square the values."""
    flat: Any = abs(values.reshape(len(values), -1))
    largest = flat.amax(1) if isinstance(flat, torch.Tensor) else flat.max(1)
    return (largest == 0) | ((largest >= LEAST) & (largest <= MOST))


def _to_numpy(array: ArrayLike) -> np.ndarray:
    if isinstance(array, torch.Tensor):
        plain = array.detach()
        return (plain if plain.dtype == torch.float64 else plain.float()).cpu().numpy()
    return np.asarray(array)


def order_by_weight(alpha: np.ndarray) -> np.ndarray:
    """Return each row's tokens in the order of selection, int64: largest weight first, ties by
    index.

    The bits of non-negative float32 numbers have the same order as the numbers. Weight and index
    therefore combine into one integer, and integers sort much faster.
    """
    if alpha.dtype != np.float32:
        return np.argsort(-alpha, axis=-1, kind="stable")
    bits = (alpha + np.float32(0)).view(np.uint32)  # −0 becomes 0
    keys = (~bits).astype(np.uint64) << np.uint64(32) | np.arange(alpha.shape[-1], dtype=np.uint64)
    keys.sort(axis=-1)
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)


class Selection:
    """Heads of one layer, their tokens in the order of selection, and `MEASURES` at every N."""

    def __init__(
        self,
        alpha: np.ndarray,
        values: np.ndarray,
        n: Any,
        convention: Convention,
        order: np.ndarray | None = None,
    ) -> None:
        """Prepare the arrays; alpha (head, token), values (kv_head, token, dimension), as
        `head_arrays` returns them; order (head, token), by default by weight.
        """
        self.alpha, self.values = alpha, values
        self.order = order_by_weight(alpha) if order is None else order
        self.sizes = Sizes(n, alpha.shape[1])
        self.group = len(alpha) // len(values)
        self.strict = convention == Convention.FOLLOWUP
        self.measured = np.empty((len(alpha), self.sizes.inside.size, len(MEASURES)))

    def tasks(self) -> list[Task]:
        """Return one task per head that measures it without the cosines of all pairs."""
        return [partial(self.measure, head) for head in range(len(self.alpha))]

    def measure(self, head: int) -> np.ndarray:
        """Measure a head by products with its contributions; return s(N), (n, dimension)."""
        alpha, values, order, n, s = self._arrays(head)
        separability_of_head(alpha, values, order, n, self.strict, s, self.measured[head])
        return s

    def walk(
        self, head: int, cosine: np.ndarray, norm: np.ndarray, first: int, rho: np.ndarray | None
    ) -> np.ndarray:
        """Measure a head from the cosines of all pairs; return its representatives.

        norm: of the values, (token). first: the first content token. rho: filled with ρ_in and
        ρ_out, (2, n); None omits them.
        """
        alpha, values, order, n, s = self._arrays(head)
        y = contributions(alpha, values)
        representatives(y, order, n, s)
        weight = alpha.astype(np.float64) * norm
        enters, rank = neighbours(norm, order, first)
        rho = np.empty((2, 0), alpha.dtype) if rho is None else rho
        walk(cosine, y, weight, order, enters, rank, n, self.strict, s, self.measured[head], rho)
        return s

    def _arrays(self, head: int) -> tuple[np.ndarray, ...]:
        """Return α, values, order, the sizes and empty representatives of a head."""
        n, values = self.sizes.inside, self.values[head // self.group]
        return self.alpha[head], values, self.order[head], n, np.empty((n.size, values.shape[-1]))

    def named(self) -> dict[str, np.ndarray]:
        """Return `MEASURES`, (head, n) each; NaN for N > T, and at N = T by the convention."""
        tokens = self.alpha.shape[1]
        if self.strict:
            self.measured[:, self.sizes.inside == tokens, :2] = np.nan
        return dict(zip(MEASURES, self.by_name(self.measured), strict=True))

    def by_name(self, measured: np.ndarray) -> np.ndarray:
        """Map (head, distinct N, name) to (name, head, N) in the weights' dtype."""
        rows = np.moveaxis(measured, -1, 0).astype(self.alpha.dtype, order="C")
        return self.sizes.scatter(rows)


def neighbours(norm: np.ndarray, order: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which tokens enter cosine maxima (neither the sink nor zero vectors), and each token's
    rank in `order`, −1 for a zero vector.
    """
    enters = norm > 0
    enters[:first] = False
    rank = np.empty(order.size, np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    rank[norm == 0] = -1
    return enters, rank


def separability(
    alpha: A, values: A, n: Any = None, *, convention: Convention | str = Convention.PAPER
) -> dict[str, A]:
    """Measure Precision, Recall, radii and F of heads at every requested N.

    Computed in float64 for float64 input, otherwise in float32. Tokens with equal contributions tie
    exactly.

    Args:
        alpha: attention rows, (..., T), non-negative.
        values: value states, (..., T, d). With fewer kv_heads than heads before T (grouped-query
            attention), head h uses kv_head h // (heads // kv_heads).
        n: sizes N, integers from 1 in any order; None: `default_n(T)`.
        convention: "paper" or "followup".

    Returns:
        precision, recall, r_min, r_max, f_outer, f_inner, each (..., n), of the input's array type.
        NaN for N > T. At N = T no token is outside: r_min is NaN, and under "followup" all but
        r_max are. Radii are in units of the value norm.

    Raises:
        InputError: if shapes do not fit, an N is not a positive integer, or a head holds NaN,
            infinity or a negative weight.

    The two heaviest of three tokens point in different directions. The ball that contains both also
    contains the third, which is nearest to their sum.

    >>> values = torch.tensor([[1.0, 0.0], [-0.5, 0.5], [1.0, 0.2]])
    >>> measured = separability(torch.tensor([0.5, 0.3, 0.2]), values, n=[1, 2])
    >>> measured["precision"], measured["recall"]
    (tensor([1.0000, 0.6667]), tensor([1., 0.]))
    >>> measured["r_min"], measured["r_max"]
    (tensor([0.3027, 0.1860]), tensor([0.0000, 0.5000]))
    """
    convention = Convention(convention)
    heads = Selection(*head_arrays(*_flattened(alpha, values)), n, convention)
    spread(heads.tasks())
    named = heads.named()
    named["f_outer"], named["f_inner"] = f_scores(named["precision"], named["recall"], convention)
    shape = (*alpha.shape[:-1], heads.sizes.requested.size)
    shaped = {name: array.reshape(shape) for name, array in named.items()}
    if isinstance(alpha, torch.Tensor):
        return {name: torch.from_numpy(array).to(alpha.device) for name, array in shaped.items()}
    return shaped


def _flattened(alpha: A, values: A) -> tuple[A, A]:
    """Merge leading dimensions into one; groups are innermost, so their heads stay together."""
    fits = alpha.ndim >= 1 and alpha.shape[:-2] == values.shape[:-3]
    fits = fits and alpha.ndim + 1 == values.ndim
    if not fits or (
        alpha.ndim > 1 and (values.shape[-3] == 0 or alpha.shape[-2] % values.shape[-3])
    ):
        raise InputError(
            f"alpha {tuple(alpha.shape)}, values {tuple(values.shape)}: expected (..., T) and (...,"
            " T, d) with equal leading dimensions, or with heads a multiple of kv_heads before T."
        )
    return alpha.reshape(-1, alpha.shape[-1]), values.reshape(-1, *values.shape[-2:])
