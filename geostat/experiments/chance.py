"""Separability against chance: measured Precision and Recall minus those of each null, document by
document.

Source: arXiv 2602.01893, §4 and Figure 5, which finds separability best at N in [1, 4] without a
null. A head's null shares its document and its N, so differences are paired; heads are averaged
within a document, and documents are the sample. Imports numpy, scipy.special and xarray.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr
from scipy.special import stdtrit

from geostat.datasets.separability import LETTERS, STATISTICS
from geostat.datasets.tokens import require
from geostat.datasets.variable import Value, Variable, join, variables
from geostat.statistics.arrays import BoolArray, FloatArray, pieces
from geostat.statistics.jackknife import LEVEL, document_mean
from geostat.statistics.losses import mean_over_documents
from geostat.statistics.multiple_testing import FALSE_DISCOVERIES, adjusted
from geostat.statistics.t_test import two_sided

FLOOR: Final = "floor"
"""The trivial floor N/T of Precision, as a null: a ball that holds every token. Recall has none
but 0.
"""
EXACT_UP_TO: Final = 12
"""Documents up to which every pattern of signs is tried; beyond, `FLIPS` of them by lot."""
FLIPS: Final = 4096
FLIPPED: Final = 2**18
"""Means of flipped differences counted at once: they stay in the processor's cache."""
SEED: Final = 0
LEAST_DOCUMENTS: Final = 6
"""Documents below which no exact two-sided p-value reaches 0.05: 2 / 2⁵ is 0.0625."""
DIMS: Final = ("document", "layer", "head", "n")


def _records(statistic: str) -> tuple[Variable, ...]:
    """Records of one statistic's variables."""
    words, record = (
        f"measured {statistic} minus the null's, mean over heads",
        partial(Variable, equation="Fig. 5", dims=("null", "n")),
    )
    return (
        record(f"{statistic}_gain", words, symbol=rf"\Delta {LETTERS[statistic]}", estimated=True),
        record(f"{statistic}_gain_band_lower", f"lower limit of {words}, for all N at once"),
        record(f"{statistic}_gain_band_upper", f"upper limit of {words}, for all N at once"),
        record(f"{statistic}_p", f"p-value of {words}"),
        record(f"{statistic}_p_holm", f"p-value of {words}, Holm over N"),
        record(f"{statistic}_more", f"heads whose {statistic} is above the null's"),
        record(f"{statistic}_less", f"heads whose {statistic} is below the null's"),
        record(
            f"{statistic}_above", f"heads whose mean {statistic} is above the null's, tested or not"
        ),
        record(f"{statistic}_heads", "heads with a curve of their own at this N"),
    )


VARIABLES: Final = tuple(record for statistic in STATISTICS for record in _records(statistic))


def compare_with_nulls(capture: xr.Dataset, null: xr.Dataset | None) -> xr.Dataset:
    """Compare measured Precision and Recall of /capture with every null at every N; without /null,
    of the same documents and sizes, the floor is the only one.

    Returns:
        /separable, over (null, n), as in VARIABLES, nulls as in /null and "floor" (Precision only).
        Intervals of s_gain are for each N by itself, its bands for all N at once (95%, Bonferroni);
        s_p_holm is over the sizes 1 < N < T of a statistic and null; s_more and s_less are by an
        exact sign-flip test over documents, Benjamini-Hochberg over heads at each N, q = 0.05. NaN
        where not determined; the attribute `notes` says why.
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
        numbers |= {
            f"{statistic}_{part}": join([row[part] for row in rows], np.stack) for part in rows[0]
        }
    data = xr.Dataset(
        variables(VARIABLES, numbers),
        coords={"null": np.array(names, dtype=object), "n": capture["n"].variable},
    )
    data.attrs = {
        "long_name": "separability against its nulls",
        "documents": documents,
        "false_discovery_rate": FALSE_DISCOVERIES,
        "level": LEVEL,
        "correction": (
            "Holm (p-values) and Bonferroni (bands) over the sizes 1 < N < T of one statistic and"
            " null"
        ),
        "notes": _notes(documents, null),
    }
    return data


def _difference(
    capture: xr.Dataset, null: xr.Dataset | None, statistic: str, name: str, **part: slice
) -> FloatArray:
    """Measured curves less those of a null, (document, layer, head, n), of a part of the documents
    or layers.
    """
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
    """Everything about measured minus null, (document, layer, head, n), of which `inside`
    (layer, 1, n) is no matter of definition; `difference` gives a part of it.
    """
    documents, layers, heads, sizes = shape
    flat = (
        difference(document=some).reshape(-1, layers * heads, sizes)
        for some in pieces(documents, layers * heads * sizes)
    )
    each = np.concatenate([mean_over_documents(some.swapaxes(0, 1)) for some in flat])
    gain, total = document_mean(each), np.isfinite(each).sum(axis=0)
    tested = inside.any(axis=(0, 1)) & np.isfinite(gain.se)
    p = np.where(tested, two_sided(gain.value, gain.se, total - 1), np.nan)
    family = max(int(tested.sum()), 1)
    half = np.where(
        tested, stdtrit(np.maximum(total - 1, 1), 1 - (1 - LEVEL) / (2 * family)) * gain.se, np.nan
    )
    bands = {"gain_band_lower": gain.value - half, "gain_band_upper": gain.value + half}
    of_heads = [
        _tested(
            np.where(inside[some], difference(layer=some), np.nan).reshape(documents, -1, sizes)
        )
        for some in pieces(layers, documents * heads * sizes)
    ]
    mean, chance = (np.concatenate(parts) for parts in zip(*of_heads, strict=True))
    counts = _by_head(mean, chance)
    return {"gain": gain, "p": p, "p_holm": adjusted(p, "holm"), **bands, **counts}


def _tested(difference: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean difference of each head, (document, head, n) → (head, n), NaN where a
    document's is, and its p-value, NaN with too few documents to tell.
    """
    known = np.isfinite(difference).all(axis=0)
    filled = np.where(known, difference, 0.0)
    unknown = np.full(known.shape, np.nan)
    enough = len(difference) >= LEAST_DOCUMENTS and known.any()
    p = np.where(known, sign_flip(filled), np.nan) if enough else unknown
    return np.where(known, filled.mean(axis=0), np.nan), p


def _by_head(mean: FloatArray, p: FloatArray) -> dict[str, FloatArray]:
    """Count the heads above and below the null at each N, of mean differences and their p-values,
    (head, n); more and less are NaN with too few documents to tell.
    """
    heads = np.isfinite(mean).sum(axis=0).astype(np.float64)
    above = {"heads": heads, "above": np.where(heads > 0, (mean > 0).sum(axis=0), np.nan)}
    if not np.isfinite(p).any():
        return above | dict.fromkeys(("more", "less"), np.full(heads.shape, np.nan))
    apart = adjusted(p, "fdr_bh") <= FALSE_DISCOVERIES
    signs = {"more": mean > 0, "less": mean < 0}
    return above | {
        name: np.where(heads > 0, (apart & side).sum(axis=0), np.nan)
        for name, side in signs.items()
    }


def sign_flip(difference: FloatArray, *, seed: int = SEED) -> FloatArray:
    """Return two-sided p-values of a mean difference over documents, by flipping the signs of whole
    documents.

    Exact where a document's difference is as likely d as −d, whatever its distribution: Precision
    and Recall at small N are fractions with few values.

    `difference` has shape (document, ...) and no NaN; p-values have shape (...) and are at least 2
    / 2^K. Above `EXACT_UP_TO` documents patterns are drawn by `seed`.

    >>> sign_flip(np.array([[1.0], [2.0], [0.5], [1.0], [1.5], [1.0]])).tolist()
    [0.03125]
    """
    documents = difference.shape[0]
    if documents <= EXACT_UP_TO:  # the last sign stays: patterns come in pairs
        signs = 1.0 - 2.0 * ((np.arange(2 ** (documents - 1))[:, None] >> np.arange(documents)) & 1)
    else:
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(FLIPS, documents))
        signs[0] = 1.0
    flat = difference.reshape(documents, -1)
    # sums that are equal but for rounding are as far out; it is relative to what they are made of
    seen = np.abs(flat.sum(axis=0)) - 1e-9 * np.abs(flat).sum(axis=0)
    reached = np.zeros(flat.shape[1])
    at_once = max(1, FLIPPED // max(1, flat.shape[1]))
    for first in range(0, len(signs), at_once):
        reached += (np.abs(signs[first : first + at_once] @ flat) >= seen).sum(axis=0)
    return (reached / len(signs)).reshape(difference.shape[1:])


def _notes(documents: int, null: xr.Dataset | None) -> list[str]:
    """What is not determined, and why."""
    few = (
        f"{documents} documents: a head cannot be told from chance by an exact test, which needs"
        f" {LEAST_DOCUMENTS}."
    )
    notes = {
        "No null was measured (/null): the floor N/T is the only one.": null is None,
        "One document: no intervals and no tests.": documents < 2,
        few: documents < LEAST_DOCUMENTS,
    }
    return [note for note, applies in notes.items() if applies]
