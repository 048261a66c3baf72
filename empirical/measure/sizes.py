"""Sizes N of a selection: the default grid, and those asked for. Imports numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from empirical.errors import InputError

DENSE = 64
"""Up to here the default grid takes every N: Tables and Figures of the paper look at small N."""

LOG_SPACED = 96
"""Values of the default grid beyond `DENSE`, before rounding to integers."""


def default_n(tokens: int) -> np.ndarray:
    """Return the default grid of N: every N up to 64, then about 96 log-spaced values, the last one
    T; int64, ascending.

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
    """The requested N, `asked`, and the distinct ones up to T, ascending, `inside`; both int64.
    None asks for the default grid.

    Raises:
        InputError: if an N is not a positive integer.
    """

    def __init__(self, n: Any, tokens: int) -> None:
        asked = np.atleast_1d(default_n(tokens) if n is None else np.asarray(n))
        if asked.ndim != 1 or (asked.size and (asked.dtype.kind not in "iu" or asked.min() < 1)):
            raise InputError(
                f"n = {np.asarray(n).tolist()!r}: expected a list of integers from 1. Use range(1,"
                " T + 1) for every N."
            )
        self.asked = asked.astype(np.int64)
        self.inside = np.unique(self.asked[self.asked <= tokens])

    def scatter(self, measured: np.ndarray) -> np.ndarray:
        """Take (..., distinct N) to (..., asked N), NaN for N > T."""
        behind = np.full(
            (*measured.shape[:-1], 1), np.nan, measured.dtype
        )  # where N > T would stand
        return np.take(
            np.concatenate([measured, behind], axis=-1),
            np.searchsorted(self.inside, self.asked),
            axis=-1,
        )
