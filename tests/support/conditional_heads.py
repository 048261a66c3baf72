"""Heads of Assumptions 1-3 for the tests of the conditional edition."""

from __future__ import annotations

import numpy as np

from theory.head.attention_profile import WeightProfile, value_norm_profile
from theory.head.gram import feasible_edge
from theory.head.ranked import Ranked, Summary, rank_tokens, summarise
from theory.head.similarity_decay import offset_exponential


def profile_head(
    length: int, beta: float, offset: float, rho0: float, p_sink: float, growth: float = 0.05
) -> tuple:
    """Return (alpha, norms, Gram) of a four-phase head; rho0 as a share of its feasible edge."""
    shape = WeightProfile(
        length=length,
        plateau_end=length // 3,
        growth_start=length - length // 4,
        p_sink=p_sink,
        eta=0.3,
        omega=0.7,
        growth=growth,
    )
    gram = offset_exponential(
        beta, offset, rho0 * feasible_edge(beta, length, offset=offset), length + 1
    )
    return shape.weights(), value_norm_profile(length + 1, sink_ratio=0.3), gram


def one_selection(
    n: int = 4, length: int = 24, rho0: float = 0.5, p_sink: float = 0.3
) -> tuple[Ranked, Summary]:
    alpha, norms, gram = profile_head(length, 0.3, 0.2, rho0, p_sink)
    head = rank_tokens(alpha, norms, gram.matrix(length + 1), 0)
    return head, summarise(head, np.array([n]))
