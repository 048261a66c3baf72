"""Compiled kernel of `theory.editions.fitted`: importing it loads numba. Imports numpy and
numba.
"""

from __future__ import annotations

import math

import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.compiled import compiled


@compiled(error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})
def draws_of_head(
    a: FloatArray,
    octave: IntArray,
    coherence: FloatArray,
    is_sink: BoolArray,
    leader: IntArray,
    kappa: float,
    rho: float,
    dimension: int,
    n: IntArray,
    draws: int,
    generator: np.random.Generator,
) -> FloatArray:
    """Return the four quantities of each draw, (4, draw, K).

    By descending weight: `a`, `octave` of each content token, `is_sink`, and `leader`, the first of
    the tokens whose residuals have correlation `kappa` with the token's, which may be itself; −1
    for none. coherence: c of each octave, not rising. n: ascending, each 1 <= n < T.
    """
    tokens, octaves = len(a), len(coherence)
    out = np.zeros((4, draws, len(n)))
    shared, factor = np.empty((octaves, dimension)), np.empty((tokens, dimension))
    y, s, sink = np.empty((tokens, dimension)), np.empty(dimension), np.empty(dimension)
    square, distance = np.empty(tokens), np.empty(tokens)
    scale = 1.0 / math.sqrt(dimension)
    limit = coherence[-1]
    toward = min(max(rho / math.sqrt(max(limit, 1e-3)), -1.0), 1.0)
    own = math.sqrt(1.0 - toward * toward)
    common, alone = math.sqrt(kappa), math.sqrt(1.0 - kappa)
    for draw in range(draws):
        for k in range(dimension):
            mean = scale * generator.standard_normal()
            sink[k] = toward * mean + own * scale * generator.standard_normal()
            total = math.sqrt(limit) * mean
            shared[octaves - 1, k] = total
            for o in range(octaves - 2, -1, -1):
                step = math.sqrt(max(coherence[o] - coherence[o + 1], 0.0))
                total += step * scale * generator.standard_normal()
                shared[o, k] = total
        for token in range(tokens):
            square[token] = 0.0
            if is_sink[token]:
                for k in range(dimension):
                    y[token, k] = a[token] * sink[k]
                    square[token] += y[token, k] * y[token, k]
                continue
            e, of = math.sqrt(1.0 - coherence[octave[token]]), leader[token]
            for k in range(dimension):
                residual = scale * generator.standard_normal()
                if of == token:
                    factor[token, k] = scale * generator.standard_normal()
                if of >= 0:
                    residual = common * factor[of, k] + alone * residual
                y[token, k] = a[token] * (shared[octave[token], k] + e * residual)
                square[token] += y[token, k] * y[token, k]
        s[:] = 0.0
        start = 0
        for index in range(len(n)):
            stop = n[index]
            for token in range(start, stop):
                for k in range(dimension):
                    s[k] += y[token, k]
            start = stop
            for token in range(tokens):
                inner = 0.0
                for k in range(dimension):
                    inner += s[k] * y[token, k]
                distance[token] = square[token] - 2.0 * inner
            farthest, nearest = distance[:stop].max(), distance[stop:].min()
            near, found = 0, 0
            for token in range(stop, tokens):
                near += distance[token] <= farthest
            for token in range(stop):
                found += distance[token] <= nearest
            p, r = stop / (stop + near), found / stop
            out[0, draw, index], out[1, draw, index] = p, r
            out[2, draw, index] = 2.0 * p / (1.0 + p)
            out[3, draw, index] = 2.0 * r / (1.0 + r)
    return out
