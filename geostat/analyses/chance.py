"""Null baselines of separability: measured Precision and Recall minus those of each null, by
document.

Source: arXiv 2602.01893, §4 and Figure 5, which reports the best separability at N in [1, 4]
without a null. A head and its null share document and N, so differences are paired. Heads are
averaged within a document; documents are the sampling unit. Imports numpy, scipy.special, xarray.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr
from scipy.special import stdtrit

from empirical.schema import Quantity
from geostat.datasets.separability import LETTERS, STATISTICS
from geostat.datasets.table import quantities
from geostat.datasets.tokens import require
from geostat.datasets.variable import Value, join_rows, variables
from geostat.statistics.arrays import BoolArray, FloatArray, pieces
from geostat.statistics.jackknife import LEVEL, document_mean
from geostat.statistics.losses import mean_over_documents
from geostat.statistics.multiple_testing import FALSE_DISCOVERIES, adjusted
from geostat.statistics.t_test import two_sided

FLOOR: Final = "floor"
"""Null baseline N/T of Precision: a ball that contains every token. The floor of Recall is 0."""
EXACT_UP_TO: Final = 12
"""Largest number of documents for an exact test; with more, `FLIPS` random sign patterns."""
FLIPS: Final = 4096
FLIPPED: Final = 2**18
"""Means of flipped differences per batch, chosen to fit the processor's cache."""
SEED: Final = 0
LEAST_DOCUMENTS: Final = 6
"""Fewest documents for which an exact two-sided p-value can reach 0.05; 2 / 2⁵ = 0.0625."""
DIMS: Final = ("document", "layer", "head", "n")


def _records(statistic: str) -> tuple[Quantity, ...]:
    """Return the records of one statistic."""
    gain = f"measured {statistic} minus the null's, mean over heads"
    return quantities(
        rf"""
    {statistic}_gain | 1 | \Delta {LETTERS[statistic]} | {gain} | estimated
    {statistic}_gain_band_lower | 1 | - | lower limit of the simultaneous band over N of {gain}
    {statistic}_gain_band_upper | 1 | - | upper limit of the simultaneous band over N of {gain}
    {statistic}_p | 1 | - | p-value of {gain}
    {statistic}_p_holm | 1 | - | Holm-adjusted p-value (over N) of {gain}
    {statistic}_more | 1 | - | heads with {statistic} significantly above the null
    {statistic}_less | 1 | - | heads with {statistic} significantly below the null
    {statistic}_above | 1 | - | heads with mean {statistic} above the null, significant or not
    {statistic}_heads | 1 | - | heads with a finite difference at this N in every document
    """,
        dims=("null", "n"),
        equation="Fig. 5",
    )


VARIABLES: Final = tuple(record for statistic in STATISTICS for record in _records(statistic))


def compare_with_nulls(capture: xr.Dataset, null: xr.Dataset | None) -> xr.Dataset:
    """Compare measured Precision and Recall with every null baseline at every N.

    Args:
        null: /null of the same documents and sizes; without it the floor is the only baseline.

    Returns:
        /separable, dims (null, n), with VARIABLES; nulls are those of /null and "floor" (Precision
        only). For a statistic s, intervals of s_gain are pointwise, and bands simultaneous over N
        (95%, Bonferroni); s_p_holm is adjusted over 1 < N < T. s_more and s_less count heads by a
        sign-flip test over documents, with Benjamini-Hochberg over heads at each N (q = 0.05).
        Missing values are NaN, with the reason in the attribute `notes`.
    """
    require(capture, {name: DIMS for name in STATISTICS})
    documents, tokens = capture.sizes["document"], capture["tokens"].values
    n, shape = capture["n"].values, tuple(capture.sizes[dim] for dim in DIMS)
    names = [*([] if null is None else [str(name) for name in null["null"].values]), FLOOR]
    between = n[None, :] < tokens[:, None]
    inside: BoolArray = np.asarray(between & (n > 1))[:, None, :]
    numbers: dict[str, Any] = {}
    for statistic in STATISTICS:
        rows = [
            _compared(partial(_difference, capture, null, statistic, name), inside, shape)
            for name in names
        ]
        numbers |= {f"{statistic}_{part}": values for part, values in join_rows(rows).items()}
    coords = {"null": np.array(names, dtype=object), "n": capture["n"].variable}
    attrs = {
        "long_name": "separability compared with null baselines",
        "documents": documents,
        "false_discovery_rate": FALSE_DISCOVERIES,
        "level": LEVEL,
        "correction": (
            "Holm (p-values) and Bonferroni (bands) over the sizes 1 < N < T of one statistic and"
            " null"
        ),
        "notes": _notes(documents, null),
    }
    return xr.Dataset(variables(VARIABLES, numbers), coords=coords, attrs=attrs)


def _difference(
    capture: xr.Dataset, null: xr.Dataset | None, statistic: str, name: str, **part: slice
) -> FloatArray:
    """Return measured curves minus those of a null, DIMS, for a slice of documents or layers."""
    data = capture.isel(part)
    measured = data[statistic].values.astype(np.float64)
    if name != FLOOR:
        assert null is not None
        return measured - null[statistic].isel(part).sel(null=name).transpose(*DIMS).values
    if statistic != "precision":
        return np.full(measured.shape, np.nan)
    floor = data["n"].values / data["tokens"].values[:, None]
    return np.asarray(measured - np.where(floor <= 1, floor, np.nan)[None, :, None, :])


def _compared(
    difference: Callable[..., FloatArray], inside: BoolArray, shape: tuple[int, ...]
) -> Mapping[str, Value]:
    """Return gain, p-values, bands and head counts of differences, whose whole shape is `shape`;
    only those `inside`, 1 < N < T, (layer, 1, n), are tested: the others hold by definition.
    """
    documents, layers, heads, sizes = shape
    by_document = np.concatenate(
        [
            mean_over_documents(
                difference(document=chunk).reshape(-1, layers * heads, sizes).swapaxes(0, 1)
            )
            for chunk in pieces(documents, layers * heads * sizes)
        ]
    )
    gain, total = document_mean(by_document), np.isfinite(by_document).sum(axis=0)
    tested = inside.any(axis=(0, 1)) & np.isfinite(gain.se)
    p = np.where(tested, two_sided(gain.value, gain.se, total - 1), np.nan)
    family = max(int(tested.sum()), 1)
    half = np.where(
        tested, stdtrit(np.maximum(total - 1, 1), 1 - (1 - LEVEL) / (2 * family)) * gain.se, np.nan
    )
    bands = {"gain_band_lower": gain.value - half, "gain_band_upper": gain.value + half}
    tests = [
        _head_tests(
            np.where(inside[chunk], difference(layer=chunk), np.nan).reshape(documents, -1, sizes)
        )
        for chunk in pieces(layers, documents * heads * sizes)
    ]
    mean, p_heads = (np.concatenate(parts) for parts in zip(*tests, strict=True))
    counts = _head_counts(mean, p_heads)
    return {"gain": gain, "p": p, "p_holm": adjusted(p, "holm"), **bands, **counts}


def _head_tests(difference: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean difference of each head and its p-value, (document, head, n) → (head, n);
    NaN if a document's difference is NaN; p-values also with too few documents.
    """
    known = np.isfinite(difference).all(axis=0)
    filled = np.where(known, difference, 0.0)
    testable = len(difference) >= LEAST_DOCUMENTS and known.any()
    p = np.where(known, sign_flip(filled), np.nan) if testable else np.full(known.shape, np.nan)
    return np.where(known, filled.mean(axis=0), np.nan), p


def _head_counts(mean: FloatArray, p: FloatArray) -> dict[str, FloatArray]:
    """Count the heads above and below the null at each N from mean differences and p-values,
    (head, n); without p-values, `more` and `less` are NaN.
    """
    heads = np.isfinite(mean).sum(axis=0).astype(np.float64)
    counts = {"heads": heads, "above": np.where(heads > 0, (mean > 0).sum(axis=0), np.nan)}
    significant = adjusted(p, "fdr_bh") <= FALSE_DISCOVERIES
    testable = (heads > 0) & np.isfinite(p).any()
    for name, side in {"more": mean > 0, "less": mean < 0}.items():
        counts[name] = np.where(testable, (significant & side).sum(axis=0), np.nan)
    return counts


def sign_flip(difference: FloatArray, *, seed: int = SEED) -> FloatArray:
    """Return two-sided p-values of mean differences by a sign-flip test over documents.

    The test is exact if the distribution of a document's difference is symmetric; it needs no other
    assumption, and Precision and Recall take few values at small N.

    Args:
        difference: (document, ...), without NaN.
        seed: seed of random sign patterns, used with more than `EXACT_UP_TO` documents.

    Returns:
        p-values, (...), at least 2 / 2^K for K documents.

    >>> sign_flip(np.array([[1.0], [2.0], [0.5], [1.0], [1.5], [1.0]])).tolist()
    [0.03125]
    """
    documents = difference.shape[0]
    if documents <= EXACT_UP_TO:  # fix the last sign: patterns come in pairs
        signs = 1.0 - 2.0 * ((np.arange(2 ** (documents - 1))[:, None] >> np.arange(documents)) & 1)
    else:
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(FLIPS, documents))
        signs[0] = 1.0
    flat = difference.reshape(documents, -1)
    # Sums that differ by rounding only count as equally extreme.
    observed = np.abs(flat.sum(axis=0)) - 1e-9 * np.abs(flat).sum(axis=0)
    extreme = np.zeros(flat.shape[1])
    batch = max(1, FLIPPED // max(1, flat.shape[1]))
    for first in range(0, len(signs), batch):
        extreme += (np.abs(signs[first : first + batch] @ flat) >= observed).sum(axis=0)
    return (extreme / len(signs)).reshape(difference.shape[1:])


def _notes(documents: int, null: xr.Dataset | None) -> list[str]:
    """Return notes on missing results and the reasons."""
    notes = []
    if null is None:
        notes += ["No null baselines were measured (/null): the floor N/T is the only baseline."]
    if documents < 2:
        notes += ["One document: no intervals and no tests."]
    if documents < LEAST_DOCUMENTS:
        notes += [
            f"{documents} documents: the exact test of single heads against chance needs"
            f" {LEAST_DOCUMENTS}."
        ]
    return notes
