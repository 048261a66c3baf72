"""Selection of documents, layers or heads: the result is a run too.

Variables with a selected dimension are indexed. Results about all heads are dropped or recomputed,
as `selected` describes. Imports xarray.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
import xarray as xr

from geostat.bounds.overall import overall
from geostat.datasets.parts import joined as join_parts
from geostat.datasets.parts import layers_by_tokens, parts
from geostat.datasets.tokens import kv_head_of_head
from geostat.errors import InputError, refuse_unknown
from geostat.runs.groups import ASSUMPTIONS, CONFRONTED, FITTED, group_of, tree_of
from geostat.topics.verdicts import recounted

SELECTION: Final = "selection"
"""Attribute of a selection: the selected labels by dimension."""
DIMS: Final = ("document", "layer", "head", "kv_head")
POOLED: Final = ("compressed_token_", "secondary_sink_")
"""Prefixes of variables of /norms that are counts over all KV heads."""
Indices = Mapping[str, np.ndarray]
"""Selected indices by dimension."""


def selected(run: xr.DataTree, **labels: Any) -> xr.DataTree:
    """Select a part of a run.

    A selection of layers or heads keeps the fits, /envelope and /verdicts of each head. Claims are
    counted again and /summary is averaged again, without sentences, key results and scoreboard.
    /pooled and the analyses, which describe all heads, are dropped; `geostat.confront` computes
    them for the selection.

    A selection of documents keeps only the measurement, because results depend on all documents.

    Args:
        run: a captured, fitted or confronted run.
        labels: labels of `document`, `layer`, `head` or `kv_head`: one, several, or an inclusive
            slice. Selecting a head selects its KV head, and selecting a KV head selects its heads.

    Returns:
        A run with the attribute `selection`; `run` itself if everything is selected.

    Raises:
        InputError: if the run lacks the dimension or the label.

    >>> import geostat as gs
    >>> part = selected(gs.open("report"), layer=1, head=[2, 3])
    >>> part["norms"]["C"].sizes["kv_head"], part.attrs["selection"]
    (1, {'layer': [1], 'head': [2, 3], 'kv_head': [1]})
    """
    capture = group_of(run, "capture")
    for dim in labels:
        refuse_unknown(dim, DIMS, f"{dim} cannot select a part of a run", verb="Name")
    selection = _selection(capture, labels)
    selection = {
        dim: indices for dim, indices in selection.items() if indices.size < capture.sizes[dim]
    }
    if not selection:
        return run
    groups = {
        name: _indexed(node.to_dataset(), selection)
        for name, node in run.children.items()
        if name not in (*FITTED, *CONFRONTED, "control")
    }
    if "document" not in selection:
        groups |= _results(run, selection)
    attrs = dict(run.attrs)
    attrs[SELECTION] = dict(attrs.get(SELECTION, {})) | {
        dim: groups["capture"][dim].values.tolist() for dim in DIMS if dim in selection
    }
    if "document" in selection and "documents" in attrs.get("manifest", {}):
        rows = attrs["manifest"]["documents"]
        attrs["manifest"] = attrs["manifest"] | {
            "documents": [rows[index] for index in selection["document"]]
        }
    return tree_of(groups, attrs)


def _selection(capture: xr.Dataset, labels: Mapping[str, Any]) -> Indices:
    """Return the indices of labels; heads select their KV heads and vice versa."""
    selection = {
        dim: _indices(dim, capture.get_index(dim), value)
        for dim, value in labels.items()
        if value is not None
    }
    kv_heads, heads = kv_head_of_head(capture), np.arange(capture.sizes["head"])
    if "kv_head" in selection:
        sharing = heads[np.isin(kv_heads, selection["kv_head"])]
        selection["head"] = np.intersect1d(selection.get("head", heads), sharing)
        if not selection["head"].size:
            raise InputError(
                f"head={labels['head']!r}, kv_head={labels['kv_head']!r}: none of these heads uses"
                " that KV head, expected heads that do. Leave one of the two out."
            )
    if "head" in selection:
        selection["kv_head"] = np.unique(kv_heads[selection["head"]])
    return selection


def _indices(dim: str, index: pd.Index[Any], value: Any) -> np.ndarray:
    """Return the sorted, unique indices of labels."""
    try:
        if isinstance(value, slice):
            slice_ = index.slice_indexer(value.start, value.stop, value.step)
            indices = np.arange(index.size)[slice_]
        else:
            labels = np.atleast_1d(np.asarray(value, dtype=object)).ravel()
            indices = index.get_indexer(
                pd.Index([_hashable(label) for label in labels], dtype=object)
            )
    except (TypeError, ValueError, KeyError):
        indices = np.array([-1])
    if not indices.size or (indices < 0).any():
        first, *_, last = (*index.tolist(), *index.tolist())
        known = repr(first) if index.size == 1 else f"one of {index.size}, {first!r} to {last!r}"
        raise InputError(
            f"{dim}={value!r}: the run has no such {dim}, expected {known}. Give one, a list of"
            " several, or a slice."
        )
    return np.unique(indices)


def _hashable(value: Any) -> Hashable:
    """Return a label; raise TypeError for a bool, which would match 0 or 1."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Hashable):
        raise TypeError(value)
    return value


def _indexed(data: xr.Dataset, selection: Indices) -> xr.Dataset:
    """Index one group, including the heads named at the capture."""
    part = data.isel(selection, missing_dims="ignore")
    if "named_head" in part.dims:
        heads = {
            f"L{layer}H{head}" for layer in part["layer"].values for head in part["head"].values
        }
        named = [str(name) in heads for name in part["named_head"].values]
        part = part.isel(named_head=np.flatnonzero(named))
    return part


def _results(run: xr.DataTree, selection: Indices) -> dict[str, xr.Dataset]:
    """Return the results of the selected layers and heads.

    Layers that see different numbers of tokens are selected separately and joined.
    """
    selected_layers = selection.get("layer", np.arange(run["capture"].sizes["layer"]))
    by_tokens = layers_by_tokens(run["capture"].to_dataset())
    results, layers_of = [], {}
    for part, (tokens, layers) in zip(parts(run), by_tokens.items(), strict=True):
        inner = np.flatnonzero(np.isin(layers, selected_layers))
        if inner.size:
            results.append(_results_of_part(part, {**selection, "layer": inner}))
            places = np.searchsorted(selected_layers, np.asarray(layers)[inner])
            layers_of[tokens] = places.tolist()
    if len(results) == 1:
        return results[0]
    return {
        name: join_parts([groups[name] for groups in results], layers_of) for name in results[0]
    }


def _results_of_part(run: xr.DataTree, selection: Indices) -> dict[str, xr.Dataset]:
    groups = {name: _indexed(node.to_dataset(), selection) for name, node in run.children.items()}
    results: dict[str, xr.Dataset] = {
        name: groups[name] for name in (*ASSUMPTIONS, "envelope") if name in groups
    }
    if "norms" in results:
        counts = [name for name in results["norms"].variables if str(name).startswith(POOLED)]
        results["norms"] = results["norms"].drop_vars(counts)
    if "verdicts" in groups:
        results["verdicts"] = recounted(groups["verdicts"])
    if "envelope" in groups:
        results["summary"] = overall(tree_of(groups, run.attrs))
    return results


def selection_note(run: xr.DataTree) -> str:
    """Return a note on the selection that a run is; empty for a whole run.

    >>> selection_note(xr.DataTree())
    ''
    """
    selection: Mapping[str, Sequence[Any]] = run.attrs.get(SELECTION, {})
    labels_by_dim = "; ".join(
        f"{dim} {', '.join(map(str, labels[:12]))}{' ...' if len(labels) > 12 else ''}"
        for dim, labels in selection.items()
    )
    if not labels_by_dim:
        return ""
    return f"A part of a run ({labels_by_dim}): results do not describe the whole run."
