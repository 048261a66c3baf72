"""What the three assumption fits share: reading a /capture dataset layer by layer, naming results, goodness of fit.

Imports numpy, xarray and this room's errors and jackknife.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from geostat.errors import InputError
from geostat.jackknife import PARTS, BoolArray, FloatArray, Interval

Progress = Callable[[float], None]
"""Called with the fraction of the work done, 0 to 1."""

LMFIT_KEYWORDS: dict[str, Any] = {"method": "leastsq", "nan_policy": "raise", "fit_kws": {"xtol": 1e-14, "ftol": 1e-14}}
"""How every lmfit Model is fitted: from the batched solver's optimum, never past a NaN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTokens:
    """Which positions of a layer the analysed query sees: the last `tokens` of them.

    Positions of tokens are counted from the first visible one, so that in a full-attention layer they are the document's own.
    """

    start: int
    tokens: int
    sink: bool

    @property
    def first_content(self) -> int:
        """Token position of the first content token: 1 behind a visible sink, else 0."""
        return int(self.sink)

    @property
    def content(self) -> int:
        """Number of visible tokens that are not the sink."""
        return self.tokens - self.first_content


def layer_tokens(capture: xr.Dataset, layer: int) -> LayerTokens:
    """Return the visible tokens of a layer.

    Args:
        capture: a /capture dataset with coordinates `tokens` and `sink_visible` on dim layer.
        layer: index (not label) of the layer.

    Raises:
        InputError: if the layer's number of tokens is not between 1 and the number of positions.
    """
    tokens = int(capture["tokens"].values[layer])
    positions = capture.sizes["position"]
    if not 1 <= tokens <= positions:
        name = capture["layer"].values[layer]
        raise InputError(f"layer {name} says it sees {tokens} tokens, expected 1 to {positions} (its positions). Capture the run again.")
    return LayerTokens(start=positions - tokens, tokens=tokens, sink=bool(capture["sink_visible"].values[layer]))


def heads_of(capture: xr.Dataset, layer: int, kv_head: int) -> NDArray[np.int64]:
    """Return the query heads (indices) that share a value head of a layer and have finite weights in every document."""
    group = np.flatnonzero(capture["kv_head_of_head"].values == kv_head)
    finite = np.isfinite(capture["attention_weight"].values[:, layer, group]).all(axis=(0, 2))
    return np.asarray(group[finite])


def require(capture: xr.Dataset, dims_of: Mapping[str, tuple[str, ...]]) -> None:
    """Check that a dataset has the variables a fit needs, each with the dims it needs, and at least one document.

    Raises:
        InputError: naming the first variable that is missing or misshapen.
    """
    for name, dims in {**dims_of, "tokens": ("layer",), "sink_visible": ("layer",)}.items():
        if name not in capture:
            raise InputError(
                f"the dataset has no variable {name!r}; expected a /capture dataset with dims {dims}. Use geostat capture to write one."
            )
        if capture[name].dims != dims:
            raise InputError(f"{name} has dims {tuple(capture[name].dims)}, expected {dims}. Transpose it or capture the run again.")
        if 0 in capture[name].shape:
            raise InputError(
                f"{name} is empty (shape {capture[name].shape}), expected at least one entry along each of {dims}. Capture documents first."
            )


def index_of(capture: xr.Dataset, dim: str, label: int) -> int:
    """Return the index of a label along a dim.

    Raises:
        InputError: if the dim has no such label.
    """
    labels = [int(x) for x in capture[dim].values]
    if label not in labels:
        raise InputError(f"{dim} {label} is not in this run, expected one of {labels[0]} to {labels[-1]}. Choose one of those.")
    return labels.index(label)


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


def at_estimate(estimate: FloatArray, spread: Interval, keep: BoolArray) -> Interval:
    """Return the interval with NaN where `keep` is false: a parameter at its bound has no standard error. What it is without a document stays."""
    parts = {name: getattr(spread, name) for name in PARTS if name != "without"}
    return Interval(
        **{name: np.where(keep, values, np.nan) for name, values in parts.items() if values is not None}, without=spread.without
    )


def mean_over_documents(values: FloatArray) -> FloatArray:
    """Return the mean along axis 0, ignoring NaN; NaN where no document has a value."""
    finite = np.isfinite(values)
    count = finite.sum(axis=0)
    total = np.where(finite, values, 0.0).sum(axis=0)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def bayesian_information(squares: FloatArray, points: FloatArray | int, parameters: FloatArray | int) -> FloatArray:
    """Return the BIC n ln(S/n) + k ln n of least squares, which takes the n points as independent.

    Args:
        squares: S, the (weighted) sum of squared residuals, any shape.
        points: n.
        parameters: k.

    Returns:
        BIC, same shape; NaN where the fit is exact (S = 0) and the likelihood has no bound.
    """
    n = np.asarray(points, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        bic = n * np.log(squares / n) + np.asarray(parameters) * np.log(n)
    return np.where(np.isfinite(bic), bic, np.nan)


def paired_gain(simple: FloatArray, rival: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean over documents of (loss of the simple form − loss of the rival) and its standard error.

    Args:
        simple: left-out loss of the simpler form, shape (document, ...).
        rival: left-out loss of the richer form, same shape.

    Returns:
        Gain and its standard error, shape (...); the standard error is NaN with fewer than two documents.
    """
    gain = simple - rival
    finite = np.isfinite(gain)
    count = finite.sum(axis=0)
    mean = mean_over_documents(gain)
    squares = np.where(finite, (gain - mean) ** 2, 0.0).sum(axis=0)
    enough = count > 1
    se = np.sqrt(np.divide(squares, (count - 1.0) * count, out=np.full(np.shape(squares), np.nan), where=enough))
    return mean, se
