"""Reasons why a parameter of a form has no standard error.

The slope of a phase, or its amplitude, is *identified* where the phase stands out of the noise
(`standing`). A break point, or ω, is, if moreover the half-width of its 95% interval in that noise
(`placement`) is at most RESOLUTION of L, or of ω, and, for T₂, the total growth η(L − T₂) is at
least the long-run noise, both in nats.

Everywhere `best` holds the parameters of every form, (form, head), and `last` is the position of
the last token, which is L where the sink is visible. Imports numpy.
"""

from __future__ import annotations

import numpy as np

from geostat.fits.weights.break_points import FORMS
from geostat.fits.weights.identifiability.standing import Standing
from geostat.statistics.arrays import BoolArray, FloatArray

RESOLUTION = 0.02
"""Half-width up to which a break point (of L) or a frequency (of itself) is called identified."""
REASONS = (
    "has_one",
    "not_fitted",
    "at_a_bound",
    "phase_absent",
    "below_the_noise",
    "placed_too_roughly",
    "one_document_or_failed_replicate",
)
"""Why a parameter has no standard error, in the order of the codes."""
HAS_ONE, NOT_FITTED, AT_BOUND, ABSENT, BELOW, ROUGH, NO_REPLICATE = range(len(REASONS))
PARAMETERS = ("p_base", "eta", "eta_tail", "omega", "t1", "t2")


def reasons(
    best: dict[str, FloatArray],
    standing: Standing,
    half_width: dict[str, FloatArray],
    at_bound: dict[str, BoolArray],
    last: float,
) -> dict[str, np.ndarray]:
    """Return, by parameter, the first of REASONS that denies it a standard error, as a code of
    shape (form, head).

    NO_REPLICATE is not found here. A code of HAS_ONE (or NO_REPLICATE) means identified.
    `half_width` is that of `placement`, `at_bound` holds "eta", "eta_tail" and "omega", (form,
    head).
    """
    separate, monotone = (
        np.array([form == name for form in FORMS])[:, None] for name in ("separate", "monotone")
    )
    # Of each phase: whether it stands out, and whether it is large enough, too. A slope needs no
    # size.
    wave = (standing.oscillation_seen, standing.oscillation)
    small = (standing.growth_seen, standing.growth_seen)
    growth = (standing.growth_seen, standing.growth_seen & standing.growth_large)
    either = (wave[0] | small[0], wave[1] | small[1])
    phase = {
        "eta": tuple(np.where(separate, w, e) for w, e in zip(wave, either, strict=True)),
        "eta_tail": tuple(np.where(separate, g, e) for g, e in zip(small, either, strict=True)),
        "omega": wave,
        "t1": tuple(np.where(monotone, g, w) for g, w in zip(growth, wave, strict=True)),
        "t2": growth,
    }
    bound = dict(at_bound) | {"t1": at_bound["eta"], "t2": at_bound["eta_tail"]}
    rough = {
        "omega": half_width["omega"] > RESOLUTION * best["omega"],
        "t1": half_width["t1"] > RESOLUTION * last,
        "t2": half_width["t2"] > RESOLUTION * last,
    }
    missing = ~np.isfinite(best["b"])
    out = {"p_base": np.where(missing, NOT_FITTED, HAS_ONE)}
    for name in PARAMETERS[1:]:
        seen, whole = phase[name]
        absent = np.asarray(missing | ~np.isfinite(best["omega"])) if name == "omega" else missing
        cases = [
            absent & missing,
            ~seen | absent,
            bound[name],
            ~whole,
            rough.get(name, np.zeros(missing.shape, dtype=bool)),
        ]
        out[name] = np.select(cases, [NOT_FITTED, ABSENT, AT_BOUND, BELOW, ROUGH], default=HAS_ONE)
    return out
