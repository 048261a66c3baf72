"""`geostat.normaliser`, the Python face of the normaliser's statements. Only what measures imports
torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from geostat.errors import one_error

if TYPE_CHECKING:
    import torch


@one_error
def normaliser(
    model: str | torch.nn.Module | None = None,
    *,
    documents: str | Path | Iterable[Any] | None = None,
    count: int | None = None,
    length: int = 1024,
    out: str | Path = "report",
    lengths: Sequence[int] = (),
    fresh: bool = False,
    null: bool = True,
    **settings: Any,
) -> xr.DataTree:
    """Lay the normaliser's statements (arXiv 2508.17821) beside every head: how weights fall with
    the length, summed distances, separability and responses to logits; and return the run with its
    /normaliser.

    The run is captured first, unless it stands at `out`.

    Args:
        model, documents, count, length, out, fresh, null, settings: as of `geostat.capture`.
        lengths: tokens L that the queries see which are looked at; powers of two from 64, in
            windows under 128 from 16, unless told.

    Raises:
        InputError: for bad input.
        StoreError: if the run that stands at `out` is damaged.
        TypeError: for an unknown setting.

    >>> run = normaliser("model", documents="notes", count=2, length=40, out="mine", lengths=[20])
    >>> run["normaliser"]["distance"].dims, run["normaliser"]["length"].values.tolist()
    (('length',), [20, 40])
    """
    from geostat.runs.in_memory import asked
    from geostat.runs.normaliser.normaliser import normaliser as measured

    how = asked(model, documents, count=count, length=length, face=normaliser, **settings)
    text = ",".join(map(str, lengths))
    return measured(how[0], text, Path(out), *how[1:], fresh=fresh, null=null).tree()
