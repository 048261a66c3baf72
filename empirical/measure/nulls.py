"""Null baselines: the separability of a head with random selection or random directions.

Source: arXiv 2602.01893, §4 (random selection). Each head has two draws:

- random_selection: a random permutation replaces the order of weights, so selections are nested
  like the measured ones; α and v are unchanged.
- random_directions: each value state keeps its norm and gets an independent uniform direction;
  selection by weight. This is the independent regime of the theory.

A seed determines the result, whatever the number of threads and other measurements. Imports numpy,
torch and `empirical.measure.selection`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from empirical.measure.compiled import compiled, spread
from empirical.measure.head_kernels import square
from empirical.measure.selection import MEASURES, ArrayLike, Convention, Selection, head_arrays


def random_orders(seed: np.random.SeedSequence, heads: int, tokens: int) -> np.ndarray:
    """Return one random order of the tokens for each head, (head, token) int64."""
    generator = np.random.Generator(np.random.SFC64(seed))
    return np.stack([generator.permutation(tokens) for _ in range(heads)])


def random_directions(values: np.ndarray, seed: np.random.SeedSequence, out: np.ndarray) -> None:
    """Fill `out`, (token, dimension), with vectors of the norms of `values`, directed at random."""
    generator = torch.Generator().manual_seed(int(seed.generate_state(1)[0]))
    torch.from_numpy(out).normal_(generator=generator)  # takes a third of NumPy's time
    _match_norms(values, out)


@compiled()
def _match_norms(values: Any, out: Any) -> None:
    """Scale each row of `out` to the norm of the same row of `values`."""
    for i in range(values.shape[0]):
        scale = np.sqrt(square(values[i]) / square(out[i]))
        for k in range(values.shape[1]):
            out[i, k] *= scale


def draw_values(
    states: np.ndarray, seed: Sequence[int]
) -> tuple[np.ndarray, np.random.SeedSequence]:
    """Return values, (kv_head, token, dimension), in random directions, and the seed of orders."""
    root = np.random.SeedSequence([int(word) for word in seed])
    *kv_head_seeds, order_seed = root.spawn(len(states) + 1)
    drawn = np.empty_like(states)
    arrays = zip(states, kv_head_seeds, drawn, strict=True)
    spread([partial(random_directions, *of_kv_head) for of_kv_head in arrays])
    return drawn, order_seed


def measure_layer(
    alpha: ArrayLike,
    values: ArrayLike,
    n: Any,
    *,
    seed: Sequence[int],
    convention: Convention = Convention.PAPER,
) -> dict[str, np.ndarray]:
    """Measure both baselines of every head of one document's layer.

    alpha, values, n, convention, errors: as of `layer.measure_layer`. seed: non-negative
    integers, for example (seed of the run, hash of the window, layer).

    Returns:
        precision, recall, r_min, r_max, each (head, null, n), `null` as in `schema.NULLS`; NaN for
        N > T.
    """
    alpha, states = head_arrays(alpha, values)
    drawn, order_seed = draw_values(states, seed)
    baselines = (
        Selection(alpha, states, n, convention, random_orders(order_seed, *alpha.shape)),
        Selection(alpha, drawn, n, convention),
    )
    spread([task for baseline in baselines for task in baseline.tasks()])
    measured = [baseline.named() for baseline in baselines]
    return {name: np.stack([named[name] for named in measured], axis=1) for name in MEASURES}
