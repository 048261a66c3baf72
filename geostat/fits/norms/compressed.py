"""Compressed tokens and secondary sinks: tokens and positions with small value norms.

A content token is *compressed* if its norm is at most COMPRESSED times the median content norm of
its document. The tolerance of Assumption 1.2 uses the same factor (`norms.sink` in
tolerances.toml): one half is the weakest reading of λ ≪ 1. Source: arXiv 2602.01893, Assumption 1.
Everywhere `content` is ‖v_i‖ of content tokens, (document, kv_head, content), NaN where unknown,
and `small` is the mask from `compressed`. Imports numpy and scipy.special.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from empirical.measure.sinks import COMPRESSED
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import Estimate, document_mean
from geostat.statistics.proportion import wilson

LISTED: Final = 20
"""Maximum number of rows in a list of tokens or positions."""
MAJORITY: Final = 0.5
"""Share of occurrences (or documents) above which a token (or position) is compressed by a head."""
CHANCE: Final = 0.05
"""Maximum expected number of positions per head that pass as secondary sinks by chance."""

Counts = NDArray[np.int64]


def median_norm(content: FloatArray) -> FloatArray:
    """Return the median over the last axis, ignoring NaN; NaN where all entries are NaN."""
    known = np.isfinite(content).any(axis=-1)
    median = np.full(known.shape, np.nan)
    if known.any():
        median[known] = np.nanmedian(content[known], axis=-1)
    return median


def compressed(content: FloatArray) -> BoolArray:
    """Return the mask of compressed content tokens, (..., content); NaN never is."""
    median = median_norm(content)
    limit = np.where(median > 0, COMPRESSED * median, -np.inf)
    return np.where(np.isfinite(content), content, np.inf) <= limit[..., None]


def sink_smallest(norm: FloatArray, first_content: int) -> Estimate:
    """Return the share of documents in which the sink has the smallest norm, (kv_head,).

    `norm` has shape (document, kv_head, token). The interval is Wilson's. Documents count if the
    norms of the sink and of a content token are known; none do without a sink (`first_content` 0).
    """
    content = norm[..., first_content:]
    counted = np.isfinite(content).any(axis=-1) & (
        np.isfinite(norm[..., 0]) if first_content else False
    )
    smallest = np.where(np.isfinite(content), content, np.inf).min(axis=-1, initial=np.inf)
    below = counted & (np.where(counted, norm[..., 0], np.inf) < smallest)
    return wilson(below.sum(axis=0), counted.sum(axis=0))


def compressed_share(content: FloatArray, small: BoolArray) -> Estimate:
    """Return the share of compressed content tokens, mean over documents, with its jackknife.

    A share of 0 or 1 in every document lies at its bound and has no error.
    """
    result = document_mean(ratio(small.sum(axis=-1), np.isfinite(content).sum(axis=-1)))
    clipped = replace(
        result,
        lower=np.maximum(result.lower, 0.0),
        upper=np.minimum(result.upper, 1.0),
        scale="share",
    )
    return clipped.with_error_where((result.value > 0) & (result.value < 1))


def secondary_sinks(content: FloatArray, small: BoolArray) -> BoolArray:
    """Return the mask of secondary sinks, (kv_head, content).

    A secondary sink is compressed in more than a share MAJORITY of the documents that know it, and
    in more than chance explains, which spreads a head's compressed tokens evenly: the binomial tail
    times the number of positions is below CHANCE.
    """
    hits, known = small.sum(axis=0), np.isfinite(content).sum(axis=0)
    total = known.sum(axis=-1, keepdims=True)
    rate = hits.sum(axis=-1, keepdims=True) / np.maximum(total, 1)
    tail = np.where(hits > 0, bdtrc(np.maximum(hits - 1, 0), np.maximum(known, 1), rate), 1.0)
    return (hits > MAJORITY * known) & (tail * (known > 0).sum(axis=-1, keepdims=True) < CHANCE)


def occurrences(codes: Counts, selected: BoolArray, ids: int) -> Counts:
    """Count the `selected` tokens, (document, kv_head, content), of each id, (kv_head, id).

    `codes` are the token ids as indices, (document, content).
    """
    heads = range(selected.shape[1])
    return np.stack([np.bincount(codes[selected[:, head]], minlength=ids) for head in heads])


def most_frequent(count: Counts) -> Counts:
    """Return the indices of the LISTED largest positive counts, largest first."""
    return np.argsort(-count, kind="stable")[: min(LISTED, int((count > 0).sum()))]


def compressed_tokens(ids: Counts, hits: Counts, present: Counts) -> dict[str, np.ndarray]:
    """Return the variables of the LISTED token ids that are compressed most often over all heads.

    Args:
        ids: token ids, (id,).
        hits: compressed occurrences, (layer, kv_head, id).
        present: occurrences with a norm, (layer, kv_head, id).
    """
    order = most_frequent(hits.sum(axis=(0, 1)))
    count, total = (counts[..., order].sum(axis=(0, 1)) for counts in (hits, present))
    share = ratio(hits[..., order], present[..., order])
    return {
        "compressed_token_id": ids[order],
        "compressed_token_count": count,
        "compressed_token_occurrences": total,
        "compressed_token_share": count / np.maximum(total, 1),
        "compressed_token_heads": (share >= MAJORITY).sum(axis=(0, 1)),
        "compressed_token_share_by_head": np.moveaxis(share, -1, 0),
    }


def sink_positions(token_id: Counts, heads: Counts) -> dict[str, np.ndarray]:
    """Return the variables of the LISTED positions that are secondary sinks of most heads.

    `token_id` has shape (document, position); `heads` is the number of heads with a secondary sink
    at each position, (position,).
    """
    order = most_frequent(heads)
    tokens = [np.unique(token_id[:, position]).size for position in order]
    return {
        "secondary_sink_position": order,
        "secondary_sink_heads": heads[order],
        "secondary_sink_tokens": np.array(tokens, dtype=np.int64),
    }
