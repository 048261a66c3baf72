"""Memory-mapped groups: a captured group that is too large to be held is unpacked once into files
without a name, whose pages come into memory as they are read, and leave it where others need the
place.

Such a file is gone when the last process that maps it ends, however it ends. Imports numpy and
xarray.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import xarray as xr

from empirical.caches import place_in_cache
from empirical.store.disk import writing
from empirical.store.shards import DOCUMENTS

HELD: Final = 1 << 30
"""Bytes of a group up to which it is held in memory."""


def read(lazy: xr.Dataset, complete: Callable[[xr.Dataset], xr.Dataset]) -> xr.Dataset:
    """Return what `complete` makes of a group that was opened, not read: in memory where it takes
    at most HELD bytes, else mapped from files in geostat's cache, or in the system's place for such
    files where that cannot be written.

    `complete` may add variables of a document that depend on that document alone. A change to a
    mapped array stays in memory.

    Raises:
        InputError: if the disk is full.
    """
    documents = lazy.sizes.get("document", 0)
    if not documents or lazy.nbytes <= HELD:
        return complete(lazy.load())
    where = place_in_cache("mapped")
    with suppress(OSError):
        where.mkdir(parents=True, exist_ok=True)
    if not os.access(where, os.W_OK):
        where = Path(tempfile.gettempdir())
    files: dict[str, IO[bytes]] = {}
    rest: list[xr.Dataset] = []
    with ExitStack() as opened:
        for first in range(0, documents, DOCUMENTS):
            block = complete(lazy.isel(document=slice(first, first + DOCUMENTS)).load())
            arrays = {str(name): one for name, one in block.variables.items() if _by_document(one)}
            with writing(where):
                for name, array in arrays.items():
                    if name not in files:
                        files[name] = opened.enter_context(tempfile.TemporaryFile(dir=where))
                    files[name].write(np.ascontiguousarray(array.values).data)
                    files[name].flush()
            rest.append(block.drop_vars(arrays))
        mapped = {
            name: xr.Variable(one.dims, _map(files[name], one, documents), one.attrs)
            for name, one in arrays.items()
        }
    how: dict[str, Any] = dict.fromkeys(("data_vars", "coords"), "minimal")
    whole = xr.concat(rest, "document", compat="override", combine_attrs="override", **how)
    return whole.assign(mapped).set_coords(list(block.coords))


def _by_document(variable: xr.Variable) -> bool:
    """Whether a variable is numbers of documents, several each."""
    numbers = variable.dtype.kind in "biuf"
    return variable.ndim > 1 and variable.dims[0] == "document" and numbers


def _map(file: IO[bytes], block: xr.Variable, documents: int) -> np.ndarray:
    return np.memmap(file, dtype=block.dtype, mode="c", shape=(documents, *block.shape[1:]))
