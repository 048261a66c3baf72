"""Heads of Assumptions 1-3 and neighbouring heads with N or ρ₀ raised.

`studies.neighbours` raises the other parameters of Table 1. Source: arXiv 2602.01893, Assumptions
1-3, Table 1. Imports numpy and the evaluation and simulation of `theory`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from theory.arrays import FloatArray, selection_order
from theory.evaluate.envelopes import envelope
from theory.evaluate.simulate import draw_directions, separability_of_draws
from theory.head.attention_profile import WeightProfile, value_norm_profile
from theory.head.gram import exponential, feasible_edge
from theory.head.results import KAPPA, Edition, Envelope


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A head of Assumptions 1-3 and a size N. p_base None: the weights sum to 1."""

    length: int = 32
    n: int = 3
    dimension: int = 32
    kappa: float = KAPPA
    beta: float = 1.5
    rho0: float = 0.0
    norm: float = 1.0
    sink_ratio: float = 0.5
    p_sink: float = 0.4
    p_base: float | None = None
    eta: float = 0.5
    omega: float = 0.7
    plateau_end: int = 8
    growth_start: int = 24

    def profile(self) -> WeightProfile:
        """Return Assumption 3 at this point."""
        names = ("length", "plateau_end", "growth_start", "p_sink", "p_base", "eta", "omega")
        return WeightProfile(**{name: getattr(self, name) for name in names})

    def head(self) -> PointHead:
        """Return weights and norms."""
        norms = value_norm_profile(self.length + 1, norm=self.norm, sink_ratio=self.sink_ratio)
        return PointHead(alpha=self.profile().weights(), norms=norms, point=self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PointHead:
    """Weights and norms of the head of a point, shape (T,); a move may change a single token."""

    alpha: FloatArray
    norms: FloatArray
    point: Point

    def bounds(self, edition: Edition) -> Envelope:
        """Return the bounds at the point's N."""
        p = self.point
        gram = exponential(p.beta, p.rho0, p.length + 1)
        return envelope(
            self.alpha, self.norms, gram, p.dimension, [p.n], edition=edition, kappa=p.kappa
        )

    def draws(self, count: int, seed: int) -> FloatArray:
        """Return P(r_max) and R(r_min) of draws under Model G, shape (2, count)."""
        p, a = self.point, self.alpha * self.norms
        gram, order = exponential(p.beta, p.rho0, p.length + 1), selection_order(self.alpha)
        chunks = draw_directions(gram, p.length + 1, p.dimension, count, seed)
        separability = [
            separability_of_draws(units * a[:, None, None], order, np.array([p.n]))[:2, 0]
            for units in chunks
        ]
        return np.concatenate(separability, axis=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Simulated change between neighbours: difference and standard error of E P and E R."""

    precision: float
    precision_se: float
    recall: float
    recall_se: float


def true_change(before: PointHead, after: PointHead, *, draws: int, seed: int) -> Change:
    """Return the change of E P and E R, paired over draws with shared noise if shapes allow."""
    draws_before = before.draws(draws, seed)
    same = (before.point.length, before.point.dimension) == (
        after.point.length,
        after.point.dimension,
    )
    draws_after = after.draws(draws, seed if same else seed + 1)
    variance = (
        (draws_after - draws_before).var(axis=1)
        if same
        else draws_before.var(axis=1) + draws_after.var(axis=1)
    )
    precision, recall = (draws_after.mean(axis=1) - draws_before.mean(axis=1)).tolist()
    precision_se, recall_se = np.maximum(
        np.sqrt(variance / draws), 1 / draws
    ).tolist()  # at least 1/draws
    return Change(
        precision=precision, precision_se=precision_se, recall=recall, recall_se=recall_se
    )


def one_more(
    point: Point, entering: Literal["any", "peak", "valley"] = "any"
) -> tuple[PointHead, PointHead] | None:
    """Raise N by one if the entering token is of the kind `entering`."""
    if point.n >= point.length:
        return None
    head = point.head()
    position = int(selection_order(head.alpha)[point.n])
    waving = point.plateau_end < position <= point.growth_start
    kind = "any" if not waving else "peak" if np.cos(point.omega * position) > 0 else "valley"
    if entering not in ("any", kind):
        return None
    return head, replace(head, point=replace(point, n=point.n + 1))


def closer_sink(point: Point) -> tuple[PointHead, PointHead]:
    """Raise ρ₀ from −2/5 to +2/5 of its feasible edge."""
    edge = 0.4 * feasible_edge(point.beta, point.length)
    return replace(point, rho0=-edge).head(), replace(point, rho0=edge).head()
