"""Hypothesis strategies: heads whose Gram is feasible, and exact rational heads."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from theory.arrays import FloatArray
from theory.evaluate.envelopes import envelope
from theory.head.gram import LagGram, feasible_edge, offset_exponential
from theory.head.results import Edition, Envelope


@dataclass(frozen=True, kw_only=True)
class DrawnHead:
    """α, ‖v‖, a feasible Gram, d and the sink's position."""

    alpha: FloatArray
    norms: FloatArray
    gram: LagGram
    dimension: int
    sink: int | None

    @property
    def tokens(self) -> int:
        """T."""
        return len(self.alpha)

    def envelope(self, n: Any, edition: Edition, *, scale: float = 1.0, **options: Any) -> Envelope:
        """Return the bounds at sizes n; scale: multiplies the norms."""
        options = {"sink": self.sink, "edition": edition} | options
        d = options.pop("dimension", self.dimension)
        return envelope(self.alpha, self.norms * scale, self.gram, d, n, **options)


@st.composite
def heads(
    draw: st.DrawFn, *, min_tokens: int = 2, max_tokens: int = 12, min_dimension: int = 2
) -> DrawnHead:
    """Heads with ties and zero weights among them, sinks in and out of sight, and ρ₀ of either
    sign.
    """
    tokens = draw(st.integers(min_tokens, max_tokens))
    weight = st.one_of(st.floats(1e-4, 1.0), st.sampled_from([0.0, 0.25, 0.5]))
    alpha = np.array(draw(st.lists(weight, min_size=tokens, max_size=tokens)))
    norms = np.array(draw(st.lists(st.floats(0.5, 2.0), min_size=tokens, max_size=tokens)))
    beta, offset = draw(st.floats(0.05, 3.0)), draw(st.floats(0.0, 0.8))
    rho0 = draw(st.floats(-0.95, 0.95)) * feasible_edge(beta, max(1, tokens - 1), offset=offset)
    sink = draw(st.sampled_from([0, None]))
    return DrawnHead(
        alpha=alpha,
        norms=norms,
        gram=offset_exponential(beta, offset, rho0, tokens),
        dimension=draw(st.integers(min_dimension, 96)),
        sink=sink,
    )


@dataclass(frozen=True, kw_only=True)
class RationalHead:
    """Effective weights in order of selection (largest first) and symmetric cosines, exact; the
    sink is at `sink` and N = n.
    """

    a: list[Fraction]
    rho: list[list[Fraction]]
    n: int
    sink: int


@st.composite
def rational_heads(draw: st.DrawFn, *, max_tokens: int = 6) -> RationalHead:
    """Heads with distinct positive rational weights and rational cosines of any sign."""
    tokens = draw(st.integers(3, max_tokens))
    a = draw(
        st.lists(
            st.fractions(Fraction(1, 20), 2, max_denominator=40),
            min_size=tokens,
            max_size=tokens,
            unique=True,
        )
    )
    rho = [[Fraction(1)] * tokens for _ in range(tokens)]
    for row in range(tokens):
        for column in range(row):
            rho[row][column] = rho[column][row] = draw(
                st.fractions(Fraction(-9, 10), Fraction(9, 10), max_denominator=20)
            )
    return RationalHead(
        a=sorted(a, reverse=True),
        rho=rho,
        n=draw(st.integers(1, tokens - 1)),
        sink=draw(st.integers(0, tokens - 1)),
    )
