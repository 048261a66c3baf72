"""Functional sinks: tokens with a compressed value vector that attract much attention, at any
position.

Source: arXiv 2602.01893, Assumption 1, where the sink is the token at position 0; Gu et al. 2025,
"When Attention Sink Emerges in Language Models" (arXiv 2410.10781), for the threshold EPSILON.
Imports numpy and this room's records.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from empirical.schema import captured

if TYPE_CHECKING:
    from empirical.measure.queries import Row
    from empirical.measure.selection import ArrayLike

COMPRESSED: Final = 0.5
"""Largest norm of a compressed value, in units of the median content norm."""
MUCH: Final = 10.0
"""Smallest weight of a sink, in units of the uniform weight 1/T of the last query."""
EPSILON: Final = 0.3
"""Absolute weight threshold, for comparison (Gu et al. 2025)."""

_head = partial(captured, "layer head", equation="Assumption 1")
_strongest = "of the functional sink with the most attention"
SINKS: Final = {
    "sink_count": _head("functional sinks", "1", "|S|", dtype="int32"),
    "sink_count_epsilon": _head(
        f"compressed tokens with a weight of at least {EPSILON:g}", "1", "", dtype="int32"
    ),
    "sink_weight": _head(
        "share of attention of all functional sinks, mean over queries", "1", r"\alpha_S"
    ),
    "sink_position": _head(f"position {_strongest}; -1: none", "1", "s", dtype="int32"),
    "sink_strongest_weight": _head(
        f"weight {_strongest}, mean over the queries that see it", "1", r"\alpha_s"
    ),
    "sink_norm_ratio": _head(
        f"norm {_strongest}, over the median content norm of the document", "1", r"\lambda_s"
    ),
    "sink_cosine": _head(
        f"mean cosine {_strongest} with the other tokens", "1", r"\overline{\cos(v_s,v_j)}"
    ),
}
"""Every variable of /sinks."""


def find_sinks(rows: Sequence[Row], values: ArrayLike) -> dict[str, np.ndarray]:
    """Find the functional sinks of one document's layer among the T tokens that the last query
    sees.

    A functional sink has a norm of at most COMPRESSED median content norms, and a weight of at
    least MUCH/T, averaged over the queries that see it. Content is every token except a visible
    position 0.

    rows: the analysed queries, ascending. values: of all positions, (kv_head, position, dimension).
    Returns the variables of `SINKS`, each (head,); NaN, and position -1, without a sink.
    """
    last = rows[-1]
    seen = slice(last.first, last.position + 1)
    states, alpha = np.asarray(values)[:, seen], aligned(rows)[:, :, seen]
    norm, median = np.linalg.norm(states, axis=-1), medians(rows, values)
    heads = alpha.shape[1]
    head, kv_head = np.arange(heads), np.arange(heads) // (heads // len(norm))
    short, mean_alpha = compressed(norm, median), np.nanmean(alpha, axis=0)
    is_sink = functional_sinks(rows, values)[:, seen]
    strongest, has_sink = np.where(is_sink, mean_alpha, -1.0).argmax(axis=1), is_sink.any(axis=1)
    unit = np.divide(states, norm[..., None], out=np.zeros_like(states), where=norm[..., None] > 0)
    total = unit.sum(axis=1, dtype=np.float64)
    others = (norm > 0).sum(axis=1) - 1
    along = (unit[kv_head, strongest] * total[kv_head]).sum(axis=-1) - 1
    known = has_sink & (norm[kv_head, strongest] > 0) & (others[kv_head] > 0)
    numbers = {
        "sink_weight": np.where(is_sink, np.nan_to_num(alpha), 0).sum(axis=2).mean(axis=0),
        "sink_strongest_weight": np.where(has_sink, mean_alpha[head, strongest], np.nan),
        "sink_norm_ratio": np.divide(
            norm[kv_head, strongest], median[kv_head], out=np.full(heads, np.nan), where=has_sink
        ),
        "sink_cosine": np.divide(along, others[kv_head], out=np.full(heads, np.nan), where=known),
    }
    counts = {
        "sink_count": is_sink.sum(axis=1),
        "sink_count_epsilon": (short[kv_head] & (mean_alpha >= EPSILON)).sum(axis=1),
        "sink_position": np.where(has_sink, last.first + strongest, -1),
    }
    return {name: array.astype(np.float32) for name, array in numbers.items()} | {
        name: array.astype(np.int32) for name, array in counts.items()
    }


def medians(rows: Sequence[Row], values: ArrayLike) -> np.ndarray:
    """Return each kv_head's median norm of the content tokens that the last query sees; 0 without
    any.
    """
    last = rows[-1]
    states = np.asarray(values)[:, max(last.first, 1) : last.position + 1]
    if not states.shape[1]:
        return np.zeros(len(states))
    return np.median(np.linalg.norm(states, axis=-1), axis=1)


def compressed(norm: np.ndarray, median: np.ndarray) -> np.ndarray:
    """Return which tokens have a compressed value, (kv_head, token) bool."""
    return (norm <= COMPRESSED * median[:, None]) & (median[:, None] > 0)


def functional_sinks(rows: Sequence[Row], values: ArrayLike) -> np.ndarray:
    """Return which tokens are functional sinks of a head, (head, position) bool; other arguments
    as of `find_sinks`. Tokens that the last query does not see are judged by the queries that do.
    """
    norm = np.linalg.norm(np.asarray(values), axis=-1)
    short, alpha = compressed(norm, medians(rows, values)), aligned(rows)
    queries = np.maximum((~np.isnan(alpha)).sum(axis=0), 1)
    much = np.nansum(alpha, axis=0) / queries >= MUCH / rows[-1].alpha.shape[1]
    return np.repeat(short, len(much) // len(norm), axis=0) & much


def aligned(rows: Sequence[Row]) -> np.ndarray:
    """Return all weights by position, (query, head, position); NaN where invisible."""
    positions = rows[-1].position + 1
    weights = np.full((len(rows), len(rows[-1].alpha), positions), np.nan)
    for target, row in zip(weights, rows, strict=True):
        target[:, row.first : row.position + 1] = np.asarray(row.alpha)
    return weights
