"""Groups of a run as a DataTree: taken out, left out, joined. Imports xarray."""

from __future__ import annotations

import xarray as xr

from geostat.errors import InputError
from geostat.runs.groups import CONFRONTED, FITTED, maker


def group_of(tree: xr.DataTree, name: str) -> xr.Dataset:
    """One group of a DataTree, whose makers are named where it is not there."""
    if isinstance(tree, xr.DataTree) and name in tree.children:
        return tree[name].to_dataset()
    held = (
        f"has no /{name}, only {', '.join(f'/{child}' for child in tree.children) or 'nothing'}"
        if isinstance(tree, xr.DataTree)
        else "is none"
    )
    raise InputError(f"{type(tree).__name__}: expected an xarray.DataTree with /{name}, but it {held}. Use what {maker(name)} returned.")


def without_results(run: xr.DataTree) -> xr.DataTree:
    """A run without what was made of its measurements."""
    kept = xr.DataTree.from_dict(
        {f"/{name}": node.to_dataset() for name, node in run.children.items() if name not in (*FITTED, *CONFRONTED)}
    )
    kept.attrs = dict(run.attrs)
    return kept


def joined(first: xr.DataTree, second: xr.DataTree) -> xr.DataTree:
    """The groups of two runs as one, of equal ones the second's."""
    groups = {f"/{name}": tree[name].to_dataset() for tree in (first, second) for name in tree.children}
    joined = xr.DataTree.from_dict(groups)
    joined.attrs = dict(first.attrs)
    return joined


def tree_of(groups: dict[str, xr.Dataset]) -> xr.DataTree:
    """Groups by name as a DataTree."""
    return xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})
