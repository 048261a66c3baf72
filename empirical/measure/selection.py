"""Top-N selection and separability: does the ball around the representative hold the selected
tokens, and only them?

Source: arXiv 2602.01893, Definitions 1-2, (1)-(5), (18)-(20), Corollary 1; conventions of the
authors' later protocol: arXiv 2609.37879.

y_i = α_i v_i; I: the N largest α, ties by lower index; J: the rest; s = Σ_I y. Then r_max is the
largest ‖s − y_i‖ over I, r_min the smallest over J, Precision = N/(N + #{j ∈ J inside the closed
r_max ball}), Recall = #{i ∈ I inside the r_min ball}/N. Imports numpy, torch and the compiled
kernels.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
import torch

from empirical.errors import InputError
from empirical.measure.compiled import Task, spread
from empirical.measure.convention import Convention
from empirical.measure.head_kernels import separability_of_head
from empirical.measure.sizes import Sizes
from empirical.schema import f_scores

MEASURES = ("precision", "recall", "r_min", "r_max")
"""Columns that a kernel writes for each N."""

LEAST: Final = 2.0**-50
MOST: Final = 2.0**50
"""Between which the largest entry of a kv_head's value states must lie, unless all are 0, so that
squares summed over dimensions and tokens are finite in float32, and those of contributions a
thousand times smaller are not below its normal numbers, where they lose their digits.
"""

ArrayLike = np.ndarray | torch.Tensor
A = TypeVar("A", np.ndarray, torch.Tensor)


def head_arrays(alpha: ArrayLike, values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Check one layer's arrays, α (head, token) and v (kv_head, token, dimension), or those of one
    head without the leading dimension.

    They come back with it, on the CPU, C-contiguous, float64 where both are, else float32. An
    InputError where shapes do not fit, a head holds NaN, infinity or a negative weight, or value
    states in float32 are too large or small to be squared.
    """
    a, v = _to_numpy(alpha), _to_numpy(values)
    a, v = (a[None] if a.ndim == 1 else a), (v[None] if v.ndim == 2 else v)
    if (
        a.ndim != 2
        or v.ndim != 3
        or a.shape[1] != v.shape[1]
        or 0 in a.shape
        or 0 in v.shape
        or a.shape[0] % v.shape[0]
    ):
        raise InputError(
            f"alpha {tuple(alpha.shape)}, values {tuple(values.shape)}: expected (head, token) and"
            " (kv_head, token, dimension) with equal tokens and heads a multiple of kv_heads."
            " Leave out the leading dimensions for one head."
        )
    kind = np.float64 if a.dtype == v.dtype == np.float64 else np.float32
    a, v = np.ascontiguousarray(a, dtype=kind), np.ascontiguousarray(v, dtype=kind)
    for name, array in (("head", a), ("kv_head", v)):
        if not np.isfinite(array).all():
            bad = int(np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))[0])
            what = "attention weight" if name == "head" else "value state"
            raise InputError(
                f"{name} {bad}: NaN or infinity among its {what}s, expected finite numbers. Use"
                " float32 or check the model's weights."
            )
    if kind == np.float32 and not (fits := in_range(v)).all():
        bad = int(np.flatnonzero(~fits)[0])
        raise InputError(
            f"kv_head {bad}: its largest value state is {np.abs(v[bad]).max():.2g}, expected one"
            f" from {LEAST:.1g} to {MOST:.1g}, which float32 can square. Scale the values, or use"
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
    """Return of which kv_heads float32 can square the value states, (kv_head) bool; values:
    (kv_head, token, dimension).
    """
    flat: Any = abs(values.reshape(len(values), -1))
    largest = flat.amax(1) if isinstance(flat, torch.Tensor) else flat.max(1)
    return (largest == 0) | ((largest >= LEAST) & (largest <= MOST))


def _to_numpy(array: ArrayLike) -> np.ndarray:
    if isinstance(array, torch.Tensor):
        plain = array.detach()
        return (plain if plain.dtype == torch.float64 else plain.float()).cpu().numpy()
    return np.asarray(array)


def order_by_weight(alpha: np.ndarray) -> np.ndarray:
    """Return the tokens of each row in the order of selection: largest weight first, ties by lower
    index; int64.

    Bits of non-negative float32 order as the numbers do, so weight and index make one integer, and
    sorting integers is much faster.
    """
    if alpha.dtype != np.float32:
        return np.argsort(-alpha, axis=-1, kind="stable")
    bits = (alpha + np.float32(0)).view(np.uint32)  # −0 becomes 0
    keys = (~bits).astype(np.uint64) << np.uint64(32) | np.arange(alpha.shape[-1], dtype=np.uint64)
    keys.sort(axis=-1)
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)


def separability_tasks(
    alpha: np.ndarray, values: np.ndarray, order: np.ndarray, n: np.ndarray, convention: Convention
) -> tuple[np.ndarray, list[Task]]:
    """Lay out the separability of several heads at distinct N <= T, ascending: `MEASURES`, (head,
    n, 4) float64, and a task a head to fill it.

    alpha, (head, token), and order, each head's tokens in the order of selection; values, (kv_head,
    token, dimension).
    """
    s = np.empty((len(alpha), n.size, values.shape[-1]))
    measured = np.empty((len(alpha), n.size, len(MEASURES)))
    group, strict = len(alpha) // len(values), convention is Convention.FOLLOWUP
    return measured, [
        partial(
            separability_of_head,
            row,
            values[head // group],
            order[head],
            n,
            strict,
            s[head],
            measured[head],
        )
        for head, row in enumerate(alpha)
    ]


def by_size(
    measured: np.ndarray, sizes: Sizes, tokens: int, convention: Convention, kind: Any
) -> dict[str, np.ndarray]:
    """Take (head, …, n, 4) to named arrays (head, …, n) of a type; NaN for N > T, and at N =
    T where the convention stops before it.
    """
    if convention is Convention.FOLLOWUP:
        measured[..., sizes.inside == tokens, :2] = np.nan
    spread_out = sizes.scatter(np.moveaxis(measured, -1, 0).astype(kind, order="C"))
    return dict(zip(MEASURES, spread_out, strict=True))


def separability(
    alpha: A, values: A, n: Any = None, *, convention: Convention | str = Convention.PAPER
) -> dict[str, A]:
    """Measure Precision, Recall, radii and F of heads at every requested N.

    Exact for float64 input up to rounding; float32 otherwise (other types are taken to float32).
    Tokens of equal contribution tie exactly.

    Args:
        alpha: attention rows, (..., T), non-negative.
        values: value states, (..., T, d). The dimension before T may be smaller than that of
            `alpha` by a whole factor (grouped-query attention): head h uses kv_head h // (heads //
            kv_heads).
        n: sizes N, integers from 1 in any order; None: `default_n(T)`.
        convention: "paper" or "followup".

    Returns:
        precision, recall, r_min, r_max, f_outer, f_inner, each (..., n), of the input's kind. NaN
        for N > T; r_min is NaN at N = T (nothing is outside), and so are all but r_max under
        "followup". Radii are in units of the value norm.

    Raises:
        InputError: if shapes do not fit, an N is not a positive integer, or a head holds NaN,
            infinity or a negative weight.

    Of three tokens the two heaviest point apart: the ball that holds both holds the third too,
    which is nearest to their sum.

    >>> values = torch.tensor([[1.0, 0.0], [-0.5, 0.5], [1.0, 0.2]])
    >>> measured = separability(torch.tensor([0.5, 0.3, 0.2]), values, n=[1, 2])
    >>> measured["precision"], measured["recall"]
    (tensor([1.0000, 0.6667]), tensor([1., 0.]))
    >>> measured["r_min"], measured["r_max"]
    (tensor([0.3027, 0.1860]), tensor([0.0000, 0.5000]))
    """
    convention = Convention(convention)
    a, v, leading = _flatten(alpha, values)
    rows, states = head_arrays(a, v)
    sizes = Sizes(n, rows.shape[-1])
    measured, tasks = separability_tasks(
        rows, states, order_by_weight(rows), sizes.inside, convention
    )
    spread(tasks)
    named = by_size(measured, sizes, rows.shape[-1], convention, rows.dtype)
    named["f_outer"], named["f_inner"] = f_scores(named["precision"], named["recall"], convention)
    shaped = {name: array.reshape(*leading, sizes.asked.size) for name, array in named.items()}
    if isinstance(alpha, torch.Tensor):
        return {name: torch.from_numpy(array).to(alpha.device) for name, array in shaped.items()}
    return shaped


def _flatten(alpha: A, values: A) -> tuple[A, A, tuple[int, ...]]:
    """Take leading dimensions into one dimension of heads; groups stay together because they are
    the innermost.
    """
    fits = (
        alpha.ndim + 1 == values.ndim and alpha.shape[:-2] == values.shape[:-3] and alpha.ndim >= 1
    )
    if not fits or (
        alpha.ndim > 1 and (values.shape[-3] == 0 or alpha.shape[-2] % values.shape[-3])
    ):
        raise InputError(
            f"alpha {tuple(alpha.shape)}, values {tuple(values.shape)}: expected (..., T) and (...,"
            " T, d) with equal leading dimensions, or heads a multiple of kv_heads in the one"
            " before T."
        )
    return (
        alpha.reshape(-1, alpha.shape[-1]),
        values.reshape(-1, *values.shape[-2:]),
        tuple(alpha.shape[:-1]),
    )
