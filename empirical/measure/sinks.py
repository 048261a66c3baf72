"""Sinks by function: tokens of a compressed value vector that draw much attention, wherever they
stand.

Source: arXiv 2602.01893, Assumption 1, where the sink is the token at position 0; Gu et al. 2025,
"When Attention Sink Emerges in Language Models" (arXiv 2410.10781), whose threshold EPSILON is.
Imports numpy and this room's records.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from empirical.schema import variable

if TYPE_CHECKING:
    from empirical.measure.queries import Row
    from empirical.measure.selection import ArrayLike

COMPRESSED: Final = 0.5
"""Norm of a compressed value at most, in medians of content norms."""
MUCH: Final = 10.0
"""Weight of a much-attended token at least, in even weights 1/T of the last query."""
EPSILON: Final = 0.3
"""The same as a weight by itself, for comparison (Gu et al. 2025)."""

_head = partial(variable, "layer head", equation="Assumption 1")
_strongest = "of the sink by function with the most attention"
SINKS: Final = {
    "sink_count": _head("sinks by function", "1", "|S|", dtype="int32"),
    "sink_count_epsilon": _head(
        f"compressed tokens with a weight of at least {EPSILON:g}", "1", "", dtype="int32"
    ),
    "sink_weight": _head(
        "share of attention of all sinks by function, mean over queries", "1", r"\alpha_S"
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
    """Find the sinks by function of one document's layer, among the T tokens that the last query
    sees: a norm of at most COMPRESSED medians of content norms, and a weight, averaged over the
    queries that see the token, of at least MUCH/T. Content is all but a visible position 0.

    Args:
        rows: the analysed queries, the last of them last.
        values: value states of all positions, (kv_head, position, dimension).

    Returns:
        The variables of `SINKS`, each (head,); NaN, position -1, where there is no sink.
    """
    last = rows[-1]
    states = np.asarray(values)[:, last.first : last.position + 1]
    norm = np.linalg.norm(states, axis=-1)
    weights = _laid(rows)
    heads, tokens = weights.shape[1:]
    head, kv_head = np.arange(heads), np.arange(heads) // (heads // len(norm))
    content = norm[:, int(last.first == 0) :]
    median = np.median(content, axis=1) if content.size else np.zeros(len(norm))
    short = (norm <= COMPRESSED * median[:, None]) & (median[:, None] > 0)
    drawn = np.nanmean(weights, axis=0)
    found = short[kv_head] & (drawn >= MUCH / tokens)
    strongest, some = np.where(found, drawn, -1.0).argmax(axis=1), found.any(axis=1)
    unit = np.divide(states, norm[..., None], out=np.zeros_like(states), where=norm[..., None] > 0)
    total = unit.sum(axis=1, dtype=np.float64)
    others = (norm > 0).sum(axis=1) - 1
    aligned = (unit[kv_head, strongest] * total[kv_head]).sum(axis=-1) - 1
    known = some & (norm[kv_head, strongest] > 0) & (others[kv_head] > 0)
    numbers = {
        "sink_weight": np.where(found, np.nan_to_num(weights), 0).sum(axis=2).mean(axis=0),
        "sink_strongest_weight": np.where(some, drawn[head, strongest], np.nan),
        "sink_norm_ratio": np.divide(
            norm[kv_head, strongest], median[kv_head], out=np.full(heads, np.nan), where=some
        ),
        "sink_cosine": np.divide(aligned, others[kv_head], out=np.full(heads, np.nan), where=known),
    }
    counts = {
        "sink_count": found.sum(axis=1),
        "sink_count_epsilon": (short[kv_head] & (drawn >= EPSILON)).sum(axis=1),
        "sink_position": np.where(some, last.first + strongest, -1),
    }
    return {name: array.astype(np.float32) for name, array in numbers.items()} | {
        name: array.astype(np.int32) for name, array in counts.items()
    }


def _laid(rows: Sequence[Row]) -> np.ndarray:
    """Return every query's weights on the last one's tokens, (query, head, token) float64; NaN on
    tokens that it does not see.
    """
    last = rows[-1]
    alpha = [np.asarray(row.alpha) for row in rows]
    out = np.full((len(rows), *alpha[-1].shape), np.nan)
    for place, row, own in zip(out, rows, alpha, strict=True):
        first = max(row.first, last.first)
        if first <= row.position:
            place[:, first - last.first : row.position + 1 - last.first] = own[
                :, first - row.first :
            ]
    return out
