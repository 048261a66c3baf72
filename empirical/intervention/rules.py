"""Selection rules: which tokens a query keeps.

A *ranking rule* scores every token, and the N highest scores are kept. A *set rule* returns the
kept tokens, and thereby their number. Both are functions of `Rows`, so users can add rules. Imports
numba, numpy and torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from empirical.intervention.names import RANKING_NAMES, SET_NAMES
from empirical.measure.compiled import compiled, spread_rows
from empirical.tap.attention import QUERY_BLOCK

PRECISE: Final = np.float32(1e-7)
"""Newton step that counts as converged, for a threshold between −1 and 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Queries of one block of a layer: their weights, and the values of their tokens."""

    alpha: Tensor
    """α, (document, head, query, position) float32; sums to 1, or less with learned sinks."""
    values: Tensor
    """v, (document, kv_head, position, dimension), in the model's dtype."""
    visible: Tensor
    """Visible positions, (document or 1, 1, query, position) bool."""
    layer: int
    start: int
    """Position of the first query."""

    def of_heads(self, of_kv_heads: Tensor) -> Tensor:
        """Repeat (document, kv_head, position) per head: (document, head, 1, position)."""
        group = self.alpha.shape[1] // of_kv_heads.shape[1]
        return of_kv_heads.repeat_interleave(group, dim=1)[:, :, None]

    def positions(self) -> Tensor:
        """Return positions as scores, (position)."""
        count, device = self.alpha.shape[-1], self.alpha.device
        return torch.arange(count, dtype=self.alpha.dtype, device=device)


Rule = Callable[[Rows], Tensor]
"""A ranking rule returns scores, a set rule kept tokens (bool); both broadcast to `Rows.alpha`."""


def attention(rows: Rows) -> Tensor:
    """Score by the attention weight α, as in arXiv 2602.01893, §2."""
    return rows.alpha


def contribution(rows: Rows) -> Tensor:
    """Score by the norm of the contribution, α‖v‖."""
    return rows.alpha * rows.of_heads(_wide(rows.values).norm(dim=-1))


def sink_orthogonal(rows: Rows) -> Tensor:
    """Score by the distance from the line of the sink's value: −|cos(v, v₀)|, independent of the
    weight; the sink comes last.

    After OrthoRank (arXiv 2507.03865), which compares normalised hidden states instead.
    """
    values = _wide(rows.values)
    cosines = torch.nn.functional.cosine_similarity(values, values[:, :, :1], dim=-1)
    return rows.of_heads(-cosines.abs())


def recent(rows: Rows) -> Tensor:
    """Score the most recent tokens highest."""
    return rows.positions()


def sink_and_recent(rows: Rows) -> Tensor:
    """Score the sink (position 0) highest, then the most recent tokens."""
    scores = rows.positions()
    scores[0] = torch.inf
    return scores


def greedy(rows: Rows) -> Tensor:
    """Score by matching pursuit with the model's own coefficients, an oracle. Tokens are added to I
    one by one, each the one that minimises ‖o − Σ_I αv‖ for the output o = Σ αv. The cost grows
    with the third power of the window.

    With the residual r = o − Σ_I αv, adding token j reduces ‖r‖² by 2 α_j ⟨r, v_j⟩ − α_j² ‖v_j‖²;
    adding k reduces ⟨r, v_j⟩ by α_k ⟨v_k, v_j⟩. Tokens without weight come last.
    """
    alpha, values = rows.alpha, _wide(rows.values)
    gram = values @ values.transpose(-1, -2)
    gram = gram.repeat_interleave(alpha.shape[1] // values.shape[1], dim=1)  # of heads
    squares = alpha**2 * rows.of_heads((values**2).sum(dim=-1))
    products = alpha @ gram  # ⟨r, v_j⟩ of every query
    scores = torch.full_like(alpha, -torch.inf)
    free = alpha > 0
    for step in range(alpha.shape[-1]):
        gain = (2 * alpha * products - squares).masked_fill(~free, -torch.inf)
        best = gain.argmax(dim=-1, keepdim=True)
        has_free = free.gather(-1, best)
        scores.scatter_(-1, best, torch.where(has_free, -float(step), scores.gather(-1, best)))
        free.scatter_(-1, best, False)
        taken = alpha.gather(-1, best) * has_free
        products -= taken * gram.gather(2, best.expand(-1, -1, -1, gram.shape[-1]))
    return scores


def random(draw: int, seed: int = 0, document: int = 0) -> Rule:
    """Return a rule with a random order per query, head and document; its selections are nested."""

    def scores(rows: Rows) -> Tensor:
        start = rows.start // QUERY_BLOCK * QUERY_BLOCK  # the same for any first query
        state = np.random.SeedSequence([seed, draw, document, rows.layer, start]).generate_state(1)
        generator = torch.Generator().manual_seed(int(state[0]))
        heads, queries, positions = rows.alpha.shape[1:]
        before = rows.start - start
        drawn = torch.rand((heads, before + queries, positions), generator=generator)
        return drawn[:, before:].to(rows.alpha.device)

    return scores


def sparsemax(rows: Rows) -> Tensor:
    """Select the support of sparsemax of the same logits (Martins & Astudillo 2016)."""
    return support(rows.alpha.log(), 1)  # the logits up to a constant per row


def entmax15(rows: Rows) -> Tensor:
    """Select the support of 1.5-entmax of the same logits (Peters, Niculae & Martins 2019)."""
    return support(rows.alpha.log(), 2)


def nothing(rows: Rows) -> Tensor:
    """Select no token; under deletion this removes the head."""
    return torch.zeros(1, dtype=torch.bool, device=rows.alpha.device)


_RANKINGS = (attention, contribution, sink_orthogonal, recent, sink_and_recent, greedy)
RANKINGS: Final[dict[str, Rule]] = dict(zip(RANKING_NAMES, _RANKINGS, strict=True))
"""Ranking rules by name, except random ones."""

SETS: Final[dict[str, Rule]] = dict(zip(SET_NAMES, (sparsemax, entmax15), strict=True))
"""Set rules by name."""


def _wide(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))


def support(logits: Tensor, power: int) -> Tensor:
    """Return where (z/power − τ)₊^power is positive, (..., entry) bool; τ is the number with which
    these sum to 1. Power 1 is sparsemax, power 2 is 1.5-entmax.

    logits: z, (..., entry), −∞ for absent entries. Compiled on a CPU in float32.

    >>> support(torch.tensor([[0.0, -0.4, -2.0], [0.0, -0.4, -0.5]]), 1).tolist()
    [[True, True, False], [True, True, True]]
    """
    if logits.device.type != "cpu" or logits.dtype != torch.float32:
        return by_newton(logits, power)
    rows = logits.reshape(-1, logits.shape[-1]).numpy()
    kept = np.empty(rows.shape, dtype=np.bool_)
    spread_rows(_support, len(rows), rows, power, kept)
    return torch.from_numpy(kept).view(logits.shape)


def by_newton(logits: Tensor, power: int) -> Tensor:
    """Return the result of `support` for logits of any dtype on any device. The sum is decreasing
    and convex in τ, so Newton steps from τ = −1, where it is at least 1, rise to the root.
    """
    z = (logits - logits.amax(dim=-1, keepdim=True)) / power
    threshold, step = torch.full_like(z[..., :1], -1), torch.ones_like(z[..., :1])
    while bool((step > PRECISE).any()):
        above = (z - threshold).clamp_min(0)
        total = (above**power).sum(dim=-1, keepdim=True)
        slope = power * ((above > 0) * above ** (power - 1)).sum(dim=-1, keepdim=True)
        step = (total - 1) / slope
        threshold += step.clamp_min(0)
    return z > threshold


@compiled(fastmath={"reassoc", "contract"}, error_model="numpy")
def _support(logits, power, kept, start, stop):  # type: ignore[no-untyped-def]
    """Fill `kept` for the rows from start to stop, by the steps of `by_newton`."""
    positions = logits.shape[1]
    z = np.empty(positions, np.float32)
    for row in range(start, stop):
        largest = np.float32(-np.inf)
        for index in range(positions):
            largest = max(largest, logits[row, index])
        for index in range(positions):
            z[index] = (logits[row, index] - largest) / np.float32(power)
        threshold, step = np.float32(-1), np.float32(1)
        while step > PRECISE:
            count, first, second = np.float32(0), np.float32(0), np.float32(0)
            for index in range(positions):
                above = max(z[index] - threshold, np.float32(0))
                count += np.float32(1) if above > 0 else np.float32(0)
                first += above
                second += above * above
            if power == 1:
                step = (first - np.float32(1)) / count
            else:
                step = (second - np.float32(1)) / (2 * first)
            threshold += max(step, np.float32(0))
        for index in range(positions):
            kept[row, index] = z[index] > threshold
