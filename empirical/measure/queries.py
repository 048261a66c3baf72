"""Query means: query-dependent quantities of a document, averaged over several analysed queries.

Source: arXiv 2602.01893, (1)-(5) and Assumption 3, for one query, the last of a window. Windows are
cut arbitrarily, so that query is arbitrary too. Queries of a document share its values, norms and
cosines; selection, distances and sums differ. Each query is measured over the T tokens that it
sees. Curves are averaged over the queries with N ≤ T. Weights are averaged over the last queries
that see nearly as many tokens as the last one. They are aligned at both ends: first tokens by
position, last tokens by distance from the query, with a gap in the middle if there are fewer.
Imports numpy and this room's kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from empirical.measure.compiled import Task, spread
from empirical.measure.head_kernels import padded
from empirical.measure.pairs import ALIGNED, WHOLE, Block, Pairs
from empirical.measure.selection import (
    ArrayLike,
    Convention,
    Selection,
    Sizes,
    head_arrays,
)
from empirical.schema import BY_QUERY, f_scores

SAME_LENGTH: Final = 0.95
"""Share of the last query's tokens that a query must see for its weights to enter the average: the
plateau of weights rises as tokens decrease.
"""

NO_BINS: Final = np.empty((0, 2), np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One analysed query of a layer."""

    position: int
    """Position of the query."""
    first: int
    """Position of the first token that it sees; 0 if it sees the sink."""
    alpha: ArrayLike
    """Attention row, (head, token)."""


def measure_layer(
    rows: Sequence[Row],
    values: ArrayLike,
    n: Any,
    *,
    convention: Convention = Convention.PAPER,
) -> dict[str, np.ndarray]:
    """Measure every query of one document's layer, and average over queries.

    rows: the analysed queries; the last one defines the tokens of the layer's weights. values: of
    all positions, (kv_head, position, dimension). Other arguments, errors: `layer.measure_layer`.

    Returns:
        precision, recall, f_outer, f_inner (head, n); precision_sd, recall_sd, standard deviations
        over queries; precision_by_query, recall_by_query (head, query, n), NaN for N > T; counted
        (n), number of queries with N ≤ T; attention_weight and log_attention_weight (head, token),
        means over the weight_queries () queries that see nearly as many tokens as the last;
        sink_weight_sd (head), over all that see the sink. Queries that differ from the last in
        seeing the sink are excluded; their curves are NaN. Means are NaN without queries, standard
        deviations with fewer than two.
    """
    counted, queries = alike(rows), len(rows)
    rows = [rows[query] for query in counted]
    alphas, states = arrays_of(rows, values)
    selected = selections(rows, alphas, states, n, convention)
    measured = separability(rows, selected, states)
    curves = {name: np.stack([of_query[name] for of_query in measured]) for name in BY_QUERY}
    precision, recall = (curves[name] for name in BY_QUERY)
    curves["f_outer"], curves["f_inner"] = f_scores(precision, recall, convention)
    dtype = alphas[-1].dtype
    out = {name: mean_of_finite(array).astype(dtype) for name, array in curves.items()}
    for name in BY_QUERY:
        out[f"{name}_sd"] = _sd(curves[name]).astype(dtype)
        by_query = np.full((queries, *curves[name].shape[1:]), np.nan, dtype)
        by_query[counted] = curves[name]
        out[f"{name}_by_query"] = by_query.swapaxes(0, 1)
    tokens = np.array([alpha.shape[1] for alpha in alphas])
    requested = Sizes(n, int(tokens.max())).requested
    out["counted"] = (tokens[:, None] >= requested).sum(axis=0, dtype=np.int32)
    first_weights = np.stack([alpha[:, 0] for alpha in alphas])
    sink_sd = _sd(first_weights) if rows[-1].first == 0 else np.full(len(alphas[-1]), np.nan)
    out["sink_weight_sd"] = sink_sd.astype(dtype)
    return out | _profiles(alphas[near_last(tokens) :])


def alike(rows: Sequence[Row]) -> list[int]:
    """Return the rows that agree with the last on whether the sink is visible."""
    return [index for index, row in enumerate(rows) if (row.first == 0) == (rows[-1].first == 0)]


def near_last(tokens: Sequence[int] | np.ndarray) -> int:
    """Return the index of the first query whose weights enter the average. `tokens` holds each
    query's number of visible tokens.

    From this query on, all see nearly as many tokens as the last, and none sees more (as a query of
    an earlier chunk may, in chunked attention).

    >>> near_last([40, 3, 99, 100]), near_last([98, 99, 100]), near_last([9, 16, 8, 8])
    (2, 0, 2)
    """
    least, most = SAME_LENGTH * tokens[-1], tokens[-1]
    start = len(tokens) - 1
    while start > 0 and least <= tokens[start - 1] <= most:
        start -= 1
    return start


def arrays_of(rows: Sequence[Row], values: ArrayLike) -> tuple[list[np.ndarray], np.ndarray]:
    """Check the rows' weights, (head, token) each, and the values; return them as arrays."""
    alphas = []
    for row in rows:
        alpha, _ = head_arrays(row.alpha, values[:, row.first : row.position + 1])
        alphas.append(alpha)
    _, states = head_arrays(np.zeros((len(values), values.shape[1]), alphas[-1].dtype), values)
    return alphas, states.astype(alphas[-1].dtype, copy=False)


def selections(
    rows: Sequence[Row],
    alphas: Sequence[np.ndarray],
    states: np.ndarray,
    n: Any,
    convention: Convention,
    orders: Sequence[np.ndarray] | None = None,
) -> list[Selection]:
    """Return a selection by `orders`, or by weight, for each row over the values that it sees."""
    by_weight: list[np.ndarray | None] = [None] * len(rows)
    return [
        Selection(alpha, states[:, row.first : row.position + 1], n, convention, order)
        for row, alpha, order in zip(rows, alphas, orders or by_weight, strict=True)
    ]


def separability(
    rows: Sequence[Row], selected: Sequence[Selection], states: np.ndarray
) -> list[dict[str, np.ndarray]]:
    """Return `MEASURES` of one or more selections of each row, (head, n)."""
    wide = padded(states.shape[1], ALIGNED)
    if wide * wide > WHOLE:  # cosines of all pairs do not fit in memory
        spread([task for selection in selected for task in selection.tasks()])
    else:
        _walk(list(rows) * (len(selected) // len(rows)), selected, states)
    return [selection.named() for selection in selected]


def _walk(rows: Sequence[Row], selected: Sequence[Selection], states: np.ndarray) -> None:
    """Measure selections with the cosines of all pairs of a kv_head, computed once."""
    pairs = Pairs(states, sink=rows[-1].first == 0, offset=0, bins=NO_BINS, blocks=NO_BINS)

    def measure(block: Block, row: Row, selection: Selection) -> None:
        seen, k, group = slice(row.first, row.position + 1), block.kv_head, selection.group
        cosine = block.cosine if row.first == 0 else np.ascontiguousarray(block.cosine[seen, seen])
        for head in range(k * group, (k + 1) * group):
            selection.walk(head, cosine, pairs.norm[k, seen], int(row.first == 0), None)

    def tasks(block: Block) -> list[Task]:  # the last queries, which see most tokens, first
        queries = zip(reversed(rows), reversed(selected), strict=True)
        return [partial(measure, block, row, selection) for row, selection in queries]

    pairs.visit(tasks)


def _profiles(alphas: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Return mean weight and mean log weight, (head, token), of rows aligned at both ends; and
    their number.
    """
    heads, tokens = alphas[-1].shape
    aligned = np.full((len(alphas), heads, tokens), np.nan)
    for target, alpha in zip(aligned, alphas, strict=True):
        start = alpha.shape[1] // 2
        target[:, :start] = alpha[:, :start]
        target[:, tokens - alpha.shape[1] + start :] = alpha[:, start:]
    logs = np.log(aligned, out=np.full(aligned.shape, np.nan), where=aligned > 0)
    dtype = alphas[-1].dtype
    return {
        "attention_weight": mean_of_finite(aligned).astype(dtype),
        "log_attention_weight": mean_of_finite(logs).astype(dtype),
        "weight_queries": np.array(len(alphas), np.int32),
    }


def mean_of_finite(values: np.ndarray) -> np.ndarray:
    """Return the float64 mean of finite entries over the first axis; NaN without any."""
    known = np.isfinite(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0, dtype=np.float64)
    return np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)


def _sd(values: np.ndarray) -> np.ndarray:
    """Return the standard deviation of finite entries over the first axis; NaN below two."""
    count = np.isfinite(values).sum(axis=0)
    squares = mean_of_finite((values - mean_of_finite(values)) ** 2) * count
    return np.sqrt(np.divide(squares, count - 1, out=np.full(count.shape, np.nan), where=count > 1))
