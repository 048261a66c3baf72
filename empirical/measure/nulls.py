"""Null baselines: the separability of a head with random selection, random directions or permuted
values.

Source: arXiv 2602.01893, §4 (random selection). One draw of each for a document:

- random_selection: a random permutation replaces the order of weights, so selections are nested
  like the measured ones; α and v are unchanged.
- random_directions: each value state keeps its norm and gets an independent uniform direction;
  selection by weight. This is the independent regime of the theory.
- permuted_values: the values of content tokens are permuted; the sink keeps its value.
- permuted_sink: the values of content tokens are permuted, and the sink's norm gets the direction
  of a random token.
- permuted_octaves: values are permuted within octaves of the rank of α (1, 2-3, 4-7, …).
- other_head: each token has its value in the next KV head of the layer.

Random selection is drawn for each query; all other draws are those of a KV head, shared by its
query heads and queries. Permutations are measured at the sizes of `small_sizes`. A seed determines
the result, whatever the number of threads and other measurements. Imports numpy, torch and
`queries`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from empirical.measure.compiled import compiled, spread
from empirical.measure.head_kernels import square
from empirical.measure.permutations import Permutations, permuted, small_sizes
from empirical.measure.queries import (
    Row,
    alike,
    arrays_of,
    mean_of_finite,
    selections,
    separability,
)
from empirical.measure.selection import MEASURES, ArrayLike, Convention, Sizes
from empirical.schema import NULLS


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


def seeds_of(
    seed: Sequence[int], kv_heads: int
) -> tuple[list[np.random.SeedSequence], np.random.SeedSequence, np.random.SeedSequence]:
    """Return the seeds of each KV head's directions, of orders and of permutations."""
    root = np.random.SeedSequence([int(word) for word in seed])
    *directions, orders, permutations = root.spawn(kv_heads + 2)
    return directions, orders, permutations


def draw_values(states: np.ndarray, seeds: Sequence[np.random.SeedSequence]) -> np.ndarray:
    """Return values, (kv_head, token, dimension), in random directions."""
    drawn = np.empty_like(states)
    arrays = zip(states, seeds, drawn, strict=True)
    spread([partial(random_directions, *of_kv_head) for of_kv_head in arrays])
    return drawn


def measure_layer(
    rows: Sequence[Row],
    values: ArrayLike,
    n: Any,
    *,
    seed: Sequence[int],
    convention: Convention = Convention.PAPER,
) -> dict[str, np.ndarray]:
    """Measure all baselines of every head of one document's layer, averaged over its queries.

    rows, values, n, convention, errors: as of `queries.measure_layer`. seed: non-negative integers,
    for example (seed of the run, hash of the window, layer).

    Returns:
        precision, recall, r_min, r_max, each (head, null, n), `null` as in `schema.NULLS`; NaN for
        N > T, for nulls that the layer does not have, and for permutations at sizes that
        `small_sizes` leaves out.
    """
    rows = [rows[query] for query in alike(rows)]
    alphas, states = arrays_of(rows, values)
    direction_seeds, order_seed, permutation_seed = seeds_of(seed, len(states))
    drawn = draw_values(states, direction_seeds)
    orders = [
        random_orders(of_query, *alpha.shape)
        for of_query, alpha in zip(order_seed.spawn(len(rows)), alphas, strict=True)
    ]
    sizes = small_sizes(Sizes(n, states.shape[1]).requested)
    norms = torch.from_numpy(np.linalg.norm(states, axis=-1))
    draw = Permutations.draw(permutation_seed, *states.shape[:2])
    by_row = [
        permuted(
            torch.from_numpy(alpha),
            norms[:, row.first : row.position + 1],
            draw.seen(row.first, row.position + 1),
            sink=row.first == 0,
        )
        for row, alpha in zip(rows, alphas, strict=True)
    ]
    names = ["random_selection", *by_row[0]]
    selected = selections(rows, alphas, states, n, convention, orders)
    for name in by_row[0]:
        weights, by_weight = ([of_row[name][part].numpy() for of_row in by_row] for part in (0, 1))
        selected += selections(rows, weights, states, sizes, convention, by_weight)
    found, count = separability(rows, selected, states), len(rows)
    measured = {name: found[i * count : (i + 1) * count] for i, name in enumerate(names)}
    selected = selections(rows, alphas, drawn, n, convention)
    measured["random_directions"] = separability(rows, selected, drawn)
    group = len(alphas[0]) // len(states)
    nothing = np.full((len(alphas[0]), sizes.size), np.nan)

    def mean(null: str, name: str) -> np.ndarray:
        if null not in measured:
            return nothing
        curves = mean_of_finite(np.stack([of_row[name] for of_row in measured[null]]))
        return np.roll(curves, -group, axis=0) if null == "other_head" else curves

    return {
        name: np.stack([mean(null, name) for null in NULLS], axis=1).astype(alphas[-1].dtype)
        for name in MEASURES
    }
