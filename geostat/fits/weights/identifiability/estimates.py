"""Estimates of the parameters of every form, and of the chosen one, with errors where the data
identify them (`reasons`). Imports numpy and scipy.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import stdtrit

from geostat.datasets.variable import Value, mapped
from geostat.fits.weights.identifiability.reasons import HAS_ONE, NO_REPLICATE, PARAMETERS
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import LEVEL, Estimate, jackknife


def form_values(
    best: dict[str, FloatArray],
    again: dict[str, FloatArray],
    carries: BoolArray,
    codes: dict[str, np.ndarray],
    half_width: dict[str, FloatArray],
) -> dict[str, Value]:
    """Return form_x, an estimate, form_x_reason and form_x_identified of every parameter, and
    form_x_half_width; (form, head).

    `again` holds replicates, (form, document, head), `codes` are those of `reasons`, and `carries`,
    (document, head), tells which documents carry a head.
    """
    documents = carries.sum(axis=0)
    out: dict[str, Value] = {}
    for name in PARAMETERS:
        value, replicates = _source(name, best), np.moveaxis(_source(name, again), 1, 0)
        estimate = jackknife(
            value, replicates, np.broadcast_to(carries[:, None, :], replicates.shape)
        )
        if name in ("t1", "t2"):
            estimate = _wider(estimate, half_width[name], documents)
        if name == "p_base":
            estimate = estimate.exp(np.exp(value))
        identified = codes[name] == HAS_ONE
        code = np.where(identified & ~np.isfinite(estimate.se), NO_REPLICATE, codes[name])
        out |= {
            f"form_{name}": estimate.with_error_where(identified),
            f"form_{name}_reason": code,
            f"form_{name}_identified": identified,
        }
    return out | {
        f"form_{name}_half_width": np.where(np.isfinite(half), half, np.nan)
        for name, half in half_width.items()
    }


def _source(name: str, parameters: dict[str, FloatArray]) -> FloatArray:
    """Return a parameter of every form; "eta" is that of the oscillation where there is one, and
    p_base is still a logarithm.
    """
    if name == "eta":
        return np.concatenate([parameters["eta_tail"][:1], parameters["eta_osc"][1:]])
    return parameters["b" if name == "p_base" else name]


def _wider(estimate: Estimate, half_width: FloatArray, documents: np.ndarray) -> Estimate:
    """Return the wider of a jackknife interval and the one of the given half-width; NaN where
    there is no jackknife.
    """
    quantile = stdtrit(np.maximum(documents - 1.0, 1.0), 0.5 + LEVEL / 2)
    se = np.maximum(estimate.se, np.where(np.isfinite(half_width), half_width, np.inf) / quantile)
    return Estimate(
        value=estimate.value,
        se=se,
        lower=estimate.value - quantile * se,
        upper=estimate.value + quantile * se,
    )


def chosen_values(
    by_form: Mapping[str, Value], pick: tuple[np.ndarray, np.ndarray]
) -> dict[str, Value]:
    """Return x, x_reason and x_identified of each head's chosen form, shape (head,), and
    form_chosen.
    """
    out: dict[str, Value] = {"form_chosen": np.asarray(pick[0])}
    for name in ("p_base", "eta", "omega", "t1", "t2"):
        for end in ("", "_reason", "_identified"):
            out[f"{name}{end}"] = mapped(by_form[f"form_{name}{end}"], lambda array: array[pick])
    return out
