"""Types of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["BoolArray", "FloatArray"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
