"""What is known of each head of a document: separability, kept mass and entropy, means over the
same queries, spread over the window. Imports torch.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch

from empirical.measure.queries import Row, measure_layer
from empirical.tap.tap import TappedLayer, tap
from geostat.runs.effective.evaluations import FloatArray

QUERIES: Final = 16
"""Queries of a window, at equal distances, the last among them."""
CURVES: Final = ("precision", "recall", "f_outer", "f_inner")


def known_of_heads(
    model: Any, token_ids: FloatArray, sizes: list[int], convention: str
) -> dict[str, FloatArray]:
    """Measure the heads of one document in one forward.

    Args:
        model: as for `tap`.
        token_ids: (position).
        sizes: N of the curves.
        convention: of F, as the run has it.

    Returns:
        CURVES (layer, head, n) over the queries that see N tokens; kept_mass (layer, head,
        position), the share of the weights of the N = 1, 2, … largest, 1 where a query sees fewer;
        entropy of the weights in nats (layer, head). With learned sinks weights sum below 1, and
        shares are of their sum.
    """
    tokens = len(token_ids)
    last = np.linspace(tokens / QUERIES, tokens, QUERIES).round().astype(int)
    places = np.unique(np.maximum(last, 1)) - 1
    layers: list[dict[str, FloatArray]] = []

    def on_layer(layer: TappedLayer) -> None:
        alpha = layer.alpha[0].float().cpu().numpy()
        values = layer.values[0].float().cpu().numpy()
        rows = [
            Row(position=int(place), first=first, alpha=weights[:, first : place + 1])
            for weights, place, first in zip(alpha, places, layer.first[0], strict=True)
        ]
        # as `measure_layer` does: where the last query does not see the sink, none may
        same = [(row.first == 0) == (rows[-1].first == 0) for row in rows]
        measured = measure_layer(rows, values, sizes, convention=convention)
        wide = alpha[same].astype(np.float64)
        shares = np.sort(wide, axis=-1)[..., ::-1] / wide.sum(axis=-1, keepdims=True)
        logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
        layers.append(
            {name: measured[name] for name in CURVES}
            | {
                "kept_mass": np.cumsum(shares, axis=-1).mean(axis=0),
                "entropy": -(shares * logs).sum(axis=-1).mean(axis=0),
            }
        )

    ids = torch.as_tensor(token_ids[None], dtype=torch.long)
    tap(model, ids, on_layer, queries=torch.as_tensor(places[None]))
    return {name: np.stack([one[name] for one in layers]) for name in layers[0]}
