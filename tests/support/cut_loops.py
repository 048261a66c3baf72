"""Top-N attention by plain float64 loops, independent of geostat's implementation. It replaces
transformers' eager attention of a float64 model, with additive masks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from empirical.tap.interface import implementation

NAME = "cut_by_loops"


def logits(
    model: PreTrainedModel, ids: torch.Tensor, rule: str, mode: str, n: list[int] | None
) -> torch.Tensor:
    """Return the logits of a float64 model whose queries keep N tokens (per head, or as the rule
    selects).
    """

    def attend(
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor,
        scaling: float | None = None,
        softcap: float | None = None,
        s_aux: torch.Tensor | None = None,
        **_: Any,
    ) -> tuple[torch.Tensor, None]:
        q, k, v, m = (x.numpy() for x in (query, key, value, attention_mask))
        documents, heads, positions, dimension = q.shape
        group = heads // k.shape[1]
        scale = dimension**-0.5 if scaling is None else scaling
        out = np.zeros((documents, positions, heads, v.shape[-1]))
        for d, h, i in np.ndindex(documents, heads, positions):
            seen = np.flatnonzero(m[d, 0, i] == 0)
            z = k[d, h // group, seen] @ q[d, h, i] * scale
            if softcap is not None:
                z = softcap * np.tanh(z / softcap)
            extra = [] if s_aux is None else [float(s_aux[h])]
            top = max([*z, *extra])
            total = np.exp(z - top).sum() + np.exp(np.array(extra) - top).sum()
            alpha = np.exp(z - top) / total
            values = v[d, h // group]
            kept = chosen(rule, None if n is None else n[h], z, alpha, values, seen)
            weights = np.where(kept, alpha, 0.0)
            if mode == "renormalisation":
                weights *= alpha.sum() / weights.sum()
            out[d, i, h] = weights @ values[seen]
        return torch.from_numpy(out), None

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, eager_mask)
    with implementation(model.get_decoder(), NAME), torch.no_grad():
        return model(input_ids=ids, use_cache=False).logits


def chosen(
    rule: str, n: int | None, z: np.ndarray, alpha: np.ndarray, values: np.ndarray, seen: np.ndarray
) -> np.ndarray:
    """Return which visible tokens are kept, (token) bool."""
    if rule == "sparsemax":
        tau = brentq(lambda t: np.maximum(z - t, 0).sum() - 1, z.max() - 2, z.max())
        return z > tau
    if rule == "entmax15":
        half = z / 2
        tau = brentq(lambda t: (np.maximum(half - t, 0) ** 2).sum() - 1, half.max() - 2, half.max())
        return half > tau
    assert n is not None
    if rule == "greedy":
        return greedy(n, alpha, values[seen])
    own = values[seen]
    with np.errstate(invalid="ignore"):
        scores = {
            "attention": alpha,
            "contribution": alpha * np.linalg.norm(own, axis=1),
            "sink-orthogonal": -abs(
                own @ values[0] / (np.linalg.norm(own, axis=1) * np.linalg.norm(values[0]))
            ),
            "recent": seen,
            "sink-recent": np.where(seen == 0, np.inf, seen),
        }[rule]
    order = sorted(range(len(seen)), key=lambda j: (-scores[j], j))
    return np.isin(np.arange(len(seen)), order[:n])


def greedy(n: int, alpha: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Select greedily by trying every token at every step."""
    goal, kept = alpha @ own, np.zeros(len(alpha), dtype=bool)
    for _ in range(min(n, len(alpha))):
        found = []
        for j in np.flatnonzero(~kept):
            tried = kept.copy()
            tried[j] = True
            found.append((np.linalg.norm(goal - (alpha * tried) @ own), j))
        kept[min(found)[1]] = True
    return kept
