"""Curves that tell the regime of a head: contributions of the sink, the last token and the rest,
and alignment with the sink and the last token by N, of each document.

Source: arXiv 2602.01893, §4.2; the rules that read them stand in
`geostat.experiments.head_regime_rules`. Imports numpy and xarray.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.separability import STATISTICS
from geostat.experiments.head_regime_rules import THRESHOLDS, Features, Thresholds, labels
from geostat.statistics.arrays import FloatArray, ratio

AT_ONCE: Final = 4_000_000
"""Entries of a resampled curve held in memory."""

NORMS: Final = (
    "representative_norm",
    "representative_norm_without_sink",
    "representative_norm_without_last",
)
COSINES: Final = ("cosine_to_sink", "cosine_to_last")
NEEDS: Final = {
    **{name: ("document", "layer", "head", "n") for name in (*NORMS, *COSINES, *STATISTICS)},
    "attention_weight": ("document", "layer", "head", "position"),
    "value_norm": ("document", "layer", "kv_head", "position"),
    "sink_cosine": ("document", "layer", "kv_head", "position"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadCurves:
    """Of each document: contributions (document, layer, head) and alignment curves (document,
    layer, head, n); NaN where no sink is seen.
    """

    sizes: dict[str, FloatArray]
    sink: FloatArray
    """cos(s(N), v₀)."""
    last: FloatArray
    """cos(s(N), v_L)."""
    n: np.ndarray
    tokens: np.ndarray

    @classmethod
    def of(cls, capture: xr.Dataset) -> HeadCurves:
        """Read a /capture dataset. The rest's sum comes from ‖s∖0‖² + ‖s∖L‖² − ‖s‖² + 2⟨α₀v₀,
        α_Lv_L⟩ at N = T: NaN where the run holds no N = T.
        """
        values = {name: capture[name].values.astype(np.float64) for name in NEEDS}
        group, n, tokens = (
            capture["kv_head_of_head"].values,
            capture["n"].values,
            capture["tokens"].values.astype(int),
        )
        norm = values["value_norm"][:, :, group]
        y = values["attention_weight"] * np.where(np.isfinite(norm), norm, 0.0)
        y[~np.isfinite(norm).any(axis=-1)] = np.nan
        seen = capture["sink_visible"].values.astype(bool)[:, None]
        sink, last = np.where(seen, y[..., 0], np.nan), y[..., -1]
        cosine = values["sink_cosine"][:, :, group, -1]
        whole = n == tokens[:, None]
        at, known = whole.argmax(axis=1), whole.any(axis=1)[:, None]
        norms = [
            np.where(known, values[name][:, np.arange(at.size), :, at].transpose(1, 0, 2), np.nan)
            for name in NORMS
        ]
        inner = np.where(sink * last == 0, 0.0, sink * last * cosine)
        squared = norms[1] ** 2 + norms[2] ** 2 - norms[0] ** 2 + 2 * inner
        sizes = {
            "sink": sink,
            "last": last,
            "rest": np.sqrt(np.maximum(squared, 0.0)),
            "rest_total": np.where(seen, y[..., 1:-1].sum(axis=-1), np.nan),
        }
        to_sink, to_last = (np.where(seen[..., None], values[name], np.nan) for name in COSINES)
        return cls(sizes=sizes, sink=to_sink, last=to_last, n=n, tokens=tokens)

    def label(self, shares: FloatArray, at: Thresholds = THRESHOLDS) -> np.ndarray:
        """Label every head from means over documents weighted by `shares` (replicate, document):
        (criterion, replicate, layer, head).
        """
        step = max(1, AT_ONCE // max(self.sink[0].size, 1))
        out = []
        for first in range(0, len(shares), step):
            some = shares[first : first + step]
            sizes = {name: weighted(values, some) for name, values in self.sizes.items()}
            features = Features.of(
                weighted(self.sink, some), weighted(self.last, some), self.n, self.tokens, at
            )
            out.append(labels(sizes, features, at))
        return np.concatenate(out, axis=1)


def weighted(values: FloatArray, shares: FloatArray) -> FloatArray:
    """Return means over documents, shape (replicate, ...), weighted by `shares` (replicate,
    document); NaN is left out.
    """
    known = np.isfinite(values)
    total = shares @ np.where(known, values, 0.0).reshape(len(values), -1)
    weight = (
        shares.sum(axis=1, keepdims=True)
        if known.all()
        else shares @ known.reshape(len(values), -1).astype(np.float64)
    )
    return ratio(total, weight).reshape(len(shares), *values.shape[1:])
