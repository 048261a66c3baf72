"""Examples of the errata: what one returns, and the heads of a few tokens at which several are
shown.

Source: arXiv 2602.01893, Assumptions 1-3, eq. (18). Imports numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from theory.evaluate.envelopes import envelope
from theory.head.ranked import Ranked, Summary, ranked, summarise
from theory.head.results import Envelope
from theory.head.similarity_decay import exponential


@dataclass(frozen=True, slots=True)
class Numbers:
    """A number as printed, the one beside it (the true one, unless the erratum names the two
    otherwise), whether they differ as the erratum says, and other numbers that its words quote.
    """

    printed: float
    true: float
    contradict: bool
    quoted: Mapping[str, float] = field(default_factory=dict)


def head_of(
    a: Sequence[float], cosines: Any, inside: Sequence[int], sink: int | None = 0
) -> tuple[Ranked, Summary]:
    """Return a head of given effective weights whose first ranks are the tokens `inside`."""
    order = np.array([*inside, *(j for j in range(len(a)) if j not in inside)])
    head = ranked(
        order,
        np.asarray(a, dtype=float)[order],
        np.ones(len(a)),
        np.asarray(cosines, dtype=float),
        sink,
    )
    return head, summarise(head, np.array([len(inside)]))


def four(rho0: float = 0.1) -> tuple[list[float], Any]:
    """Return a = (1/2, 1/20, 1/10, 3/5) with e^{−β} = 1/4: the sink and the last token are
    selected at N = 2.
    """
    return [0.5, 0.05, 0.1, 0.6], exponential(float(np.log(4)), rho0, 4).matrix(4)


def short_sink() -> tuple[list[float], Any]:
    """Return a head whose sink has a short value: Δ₀ < 0 at N = 2 with the sink selected."""
    return [0.05, 1.0, 0.3, 0.01], exponential(float(np.log(2)), 0.0, 4).matrix(4)


def bounds_of(
    alpha: Sequence[float],
    gram: Any,
    dimension: int,
    size: int,
    edition: Any,
    norms: Any = 1.0,
    **options: Any,
) -> Envelope:
    """Return the bounds of one head at one size."""
    return envelope(np.asarray(alpha), norms, gram, dimension, [size], edition=edition, **options)
