"""Audit heads: a grid of Assumptions 1-3, heads drawn at random from a wider range, small heads
with arbitrary Gram matrices, and adversarial ones.

The grid is fixed; the drawn heads guard against a grid that favours the bounds. Small heads cover
cases that no lag Gram has: dense, low-rank and clustered cosines, equal tokens, tokens of zero
weight. Imports numpy and the generators of `theory`.
"""

from __future__ import annotations

from itertools import product
from typing import Final, Literal, get_args

import numpy as np

from theory.head.attention_profile import WeightProfile, value_norm_profile
from theory.head.gram import feasible_edge, is_feasible, offset_exponential
from theory.head.inputs import HeadInput

Sample = Literal["grid", "random", "small", "adversarial"]

LENGTHS: Final = (16, 64, 256)
DIMENSIONS: Final = (16, 64, 128)
DECAYS: Final = (0.05, 0.4, 2.0)
SINK_COSINES: Final = (-0.04, 0.0, 0.1)
OFFSETS: Final = (0.0, 0.2)
SIZES: Final = (2, 3, 4, 6, 8, 16, 32, 64, 128)
PROFILES: Final = (
    {"p_sink": 0.02, "eta": 0.3, "growth": 0.15, "lam": 1.0},
    {"p_sink": 0.3, "eta": 0.2, "growth": 0.05, "lam": 0.25},
    {"p_sink": 0.6, "eta": 0.05, "growth": 0.3, "lam": 0.1},
)
"""Shapes of the weights: a weak sink, a typical one, a dominant one with a steep tail."""

RANDOM_HEADS: Final = 300
"""Number of random heads, `SIZES_OF_ONE` sizes each."""

SIZES_OF_ONE: Final = 6

SMALL_HEADS: Final = 480
"""Number of small heads, up to `SIZES_OF_ONE` sizes each."""

SMALL_TOKENS: Final = (3, 32)
SMALL_DIMENSIONS: Final = (2, 40)
"""Ranges of T and d of a small head, log-uniform."""

ADVERSARIAL_HEADS: Final = 400
"""Number of adversarial heads: small heads with clustered cosines, half of them with opposite
signs.
"""

Kind = Literal["dense", "low rank", "clustered", "equal", "parallel", "weightless"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""Kinds of small heads, drawn in turn: random vectors; vectors in one to four dimensions; clusters;
some tokens equal (cosine 1, same weight); some parallel (cosine 1, other weights); some of zero
weight or zero norm.
"""

LARGEST_N: Final = 128
"""Largest N of random and small heads."""

RANGES: Final[dict[str, tuple[float, float]]] = {
    "length": (16, 256),
    "dimension": (8, 128),
    "beta": (0.03, 3),
    "growth": (0.005, 0.5),
    "lam": (0.05, 1.2),
}
"""Lowest and highest value of each log-uniform parameter of a random head."""


def heads(sample: Sample = "grid", *, seed: int = 0, count: int | None = None) -> list[HeadInput]:
    """Return the heads of a sample, each with the ascending sizes N at which it is audited.

    seed, count: for drawn heads, "random", "small" (each of `KINDS` in turn) or "adversarial"
    ("clustered", in turn without and with opposite signs).
    """
    generator = np.random.default_rng(seed)
    if sample == "random":
        return [random_head(generator) for _ in range(count or RANDOM_HEADS)]
    if sample == "small":
        return [small_head(KINDS[k % len(KINDS)], generator) for k in range(count or SMALL_HEADS)]
    if sample == "adversarial":
        return [
            small_head("clustered", generator, opposed=k % 2 == 1)
            for k in range(count or ADVERSARIAL_HEADS)
        ]
    return grid_heads()


def grid_heads() -> list[HeadInput]:
    """Return the heads of the grid whose Gram is feasible."""
    out = []
    for length, d, beta, rho0, offset, profile in product(
        LENGTHS, DIMENSIONS, DECAYS, SINK_COSINES, OFFSETS, PROFILES
    ):
        gram = offset_exponential(beta, offset, rho0, length + 1)
        if not is_feasible(gram, length + 1):
            continue
        shape = WeightProfile(
            length=length,
            plateau_end=length // 3,
            growth_start=length - max(2, length // 8),
            p_sink=profile["p_sink"],
            eta=profile["eta"],
            omega=0.7,
            growth=profile["growth"],
        )
        norms = value_norm_profile(length + 1, sink_ratio=profile["lam"])
        sizes = np.array([n for n in SIZES if n <= length])
        out.append(HeadInput(alpha=shape.weights(), norms=norms, gram=gram, dimension=d, n=sizes))
    return out


def random_head(generator: np.random.Generator) -> HeadInput:
    """Draw a head with independent parameters: log-uniform over `RANGES`, the others uniform, |ρ₀|
    up to 0.95 of its feasible edge.
    """
    drawn = {name: float(np.exp(generator.uniform(*np.log(ends)))) for name, ends in RANGES.items()}
    length, dimension = round(drawn["length"]), round(drawn["dimension"])
    offset = max(0.0, float(generator.uniform(-0.3, 0.6)))
    rho0 = float(generator.uniform(-0.95, 0.95)) * feasible_edge(
        drawn["beta"], length, offset=offset
    )
    plateau_end = int(generator.uniform(0, 0.6) * length)
    shape = WeightProfile(
        length=length,
        plateau_end=plateau_end,
        growth_start=int(generator.integers(plateau_end, length + 1)),
        p_sink=float(generator.uniform(0, 0.8)),
        eta=float(generator.uniform(0, 1)),
        omega=float(generator.uniform(0, np.pi)),
        growth=drawn["growth"],
    )
    sizes = np.exp(generator.uniform(np.log(2), np.log(min(length, LARGEST_N) + 1), SIZES_OF_ONE))
    return HeadInput(
        alpha=shape.weights(),
        norms=value_norm_profile(length + 1, sink_ratio=drawn["lam"]),
        gram=offset_exponential(drawn["beta"], offset, rho0, length + 1),
        dimension=dimension,
        n=np.unique(sizes.astype(np.int64)),
    )


def small_head(kind: Kind, generator: np.random.Generator, *, opposed: bool = False) -> HeadInput:
    """Draw one head: T and d log-uniform, Dirichlet weights, norms 1 or lognormal, cosines of the
    given kind; opposed: values have random signs, so that cosines near −1 occur.
    """
    tokens, d = (
        round(float(np.exp(generator.uniform(*np.log(ends)))))
        for ends in (SMALL_TOKENS, SMALL_DIMENSIONS)
    )
    alpha = generator.dirichlet(np.full(tokens, generator.choice([0.3, 1.0, 5.0])))
    norms = np.exp(generator.choice([0.0, 0.5]) * generator.normal(size=tokens))
    rank = int(generator.integers(1, 5)) if kind == "low rank" else tokens + 2
    vectors = generator.normal(size=(tokens, rank)) + generator.choice(
        [0.0, 0.5, 1.5]
    ) * generator.normal(size=rank)
    first_equal = np.arange(tokens)
    if kind in ("clustered", "equal", "parallel"):
        first_equal = generator.integers(0, max(2, tokens // 2), tokens)
        first_equal = np.array([np.flatnonzero(first_equal == group)[0] for group in first_equal])
        jitter = 10 ** generator.uniform(-3, -0.3) if kind == "clustered" else 0.0
        vectors = vectors[first_equal] + jitter * generator.normal(size=vectors.shape)
    if opposed:
        vectors *= generator.choice([-1.0, 1.0], size=(tokens, 1))
    if kind == "equal":
        alpha, norms = alpha[first_equal] / alpha[first_equal].sum(), norms[first_equal]
    if kind == "weightless":
        weightless = generator.random(tokens) < 0.4
        weightless[int(np.argmax(alpha))] = False
        alpha, norms = (
            (alpha * ~weightless, norms)
            if generator.random() < 0.5
            else (alpha, norms * ~weightless)
        )
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    gram = np.clip(units @ units.T, -1, 1)
    np.fill_diagonal(gram, 1.0)
    if kind != "clustered":
        gram = gram[np.ix_(first_equal, first_equal)]
    sizes = np.unique(generator.integers(1, tokens, SIZES_OF_ONE))
    return HeadInput(alpha=alpha, norms=norms, gram=(gram + gram.T) / 2, dimension=d, n=sizes)
