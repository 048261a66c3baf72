"""Are selected tokens more separable than chance? Measured Precision and Recall minus those of each null, document by document.

Source: arXiv 2602.01893, §4 and Figure 5, which finds separability best at N in [1, 4] without a null. A head's null shares its document and its N, so
differences are paired; heads are averaged within a document, and documents are the sample. Imports numpy, scipy.special and xarray.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import xarray as xr
from scipy.special import stdtr, stdtrit

from geostat.datasets.tokens import require
from geostat.datasets.words import described, described_parameter
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import LEVEL, Estimate, jackknife, leave_one_out_mean
from geostat.statistics.multiple import FALSE_DISCOVERIES, adjusted

__all__ = ["FLOOR", "STATISTICS", "compare_with_nulls", "sign_flip"]

STATISTICS: Final = ("precision", "recall")
FLOOR: Final = "floor"
"""The trivial floor N/T of Precision, as a null: a ball that holds every token. Recall has none but 0."""
EXACT_UP_TO: Final = 12
"""Documents up to which every pattern of signs is tried; beyond, `FLIPS` of them by lot."""
FLIPS: Final = 4096
SEED: Final = 0
LEAST_DOCUMENTS: Final = 6
"""Documents below which no exact two-sided p-value reaches 0.05: 2 / 2⁵ is 0.0625."""
DIMS: Final = ("document", "layer", "head", "n")


def compare_with_nulls(capture: xr.Dataset, null: xr.Dataset | None) -> xr.Dataset:
    """Compare measured Precision and Recall with every null at every N.

    Args:
        capture: a /capture dataset.
        null: a /null dataset of the same documents and sizes, or None where none was measured; the floor is then the only null.

    Returns:
        /separable, over (null, n), nulls as in /null and "floor" (Precision only). For each statistic s: s_gain (measured minus null, mean over heads and
        documents) with _se, _lower, _upper (95%, t(K−1), each N by itself) and _band_lower, _band_upper (95% for all N at once, Bonferroni); s_p
        (two-sided) and s_p_holm (Holm over the sizes 1 < N < T of this statistic and null); s_more and s_less: heads above and below the null by an exact
        sign-flip test over documents, Benjamini-Hochberg over heads at each N, q = 0.05; s_above: heads whose mean is above, untested; s_heads: how many
        there are. NaN where not determined; the attribute
        `notes` says why.
    """
    require(capture, {name: DIMS for name in STATISTICS})
    documents, tokens = capture.sizes["document"], capture["tokens"].values
    n = capture["n"].values
    names = [*([] if null is None else [str(name) for name in null["null"].values]), FLOOR]
    between = n[None, :] < tokens[:, None]
    inside: BoolArray = np.asarray(between & (n > 1))[:, None, :]
    out: dict[str, xr.Variable] = {}
    for statistic in STATISTICS:
        measured = capture[statistic].values.astype(np.float64)
        found = [_compared(measured - _null(statistic, name, measured, null, n / tokens[:, None]), inside) for name in names]
        out |= _variables(statistic, {part: np.stack([rows[part] for rows in found]) for part in found[0]})
    data = xr.Dataset(out, coords={"null": np.array(names, dtype=object), "n": capture["n"].variable})
    data.attrs = {
        "long_name": "separability against its nulls", "documents": documents, "false_discovery_rate": FALSE_DISCOVERIES, "level": LEVEL,
        "correction": "Holm (p-values) and Bonferroni (bands) over the sizes 1 < N < T of one statistic and null", "notes": _notes(documents, null),
    }  # fmt: skip
    return data


def _null(statistic: str, name: str, measured: FloatArray, null: xr.Dataset | None, floor: FloatArray) -> FloatArray:
    """What a null gives in place of the measured curves, same shape (document, layer, head, n)."""
    if name == FLOOR:
        whole = np.where(floor <= 1, floor, np.nan)[None, :, None, :] if statistic == "precision" else np.nan
        return np.broadcast_to(whole, measured.shape)
    assert null is not None
    return null[statistic].sel(null=name).transpose(*DIMS).values.astype(np.float64)


def _compared(difference: FloatArray, inside: BoolArray) -> dict[str, FloatArray]:
    """Everything about measured minus null, (document, layer, head, n), of which `inside` (layer, 1, n) is no matter of definition."""
    documents, sizes = difference.shape[0], difference.shape[-1]
    flat = difference.reshape(documents, -1, sizes)
    known = np.isfinite(flat)
    number = known.sum(axis=1)
    each = np.divide(np.where(known, flat, 0.0).sum(axis=1), number, out=np.full(number.shape, np.nan), where=number > 0)
    carries = np.isfinite(each)
    total = carries.sum(axis=0)
    gain = np.divide(np.where(carries, each, 0.0).sum(axis=0), total, out=np.full(sizes, np.nan), where=total > 0)
    spread = jackknife(gain, leave_one_out_mean(each), carries)  # of a mean: its ordinary standard error
    tested = inside.any(axis=(0, 1)) & np.isfinite(spread.se)
    p = np.where(tested, p_value(gain, spread.se, total - 1), np.nan)
    family = max(int(tested.sum()), 1)
    half = np.where(tested, stdtrit(np.maximum(total - 1, 1), 1 - (1 - LEVEL) / (2 * family)) * spread.se, np.nan)
    parts = {
        "gain": gain,
        "gain_se": spread.se,
        "gain_lower": spread.lower,
        "gain_upper": spread.upper,
        "p": p,
        "p_holm": adjusted(p, "holm"),
    }
    parts |= {"gain_band_lower": gain - half, "gain_band_upper": gain + half}
    heads = np.where(np.broadcast_to(inside, difference.shape[1:]), difference, np.nan).reshape(flat.shape)
    return parts | _by_head(heads)


def _by_head(difference: FloatArray) -> dict[str, FloatArray]:
    """Count the heads above and below the null at each N, (document, head, n); more and less are NaN with too few documents to tell."""
    sizes = difference.shape[-1]
    tested = np.isfinite(difference).all(axis=0)
    heads = tested.sum(axis=0).astype(np.float64)
    mean = np.where(tested, np.where(tested, difference, 0.0).mean(axis=0), np.nan)
    above = {"heads": heads, "above": np.where(heads > 0, (mean > 0).sum(axis=0), np.nan)}
    if difference.shape[0] < LEAST_DOCUMENTS or not heads.any():
        nothing = np.full(sizes, np.nan)
        return above | {"more": nothing, "less": nothing}
    p = np.where(tested, sign_flip(np.where(tested, difference, 0.0)), np.nan)
    found = adjusted(p, "fdr_bh") <= FALSE_DISCOVERIES
    counted = heads > 0
    signs = {"more": mean > 0, "less": mean < 0}
    return above | {name: np.where(counted, (found & side).sum(axis=0), np.nan) for name, side in signs.items()}


def p_value(gain: FloatArray, se: FloatArray, degrees: np.ndarray) -> FloatArray:
    """Two-sided p-value of a mean difference, Student's t; one without spread is 1 at 0 and 0 elsewhere, as it is known exactly."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(se > 0, np.abs(gain) / se, np.where(gain == 0, 0.0, np.inf))
    return np.where(np.isfinite(gain) & np.isfinite(se), 2 * stdtr(np.maximum(degrees, 1).astype(np.float64), -t), np.nan)


def sign_flip(difference: FloatArray, *, seed: int = SEED) -> FloatArray:
    """Return two-sided p-values of a mean difference over documents, by flipping the signs of whole documents.

    Exact where a document's difference is as likely d as −d, whatever its distribution: Precision and Recall at small N are fractions with few values.

    Args:
        difference: shape (document, ...), no NaN.
        seed: of the patterns drawn where there are more than `EXACT_UP_TO` documents.

    Returns:
        P-values of shape (...), at least 2 / 2^K.
    """
    documents = difference.shape[0]
    if documents <= EXACT_UP_TO:
        signs = 1.0 - 2.0 * (
            (np.arange(2 ** (documents - 1))[:, None] >> np.arange(documents)) & 1
        )  # the last sign stays: patterns come in pairs
    else:
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(FLIPS, documents))
        signs[0] = 1.0
    flat = difference.reshape(documents, -1)
    seen = np.abs(flat.sum(axis=0)) * (1 - 1e-9)
    reached = np.zeros(flat.shape[1])
    for row in signs:
        reached += np.abs(row @ flat) >= seen
    return (reached / len(signs)).reshape(difference.shape[1:])


def _variables(statistic: str, parts: dict[str, FloatArray]) -> dict[str, xr.Variable]:
    dims, letter = ("null", "n"), "P" if statistic == "precision" else "R"
    common: dict[str, Any] = {"units": "1", "equation": "Fig. 5"}
    spread = Estimate(value=parts["gain"], se=parts["gain_se"], lower=parts["gain_lower"], upper=parts["gain_upper"])
    words = f"measured {statistic} minus the null's, mean over heads"
    out = described_parameter(f"{statistic}_gain", dims, parts["gain"], spread, long_name=words, symbol=rf"\Delta {letter}", **common)
    for name, long_name in (
        ("gain_band_lower", f"lower limit of {words}, for all N at once"),
        ("gain_band_upper", f"upper limit of {words}, for all N at once"),
        ("p", f"p-value of {words}"),
        ("p_holm", f"p-value of {words}, Holm over N"),
        ("more", f"heads whose {statistic} is above the null's"),
        ("less", f"heads whose {statistic} is below the null's"),
        ("above", f"heads whose mean {statistic} is above the null's, tested or not"),
        ("heads", "heads with a curve of their own at this N"),
    ):
        out[f"{statistic}_{name}"] = described(dims, parts[name], long_name=long_name, symbol="", **common)
    return out


def _notes(documents: int, null: xr.Dataset | None) -> list[str]:
    """What is not determined, and why."""
    notes = []
    if null is None:
        notes.append("No null was measured (/null): the floor N/T is the only one.")
    if documents < 2:
        notes.append("One document: no intervals and no tests.")
    if documents < LEAST_DOCUMENTS:
        notes.append(f"{documents} documents: a head cannot be told from chance by an exact test, which needs {LEAST_DOCUMENTS}.")
    return notes
