"""Parts of a run by document, layer or head, each a run that opens, plots and shows itself.

Selected is whatever has the dimension. What is a statement about all heads, such as a sentence, is
left out of a part or made anew: `selected` says what. Imports xarray.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
import xarray as xr

from geostat.bounds.overall import overall
from geostat.datasets.parts import joined as join_parts
from geostat.datasets.parts import layers_by_tokens, parts
from geostat.datasets.tokens import value_heads
from geostat.errors import InputError, refuse_unknown
from geostat.runs.groups import ASSUMPTIONS, CONFRONTED, FITTED, group_of, tree_of
from geostat.verdicts.recounted import recounted

SELECTION: Final = "selection"
"""Attribute of a part of a run: the labels that are left, by dimension."""
DIMS: Final = ("document", "layer", "head", "kv_head")
POOLED: Final = ("compressed_token_", "secondary_sink_")
"""How variables of /norms begin that are counts over all value heads."""
Places = Mapping[str, np.ndarray]
"""Indices that are selected, by dimension."""


def selected(run: xr.DataTree, **labels: Any) -> xr.DataTree:
    """Take a part out of a run.

    Args:
        run: a captured run, fitted and confronted or not.
        labels: of `document`, `layer`, `head` or `kv_head`: one, several, or a slice from label to
            label, ends included. A head comes with its value head, and a value head with the heads
            that share it.

    Returns:
        A run whose attribute `selection` says what is left. Of a selection of layers or heads the
        fits, /envelope and /verdicts of each head are those of the whole run; claims are counted
        anew and /summary averages anew, without sentences, key results and scoreboard. /pooled and
        the experiments, which are about all heads, are left out; `geostat.confront` makes those
        of the part. Of documents only what was measured is left, for the rest was made from all
        of them: fit it again. A run of which nothing is left out is returned as it is.

    Raises:
        InputError: for a dimension or label that the run does not have.

    >>> import geostat as gs
    >>> part = selected(gs.open("report"), layer=1, head=[2, 3])
    >>> part["norms"]["C"].sizes["kv_head"], part.attrs["selection"]
    (1, {'layer': [1], 'head': [2, 3], 'kv_head': [1]})
    """
    capture = group_of(run, "capture")
    for dim in labels:
        refuse_unknown(dim, DIMS, f"{dim} is no dimension that a run is selected by", verb="Name")
    at = _places(capture, labels)
    at = {dim: places for dim, places in at.items() if places.size < capture.sizes[dim]}
    if not at:
        return run
    groups = {
        name: _of(node.to_dataset(), at)
        for name, node in run.children.items()
        if name not in (*FITTED, *CONFRONTED)
    }
    if "document" not in at:
        groups |= _results(run, at)
    attrs = dict(run.attrs)
    attrs[SELECTION] = dict(attrs.get(SELECTION, {})) | {
        dim: groups["capture"][dim].values.tolist() for dim in DIMS if dim in at
    }
    if "document" in at and "documents" in attrs.get("manifest", {}):
        rows = attrs["manifest"]["documents"]
        attrs["manifest"] = attrs["manifest"] | {"documents": [rows[i] for i in at["document"]]}
    return tree_of(groups, attrs)


def _places(capture: xr.Dataset, labels: Mapping[str, Any]) -> Places:
    """The indices of labels, heads together with value heads."""
    at = {
        dim: _indices(dim, capture.get_index(dim), asked)
        for dim, asked in labels.items()
        if asked is not None
    }
    group, heads = value_heads(capture), np.arange(capture.sizes["head"])
    if "kv_head" in at:
        sharing = heads[np.isin(group, at["kv_head"])]
        at["head"] = np.intersect1d(at.get("head", heads), sharing)
        if not at["head"].size:
            raise InputError(
                f"head={labels['head']!r}, kv_head={labels['kv_head']!r}: none of these heads reads"
                " such a value head, expected heads that do. Leave one of the two out."
            )
    if "head" in at:
        at["kv_head"] = np.unique(group[at["head"]])
    return at


def _indices(dim: str, index: pd.Index[Any], asked: Any) -> np.ndarray:
    """The indices of labels in the run's order, each once."""
    try:
        if isinstance(asked, slice):
            found = np.arange(index.size)[index.slice_indexer(asked.start, asked.stop, asked.step)]
        else:
            wanted = np.atleast_1d(np.asarray(asked, dtype=object)).ravel()
            found = index.get_indexer(pd.Index([_label(one) for one in wanted], dtype=object))
    except (TypeError, ValueError, KeyError):
        found = np.array([-1])
    if not found.size or (found < 0).any():
        first, *_, last = (*index.tolist(), *index.tolist())
        known = repr(first) if index.size == 1 else f"one of {index.size}, {first!r} to {last!r}"
        raise InputError(
            f"{dim}={asked!r}: the run has no such {dim}, expected {known}. Give one, a list of"
            " several, or a slice."
        )
    return np.unique(found)


def _label(value: Any) -> Hashable:
    """A label as it may be given; True is none, though it equals 1."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Hashable):
        raise TypeError(value)
    return value


def _of(data: xr.Dataset, at: Places) -> xr.Dataset:
    """Select in one group; of named heads those that are left."""
    chosen = data.isel(at, missing_dims="ignore")
    if "named_head" in chosen.dims:
        left = {
            f"L{layer}H{head}" for layer in chosen["layer"].values for head in chosen["head"].values
        }
        names = chosen["named_head"].values
        chosen = chosen.isel(named_head=[i for i, name in enumerate(names) if str(name) in left])
    return chosen


def _results(run: xr.DataTree, at: Places) -> dict[str, xr.Dataset]:
    """What a part keeps of fits and confrontation; of layers that see different numbers of tokens
    each apart.
    """
    every = np.arange(run["capture"].sizes["layer"])
    wanted = at.get("layer", every)
    by_tokens = layers_by_tokens(run["capture"].to_dataset())
    made, left = [], {}
    for part, (tokens, layers) in zip(parts(run), by_tokens.items(), strict=True):
        inner = np.flatnonzero(np.isin(layers, wanted))
        if inner.size:
            made.append(_of_part(part, {**at, "layer": inner}))
            left[tokens] = np.searchsorted(wanted, np.asarray(layers)[inner]).tolist()
    if len(made) == 1:
        return made[0]
    return {name: join_parts([each[name] for each in made], left) for name in made[0]}


def _of_part(run: xr.DataTree, at: Places) -> dict[str, xr.Dataset]:
    groups = {name: _of(node.to_dataset(), at) for name, node in run.children.items()}
    kept: dict[str, xr.Dataset] = {
        name: groups[name] for name in (*ASSUMPTIONS, "envelope") if name in groups
    }
    if "norms" in kept:
        counts = [name for name in kept["norms"].variables if str(name).startswith(POOLED)]
        kept["norms"] = kept["norms"].drop_vars(counts)
    if "verdicts" in groups:
        kept["verdicts"] = recounted(groups["verdicts"])
    if "envelope" in groups:
        kept["summary"] = overall(tree_of(groups, run.attrs))
    return kept
