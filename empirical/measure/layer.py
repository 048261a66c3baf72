"""Layer measurements: values, weights and representatives of heads by position, by lag and over N.

Source: arXiv 2602.01893, (1)-(8), (18)-(20), Assumptions 1-2, Figures 1, 3, 5, 7 and 9. One call
measures a whole layer of one document, so the order of selection, the representatives and the
matrix of cosines are computed once. If all cosines of a kv_head fit in memory, its heads read them
in one walk over their tokens. Otherwise separability comes from products of representatives with
contributions, as in `selection`. Imports numpy and this room's kernels.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from empirical.errors import InputError
from empirical.measure.compiled import Task
from empirical.measure.cosine_kernels import COSINE_BINS, NO_PAIR, running_maxima
from empirical.measure.head_kernels import curves_of_head
from empirical.measure.pairs import Block, Pairs
from empirical.measure.selection import ArrayLike, Convention, Selection, head_arrays, neighbours
from empirical.schema import CURVES

UNIT_LAGS: Final = 16
"""Largest lag with a bin of its own."""

LOG_LAGS: Final = 32
"""Number of log-spaced bins beyond UNIT_LAGS, before rounding to integers."""

POSITION_BLOCKS: Final = 8

COMPONENTS: Final = 3

NAMES: Final = tuple(name for name in CURVES if name not in {"rho_in", "rho_out"})
"""Columns of `head_kernels.curves_of_head`; "without" removes a token's contribution from s(N)."""


def lag_bins(tokens: int, *, sink: bool = True) -> np.ndarray:
    """Return the first and last lag of each bin, (lag_bin, 2) int64.

    Every lag to 16 is a bin, followed by about 32 log-spaced bins to the longest lag between
    content tokens.
    """
    longest = max(tokens - 2 if sink else tokens - 1, 0)
    stops = np.arange(1, min(longest, UNIT_LAGS) + 1)
    if longest > UNIT_LAGS:
        sparse = np.geomspace(UNIT_LAGS, longest, LOG_LAGS + 1).round().astype(np.int64)
        stops = np.unique(np.concatenate([stops, sparse]))
    starts = np.concatenate([[1], stops[:-1] + 1])[: stops.size]
    return np.stack([starts, stops], axis=1).astype(np.int64)


def cosine_bins() -> np.ndarray:
    """Return the edges of 64 equal bins on [−1, 1], closed on the left, the last on both sides."""
    return np.linspace(-1.0, 1.0, COSINE_BINS + 1)


def position_blocks(tokens: int) -> np.ndarray:
    """Return first and last position of 8 equal blocks, (position_block, 2); reversed if empty."""
    edges = np.arange(POSITION_BLOCKS + 1) * tokens // POSITION_BLOCKS
    return np.stack([edges[:-1], edges[1:] - 1], axis=1)


class Curves(Selection):
    """Heads of one layer and their curves over N, with the cosines of their kv_heads."""

    def __init__(self, alpha: np.ndarray, pairs: Pairs, n: Any, convention: Convention) -> None:
        super().__init__(alpha, pairs.values, n, convention)
        self.pairs, sizes = pairs, self.sizes.inside.size
        self.described = np.empty((len(alpha), sizes, len(NAMES)))
        self.rho = np.full((len(alpha), 2, sizes), NO_PAIR, alpha.dtype)  # ρ_in and ρ_out

    def add(self, block: Block) -> list[Task]:
        """Return the tasks that measure the heads of a filled block of cosines."""
        heads = range(block.kv_head * self.group, (block.kv_head + 1) * self.group)
        return [partial(self._add, block, head) for head in heads]

    def _add(self, block: Block, head: int) -> None:
        """Measure one head: all quantities from a block of all pairs, otherwise its largest
        cosines, and with the first block all other quantities.
        """
        norm, first = self.pairs.norm[block.kv_head], self.pairs.first
        alpha, values, order, n, s = self._arrays(head)
        if block.columns == self.pairs.tokens:
            s = self.walk(head, block.cosine, norm, first, self.rho[head])
        else:
            if block.first == 0:
                s = self.measure(head)
            enters, rank = neighbours(norm, order, first)
            rank = rank[block.first : block.first + block.columns]
            running_maxima(block.cosine, block.first, order, enters, rank, n, *self.rho[head])
        if block.first == 0:
            weight, described = alpha * norm, self.described[head]
            curves_of_head(alpha, values, weight, order, n, first == 1, s, described)

    def named(self) -> dict[str, np.ndarray]:
        """Return separability, `NAMES`, rho_in and rho_out, each (head, n); NaN for N > T."""
        inside, outside = self.rho[:, 0], self.rho[:, 1]
        rho = np.stack(
            [
                np.where(inside == NO_PAIR, 0, inside.clip(-1, 1)),
                np.where(outside == NO_PAIR, np.nan, outside.clip(-1, 1)),
            ],
            axis=-1,
        )
        return {
            **super().named(),
            **dict(zip(NAMES, self.by_name(self.described), strict=True)),
            **dict(zip(("rho_in", "rho_out"), self.by_name(rho), strict=True)),
        }


def measure_layer(
    alpha: ArrayLike,
    values: ArrayLike,
    n: Any,
    *,
    sink: bool,
    convention: Convention = Convention.PAPER,
    positions: int | None = None,
) -> dict[str, np.ndarray]:
    r"""Measure everything of /capture for one document's layer, except principal components.

    T is the number of visible tokens, the last T of the document's positions.

    Args:
        alpha: attention row of the last query, (head, T), in any float dtype.
        values: value states, (kv_head, T, dimension).
        n: sizes N, positive integers; None: `selection.default_n(T)`.
        sink: whether token 0 is the sink; otherwise there is none, and I\0 is I.
        convention: how balls are counted.
        positions: length of the document, which defines lag bins and position blocks; default T.

    Returns:
        attention_weight (head, T); value_norm, sink_cosine, cosine_to_last_value (kv_head, T);
        cosine_mean, cosine_std, cosine_negative_fraction (kv_head, lag) with lag 1..T−2, or 1..T−1
        without a sink; cosine_histogram (kv_head, lag_bin, cosine_bin) int32; cosine_block_mean
        (kv_head, position_block, lag_bin); precision, recall, r_min, r_max, `NAMES`, rho_in and
        rho_out (head, n). NaN where undefined and for N > T. The dtype is float64 if both inputs
        are, else float32, except for counts.

    Raises:
        InputError: as `selection.head_arrays`, or an N is not a positive integer.
    """
    alpha, states = head_arrays(alpha, values)
    tokens = alpha.shape[1]
    positions = tokens if positions is None else positions
    if positions < tokens:
        raise InputError(
            f"positions = {positions}, but {tokens} tokens are visible. Pass the document's length,"
            f" at least {tokens}."
        )
    bins = lag_bins(positions, sink=sink or positions > tokens)
    pairs = Pairs(
        states, sink=sink, offset=positions - tokens, bins=bins, blocks=position_blocks(positions)
    )
    curves = Curves(alpha, pairs, n, convention)
    pairs.visit(curves.add, pairs.add)
    return {"attention_weight": alpha, **pairs.summaries(), **curves.named()}


def principal_components(alpha: ArrayLike, values: ArrayLike) -> np.ndarray:
    """Return the contributions of one head along their first three principal axes, (token, 3);
    Figures 1 and 9.

    The axes are those of the centred contributions, but the contributions are not centred: the
    representative of any selection is then the sum of its tokens' rows. Each axis is oriented so
    that its largest entry in magnitude is positive; components beyond the dimensions are 0. alpha:
    (token); values: (token, dimension). Raises the errors of `selection.head_arrays`.
    """
    weights, states = head_arrays(alpha, values)
    if len(weights) != 1:
        raise InputError(
            f"alpha {tuple(alpha.shape)}: expected the row of one head. Pass alpha[head]."
        )
    y = weights[0, :, None].astype(np.float64) * states[0]
    _, _, axes = np.linalg.svd(y - y.mean(axis=0), full_matrices=False)
    axes = axes[:COMPONENTS]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1, keepdims=True), axis=1)
    axes = axes * np.where(largest < 0, -1.0, 1.0)
    components = np.zeros((len(y), COMPONENTS), weights.dtype)
    components[:, : len(axes)] = y @ axes.T
    return components
