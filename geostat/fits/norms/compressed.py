"""Compressed tokens and secondary sinks: whether the sink has the smallest norm of its document,
and which other tokens and positions have small ones.

A content token is *compressed* where its norm is at most COMPRESSED times the median content norm
of its document: the factor to which Assumption 1.2 holds the sink (`norms.sink` in tolerances.toml:
λ ≪ 1, of which half is the weakest reading). Source: arXiv 2602.01893, Assumption 1. Everywhere
`content` is ‖v_i‖ of content tokens, (document, kv_head, content), NaN where unknown, and `small`
what `compressed` says of it. Imports numpy and scipy.special.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import Estimate, document_mean
from geostat.statistics.proportion import wilson

COMPRESSED: Final = 0.5
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
    cut = replace(result, lower=np.maximum(result.lower, 0.0), upper=np.minimum(result.upper, 1.0))
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


@dataclass(slots=True)
class TokenLists:
    """Counts compressed tokens and positions layer by layer, and lists the most frequent;
    `token_id` has shape (document, position).
    """

    token_id: NDArray[np.int64]
    ids: NDArray[np.int64] = field(init=False)
    codes: NDArray[np.int64] = field(init=False)
    hits: list[Counts] = field(init=False, default_factory=list)
    seen: list[Counts] = field(init=False, default_factory=list)
    sinks: list[Counts] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.ids, codes = np.unique(self.token_id, return_inverse=True)
        self.codes = codes.reshape(self.token_id.shape)

    def add(self, content: FloatArray, small: BoolArray, sinks: BoolArray, start: int) -> None:
        """Count one layer whose content tokens begin at position `start`; shapes as in
        `secondary_sinks`.
        """
        codes = self.codes[:, start:]
        known = np.isfinite(content)
        for target, chosen in ((self.hits, small), (self.seen, known)):
            target.append(
                np.stack(
                    [
                        np.bincount(codes[chosen[:, head]], minlength=self.ids.size)
                        for head in range(content.shape[1])
                    ]
                )
            )
        position = np.zeros(self.token_id.shape[1], dtype=np.int64)
        position[start:] = sinks.sum(axis=0)
        self.sinks.append(position)

    def tokens(self) -> dict[str, np.ndarray]:
        """The LISTED token ids that are compressed most often, over all heads, most often first.

        id; count (compressed occurrences, summed over heads); occurrences (with a norm, likewise
        summed); share (count over occurrences); heads (value heads that compress at least MOST of
        its occurrences), each (token,); share_by_head (token, layer, kv_head), NaN where the head
        sees none.
        """
        hits, seen = np.stack(self.hits), np.stack(self.seen)  # (layer, kv_head, token id)
        count, occurrences = hits.sum(axis=(0, 1)), seen.sum(axis=(0, 1))
        order = np.argsort(-count, kind="stable")[: min(LISTED, int((count > 0).sum()))]
        share = ratio(hits[..., order], seen[..., order])
        listed = {
            "id": self.ids[order].astype(np.int64),
            "count": count[order],
            "occurrences": occurrences[order],
            "share": count[order] / np.maximum(occurrences[order], 1),
            "heads": (share >= MOST).sum(axis=(0, 1)),
            "share_by_head": np.moveaxis(share, -1, 0),
        }
        return {f"compressed_token_{name}": values for name, values in listed.items()}

    def positions(self) -> dict[str, np.ndarray]:
        """The LISTED positions that are secondary sinks of most heads: position, heads (how
        many), tokens (different token ids found there), each (row,).
        """
        heads = np.sum(self.sinks, axis=0)
        order = np.argsort(-heads, kind="stable")[: min(LISTED, int((heads > 0).sum()))]
        tokens = [np.unique(self.token_id[:, position]).size for position in order]
        listed = {
            "position": order.astype(np.int64),
            "heads": heads[order],
            "tokens": np.array(tokens, dtype=np.int64),
        }
        return {f"secondary_sink_{name}": values for name, values in listed.items()}
