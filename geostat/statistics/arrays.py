"""Array types, and a ratio where there is one."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def ratio(above: ArrayLike, below: ArrayLike, otherwise: float = np.nan) -> FloatArray:
    """Return above/below where `below` is positive, and `otherwise` elsewhere; the two broadcast.

    >>> ratio([1.0, 1.0], [2.0, 0.0])
    array([0.5, nan])
    """
    top, bottom = np.broadcast_arrays(np.asarray(above), np.asarray(below))
    return np.divide(top, bottom, out=np.full(top.shape, otherwise), where=bottom > 0)
