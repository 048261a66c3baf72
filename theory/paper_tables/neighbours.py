"""Heads of Assumptions 1-3 and their neighbours: what it means to raise one parameter of Table 1
and nothing else.

Source: arXiv 2602.01893, Assumptions 1-3, Table 1. Imports numpy; evaluates and simulates by this
room's own code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from theory.arrays import FloatArray, selection_order
from theory.audit.simulate import draw_directions, separability_of_draws
from theory.evaluate.envelopes import envelope
from theory.head.attention_profile import WeightProfile, value_norm_profile
from theory.head.gram import feasible_edge
from theory.head.results import KAPPA, Edition, Envelope
from theory.head.similarity_decay import exponential


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A head of Assumptions 1-3 and a size N. p_base None: the weights sum to 1. Units of
    `norm` are those of value norms.
    """

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
    """Weights and norms of a point's head, shape (T,), which moves of a single token may change."""

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
        seen = [
            separability_of_draws(units * a[:, None, None], order, np.array([p.n]))[:2, 0]
            for units in chunks
        ]
        return np.concatenate(seen, axis=1)

    def with_norm(self, position: int, norm: float) -> PointHead:
        """Return the head with one value norm changed."""
        norms = self.norms.copy()
        norms[position] = norm
        return replace(self, norms=norms)


Move = Callable[[Point], tuple[PointHead, PointHead] | None]
"""From a point to a head and its neighbour with the parameter raised; None where it cannot be."""


def scaled(name: str, factor: float) -> Move:
    """Return the move that multiplies one parameter of the point."""

    def move(point: Point) -> tuple[PointHead, PointHead]:
        raised = getattr(point, name) * factor
        return point.head(), replace(point, **{name: type(getattr(point, name))(raised)}).head()

    return move


def longer(point: Point, more: int = 8) -> tuple[PointHead, PointHead] | None:
    """L up at fixed a: more plateau tokens of the weight they have, put behind them; where none
    of them is selected yet.
    """
    head, ends = point.head(), point.plateau_end + 1
    selected = selection_order(head.alpha)[: point.n]
    if ends == 1 or ((selected > 0) & (selected < ends)).any():
        return None
    alpha, norms = (
        np.insert(values, ends, np.full(more, values[1])) for values in (head.alpha, head.norms)
    )
    return head, PointHead(
        alpha=alpha, norms=norms, point=replace(point, length=point.length + more)
    )


def one_more(
    point: Point, entering: Literal["any", "peak", "valley"] = "any"
) -> tuple[PointHead, PointHead] | None:
    """N up by one, where the token that enters is of the kind asked for."""
    if point.n >= point.length:
        return None
    head = point.head()
    position = int(selection_order(head.alpha)[point.n])
    waving = point.plateau_end < position <= point.growth_start
    kind = "any" if not waving else "peak" if np.cos(point.omega * position) > 0 else "valley"
    if entering not in ("any", kind):
        return None
    return head, replace(head, point=replace(point, n=point.n + 1))


def larger_least(point: Point) -> tuple[PointHead, PointHead] | None:
    """a_min_in up by a tenth at fixed S_in: the largest gives what the least takes, where the
    least is one alone.
    """
    head = point.head()
    content = [k for k in selection_order(head.alpha)[: point.n].tolist() if k != 0]
    a = head.alpha * head.norms
    if len(content) < 2:
        return None
    (least, second), most = (
        sorted(content, key=lambda k: a[k])[:2],
        max(content, key=lambda k: a[k]),
    )
    if a[second] - a[least] <= 1e-9 * a[most]:
        return None
    step = min(0.1 * a[least], (a[most] - a[least]) / 2)
    raised = head.with_norm(least, (a[least] + step) / head.alpha[least])
    return head, raised.with_norm(most, (a[most] - step) / head.alpha[most])


def larger_outside(point: Point) -> tuple[PointHead, PointHead] | None:
    """a_max_out up by a tenth: the value of the first token that is not selected grows."""
    head = point.head()
    if point.n >= point.length:
        return None
    outside = selection_order(head.alpha)[point.n :]
    most = int(outside[np.argmax((head.alpha * head.norms)[outside])])
    return head, head.with_norm(most, 1.1 * head.norms[most])


def closer_sink(point: Point) -> tuple[PointHead, PointHead]:
    """ρ₀ up from −2/5 to +2/5 of its feasible edge."""
    edge = 0.4 * feasible_edge(point.beta, point.length)
    return replace(point, rho0=-edge).head(), replace(point, rho0=edge).head()


def sample_points(count: int, seed: int = 0) -> list[Point]:
    """Return heads drawn over the range of Assumptions 1-3: short tails and long, sinks weak and
    strong, N in every phase.
    """
    generator = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        beta = float(np.exp(generator.uniform(np.log(0.2), np.log(4))))
        plateau, wave, tail = (
            int(generator.integers(low, high)) for low, high in ((4, 10), (8, 18), (2, 10))
        )
        length = plateau + wave + tail
        out.append(
            Point(
                length=length,
                n=int(generator.choice([2, 3, 4, 6, 8, 12, length - 6, length - 3])),
                dimension=int(generator.choice([16, 32, 64])),
                beta=beta,
                rho0=float(generator.uniform(-0.6, 0.6)) * feasible_edge(beta, length),
                sink_ratio=float(generator.uniform(0.05, 1)),
                p_sink=float(generator.choice([0.02, 0.2, 0.4, 0.6])),
                eta=float(generator.uniform(0.1, 0.9)),
                omega=float(generator.uniform(0.4, 2.8)),
                plateau_end=plateau,
                growth_start=plateau + wave,
            )
        )
    return out
