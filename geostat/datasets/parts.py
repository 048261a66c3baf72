"""Layers by the number T of tokens that their last query sees: the parts of a run that may be
averaged. A sliding window makes T differ between layers.

Curves over N, profiles over position and the uniform weight 1/T mean something else at another T,
so whatever pools layers is made for each part by itself. A result that is joined again holds what
has a layer for all layers, and the rest along the dim `part`, whose labels are T. Imports xarray.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import xarray as xr

PART: Final = "part"
PARTS: Final = "parts"
"""Attribute of a joined dataset, JSON: for each part its lengths of unlabelled dims, and its
attributes.
"""

FILL: Final = {"f": np.nan, "b": False, "i": 0, "u": 0}
"""What fills up a shorter dim, by kind of values; texts are filled up with "" instead."""
SAID: Final = ("sentences", "key_results")
"""Attributes that say something of one part after the other."""
LABEL: Final = {"long_name": "tokens that the last query of the part's layers sees", "units": "1"}

Groups = dict[str, xr.Dataset]


def layers_by_tokens(capture: xr.Dataset) -> dict[int, list[int]]:
    """Return the layers (indices) of every T, the largest T first.

    >>> capture = xr.Dataset(coords={"tokens": ("layer", [4, 8, 4])})
    >>> layers_by_tokens(capture)
    {8: [1], 4: [0, 2]}
    """
    seen = [int(tokens) for tokens in capture["tokens"].values]
    return {
        tokens: [layer for layer, own in enumerate(seen) if own == tokens]
        for tokens in sorted(set(seen), reverse=True)
    }


def parts(tree: xr.DataTree) -> list[xr.DataTree]:
    """Split a run with /capture into its parts, the largest T first; a run of one T is its only
    part.

    A part has the attribute `part`: its tokens (T), how many layers it has, `of` how many, and
    `every` T with its number of layers. Indices in its results count within the part.
    """
    capture = tree["capture"].to_dataset()
    by_tokens = layers_by_tokens(capture)
    if len(by_tokens) == 1:
        return [tree]
    out = []
    for at, (tokens, layers) in enumerate(by_tokens.items()):
        groups = {
            f"/{name}": _part(node.to_dataset(), at, layers) for name, node in tree.children.items()
        }
        part = xr.DataTree.from_dict(groups)
        part.attrs = dict(tree.attrs) | {
            PART: {
                "tokens": tokens,
                "layers": len(layers),
                "of": capture.sizes["layer"],
                "every": [[seen, len(own)] for seen, own in by_tokens.items()],
            }
        }
        out.append(part)
    return out


def _part(data: xr.Dataset, at: int, layers: Sequence[int]) -> xr.Dataset:
    """Take one part out of a dataset that was joined, or of one that was never apart."""
    chosen = data.isel(layer=list(layers)) if "layer" in data.dims else data.copy()
    if PARTS in data.attrs:
        kept = json.loads(data.attrs[PARTS])[at]
        chosen = chosen.isel(part=at, drop=True) if PART in chosen.dims else chosen
        chosen = chosen.isel({dim: slice(size) for dim, size in kept["sizes"].items()})
        chosen.attrs = kept["attrs"]
    return chosen


def of_parts(data: xr.Dataset, name: str) -> list[Any]:
    """Return an attribute of every part of a dataset; of one that was never apart the only one.

    >>> of_parts(xr.Dataset(attrs={"unit": "nat"}), "unit")
    ['nat']
    """
    kept = json.loads(data.attrs[PARTS]) if PARTS in data.attrs else [{"attrs": data.attrs}]
    return [part["attrs"][name] for part in kept]


def by_part(make: Callable[[xr.DataTree], Groups], tree: xr.DataTree) -> Groups:
    """Make results for every part of a run and join them; of a run of one T what `make` returns."""
    split = parts(tree)
    made = [make(part) for part in split]
    if len(made) == 1:
        return made[0]
    by_tokens = layers_by_tokens(tree["capture"].to_dataset())
    return {name: joined([each[name] for each in made], by_tokens) for name in made[0]}


def joined(apart: Sequence[xr.Dataset], by_tokens: Mapping[int, Sequence[int]]) -> xr.Dataset:
    """Join one dataset of every part: along `layer` in the model's order, else along `part`.

    Dims without labels that differ in length are filled up with NaN, 0, False or "". Texts without
    a layer that are the same in every part stand once. Attributes that differ are kept in the
    attribute `parts` alone, but for those of `SAID`, which follow one another.
    """
    first = apart[0]
    bare = sorted(
        {str(dim) for data in apart for dim in data.dims if dim not in data.coords} - {"layer"}
    )
    numbered = [
        data.assign_coords({dim: np.arange(data.sizes[dim]) for dim in bare if dim in data.dims})
        for data in apart
    ]
    layered = [name for name in first.data_vars if "layer" in first[name].dims]
    same = [
        name
        for name in first.data_vars
        if name not in layered
        and first[name].dtype.kind not in "fiub"
        and all(data[name].equals(first[name]) for data in apart)
    ]
    pooled = [name for name in first.data_vars if name not in layered and name not in same]
    how: dict[str, Any] = {
        "join": "outer",
        "coords": "minimal",
        "compat": "override",
        "combine_attrs": "override",
        "fill_value": {
            name: FILL.get(values.dtype.kind, "") for name, values in first.variables.items()
        },
    }
    out = numbered[0][same]
    if layered:
        order = np.argsort(np.concatenate([list(layers) for layers in by_tokens.values()]))
        whole = xr.concat([data[layered] for data in numbered], "layer", data_vars="minimal", **how)
        out = out.merge(whole.isel(layer=order), compat="override", join="outer")
    if pooled:
        label = xr.DataArray(list(by_tokens), dims=PART, name=PART, attrs=LABEL)
        whole = xr.concat([data[pooled] for data in numbered], label, data_vars="all", **how)
        out = out.merge(whole, compat="override", join="outer")
    out = out.drop_vars([dim for dim in bare if dim in out.coords])
    kept = [
        {
            "sizes": {dim: data.sizes[dim] for dim in bare if dim in data.sizes},
            "attrs": data.attrs,
        }
        for data in apart
    ]
    out.attrs = {
        name: value
        for name, value in first.attrs.items()
        if all(data.attrs.get(name) == value for data in apart)
    }
    for name in SAID:
        if name in first.attrs:
            out.attrs[name] = [line for data in apart for line in data.attrs[name]]
    out.attrs[PARTS] = json.dumps(kept, ensure_ascii=False)
    return out
