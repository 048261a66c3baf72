r"""Regimes of heads, /heads: what heads do, the regime of each, how stable that is, and what the
heads of a regime have in common.

Source: arXiv 2602.01893, §4.2, Figures 7, 8, 10 and 11; the rules stand in
`geostat.experiments.head_regime_rules`. Imports numpy and xarray.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.datasets.separability import STATISTICS
from geostat.datasets.tokens import require
from geostat.datasets.variable import Variable, join, variables
from geostat.experiments.head_labels import (
    NEEDS,
    NORMS,
    HeadCurves,
    agreement,
    stability,
    sweep,
    weighted,
)
from geostat.experiments.head_regime_rules import (
    CRITERIA,
    REGIMES,
    SWEEP,
    THRESHOLDS,
    UNKNOWN,
    Features,
    slack,
)
from geostat.statistics.arrays import FloatArray, pieces, ratio
from geostat.statistics.jackknife import Estimate, jackknife, leave_one_out_mean

RESAMPLES: Final = 1000
SEED: Final = 0
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


def classify_heads(
    capture: xr.Dataset, *, resamples: int = RESAMPLES, seed: int = SEED
) -> xr.Dataset:
    """Tell the regime of every head of /capture, and what the heads of each regime have in common;
    the stability of labels is over `resamples` of the documents.

    Returns:
        /heads, as in VARIABLES; criteria are those of `CRITERIA`, labels codes of `REGIMES`, −1
        where a head cannot be told. typical_layer and typical_head are of the head of a regime (by
        both criteria) whose alignment conditions hold by the median.
    """
    require(capture, NEEDS)
    documents, layers, heads, sizes = (capture.sizes[dim] for dim in NEEDS[NORMS[0]])
    groups = pieces(heads, len(NEEDS) * documents * sizes)
    parts = [
        _joined(
            [_of_heads(capture.isel(layer=[layer], head=some), resamples, seed) for some in groups],
            axis=-1,
        )
        for layer in range(layers)
    ]
    whole = _joined(parts, axis=-2)
    label = whole["label"]
    of_regime = np.stack([label == code for code in range(len(REGIMES))], axis=1)
    numbers = whole | {
        "count": of_regime.sum(axis=-1),
        "heads": of_regime.sum(axis=(-1, -2)),
        **agreement(label, whole["without"]),
        **_curves(capture, of_regime),
        **_typical(whole["clear"], label),
    }
    coords: dict[str, Any] = {name: capture[name].variable for name in ("layer", "head", "n")}
    names = {"criterion": CRITERIA, "regime": REGIMES, "sweep": SWEEP}
    coords |= {dim: np.array(list(labels), dtype=object) for dim, labels in names.items()}
    data = xr.Dataset(variables(VARIABLES, numbers), coords=coords)
    data.attrs = {
        "long_name": "regimes of heads",
        "documents": documents,
        "resamples": resamples if documents > 1 else 0,
        "seed": seed,
        "thresholds": asdict(THRESHOLDS),
        "criteria": list(CRITERIA.values()),
        "notes": _notes(whole, documents),
    }
    return data


def _of_heads(capture: xr.Dataset, resamples: int, seed: int) -> dict[str, Any]:
    """Return what VARIABLES names of heads by themselves, and their labels without each document,
    how clear each regime's conditions are, and what is known, (…, layer, head).
    """
    seen = HeadCurves.of(capture)
    whole = np.full((1, len(seen.sink)), 1.0)
    label, without = seen.label(whole)[:, 0], seen.label_without_each()
    features = Features.of(
        weighted(seen.sink, whole)[0], weighted(seen.last, whole)[0], seen.n, seen.tokens
    )
    return {
        "label": label,
        "without": without,
        "clear": slack(features),
        "curve_known": np.isfinite(seen.sink).any(axis=(0, -1)),
        **{f"{name}_known": np.isfinite(seen.sizes[name]).any(axis=0) for name in ("sink", "rest")},
        **{
            f"contribution_{name}": replace(_mean(values), without=None)
            for name, values in seen.sizes.items()
        },
        **stability(seen, label, without, resamples, seed),
        **sweep(seen, label, whole),
    }


def _joined(parts: list[dict[str, Any]], axis: int) -> dict[str, Any]:
    """Put numbers of some heads side by side; heads of a regime are counted together."""
    out: dict[str, Any] = {
        name: join([part[name] for part in parts], partial(np.concatenate, axis=axis))
        for name in parts[0]
        if name != "sweep_heads"
    }
    return out | {"sweep_heads": sum(part["sweep_heads"] for part in parts)}


def _mean(values: FloatArray) -> Estimate:
    """Mean over documents, with its document jackknife."""
    return jackknife(
        weighted(values, np.full((1, len(values)), 1.0))[0],
        leave_one_out_mean(values),
        np.isfinite(values),
    )


def _curves(capture: xr.Dataset, of_regime: np.ndarray) -> dict[str, Any]:
    """Mean Precision and Recall of each regime's heads: heads averaged within a document, then
    documents.
    """
    out = {}
    member = of_regime.reshape(-1, of_regime[0, 0].size).astype(np.float64)
    shape = (*of_regime.shape[:2], capture.sizes["n"])
    for name in STATISTICS:
        values, each = capture[name].values, []
        for documents in pieces(len(values), values[0].size):
            flat = values[documents].astype(np.float64).reshape(-1, member.shape[1], shape[-1])
            known = np.isfinite(flat)
            number = np.einsum("gh,khn->kgn", member, known, optimize=True)
            total = np.einsum("gh,khn->kgn", member, np.where(known, flat, 0.0), optimize=True)
            each.append(ratio(total, number))
        out[name] = _mean(np.concatenate(each).reshape(-1, *shape))
    return out


def _typical(clear: FloatArray, label: np.ndarray) -> dict[str, Any]:
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


def _notes(found: dict[str, Any], documents: int) -> list[str]:
    """What is not determined, and why."""
    label = found["label"]
    sink, rest, curve = (found[f"{name}_known"] for name in ("sink", "rest", "curve"))
    blind, hidden = int((~sink).sum()), int((sink & ~rest).sum())
    short = int(((label[1] == UNKNOWN) & curve).sum())
    notes = {
        f"{blind} of {label[0].size} heads do not see the sink or have no norms: the regimes are"
        " not defined for them.": blind,
        f"{hidden} heads have no curve at N = T: the rest's contribution is unknown. Capture with"
        " an n that holds T.": hidden,
        f"{short} heads have no alignment curve from small to large N. Capture with more"
        " sizes.": short,
        "One document: no intervals, and nothing on the stability of labels.": documents < 2,
    }
    return [note for note, applies in notes.items() if applies]
