"""Identifiability of phases and break points: which phases stand out of the noise, how exactly the
data place break points and frequency.

A phase *stands out* if

1. its p-value against surrogates with the residuals' own autocorrelation is at most SIGNIFICANCE
   (`surrogates`);
2. with two documents or more, a document left out is predicted better with it than without by more
   than one standard error over documents;
3. of an oscillation: its amplitude is at least AMPLITUDE standard errors √(2 S(ω)/(T₂ − T₁)), S the
   spectral density of the noise at ω.

Then its slope, or amplitude, is *identified*. A break point, or ω, is, if moreover the half-width
of its 95% interval in that noise is at most RESOLUTION of L, or of ω, and, for T₂, the total growth
η(L − T₂) is at least the long-run noise, both in nats. Half-widths: for T₂ and ω from the sandwich
(J'J)⁻¹ J'ΩJ (J'J)⁻¹ with J the model's derivatives, a column for T₂ among them (the growth's own −η
beyond it), and Ω the noise's covariance. For T₁, where the mean jumps and no derivative exists,
11.03 V/Q²: the 95% quantile of where a two-sided random walk with drift is largest (Bai 1997,
Review of Economics and Statistics 79), Q the mean square of log(1 + η cos ωi) and V the long-run
variance of its product with the noise. All rests on the residuals of the mean, so that a misfit
counts as noise.

Everywhere `best` holds the parameters of every form, (form, head), `noise` the background of each
form's residuals, (form, head), and `last` is the position of the last token, which is L where the
sink is visible. Imports numpy and scipy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from geostat.datasets.variable import Value, mapped
from geostat.fits.weights.autocorrelation import Background
from geostat.fits.weights.break_points import FORMS
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import LEVEL, Estimate, jackknife

AMPLITUDE = 2.0
"""How many standard errors the amplitude of an oscillation must reach."""
RESOLUTION = 0.02
"""Half-width up to which a break point (of L) or a frequency (of itself) is called identified."""
NORMAL, BAI = 1.959964, 11.03
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


def strength(
    best: dict[str, FloatArray], noise: Background, long_run: FloatArray, last: float
) -> dict[str, FloatArray]:
    """Return how large each phase is in units of the noise (see the module, 2), (form, head);
    NaN without the phase.
    """
    wave, tail = best["t2"] - best["t1"], last - best["t2"]
    density = noise.density(np.nan_to_num(best["omega"])[..., None])[..., 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "oscillation": np.where(
                wave > 0, best["eta_osc"] * np.sqrt(wave / 2.0 / density), np.nan
            ),
            "growth": np.where(tail > 0, best["eta_tail"] * tail / long_run, np.nan),
        }


def placement(
    best: dict[str, FloatArray], noise: Background, position: FloatArray, known: BoolArray
) -> dict[str, FloatArray]:
    """Return the half-widths of 95% intervals of T₁, T₂ (tokens) and ω (radians per token), (form,
    head); inf where nothing marks one.

    `position` is that of each content token, `known`, (head, token), tells which log weights are
    known.
    """
    out = {name: np.full(best["b"].shape, np.inf) for name in ("t1", "t2", "omega")}
    size = 2 * max(position.size, 1)
    frequency = 2.0 * np.pi * np.arange(size // 2 + 1) / size
    share = (
        np.where((np.arange(size // 2 + 1) == 0) | (2 * np.arange(size // 2 + 1) == size), 1.0, 2.0)
        / size
    )  # of a one-sided sum
    for k, form in enumerate(FORMS):
        heads = np.flatnonzero(np.isfinite(best["b"][k]) & np.isfinite(noise.variance[k]))
        if not heads.size:
            continue
        one = {name: rows[k, heads, None] for name, rows in best.items()}
        density = noise.take((k, heads)).density(frequency) * share
        columns, swing = _columns(form, one, position)
        columns, swing = columns * known[heads, :, None], swing * known[heads]
        error = _sandwich(columns, density, size)
        out["t2"][k, heads] = NORMAL * error[:, -1]
        if form == "monotone":
            out["t1"][k] = out["t2"][k]
            continue
        out["omega"][k, heads] = NORMAL * error[:, -2]
        power = (swing**2).sum(axis=-1)
        spread = (density * np.abs(np.fft.rfft(swing, size, axis=-1)) ** 2).sum(axis=-1)
        length = one["t2"][:, 0] - one["t1"][:, 0]
        out["t1"][k, heads] = np.divide(
            BAI * length * spread, power**2, out=np.full(power.shape, np.inf), where=power > 0
        )
    return out


def _columns(
    form: str, one: dict[str, FloatArray], position: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return derivatives of log α in b, the slopes, ω and T₂ (last two last), shape (head,
    token, parameter), and log(1 + η cos ωi).
    """
    wave, beyond = (position > one["t1"]) & (position <= one["t2"]), position > one["t2"]
    omega, eta = np.where(wave, one["omega"], 0.0), np.where(wave, one["eta_osc"], 0.0)
    cosine, level = np.cos(omega * position), 1.0 + eta * np.cos(omega * position)
    ramp = np.where(beyond, position - one["t2"], 0.0)
    swing = np.where(wave, cosine / level, 0.0)
    slopes = {"monotone": [ramp], "shared": [swing + ramp], "separate": [swing, ramp]}[form]
    turn = [] if form == "monotone" else [-eta * position * np.sin(omega * position) / level]
    columns = [np.ones(ramp.shape), *slopes, *turn, np.where(beyond, -one["eta_tail"], 0.0)]
    return np.stack(np.broadcast_arrays(*columns), axis=-1), np.where(wave, np.log(level), 0.0)


def _sandwich(columns: FloatArray, density: FloatArray, size: int) -> FloatArray:
    """Return standard errors of least squares in noise of the given spectral density, shape
    (head, parameter); inf for a column of zeros.
    """
    length = np.sqrt((columns**2).sum(axis=1))
    scale = ratio(1.0, length, 0.0)
    columns = columns * scale[:, None, :]
    inverse = np.linalg.pinv(np.einsum("hta,htb->hab", columns, columns), hermitian=True)
    waves = np.fft.rfft(columns, size, axis=1)
    waves = (
        np.concatenate([waves.real, waves.imag], axis=1)
        * np.sqrt(np.concatenate([density, density], axis=1))[..., None]
    )
    middle = waves.transpose(0, 2, 1) @ waves
    variance = np.einsum("hab,hbc,hac->ha", inverse, middle, inverse)
    with np.errstate(divide="ignore"):
        return np.where(length > 0, np.sqrt(np.maximum(variance, 0.0)) * scale, np.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is known of each phase of each form, shape (form, head): it passes tests 1 and 2
    (`seen`), and it is larger than the noise (`large`).
    """

    oscillation_seen: BoolArray
    oscillation_large: BoolArray
    growth_seen: BoolArray
    growth_large: BoolArray

    @property
    def oscillation(self) -> BoolArray:
        """Whether the oscillation stands out."""
        return self.oscillation_seen & self.oscillation_large


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
    wave, small = (
        (standing.oscillation_seen, standing.oscillation),
        (
            standing.growth_seen,
            standing.growth_seen,
        ),
    )
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
