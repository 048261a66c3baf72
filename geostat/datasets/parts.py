"""Parts of a run: layers grouped by the number T of tokens that their last query sees.

A sliding window makes T differ between layers. Curves over N, profiles over position and the
uniform weight 1/T are comparable at one T only, and results that pool layers are made for each
part. In a joined result, variables with the dim `layer` cover all layers; the others have the dim
`part`, labelled by T. Imports xarray.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

PART: Final = "part"
PARTS: Final = "parts"
"""Attribute of a joined dataset, JSON: sizes of unlabelled dims and attributes of each part."""

FILL: Final = {"f": np.nan, "b": False, "i": 0, "u": 0}
"""Fill values of shorter dims, by dtype kind; text is filled with ""."""
CONCATENATED: Final = ("sentences", "key_results")
"""Attributes whose lists are concatenated over the parts."""
LABEL: Final = {"long_name": "tokens that the last query of the part's layers sees", "units": "1"}

Groups = dict[str, xr.Dataset]


def tree_of(
    groups: Mapping[Any, xr.Dataset | xr.DataTree], attrs: Mapping[Any, Any] | None = None
) -> xr.DataTree:
    """Return groups as a DataTree with the attributes of a run."""
    tree = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
    tree.attrs = dict(attrs or {})
    return tree


def layers_by_tokens(capture: xr.Dataset) -> dict[int, list[int]]:
    """Return the layers (indices) of every T, largest T first.

    >>> capture = xr.Dataset(coords={"tokens": ("layer", [4, 8, 4])})
    >>> layers_by_tokens(capture)
    {8: [1], 4: [0, 2]}
    """
    tokens = capture["tokens"].values.astype(int)
    return {int(size): np.flatnonzero(tokens == size).tolist() for size in np.unique(tokens)[::-1]}


def parts(tree: xr.DataTree) -> list[xr.DataTree]:
    """Split a run with /capture into its parts, largest T first; a run of one T is its only part.

    The attribute `part` of a part holds `tokens` (T), `layers` (their number), `of` (the number of
    layers of the run) and `every` (each T with its number of layers). Indices in the results of a
    part count within the part.
    """
    capture = tree["capture"].to_dataset()
    by_tokens = layers_by_tokens(capture)
    if len(by_tokens) == 1:
        return [tree]
    every = [[tokens, len(layers)] for tokens, layers in by_tokens.items()]
    out = []
    for index, (tokens, layers) in enumerate(by_tokens.items()):
        record = {"tokens": tokens, "layers": len(layers), "of": capture.sizes["layer"]}
        groups = {
            name: _part(node.to_dataset(), index, layers) for name, node in tree.children.items()
        }
        out.append(tree_of(groups, dict(tree.attrs) | {PART: record | {"every": every}}))
    return out


def _part(data: xr.Dataset, index: int, layers: Sequence[int]) -> xr.Dataset:
    """Return one part of a joined dataset, or of a dataset that was never split."""
    selected = data.isel(layer=list(layers)) if "layer" in data.dims else data.copy()
    if PARTS in data.attrs:
        record = json.loads(data.attrs[PARTS])[index]
        selected = selected.isel(part=index, drop=True) if PART in selected.dims else selected
        selected = selected.isel({dim: slice(size) for dim, size in record["sizes"].items()})
        selected.attrs = record["attrs"]
    return selected


def of_parts(data: xr.Dataset, name: str) -> list[Any]:
    """Return an attribute of every part of a dataset.

    A dataset that was never split is its only part.

    >>> of_parts(xr.Dataset(attrs={"unit": "nat"}), "unit")
    ['nat']
    """
    records = json.loads(data.attrs[PARTS]) if PARTS in data.attrs else [{"attrs": data.attrs}]
    return [part["attrs"][name] for part in records]


def by_part(make: Callable[[xr.DataTree], Groups], tree: xr.DataTree) -> Groups:
    """Apply `make` to every part of a run and join the results.

    A run of one T is passed to `make` unchanged.
    """
    run_parts = parts(tree)
    results = [make(part) for part in run_parts]
    if len(results) == 1:
        return results[0]
    by_tokens = layers_by_tokens(tree["capture"].to_dataset())
    return {name: joined([result[name] for result in results], by_tokens) for name in results[0]}


def joined(datasets: Sequence[xr.Dataset], by_tokens: Mapping[int, Sequence[int]]) -> xr.Dataset:
    """Join one dataset of every part: along `layer` in the model's order, else along `part`.

    Unlabelled dims of different lengths are padded with NaN, 0, False or "". Text without a layer
    that is equal in every part is kept once. Attributes that differ move to the attribute `parts`;
    lists in `CONCATENATED` are concatenated.
    """
    first = datasets[0]
    unlabelled = sorted(
        {str(dim) for data in datasets for dim in data.dims if dim not in data.coords} - {"layer"}
    )
    numbered = [
        data.assign_coords(
            {dim: np.arange(data.sizes[dim]) for dim in unlabelled if dim in data.dims}
        )
        for data in datasets
    ]
    layered = [name for name in first.data_vars if "layer" in first[name].dims]
    shared = [
        name
        for name in first.data_vars
        if name not in layered
        and first[name].dtype.kind not in "fiub"
        and all(data[name].equals(first[name]) for data in datasets)
    ]
    pooled = [name for name in first.data_vars if name not in layered and name not in shared]
    fill = {name: FILL.get(array.dtype.kind, "") for name, array in first.variables.items()}
    concat: Any = partial(
        xr.concat,
        join="outer",
        coords="minimal",
        compat="override",
        combine_attrs="override",
        fill_value=fill,
    )
    out = numbered[0][shared]
    if layered:
        order = np.argsort(np.concatenate([list(layers) for layers in by_tokens.values()]))
        by_layer = concat([data[layered] for data in numbered], "layer", data_vars="minimal")
        out = out.merge(by_layer.isel(layer=order), compat="override", join="outer")
    if pooled:
        label = xr.DataArray(list(by_tokens), dims=PART, name=PART, attrs=LABEL)
        of_parts_ = concat([data[pooled] for data in numbered], label, data_vars="all")
        out = out.merge(of_parts_, compat="override", join="outer")
    out = out.drop_vars([dim for dim in unlabelled if dim in out.coords])
    records = [
        {
            "sizes": {dim: data.sizes[dim] for dim in unlabelled if dim in data.sizes},
            "attrs": data.attrs,
        }
        for data in datasets
    ]
    out.attrs = {
        name: value
        for name, value in first.attrs.items()
        if all(data.attrs.get(name) == value for data in datasets)
    }
    for name in CONCATENATED:
        if name in first.attrs:
            out.attrs[name] = [line for data in datasets for line in data.attrs[name]]
    out.attrs[PARTS] = json.dumps(records, ensure_ascii=False)
    return out
