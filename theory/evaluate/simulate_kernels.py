"""Compiled kernel of `theory.evaluate.simulate`: importing it loads numba.

Imports numpy and numba.
"""

from __future__ import annotations

import numpy as np

from theory.arrays import FloatArray, IntArray
from theory.compiled import compiled


@compiled(error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})
def counts_of_draws(y: FloatArray, order: IntArray, n: IntArray, tie: float) -> FloatArray:
    """Return the numbers of outside tokens in the closed outer ball and of selected tokens in the
    closed and in the strict inner ball, (3, K, m).

    Squared distances are compared without the common ‖s‖²: D_l − ‖s‖² = ‖y_l‖² − 2⟨s, y_l⟩ keeps
    digits for tiny weights.

    Args:
        y: contributions (T, m, d).
        order: (m, T) order of selection of each draw.
        n: ascending sizes, each 1 <= n < T.
        tie: relative difference of squared distances below which two tokens are tied.
    """
    tokens, draws, dimension = y.shape
    counts = np.zeros((3, len(n), draws))
    ranked, s = np.empty((tokens, dimension)), np.empty(dimension)
    square, distance = np.empty(tokens), np.empty(tokens)
    for draw in range(draws):
        for rank in range(tokens):
            square[rank] = 0.0
            for k in range(dimension):
                ranked[rank, k] = y[order[draw, rank], draw, k]
                square[rank] += ranked[rank, k] ** 2
        s[:] = 0.0
        start = 0
        for index in range(len(n)):
            stop = n[index]
            for rank in range(start, stop):
                for k in range(dimension):
                    s[k] += ranked[rank, k]
            start = stop
            for rank in range(tokens):
                inner = 0.0
                for k in range(dimension):
                    inner += s[k] * ranked[rank, k]
                distance[rank] = square[rank] - 2 * inner
            farthest, nearest = distance[:stop].max(), distance[stop:].min()
            outer, margin = farthest + tie * abs(farthest), tie * abs(nearest)
            for rank in range(stop, tokens):
                counts[0, index, draw] += distance[rank] <= outer
            for rank in range(stop):
                counts[1, index, draw] += distance[rank] <= nearest + margin
                counts[2, index, draw] += distance[rank] < nearest - margin
    return counts
