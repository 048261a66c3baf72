"""Estimates of the parameters of every form, and of the chosen one, with errors where the data
identify them, and reasons where there is none.

The slope of a phase, or its amplitude, is *identified* where the phase stands out of the noise
(`standing`). A break point, or ω, is, if moreover the half-width of its 95% interval in that noise
(`placement`) is at most RESOLUTION of L, or of ω, and, for T₂, the total growth η(L − T₂) is at
least the long-run noise, both in nats.

Everywhere `best` holds the parameters of every form, (form, head), and `last` is the position of
the last token, which is L where the sink is visible. Imports numpy and scipy.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import stdtrit

from geostat.datasets.variable import Value, mapped
from geostat.fits.weights.break_points import FORMS
from geostat.fits.weights.identifiability.standing import Standing
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import LEVEL, Estimate, jackknife

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
