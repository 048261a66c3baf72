"""What a run holds: names, dimensions, units, symbols and equation numbers of every measured
variable.

Source: the definitions (1)-(8), (18)-(20) of arXiv 2602.01893 and the figures they are drawn in.
Imports numpy and xarray.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

SCHEMA_VERSION: Final = 4
"""Raised whenever a stored name, dimension, meaning or the layout on disk changes; a store of
another version is not resumed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One stored array: its dimensions after `document`, its type and what it means.

    `layered` variables are filled layer by layer and have `layer` as first dimension.
    """

    dims: tuple[str, ...]
    long_name: str
    units: str
    symbol: str
    equation: str
    dtype: str = "float32"
    note: str = ""
    invisible: float | None = None
    """What stands at the positions that a layer's query does not see; None: `fill`, as where
    nothing was measured.
    """

    @property
    def fill(self) -> float | int | str:
        """What stands where nothing was measured: NaN for floats, 0 for counts."""
        return float("nan") if np.dtype(self.dtype).kind == "f" else 0

    def attributes(self) -> dict[str, str]:
        """The attributes that travel with the array in the store."""
        attrs = {
            "long_name": self.long_name,
            "units": self.units,
            "symbol": self.symbol,
            "equation": self.equation,
        }
        return attrs | ({"note": self.note} if self.note else {})


def variable(
    dims: str, long_name: str, units: str, symbol: str, equation: str, **more: Any
) -> Variable:
    """Return a stored array's record; `dims` are separated by spaces."""
    return Variable(
        dims=tuple(dims.split()),
        long_name=long_name,
        units=units,
        symbol=symbol,
        equation=equation,
        **more,
    )


VALUE_UNITS: Final = "value norm"
"""Unit of everything measured in value-state space: that of the model's own value states."""

_POSITION = "layer kv_head position"
_LAG = "layer kv_head lag"
_curve = partial(variable, "layer head n")


def _size(long_name: str, symbol: str, equation: str) -> Variable:
    """A curve in the unit of value states."""
    return _curve(long_name, VALUE_UNITS, symbol, equation)


SEPARABILITY: Final = {
    "precision": _curve(
        "Precision at the outer radius", "1", r"P(r_{\max},N)", "(2), Definition 1"
    ),
    "recall": _curve("Recall at the inner radius", "1", r"R(r_{\min},N)", "(3), Definition 2"),
    "r_min": _size("inner radius", r"r_{\min}", "(18)"),
    "r_max": _size("outer radius", r"r_{\max}", "(18)"),
}

_ENDS: Final = (("sink", "the sink", "0"), ("last", "the last token", "L"))
"""Tokens at both ends of a document: as in names, in words, as an index of the paper."""

CURVES: Final = {
    "representative_norm": _size("norm of the representative", r"\|s(N)\|", "(1)"),
    **{
        f"representative_norm_without_{token}": _size(
            f"norm of the representative without {words}", rf"\|s(N\setminus {index})\|", "Fig. 7"
        )
        for token, words, index in _ENDS
    },
    "cosine_to_sink": _curve(
        "cosine of the representative with the sink's value", "1", r"\cos(s,v_0)", "Fig. 7"
    ),
    "cosine_to_last": _curve(
        "cosine of the representative with the last value", "1", r"\cos(s,v_L)", "Fig. 7"
    ),
    "a_min_in": _size(
        "smallest selected effective weight, sink left out", r"a_{\min}^{\mathrm{in}}", "(7)"
    ),
    "a_min_in_with_sink": _size("smallest selected effective weight", r"\min_{I_N} a_i", "(7)"),
    "a_max_in": _size(
        "largest selected effective weight, sink included", r"a_{\max}^{\mathrm{in}}", "(8)"
    ),
    "a_max_in_without_sink": _size(
        "largest selected effective weight, sink left out", r"\max_{I_N\setminus 0} a_i", "(8)"
    ),
    "a_max_out": _size("largest effective weight outside", r"a_{\max}^{\mathrm{out}}", "(7)"),
    "s_in": _size(
        "sum of the selected effective weights, sink left out", r"S_{\mathrm{in}}", "(7)"
    ),
    "rho_in": _curve(
        "largest cosine among the selected, sink left out", "1", r"\rho_{\mathrm{in}}", "(8)"
    ),
    "rho_out": _curve(
        "largest cosine between a selected and another token, selected sink left out",
        "1",
        r"\rho_{\mathrm{out}}",
        "(7)",
    ),
}
"""Columns of the compiled `curves_of_head` in its order, then the largest cosines."""

CAPTURE: Final = {
    "token_id": variable("position", "token id", "1", "", "", dtype="int32"),
    "attention_weight": variable(
        "layer head position",
        "attention weight of the last query",
        "1",
        r"\alpha_i",
        "§2",
        invisible=0.0,
    ),
    "value_norm": variable(
        _POSITION, "norm of the value state", VALUE_UNITS, r"\|v_i\|", "Assumption 1"
    ),
    "sink_cosine": variable(
        _POSITION,
        "cosine with the sink's value state",
        "1",
        r"\cos(v_0,v_i)",
        "(6), Assumption 2.2",
    ),
    "cosine_to_last_value": variable(
        _POSITION, "cosine with the last value state", "1", r"\cos(v_i,v_L)", "(6)"
    ),
    "cosine_mean": variable(
        _LAG,
        "mean cosine of content values at a lag",
        "1",
        r"\overline{\cos}(k)",
        "(6), Assumption 2.1",
    ),
    "cosine_std": variable(
        _LAG, "standard deviation of the cosine at a lag", "1", r"\mathrm{sd}\cos(k)", "(6)"
    ),
    "cosine_negative_fraction": variable(
        _LAG, "share of negative cosines at a lag", "1", r"\Pr(\cos<0)", "(6)"
    ),
    "cosine_histogram": variable(
        "layer kv_head lag_bin cosine_bin",
        "pairs by lag and cosine",
        "pairs",
        "",
        "(6)",
        dtype="int32",
    ),
    "cosine_block_mean": variable(
        "layer kv_head position_block lag_bin",
        "mean cosine by position of the later token and lag",
        "1",
        r"\overline{\cos}(k)",
        "(6)",
    ),
    **SEPARABILITY,
    **CURVES,
}
"""Every variable of /capture except the principal components of named heads."""

PRINCIPAL: Final = {
    "principal_components": variable(
        "named_head position component",
        "principal components of the contributions",
        VALUE_UNITS,
        "",
        "Figs. 1 and 9",
    )
}

NULLS: Final = ("random_selection", "random_directions")

NULL: Final = {
    name: replace(
        row, dims=("layer", "head", "null", "n"), long_name=f"{row.long_name}, null baseline"
    )
    for name, row in SEPARABILITY.items()
}

F_SCORES: Final = {
    "f_outer": _curve("F-score at the outer radius", "1", r"F(r_{\max},N)", "(5), Corollary 1"),
    "f_inner": _curve("F-score at the inner radius", "1", r"F(r_{\min},N)", "(5), Corollary 1"),
}
"""Stored in /queries alone: else derived from Precision and Recall where these are read
(`with_f_scores`).
"""

LABELS: Final = {
    "layer": ("layer", "layer", "1"),
    "tokens": ("layer", "visible tokens T", "tokens"),
    "sink_visible": ("layer", "position 0 is visible", "1"),
    "head": ("head", "head", "1"),
    "kv_head_of_head": ("head", "kv_head of a head", "1"),
    "kv_head": ("kv_head", "kv_head", "1"),
    "position": ("position", "position", "1"),
    "n": ("n", "selected tokens N", "1"),
    "lag": ("lag", "lag |i-j|", "tokens"),
    "lag_bin": ("lag_bin", "lag bin", "1"),
    "lag_bin_start": ("lag_bin", "first lag of the bin", "tokens"),
    "lag_bin_stop": ("lag_bin", "last lag of the bin", "tokens"),
    "cosine_bin": ("cosine_bin", "cosine bin", "1"),
    "cosine_bin_left": ("cosine_bin", "left edge of the cosine bin", "1"),
    "cosine_bin_right": ("cosine_bin", "right edge of the cosine bin", "1"),
    "position_block": ("position_block", "position bin", "1"),
    "position_block_start": ("position_block", "first position of the bin", "1"),
    "position_block_stop": ("position_block", "last position of the bin", "1"),
    "named_head": ("named_head", "named head", "1"),
    "component": ("component", "principal component", "1"),
    "null": ("null", "null baseline", "1"),
    "query": ("query", "analysed query", "1"),
}
"""Every coordinate of /capture and /null: its dimension, long name and unit."""


def coordinates(**values: np.ndarray) -> dict[str, xr.Variable]:
    """Return axes and their labels by name, each as `LABELS` describes it.

    >>> coordinates(lag=np.arange(1, 4))["lag"].attrs
    {'long_name': 'lag |i-j|', 'units': 'tokens'}
    """
    described = [(name, array, *LABELS[name]) for name, array in values.items()]
    return {
        name: xr.Variable(dim, array, {"long_name": long_name, "units": units})
        for name, array, dim, long_name, units in described
    }


def f_scores(precision: Any, recall: Any, convention: str) -> tuple[Any, Any]:
    """Return F(r_max) and F(r_min) of arrays, plain or labelled; (5), Corollary 1.

    `paper`: R(r_max) = 1 and P(r_min) = 1, so F(r_max) = 2P/(1+P) and F(r_min) = 2R/(1+R).
    `followup`: both are its one F = 2PR/(P+R), 0 where both are 0.
    """
    if convention != "followup":
        return 2 * precision / (1 + precision), 2 * recall / (1 + recall)
    total = precision + recall
    with np.errstate(invalid="ignore"):
        both = xr.where(total > 0, 2 * precision * recall / total, total)
    return both, both


def with_f_scores(dataset: xr.Dataset) -> xr.Dataset:
    """Add f_outer and f_inner where Precision and Recall are held, by the run's convention."""
    if not {"precision", "recall"} <= set(dataset.data_vars) or "convention" not in dataset.attrs:
        return dataset
    if set(F_SCORES) <= set(dataset.data_vars):  # means over queries are no function of means
        return dataset
    outer, inner = f_scores(dataset["precision"], dataset["recall"], dataset.attrs["convention"])
    return dataset.assign(
        f_outer=outer.assign_attrs(F_SCORES["f_outer"].attributes()),
        f_inner=inner.assign_attrs(F_SCORES["f_inner"].attributes()),
    )
