"""Curves over N of all heads of a layer: separability, representatives, effective weights, largest cosines.

Source: arXiv 2602.01893, (1)-(5), (7), (8), (18)-(20), Figure 7. Where all cosines of a kv_head fit in memory, its heads read them in one
walk over their tokens; else separability comes from products of representatives with contributions, as in `selection`. Imports numpy and
this room's kernels.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from empirical.measure.compiled import Task
from empirical.measure.cosine_kernels import NO_PAIR, running_maxima, walk
from empirical.measure.head_kernels import contributions, curves_of_head, representatives, separability_of_head
from empirical.measure.pairs import Block, Pairs
from empirical.measure.selection import MEASURES, Convention, Sizes, by_size, order_by_weight
from empirical.schema import CURVES

NAMES: Final = tuple(name for name in CURVES if name not in {"rho_in", "rho_out"})
"""Columns that `head_kernels.curves_of_head` writes for each N; "without" leaves the token's contribution out of the same representative."""


class Curves:
    """The heads of one layer, weights (head, token), and what is measured of them at each N with the pairs of their kv_heads."""

    def __init__(self, alpha: np.ndarray, pairs: Pairs, sizes: Sizes, convention: Convention) -> None:
        heads, count = len(alpha), sizes.inside.size
        self.alpha, self.pairs, self.sizes, self.convention = alpha, pairs, sizes, convention
        self.order = order_by_weight(alpha)
        self.s = np.empty((heads, count, pairs.values.shape[-1]))  # representatives
        self.measured = np.empty((heads, count, len(MEASURES)))
        self.described = np.empty((heads, count, len(NAMES)))
        self.rho = np.full((heads, 2, count), NO_PAIR, alpha.dtype)  # ρ_in and ρ_out

    def add(self, block: Block) -> list[Task]:
        """Return the tasks that measure, with a filled block of cosines, the heads that use it."""
        group = len(self.alpha) // len(self.pairs.values)
        return [partial(self._measure, head, block) for head in range(block.kv_head * group, (block.kv_head + 1) * group)]

    def _measure(self, head: int, block: Block) -> None:
        """Measure one head: everything with a block of all pairs, else its largest cosines, and with the first block all the rest."""
        alpha, order, n, s = self.alpha[head], self.order[head], self.sizes.inside, self.s[head]
        values, norm = self.pairs.values[block.kv_head], self.pairs.norm[block.kv_head]
        strict = self.convention is Convention.FOLLOWUP
        enters = norm > 0  # neither the sink nor zero vectors count where cosines are asked for
        enters[: self.pairs.first] = False
        rank = np.empty(order.size, np.int32)
        rank[order] = np.arange(order.size, dtype=np.int32)
        rank[norm == 0] = -1  # zero vectors are no one's neighbour
        if block.columns == self.pairs.tokens:
            y = contributions(alpha, values)
            representatives(y, order, n, s)
            weight = alpha.astype(np.float64) * norm
            walk(block.cosine, y, weight, order, enters, rank, n, strict, s, self.measured[head], self.rho[head])
        else:
            if block.first == 0:
                separability_of_head(alpha, values, order, n, strict, s, self.measured[head])
            rank = rank[block.first : block.first + block.columns]
            running_maxima(block.cosine, block.first, order, enters, rank, n, *self.rho[head])
        if block.first == 0:
            curves_of_head(alpha, values, alpha * norm, order, n, self.pairs.first == 1, s, self.described[head])

    def named(self) -> dict[str, np.ndarray]:
        """Return separability, `NAMES`, rho_in and rho_out, each (head, n) of the weights' type; NaN for N > T."""
        kind, tokens = self.alpha.dtype, self.pairs.tokens
        described = self.sizes.scatter(np.moveaxis(self.described, -1, 0).astype(kind, order="C"))
        inside, outside = self.rho[:, 0], self.rho[:, 1]
        return {
            **by_size(self.measured, self.sizes, tokens, self.convention, kind),
            **dict(zip(NAMES, described, strict=True)),
            "rho_in": self.sizes.scatter(np.where(inside == NO_PAIR, 0, inside.clip(-1, 1)).astype(kind)),
            "rho_out": self.sizes.scatter(np.where(outside == NO_PAIR, np.nan, outside.clip(-1, 1)).astype(kind)),
        }
