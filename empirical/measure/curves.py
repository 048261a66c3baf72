"""Curves over N of all heads of a layer: separability, representatives, effective weights, largest cosines.

Source: arXiv 2602.01893, (1)-(5), (7), (8), (18)-(20), Figure 7. Where all cosines of a kv_head fit in memory, its heads read them in one
walk over their tokens; else separability comes from products of representatives with contributions, as in `selection`. Imports numpy and
this room's kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from empirical.measure.cosine_kernels import NO_PAIR, running_maxima, walk
from empirical.measure.head_kernels import contributions, curves_of_head, representatives, separability_of_head
from empirical.measure.pairs import Block, Pairs
from empirical.measure.parallel import Task
from empirical.measure.selection import MEASURES, Convention, Sizes, by_size, order_by_weight

CURVES: Final = (
    "representative_norm",
    "representative_norm_without_sink",
    "representative_norm_without_last",
    "cosine_to_sink",
    "cosine_to_last",
    "a_min_in",
    "a_min_in_with_sink",
    "a_max_in_without_sink",
    "a_max_in",
    "a_max_out",
    "s_in",
)
"""Columns that `kernels.curves_of_head` writes for each N; "without" leaves the token's contribution out of the same representative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The heads of one layer and what is measured of them at each N. Leading dimension of every array: head."""

    alpha: np.ndarray
    order: np.ndarray
    pairs: Pairs
    sizes: Sizes
    convention: Convention
    s: np.ndarray
    """Representatives, (head, n, dimension) float64."""
    measured: np.ndarray
    """`MEASURES`, (head, n, 4)."""
    described: np.ndarray
    """`CURVES`, (head, n, 11)."""
    rho: np.ndarray
    """ρ_in and ρ_out, (head, 2, n)."""

    @classmethod
    def of(cls, alpha: np.ndarray, pairs: Pairs, sizes: Sizes, convention: Convention) -> Curves:
        """Lay out the arrays for weights of shape (head, token) and the pairs of their kv_heads."""
        heads, count = len(alpha), sizes.inside.size
        return cls(
            alpha=alpha,
            order=order_by_weight(alpha),
            pairs=pairs,
            sizes=sizes,
            convention=convention,
            s=np.empty((heads, count, pairs.values.shape[-1])),
            measured=np.empty((heads, count, len(MEASURES))),
            described=np.empty((heads, count, len(CURVES))),
            rho=np.full((heads, 2, count), NO_PAIR, alpha.dtype),
        )

    def add(self, block: Block) -> list[Task]:
        """Return the tasks that measure, with a filled block of cosines, the heads that use it."""
        group = len(self.alpha) // len(self.pairs.values)
        measure = self._walk if block.columns == self.pairs.tokens else self._step
        return [partial(measure, head, block) for head in range(block.kv_head * group, (block.kv_head + 1) * group)]

    def _walk(self, head: int, block: Block) -> None:
        """Measure everything of one head from the cosines of all pairs."""
        alpha, order, n, s = self.alpha[head], self.order[head], self.sizes.inside, self.s[head]
        norm = self.pairs.norm[block.kv_head]
        y = contributions(alpha, self.pairs.values[block.kv_head])
        representatives(y, order, n, s)
        self._describe(head, block.kv_head)
        weight = alpha.astype(np.float64) * norm
        strict = self.convention is Convention.FOLLOWUP
        walk(block.cosine, y, weight, order, self._enters(norm), _rank(order, norm), n, strict, s, self.measured[head], self.rho[head])

    def _step(self, head: int, block: Block) -> None:
        """Raise the largest cosines of one head; with the first block, measure everything else."""
        alpha, order, n = self.alpha[head], self.order[head], self.sizes.inside
        norm = self.pairs.norm[block.kv_head]
        if block.first == 0:
            strict = self.convention is Convention.FOLLOWUP
            separability_of_head(alpha, self.pairs.values[block.kv_head], order, n, strict, self.s[head], self.measured[head])
            self._describe(head, block.kv_head)
        rank = _rank(order, norm)[block.first : block.first + block.columns]
        running_maxima(block.cosine, block.first, order, self._enters(norm), rank, n, self.rho[head, 0], self.rho[head, 1])

    def _describe(self, head: int, k: int) -> None:
        alpha, sink = self.alpha[head], self.pairs.first == 1
        weight = alpha * self.pairs.norm[k]
        curves_of_head(alpha, self.pairs.values[k], weight, self.order[head], self.sizes.inside, sink, self.s[head], self.described[head])

    def _enters(self, norm: np.ndarray) -> np.ndarray:
        r"""Tokens that count in I\0 where cosines are asked for: neither the sink nor zero vectors."""
        enters = norm > 0
        enters[: self.pairs.first] = False
        return enters

    def named(self) -> dict[str, np.ndarray]:
        """Return separability, `CURVES`, rho_in and rho_out, each (head, n) of the weights' type; NaN for N > T."""
        kind, tokens = self.alpha.dtype, self.pairs.tokens
        described = self.sizes.scatter(np.moveaxis(self.described, -1, 0).astype(kind, order="C"))
        inside, outside = self.rho[:, 0], self.rho[:, 1]
        return {
            **by_size(self.measured, self.sizes, tokens, self.convention, kind),
            **dict(zip(CURVES, described, strict=True)),
            "rho_in": self.sizes.scatter(np.where(inside == NO_PAIR, 0, inside.clip(-1, 1)).astype(kind)),
            "rho_out": self.sizes.scatter(np.where(outside == NO_PAIR, np.nan, outside.clip(-1, 1)).astype(kind)),
        }


def _rank(order: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """Place of each token in the order of selection; −1 for zero vectors, which are no one's neighbour."""
    rank = np.empty(order.size, np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    rank[norm == 0] = -1
    return rank
