"""The sink's cosine with the other tokens: its level ρ₀, its spread over tokens, and its slope over position.

Source: arXiv 2602.01893, Assumption 2.2, which makes it one constant. Imports numpy.
"""

from __future__ import annotations

import numpy as np

from geostat.fitting import mean_over_documents
from geostat.jackknife import FloatArray, Interval, interval, leave_one_out_mean


def sink_cosines(cosine: FloatArray) -> dict[str, FloatArray | Interval]:
    """Return ρ₀ and how constant it is.

    Args:
        cosine: cosine of the sink with content tokens, in order, shape (document, head, token); NaN where unknown.

    Returns:
        Arrays (head,), intervals under names ending in _interval. rho0: mean over tokens, then documents. rho0_spread: standard deviation over
        tokens within a document, root mean square over documents. sink_slope: change from the first content token to the last, by least
        squares in each document, mean over documents; NaN with fewer than two tokens.
    """
    known = np.isfinite(cosine)
    count = known.sum(axis=-1)
    filled = np.where(known, cosine, 0.0)
    own = np.divide(filled.sum(axis=-1), count, out=np.full(count.shape, np.nan), where=count > 0)
    away = np.where(known, cosine - own[..., None], 0.0)
    variance = np.divide((away**2).sum(axis=-1), count, out=np.full(count.shape, np.nan), where=count > 0)
    place = np.linspace(0.0, 1.0, cosine.shape[-1]) if cosine.shape[-1] > 1 else np.zeros(cosine.shape[-1])
    middle = np.divide((known * place).sum(axis=-1), count, out=np.zeros(count.shape), where=count > 0)
    arm = np.where(known, place - middle[..., None], 0.0)
    bottom = (arm**2).sum(axis=-1)
    slope = np.divide((arm * away).sum(axis=-1), bottom, out=np.full(count.shape, np.nan), where=bottom > 0)
    found: dict[str, FloatArray | Interval] = {}
    for name, each in (("rho0", own), ("sink_slope", slope)):
        mean = mean_over_documents(each)
        found |= {name: mean, f"{name}_interval": interval(mean, leave_one_out_mean(each), np.isfinite(each))}
    spread = np.sqrt(mean_over_documents(variance))
    limits = interval(spread, np.sqrt(leave_one_out_mean(variance)), np.isfinite(variance))
    return found | {"rho0_spread": spread, "rho0_spread_interval": limits}
