"""The greedy choice of tokens for an attention output: matching pursuit with the model's own
coefficients.

Of the output o = Σ αv the tokens are taken one after the other: each time the one after which
‖o − Σ_I αv‖ is smallest. Imports torch.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def greedy_scores(weights: Tensor, of_heads: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """Return scores whose order is that of the choice, of the weights' shape.

    With the residual r = o − Σ_I αv, token j takes 2 α_j ⟨r, v_j⟩ − α_j² ‖v_j‖² off ‖r‖²; taking k
    takes α_k ⟨v_k, v_j⟩ off ⟨r, v_j⟩.

    Args:
        weights: α, (document, head, query, position); tokens without weight come last.
        of_heads: lays (document, kv_head, position) beside the heads, as `Rows.of_heads`.
        values: (document, kv_head, position, dimension).
    """
    gram = values @ values.transpose(-1, -2)
    group = weights.shape[1] // values.shape[1]
    gram = gram.repeat_interleave(group, dim=1)  # (document, head, position, position)
    squares = weights**2 * of_heads((values**2).sum(dim=-1))
    left = weights @ gram  # ⟨r, v_j⟩ of every query
    scores = torch.full_like(weights, -torch.inf)
    free = weights > 0
    for step in range(weights.shape[-1]):
        gain = (2 * weights * left - squares).masked_fill(~free, -torch.inf)
        best = gain.argmax(dim=-1, keepdim=True)
        some = free.gather(-1, best)
        scores.scatter_(-1, best, torch.where(some, -float(step), scores.gather(-1, best)))
        free.scatter_(-1, best, False)
        taken = weights.gather(-1, best) * some
        rows = gram.gather(2, best.expand(-1, -1, -1, gram.shape[-1]))
        left -= taken * rows
    return scores
