"""Options of `geostat normaliser` and its Python function. Heavy imports are deferred."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from geostat.errors import one_error
from geostat.options import option, takes, with_commas
from geostat.runs.experiments import by_command
from geostat.runs.options import MeasurementOptions

if TYPE_CHECKING:
    import torch
    import xarray as xr


@dataclass(frozen=True, kw_only=True)
class NormaliserOptions(MeasurementOptions):
    """Measure the statements on the softmax normaliser (arXiv 2508.17821) for every head: weights,
    distances, separability and gradients.
    """

    lengths: Any = option(
        "",
        "Context lengths L in tokens, for example 64,128,256. Default: powers of two from 64, or"
        " from 16 for windows below 128 tokens.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(lengths=with_commas(self.lengths))


OPTIONS: Final = NormaliserOptions


@one_error
@takes(NormaliserOptions, count=None)
def normaliser(
    model: str | torch.nn.Module | None = None,
    *,
    documents: str | Path | Iterable[Any] | None = None,
    tokenizer: Any = None,
    hash_weights: bool = True,
    **options: Any,
) -> xr.DataTree:
    """Measure the statements on the softmax normaliser (arXiv 2508.17821) for every head, and
    return the run with /normaliser.

    The statements are on the decrease of weights with context length, summed distances,
    separability, and the response to logits. The run is captured first, unless it exists at `out`.

    Args:
        model, documents, tokenizer, hash_weights: as of `geostat.capture`.
        {options}

    Raises:
        InputError, StoreError, TypeError: as of `geostat.capture`.

    >>> run = normaliser("model", documents="notes", count=2, length=40, out="mine", lengths=[20])
    >>> run["normaliser"]["distance"].dims, run["normaliser"]["length"].values.tolist()
    (('length',), [20, 40])
    """
    return by_command("normaliser").from_keywords(
        model, documents, tokenizer=tokenizer, hash_weights=hash_weights, **options
    )
