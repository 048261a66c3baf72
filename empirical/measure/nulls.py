"""Null baselines: what separability would a head have if its selection, or its directions, were
random?

Source: arXiv 2602.01893, §4 (random selection). Two draws a head:

- random_selection: a random permutation takes the place of the order of weights, so the selections
  are nested as the measured ones are; α and v stay.
- random_directions: each value state keeps its norm and gets an independent uniform direction;
  selection by weight. This is the independent regime of the theory.

One seed gives one result, whatever the number of threads and whatever else is measured. Imports
numpy, torch and `empirical.measure.selection`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from empirical.measure.compiled import compiled, spread
from empirical.measure.convention import Convention
from empirical.measure.head_kernels import square
from empirical.measure.selection import (
    ArrayLike,
    by_size,
    head_arrays,
    order_by_weight,
    separability_tasks,
)
from empirical.measure.sizes import Sizes


def random_orders(seed: np.random.SeedSequence, heads: int, tokens: int) -> np.ndarray:
    """Return one random order of the tokens for each head, (head, token) int64."""
    generator = np.random.Generator(np.random.SFC64(seed))
    return np.stack([generator.permutation(tokens) for _ in range(heads)])


def random_directions(values: np.ndarray, seed: np.random.SeedSequence, out: np.ndarray) -> None:
    """Fill `out` with vectors of the norms of `values` in independent uniform directions,
    (token, dimension).
    """
    generator = torch.Generator().manual_seed(int(seed.generate_state(1)[0]))
    torch.from_numpy(out).normal_(generator=generator)  # a third of NumPy's time
    _match_norms(values, out)


@compiled()
def _match_norms(values: Any, out: Any) -> None:
    """Scale each row of `out` to the norm of the same row of `values`."""
    for i in range(values.shape[0]):
        scale = np.sqrt(square(values[i]) / square(out[i]))
        for k in range(values.shape[1]):
            out[i, k] *= scale


def measure_layer(
    alpha: ArrayLike,
    values: ArrayLike,
    n: Any,
    *,
    seed: Sequence[int],
    convention: Convention | str = Convention.PAPER,
    threads: int | None = None,
) -> dict[str, np.ndarray]:
    """Measure both baselines of every head of one document's layer.

    Args:
        alpha, values, n, convention, threads: as of `layer.measure_layer`.
        seed: non-negative integers, for instance (seed of the run, hash of the window, layer).

    Returns:
        precision, recall, r_min, r_max, each (head, null, n), `null` as in `schema.NULLS`; NaN for
        N > T.

    Raises:
        InputError: as `selection.separability`.
    """
    convention = Convention(convention)
    rows, states = head_arrays(alpha, values)
    heads, tokens = rows.shape
    sizes = Sizes(n, tokens)
    seeds = np.random.SeedSequence([int(word) for word in seed]).spawn(len(states) + 1)
    drawn = np.empty_like(states)
    spread(
        [partial(random_directions, states[k], seeds[k], drawn[k]) for k in range(len(states))],
        threads=threads,
    )
    selected = separability_tasks(
        rows, states, random_orders(seeds[-1], heads, tokens), sizes.inside, convention
    )
    turned = separability_tasks(rows, drawn, order_by_weight(rows), sizes.inside, convention)
    spread([*selected[1], *turned[1]], threads=threads)
    return by_size(
        np.stack([selected[0], turned[0]], axis=1), sizes, tokens, convention, rows.dtype
    )
