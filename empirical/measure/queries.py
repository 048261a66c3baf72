"""Several queries of a document: what depends on the query, averaged within the document.

Source: arXiv 2602.01893, (1)-(5) and Assumption 3, which speak of one query, the last of a window.
Windows are cut at will, so that query is an accident; queries of the same document share its
values, norms and cosines, and only selection, distances and sums are their own. Each is measured
over the T tokens that it sees. Curves are averaged over the queries with N ≤ T. Weights are
averaged over the last queries that see nearly as many tokens as the last: their first tokens stand
where they stand, their last as far from the query as they are, and between is a gap where they are
fewer. Imports numpy and this room's kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from empirical.measure.compiled import Task, spread
from empirical.measure.convention import Convention
from empirical.measure.head_kernels import padded
from empirical.measure.layer import walk_head
from empirical.measure.nulls import random_directions, random_orders
from empirical.measure.pairs import ALIGNED, WHOLE, Block, Pairs
from empirical.measure.query_records import BY_QUERY
from empirical.measure.selection import (
    MEASURES,
    ArrayLike,
    by_size,
    head_arrays,
    order_by_weight,
    separability_tasks,
)
from empirical.measure.sizes import Sizes
from empirical.schema import f_scores

SAME_LENGTH: Final = 0.95
"""Share of the last query's tokens that a query must see for its weights to be averaged with the
last's: a plateau is as high as tokens are few.
"""

NO_BINS: Final = np.empty((0, 2), np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One analysed query of a layer."""

    position: int
    """Where the query stands."""
    first: int
    """Position of the first token that it sees; 0 when it sees the sink."""
    alpha: ArrayLike
    """Its attention row, (head, token)."""


def measure_layer(
    rows: Sequence[Row],
    values: ArrayLike,
    n: Any,
    *,
    convention: Convention | str = Convention.PAPER,
    threads: int | None = None,
) -> dict[str, np.ndarray]:
    """Measure every query of one document's layer, and average over queries.

    Args:
        rows: the analysed queries; the last of them says which tokens the layer's weights stand
            for.
        values: value states of all positions, (kv_head, position, dimension).
        n, convention, threads: as of `layer.measure_layer`.

    Returns:
        precision, recall, f_outer, f_inner (head, n) and precision_sd, recall_sd, standard
        deviations over queries; precision_by_query, recall_by_query (head, query, n), NaN for
        N > T; counted (n), queries with N ≤ T; attention_weight and log_attention_weight (head,
        token), means over the queries of nearly the last's length, of which there are
        weight_queries (); sink_weight_sd (head), over all that see the sink. Queries that see the
        sink where the last does not are left out everywhere, NaN in their own curves. NaN where
        there is none, deviations also where there is one.

    Raises:
        InputError: as `layer.measure_layer`.
    """
    convention = Convention(convention)
    at, queries = alike(rows), len(rows)
    rows = [rows[query] for query in at]
    weights, states = _arrays(rows, values)
    each = _separability(rows, weights, states, n, convention, None, threads)
    curves = {
        name: np.stack([measured[name] for measured in each]) for name in ("precision", "recall")
    }
    curves["f_outer"], curves["f_inner"] = f_scores(
        curves["precision"], curves["recall"], convention.value
    )
    kind = weights[-1].dtype
    out = {name: _mean(array).astype(kind) for name, array in curves.items()}
    for name in BY_QUERY:
        out[f"{name}_sd"] = _sd(curves[name]).astype(kind)
        own = np.full((queries, *curves[name].shape[1:]), np.nan, kind)
        own[at] = curves[name]
        out[f"{name}_by_query"] = own.swapaxes(0, 1)
    tokens = np.array([alpha.shape[1] for alpha in weights])
    asked = Sizes(n, int(tokens.max())).asked
    out["counted"] = (tokens[:, None] >= asked).sum(axis=0, dtype=np.int32)
    out["sink_weight_sd"] = (
        _sd(np.stack([alpha[:, 0] for alpha in weights])).astype(kind)
        if rows[-1].first == 0
        else np.full(len(weights[-1]), np.nan, kind)
    )
    return out | _profiles(weights[near_last(tokens) :])


def null_layer(
    rows: Sequence[Row],
    values: ArrayLike,
    n: Any,
    *,
    seed: Sequence[int],
    convention: Convention | str = Convention.PAPER,
    threads: int | None = None,
) -> dict[str, np.ndarray]:
    """Measure both null baselines of every query of one document's layer, averaged over queries.

    Directions are drawn once for all queries, as they share values; an order for each.

    Args:
        rows, values, n, convention, threads: as of `measure_layer`.
        seed: as of `nulls.measure_layer`.

    Returns:
        precision, recall, r_min, r_max, each (head, null, n), `null` as in `schema.NULLS`; NaN
        for N > T.

    Raises:
        InputError: as `layer.measure_layer`.
    """
    convention = Convention(convention)
    rows = [rows[query] for query in alike(rows)]
    weights, states = _arrays(rows, values)
    seeds = np.random.SeedSequence([int(word) for word in seed]).spawn(len(states) + 1)
    drawn = np.empty_like(states)
    spread(
        [partial(random_directions, states[k], seeds[k], drawn[k]) for k in range(len(states))],
        threads=threads,
    )
    orders = [
        random_orders(lot, *alpha.shape)
        for lot, alpha in zip(seeds[-1].spawn(len(rows)), weights, strict=True)
    ]
    both = [
        _separability(rows, weights, states, n, convention, orders, threads),
        _separability(rows, weights, drawn, n, convention, None, threads),
    ]
    kind = weights[-1].dtype
    return {
        name: np.stack(
            [_mean(np.stack([one[name] for one in each])) for each in both], axis=1
        ).astype(kind)
        for name in MEASURES
    }


def alike(rows: Sequence[Row]) -> list[int]:
    """Which of the rows see the sink where the last does, and do not where it does not."""
    return [at for at, row in enumerate(rows) if (row.first == 0) == (rows[-1].first == 0)]


def near_last(tokens: Sequence[int] | np.ndarray) -> int:
    """Return the first of the queries, of `tokens` each, whose weights are averaged with the
    last's: up to it all see nearly as many tokens as the last, and none sees more, as one of an
    earlier chunk does where attention is chunked.

    >>> near_last([40, 3, 99, 100]), near_last([98, 99, 100]), near_last([9, 16, 8, 8])
    (2, 0, 2)
    """
    least, most = SAME_LENGTH * tokens[-1], tokens[-1]
    start = len(tokens) - 1
    while start > 0 and least <= tokens[start - 1] <= most:
        start -= 1
    return start


def _arrays(rows: Sequence[Row], values: ArrayLike) -> tuple[list[np.ndarray], np.ndarray]:
    """Check the rows' weights, (head, token) each, and the values, and return them as arrays."""
    weights = []
    for row in rows:
        alpha, _ = head_arrays(row.alpha, values[:, row.first : row.position + 1])
        weights.append(alpha)
    _, states = head_arrays(np.zeros((len(values), values.shape[1]), np.float32), values)
    return weights, states.astype(weights[-1].dtype, copy=False)


def _separability(
    rows: Sequence[Row],
    weights: Sequence[np.ndarray],
    states: np.ndarray,
    n: Any,
    convention: Convention,
    orders: Sequence[np.ndarray] | None,
    threads: int | None,
) -> list[dict[str, np.ndarray]]:
    """Return `MEASURES` of every query, (head, n) each; of selections in `orders`, (head, token),
    or by weight.
    """
    orders = [order_by_weight(alpha) for alpha in weights] if orders is None else orders
    sizes = [Sizes(n, alpha.shape[1]) for alpha in weights]
    wide = padded(states.shape[1], ALIGNED)
    if wide * wide > WHOLE:  # cosines of all pairs do not fit in memory
        parts = []
        for row, alpha, order, size in zip(rows, weights, orders, sizes, strict=True):
            seen = np.ascontiguousarray(states[:, row.first : row.position + 1])
            measured, tasks = separability_tasks(alpha, seen, order, size.inside, convention)
            spread(tasks, threads=threads)
            parts.append(measured)
    else:
        parts = _walked(rows, weights, states, orders, sizes, convention, threads)
    return [
        by_size(measured, size, alpha.shape[1], convention, alpha.dtype)
        for measured, size, alpha in zip(parts, sizes, weights, strict=True)
    ]


def _walked(
    rows: Sequence[Row],
    weights: Sequence[np.ndarray],
    states: np.ndarray,
    orders: Sequence[np.ndarray],
    sizes: Sequence[Sizes],
    convention: Convention,
    threads: int | None,
) -> list[np.ndarray]:
    """Measure every query with the cosines of all pairs of a kv_head, made once: (head, n, 4)
    float64 each.
    """
    pairs = Pairs(states, sink=rows[-1].first == 0, offset=0, bins=NO_BINS, blocks=NO_BINS)
    group, strict = len(weights[-1]) // len(states), convention is Convention.FOLLOWUP
    parts = [
        np.empty((len(alpha), size.inside.size, len(MEASURES)))
        for alpha, size in zip(weights, sizes, strict=True)
    ]

    def measure(block: Block, query: int) -> None:
        k, row = block.kv_head, rows[query]
        seen, count = slice(row.first, row.position + 1), sizes[query].inside.size
        cosine = block.cosine if row.first == 0 else np.ascontiguousarray(block.cosine[seen, seen])
        for head in range(k * group, (k + 1) * group):
            walk_head(
                cosine,
                weights[query][head],
                np.ascontiguousarray(states[k, seen]),
                pairs.norm[k, seen],
                orders[query][head],
                int(row.first == 0),
                sizes[query].inside,
                strict,
                np.empty((count, states.shape[-1])),
                parts[query][head],
                np.empty((2, 0), weights[query].dtype),
            )

    spread(pairs.normalise(), threads=threads)
    for blocks in pairs.batches():
        spread([task for block in blocks for task in pairs.fill(block)], threads=threads)
        tasks: list[Task] = [
            partial(measure, block, query)
            for block in blocks
            for query in reversed(range(len(rows)))
        ]
        spread(tasks, threads=threads)
    return parts


def _profiles(weights: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Return the mean weight and the mean logarithm at each token of the last row, (head, token),
    rows laid over it from both ends; and how many there are.
    """
    heads, tokens = weights[-1].shape
    laid = np.full((len(weights), heads, tokens), np.nan)
    for place, alpha in zip(laid, weights, strict=True):
        start = alpha.shape[1] // 2
        place[:, :start] = alpha[:, :start]
        place[:, tokens - alpha.shape[1] + start :] = alpha[:, start:]
    logs = np.log(laid, out=np.full(laid.shape, np.nan), where=laid > 0)
    kind = weights[-1].dtype
    return {
        "attention_weight": _mean(laid).astype(kind),
        "log_attention_weight": _mean(logs).astype(kind),
        "weight_queries": np.array(len(weights), np.int32),
    }


def _mean(values: np.ndarray) -> np.ndarray:
    """Return the mean over the first axis of what is known, in double precision; NaN where nothing
    is.
    """
    known = np.isfinite(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0, dtype=np.float64)
    return np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)


def _sd(values: np.ndarray) -> np.ndarray:
    """Return the standard deviation over the first axis of what is known; NaN below two."""
    count = np.isfinite(values).sum(axis=0)
    squares = _mean((values - _mean(values)) ** 2) * count
    return np.sqrt(np.divide(squares, count - 1, out=np.full(count.shape, np.nan), where=count > 1))
