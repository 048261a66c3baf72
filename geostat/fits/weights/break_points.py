"""Break points, frequency and amplitude of the four-phase profile: least squares by search.

Source: arXiv 2602.01893, Assumption 3, on the logarithm: b on the plateau i ≤ T₁, b + log(1 + η
cos ωi) on T₁ < i ≤ T₂, b + η(i − T₂) beyond; least squares over tokens. Three forms: *monotone*
(T₁ = T₂, no oscillation), *shared* (as printed) and *separate* (η_osc and η_tail). Steps for one
profile:

1. monotone: for every T₂ the best b and η in closed form, from running sums: O(T), exact.
2. oscillation, coarse: every wave of a grid of ω over (0, π] (positions are integers: ω and 2π − ω
   are equivalent) and η, with all pairs of break points on a grid of blocks. Level and slope have
   a closed form (variable projection); the size of a wave is free within its class of η.
3. the best frequencies: all pairs of integer break points near the best pair, level and slope in
   closed form, and Newton's method on (b, η, ω), alternately, also from nearby frequencies.
4. the best one, in a thorough search: the same from more frequencies, then with all pairs of break
   points.

An oscillation must span MIN_OSCILLATION tokens and a full period; a shorter one cannot be
distinguished from a trend. 0 ≤ η ≤ ETA_MAX with an oscillation; without one the slope is only ≥ 0.
At the returned ω and η of a thorough search no other break points, level or slope fit better: step
4 tries all. Over ω and η the optimum is not proven: `search_twice` searches from two interleaved
grids and returns their difference, the gap; `studies.search` compares with brute force.
Indices here count content tokens from 0; `first` is the position of the first. Imports numpy.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from geostat.fits.weights.break_point_kernels import ETA_MAX, search_rows
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.losses import mean_over_documents

BLOCKS = 32
CANDIDATES = 4
"""Number of frequencies that are refined."""
THOROUGH = 16
"""The same for `search_twice`."""
MAX_GAP = 1e-3
"""Largest gap of a fit that counts as converged."""
SLOW = 12.0
"""Number of periods over the profile up to which the grid has all classes of η."""
CLASSES = ((0.3, 0.45), (0.6, 0.7), (0.8, 0.86), (0.92, 0.95), (0.98, ETA_MAX))
"""η of the wave and largest η of each class of slow waves."""
FAST = (0.4, ETA_MAX)
"""The same of the only class of fast waves."""
COLUMNS = ("squares", "b", "eta_osc", "eta_tail", "omega", "t1", "t2", "converged")
FORMS = ("monotone", "shared", "separate")


@lru_cache(maxsize=4)
def _grids(tokens: int, first: int, shift: float) -> tuple[np.ndarray, ...]:
    """Return the grid of the coarse search, moved by `shift` steps.

    Waves log(1 + η cos ωi)/η, (token, wave), with three rows of zeros at the end; prefix sums over
    blocks of the waves and of their squares, (2, edge, wave); edges of the blocks; and ω, (wave,).
    Waves of a class share η and a range of amplitudes: the first wave of each class, then η, least
    and largest amplitude by class.
    """
    steps = (np.arange(1, 4, 0.0625) + shift / 16, np.arange(4, SLOW, 0.125) + shift / 8)
    number = min(2 * tokens, 4096)
    slow, fast = np.concatenate(steps), 0.5 * tokens * (np.arange(1, number + 1) - shift) / number
    slow, fast = slow[slow <= tokens / 2], fast[fast > SLOW]
    etas, highest = np.array([*CLASSES, FAST]).T
    lowest = np.array([0.0, *highest[:-2], 0.0])
    sizes = [*[slow.size] * len(CLASSES), fast.size]
    omega = 2.0 * np.pi / tokens * np.concatenate([*[slow] * len(CLASSES), fast])
    edges, shapes = np.cumsum([0, *sizes]), np.repeat(etas, sizes)
    waves = np.log1p(shapes * np.cos(np.outer(first + np.arange(tokens), omega))) / shapes
    number = min(BLOCKS, tokens)
    inner = (np.arange(1, number + 1) - shift) * tokens / number
    starts = np.unique([0, *inner.astype(np.int64), tokens])
    sums = np.zeros((2, starts.size, omega.size))
    for power in range(2):
        of_blocks = np.add.reduceat(waves ** (power + 1), starts[:-1], axis=0)
        sums[power, 1:] = np.cumsum(of_blocks, axis=0)
    padded = np.pad(waves, ((0, 3), (0, 0)))
    of_waves = [array.astype(np.float32) for array in (omega, etas, lowest, highest)]
    return padded.astype(np.float32), sums.astype(np.float32), starts, edges, *of_waves


def search(
    rows: FloatArray,
    first: int,
    forms: int = len(FORMS),
    *,
    near: dict[str, FloatArray] | None = None,
    thorough: bool = False,
    shift: float = 0.0,
) -> dict[str, FloatArray]:
    """Fit many log profiles on all processor cores with the first `forms` of FORMS.

    Args:
        rows: log profiles, (row, token), nats, NaN where unknown.
        first: position of the first content token.
        forms: number of forms.
        near: a result, (form, row), from whose optima the search starts as well.
        thorough: refine THOROUGH frequencies instead of CANDIDATES, and try all break points.
        shift: fraction of a step by which the grids are moved.

    Returns:
        Arrays of shape (form, row): squares (sum of squared residuals, nats²), b (log p_base),
        eta_osc, eta_tail, omega (NaN if monotone), t1, t2 (positions), converged (1 or 0). NaN
        where a form cannot be fitted: no known token, an oscillation in a constant row (which
        monotone fits exactly), or fewer than MIN_OSCILLATION + 4 known tokens for an oscillating
        form.
    """
    out = np.full((rows.shape[0], forms, len(COLUMNS)), np.nan)
    given = np.full((rows.shape[0], 2, 6), np.nan)
    if near is not None:
        start = [near[name][1:].T for name in ("b", "eta_osc", "omega", "eta_tail", "t1", "t2")]
        given[:] = np.stack(start, axis=-1) - np.array([0, 0, 0, 0, first, first])
    candidates = THOROUGH if thorough else CANDIDATES
    if rows.size:
        grids, data = (
            _grids(rows.shape[1], first, shift),
            np.ascontiguousarray(rows, dtype=np.float64),
        )
        threads = os.cpu_count() or 1
        size = max(1, min(16, -(-rows.shape[0] // (2 * threads))))

        def search_chunk(start: int) -> None:
            chunk = slice(start, start + size)
            search_rows(data[chunk], first, grids, given[chunk], candidates, thorough, out[chunk])

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(search_chunk, range(0, rows.shape[0], size)))
    results = {name: out[:, :, column].T for column, name in enumerate(COLUMNS)}
    return results | {name: results[name] + first for name in ("t1", "t2")}


def search_twice(rows: FloatArray, first: int) -> dict[str, FloatArray]:
    """Fit log profiles by two thorough searches from interleaved grids; arguments as in `search`.

    Returns the better result of each form and row, and its `gap`: the relative difference of the
    two rmse. With a gap above MAX_GAP a fit has not converged.
    """
    result, other = (search(rows, first, thorough=True, shift=shift) for shift in (0.0, 0.5))
    worse = np.maximum(result["squares"], other["squares"])
    better = other["squares"] < result["squares"]
    result = {name: np.where(better, other[name], values) for name, values in result.items()}
    gap = 1.0 - np.sqrt(ratio(result["squares"], worse, 1.0))
    result["gap"] = np.where(np.isfinite(worse), gap, np.nan)
    result["converged"] *= result["gap"] <= MAX_GAP
    return result


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
