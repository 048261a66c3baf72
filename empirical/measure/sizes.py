"""Selection sizes N: the default grid and requested sizes. Imports numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from empirical.errors import InputError

DENSE = 64
"""Largest N up to which the default grid is dense: tables and figures of the paper use small N."""

LOG_SPACED = 96
"""Number of log-spaced values of the default grid beyond `DENSE`, before rounding to integers."""


def default_n(tokens: int) -> np.ndarray:
    """Return the default grid of N, int64: every N up to 64, then about 96 log-spaced values up to
    T.

    >>> default_n(1024)[[0, 63, 64, 65, -1]]
    array([   1,   64,   66,   68, 1024])
    """
    if tokens < 1:
        raise InputError(f"{tokens} tokens: a head needs at least one. Use a longer window.")
    sparse = (
        np.geomspace(DENSE, tokens, LOG_SPACED + 1).round().astype(np.int64)
        if tokens > DENSE
        else np.array([tokens])
    )
    return np.unique(np.concatenate([np.arange(1, min(tokens, DENSE) + 1), sparse])).astype(
        np.int64
    )


class Sizes:
    """Requested N (None: the default grid), and the distinct ones up to T, ascending (`inside`);
    int64. An InputError if an N is not a positive integer.
    """

    def __init__(self, n: Any, tokens: int) -> None:
        requested = np.atleast_1d(default_n(tokens) if n is None else np.asarray(n))
        if requested.ndim != 1 or (
            requested.size and (requested.dtype.kind not in "iu" or requested.min() < 1)
        ):
            raise InputError(
                f"n = {np.asarray(n).tolist()!r}: expected a list of integers from 1. Use range(1,"
                " T + 1) for every N."
            )
        self.requested = requested.astype(np.int64)
        self.inside = np.unique(self.requested[self.requested <= tokens])

    def scatter(self, measured: np.ndarray) -> np.ndarray:
        """Map (..., distinct N) to (..., requested N), with NaN for N > T."""
        behind = np.full((*measured.shape[:-1], 1), np.nan, measured.dtype)  # the entry for N > T
        return np.take(
            np.concatenate([measured, behind], axis=-1),
            np.searchsorted(self.inside, self.requested),
            axis=-1,
        )
