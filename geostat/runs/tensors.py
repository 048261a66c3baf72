"""Runs of tensors from elsewhere: attention weights and values that another program made, in memory
or in files. Only what measures imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import xarray as xr

from geostat.runs.console import QUIET, Console

if TYPE_CHECKING:
    from empirical.sources.tensors.given import GivenTensors
    from empirical.store.store import Store

SETTINGS: Final = ("n", "convention", "seed", "heads")
"""Settings of a capture that tensors leave open."""


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
    """Measure attention weights and values that another program made, into a store, and open it.

    Arrays may be those of NumPy, torch, JAX, or of whatever has `__dlpack__` or NumPy reads, in
    float16, bfloat16, float32 or float64; they are measured in float32. A document is read layer by
    layer, and no layer is read before the one before it is measured. What no model here made cannot
    be compared with its model's own weights, and the run and its report say so.

    Args:
        alpha: weights behind the softmax, (document, layer, head, position), or of several queries
            (document, layer, query, head, position); or an iterable of documents, each (layer,
            head, position). Rows are at least 0 and sum to 1, or less where a learned sink takes a
            part. Without `values` an iterable of documents, each a tuple of both, or a list or
            iterator of layers, which are pairs (head, position), (kv_head, position, dimension).
        values: value states, (document, layer, kv_head, position, dimension).
        count, layers: how many documents, and layers in each; needed of iterators without a length.
        names: of the documents.
        token_ids: (document, position). Without them the report lists no tokens, a document is told
            by the sha256 of its tensors, and the null baselines are seeded by it.
        tokens: what ids stand for: {id: text}, or texts laid out as `token_ids`.
        visible: tokens that the last query sees, by layer, where layers have a sliding window. What
            lies before them is no token of the head. Unless told every position is one, though its
            weight be 0: a weight may be 0 by rounding.
        queries: which queries several rows are of: "last:Q" (unless told), or "every:K".
        model: what made the tensors, in words.
        out: the store, or a folder for it. fresh: throw a store there away; else an equal run is
            completed, and its documents are compared by the sha256 of their tensors.
        null: measure the null baselines too.
        settings: `n`, `convention`, `seed` and `heads`, as of `capture`.

    Raises:
        InputError: for arrays that do not fit or are no weights, or two documents that are the
            same.
        StoreError: if the run that stands at `out` is damaged.
        TypeError: for an unknown setting.

    >>> import numpy as np
    >>> chance = np.random.default_rng(0)
    >>> alpha = chance.dirichlet(np.ones(40), size=(2, 3, 4))
    >>> values = chance.normal(size=(2, 3, 2, 40, 8))
    >>> run = from_tensors(alpha, values, n="1,2,8", out="tensors")
    >>> dict(run["capture"].sizes)["head"]
    4
    """
    from empirical.sources.tensors.given import given_tensors
    from empirical.sources.tensors.stream import stream

    told: dict[str, Any] = {"names": names, "token_ids": token_ids, "tokens": tokens}
    given = given_tensors(
        stream(alpha, values, count=_known(count, names, token_ids), layers=layers),
        **told,
        visible=visible,
        queries=queries,
        **({} if model is None else {"model": model}),
    )
    return _measured(given, Path(out), fresh=fresh, null=null, **settings).tree()


def ingest(
    files: Sequence[Path],
    out: Path,
    *,
    queries: str | None = None,
    model: str | None = None,
    head: Sequence[str] | None = None,
    fresh: bool = False,
    null: bool = True,
    console: Console = QUIET,
    **settings: Any,
) -> Store:
    """Measure the tensors of .npz and .safetensors files, as `from_tensors` does arrays; `head`:
    names such as L5H3 of heads whose principal components are kept.

    Raises:
        InputError: a file is none or damaged, or as of `from_tensors`.
        StoreError: if the run that stands at `out` is damaged.
    """
    from empirical.sources.tensors.files import from_files
    from geostat.runs.settings import named_heads

    heads = named_heads(head or ())
    console.stage("look at the files")
    given = from_files(
        files, queries=queries or None, **({} if model is None else {"model": model})
    )
    how: dict[str, Any] = {"fresh": fresh, "null": null, "console": console}
    return _measured(given, out, heads=heads, **how, **settings)


def _known(count: int | None, names: Any, token_ids: Any) -> int | None:
    """How many documents there are, as far as other arguments than the tensors tell."""
    if count is None and names is not None:
        return len(names)
    return len(token_ids) if count is None and token_ids is not None else count


def _measured(
    given: GivenTensors,
    out: Path,
    *,
    fresh: bool,
    null: bool,
    console: Console = QUIET,
    **settings: Any,
) -> Store:
    from geostat.runs import measurement
    from geostat.runs.settings import Settings

    for name in settings:
        if name not in SETTINGS:
            raise TypeError(
                f"from_tensors() has no keyword {name!r}, expected one of {', '.join(SETTINGS)}."
            )
    documents, positions = given.windows.token_ids.shape
    asked = Settings(documents=documents, length=positions, queries=str(given.queries), **settings)
    return measurement.measure_tensors(given, asked, out, fresh=fresh, null=null, console=console)
