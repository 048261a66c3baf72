"""Reasons, as bits of an integer: why a number of a result is missing or should not be trusted. Follows the CF conventions, section 3.5.

Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from geostat.datasets.words import described


def combined(said: Mapping[str, NDArray[np.bool_]], order: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the sum of 2^i over the reasons that apply, i the place of the reason in `order`.

    Args:
        said: where each reason applies, arrays of one shape; a reason that is left out applies nowhere.
        order: every reason, in the order of its bits.
    """
    shape = np.broadcast_shapes(*(array.shape for array in said.values()))
    total = np.zeros(shape, dtype=np.int64)
    for name, where in said.items():
        total += where.astype(np.int64) << order.index(name)
    return total


def flag_variable(dims: tuple[str, ...], bits: NDArray[np.int64], meanings: Mapping[str, str], *, long_name: str) -> xr.Variable:
    """Return flags as a result's variable; `flag_meanings` names the bits, `note` explains them."""
    note = "; ".join(f"{name}: {words}" for name, words in meanings.items())
    masks = [1 << place for place in range(len(meanings))]
    return described(
        dims, bits, long_name=long_name, units="1", symbol="", equation="", flag_masks=masks, flag_meanings=" ".join(meanings), note=note
    )


def reasons(flags: xr.DataArray) -> list[str]:
    """Return the names of the reasons that a single flag holds, such as `reasons(similarity["flags"].sel(gram="offset")[5, 1])`."""
    names = str(flags.attrs["flag_meanings"]).split()
    return [name for name, mask in zip(names, flags.attrs["flag_masks"], strict=True) if int(flags) & int(mask)]
