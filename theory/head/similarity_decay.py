"""Similarity decay with lag (Assumption 2): generators of a Gram with exponential, offset,
constant, stretched or power-law decay.

Source: arXiv 2602.01893, Assumption 2, which prints the exponential. Unitless; the decay β is per
position. Imports numpy.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from theory.errors import InputError
from theory.head.gram import LagGram


def exponential(beta: float, rho0: float, tokens: int) -> LagGram:
    """Return the printed Gram of Assumption 2, e^{−β·lag}, for windows of up to `tokens` positions.

    Example:
        >>> exponential(0.7, 0.0, 3).by_lag.round(3).tolist()
        [1.0, 0.497, 0.247]
    """
    return offset_exponential(beta, 0.0, rho0, tokens)


def offset_exponential(beta: float, offset: float, rho0: float, tokens: int) -> LagGram:
    """Return the offset Gram c + (1−c)e^{−β·lag}, for windows of up to `tokens` positions.

    Example:
        >>> offset_exponential(0.7, 0.2, 0.0, 3).by_lag.round(3).tolist()
        [1.0, 0.597, 0.397]
    """
    if not beta > 0:
        raise InputError(
            f"beta is {beta}, expected a decay > 0 per position. Use a small positive value for a"
            " slow decay."
        )
    by_lag = offset + (1 - offset) * np.exp(-beta * np.arange(tokens))
    return LagGram(by_lag, rho0, beta=float(beta), offset=float(offset))


def constant(cosine: float, rho0: float, tokens: int) -> LagGram:
    """Return the Gram with one cosine at every lag, for windows of up to `tokens` positions: the
    offset Gram with infinite decay.

    Feasible for cosine ≥ −1/(L−1) and |ρ₀| ≤ √(cosine + (1 − cosine)/L) with L content tokens: the
    closed edge at β = ∞.

    Example:
        >>> constant(0.3, 0.0, 3).by_lag.tolist()
        [1.0, 0.3, 0.3]
    """
    by_lag = np.full(max(tokens, 1), float(cosine))
    by_lag[0] = 1.0
    return LagGram(by_lag, rho0, beta=np.inf, offset=float(cosine))


def decaying(
    form: Literal["exponential", "stretched", "power"],
    beta: float,
    tokens: int,
    *,
    rho0: float = 0.0,
    offset: float = 0.0,
    stretch: float = 1.0,
) -> LagGram:
    """Return c + (1−c)f(lag) for windows of up to `tokens` positions.

    f is e^{−βk} ("exponential", Assumption 2), e^{−(βk)^s} ("stretched") or (1+k)^{−β} ("power"),
    each 1 at lag 0 and decreasing.

    Raises:
        InputError: if β or s is not positive, or the form is unknown.

    Example:
        >>> decaying("power", 1.0, 3).by_lag.round(3).tolist()
        [1.0, 0.5, 0.333]
    """
    if form == "exponential":
        return offset_exponential(beta, offset, rho0, tokens)
    if form not in ("stretched", "power") or not beta > 0 or not stretch > 0:
        raise InputError(
            f"form={form!r}, beta={beta}, stretch={stretch}: expected exponential, stretched or"
            " power, and positive numbers."
        )
    lag = np.arange(tokens)
    fall = np.exp(-((beta * lag) ** stretch)) if form == "stretched" else (1.0 + lag) ** -beta
    return LagGram(np.asarray(offset + (1 - offset) * fall, dtype=np.float64), rho0)
