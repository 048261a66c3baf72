r"""Growth of the effective attention set size with context length: N* ∝ L^γ.

N* is measured for the last L tokens of each window, with the same targets. γ is the least-squares
slope of log N* on log L, with a jackknife over documents. γ = 0: N* does not depend on L; γ = 1:
N* is a fixed share of L. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import xarray as xr

from geostat.analyses.effective_size import Cell, crossing, curve_of, star
from geostat.datasets.table import quantities
from geostat.datasets.variable import Value, stacked, variables
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate, jackknife

SCOPE: Final = "last {} tokens"
VARIABLES: Final = quantities(
    r"""
    context_n_star | tokens | N^*_\tau | effective attention set size with the last L tokens of the
        window as context | dims: mode context | estimated
    context_loss | nats | \mathrm{NLL} | mean next-token loss with the last L tokens of the window
        as context | dims: context document | none
    context_power | 1 | \gamma | exponent of the growth of N* with L, by least squares on logarithms
        | estimated
    """,
    dims=("mode",),
    equation="arXiv 2609.37879",
)


def plain_cell(context: int) -> Cell:
    """Return the key of losses without intervention on the last tokens of a window."""
    return Cell(SCOPE.format(context), "", "", 0)


def contexts_of(losses: Mapping[Cell, FloatArray]) -> list[int]:
    """Return the measured context lengths, ascending."""
    words = [cell.scope.split() for cell in losses if cell.rule == "" and cell.scope]
    return sorted(int(word[1]) for word in words)


def context_dataset(losses: Mapping[Cell, FloatArray], tau: float) -> xr.Dataset | None:
    """Return VARIABLES from losses; NaN if a search for N* is incomplete; None if no mode has two
    contexts.
    """
    contexts = contexts_of(losses)
    modes = dict.fromkeys(c.mode for c in losses if c.mode and c.scope.startswith("last "))
    stars: list[Estimate] = []
    powers: list[Estimate] = []
    most = 0
    for mode in modes:
        row, crossings = [], {}
        for context in contexts:
            key = plain_cell(context)
            plain, curve = losses[key], curve_of(losses, key.scope, "attention", mode)
            row.append(star(plain, curve, tau, context))
            if np.isfinite(row[-1].value):
                crossings[context] = crossing(plain, curve, tau, context)
        stars.append(stacked(row))
        powers.append(replace(power(crossings), without=None))
        most = max(most, len(crossings))
    if most < 2:
        return None
    numbers: dict[str, Value] = {
        "context_n_star": stacked(stars),
        "context_loss": np.stack([losses[plain_cell(context)] for context in contexts]),
        "context_power": stacked(powers),
    }
    coords = {
        "mode": list(modes),
        "context": xr.Variable("context", contexts, {"long_name": "context length L in tokens"}),
    }
    return xr.Dataset(variables(VARIABLES, numbers), coords=coords)


def power(crossings: Mapping[int, tuple[FloatArray, FloatArray]]) -> Estimate:
    """Return γ from the crossing of each context and its leave-one-out values, (document,).

    NaN with fewer than two contexts, or if N* is 1 in every context.

    >>> round(float(power({8: (np.array(2.0), np.full(2, 2.0)),
    ...                    32: (np.array(4.0), np.full(2, 4.0))}).value), 3)
    0.5
    """
    if len(crossings) < 2 or all(value <= 1 for value, _ in crossings.values()):
        return jackknife(np.array(np.nan), np.full(2, np.nan))
    logs = np.log([float(context) for context in crossings])
    weights = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
    value, without = (
        np.log(np.stack([pair[part] for pair in crossings.values()])) for part in (0, 1)
    )
    return jackknife(np.asarray(weights @ value), without.T @ weights)
