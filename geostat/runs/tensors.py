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
    from geostat.runs.settings import Settings

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

    Arrays are of NumPy, torch, JAX, or whatever has `__dlpack__` or NumPy reads, in any type of
    floating point, and measured in float32. They are read layer by layer, each when the one before
    is measured. The run says that nobody compared them with their model.

    Args:
        alpha: weights behind the softmax, (document, layer, head, position) or (document, layer,
            query, head, position); or an iterable of documents. Without `values` an iterable of
            documents, each a tuple of both, or a list or iterator of layers, each a pair (head,
            position), (kv_head, position, dimension).
        values: value states, (document, layer, kv_head, position, dimension).
        count, layers: how many documents, and layers in each; needed of iterators without a length.
        names: of the documents. model: what made the tensors, in words.
        token_ids: (document, position). Without them no tokens are listed, and the sha256 of its
            tensors tells a document, and seeds its null baselines.
        tokens: what ids stand for: {id: text}, or texts laid out as `token_ids`.
        visible: tokens that the last query sees, by layer, where some have a sliding window; else
            every position counts as a token, though its weight be 0.
        queries: which ones several rows are of: "last:Q" (unless told), or "every:K".
        out, fresh, null: as of `capture`; an equal run there is completed, its documents compared.
        settings: `n`, `convention`, `seed` and `heads`, as of `capture`.

    Raises:
        InputError: for arrays that do not fit or are no weights, or documents that are the same.
        StoreError: if the run that stands at `out` is damaged.
        TypeError: for an unknown setting.

    >>> import numpy as np
    >>> alpha, values = np.full((1, 3, 4, 40), 1 / 40), np.random.rand(1, 3, 2, 40, 8)
    >>> from_tensors(alpha, values, n="1,2,8", out="tensors")["capture"]["precision"].dims
    ('document', 'layer', 'head', 'n')
    """
    told = {"names": names, "token_ids": token_ids, "tokens": tokens, "visible": visible}
    known = _known(count, names, token_ids)
    given = _given(alpha, values, known, layers, queries=queries, model=model, **told)
    return _kept(given, _asked(given, **settings), Path(out), fresh=fresh, null=null).tree()


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
    console.stage("look at the files")
    given, asked = of_files(files, queries=queries, model=model, head=head, **settings)
    return _kept(given, asked, out, fresh=fresh, null=null, console=console)


def of_files(
    files: Sequence[Path],
    *,
    queries: str | None = None,
    model: str | None = None,
    head: Sequence[str] | None = None,
    **settings: Any,
) -> tuple[GivenTensors, Settings]:
    """Find the tensors of files, and what is asked of them; as of `ingest`."""
    from empirical.sources.tensors.files import from_files
    from geostat.runs.settings import named_heads

    heads = named_heads(head or ())
    given = from_files(
        files, queries=queries or None, **({} if model is None else {"model": model})
    )
    return given, _asked(given, heads=heads, **settings)


def _given(
    alpha: Any, values: Any, count: int | None, layers: int | None, **told: Any
) -> GivenTensors:
    from empirical.sources.tensors.given import given_tensors
    from empirical.sources.tensors.stream import stream

    read = stream(alpha, values, count=count, layers=layers)
    return given_tensors(read, **{name: one for name, one in told.items() if one is not None})


def _known(count: int | None, names: Any, token_ids: Any) -> int | None:
    """How many documents there are, as far as other arguments than the tensors tell."""
    from empirical.sources.tensors.stream import length_of

    return next((n for n in (count, length_of(names), length_of(token_ids)) if n is not None), None)


def _asked(given: GivenTensors, **settings: Any) -> Settings:
    """Return the settings of a capture of tensors."""
    from geostat.runs.settings import Settings, named_heads, written

    for name in settings:
        if name not in SETTINGS:
            raise TypeError(
                f"from_tensors() has no keyword {name!r}, expected one of {', '.join(SETTINGS)}."
            )
    documents, positions = given.windows.token_ids.shape
    settings["n"] = written(settings.get("n", "default"))
    settings["heads"] = named_heads(settings.get("heads", ()))
    return Settings(documents=documents, length=positions, queries=str(given.queries), **settings)


def _kept(given: GivenTensors, asked: Settings, out: Path, **how: Any) -> Store:
    from geostat.runs import measurement

    return measurement.measure_tensors(given, asked, out, **how)
