"""Bounds evaluated at each document's own weights."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import xarray as xr

from empirical.schema import with_f_scores
from geostat.bounds.head import FittedHead
from theory.evaluate.envelopes import envelopes
from theory.head.gram import LagGram
from theory.head.results import Edition

__all__ = [
    "BOUND_NAMES",
    "EDITIONS",
    "ENVELOPE_POINTS",
    "FITTED_GRAMS",
    "SIDES",
    "STATISTICS",
    "bound_attributes",
    "envelope_grid",
    "evaluate",
    "gap_attributes",
    "measured_curves",
]

EDITIONS: Final[tuple[Edition, ...]] = ("printed", "sharp")
FITTED_GRAMS: Final = ("exponential", "offset")
STATISTICS: Final = ("precision", "recall", "f_outer", "f_inner")
SIDES: Final = ("lower", "upper")

ENVELOPE_POINTS: Final = 24
"""How many sizes N an envelope is evaluated at by default."""

BOUND_NAMES: Final = tuple(f"{statistic}_{side}" for statistic in STATISTICS for side in SIDES)
_SYMBOLS: Final = {
    "precision": r"\mathbb{E}P",
    "recall": r"\mathbb{E}R",
    "f_outer": r"\mathbb{E}F(r_{\max})",
    "f_inner": r"\mathbb{E}F(r_{\min})",
}
_EQUATIONS: Final = {"precision": "(12)-(13)", "recall": "(14)-(15)", "f_outer": "(17)", "f_inner": "(16)"}


def envelope_grid(n: np.ndarray, points: int | None = ENVELOPE_POINTS) -> np.ndarray:
    """Choose about `points` log-spaced sizes among the measured ones, the first and the last included; None takes all."""
    n = np.asarray(n, dtype=np.int64)
    if points is None or points >= len(n):
        return n
    wanted = np.geomspace(n[0], n[-1], points)
    return np.unique(n[np.abs(np.log(n)[None, :] - np.log(wanted)[:, None]).argmin(axis=1)])


def bound_attributes(name: str) -> dict[str, Any]:
    """Attributes of a bound's variable, by name such as `precision_lower`."""
    statistic, side = name.rsplit("_", 1)
    return {
        "long_name": f"{side} bound on expected {statistic.replace('_', ' ')}",
        "units": "1",
        "symbol": _SYMBOLS[statistic],
        "equation": _EQUATIONS[statistic],
    }


def gap_attributes(name: str) -> dict[str, Any]:
    """Attributes of the standard error of a curve less its bound."""
    about = bound_attributes(name)
    return about | {"long_name": f"standard error over documents of the measured value less the {about['long_name']}", "symbol": ""}


def evaluate(
    alpha: np.ndarray,
    norms: np.ndarray,
    gram: LagGram | np.ndarray,
    dimension: int,
    grid: np.ndarray,
    *,
    edition: Edition,
    sink: bool,
    convention: str,
) -> dict[str, np.ndarray]:
    """Bounds of heads that share one feasible Gram, by name, each (head, n).

    Only the sharp edition knows the followup convention; there the printed bounds of P and R stand (their balls differ in ties only), those of F do not.
    """
    followup = convention == "followup"
    bounds = envelopes(
        alpha,
        np.broadcast_to(norms, alpha.shape),
        gram,
        dimension,
        grid,
        edition=edition,
        sink=0 if sink else None,
        convention="followup" if followup and edition == "sharp" else "paper",
        feasible=True,
    )
    found = {name: np.array(getattr(bounds, name)) for name in BOUND_NAMES}
    if followup and edition != "sharp":
        for name in BOUND_NAMES:
            if name.startswith("f_"):
                found[name][...] = np.nan
    return found


def _bounds_by_document(
    capture: xr.Dataset, model: FittedHead, layer: int, heads: np.ndarray, grid: np.ndarray, edition: Edition
) -> np.ndarray:
    """Bounds of one group of heads at each document's own weights: (bound, document, head, n)."""
    tokens = int(capture["tokens"].values[layer])
    sink = bool(capture["sink_visible"].values[layer])
    weights = capture["attention_weight"].values[:, layer, heads, -tokens:].astype(np.float64)
    documents, count = weights.shape[:2]
    found = evaluate(
        weights.reshape(documents * count, tokens),
        model.norms(tokens, sink=sink),
        model.gram,
        int(capture.attrs["dimension"]),
        grid,
        edition=edition,
        sink=sink,
        convention=str(capture.attrs["convention"]),
    )
    return np.stack([found[name] for name in BOUND_NAMES]).reshape(len(BOUND_NAMES), documents, count, len(grid))


def _of_each_bound(curves: xr.Dataset) -> np.ndarray:
    """The curve that each bound bounds: (bound, document, ...)."""
    return np.stack([curves[name.rpartition("_")[0]].values for name in BOUND_NAMES])


def measured_curves(capture: xr.Dataset, grid: np.ndarray) -> xr.Dataset:
    """The four measured statistics on a grid of N, by document: dims (document, layer, head, n_envelope), float64."""
    return with_f_scores(capture)[list(STATISTICS)].sel(n=grid).rename(n="n_envelope").astype(np.float64)
