"""Identifiability of the phases: which phases exceed the noise, how precisely the data place break
points and frequency, and which estimates have errors.

A phase is *significant* if

1. its p-value against surrogates with the residuals' autocorrelation is at most SIGNIFICANCE
   (`surrogates`);
2. with two documents or more, it improves the prediction of a held-out document by more than one
   standard error over documents;
3. for an oscillation: its amplitude is at least AMPLITUDE standard errors √(2 S(ω)/(T₂ − T₁)), S
   the spectral density of the noise at ω.

Its slope, or amplitude, is then *identified*. A break point or ω must also have a 95% interval in
that noise whose half-width is at most RESOLUTION of L, or of ω. T₂ needs a total growth η(L − T₂)
of at least GROWTH times the long-run noise, both in nats. All tests use the residuals of the mean;
misfit counts as noise.

Half-widths of T₂ and ω come from the sandwich (J'J)⁻¹ J'ΩJ (J'J)⁻¹. J are the model's derivatives,
including a column for T₂ (−η beyond T₂), and Ω is the noise's covariance. At T₁ the mean jumps and
has no derivative; its half-width is 11.03 V/Q², the 95% quantile of the argmax of a two-sided
random walk with drift (Bai 1997, Review of Economics and Statistics 79). Q is the mean square of
log(1 + η cos ωi) and V the long-run variance of its product with the noise.

Everywhere `best` holds the parameters of every form and `noise` the background of each form's
residuals, both (form, head). `last` is the position of the last token: L where the sink is visible.
Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from geostat.datasets.variable import Value
from geostat.fits.weights.autocorrelation import Background
from geostat.fits.weights.break_points import FORMS
from geostat.fits.weights.forms import derivatives
from geostat.fits.weights.rivals import RIVALS
from geostat.fits.weights.surrogates import p_values
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import SIGNIFICANCE, Estimate, jackknife
from geostat.statistics.losses import mean_over_documents, paired_gain
from geostat.statistics.t_test import critical_value

AMPLITUDE = 2.0
"""Minimum amplitude of an oscillation, in standard errors."""
GROWTH = 1.0
"""Minimum total growth that identifies T₂, in units of the long-run noise."""
MONOTONE, SHARED, SEPARATE = (FORMS.index(form) for form in ("monotone", "shared", "separate"))


def strength(
    best: dict[str, FloatArray], noise: Background, long_run: FloatArray, last: float
) -> dict[str, FloatArray]:
    """Return the size of each phase in units of the noise, (form, head); NaN without the phase.

    Units are standard errors of the amplitude for an oscillation (test 3 of the module), and the
    long-run noise, `long_run`, for the total growth η(L − T₂).
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Significance:
    """Test results of each phase of each form, (form, head).

    `…_detected`: the phase passes tests 1 and 2. `…_large`: it is larger than the noise.
    """

    oscillation_detected: BoolArray
    oscillation_large: BoolArray
    growth_detected: BoolArray
    growth_large: BoolArray

    @property
    def oscillation(self) -> BoolArray:
        """Significant oscillations."""
        return self.oscillation_detected & self.oscillation_large


def reported(significance: Significance, loss: FloatArray) -> NDArray[np.int64]:
    """Return the form whose parameters are reported for each head, an index of FORMS, (head,).

    Without a significant oscillation it is `monotone`. Otherwise it is the printed form, `shared`,
    unless only `separate` has a significant oscillation, or `separate` predicts a held-out document
    better by more than one standard error. `loss` has shape (rival, document, head), nats².
    """
    shared, separate = significance.oscillation[SHARED], significance.oscillation[SEPARATE]
    gain, se = paired_gain(*(loss[RIVALS.index(form)] for form in ("shared", "separate")))
    with np.errstate(invalid="ignore"):
        prefer_separate = separate & (~shared | (gain > se))
    return np.where(prefer_separate, SEPARATE, np.where(shared, SHARED, MONOTONE)).astype(np.int64)


def phase_significance(
    strengths: dict[str, FloatArray],
    loss: FloatArray,
    mean: FloatArray,
    residual: FloatArray,
    noise: Background,
    first: int,
) -> tuple[Significance, dict[str, np.ndarray]]:
    """Return the significance of each phase, and the numbers it rests on (gains in nats²).

    `loss`, `residual` and `noise` are by RIVALS.
    """
    place = {form: index for index, form in enumerate(RIVALS)}
    squares = np.nansum(residual**2, axis=-1)
    power_law_better = squares[place["power_law"]] < squares[place["monotone"]]
    without_oscillation = np.where(power_law_better, place["power_law"], place["monotone"])
    better_fit = (without_oscillation, np.arange(mean.shape[0]))
    tested = p_values(mean, residual[better_fit], noise.take(better_fit), first)
    out: dict[str, np.ndarray] = {
        f"form_{phase}_to_noise": value for phase, value in strengths.items()
    } | tested
    constant, monotone, shared, separate = (
        loss[place[form]] for form in ("constant", "monotone", "shared", "separate")
    )
    out["growth_gain"], out["growth_gain_se"], growth_gains = _held_out_gain(constant, monotone)
    out["oscillation_gain"], out["oscillation_gain_se"], gains = _held_out_gain(monotone, shared)
    oscillation_gains = [np.zeros_like(gains), gains, _held_out_gain(monotone, separate)[2]]
    with np.errstate(invalid="ignore"):
        significance = Significance(
            oscillation_detected=np.stack(oscillation_gains)
            & (tested["oscillation_p"] <= SIGNIFICANCE),
            oscillation_large=strengths["oscillation"] >= AMPLITUDE,
            growth_detected=np.broadcast_to(
                growth_gains & (tested["growth_p"] <= SIGNIFICANCE), strengths["growth"].shape
            ),
            growth_large=strengths["growth"] >= GROWTH,
        )
    out["form_oscillation_identified"] = significance.oscillation
    out["oscillation_identified"] = significance.oscillation[SHARED]
    out["growth_identified"] = significance.growth_detected[MONOTONE]
    out["identified"] = out["oscillation_identified"] | out["growth_identified"]
    return significance, out


def _held_out_gain(
    simple: FloatArray, rich: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the richer form's gain, its error, and if it gains (always, with one document)."""
    gain, se = paired_gain(simple, rich)
    beyond_rounding = gain > 1e-12 * mean_over_documents(simple)
    return gain, se, np.where(np.isfinite(se), (gain > se) & beyond_rounding, True)


RESOLUTION = 0.02
"""Maximum half-width of an identified break point (over L) or frequency (over ω)."""


class Reason(IntEnum):
    """Code of the reason for a missing standard error."""

    HAS_ONE = 0
    NOT_FITTED = 1
    AT_A_BOUND = 2
    PHASE_ABSENT = 3
    BELOW_THE_NOISE = 4
    PLACED_TOO_ROUGHLY = 5
    ONE_DOCUMENT_OR_FAILED_REPLICATE = 6


PARAMETERS = ("p_base", "eta", "eta_tail", "omega", "t1", "t2")


def reasons(
    best: dict[str, FloatArray],
    significance: Significance,
    half_width: dict[str, FloatArray],
    at_bound: dict[str, BoolArray],
    last: float,
) -> dict[str, np.ndarray]:
    """Return the code of the first Reason that denies a parameter its standard error.

    Codes are by parameter, (form, head); HAS_ONE means identified. A failed replicate is found
    later. `half_width` comes from `placement`; `at_bound` holds "eta", "eta_tail" and "omega",
    (form, head).
    """
    separate, monotone = (
        np.array([form == name for form in FORMS])[:, None] for name in ("separate", "monotone")
    )
    # Pairs (passes tests 1 and 2, also large enough) of each phase. A slope needs no minimum size.
    has_omega = np.isfinite(best["omega"])
    oscillation = (significance.oscillation_detected, significance.oscillation)
    slope = (significance.growth_detected, significance.growth_detected)
    growth = (
        significance.growth_detected,
        significance.growth_detected & significance.growth_large,
    )
    either = (oscillation[0] | slope[0], oscillation[1] | slope[1])
    phase = {
        "eta": tuple(np.where(separate, w, e) for w, e in zip(oscillation, either, strict=True)),
        "eta_tail": tuple(np.where(separate, g, e) for g, e in zip(slope, either, strict=True)),
        "omega": (oscillation[0] & has_omega, oscillation[1]),
        "t1": tuple(np.where(monotone, g, w) for g, w in zip(growth, oscillation, strict=True)),
        "t2": growth,
    }
    bound = dict(at_bound) | {"t1": at_bound["eta"], "t2": at_bound["eta_tail"]}
    imprecise = {
        "omega": half_width["omega"] > RESOLUTION * best["omega"],
        "t1": half_width["t1"] > RESOLUTION * last,
        "t2": half_width["t2"] > RESOLUTION * last,
    }
    missing = ~np.isfinite(best["b"])
    out = {"p_base": np.where(missing, Reason.NOT_FITTED, Reason.HAS_ONE)}
    precise = np.zeros(missing.shape, dtype=bool)
    for name, (passes, large_enough) in phase.items():
        cases = [missing, ~passes, bound[name], ~large_enough, imprecise.get(name, precise)]
        out[name] = np.select(
            cases,
            [
                Reason.NOT_FITTED,
                Reason.PHASE_ABSENT,
                Reason.AT_A_BOUND,
                Reason.BELOW_THE_NOISE,
                Reason.PLACED_TOO_ROUGHLY,
            ],
            default=Reason.HAS_ONE,
        )
    return out


def form_values(
    best: dict[str, FloatArray],
    replicates: dict[str, FloatArray],
    carries: BoolArray,
    codes: dict[str, np.ndarray],
    half_width: dict[str, FloatArray],
) -> dict[str, Value]:
    """Return form_x, form_x_reason, form_x_identified and form_x_half_width, each (form, head).

    `replicates` are leave-one-out parameters, (form, document, head); `carries` marks documents
    that carry a head, (document, head); `codes` come from `reasons`, `half_width` from `placement`.
    """
    documents = carries.sum(axis=0)
    out: dict[str, Value] = {}
    for name in PARAMETERS:
        value, by_document = _source(name, best), np.moveaxis(_source(name, replicates), 1, 0)
        estimate = jackknife(value, by_document, carries[:, None, :])
        if name in ("t1", "t2"):
            estimate = _wider_interval(estimate, half_width[name], documents)
        if name == "p_base":
            estimate = estimate.exp(np.exp(value))
        identified = codes[name] == Reason.HAS_ONE
        code = np.where(
            identified & ~np.isfinite(estimate.se),
            Reason.ONE_DOCUMENT_OR_FAILED_REPLICATE,
            codes[name],
        )
        out |= {
            f"form_{name}": estimate.with_error_where(identified),
            f"form_{name}_reason": code,
            f"form_{name}_identified": identified,
        }
    return out | {
        f"form_{name}_half_width": np.where(np.isfinite(width), width, np.nan)
        for name, width in half_width.items()
    }


def _source(name: str, parameters: dict[str, FloatArray]) -> FloatArray:
    """Return a parameter of every form: of p_base the logarithm, η of the oscillation if any."""
    if name == "eta":
        return np.concatenate([parameters["eta_tail"][:1], parameters["eta_osc"][1:]])
    return parameters["b" if name == "p_base" else name]


def _wider_interval(estimate: Estimate, half_width: FloatArray, documents: np.ndarray) -> Estimate:
    """Return the wider of the jackknife interval and that of a half-width; NaN without one."""
    quantile = critical_value(np.maximum(documents - 1.0, 1.0))
    se = np.maximum(estimate.se, np.where(np.isfinite(half_width), half_width, np.inf) / quantile)
    return Estimate(
        value=estimate.value,
        se=se,
        lower=estimate.value - quantile * se,
        upper=estimate.value + quantile * se,
    )


NORMAL, BAI = 1.959964, 11.03


def placement(
    best: dict[str, FloatArray], noise: Background, position: FloatArray, known: BoolArray
) -> dict[str, FloatArray]:
    """Return half-widths of the 95% intervals of T₁, T₂ (tokens) and ω (rad/token), (form, head).

    inf where the data do not place the parameter. `known` marks known log weights, (head, token).
    """
    out = {name: np.full(best["b"].shape, np.inf) for name in ("t1", "t2", "omega")}
    size = 2 * max(position.size, 1)
    frequency = 2.0 * np.pi * np.arange(size // 2 + 1) / size
    # Weights of a one-sided sum over frequencies.
    edge = (np.arange(size // 2 + 1) == 0) | (2 * np.arange(size // 2 + 1) == size)
    share = np.where(edge, 1.0, 2.0) / size
    for form_index, form in enumerate(FORMS):
        heads = np.flatnonzero(
            np.isfinite(best["b"][form_index]) & np.isfinite(noise.variance[form_index])
        )
        if not heads.size:
            continue
        parameters = {name: rows[form_index, heads, None] for name, rows in best.items()}
        density = noise.take((form_index, heads)).density(frequency) * share
        columns, swing = _columns(form, parameters, position)
        columns, swing = columns * known[heads, :, None], swing * known[heads]
        error = _sandwich(columns, density, size)
        out["t2"][form_index, heads] = NORMAL * error[:, -1]
        if form == "monotone":
            out["t1"][form_index] = out["t2"][form_index]
            continue
        out["omega"][form_index, heads] = NORMAL * error[:, -2]
        power = (swing**2).sum(axis=-1)
        spread = (density * np.abs(np.fft.rfft(swing, size, axis=-1)) ** 2).sum(axis=-1)
        length = parameters["t2"][:, 0] - parameters["t1"][:, 0]
        out["t1"][form_index, heads] = np.divide(
            BAI * length * spread, power**2, out=np.full(power.shape, np.inf), where=power > 0
        )
    return out


def _columns(
    form: str, parameters: dict[str, FloatArray], position: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return derivatives of log α in b, the slopes, ω and T₂, (head, token, parameter), and
    log(1 + η cos ωi).
    """
    oscillating = (position > parameters["t1"]) & (position <= parameters["t2"])
    omega = np.nan_to_num(parameters["omega"])
    level = 1.0 + parameters["eta_osc"] * np.cos(omega * position)
    of_t2 = np.where(position > parameters["t2"], -parameters["eta_tail"], 0.0)
    columns = [*derivatives(form, parameters, position).values(), of_t2]
    return np.stack(columns, axis=-1), np.where(oscillating, np.log(level), 0.0)


def _sandwich(columns: FloatArray, density: FloatArray, size: int) -> FloatArray:
    """Return errors of least squares in coloured noise, (head, parameter); inf for a 0 column."""
    length = np.sqrt((columns**2).sum(axis=1))
    scale = ratio(1.0, length, 0.0)
    columns = columns * scale[:, None, :]
    inverse = np.linalg.pinv(np.einsum("hta,htb->hab", columns, columns), hermitian=True)
    spectra = np.fft.rfft(columns, size, axis=1)
    spectra = (
        np.concatenate([spectra.real, spectra.imag], axis=1)
        * np.sqrt(np.concatenate([density, density], axis=1))[..., None]
    )
    middle = spectra.transpose(0, 2, 1) @ spectra
    variance = np.einsum("hab,hbc,hac->ha", inverse, middle, inverse)
    with np.errstate(divide="ignore"):
        return np.where(length > 0, np.sqrt(np.maximum(variance, 0.0)) * scale, np.inf)
