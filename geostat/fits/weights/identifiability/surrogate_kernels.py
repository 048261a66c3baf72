"""Compiled kernels of the surrogate tests: whitening, and the scan over pairs of break points.

No kernel here calls one of another file, so numba's cache, which watches a kernel's own file, never
goes stale. Imports empirical, for its compiler, numpy and numba.
"""

from __future__ import annotations

import numpy as np

from empirical.measure.compiled import compiled


@compiled()
def whiten(rows, phi, theta, variance, out):  # type: ignore[no-untyped-def]
    """Write the innovations of ARMA(1,1) rows, in units of their standard deviation; the first
    token counts by the noise's own.
    """
    for i in range(rows.shape[0]):
        sigma = np.sqrt(variance[i])
        stationary = np.sqrt((1.0 + theta[i] ** 2 + 2.0 * phi[i] * theta[i]) / (1.0 - phi[i] ** 2))
        before = rows[i, 0] / stationary
        out[i, 0] = before / sigma
        for t in range(1, rows.shape[1]):
            before = rows[i, t] - phi[i] * rows[i, t - 1] - theta[i] * before
            out[i, t] = before / sigma


@compiled()
def best_pair(sums, squares, edges, frequencies, shortest):  # type: ignore[no-untyped-def]
    """Return the largest gain s²/q over pairs of edges and frequencies; s, q are prefix sums
    (edge, frequency), and s must be positive.
    """
    best = 0.0
    for f in range(frequencies.size):
        span = max(float(shortest), 2.0 * np.pi / frequencies[f])
        for b in range(1, edges.size):
            for a in range(b):
                if edges[b] - edges[a] < span:
                    break
                s = sums[b, f] - sums[a, f]
                if s > 0.0:
                    gain = s * s / (squares[b, f] - squares[a, f])
                    if gain > best:
                        best = gain
    return best
