"""Heads of Assumptions 1-3 and odd ones, what is known of them given s, and drawn distances."""

from typing import Any

import numpy as np
from support.model_g import gram_of

from theory.arrays import FloatArray
from theory.editions.conditional.conditioning import GivenSum, given_sum
from theory.editions.sharp.sharp_law import pairwise_law
from theory.evaluate.simulate import draw_directions
from theory.head.attention_profile import WeightProfile, value_norm_profile
from theory.head.gram import Gram, exponential, feasible_edge, offset_exponential
from theory.head.ranked import Ranked, Summary, rank_tokens, summarise


def phases(plateau: int, wave: int, tail: int, **options: Any) -> WeightProfile:
    """Return the profile of Assumption 3 whose phases have these lengths."""
    growth_start = plateau + wave
    return WeightProfile(
        length=growth_start + tail, plateau_end=plateau, growth_start=growth_start, **options
    )


def profile_head(
    length: int, beta: float, offset: float, rho0: float, p_sink: float, growth: float = 0.05
) -> tuple:
    """Return (alpha, norms, Gram) of a four-phase head; rho0 as a share of its feasible edge."""
    plateau, tail = length // 3, length // 4
    shape = phases(
        plateau, length - tail - plateau, tail, p_sink=p_sink, eta=0.3, omega=0.7, growth=growth
    )
    edge = feasible_edge(beta, length, offset=offset)
    gram = offset_exponential(beta, offset, rho0 * edge, length + 1)
    return shape.weights(), value_norm_profile(length + 1, sink_ratio=0.3), gram


def one_selection(
    n: int = 4, length: int = 24, rho0: float = 0.5, p_sink: float = 0.3
) -> tuple[Ranked, Summary]:
    alpha, norms, gram = profile_head(length, 0.3, 0.2, rho0, p_sink)
    head = rank_tokens(alpha, norms, gram.matrix(length + 1), 0)
    return head, summarise(head, np.array([n]))


def given_s(
    head: Ranked, summary: Summary, dimension: int, *, variance: bool = True
) -> tuple[GivenSum, FloatArray]:
    """Return what is known given s, and the pairwise law of closed balls."""
    law = pairwise_law(head, summary, 0, dimension)
    known = given_sum(head, summary, 0, dimension, law, variance=variance)
    assert known is not None
    return known, law.closed


def simulated_distances(head: Ranked, n: int, dimension: int, draws: int) -> np.ndarray:
    """Return simulated squared distances to s of the first n ranks, (T, draws)."""
    chunks = draw_directions(head.cosines, head.tokens, dimension, draws, 1, sink=None)
    units = np.concatenate(list(chunks), axis=1)
    y = units * head.a[:, None, None]
    return ((y[:n].sum(axis=0) - y) ** 2).sum(axis=2)


def odd_heads() -> dict[str, tuple[FloatArray, FloatArray | float, Gram, int, int | None]]:
    """Return weights, norms, Gram, d and the sink of heads of about 41 tokens: ties, zero and steep
    weights, negative ρ₀, a sink unselected or out of sight, small and large d.
    """
    rng = np.random.default_rng(3)
    content = rng.dirichlet(np.full(40, 0.4))
    edge, values = feasible_edge(0.3, 40), rng.normal(size=(41, 16)) + 0.4
    twins, rising = values.copy(), np.exp(0.6 * np.arange(40))
    twins[[5, 9, 30]] = twins[2]
    plain, light, steep = (
        np.concatenate([[sink], (1 - sink) * weights])
        for sink, weights in ((0.4, content), (0.2, content), (0.4, rising / rising.sum()))
    )
    outside, equal = np.concatenate([[1e-4], content]), np.full(41, 1 / 41)
    zeros = np.repeat([0.3, 0.1, 0.05, 0.0], [1, 3, 7, 30])
    tiny = np.concatenate([[0.3], np.geomspace(1e-12, 0.1, 40)])
    norms, weak = np.concatenate([[0.2], rng.normal(1, 0.1, 40)]), np.r_[0.1, np.ones(40)]
    near, usual = exponential(0.3, 0.5 * edge, 41), offset_exponential(0.3, 0.2, 0.1, 41)
    return {
        "norms differ": (plain, norms, exponential(0.3, 0.8 * edge, 41), 16, 0),
        "negative rho0": (plain, 1.0, exponential(0.3, -edge, 41), 12, 0),
        "sink outside": (outside, 1.0, offset_exponential(0.3, 0.4, -0.3, 41), 16, 0),
        "no sink": (content, 1.0, offset_exponential(0.1, 0.2, 0.0, 40), 32, None),
        "zero weights": (zeros, 1.0, near, 16, 0),
        "measured": (plain, 1.0, gram_of(values), 16, 0),
        "large d": (light, weak, exponential(0.3, 0.1, 41), 4096, 0),
        "small d": (plain, 1.0, usual, 2, 0),
        "twelve orders of weights": (tiny, 1.0, near, 64, 0),
        "steep": (steep, 1.0, exponential(1.0, 0.05, 41), 16, 0),
        "all equal": (equal, 1.0, offset_exponential(0.3, 0.1, 0.0, 41), 16, 0),
        "duplicates": (equal, 1.0, gram_of(twins), 10, 0),
        "collinear": (zeros, 1.0, np.ones((41, 41)), 9, 0),
    }
