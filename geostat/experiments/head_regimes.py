r"""What heads do: contributions of the sink, the last token and the rest, the regime of each head,
and how stable that is.

Source: arXiv 2602.01893, §4.2, Figures 7, 8, 10 and 11; the rules stand in
`geostat.experiments.head_regime_rules`. Imports numpy and xarray.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.datasets.separability import STATISTICS
from geostat.datasets.tokens import require
from geostat.datasets.variable import Variable, variables
from geostat.experiments.head_regime_rules import (
    CRITERIA,
    REGIMES,
    SWEEP,
    THRESHOLDS,
    UNKNOWN,
    Features,
    Thresholds,
    labels,
    slack,
)
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import Estimate, jackknife, leave_one_out_mean

RESAMPLES: Final = 1000
SEED: Final = 0
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
SIZES: Final = {
    "sink": ("the sink's contribution", r"\|\alpha_0 v_0\|"),
    "last": ("the last token's contribution", r"\|\alpha_L v_L\|"),
    "rest": (
        "the other tokens' contributions, norm of their sum",
        r"\|\sum_{0<i<L} \alpha_i v_i\|",
    ),
    "rest_total": (
        "the other tokens' contributions, sum of their norms",
        r"\sum_{0<i<L} \|\alpha_i v_i\|",
    ),
}
SYMBOLS: Final = {"precision": r"P(r_{\max},N)", "recall": r"R(r_{\min},N)"}
"""Of the measured curves, as /capture has them."""

_of_head = partial(Variable, equation="§4.2", dims=("criterion", "layer", "head"))
_count = partial(Variable, equation="§4.2")
_CODES: Final = [
    f"{code} {name}" for code, name in ((UNKNOWN, "cannot be told"), *enumerate(REGIMES))
]
VARIABLES: Final = (
    *(
        Variable(
            f"contribution_{name}",
            long_name,
            "value norm",
            symbol,
            "§4.2",
            dims=("layer", "head"),
            estimated=True,
        )
        for name, (long_name, symbol) in SIZES.items()
    ),
    _of_head(
        "stability_left_out", "share of documents left out one by one that give the same label"
    ),
    _of_head("stability_resampled", "share of resamples of the documents that give the same label"),
    _of_head("stability_sweep", "share of the sweep's settings that give the same label"),
    _count(
        "sweep_heads",
        "heads of a regime under other thresholds",
        dims=("criterion", "sweep", "regime"),
    ),
    _count("told", "heads that sizes and alignment both classify"),
    _count("agreed", "those of them that both give the same regime"),
    _count(
        "kappa",
        "Cohen's kappa of sizes and alignment, over the heads that both classify",
        symbol=r"\kappa",
        estimated=True,
    ),
    _of_head("label", "regime of the head; codes in the attribute codes", more={"codes": _CODES}),
    Variable(
        "count",
        "heads of a regime, by layer",
        equation="Fig. 8",
        dims=("criterion", "regime", "layer"),
    ),
    _count("heads", "heads of a regime", dims=("criterion", "regime")),
    *(
        Variable(
            name,
            f"mean {name} of a regime's heads",
            "1",
            symbol,
            "Fig. 11",
            dims=("criterion", "regime", "n"),
            estimated=True,
        )
        for name, symbol in SYMBOLS.items()
    ),
    *(
        Variable(
            f"typical_{dim}",
            f"index of the {dim} of a typical head of the regime, -1 for none",
            equation="Fig. 7",
            dims=("regime",),
        )
        for dim in ("layer", "head")
    ),
)


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


def classify_heads(
    capture: xr.Dataset, *, resamples: int = RESAMPLES, seed: int = SEED
) -> xr.Dataset:
    """Tell the regime of every head, and what the heads of each regime have in common.

    Args:
        capture: a /capture dataset.
        resamples: resamples of documents for the stability of labels.
        seed: of the resamples.

    Returns:
        /heads, as in VARIABLES; criteria are those of `CRITERIA`, labels codes of `REGIMES`, −1
        where a head cannot be told. kappa is over the heads that sizes and alignment both classify;
        typical_layer and typical_head are of the head of a regime (by both criteria) whose
        alignment conditions hold by the median, −1 for none. Attributes: thresholds, resamples,
        seed, documents, notes.
    """
    require(capture, NEEDS)
    seen = HeadCurves.of(capture)
    whole = np.full((1, len(seen.sink)), 1.0)
    label = seen.label(whole)[:, 0]
    of_regime = np.stack([label == code for code in range(len(REGIMES))], axis=1)
    numbers: dict[str, Any] = {
        f"contribution_{name}": _mean(values) for name, values in seen.sizes.items()
    }
    numbers |= {
        "label": label,
        "count": of_regime.sum(axis=-1),
        "heads": of_regime.sum(axis=(-1, -2)),
    }
    numbers |= (
        _stability(seen, label, resamples, seed)
        | _sweep(seen, label, whole)
        | _agreement(seen, label)
    )
    numbers |= _curves(capture, of_regime) | _typical(seen, label, whole)
    coords: dict[str, Any] = {name: capture[name].variable for name in ("layer", "head", "n")}
    names = {"criterion": CRITERIA, "regime": REGIMES, "sweep": SWEEP}
    coords |= {dim: np.array(list(labels), dtype=object) for dim, labels in names.items()}
    data = xr.Dataset(variables(VARIABLES, numbers), coords=coords)
    data.attrs = {
        "long_name": "regimes of heads",
        "documents": len(seen.sink),
        "resamples": resamples if len(seen.sink) > 1 else 0,
        "seed": seed,
        "thresholds": asdict(THRESHOLDS),
        "criteria": list(CRITERIA.values()),
        "notes": _notes(seen, label),
    }
    return data


def _mean(values: FloatArray) -> Estimate:
    """Mean over documents, with its document jackknife."""
    return jackknife(
        weighted(values, np.full((1, len(values)), 1.0))[0],
        leave_one_out_mean(values),
        np.isfinite(values),
    )


def _stability(seen: HeadCurves, label: np.ndarray, resamples: int, seed: int) -> dict[str, Any]:
    """Share of replicates that give a head the same label; NaN with one document, and where
    there is no label.
    """
    count = len(seen.sink)
    draws = {
        "left_out": 1.0 - np.eye(count),
        "resampled": (
            np.random.default_rng(seed)
            .multinomial(count, np.full(count, 1 / count), size=resamples)
            .astype(np.float64)
        ),
    }
    out = {}
    for name, shares in draws.items():
        same = (
            (seen.label(shares) == label[:, None]).mean(axis=1)
            if count > 1 and len(shares)
            else np.nan
        )
        out[f"stability_{name}"] = np.where(label == UNKNOWN, np.nan, same)
    return out


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


def _agreement(seen: HeadCurves, label: np.ndarray) -> dict[str, Any]:
    """Whether sizes and alignment tell the same regime, beyond chance."""
    size, alignment = (
        label[list(CRITERIA).index(name)].reshape(-1) for name in ("size", "alignment")
    )
    both = (size > 0) & (alignment > 0)
    other = (
        seen.label(1.0 - np.eye(len(seen.sink)))[:2].reshape(2, len(seen.sink), -1)
        if len(seen.sink) > 1
        else np.zeros((2, 1, 1))
    )
    agreement = jackknife(np.asarray(kappa(size, alignment)), kappa(other[0], other[1]))
    return {
        "told": np.asarray(both.sum()),
        "agreed": np.asarray((both & (size == alignment)).sum()),
        "kappa": agreement,
    }


def _sweep(seen: HeadCurves, label: np.ndarray, whole: FloatArray) -> dict[str, Any]:
    other = np.stack([seen.label(whole, at)[:, 0] for at in SWEEP.values()], axis=1)
    same = np.where(label == UNKNOWN, np.nan, (other == label[:, None]).mean(axis=1))
    return {
        "stability_sweep": same,
        "sweep_heads": np.stack(
            [(other == code).sum(axis=(-1, -2)) for code in range(len(REGIMES))], axis=-1
        ),
    }


def _curves(capture: xr.Dataset, of_regime: np.ndarray) -> dict[str, Any]:
    """Mean Precision and Recall of each regime's heads: heads averaged within a document, then
    documents.
    """
    out = {}
    member = of_regime.reshape(-1, of_regime[0, 0].size).astype(np.float64)
    for name in STATISTICS:
        values = capture[name].values.astype(np.float64)
        documents, sizes = values.shape[0], values.shape[-1]
        flat = values.reshape(documents, -1, sizes)
        known = np.isfinite(flat)
        number = np.einsum("gh,khn->kgn", member, known, optimize=True)
        total = np.einsum("gh,khn->kgn", member, np.where(known, flat, 0.0), optimize=True)
        out[name] = _mean(ratio(total, number).reshape(documents, *of_regime.shape[:2], sizes))
    return out


def _typical(seen: HeadCurves, label: np.ndarray, whole: FloatArray) -> dict[str, Any]:
    clear = slack(
        Features.of(
            weighted(seen.sink, whole)[0], weighted(seen.last, whole)[0], seen.n, seen.tokens
        )
    )
    both = label[list(CRITERIA).index("both")]
    result = np.full((2, len(REGIMES)), -1)
    for code in range(1, len(REGIMES)):
        of = both == code
        if of.any():
            distance = np.where(
                of, np.abs(clear[code - 1] - np.median(clear[code - 1][of])), np.inf
            )
            result[:, code] = np.unravel_index(distance.argmin(), both.shape)
    return {"typical_layer": result[0], "typical_head": result[1]}


def _notes(seen: HeadCurves, label: np.ndarray) -> list[str]:
    """What is not determined, and why."""
    sink, rest = (np.isfinite(seen.sizes[name]).any(axis=0) for name in ("sink", "rest"))
    blind, hidden = int((~sink).sum()), int((sink & ~rest).sum())
    short = int(((label[1] == UNKNOWN) & np.isfinite(seen.sink).any(axis=(0, -1))).sum())
    notes = {
        f"{blind} of {label[0].size} heads do not see the sink or have no norms: the regimes are"
        " not defined for them.": blind,
        f"{hidden} heads have no curve at N = T: the rest's contribution is unknown. Capture with"
        " an n that holds T.": hidden,
        f"{short} heads have no alignment curve from small to large N. Capture with more"
        " sizes.": short,
        "One document: no intervals, and nothing on the stability of labels.": len(seen.sink) < 2,
    }
    return [note for note, applies in notes.items() if applies]
