"""Break points, frequency and amplitude of the four-phase profile: least squares by exhaustive
search.

Source: arXiv 2602.01893, Assumption 3, on the logarithm: b on the plateau i ≤ T₁, b + log(1 + η
cos ωi) on T₁ < i ≤ T₂, b + η(i − T₂) beyond; least squares over tokens. Three forms: *monotone*
(T₁ = T₂, no oscillation), *shared* (as printed) and *separate* (η_osc and η_tail). Steps for one
profile:

1. monotone: for every T₂ the best b and η in closed form, from running sums: O(T), exact.
2. oscillation, coarse: all frequencies of a grid over (0, π] (positions are integers: ω and 2π − ω
   are equivalent), all amplitudes of a grid, all pairs of break points on a grid of blocks, by
   prefix minima; the oscillation enters by its mean and first harmonic.
3. the best few frequencies: an exact scan over all pairs of integer break points in O(T) and
   Levenberg-Marquardt on (b, η, ω), alternately.
4. T₂ moves by 1 to 16 tokens, with everything else refitted, until no move helps: T₂ and the slope
   are correlated.

An oscillation must span MIN_OSCILLATION tokens and a full period; a shorter one cannot be
distinguished from a trend. 0 ≤ η ≤ ETA_MAX with an oscillation; without one the slope is only ≥ 0.
Steps 2-4 do not prove a global optimum; the tests measure how often they find the planted one.
Indices here count content tokens from 0; `first` is the position of the first. Imports numpy.
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
    """Return the grids of the coarse search.

    Frequencies (two per resolvable one, at most 4096); cosines, (token, frequency); sums of cosines
    and of their squares, (block, frequency); edges of the blocks; and, by number of tokens, the
    first frequency whose oscillation fits: a full period and MIN_OSCILLATION tokens.
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
    """Fit many log profiles on all processor cores with the first `forms` of FORMS.

    Args:
        rows: log profiles, (row, token), nats, NaN where unknown.
        first: position of the first content token.
        forms: number of forms.

    Returns:
        Arrays of shape (form, row): squares (sum of squared residuals, nats²), b (log p_base),
        eta_osc, eta_tail, omega (NaN if monotone), t1, t2 (positions), converged (1 or 0). NaN
        where a form cannot be fitted: no known token, an oscillation in a constant row (which
        monotone fits exactly), or fewer than MIN_OSCILLATION + 4 known tokens for an oscillating
        form.
    """
    out = np.full((rows.shape[0], forms, len(COLUMNS)), np.nan)
    if rows.size:
        grids, data = _grids(rows.shape[1], first), np.ascontiguousarray(rows, dtype=np.float64)
        threads = os.cpu_count() or 1
        size = max(1, min(16, -(-rows.shape[0] // (2 * threads))))

        def search_chunk(start: int) -> None:
            chunk = slice(start, start + size)
            search_rows(data[chunk], first, *grids, ETA_GRID, out[chunk])

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(search_chunk, range(0, rows.shape[0], size)))
    results = {name: out[:, :, column].T for column, name in enumerate(COLUMNS)}
    return results | {name: results[name] + first for name in ("t1", "t2")}


def search_monotone(rows: FloatArray, first: int) -> dict[str, FloatArray]:
    """Fit many log profiles, (row,), with the monotone form only, in microseconds per row."""
    return {name: values[0] for name, values in search(rows, first, 1).items()}


def search_documents(
    log_weight: FloatArray, first: int, form: NDArray[np.int64]
) -> dict[str, np.ndarray]:
    """Fit every document separately with its head's form, an index of FORMS, (head,).

    Returns document_x, (document, head), with η of the oscillation if any, and x_document_sd of the
    break points, (head,), NaN with fewer than two documents.
    """
    documents, heads, content = log_weight.shape
    result = search_monotone(log_weight.reshape(documents * heads, content), first)
    by_document = {name: rows.reshape(documents, heads).copy() for name, rows in result.items()}
    by_document["eta"] = by_document["eta_tail"].copy()
    oscillates = np.flatnonzero(form != FORMS.index("monotone"))
    if oscillates.size:
        fits = search(log_weight[:, oscillates].reshape(-1, content), first)
        fits["eta"] = fits["eta_osc"]
        for name in by_document:
            rows = fits[name].reshape(len(FORMS), documents, -1)
            of_form = rows[form[oscillates], :, np.arange(oscillates.size)]
            by_document[name][:, oscillates] = of_form.T
    out = {f"document_{name}": by_document[name] for name in ("eta", "omega", "t1", "t2")}
    out["document_p_base"] = np.exp(by_document["b"])
    for name in ("t1", "t2"):
        place = by_document[name]
        count = np.isfinite(place).sum(axis=0)
        squares = mean_over_documents((place - mean_over_documents(place)) ** 2)
        variance = np.where(count > 1, squares * count / np.maximum(count - 1, 1), np.nan)
        out[f"{name}_document_sd"] = np.sqrt(variance)
    return out
