"""Break points, frequency and amplitude of the four-phase profile: least squares by exhaustive
search.

Source: arXiv 2602.01893, Assumption 3, on the logarithm: b on the plateau i ≤ T₁, b + log(1 + η
cos ωi) on T₁ < i ≤ T₂, b + η(i − T₂) beyond; least squares over tokens. Three forms: *monotone*
(T₁ = T₂, no oscillation), *shared* (as printed) and *separate* (η_osc and η_tail). The search, for
one profile:

1. monotone: for every T₂ the best b and η in closed form, from sums carried along: O(T), exact.
2. oscillation, coarse: every frequency of a grid over (0, π] (positions are integers: ω and 2π − ω
   are one), every amplitude of a grid, every pair of break points on a grid of blocks, by prefix
   minima; the oscillation enters by its mean and first harmonic.
3. the best few frequencies: exact scan over all pairs of integer break points in O(T), then
   Levenberg-Marquardt on (b, η, ω), in turn.
4. T₂ is moved by 1 to 16 tokens, everything else refitted, until no move helps: T₂ and the slope
   pull on each other.

An oscillation must span MIN_OSCILLATION tokens and a full period, or it could not be told from a
trend. 0 ≤ η ≤ ETA_MAX where there is one; without one the slope is only ≥ 0. Steps 2-4 do not
prove a global optimum; the tests measure how often they find the planted one. Indices here count
content tokens from 0; `first` is the position of the first. Imports numpy.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from geostat.fits.weights.break_point_kernels import MIN_OSCILLATION, search_rows
from geostat.statistics.arrays import FloatArray
from geostat.statistics.losses import mean_over_documents

BLOCKS = 64
ETA_GRID = np.geomspace(0.01, 0.95, 8)
COLUMNS = ("squares", "b", "eta_osc", "eta_tail", "omega", "t1", "t2", "converged")
FORMS = ("monotone", "shared", "separate")


@lru_cache(maxsize=2)
def _grids(tokens: int, first: int) -> tuple[np.ndarray, ...]:
    """Return frequencies (two per resolvable one, at most 4096), cosines, (token, frequency), their
    sums and sums of squares over blocks, (block, frequency), the blocks' edges, and, by number of
    tokens, the first frequency of which they hold a period and that they are enough to oscillate.
    """
    number = int(min(max(2 * tokens, 16), 4096))
    frequencies = np.pi * np.arange(1, number + 1) / number
    cosines = np.cos(np.outer(first + np.arange(tokens), frequencies))
    starts = np.unique(np.linspace(0, tokens, min(BLOCKS, tokens) + 1).astype(np.int64))
    blocks = (np.add.reduceat(x, starts[:-1], axis=0) for x in (cosines, cosines**2))
    spans = np.maximum(float(MIN_OSCILLATION), 2.0 * np.pi / frequencies)  # falling
    fastest = np.searchsorted(-spans, -np.arange(tokens + 1.0))
    return frequencies, cosines, *blocks, starts, fastest


def search(rows: FloatArray, first: int, forms: int = len(FORMS)) -> dict[str, FloatArray]:
    """Fit many log profiles, (row, token), nats, NaN where unknown, with the first `forms` of
    FORMS, on all processor cores; `first` is the position of the first content token.

    Returns:
        Arrays of shape (form, row), forms as in FORMS: squares (sum of squared residuals, nats²), b
        (log p_base), eta_osc, eta_tail, omega (NaN if monotone), t1, t2 (positions), converged (1
        or 0). NaN where a form cannot be fitted: no known token, a constant row (monotone fits it
        exactly), or fewer than MIN_OSCILLATION + 4 known tokens for an oscillating form.
    """
    out = np.full((rows.shape[0], forms, len(COLUMNS)), np.nan)
    if rows.size:
        grids, data = _grids(rows.shape[1], first), np.ascontiguousarray(rows, dtype=np.float64)
        threads = os.cpu_count() or 1
        size = max(1, min(16, -(-rows.shape[0] // (2 * threads))))

        def one(start: int) -> None:
            part = slice(start, start + size)
            search_rows(data[part], first, *grids, ETA_GRID, out[part])

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(one, range(0, rows.shape[0], size)))
    results = {name: out[:, :, k].T for k, name in enumerate(COLUMNS)}
    return results | {name: results[name] + first for name in ("t1", "t2")}


def search_monotone(rows: FloatArray, first: int) -> dict[str, FloatArray]:
    """Fit many log profiles with the monotone form only, which takes microseconds; as `search`,
    but of shape (row,).
    """
    return {name: values[0] for name, values in search(rows, first, 1).items()}


def search_documents(
    log_weight: FloatArray, first: int, form: NDArray[np.int64]
) -> dict[str, np.ndarray]:
    """Fit every document's log weights, (document, head, token), alone, by each head's `form`, an
    index of FORMS, (head,); η is the oscillation's where there is one.

    Returns parameters, document_x, (document, head), and the standard deviation over documents of
    the break points, x_document_sd, (head,), NaN with fewer than two documents.
    """
    documents, heads, content = log_weight.shape
    result = search_monotone(log_weight.reshape(documents * heads, content), first)
    each = {name: rows.reshape(documents, heads).copy() for name, rows in result.items()}
    each["eta"] = each["eta_tail"].copy()
    oscillates = np.flatnonzero(form != FORMS.index("monotone"))
    if oscillates.size:
        fits = search(log_weight[:, oscillates].reshape(-1, content), first)
        fits["eta"] = fits["eta_osc"]
        for name in each:
            rows = fits[name].reshape(len(FORMS), documents, -1)
            each[name][:, oscillates] = rows[form[oscillates], :, np.arange(oscillates.size)].T
    out = {f"document_{name}": each[name] for name in ("eta", "omega", "t1", "t2")}
    out["document_p_base"] = np.exp(each["b"])
    for name in ("t1", "t2"):
        count = np.isfinite(each[name]).sum(axis=0)
        squares = mean_over_documents((each[name] - mean_over_documents(each[name])) ** 2)
        out[f"{name}_document_sd"] = np.sqrt(
            np.where(count > 1, squares * count / np.maximum(count - 1, 1), np.nan)
        )
    return out
