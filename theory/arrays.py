"""Array types and the order of token selection. Imports numpy only."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def selection_order(alpha: FloatArray) -> IntArray:
    """Return the order of entry into I_N, (…, T): descending weight, ties by lower index."""
    return np.argsort(-alpha, kind="stable").astype(np.int64)
