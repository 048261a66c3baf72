"""Neighbours of heads of Assumptions 1-3 with one parameter of Table 1 raised, and sampled heads.

`theory.errata.neighbours` holds the heads, and the moves that the errata use. Source: arXiv
2602.01893, Assumptions 1-3, Table 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from theory.arrays import selection_order
from theory.errata.neighbours import Point, PointHead
from theory.head.gram import feasible_edge

Move = Callable[[Point], tuple[PointHead, PointHead] | None]
"""Function from a point to its head and the neighbour with the parameter raised, or None if the
move does not apply.
"""


def scaled(name: str, factor: float) -> Move:
    """Return the move that multiplies one parameter of the point."""

    def move(point: Point) -> tuple[PointHead, PointHead]:
        raised = getattr(point, name) * factor
        return point.head(), replace(point, **{name: type(getattr(point, name))(raised)}).head()

    return move


def longer(point: Point, added: int = 8) -> tuple[PointHead, PointHead] | None:
    """Raise L at fixed a by appending plateau tokens of equal weight; applies if no plateau token
    is selected.
    """
    head, ends = point.head(), point.plateau_end + 1
    selected = selection_order(head.alpha)[: point.n]
    if ends == 1 or ((selected > 0) & (selected < ends)).any():
        return None
    alpha, norms = (
        np.insert(values, ends, np.full(added, values[1])) for values in (head.alpha, head.norms)
    )
    return head, PointHead(
        alpha=alpha, norms=norms, point=replace(point, length=point.length + added)
    )


def with_norm(head: PointHead, position: int, norm: float) -> PointHead:
    """Return the head with one value norm changed."""
    norms = head.norms.copy()
    norms[position] = norm
    return replace(head, norms=norms)


def larger_least(point: Point) -> tuple[PointHead, PointHead] | None:
    """Raise a_min_in by a tenth at fixed S_in, at the expense of the largest weight; applies if the
    minimum is unique.
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
    raised = with_norm(head, least, (a[least] + step) / head.alpha[least])
    return head, with_norm(raised, most, (a[most] - step) / head.alpha[most])


def larger_outside(point: Point) -> tuple[PointHead, PointHead] | None:
    """Raise a_max_out by a tenth through the value norm of the largest unselected token."""
    head = point.head()
    if point.n >= point.length:
        return None
    outside = selection_order(head.alpha)[point.n :]
    most = int(outside[np.argmax((head.alpha * head.norms)[outside])])
    return head, with_norm(head, most, 1.1 * head.norms[most])


def sample_points(count: int, seed: int = 0) -> list[Point]:
    """Draw heads over the range of Assumptions 1-3: short and long tails, weak and strong sinks, N
    in every phase.
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
