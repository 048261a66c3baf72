"""The two forms of similarity decay, and the batched least-squares solver for them.

Source: arXiv 2602.01893, Assumption 2.1: the exponential e^{−βk}; its *offset* rival is c + (1−c)e^{−βk}.
A fit minimises Σ_k m_k (c̄_k − f(k))², c̄_k the mean cosine at lag k and m_k its number of pairs.
Bounds: 0 ≤ β ≤ 20 (beyond, neighbours share no similarity that could be told from none), −1 ≤ c ≤ 1 (the limit of a cosine).
Imports numpy and lmfit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import lmfit
import numpy as np

from geostat.fitting import LMFIT_KEYWORDS
from geostat.jackknife import BoolArray, FloatArray

FORMS = ("exponential", "offset")
BETA_MAX = 20.0
OFFSET_MIN, OFFSET_MAX = -1.0, 1.0


def by_lag(form: str, lag: FloatArray, beta: FloatArray | float, offset: FloatArray | float = 0.0) -> FloatArray:
    """Return the modelled cosine at each lag.

    Args:
        form: "exponential" (e^{−βk}; `offset` is ignored) or "offset" (c + (1−c)e^{−βk}).
        lag: k ≥ 0, in tokens; broadcasts against the parameters.
        beta: β ≥ 0, per token.
        offset: c, the cosine at long lags.

    Returns:
        Cosines, broadcast shape.
    """
    decay = np.exp(-np.asarray(beta) * lag)
    return decay if form == "exponential" else offset + (1.0 - np.asarray(offset)) * decay


def exponential(lag: FloatArray, beta: float) -> FloatArray:
    """Return e^{−βk} (Assumption 2.1)."""
    return by_lag("exponential", lag, beta)


def with_offset(lag: FloatArray, beta: float, offset: float) -> FloatArray:
    """Return c + (1−c)e^{−βk}, the offset rival."""
    return by_lag("offset", lag, beta, offset)


MODELS = {"exponential": lmfit.Model(exponential, independent_vars=["lag"]), "offset": lmfit.Model(with_offset, independent_vars=["lag"])}


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Least-squares optima, one for each row. `beta_at_bound` and `offset_at_bound` tell where the optimum is at a bound."""

    beta: FloatArray
    offset: FloatArray
    squares: FloatArray
    beta_at_bound: BoolArray
    offset_at_bound: BoolArray
    converged: BoolArray


def solve(form: str, lag: FloatArray, cosine: FloatArray, pairs: FloatArray) -> Solution:
    """Fit many rows at once: a grid over β with c profiled out, golden section inside the best cell, Newton to the end.

    Args:
        form: one of FORMS.
        lag: k, shape (lag,).
        cosine: c̄_k, shape (row, lag); NaN where unknown.
        pairs: m_k, shape (lag,).

    Returns:
        Solution, arrays of shape (row,); NaN and not converged where a row knows fewer lags than the form has parameters.
    """
    known = np.isfinite(cosine)
    usable = known.sum(axis=-1) >= len(MODELS[form].param_names)
    y = np.where(known, cosine, 0.0)
    weight = known * pairs
    if not usable.any():
        nan, no = np.full(usable.shape, np.nan), np.zeros(usable.shape, dtype=bool)
        return Solution(beta=nan, offset=nan.copy(), squares=nan.copy(), beta_at_bound=no, offset_at_bound=no.copy(), converged=no.copy())
    low, high = _grid_optimum(form, lag, y, weight)
    beta, converged = _newton(form, _golden(form, low, high, lag, y, weight), low, high, lag, y, weight)
    offset, squares = _profiled(form, beta, lag, y, weight)
    at_bound = np.zeros(beta.shape, dtype=bool)
    for bound in (0.0, BETA_MAX):
        there = np.full(beta.shape, bound)
        edge_offset, edge_squares = _profiled(form, there, lag, y, weight)
        # No optimum inside is better than the bound by more than rounding: the bound is the optimum.
        take = (edge_squares <= squares * (1 + 1e-12)) & ~at_bound
        beta, offset, squares, at_bound = (
            np.where(take, there, beta),
            np.where(take, edge_offset, offset),
            np.where(take, edge_squares, squares),
            at_bound | take,
        )
    stuck = (form == "offset") & ((offset <= OFFSET_MIN) | (offset >= OFFSET_MAX) | (at_bound & (beta == 0)))
    nan_out = np.where(usable, 1.0, np.nan)
    return Solution(
        beta=beta * nan_out,
        offset=offset * nan_out,
        squares=squares * nan_out,
        beta_at_bound=at_bound & usable,
        offset_at_bound=stuck & usable,
        converged=(converged | at_bound) & usable,
    )


def _profiled(form: str, beta: FloatArray, lag: FloatArray, y: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the best offset for each row's β and the sum of squares there."""
    decay = np.exp(-beta[:, None] * lag)
    if form == "exponential":
        return np.zeros(beta.shape), (weight * (y - decay) ** 2).sum(axis=-1)
    rest = 1.0 - decay
    bottom = (weight * rest**2).sum(axis=-1)
    top = (weight * (y - decay) * rest).sum(axis=-1)
    offset = np.clip(np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0), OFFSET_MIN, OFFSET_MAX)
    return offset, (weight * (y - decay - offset[:, None] * rest) ** 2).sum(axis=-1)


@lru_cache(maxsize=4)
def _grid(lags: bytes) -> tuple[FloatArray, ...]:
    """Return the grid of β for lags given as bytes, and e, e², 1 − e, (1 − e)², e(1 − e) of e = e^{−βk}, each (lag, grid)."""
    lag = np.frombuffer(lags)
    grid = np.concatenate([[0.0], np.geomspace(1e-3 / lag[-1], BETA_MAX, 240)])
    decay = np.exp(-np.outer(lag, grid))
    rest = 1.0 - decay
    return grid, decay, decay**2, rest, rest**2, decay * rest


def _grid_optimum(form: str, lag: FloatArray, y: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the neighbours, in the grid of β, of the best β for each row, by matrix products."""
    grid, decay, decay2, rest, rest2, cross = _grid(lag.tobytes())
    weighted = weight * y
    loss = weight @ decay2 - 2.0 * weighted @ decay
    if form == "offset":
        bottom, top = weight @ rest2, weighted @ rest - weight @ cross
        offset = np.clip(np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0), OFFSET_MIN, OFFSET_MAX)
        loss += offset * (offset * bottom - 2.0 * top)
    best = loss.argmin(axis=-1)
    return grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, grid.size - 1)]


def _golden(form: str, low: FloatArray, high: FloatArray, lag: FloatArray, y: FloatArray, weight: FloatArray) -> FloatArray:
    ratio = (np.sqrt(5.0) - 1.0) / 2.0
    a, b = low, high
    for _ in range(8):  # to 2% of a grid cell, where Newton's method takes over
        left, right = b - ratio * (b - a), a + ratio * (b - a)
        smaller = _profiled(form, left, lag, y, weight)[1] < _profiled(form, right, lag, y, weight)[1]
        a, b = np.where(smaller, a, left), np.where(smaller, right, b)
    return (a + b) / 2.0


def _newton(
    form: str, start: FloatArray, low: FloatArray, high: FloatArray, lag: FloatArray, y: FloatArray, weight: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Polish β by Newton's method on the loss with c profiled out; stay inside [low, high]."""
    beta, converged = start, np.zeros(start.shape, dtype=bool)
    for _ in range(12):
        offset, _ = _profiled(form, beta, lag, y, weight)
        amplitude = (1.0 - offset)[:, None]
        decay = np.exp(-beta[:, None] * lag)
        residual = y - (1.0 - amplitude + amplitude * decay)
        slope = -amplitude * lag * decay
        gradient = -(weight * residual * slope).sum(axis=-1)
        curvature = (weight * (slope**2 - residual * amplitude * lag**2 * decay)).sum(axis=-1)
        if form == "offset":
            rest = 1.0 - decay
            free = (offset > OFFSET_MIN) & (offset < OFFSET_MAX)
            cross = (weight * (slope * rest - residual * lag * decay)).sum(axis=-1)
            bottom = (weight * rest**2).sum(axis=-1)
            curvature = curvature - np.divide(cross**2, bottom, out=np.zeros_like(cross), where=free & (bottom > 0))
        step = np.divide(gradient, curvature, out=np.zeros_like(gradient), where=curvature > 0)
        moved = np.clip(beta - step, low, high)
        converged = (np.abs(moved - beta) <= 1e-10 * np.abs(beta)) & (curvature > 0)
        beta = moved
        if converged.all():
            break
    return beta, converged


def parameters(form: str, start: Solution, row: int) -> lmfit.Parameters:
    """Return lmfit parameters started at a solver's row; one at its bound is held there, for lmfit would give it a tiny error."""
    out = lmfit.Parameters()
    out.add("beta", value=float(start.beta[row]), min=0.0, vary=not bool(start.beta_at_bound[row]))
    if form == "offset":
        out.add("offset", value=float(start.offset[row]), min=OFFSET_MIN, max=OFFSET_MAX, vary=not bool(start.offset_at_bound[row]))
    return out


def derivatives(parameters: lmfit.Parameters, data: FloatArray, weights: FloatArray, lag: FloatArray) -> FloatArray:
    """Return the Jacobian of lmfit's residual, weights · (data − model), in the free parameters.

    Finite differences would stop 1e-5 short of the optimum where a form fits badly.
    """
    value = parameters.valuesdict()
    decay = np.exp(-value["beta"] * lag)
    column = {"beta": (1.0 - value.get("offset", 0.0)) * lag * decay, "offset": decay - 1.0}
    free = [name for name, parameter in parameters.items() if parameter.vary]
    return np.stack([weights * column[name] for name in free], axis=-1) if free else np.empty((lag.size, 0))


KEYWORDS = LMFIT_KEYWORDS | {"fit_kws": LMFIT_KEYWORDS["fit_kws"] | {"Dfun": derivatives}}


def fit_row(form: str, lag: FloatArray, cosine: FloatArray, pairs: FloatArray, start: Solution, row: int) -> lmfit.model.ModelResult:
    """Fit one row with lmfit from the solver's optimum; weights are √m_k."""
    known = np.isfinite(cosine)
    return MODELS[form].fit(cosine[known], parameters(form, start, row), lag=lag[known], weights=np.sqrt(pairs[known]), **KEYWORDS)
