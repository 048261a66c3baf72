"""What a head's values, weights and representatives look like: by position, by lag, over N.

Source: arXiv 2602.01893, (1)-(8), (18)-(20), Assumptions 1-2, Figures 1, 3, 5, 7 and 9. One call
measures a whole layer of one document, so that the order of selection, the representatives and the
matrix of cosines are made once. Where all cosines of a kv_head fit in memory, its heads read them
in one walk over their tokens; else separability comes from products of representatives with
contributions, as in `selection`. Imports numpy and this room's kernels.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from empirical.errors import InputError
from empirical.measure.compiled import Task, spread
from empirical.measure.convention import Convention
from empirical.measure.cosine_kernels import COSINE_BINS, NO_PAIR, running_maxima, walk
from empirical.measure.head_kernels import (
    contributions,
    curves_of_head,
    representatives,
    separability_of_head,
)
from empirical.measure.pairs import Block, Pairs
from empirical.measure.selection import MEASURES, ArrayLike, by_size, head_arrays, order_by_weight
from empirical.measure.sizes import Sizes
from empirical.schema import CURVES

UNIT_LAGS: Final = 16
"""Each lag up to here is a bin of its own."""

LOG_LAGS: Final = 32
"""Log-spaced bins of lags beyond, before rounding to integers."""

POSITION_BLOCKS: Final = 8

COMPONENTS: Final = 3

NAMES: Final = tuple(name for name in CURVES if name not in {"rho_in", "rho_out"})
"""Columns that `head_kernels.curves_of_head` writes for each N; "without" leaves the token's
contribution out of the same representative.
"""


def lag_bins(tokens: int, *, sink: bool = True) -> np.ndarray:
    """Return first and last lag of each bin, (lag_bin, 2) int64.

    Every lag to 16 is a bin, then come about 32 log-spaced bins to the longest lag between content
    tokens.
    """
    longest = max(tokens - 2 if sink else tokens - 1, 0)
    stops = np.arange(1, min(longest, UNIT_LAGS) + 1)
    if longest > UNIT_LAGS:
        stops = np.unique(
            np.concatenate(
                [stops, np.geomspace(UNIT_LAGS, longest, LOG_LAGS + 1).round().astype(np.int64)]
            )
        )
    starts = np.concatenate([[1], stops[:-1] + 1])[: stops.size]
    return np.stack([starts, stops], axis=1).astype(np.int64)


def cosine_bins() -> np.ndarray:
    """Return the 65 edges of the 64 equal bins on [−1, 1]; a bin holds its left edge, the last
    one both.
    """
    return np.linspace(-1.0, 1.0, COSINE_BINS + 1)


def position_blocks(tokens: int) -> np.ndarray:
    """Return first and last position of 8 equal blocks, (position_block, 2) int64; an empty one
    ends before it starts.
    """
    edges = np.arange(POSITION_BLOCKS + 1) * tokens // POSITION_BLOCKS
    return np.stack([edges[:-1], edges[1:] - 1], axis=1)


class Curves:
    """The heads of one layer, weights (head, token), and what is measured of them at each N with
    the pairs of their kv_heads.
    """

    def __init__(
        self, alpha: np.ndarray, pairs: Pairs, sizes: Sizes, convention: Convention
    ) -> None:
        heads, count = len(alpha), sizes.inside.size
        self.alpha, self.pairs, self.sizes, self.convention = alpha, pairs, sizes, convention
        self.order = order_by_weight(alpha)
        self.s = np.empty((heads, count, pairs.values.shape[-1]))  # representatives
        self.measured = np.empty((heads, count, len(MEASURES)))
        self.described = np.empty((heads, count, len(NAMES)))
        self.rho = np.full((heads, 2, count), NO_PAIR, alpha.dtype)  # ρ_in and ρ_out

    def add(self, block: Block) -> list[Task]:
        """Return the tasks that measure, with a filled block of cosines, the heads that use it."""
        group = len(self.alpha) // len(self.pairs.values)
        return [
            partial(self._measure, head, block)
            for head in range(block.kv_head * group, (block.kv_head + 1) * group)
        ]

    def _measure(self, head: int, block: Block) -> None:
        """Measure one head: everything with a block of all pairs, else its largest cosines, and
        with the first block all the rest.
        """
        alpha, order, n, s = self.alpha[head], self.order[head], self.sizes.inside, self.s[head]
        values, norm = self.pairs.values[block.kv_head], self.pairs.norm[block.kv_head]
        strict = self.convention is Convention.FOLLOWUP
        if block.columns == self.pairs.tokens:
            walk_head(
                block.cosine,
                alpha,
                values,
                norm,
                order,
                self.pairs.first,
                n,
                strict,
                s,
                self.measured[head],
                self.rho[head],
            )
        else:
            if block.first == 0:
                separability_of_head(alpha, values, order, n, strict, s, self.measured[head])
            enters, rank = _neighbours(norm, order, self.pairs.first)
            rank = rank[block.first : block.first + block.columns]
            running_maxima(block.cosine, block.first, order, enters, rank, n, *self.rho[head])
        if block.first == 0:
            curves_of_head(
                alpha,
                values,
                alpha * norm,
                order,
                n,
                self.pairs.first == 1,
                s,
                self.described[head],
            )

    def named(self) -> dict[str, np.ndarray]:
        """Return separability, `NAMES`, rho_in and rho_out, each (head, n) of the weights' type;
        NaN for N > T.
        """
        kind, tokens = self.alpha.dtype, self.pairs.tokens
        described = self.sizes.scatter(np.moveaxis(self.described, -1, 0).astype(kind, order="C"))
        inside, outside = self.rho[:, 0], self.rho[:, 1]
        return {
            **by_size(self.measured, self.sizes, tokens, self.convention, kind),
            **dict(zip(NAMES, described, strict=True)),
            "rho_in": self.sizes.scatter(
                np.where(inside == NO_PAIR, 0, inside.clip(-1, 1)).astype(kind)
            ),
            "rho_out": self.sizes.scatter(
                np.where(outside == NO_PAIR, np.nan, outside.clip(-1, 1)).astype(kind)
            ),
        }


def walk_head(
    cosine: np.ndarray,
    alpha: np.ndarray,
    values: np.ndarray,
    norm: np.ndarray,
    order: np.ndarray,
    first: int,
    n: np.ndarray,
    strict: bool,
    s: np.ndarray,
    out: np.ndarray,
    rho: np.ndarray,
) -> None:
    """Measure one head from the cosines of all pairs of the tokens that it sees, as
    `cosine_kernels.walk` does.

    alpha, norm, order are (token), values (token, dimension); `first` is the first content token.
    `s`, `out` and `rho` are filled with representatives, `MEASURES`, and ρ_in and ρ_out, of shape
    (2, 0) where these are not asked for.
    """
    y = contributions(alpha, values)
    representatives(y, order, n, s)
    weight = alpha.astype(np.float64) * norm
    enters, rank = _neighbours(norm, order, first)
    walk(cosine, y, weight, order, enters, rank, n, strict, s, out, rho)


def _neighbours(norm: np.ndarray, order: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which tokens count where cosines are asked for, neither the sink nor zero vectors,
    and each token's rank in `order`, −1 for a zero vector, which is no one's neighbour.
    """
    enters = norm > 0
    enters[:first] = False
    rank = np.empty(order.size, np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    rank[norm == 0] = -1
    return enters, rank


def measure_layer(
    alpha: ArrayLike,
    values: ArrayLike,
    n: Any,
    *,
    sink: bool,
    convention: Convention | str = Convention.PAPER,
    positions: int | None = None,
    threads: int | None = None,
) -> dict[str, np.ndarray]:
    r"""Measure everything of /capture for one document's layer, except principal components.

    T stands for the visible tokens, which are the last T of the document's positions.

    Args:
        alpha: attention row of the last query, (head, T), in any float type (float64 only if both
            are).
        values: value states, (kv_head, T, dimension).
        n: sizes N, positive integers; None: `selection.default_n(T)`.
        sink: whether token 0 is the sink. If not, no token is: I\0 is I.
        convention: how balls are counted.
        positions: positions of the document, which bins of lags and blocks of positions refer to;
            default T.
        threads: how many threads share the work (default: as many as torch uses). The result does
            not depend on it.

    Returns:
        attention_weight (head, T); value_norm, sink_cosine, cosine_to_last_value (kv_head, T);
        cosine_mean, cosine_std, cosine_negative_fraction (kv_head, lag) with lag 1..T−2, or 1..T−1
        without a sink; cosine_histogram (kv_head, lag_bin, cosine_bin) int32; cosine_block_mean
        (kv_head, position_block, lag_bin); precision, recall, r_min, r_max, `NAMES`, rho_in and
        rho_out (head, n). NaN where undefined and for N > T. Of the input's type but for the
        counts.

    Raises:
        InputError: if shapes do not fit, an N is not a positive integer, or a head holds NaN,
            infinity or a negative weight.
    """
    convention = Convention(convention)
    weights, states = head_arrays(alpha, values)
    tokens = weights.shape[1]
    positions = tokens if positions is None else positions
    if positions < tokens:
        raise InputError(
            f"positions = {positions}, but {tokens} tokens are visible. Give the document's length,"
            f" at least {tokens}."
        )
    bins = lag_bins(positions, sink=sink or positions > tokens)
    pairs = Pairs(
        states, sink=sink, offset=positions - tokens, bins=bins, blocks=position_blocks(positions)
    )
    curves = Curves(weights, pairs, Sizes(n, tokens), convention)
    spread(pairs.normalise(), threads=threads)
    for blocks in pairs.batches():
        spread([task for block in blocks for task in pairs.fill(block)], threads=threads)
        spread(
            [task for room in (curves, pairs) for block in blocks for task in room.add(block)],
            threads=threads,
        )
    return {"attention_weight": weights, **pairs.summaries(), **curves.named()}


def principal_components(alpha: ArrayLike, values: ArrayLike) -> np.ndarray:
    """Return the contributions of one head along their first three principal axes, (token, 3);
    Figures 1 and 9.

    Axes are those of the centred contributions, but the contributions themselves are not centred:
    then the representative of any selection is the sum of its tokens' rows. Each axis points to
    where its entry largest in magnitude is positive. Components beyond the number of dimensions are
    0. alpha: attention row, (token); values: of the head's kv_head, (token, dimension). Raises what
    `selection.head_arrays` does.
    """
    weights, states = head_arrays(alpha, values)
    if len(weights) != 1:
        raise InputError(
            f"alpha {tuple(alpha.shape)}: expected the row of one head. Pass alpha[head]."
        )
    y = weights[0, :, None].astype(np.float64) * states[0]
    _, _, axes = np.linalg.svd(y - y.mean(axis=0), full_matrices=False)
    axes = axes[:COMPONENTS]
    axes = axes * np.where(
        np.take_along_axis(axes, np.abs(axes).argmax(axis=1, keepdims=True), axis=1) < 0, -1.0, 1.0
    )
    components = np.zeros((len(y), COMPONENTS), weights.dtype)
    components[:, : len(axes)] = y @ axes.T
    return components
