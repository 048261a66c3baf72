"""Batched least squares of similarity decays, many rows at once: the starts of lmfit, and all
leave-one-document-out replicates.

The constant has a closed form; forms with one rate b are `rate_solver`'s, the stretched exponential
is `stretched_solver`'s. Imports numpy and geostat's forms.
"""

from __future__ import annotations

import numpy as np

from geostat.fits.similarity.forms import ABSENT, FORM, PARAMETERS, Solution, distance
from geostat.fits.similarity.rate_solver import AMPLITUDE_MAX, AMPLITUDE_MIN, Rows, best_rate
from geostat.fits.similarity.stretched_solver import solve_stretched
from geostat.statistics.arrays import BoolArray, FloatArray

CHUNK = 2**18
"""Numbers (rows × lags) worked on at once: 2 MB an array, which a cache holds."""


def solve(form: str, lag: FloatArray, cosine: FloatArray, pairs: FloatArray) -> Solution:
    """Fit many rows of c̄_k, (row, lag), NaN where unknown, at once; `lag` k ≥ 1 rises, `pairs` are
    m_k, both (lag,).

    Returns:
        Solution, arrays of shape (row,); NaN and not converged where a row knows fewer lags than
        the form has parameters.
    """
    rows = cosine.shape[0]
    out: dict[str, np.ndarray] = {name: np.full(rows, np.nan) for name in (*PARAMETERS, "squares")}
    out |= {
        name: np.zeros(rows, dtype=bool)
        for name in (*(f"{name}_at_bound" for name in PARAMETERS), "converged")
    }
    known = np.isfinite(cosine)
    usable = np.flatnonzero(known.sum(axis=-1) >= FORM[form].number)
    step = max(CHUNK // max(lag.size, 1), 1)
    for start in range(0, usable.size, step):
        at = usable[start : start + step]
        part = Rows(np.where(known[at], 1.0 - cosine[at], 0.0), known[at] * pairs)
        for name, result in _solve(form, lag, part).items():
            out[name][at] = result
    values, at_bound = (
        {name: out[name] for name in PARAMETERS},
        {name: out[f"{name}_at_bound"] for name in PARAMETERS},
    )
    return Solution(
        values=values, at_bound=at_bound, squares=out["squares"], converged=out["converged"]
    )


def _solve(form: str, lag: FloatArray, rows: Rows) -> dict[str, np.ndarray]:
    """Return parameters, squares, converged, and what is at a bound, each (row,)."""
    count = rows.z.shape[0]
    no, absent = (
        np.zeros(count, dtype=bool),
        {name: np.full(count, value) for name, value in ABSENT.items()},
    )
    out: dict[str, np.ndarray] = absent | {f"{name}_at_bound": no for name in PARAMETERS}
    if form == "constant":
        amplitude = np.clip(
            (rows.weight * rows.z).sum(axis=-1) / rows.weight.sum(axis=-1),
            AMPLITUDE_MIN,
            AMPLITUDE_MAX,
        )
        squares = (rows.weight * (rows.z - amplitude[:, None]) ** 2).sum(axis=-1)
        return out | {
            "offset": 1.0 - amplitude,
            "offset_at_bound": _edge(amplitude),
            "squares": squares,
            "converged": ~no,
        }
    if form == "stretched":
        return out | solve_stretched(lag, rows)
    free = "offset" in FORM[form].parameters
    best = best_rate(distance(form, lag), rows, free)
    out |= {
        "beta": best.rate,
        "squares": best.squares,
        "beta_at_bound": best.at_bound,
        "converged": best.converged,
    }
    if free:  # with b = 0 there is no h, and A is undetermined
        undetermined = best.rate == 0
        out |= {
            "offset": np.where(undetermined, 0.0, 1.0 - best.amplitude),
            "offset_at_bound": _edge(best.amplitude) | undetermined,
        }
    return out


def _edge(amplitude: FloatArray) -> BoolArray:
    """Say where A is at a bound."""
    return np.asarray((amplitude <= AMPLITUDE_MIN) | (amplitude >= AMPLITUDE_MAX))
