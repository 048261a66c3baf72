"""Visible tokens of a layer's analysed query, and checks of a /capture dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from geostat.errors import InputError
from geostat.options import HEAD_NAME
from geostat.statistics.arrays import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTokens:
    """Positions that a layer's analysed query sees: the last `tokens` of the document.

    Token positions count from the first visible token; in a full-attention layer they equal
    document positions.
    """

    start: int
    tokens: int
    sink: bool

    @property
    def first_content(self) -> int:
        """Token position of the first content token: 1 after a visible sink, else 0."""
        return int(self.sink)

    @property
    def content(self) -> int:
        """Number of visible content tokens (all but the sink)."""
        return self.tokens - self.first_content

    @property
    def position(self) -> FloatArray:
        """Positions of the content tokens, (content,)."""
        return self.first_content + np.arange(self.content, dtype=np.float64)


def layer_tokens(capture: xr.Dataset, layer: int) -> LayerTokens:
    """Return the visible tokens of a layer of /capture, by index (not label).

    Raises:
        InputError: if the layer's number of tokens is not between 1 and the number of positions.
    """
    tokens = int(capture["tokens"].values[layer])
    positions = capture.sizes["position"]
    if not 1 <= tokens <= positions:
        name = capture["layer"].values[layer]
        raise InputError(
            f"layer {name} has {tokens} visible tokens, expected 1 to {positions} (its positions)."
            " Capture the run again."
        )
    return LayerTokens(
        start=positions - tokens, tokens=tokens, sink=bool(capture["sink_visible"].values[layer])
    )


def tokens_of_layers(capture: xr.Dataset) -> LayerTokens:
    """Return the visible tokens of all layers.

    Raises:
        InputError: if layers see different numbers of tokens.
    """
    seen = sorted(set(capture["tokens"].values.tolist()))
    if len(seen) > 1:
        raise InputError(
            f"layers see {' or '.join(map(str, seen))} tokens, expected one number. Fit the layers"
            " of each number apart, as `geostat fit` does."
        )
    return layer_tokens(capture, 0)


def most_tokens(capture: xr.Dataset) -> int:
    """Return the largest T; within a part all layers have it (`geostat.datasets.parts`)."""
    return int(capture["tokens"].max())


def inner_sizes(data: xr.Dataset, capture: xr.Dataset, known: str = "") -> xr.Dataset:
    """Return a dataset at its sizes 1 < N < T; of these, where the variable `known` has a value.

    >>> capture = xr.Dataset(coords={"tokens": ("layer", [8, 8])})
    >>> inner_sizes(xr.Dataset(coords={"n": [1, 2, 7, 8]}), capture)["n"].values.tolist()
    [2, 7]
    """
    inner = (data["n"] > 1) & (data["n"] < most_tokens(capture))
    if known:
        inner &= data[known].notnull()
    return data.isel(n=np.flatnonzero(inner))


def kv_head_of_head(capture: xr.Dataset) -> NDArray[np.int64]:
    """Return the index of each head's KV head.

    The variable `kv_head_of_head` holds its label, which differs from the index in a part of a run.

    >>> part = xr.Dataset(coords={"kv_head": [1, 2], "kv_head_of_head": ("head", [1, 1, 2])})
    >>> kv_head_of_head(part).tolist()
    [0, 0, 1]
    """
    labels = pd.Index(capture["kv_head_of_head"].values)
    return np.asarray(capture.get_index("kv_head").get_indexer(labels), np.int64)


def heads_of(capture: xr.Dataset, layer: int, kv_head: int) -> NDArray[np.int64]:
    """Return the query heads (indices) of a KV head with finite weights in every document."""
    group = np.flatnonzero(kv_head_of_head(capture) == kv_head)
    finite = np.isfinite(capture["attention_weight"].values[:, layer, group]).all(axis=(0, 2))
    return np.asarray(group[finite])


def select_heads(data: xr.Dataset, names: Iterable[str], **indices: Any) -> xr.Dataset:
    """Return those variables of `names` that a group holds, at selected heads.

    `indices` maps dims to indices; a variable is indexed along the dims it has.

    >>> group = xr.Dataset({"C": ("kv_head", [1.0, 2.0]), "lam": ("kv_head", [0.1, 0.2])})
    >>> select_heads(group, ["C", "eta"], kv_head=[1], head=[3])["C"].values
    array([2.])
    """
    present = data[[name for name in names if name in data]]
    return present.isel({dim: index for dim, index in indices.items() if dim in present.dims})


def require(capture: xr.Dataset, dims_of: Mapping[str, tuple[str, ...]]) -> None:
    """Check that a dataset has the variables and dims a fit needs, none of them empty.

    Raises:
        InputError: names the first variable that is missing, has other dims or is empty.
    """
    for name, dims in {**dims_of, "tokens": ("layer",), "sink_visible": ("layer",)}.items():
        if name not in capture:
            raise InputError(
                f"the dataset has no variable {name!r}; expected a /capture dataset with dims"
                f" {dims}. Use geostat capture to write one."
            )
        if capture[name].dims != dims:
            raise InputError(
                f"{name} has dims {tuple(capture[name].dims)}, expected {dims}. Transpose it or"
                " capture the run again."
            )
        if 0 in capture[name].shape:
            raise InputError(
                f"{name} is empty (shape {capture[name].shape}), expected at least one entry along"
                f" each of {dims}. Capture documents first."
            )


def index_of(capture: xr.Dataset, dim: str, label: int) -> int:
    """Return the index of a label along a dim.

    Raises:
        InputError: if the dim lacks the label.
    """
    labels = [int(x) for x in capture[dim].values]
    if label not in labels:
        raise InputError(
            f"{dim} {label} is not in this run, expected one of {labels[0]} to {labels[-1]}. Choose"
            " one of those."
        )
    return labels.index(label)


def head_indices(capture: xr.Dataset, name: str) -> dict[str, int]:
    """Return the indices (not labels) of a head's layer, head and KV head, by dim.

    Args:
        capture: a /capture dataset.
        name: name of the head, such as L5H3.

    Raises:
        InputError: if the name is malformed, or the run lacks the layer or head.
    """
    match = HEAD_NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise InputError(
            f"{name!r} is not a head, expected a layer and a head such as L5H3. Use such a name."
        )
    layer, head = (
        index_of(capture, dim, int(label))
        for dim, label in zip(("layer", "head"), match.groups(), strict=True)
    )
    kv_head = int(capture["kv_head_of_head"].values[head])
    return {"layer": layer, "head": head, "kv_head": index_of(capture, "kv_head", kv_head)}
