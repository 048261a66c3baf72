"""Random layers: the weights of heads and the values of their KV heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st


def random_layer(
    heads: int,
    kv_heads: int,
    tokens: int,
    dimension: int,
    *,
    concentration: float = 0.3,
    kind: type = np.float32,
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights (head, token) and values (kv_head, token, dimension)."""
    generator = np.random.default_rng(0)
    alpha = generator.dirichlet(np.full(tokens, concentration), size=heads)
    return alpha.astype(kind), generator.normal(size=(kv_heads, tokens, dimension)).astype(kind)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Weights and values of one layer in float32, and how it is measured."""

    alpha: np.ndarray
    values: np.ndarray
    sink: bool
    positions: int
    convention: str

    @property
    def tokens(self) -> int:
        return self.alpha.shape[1]

    @property
    def sizes(self) -> list[int]:
        """Every N, and one beyond the tokens."""
        return [*range(1, self.tokens + 1), self.tokens + 2]

    @property
    def options(self) -> dict[str, Any]:
        return {"sink": self.sink, "positions": self.positions, "convention": self.convention}


@st.composite
def layers(draw: st.DrawFn, *, most: int = 40) -> Layer:
    """Layers of models in float32, bfloat16 and float16, whose values are taken to float32; with
    grouped queries, sinks out of sight, equal contributions, zero vectors, zero and equal weights.
    """
    generator = np.random.default_rng(draw(st.integers(0, 10**6)))
    kv_heads, group = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    tokens = draw(st.one_of(st.integers(1, 3), st.integers(1, most)))
    alpha = np.exp(2 * generator.normal(size=(kv_heads * group, tokens)))
    values = generator.normal(size=(kv_heads, tokens, draw(st.integers(2, 16)))) + 0.3
    positions = st.integers(0, tokens - 1)
    equal, zero = draw(st.lists(positions, max_size=4)), draw(st.lists(positions, max_size=3))
    for position in equal[1:]:
        alpha[:, position], values[:, position] = alpha[:, equal[0]], values[:, equal[0]]
    for position in zero:
        (values if draw(st.booleans()) else alpha)[:, position] = 0
    kind = draw(st.sampled_from([torch.float32, torch.bfloat16, torch.float16]))
    total = np.maximum(alpha.sum(axis=1, keepdims=True), 1e-30)
    sink = draw(st.booleans())
    return Layer(
        alpha=(alpha / total).astype(np.float32),
        values=torch.from_numpy(values).to(kind).float().numpy(),
        sink=sink,
        positions=tokens if sink else tokens + draw(st.sampled_from([0, 5])),
        convention=draw(st.sampled_from(["paper", "followup"])),
    )
