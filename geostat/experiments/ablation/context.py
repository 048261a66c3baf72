r"""Does the effective attention set size grow with the context? N* of the last L tokens of each
window, with the same targets, and the power γ of N* ∝ L^γ.

γ is the slope of log N* on log L by least squares, with a jackknife over documents. 0: a query
needs so many tokens whatever the context; 1: a share of it. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.variable import Value, Variable, join, variables
from geostat.experiments.effective_size import Cell, crossing, next_size, star
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate, jackknife

SCOPE: Final = "last {} tokens"
_estimate = partial(Variable, estimated=True, equation="arXiv 2609.37879")
VARIABLES: Final = (
    _estimate(
        "context_n_star",
        "effective attention set size where the window's last L tokens are all the context",
        "tokens",
        r"N^*_\tau",
        dims=("mode", "context"),
    ),
    Variable(
        "context_loss",
        "mean next-token loss where the window's last L tokens are all the context",
        "nats",
        r"\mathrm{NLL}",
        dims=("context", "document"),
    ),
    _estimate(
        "context_power",
        "power of L with which the effective set size grows, by least squares of logarithms",
        symbol=r"\gamma",
        dims=("mode",),
    ),
)


def plain_cell(context: int) -> Cell:
    """Name the model as it is on the last tokens of a window."""
    return Cell(SCOPE.format(context), "", "", 0)


def curve_of(losses: Mapping[Cell, FloatArray], context: int, mode: str) -> dict[int, FloatArray]:
    """Return losses of a context by N, (document)."""
    key = (SCOPE.format(context), "attention", mode)
    return {cell.n: loss for cell, loss in losses.items() if cell[:3] == key}


def contexts_of(losses: Mapping[Cell, FloatArray]) -> list[int]:
    """Return the contexts that were measured, ascending."""
    words = [cell.scope.split() for cell in losses if cell.rule == "" and cell.scope]
    return sorted(int(word[1]) for word in words)


def context_dataset(losses: Mapping[Cell, FloatArray], tau: float) -> xr.Dataset | None:
    """Return VARIABLES from losses, NaN where N* is not settled; None where no mode has two
    contexts.
    """
    contexts = contexts_of(losses)
    modes = dict.fromkeys(c.mode for c in losses if c.mode and c.scope.startswith("last "))
    stars: list[list[Estimate]] = []
    powers: list[Estimate] = []
    most = 0
    for mode in modes:
        row, places = [], {}
        for context in contexts:
            plain, curve = losses[plain_cell(context)], curve_of(losses, context, mode)
            settled = bool(curve) and next_size(plain, curve, [tau], context) is None
            row.append(star(plain, curve, tau, context) if settled else _unknown(len(plain)))
            if settled:
                places[context] = crossing(plain, curve, tau, context)
        stars.append(row)
        powers.append(power(places))
        most = max(most, len(places))
    if most < 2:
        return None
    numbers: dict[str, Value] = {
        "context_n_star": _together([_together(row) for row in stars]),
        "context_loss": np.stack([losses[plain_cell(one)] for one in contexts]),
        "context_power": _together(powers),
    }
    coords = {
        "mode": list(modes),
        "context": xr.Variable("context", contexts, {"long_name": "tokens of context L"}),
    }
    return xr.Dataset(variables(VARIABLES, numbers), coords=coords)


def power(places: Mapping[int, tuple[FloatArray, FloatArray]]) -> Estimate:
    """Return γ from where the mean rise crosses τ in each context, and that without each document,
    (document); NaN of fewer than two contexts, and where N* is 1 in each, its least.

    >>> round(float(power({8: (np.array(2.0), np.full(2, 2.0)),
    ...                    32: (np.array(4.0), np.full(2, 4.0))}).value), 3)
    0.5
    """
    if len(places) < 2 or all(place[0] <= 1 for place in places.values()):
        return _unknown(2)
    logs = np.log([float(context) for context in places])
    weights = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
    value, without = (
        np.log(np.stack([place[part] for place in places.values()])) for part in (0, 1)
    )
    return jackknife(np.asarray(weights @ value), without.T @ weights)


def _unknown(documents: int) -> Estimate:
    return jackknife(np.array(np.nan), np.full(documents, np.nan))


def _together(each: Sequence[Estimate]) -> Estimate:
    """Return estimates along a new first axis; the interval's scale is theirs."""
    bare = [replace(one, without=None, scale="plain") for one in each]
    joined = join(bare, np.stack)
    assert isinstance(joined, Estimate)
    return joined
