"""Selections of many heads at once: what the printed lower bounds need of each head's I_N, for every N.

`theory.head.ranked` sums up one head; this is the part of it that eq. (8) and (12) need, in arrays over heads and N.
Source: arXiv 2602.01893, eq. (7)-(8). Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray


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
    # running extremes and sums by rank, read at rank N − 1 (inside) and from rank N on (outside)
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
