"""Reference loops: the definitions of THEORY as plain float64 loops over tokens, slow and
independent of the compiled kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

NAN = math.nan
SEPARABILITY = ("precision", "recall", "r_min", "r_max", "f_outer", "f_inner")


def by_weight(alpha: np.ndarray) -> list[int]:
    """Order by descending weight, ties by lower index."""
    return sorted(range(len(alpha)), key=lambda i: (-alpha[i], i))


def cosine(u: np.ndarray, v: np.ndarray) -> float:
    norms = math.sqrt(float(u @ u)) * math.sqrt(float(v @ v))
    return float(u @ v) / norms if norms > 0 else NAN


def distances(alpha: np.ndarray, values: np.ndarray, chosen: Iterable[int]) -> np.ndarray:
    y = np.asarray(alpha, np.float64)[:, None] * np.asarray(values, np.float64)
    s = np.sum([y[i] for i in chosen], axis=0)
    return np.array([math.dist(s, row) for row in y])


def separability(
    alpha: np.ndarray,
    values: np.ndarray,
    n: int,
    *,
    order: list[int] | None = None,
    convention: str = "paper",
) -> dict[str, float]:
    """Definitions 1-2 for one head and one N, with distances compared exactly in float64."""
    order = by_weight(alpha) if order is None else order
    tokens = len(alpha)
    inside, outside = order[:n], order[n:]
    if n > tokens:
        return dict.fromkeys(SEPARABILITY, NAN)
    d = distances(alpha, values, inside)
    r_max = max(d[i] for i in inside)
    if not outside:
        end = 1.0 if convention == "paper" else NAN
        return dict.fromkeys(SEPARABILITY, end) | {"r_min": NAN, "r_max": r_max}
    r_min = min(d[j] for j in outside)
    precision = n / (n + sum(d[j] <= r_max for j in outside))
    recall = sum(d[i] <= r_min if convention == "paper" else d[i] < r_min for i in inside) / n
    if convention == "paper":
        f_outer, f_inner = 2 * precision / (1 + precision), 2 * recall / (1 + recall)
    else:
        f_outer = f_inner = 2 * precision * recall / (precision + recall)
    values = (precision, recall, r_min, r_max, f_outer, f_inner)
    return dict(zip(SEPARABILITY, values, strict=True))


def curves(alpha: np.ndarray, values: np.ndarray, n: int, *, sink: bool) -> dict[str, float]:
    """All other quantities of one head at one N <= T."""
    alpha, values = np.asarray(alpha, np.float64), np.asarray(values, np.float64)
    order = by_weight(alpha)
    inside, outside = order[:n], order[n:]
    content = [i for i in inside if not (sink and i == 0)]
    a = [alpha[i] * math.sqrt(float(values[i] @ values[i])) for i in range(len(alpha))]
    y = alpha[:, None] * values
    nothing = np.zeros(values.shape[1])
    s = sum((y[i] for i in inside), nothing)
    last = len(alpha) - 1
    among = [cosine(values[i], values[j]) for i in content for j in content if i < j]
    across = [cosine(values[i], values[j]) for i in content for j in outside]
    among, across = [x for x in among if x == x], [x for x in across if x == x]
    return {
        "representative_norm": math.hypot(*s),
        "representative_norm_without_sink": math.hypot(*sum((y[i] for i in content), nothing)),
        "representative_norm_without_last": math.hypot(
            *sum((y[i] for i in inside if i != last), nothing)
        ),
        "cosine_to_sink": cosine(s, values[0]) if sink else NAN,
        "cosine_to_last": cosine(s, values[last]),
        "a_min_in": min((a[i] for i in content), default=NAN),
        "a_min_in_with_sink": min(a[i] for i in inside),
        "a_max_in": max(a[i] for i in inside),
        "a_max_in_without_sink": max((a[i] for i in content), default=NAN),
        "a_max_out": max((a[j] for j in outside), default=NAN),
        "s_in": sum(a[i] for i in content),
        "rho_in": max(among, default=0.0),
        "rho_out": max(across, default=NAN),
    }


def pairs(values: np.ndarray, *, sink: bool) -> list[tuple[int, int, float]]:
    """Return (earlier, later, cosine) of all pairs of content tokens with a cosine."""
    values = np.asarray(values, np.float64)
    first = int(sink)
    found = [
        (i, j, cosine(values[i], values[j]))
        for i in range(first, len(values))
        for j in range(i + 1, len(values))
    ]
    return [pair for pair in found if pair[2] == pair[2]]


def count_range(d: np.ndarray, bound: float, slack: float) -> tuple[int, int]:
    """Return how many distances are certainly, and possibly, at most `bound` if each comparison may
    be off by `slack`.
    """
    return int((d <= bound - slack).sum()), int((d <= bound + slack).sum())
