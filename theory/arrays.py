"""Array types, and the order in which tokens are selected. Imports numpy only."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def selection_order(alpha: FloatArray) -> IntArray:
    """Return the order in which tokens enter I_N, by falling weight, ties by lower index: (…, T),
    as the weights.
    """
    return np.argsort(-alpha, kind="stable").astype(np.int64)
