r"""Does the effective attention set size grow with the context? N* of the last L tokens of each
window, with the same targets, and the power γ of N* ∝ L^γ.

γ is the slope of log N* on log L by least squares, with a jackknife over documents. 0: a query
needs so many tokens whatever the context; 1: a share of it. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.variable import Value, Variable, join, variables
from geostat.experiments.effective_size import Cell, next_size, star
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
    """Return VARIABLES from losses; None where fewer than two contexts were settled."""
    contexts = contexts_of(losses)
    found: dict[str, dict[int, Estimate]] = {}
    for mode in dict.fromkeys(cell.mode for cell in losses if cell.scope.startswith("last ")):
        for context in contexts:
            plain, curve = losses[plain_cell(context)], curve_of(losses, context, mode)
            if mode and curve and next_size(plain, curve, [tau], context) is None:
                found.setdefault(mode, {})[context] = star(plain, curve, tau, context)
    settled = [one for one in contexts if all(one in each for each in found.values())]
    if not found or len(settled) < 2:
        return None
    stars = [[each[context] for context in settled] for each in found.values()]
    rows = [_together(row) for row in stars]
    numbers: dict[str, Value] = {
        "context_n_star": _together(rows),
        "context_loss": np.stack([losses[plain_cell(one)] for one in settled]),
        "context_power": _together([power(settled, row) for row in rows]),
    }
    coords = {
        "mode": list(found),
        "context": xr.Variable("context", settled, {"long_name": "tokens of context L"}),
    }
    return xr.Dataset(variables(VARIABLES, numbers), coords=coords)


def power(contexts: Sequence[int], stars: Estimate) -> Estimate:
    """Return γ from N* of each context, (context), with N* without each document, (context,
    document).

    >>> sizes = Estimate(**{part: np.array([2.0, 4.0]) for part in ("value", "se", "lower",
    ...     "upper")}, without=np.array([[2.0, 2.0], [4.0, 4.0]]))
    >>> round(float(power([8, 32], sizes).value), 3)
    0.5
    """
    logs = np.log(np.asarray(contexts, dtype=np.float64))
    weights = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
    assert stars.without is not None
    return jackknife(np.asarray(weights @ np.log(stars.value)), np.log(stars.without).T @ weights)


def _together(each: Sequence[Estimate]) -> Estimate:
    """Return estimates along a new first axis; the interval's scale is theirs."""
    joined = join(each, np.stack)
    assert isinstance(joined, Estimate)
    return joined
