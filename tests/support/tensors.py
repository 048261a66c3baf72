"""Random attention weights and values of a few layers, as another program would give them."""

from __future__ import annotations

import numpy as np
import torch

from empirical.sources.tensors import GivenTensors
from empirical.tap.tap import TappedLayer

DOCUMENTS, LAYERS, HEADS, KV_HEADS, POSITIONS, DIMENSION = 3, 2, 4, 2, 20, 3


def arrays(documents: int = DOCUMENTS) -> tuple[np.ndarray, np.ndarray]:
    """Return attention weights and values, each by document and layer."""
    chance = np.random.default_rng(0)
    alpha = chance.dirichlet(np.ones(POSITIONS), size=(documents, LAYERS, HEADS))
    values = chance.normal(size=(documents, LAYERS, KV_HEADS, POSITIONS, DIMENSION))
    return alpha.astype(np.float32), values.astype(np.float32)


def read(source: GivenTensors, document: int) -> list[TappedLayer]:
    """Return the layers of the next document."""
    layers: list[TappedLayer] = []
    rows = torch.as_tensor(source.queries.positions(POSITIONS, [""]))
    source.hand_over(range(document, document + 1), np.empty((1, 0), int), rows, layers.append)
    return layers
