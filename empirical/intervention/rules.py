"""Rules of selection: which tokens a query keeps.

A *ranking rule* gives every token a score, and the N of the highest score are kept; a *set rule*
says itself which are kept, and so how many. Both are functions of `Rows`, so a user can write one.
Imports numpy and torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from empirical.intervention.greedy import greedy_scores
from empirical.intervention.sparse import entmax15_support, sparsemax_support
from empirical.tap.attention import QUERY_BLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Some queries of a layer, the tokens they weigh and with which weights."""

    weights: Tensor
    """α, (document, head, query, position) float32; 0 where invisible. With learned sinks a row
    sums below 1.
    """
    values: Tensor
    """v, (document, kv_head, position, dimension), in the model's type."""
    visible: Tensor
    """What a query sees, (document or 1, 1, query, position) bool."""
    layer: int
    start: int
    """Position of the first query."""

    def of_heads(self, of_kv_heads: Tensor) -> Tensor:
        """Lay what each kv_head says of its tokens, (document, kv_head, position), beside the
        weights of the heads that share it: (document, head, 1, position).
        """
        group = self.weights.shape[1] // of_kv_heads.shape[1]
        return of_kv_heads.repeat_interleave(group, dim=1)[:, :, None]

    def positions(self) -> Tensor:
        """Return positions as scores, (position)."""
        count, device = self.weights.shape[-1], self.weights.device
        return torch.arange(count, dtype=self.weights.dtype, device=device)


Rule = Callable[[Rows], Tensor]
"""A ranking rule returns scores, a set rule what is kept (bool); of the weights' shape, or of one
that is laid beside it.
"""


def attention(rows: Rows) -> Tensor:
    """The weight α, as in arXiv 2602.01893, §2."""
    return rows.weights


def contribution(rows: Rows) -> Tensor:
    """The contribution's length, α‖v‖."""
    return rows.weights * rows.of_heads(_wide(rows.values).norm(dim=-1))


def sink_orthogonal(rows: Rows) -> Tensor:
    """How far a value stands from the line of the sink's value: −|cos(v, v₀)|, whatever the
    weight; the sink itself comes last.

    After OrthoRank (arXiv 2507.03865), which compares normalised hidden states instead.
    """
    values = _wide(rows.values)
    cosines = torch.nn.functional.cosine_similarity(values, values[:, :, :1], dim=-1)
    return rows.of_heads(-cosines.abs())


def recent(rows: Rows) -> Tensor:
    """The most recent tokens."""
    return rows.positions()


def sink_and_recent(rows: Rows) -> Tensor:
    """The sink, position 0, and then the most recent tokens."""
    scores = rows.positions()
    scores[0] = torch.inf
    return scores


def greedy(rows: Rows) -> Tensor:
    """An oracle: the token first whose contribution brings what is kept nearest to the query's
    output, then the next, and so on. Work grows as the third power of the window.
    """
    return greedy_scores(rows.weights, rows.of_heads, _wide(rows.values))


def random(draw: int, seed: int = 0, document: int = 0) -> Rule:
    """A random order of its own for every query and head, and for each document by its number; a
    draw's sets of all N are nested.
    """

    def scores(rows: Rows) -> Tensor:
        start = rows.start // QUERY_BLOCK * QUERY_BLOCK  # the same whichever query comes first
        own = np.random.SeedSequence([seed, draw, document, rows.layer, start])
        generator = torch.Generator().manual_seed(int(own.generate_state(1)[0]))
        heads, queries, positions = rows.weights.shape[1:]
        before = rows.start - start
        drawn = torch.rand((heads, before + queries, positions), generator=generator)
        return drawn[:, before:].to(rows.weights.device)

    return scores


def sparsemax(rows: Rows) -> Tensor:
    """The set that sparsemax of the same logits gives weight to (Martins & Astudillo 2016)."""
    return sparsemax_support(_logits(rows))


def entmax15(rows: Rows) -> Tensor:
    """The set that 1.5-entmax of the same logits gives weight to (Peters et al. 2019)."""
    return entmax15_support(_logits(rows))


def nothing(rows: Rows) -> Tensor:
    """No token: by deletion, the head is taken out."""
    return torch.zeros(1, dtype=torch.bool, device=rows.weights.device)


RANKINGS: Final[dict[str, Rule]] = {
    "attention": attention,
    "contribution": contribution,
    "sink-orthogonal": sink_orthogonal,
    "recent": recent,
    "sink-recent": sink_and_recent,
    "greedy": greedy,
}
"""Ranking rules by name, but for random ones."""

SETS: Final[dict[str, Rule]] = {"sparsemax": sparsemax, "entmax15": entmax15}
"""Set rules by name."""


def _logits(rows: Rows) -> Tensor:
    """Return log α, the logits but for a constant of each row, which neither set depends on."""
    return rows.weights.log()


def _wide(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))
