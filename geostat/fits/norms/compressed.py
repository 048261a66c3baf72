"""Compressed tokens and secondary sinks: whether the sink has the smallest norm of its document,
and which other tokens and positions have small ones.

A content token is *compressed* where its norm is at most COMPRESSED times the median content norm
of its document: the factor to which Assumption 1.2 holds the sink (`norms.sink` in tolerances.toml:
λ ≪ 1, of which half is the weakest reading). Source: arXiv 2602.01893, Assumption 1. Everywhere
`content` is ‖v_i‖ of content tokens, (document, kv_head, content), NaN where unknown, and `small`
what `compressed` says of it. Imports numpy and scipy.special.
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
"""Rows of a list of tokens or positions at most."""
MOST: Final = 0.5
"""Share of its occurrences, or of the documents, that makes a token or position a compressed one
of a head.
"""
LUCK: Final = 0.05
"""Expected number of a head's positions that pass as secondary sinks by luck, at most."""

Counts = NDArray[np.int64]


def median_norm(content: FloatArray) -> FloatArray:
    """Return the median over the last axis, ignoring NaN; NaN where nothing is known."""
    known = np.isfinite(content).any(axis=-1)
    median = np.full(known.shape, np.nan)
    if known.any():
        median[known] = np.nanmedian(content[known], axis=-1)
    return median


def compressed(content: FloatArray) -> BoolArray:
    """Return which content tokens, (..., content), have a norm of at most COMPRESSED times their
    document's median; NaN is none.
    """
    median = median_norm(content)
    limit = np.where(median > 0, COMPRESSED * median, -np.inf)
    return np.where(np.isfinite(content), content, np.inf) <= limit[..., None]


def sink_smallest(norm: FloatArray, first_content: int) -> Estimate:
    """Return the share of documents in which the sink's norm is smaller than every content token's,
    (kv_head,), with Wilson's interval.

    Documents count that know the sink and a content token. `norm` is ‖v_i‖, (document, kv_head,
    token), NaN where unknown; `first_content` is 1 if token 0 is the sink, else 0, and then all is
    NaN.
    """
    content = norm[..., first_content:]
    counted = np.isfinite(content).any(axis=-1) & (
        np.isfinite(norm[..., 0]) if first_content else False
    )
    smallest = np.where(np.isfinite(content), content, np.inf).min(axis=-1, initial=np.inf)
    below = counted & (np.where(counted, norm[..., 0], np.inf) < smallest)
    return wilson(below.sum(axis=0), counted.sum(axis=0))


def compressed_share(content: FloatArray, small: BoolArray) -> Estimate:
    """Return the share of content tokens that are compressed, mean over documents, and its document
    jackknife.

    A share of 0 or 1 in every document lies at its bound and has no error.
    """
    result = document_mean(ratio(small.sum(axis=-1), np.isfinite(content).sum(axis=-1)))
    cut = replace(
        result,
        lower=np.maximum(result.lower, 0.0),
        upper=np.minimum(result.upper, 1.0),
        scale="share",
    )
    return cut.with_error_where((result.value > 0) & (result.value < 1))


def secondary_sinks(content: FloatArray, small: BoolArray) -> BoolArray:
    """Return the positions that are compressed in most documents, and in more than the head's share
    of compressed tokens explains.

    (kv_head, content). More than MOST of the documents that know the position, and so many that
    fewer than LUCK of a head's positions would be by luck, were its compressed tokens spread evenly
    (binomial tail times positions).
    """
    hits, known = small.sum(axis=0), np.isfinite(content).sum(axis=0)
    total = known.sum(axis=-1, keepdims=True)
    rate = hits.sum(axis=-1, keepdims=True) / np.maximum(total, 1)
    tail = np.where(hits > 0, bdtrc(np.maximum(hits - 1, 0), np.maximum(known, 1), rate), 1.0)
    return (hits > MOST * known) & (tail * (known > 0).sum(axis=-1, keepdims=True) < LUCK)


def occurrences(codes: Counts, chosen: BoolArray, ids: int) -> Counts:
    """Count by head, (kv_head, id), the tokens `chosen`, (document, kv_head, content), of each id
    by its code, (document, content).
    """
    heads = range(chosen.shape[1])
    return np.stack([np.bincount(codes[chosen[:, head]], minlength=ids) for head in heads])


def most_frequent(count: Counts) -> Counts:
    """Return the places of the LISTED largest counts that are not 0, largest first."""
    return np.argsort(-count, kind="stable")[: min(LISTED, int((count > 0).sum()))]


def compressed_tokens(ids: Counts, hits: Counts, seen: Counts) -> dict[str, np.ndarray]:
    """The LISTED token ids that are compressed most often, over all heads, most often first.

    `hits` are the compressed ones of what was `seen`, (layer, kv_head, id). id; count (compressed
    occurrences, summed over heads); occurrences (with a norm, likewise summed); share (count over
    occurrences); heads (value heads that compress at least MOST of its occurrences), each (token,);
    share_by_head (token, layer, kv_head), NaN where the head sees none.
    """
    order = most_frequent(hits.sum(axis=(0, 1)))
    count, number = (each[..., order].sum(axis=(0, 1)) for each in (hits, seen))
    share = ratio(hits[..., order], seen[..., order])
    listed = {
        "id": ids[order],
        "count": count,
        "occurrences": number,
        "share": count / np.maximum(number, 1),
        "heads": (share >= MOST).sum(axis=(0, 1)),
        "share_by_head": np.moveaxis(share, -1, 0),
    }
    return {f"compressed_token_{name}": values for name, values in listed.items()}


def sink_positions(token_id: Counts, heads: Counts) -> dict[str, np.ndarray]:
    """The LISTED positions that are secondary sinks of most heads: position, heads (how many, of
    `heads` by position), tokens (different ids found there, of (document, position)), each (row,).
    """
    order = most_frequent(heads)
    tokens = [np.unique(token_id[:, position]).size for position in order]
    listed = {"position": order, "heads": heads[order], "tokens": np.array(tokens, dtype=np.int64)}
    return {f"secondary_sink_{name}": values for name, values in listed.items()}
