"""Runs from tensors of another program: attention weights and values in memory or in files.

Imports torch only while measuring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import xarray as xr

from geostat.runs.console import QUIET, Console
from geostat.runs.options import CaptureOptions, IngestOptions

if TYPE_CHECKING:
    from empirical.sources.tensors import GivenTensors
    from empirical.store.store import Store

SETTINGS: Final = ("n", "convention", "seed", "heads")
"""Settings of a capture that also apply to tensors."""


def from_tensors(
    alpha: Any,
    values: Any = None,
    *,
    count: int | None = None,
    layers: int | None = None,
    names: Sequence[str] | None = None,
    token_ids: Any = None,
    tokens: Mapping[int, str] | Sequence[Sequence[str]] | None = None,
    visible: Sequence[int] | None = None,
    queries: str | None = None,
    model: str | None = None,
    out: str | Path = "run.zarr",
    fresh: bool = False,
    null: bool = True,
    **settings: Any,
) -> xr.DataTree:
    """Measure attention weights and value states of another program, write a store and open it.

    Arrays may come from NumPy, torch, JAX or any library with `__dlpack__`, in any floating-point
    type; they are measured in float32, one layer at a time. The run records that the tensors were
    not compared with their model.

    Args:
        alpha: attention weights after the softmax, (document, layer, head, position) or (document,
            layer, query, head, position); or an iterable of documents. Without `values`, an
            iterable of documents, each a tuple of both arrays, or a list or iterator of layers,
            each a pair (head, position), (kv_head, position, dimension).
        values: value states, (document, layer, kv_head, position, dimension).
        count, layers: number of documents and of layers; required for iterators without a length.
        names: names of the documents.
        token_ids: (document, position). Without them the run lists no tokens; the sha256 of its
            tensors then identifies a document and seeds its null baselines.
        tokens: text of each token: {id: text}, or texts in the shape of `token_ids`.
        visible: tokens that the last query sees, by layer, for models with a sliding window; by
            default every position counts as a token, even with weight 0.
        queries: queries of the rows of weights: "last:Q" (the default) or "every:K".
        model: description of the model that produced the tensors.
        out, fresh, null: as for `capture`; an equal run at `out` is completed.
        settings: `n`, `convention`, `seed` and `heads`, as for `capture`.

    Raises:
        InputError: for arrays of the wrong shape, invalid weights, or duplicate documents.
        StoreError: if the run at `out` is damaged.
        TypeError: for an unknown setting.

    >>> import numpy as np
    >>> alpha, values = np.full((1, 3, 4, 40), 1 / 40), np.random.rand(1, 3, 2, 40, 8)
    >>> from_tensors(alpha, values, n="1,2,8", out="tensors")["capture"]["precision"].dims
    ('document', 'layer', 'head', 'n')
    """
    from empirical.sources.tensors import given_tensors, length_of, stream
    from geostat.runs.measurement import measure_tensors

    counts = (count, length_of(names), length_of(token_ids))
    documents = next((number for number in counts if number is not None), None)
    layer_stream = stream(alpha, values, count=documents, layers=layers)
    labels = {
        "queries": queries,
        "model": model,
        "names": names,
        "token_ids": token_ids,
        "tokens": tokens,
        "visible": visible,
    }
    tensors = given_tensors(
        layer_stream, **{name: label for name, label in labels.items() if label is not None}
    )
    for name in settings:
        if name not in SETTINGS:
            raise TypeError(
                f"from_tensors() has no keyword {name!r}, expected one of {', '.join(SETTINGS)}."
            )
    options = _settings(tensors, out=Path(out), fresh=fresh, null=null, **settings)
    return measure_tensors(tensors, options).tree()


def ingest(options: IngestOptions, *, console: Console = QUIET) -> Store:
    """Measure the tensors of .npz and .safetensors files; the counterpart of `from_tensors`.

    Raises:
        InputError: if a file cannot be read, or as for `from_tensors`.
        StoreError: if the run at `out` is damaged.
    """
    from geostat.runs.measurement import measure_tensors

    console.stage("open the tensor files")
    return measure_tensors(*tensors_from_files(options), console=console)


def tensors_from_files(options: IngestOptions) -> tuple[GivenTensors, CaptureOptions]:
    """Return the tensors of the files and the settings of their capture; raises as `ingest`."""
    from empirical.sources.tensor_files import from_files

    named = {} if options.model is None else {"model": options.model}
    tensors = from_files(options.files, queries=options.queries or None, **named)
    shared = (*SETTINGS, "out", "fresh", "null")
    return tensors, _settings(tensors, **{name: getattr(options, name) for name in shared})


def _settings(tensors: GivenTensors, **options: Any) -> CaptureOptions:
    """Return the capture settings for tensors."""
    documents, positions = tensors.windows.token_ids.shape
    return CaptureOptions(
        documents=documents, length=positions, queries=str(tensors.queries), **options
    )
