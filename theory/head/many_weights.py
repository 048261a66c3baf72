"""Assumption 3 for many heads at once: weights of shape (profile, token), and what the printed bounds need of their selections.

Source: arXiv 2602.01893, Assumptions 1 and 3, eq. (7)-(8). `theory.head.weights` states one head; this is the same in arrays. Imports numpy only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.errors import InputError

SUM = 1e-6
"""How far above 1 the weights of a profile may sum: rounding of a p_base that somebody wrote down."""


def weights(length: int, points: Mapping[str, FloatArray]) -> FloatArray:
    """Return α of many profiles of one length, shape (profile, T).

    Args:
        length: L; T = L + 1.
        points: p_sink, p_base (NaN: what makes Σα = 1), eta, growth (NaN: η serves both), omega, T1, T2, each (profile,).

    Raises:
        InputError: where a profile is none: phases out of order, p_sink ≥ 1, a negative weight, Σα above 1.
    """
    at = {name: np.asarray(values, dtype=np.float64)[:, None] for name, values in points.items()}
    _refuse(~((at["T1"] >= 0) & (at["T1"] <= at["T2"]) & (at["T2"] <= length)), points, f"0 <= T1 <= T2 <= L = {length}", "T1", "T2")
    _refuse(~((at["p_sink"] >= 0) & (at["p_sink"] < 1)), points, "0 <= p_sink < 1, or nothing is left for the other tokens", "p_sink")
    i = np.arange(1, length + 1)[None]
    growth = np.where(np.isnan(at["growth"]), at["eta"], at["growth"])
    waving = np.where((i > at["T1"]) & (i <= at["T2"]), at["eta"] * np.cos(at["omega"] * i), 0.0)
    with np.errstate(over="ignore"):
        shape = np.exp(growth * np.maximum(i - at["T2"], 0)) * (1 + waving)
    _refuse(~np.isfinite(shape).all(axis=1), points, "a growth that stays finite up to L", "eta", "growth", "T2")
    _refuse((shape < 0).any(axis=1), points, "|eta| <= 1 where the cosine reaches -1, so that no weight is negative", "eta")
    total = shape.sum(axis=1, keepdims=True)
    base = np.where(np.isnan(at["p_base"]), (1 - at["p_sink"]) / total, at["p_base"])
    _refuse(
        at["p_sink"] + base * total > 1 + SUM, points, "weights that sum to at most 1 (leave p_base out and it follows)", "p_base", "p_sink"
    )
    return np.concatenate([at["p_sink"], base * shape], axis=1)


def _refuse(wrong: BoolArray, points: Mapping[str, FloatArray], expected: str, *names: str) -> None:
    """Raise for the first profile that is wrong, naming its parameters."""
    if wrong.any():
        first = int(np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1))[0])
        seen = ", ".join(f"{name} = {points[name][first]:g}" for name in names if np.isfinite(points[name][first]))
        raise InputError(f"{seen}: no such attention profile, expected {expected}. Change the values set.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selections:
    r"""What eq. (8) and (12) need of I_N, arrays (profile, n); in units of value norm.

    a_min_in over I\0 (NaN where that is empty), a_max_in (sink included or not), a_max_out, s_in over I\0; a_sink (profile, 1).
    content_in, content_out: whether I\0 and J\0 hold a token. sink_in: whether the sink is selected.
    """

    a_min_in: FloatArray
    a_max_in: FloatArray
    a_max_out: FloatArray
    s_in: FloatArray
    a_sink: FloatArray
    content_in: BoolArray
    content_out: BoolArray
    sink_in: BoolArray


def selections(alpha: FloatArray, norms: FloatArray, n: IntArray, *, sink_in_b: bool) -> Selections:
    """Select the N largest weights of each profile (ties by lower index) for every N of `n`, 1 ≤ N ≤ T.

    Args:
        alpha: (profile, T) weights; the sink stands at position 0.
        norms: (profile, T) value norms.
        n: sizes.
        sink_in_b: whether a_max_in includes the sink.
    """
    order = np.argsort(-alpha, axis=1, kind="stable")
    a = np.take_along_axis(alpha * norms, order, axis=1)
    content = order != 0
    before = n - 1
    kept = np.where(content, a, 0.0)
    lowest = np.minimum.accumulate(np.where(content, a, np.inf), axis=1)[:, before]
    beyond = np.concatenate([np.maximum.accumulate(a[:, ::-1], axis=1)[:, ::-1], np.full((len(a), 1), np.nan)], axis=1)[:, n]
    sink_in = np.argmin(content, axis=1)[:, None] < n[None]
    inside = n[None] - sink_in
    return Selections(
        a_min_in=np.where(np.isfinite(lowest), lowest, np.nan),
        a_max_in=np.maximum.accumulate(a if sink_in_b else kept, axis=1)[:, before],
        a_max_out=beyond,
        s_in=np.cumsum(kept, axis=1)[:, before],
        a_sink=(alpha[:, 0] * norms[:, 0])[:, None],
        content_in=inside > 0,
        content_out=inside < alpha.shape[1] - 1,
        sink_in=sink_in,
    )
