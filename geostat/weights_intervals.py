"""Standard errors and 95% intervals of Assumption 3's parameters, by form and of the form chosen. Imports numpy.

The document jackknife, whose replicates repeat the whole search for break points: simulation (`recovery_weights`) has it cover p_base, both η and ω
at its nominal rate without a word about autocorrelation, for it takes none of tokens' independence on trust. Break points are no smooth
statistics, and it covers them too rarely; theirs is the wider of the jackknife's and of the half-width that `weights_identified` derives
from the noise. A parameter that is not identified, or at its bound, has neither; the code x_reason tells why.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from geostat.fitting import at_estimate
from geostat.jackknife import LEVEL, BoolArray, FloatArray, Interval, interval, stored
from geostat.weights_identified import HAS_ONE, NO_REPLICATE, PARAMETERS

BREAKS = ("t1", "t2")
OF_CHOSEN = ("p_base", "eta", "omega", "t1", "t2")


def form_values(
    best: dict[str, FloatArray],
    again: dict[str, FloatArray],
    carries: BoolArray,
    codes: dict[str, np.ndarray],
    half_width: dict[str, FloatArray],
) -> dict[str, np.ndarray]:
    """Return form_x, form_x_se, form_x_lower, form_x_upper, form_x_reason, form_x_identified of every parameter, shape (form, head).

    Args:
        best: estimates, shape (form, head).
        again: replicates, shape (form, document, head).
        carries: which documents carry the head, shape (document, head).
        codes: from `weights_identified.reasons`.
        half_width: from `weights_identified.placement`.
    """
    documents = carries.sum(axis=0)
    out: dict[str, np.ndarray] = {}
    for name in PARAMETERS:
        value, replicates = _source(name, best), np.moveaxis(_source(name, again), 1, 0)
        spread = interval(value, replicates, np.broadcast_to(carries[:, None, :], replicates.shape))
        if name in BREAKS:
            spread = _wider(value, spread, half_width[name], documents)
        if name == "p_base":
            value = np.exp(value)
            spread = spread.exp(value)
        held = codes[name] != HAS_ONE
        code = np.where(~held & ~np.isfinite(spread.se), NO_REPLICATE, codes[name])
        out |= stored(f"form_{name}", value, at_estimate(value, spread, ~held))
        out |= {f"form_{name}_reason": code, f"form_{name}_identified": ~held}
    out |= {f"form_{name}_half_width": np.where(np.isfinite(half), half, np.nan) for name, half in half_width.items()}
    return out


def _source(name: str, found: dict[str, FloatArray]) -> FloatArray:
    """Return a parameter of every form; "eta" is that of the oscillation where there is one, and p_base is still a logarithm."""
    if name == "eta":
        return np.concatenate([found["eta_tail"][:1], found["eta_osc"][1:]])
    return found["b" if name == "p_base" else name]


def _wider(value: FloatArray, spread: Interval, half_width: FloatArray, documents: np.ndarray) -> Interval:
    """Return the wider of a jackknife interval and the one of the given half-width; NaN where there is no jackknife."""
    quantile = stdtrit(np.maximum(documents - 1.0, 1.0), 0.5 + LEVEL / 2)
    se = np.maximum(spread.se, np.where(np.isfinite(half_width), half_width, np.inf) / quantile)
    return Interval(se=se, lower=value - quantile * se, upper=value + quantile * se)


def chosen_values(by_form: dict[str, np.ndarray], pick: tuple[np.ndarray, np.ndarray]) -> dict[str, np.ndarray]:
    """Return x, x_se, x_lower, x_upper, x_reason, x_identified of each head's chosen form, shape (head,)."""
    ends = ("", "_se", "_lower", "_upper", "_reason", "_identified")
    return {f"{name}{end}": by_form[f"form_{name}{end}"][pick] for name in OF_CHOSEN for end in ends} | {"form_chosen": np.asarray(pick[0])}
