"""Weights and values by rank of the attention weight: what a rank-indexed model of a head needs.

Content tokens are ranked by their weight, 1 the largest; functional sinks stand apart (`sinks`).
Octave o holds the ranks 2^o to 2^(o+1) − 1. Products and cosines are those of tokens with different
ids, because the values of a repeated token are nearly equal. Source: geostat's amended assumptions,
in place of arXiv 2602.01893, Assumptions 1-3. Imports numpy and this room's kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from empirical.measure.compiled import compiled, spread
from empirical.measure.queries import Row
from empirical.measure.selection import ArrayLike
from empirical.measure.sinks import functional_sinks

SINGLE: Final = 16
"""Largest rank below which the weight of every rank is kept."""

SPARSE: Final = 34
"""Number of log-spaced ranks beyond SINGLE, before rounding to integers."""

MOST_SINKS: Final = 16
"""Functional sinks of a query whose weights are kept, those with most weight."""

SAMPLED: Final = 4
"""Queries of a document at which values are described; weights are kept of every query."""

TOP: Final = 31
"""Ranks whose weighted values form the direction s; the residual covariance W is of those beyond,
within octaves.
"""

TINY: Final = float(np.finfo(np.float32).tiny)
"""Smallest weight with a logarithm here."""

Array = Any
"""An array inside a compiled kernel."""


def octaves(positions: int) -> int:
    """Return the number of octaves of the ranks 1 to `positions`.

    >>> octaves(1), octaves(7), octaves(8)
    (1, 3, 4)
    """
    return positions.bit_length()


def ranks(positions: int) -> np.ndarray:
    """Return the ranks whose weights are kept: all up to SINGLE, then log-spaced.

    >>> ranks(1024)[14:20].tolist(), int(ranks(1024)[-1])
    ([15, 16, 18, 20, 23, 26], 1024)
    """
    kept = np.arange(1, min(positions, SINGLE) + 1)
    if positions > SINGLE:
        sparse = np.geomspace(SINGLE, positions, SPARSE + 1).round().astype(np.int64)
        kept = np.unique(np.concatenate([kept, sparse]))
    return kept


def sampled(queries: int) -> list[int]:
    """Return the queries at which values are described: evenly spaced, the last among them.

    >>> sampled(16), sampled(2)
    ([3, 7, 11, 15], [0, 1])
    """
    return sorted({queries - 1 - queries * part // SAMPLED for part in range(SAMPLED)})


def labels_of(positions: int, token_ids: np.ndarray | None) -> np.ndarray:
    """Return a label below `positions` for each token, equal for equal ids.

    >>> labels_of(3, np.array([7, 2, 7])).tolist(), labels_of(3, None).tolist()
    ([1, 0, 1], [0, 1, 2])
    """
    if token_ids is None:
        return np.arange(positions)
    return np.unique(token_ids, return_inverse=True)[1].astype(np.int64)


class Sums(NamedTuple):
    """Sums over the sampled queries of a head, (octave) or (octave, octave)."""

    tokens: Array
    square: Array
    product: Array
    pairs: Array
    repeats: Array
    cosine: Array
    cosine_pairs: Array
    equal: Array
    """Products of pairs of equal ids, their number, and their mean squared norms, (3)."""
    residual: Array
    """tr W; s'Ws/s's and m'Wm/m'm, over tr W; their number of queries; tr W² over tr² W, (5)."""


def measure_layer(
    rows: Sequence[Row], values: ArrayLike, token_ids: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Describe one document's layer by rank.

    rows: the analysed queries, ascending. values: of all positions, (kv_head, position, dimension).
    token_ids: (position); None: no two tokens are equal.

    Returns the variables of `schema.RANKS`, on the octaves and ranks of the document's positions;
    NaN without tokens or pairs.
    """
    states = np.ascontiguousarray(np.asarray(values), np.float32)
    alphas, is_sink = [np.asarray(row.alpha) for row in rows], functional_sinks(rows, states)
    heads, positions = is_sink.shape
    group, kept, label = heads // len(states), ranks(positions), labels_of(positions, token_ids)
    sums = [_sums(octaves(positions)) for _ in range(heads)]
    weights = {
        "log_weight": np.full((heads, len(rows), len(kept)), np.nan, np.float32),
        "sink_log_weight": np.full((heads, len(rows), MOST_SINKS), np.nan, np.float32),
        "content_tokens": np.zeros((heads, len(rows)), np.int32),
    }

    def describe(kv_head: int) -> None:
        vectors = states[kv_head]
        equal = _equal_pairs(vectors, label)
        for head in range(kv_head * group, (kv_head + 1) * group):
            for query, (row, alpha) in enumerate(zip(rows, alphas, strict=True)):
                order = np.argsort(-alpha[head], kind="stable")
                apart, ordered = is_sink[head, row.first + order], alpha[head, order]
                logs, content = np.log(np.maximum(ordered, TINY)), int((~apart).sum())
                reached = np.minimum(kept[: np.searchsorted(kept, content) + 1], content)
                sinks = logs[apart][:MOST_SINKS]
                weights["content_tokens"][head, query] = content
                weights["sink_log_weight"][head, query, : len(sinks)] = sinks
                if not content:
                    continue
                weights["log_weight"][head, query, : len(reached)] = logs[~apart][reached - 1]
                if query in sampled(len(rows)):
                    ranked, last = row.first + order[~apart], query == len(rows) - 1
                    heavy = ordered[~apart][:TOP].astype(np.float64)
                    _add_query(vectors, ranked, heavy, label, equal, reached, last, sums[head])

    spread([partial(describe, kv_head) for kv_head in range(len(states))])
    described = [_means(of_head) for of_head in sums]
    out = {name: np.stack([of_head[name] for of_head in described]) for name in described[0]}
    return out | weights | _sink_class(rows[-1], states, is_sink)


def _sums(count: int) -> Sums:
    """Return zeros for a number of octaves."""
    integers, floats = partial(np.zeros, dtype=np.int64), np.zeros
    shape = (count, count)
    return Sums(
        tokens=integers(count),
        square=floats(count),
        product=floats(shape),
        pairs=integers(shape),
        repeats=integers(shape),
        cosine=floats(shape),
        cosine_pairs=integers(shape),
        equal=floats(3),
        residual=floats(5),
    )


def _means(sums: Sums) -> dict[str, np.ndarray]:
    """Return the variables of a head from its sums."""

    def mean(total: Any, count: Any) -> np.ndarray:
        array = np.asarray(total, float)
        mean = np.divide(array, count, out=np.full(array.shape, np.nan), where=count > 0)
        return mean.astype(np.float32)

    trace, along_s, along_mean, queries, concentration = sums.residual
    return {
        "octave_tokens": sums.tokens.astype(np.int32),
        "octave_square": mean(sums.square, sums.tokens),
        "octave_pairs": sums.pairs.astype(np.int32),
        "octave_product": mean(sums.product, sums.pairs),
        "octave_repeats": sums.repeats.astype(np.int32),
        "lag_pairs": sums.cosine_pairs.astype(np.int32),
        "lag_cosine": mean(sums.cosine, sums.cosine_pairs),
        "equal_pairs": sums.equal[1].astype(np.int32),
        "equal_product": mean(sums.equal[0], sums.equal[1]),
        "equal_square": mean(sums.equal[2], sums.equal[1]),
        "residual_square": mean(trace, queries),
        "residual_along_s": mean(along_s, queries),
        "residual_along_mean": mean(along_mean, queries),
        "residual_concentration": mean(concentration, float(concentration > 0)),
    }


def _sink_class(last: Row, states: np.ndarray, is_sink: np.ndarray) -> dict[str, np.ndarray]:
    """Return the shared properties of each head's functional sinks that the last query sees."""
    seen = slice(last.first, last.position + 1)
    sink, values = is_sink[:, seen], states[:, seen].astype(np.float64)
    norm = np.linalg.norm(values, axis=-1)
    unit = values / np.where(norm > 0, norm, 1)[..., None]
    count, content = sink.sum(axis=1), (~sink).sum(axis=1)
    known, grouped = (count > 0) & (content > 0), sink.reshape(len(norm), -1, sink.shape[1])
    direction = grouped @ unit / np.maximum(count, 1).reshape(len(norm), -1, 1)
    cosine = (direction @ unit.swapaxes(1, 2)).reshape(sink.shape)
    mean = np.where(sink, 0, cosine).sum(axis=1) / np.maximum(content, 1)
    spread_of = np.where(sink, 0, (cosine - mean[:, None]) ** 2).sum(axis=1)
    squares = (grouped @ (norm**2)[..., None]).reshape(-1) / np.maximum(count, 1)
    numbers = {
        "class_square": np.where(count > 0, squares, np.nan),
        "class_cosine": np.where(known, mean, np.nan),
        "class_cosine_sd": np.where(known, np.sqrt(spread_of / np.maximum(content, 1)), np.nan),
    }
    first = is_sink[:, 0] & (last.first == 0)
    return {name: array.astype(np.float32) for name, array in numbers.items()} | {
        "sink_first": first.astype(np.int32)
    }


@compiled()
def octave(rank: int) -> int:
    """Return floor(log2(rank)) of a positive integer."""
    out = 0
    while rank > 1:
        rank >>= 1
        out += 1
    return out


@compiled(fastmath={"contract", "reassoc"})
def _dot(a: Array, b: Array) -> float:
    total = 0.0
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@compiled()
def _equal_pairs(values: Array, label: Array) -> Any:
    """Return the pairs of positions i < j with equal labels, (pair, 2), and their products."""
    count = np.zeros(label.max() + 1, np.int64)
    total = 0
    for one in label:
        total += count[one]
        count[one] += 1
    pairs, products = np.empty((total, 2), np.int64), np.empty(total)
    at = 0
    previous = np.full(len(label), -1, np.int64)  # the last earlier position of an equal label
    latest = np.full(len(count), -1, np.int64)
    for j in range(len(label)):
        previous[j] = latest[label[j]]
        latest[label[j]] = j
        i = previous[j]
        while i >= 0:
            pairs[at, 0], pairs[at, 1] = i, j
            products[at] = _dot(values[i], values[j])
            at += 1
            i = previous[i]
    return pairs, products


@compiled()
def _add_query(
    values: Array,
    order: Array,
    heavy: Array,
    label: Array,
    equal: Any,
    reached: Array,
    last: bool,
    sums: Sums,
) -> None:
    """Add one query of a head; `order` and the weights `heavy` are of content, by rank, and
    `reached` the ranks at which cosines are sampled.
    """
    pairs, products = equal
    count, dimension = len(sums.tokens), values.shape[1]
    of_token = np.full(len(values), -1, np.int64)
    leader = np.full(label.max() + 1, -1, np.int64)
    tokens, square = np.zeros(count, np.int64), np.zeros(count)
    total = np.zeros((count, dimension))
    for place in range(len(order)):
        token, o = order[place], octave(place + 1)
        of_token[token] = o
        tokens[o] += 1
        square[o] += _dot(values[token], values[token])
        for k in range(dimension):
            total[o, k] += values[token, k]
        if leader[label[token]] < 0:
            leader[label[token]] = o
        else:
            sums.repeats[o, leader[label[token]]] += 1
    for a in range(count):
        for b in range(count):
            sums.product[a, b] += _dot(total[a], total[b])
            sums.pairs[a, b] += tokens[a] * tokens[b]
        sums.product[a, a] -= square[a]
        sums.pairs[a, a] -= tokens[a]
        sums.square[a] += square[a]
        sums.tokens[a] += tokens[a]
    for pair in range(len(pairs)):
        a, b = of_token[pairs[pair, 0]], of_token[pairs[pair, 1]]
        if a >= 0 and b >= 0:
            sums.product[a, b] -= products[pair]
            sums.product[b, a] -= products[pair]
            sums.pairs[a, b] -= 1
            sums.pairs[b, a] -= 1
            sums.equal[0] += products[pair]
            sums.equal[1] += 1
            for token in pairs[pair]:
                sums.equal[2] += _dot(values[token], values[token]) / 2
    _add_residual(values, order, heavy, of_token, tokens, total, last, sums.residual)
    _add_cosines(values, order, label, reached, sums)


@compiled()
def _add_residual(
    values: Array,
    order: Array,
    heavy: Array,
    of_token: Array,
    tokens: Array,
    total: Array,
    last: bool,
    out: Array,
) -> None:
    """Add the covariance W within octaves beyond rank TOP: its trace, and its shares along s, the
    weighted sum of the values above, and along the mean m; of the last query the trace of W².
    """
    dimension = values.shape[1]
    s, mean = np.zeros(dimension), np.zeros(dimension)
    for place in range(len(heavy)):
        for k in range(dimension):
            s[k] += heavy[place] * values[order[place], k]
    freedom, first = 0, octave(TOP + 1)
    for o in range(len(tokens)):
        for k in range(dimension):
            mean[k] += total[o, k]
        if o >= first:
            freedom += max(tokens[o] - 1, 0)
    if freedom == 0:
        return
    z, width = np.zeros(dimension), dimension if last else 0
    w = np.zeros((width, width))
    trace, along_s, along_mean = 0.0, 0.0, 0.0
    for place in range(TOP, len(order)):
        token = order[place]
        o = of_token[token]
        for k in range(dimension):
            z[k] = values[token, k] - total[o, k] / tokens[o]
        trace += _dot(z, z)
        along_s += _dot(z, s) ** 2
        along_mean += _dot(z, mean) ** 2
        for k in range(width):
            for other in range(width):
                w[k, other] += z[k] * z[other]
    if min(trace, _dot(s, s), _dot(mean, mean)) == 0:
        return
    out[0] += trace / freedom
    out[1] += along_s / (trace * _dot(s, s))
    out[2] += along_mean / (trace * _dot(mean, mean))
    out[3] += 1
    for k in range(width):
        out[4] += _dot(w[k], w[k]) / trace**2


@compiled()
def _add_cosines(values: Array, order: Array, label: Array, reached: Array, sums: Sums) -> None:
    """Add cosines of the tokens at some ranks, by octave of the larger rank and of the lag."""
    norm = np.empty(len(reached))
    for place in range(len(reached)):
        token = order[reached[place] - 1]
        norm[place] = np.sqrt(_dot(values[token], values[token]))
    for low in range(1, len(reached)):
        token, o = order[reached[low] - 1], octave(reached[low])
        for high in range(low):
            other = order[reached[high] - 1]
            size = norm[low] * norm[high]
            if label[token] != label[other] and size > 0:
                lag = octave(abs(token - other))
                sums.cosine[o, lag] += _dot(values[token], values[other]) / size
                sums.cosine_pairs[o, lag] += 1
