"""Tokens that the analysed query of a layer sees, and checks of a /capture dataset."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from geostat.errors import InputError
from geostat.statistics.arrays import FloatArray

HEAD_NAME: Final = re.compile(r"\s*[Ll](\d{1,9})[Hh](\d{1,9})\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTokens:
    """Which positions of a layer the analysed query sees: the last `tokens` of them.

    Positions of tokens are counted from the first visible one, so that in a full-attention layer
    they are the document's own.
    """

    start: int
    tokens: int
    sink: bool

    @property
    def first_content(self) -> int:
        """Token position of the first content token: 1 behind a visible sink, else 0."""
        return int(self.sink)

    @property
    def content(self) -> int:
        """Number of visible tokens that are not the sink."""
        return self.tokens - self.first_content

    @property
    def position(self) -> FloatArray:
        """Positions of the tokens that are not the sink, (content,)."""
        return self.first_content + np.arange(self.content, dtype=np.float64)


def layer_tokens(capture: xr.Dataset, layer: int) -> LayerTokens:
    """Return the visible tokens of a layer of /capture, by its index (not label).

    Raises:
        InputError: if the layer's number of tokens is not between 1 and the number of positions.
    """
    tokens = int(capture["tokens"].values[layer])
    positions = capture.sizes["position"]
    if not 1 <= tokens <= positions:
        name = capture["layer"].values[layer]
        raise InputError(
            f"layer {name} says it sees {tokens} tokens, expected 1 to {positions} (its positions)."
            " Capture the run again."
        )
    return LayerTokens(
        start=positions - tokens, tokens=tokens, sink=bool(capture["sink_visible"].values[layer])
    )


def most_tokens(capture: xr.Dataset) -> int:
    """Return T of the layers that see most; all of a part do (`geostat.datasets.parts`)."""
    return int(capture["tokens"].max())


def value_heads(capture: xr.Dataset) -> NDArray[np.int64]:
    """Return the index of each head's value head; its label is `kv_head_of_head`, which differs
    from it in a part of a run.

    >>> part = xr.Dataset(coords={"kv_head": [1, 2], "kv_head_of_head": ("head", [1, 1, 2])})
    >>> value_heads(part).tolist()
    [0, 0, 1]
    """
    labels = pd.Index(capture["kv_head_of_head"].values)
    return np.asarray(capture.get_index("kv_head").get_indexer(labels), np.int64)


def heads_of(capture: xr.Dataset, layer: int, kv_head: int) -> NDArray[np.int64]:
    """Return the query heads (indices) that share a value head of a layer and have finite
    weights in every document.
    """
    group = np.flatnonzero(value_heads(capture) == kv_head)
    finite = np.isfinite(capture["attention_weight"].values[:, layer, group]).all(axis=(0, 2))
    return np.asarray(group[finite])


def some_heads(data: xr.Dataset, names: Iterable[str], **places: Any) -> xr.Dataset:
    """Return what a group holds of `names` at some heads: those that are there, each at the
    `places` (indices by dim) that it has.

    >>> group = xr.Dataset({"C": ("kv_head", [1.0, 2.0]), "lam": ("kv_head", [0.1, 0.2])})
    >>> some_heads(group, ["C", "eta"], kv_head=[1], head=[3])["C"].values
    array([2.])
    """
    own = data[[name for name in names if name in data]]
    return own.isel({dim: place for dim, place in places.items() if dim in own.dims})


def require(capture: xr.Dataset, dims_of: Mapping[str, tuple[str, ...]]) -> None:
    """Check that a dataset has the variables a fit needs, each with the dims it needs, and at least
    one document.

    Raises:
        InputError: naming the first variable that is missing or misshapen.
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
        InputError: if the dim has no such label.
    """
    labels = [int(x) for x in capture[dim].values]
    if label not in labels:
        raise InputError(
            f"{dim} {label} is not in this run, expected one of {labels[0]} to {labels[-1]}. Choose"
            " one of those."
        )
    return labels.index(label)


def head_indices(capture: xr.Dataset, name: str) -> dict[str, int]:
    """Return the indices (not labels) of a head's layer, of the head and of its value head, by
    their dims.

    Args:
        capture: a /capture dataset.
        name: of the head, such as L5H3.

    Raises:
        InputError: for a name of another form, or a layer or head that the run does not hold.
    """
    match = HEAD_NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise InputError(
            f"{name!r} is no head, expected a layer and a head such as L5H3. Name it so."
        )
    layer, head = (
        index_of(capture, dim, int(label))
        for dim, label in zip(("layer", "head"), match.groups(), strict=True)
    )
    shared = int(capture["kv_head_of_head"].values[head])
    return {"layer": layer, "head": head, "kv_head": index_of(capture, "kv_head", shared)}
