"""Flags and codes: integer variables whose bits or values have named meanings.

Flags say why a number is missing or unreliable; codes name one of several labels, such as the
chosen form (CF conventions, section 3.5). Imports numpy and xarray.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from empirical.schema import Quantity


def combined(applies: Mapping[str, NDArray[np.bool_]], order: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the sum of 2^i over the reasons that apply, i the index of the reason in `order`.

    A reason that `applies` lacks applies nowhere.
    """
    shape = np.broadcast_shapes(*(array.shape for array in applies.values()))
    total = np.zeros(shape, dtype=np.int64)
    for name, where in applies.items():
        total += where.astype(np.int64) << order.index(name)
    return total


def flags(
    name: str, long_name: str, meanings: Mapping[str, str], dims: tuple[str, ...]
) -> Quantity:
    """Return the record of a flag variable: `flag_meanings` names bits, `note` explains them."""
    note = "; ".join(f"{word}: {meaning}" for word, meaning in meanings.items())
    masks = [1 << bit for bit in range(len(meanings))]
    return Quantity(
        name,
        long_name,
        more={"flag_masks": masks, "flag_meanings": " ".join(meanings), "note": note},
        dims=dims,
    )


def why(data: xr.Dataset, name: str, among: Collection[str] = ()) -> str:
    """Return the meaning of the first flag that is set anywhere, from the variable's note.

    `among` restricts the flags; all count by default. Returns "" where no flag is set.

    >>> record = flags("flags", "why", {"lost": "no data; gone", "rough": "two"}, ("head",))
    >>> data = xr.Dataset({"flags": ("head", [0, 3], record.attributes)})
    >>> why(data, "flags"), why(data, "flags", ["rough"])
    ('no data; gone', 'two')
    """
    attributes = data[name].attrs if name in data else {}
    if not {"flag_masks", "flag_meanings", "note"} <= attributes.keys():
        return ""
    union = np.bitwise_or.reduce(data[name].values.astype(np.int64), axis=None)
    raised = reasons(xr.DataArray(union, attrs=attributes))
    words = "|".join(map(re.escape, str(attributes["flag_meanings"]).split()))
    parts = re.split(rf"(?:^|; )({words}): ", str(attributes["note"]))
    meanings = dict(zip(parts[1::2], parts[2::2], strict=True))
    return next((meanings[reason] for reason in raised if reason in (among or raised)), "")


def codes(
    name: str, long_name: str, values: tuple[str, ...], *, missing: str = "", **words: Any
) -> Quantity:
    """Return the record of a variable whose integers stand for labels, 0 for the first.

    If `missing` is not empty, it labels −1.
    """
    first = -1 if missing else 0
    more = {
        "flag_values": list(range(first, len(values))),
        "flag_meanings": " ".join((missing, *values) if missing else values),
    }
    return Quantity(name, long_name, more=more, **words)


def reasons(flags: xr.DataArray) -> list[str]:
    """Return the names of the reasons that are set in a single flag value.

    Use it as `reasons(similarity["flags"].sel(gram="offset")[5, 1])`.

    >>> record = flags("flags", "why", {"lost": "no data", "rough": "two documents"}, ())
    >>> reasons(xr.DataArray(np.int64(2), attrs=record.attributes))
    ['rough']
    """
    names = str(flags.attrs["flag_meanings"]).split()
    return [
        name
        for name, mask in zip(names, flags.attrs["flag_masks"], strict=True)
        if int(flags) & int(mask)
    ]
