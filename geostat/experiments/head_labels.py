"""Labels of heads: curves that tell the regime of a head, its label, and how stable that is over
documents and thresholds; Cohen's κ between the two criteria.

Sources: arXiv 2602.01893, §4.2, whose rules stand in `head_regime_rules`; Cohen (1960), "A
coefficient of agreement for nominal scales", Educational and Psychological Measurement 20. `label`
is everywhere that of the whole run, (criterion, layer, head). Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.datasets.separability import STATISTICS
from geostat.datasets.tokens import value_heads
from geostat.experiments.head_regime_rules import (
    CRITERIA,
    REGIMES,
    SWEEP,
    THRESHOLDS,
    UNKNOWN,
    Features,
    Thresholds,
    labels,
)
from geostat.statistics.arrays import FloatArray, pieces, ratio
from geostat.statistics.jackknife import jackknife, leave_one_out_mean

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
        names = set(NEEDS) - set(STATISTICS)
        values = {name: capture[name].values.astype(np.float64) for name in names}
        group, n, tokens = (
            value_heads(capture),
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
        out = [
            self._label(partial(weighted, shares=shares[some]), at)
            for some in pieces(len(shares), self.sink[0].size)
        ]
        return np.concatenate(out, axis=1)

    def label_without_each(self) -> np.ndarray:
        """Label every head from means over all documents but one: (criterion, document, layer,
        head).
        """
        return self._label(leave_one_out_mean, THRESHOLDS)

    def _label(self, mean: Callable[[FloatArray], FloatArray], at: Thresholds) -> np.ndarray:
        sizes = {name: mean(values) for name, values in self.sizes.items()}
        features = Features.of(mean(self.sink), mean(self.last), self.n, self.tokens, at)
        return labels(sizes, features, at)


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


def stability(
    seen: HeadCurves, label: np.ndarray, without: np.ndarray, resamples: int, seed: int
) -> dict[str, Any]:
    """Return the share of replicates that give a head the same label; NaN with one document, and
    where there is no label. `without` are the labels without each document.
    """
    count = len(seen.sink)
    random = np.random.default_rng(seed)
    draws = random.multinomial(count, np.full(count, 1 / count), size=resamples)
    others = {"left_out": without}
    if resamples:
        others["resampled"] = seen.label(draws.astype(np.float64))
    unknown = np.full(label.shape, np.nan)
    return {
        f"stability_{name}": np.where(
            label == UNKNOWN, np.nan, (others[name] == label[:, None]).mean(axis=1)
        )
        if count > 1 and name in others
        else unknown
        for name in ("left_out", "resampled")
    }


def sweep(seen: HeadCurves, label: np.ndarray, whole: FloatArray) -> dict[str, Any]:
    """Return the share of the sweep's settings that give a head the same label, and how many heads
    of each regime there are under each.
    """
    other = np.stack([seen.label(whole, at)[:, 0] for at in SWEEP.values()], axis=1)
    same = np.where(label == UNKNOWN, np.nan, (other == label[:, None]).mean(axis=1))
    return {
        "stability_sweep": same,
        "sweep_heads": np.stack(
            [(other == code).sum(axis=(-1, -2)) for code in range(len(REGIMES))], axis=-1
        ),
    }


def kappa(first: np.ndarray, second: np.ndarray) -> FloatArray:
    """Return Cohen's κ of two labellings along the last axis, over the heads that both classify; 0
    is chance, 1 perfect agreement.

    Both are codes of shape (..., head), of which 0 and below are no class. κ of shape (...) is NaN
    where no head is classified twice, or chance alone agrees everywhere.

    >>> round(float(kappa(np.array([1, 2, 2, 3]), np.array([1, 2, 3, 3]))), 3)
    0.636
    """
    both = (first > 0) & (second > 0)
    number = np.maximum(both.sum(axis=-1), 1)
    observed = ((first == second) & both).sum(axis=-1) / number
    parts = [
        ((first == code) & both).sum(axis=-1) * ((second == code) & both).sum(axis=-1)
        for code in range(1, len(REGIMES))
    ]
    chance = np.sum(parts, axis=0) / number**2
    return np.divide(
        observed - chance,
        1 - chance,
        out=np.full(np.shape(observed), np.nan),
        where=both.any(axis=-1) & (chance < 1),
    )


def agreement(label: np.ndarray, without: np.ndarray) -> dict[str, Any]:
    """Return how many heads sizes and alignment both tell, how many alike, and κ with its error.
    `without` are the labels without each document.
    """
    size, alignment = (
        label[list(CRITERIA).index(name)].reshape(-1) for name in ("size", "alignment")
    )
    both = (size > 0) & (alignment > 0)
    documents = without.shape[1]
    other = without[:2].reshape(2, documents, -1) if documents > 1 else np.zeros((2, 1, 1))
    beyond_chance = jackknife(np.asarray(kappa(size, alignment)), kappa(other[0], other[1]))
    return {
        "told": np.asarray(both.sum()),
        "agreed": np.asarray((both & (size == alignment)).sum()),
        "kappa": beyond_chance,
    }
