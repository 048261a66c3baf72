"""Described variables: an array with its dims, name, unit, symbol and equation."""

from __future__ import annotations

from typing import Any, Final

import xarray as xr
from numpy.typing import NDArray

from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Interval

__all__ = ["EFFECTS", "described", "described_parameter", "sink_flag"]
EFFECTS: Final = frozenset(
    (
        "cv_position",
        "cv_profile",
        "cv_token",
        "drift_slope",
        "growth",
        "lam",
        "mae_by_lag",
        "misfit",
        "rmse",
        "sink_slope",
        "total_model_log",
        "trend",
    )
)
"""What claims are on, bounds apart: an estimate x has x_skew and x_without beside x_se."""


def described(
    dims: tuple[str, ...], values: NDArray[Any], *, long_name: str, units: str, symbol: str, equation: str, **more: Any
) -> xr.Variable:
    """Return a variable with the attributes every result carries; `symbol` is LaTeX without dollar signs."""
    return xr.Variable(dims, values, {"long_name": long_name, "units": units, "symbol": symbol, "equation": equation, **more})


def sink_flag(capture: xr.Dataset) -> xr.Variable:
    """Return sink_visible (layer) as a result's variable."""
    seen = capture["sink_visible"].values.astype(bool)
    return described(("layer",), seen, long_name="the analysed query sees the sink", units="1", symbol=r"0 \in V", equation="")


def described_parameter(
    name: str,
    dims: tuple[str, ...],
    values: FloatArray,
    spread: Interval,
    *,
    long_name: str,
    units: str,
    symbol: str,
    equation: str,
    judged: bool = False,
    **more: Any,
) -> dict[str, xr.Variable]:
    """Return a parameter as x, x_se, x_lower, x_upper, each with its attributes; with x_skew and x_without where a verdict is given on it (`judged`)."""
    kind = "95% document jackknife, t(K-1)"
    common = {"units": units, "equation": equation, "interval": kind, **more}
    made = {
        name: described(dims, values, long_name=long_name, symbol=symbol, **common),
        f"{name}_se": described(dims, spread.se, long_name=f"standard error of {long_name}", symbol=rf"\mathrm{{se}}({symbol})", **common),
        f"{name}_lower": described(
            dims, spread.lower, long_name=f"lower limit of {long_name}", symbol=rf"{{{symbol}}}_{{\mathrm{{lo}}}}", **common
        ),
        f"{name}_upper": described(
            dims, spread.upper, long_name=f"upper limit of {long_name}", symbol=rf"{{{symbol}}}_{{\mathrm{{hi}}}}", **common
        ),
    }
    if judged and spread.skew is not None:
        made[f"{name}_skew"] = described(
            dims,
            spread.skew,
            long_name=f"skewness of single documents in {long_name}",
            symbol=rf"\mathrm{{G}}_1({symbol})",
            **common | {"units": "1"},
        )
    if judged and spread.without is not None:
        made[f"{name}_without"] = described(
            (*dims, "document"), spread.without, long_name=f"{long_name}, without the document", symbol=rf"{{{symbol}}}_{{(k)}}", **common
        )
    return made
