"""Described variables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import xarray as xr

from geostat.datasets.variable import Variable, described, variables
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate

__all__ = ["described", "described_parameter"]


def described_parameter(
    name: str,
    dims: tuple[str, ...],
    values: FloatArray,
    spread: Estimate,
    *,
    long_name: str,
    units: str,
    symbol: str,
    equation: str,
    **more: Any,
) -> dict[str, xr.Variable]:
    """Return an estimate as x, x_se, x_lower, x_upper, each with its attributes."""
    return variables(
        [Variable(name, long_name, units, symbol, equation, more, dims, estimated=True)], {name: replace(spread, value=values)}
    )
