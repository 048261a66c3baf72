"""Groups of a run, listed by the stage that writes them, and joined into DataTrees. Imports xarray.

The groups of a stage are stale once that stage or an earlier one runs again.
"""

from __future__ import annotations

from typing import Final

import xarray as xr

from geostat.datasets.parts import tree_of
from geostat.datasets.separability import MEASURED, over_queries
from geostat.errors import InputError

ASSUMPTIONS: Final = ("norms", "similarity", "weights")
"""Fits from which bounds are evaluated."""
FITTED: Final = (*ASSUMPTIONS, "pooled")
CONFRONTED: Final = (
    "envelope",
    "ingredients",
    "sensitivity",
    "predictive",
    "fitted",
    "sink",
    "sinks_found",
    "amended",
    "heads",
    "separable",
    "verdicts",
    "summary",
)
"""Groups computed from the fits; they are deleted when fits or bounds are computed again."""


def group_of(tree: xr.DataTree, name: str) -> xr.Dataset:
    """Return one group of a DataTree; the error for a missing group names the function to call."""
    if not isinstance(tree, xr.DataTree):
        seen = "is not a DataTree"
    elif name in tree.children:
        return tree[name].to_dataset()
    else:
        seen = (
            f"has no /{name}, only {', '.join(f'/{child}' for child in tree.children) or 'nothing'}"
        )
    makers = dict.fromkeys(FITTED, "fit") | dict.fromkeys(CONFRONTED, "confront")
    maker = makers.get(name, "open or geostat.capture")
    raise InputError(
        f"{type(tree).__name__}: expected an xarray.DataTree with /{name}, but it {seen}. Use the"
        f" result of geostat.{maker}."
    )


def measured(tree: xr.DataTree) -> xr.Dataset:
    """Return /capture of a run, averaged over the analysed queries of each document."""
    capture = group_of(tree, "capture")
    return over_queries(
        {name: tree[name].to_dataset() for name in MEASURED if name in tree.children}
        | {"capture": capture}
    )


def joined(first: xr.DataTree, *others: xr.DataTree) -> xr.DataTree:
    """Return the groups of several runs as one run; later runs replace equal groups."""
    return tree_of(
        {name: tree[name].to_dataset() for tree in (first, *others) for name in tree.children},
        first.attrs,
    )


def with_fits(run: xr.DataTree, fits: xr.DataTree) -> xr.DataTree:
    """Return a captured run with the given fits, without results of other fits.

    Raises:
        InputError: if a group is missing.
    """
    group_of(run, "capture")
    for name in ASSUMPTIONS:
        group_of(fits, name)
    return joined(run.drop_nodes((*FITTED, *CONFRONTED), errors="ignore"), fits)
