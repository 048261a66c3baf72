"""Groups of a run by the stage that makes them, and as a DataTree: taken out, joined. Imports
xarray.

What a stage makes is stale once an earlier stage is repeated, or the stage itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import xarray as xr

from geostat.datasets.queries import MEASURED, over_queries
from geostat.errors import InputError

ASSUMPTIONS: Final = ("norms", "similarity", "weights")
"""The fits that bounds are evaluated from."""
FITTED: Final = (*ASSUMPTIONS, "pooled")
CONFRONTED: Final = (
    "envelope",
    "ingredients",
    "sensitivity",
    "predictive",
    "sink",
    "sinks_found",
    "heads",
    "separable",
    "verdicts",
    "summary",
)
"""They rest on the fits: they go when fits or bounds are made anew, so that none outlives what
it was made from.
"""


def group_of(tree: xr.DataTree, name: str) -> xr.Dataset:
    """One group of a DataTree, whose makers are named where it is not there."""
    if not isinstance(tree, xr.DataTree):
        seen = "is none"
    elif name in tree.children:
        return tree[name].to_dataset()
    else:
        seen = (
            f"has no /{name}, only {', '.join(f'/{child}' for child in tree.children) or 'nothing'}"
        )
    makers = dict.fromkeys(FITTED, "fit") | dict.fromkeys(CONFRONTED, "confront")
    maker = makers.get(name, "open or geostat.capture")
    raise InputError(
        f"{type(tree).__name__}: expected an xarray.DataTree with /{name}, but it {seen}. Use what"
        f" geostat.{maker} returned."
    )


def measured(tree: xr.DataTree) -> xr.Dataset:
    """/capture of a run, what depends on the query averaged over each document's queries."""
    capture = group_of(tree, "capture")
    return over_queries(
        {name: tree[name].to_dataset() for name in MEASURED if name in tree.children}
        | {"capture": capture}
    )


def tree_of(
    groups: Mapping[str, xr.Dataset], attrs: Mapping[Any, Any] | None = None
) -> xr.DataTree:
    """Groups by name as a DataTree with a run's attributes."""
    tree = xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})
    tree.attrs = dict(attrs or {})
    return tree


def joined(first: xr.DataTree, *others: xr.DataTree) -> xr.DataTree:
    """The groups of several runs as one, of equal ones the last run's."""
    return tree_of(
        {name: tree[name].to_dataset() for tree in (first, *others) for name in tree.children},
        first.attrs,
    )


def with_fits(run: xr.DataTree, fits: xr.DataTree) -> xr.DataTree:
    """A captured run with fits, and without what was made of others; refused where a group is
    missing.
    """
    group_of(run, "capture")
    for name in ASSUMPTIONS:
        group_of(fits, name)
    return joined(run.drop_nodes((*FITTED, *CONFRONTED), errors="ignore"), fits)
