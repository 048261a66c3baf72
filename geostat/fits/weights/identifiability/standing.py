"""Standing of the phases: which of them, oscillation and growth, stand out of the noise.

A phase *stands out* if

1. its p-value against surrogates with the residuals' own autocorrelation is at most SIGNIFICANCE
   (`surrogates`);
2. with two documents or more, a document left out is predicted better with it than without by more
   than one standard error over documents;
3. of an oscillation: its amplitude is at least AMPLITUDE standard errors √(2 S(ω)/(T₂ − T₁)), S the
   spectral density of the noise at ω.

Growth needs no size to stand out; to place T₂ it must reach GROWTH of the noise (`estimates`).

Then its slope, or amplitude, is *identified*. All rests on the residuals of the mean, so that a
misfit counts as noise. Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geostat.fits.weights.autocorrelation import Background
from geostat.fits.weights.break_points import FORMS
from geostat.fits.weights.identifiability.surrogates import p_values
from geostat.fits.weights.rivals import RIVALS
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import SIGNIFICANCE
from geostat.statistics.losses import mean_over_documents, paired_gain

AMPLITUDE = 2.0
"""How many standard errors the amplitude of an oscillation must reach."""
GROWTH = 1.0
"""How many long-run standard deviations of the noise the total growth must reach to place T₂."""
MONOTONE, SHARED, SEPARATE = (FORMS.index(form) for form in ("monotone", "shared", "separate"))


def strength(
    best: dict[str, FloatArray], noise: Background, long_run: FloatArray, last: float
) -> dict[str, FloatArray]:
    """Return how large each phase is in units of the noise, (form, head); NaN without the phase.

    An oscillation's amplitude is in standard errors (see the module, 3), the total growth η(L − T₂)
    in those of the long-run noise, `long_run`. `best` holds the parameters of every form, `noise`
    the background of each form's residuals, (form, head); `last` is the position of the last token.
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
class Standing:
    """What is known of each phase of each form, (form, head): it passes tests 1 and 2 (`seen`), it
    is larger than the noise (`large`).
    """

    oscillation_seen: BoolArray
    oscillation_large: BoolArray
    growth_seen: BoolArray
    growth_large: BoolArray

    @property
    def oscillation(self) -> BoolArray:
        """Whether the oscillation stands out."""
        return self.oscillation_seen & self.oscillation_large


def reported(standing: Standing, loss: FloatArray) -> NDArray[np.int64]:
    """Return the form whose parameters are reported for each head, an index of FORMS, (head,).

    It is one whose oscillation stands out of the noise: the printed one, `shared`, unless only that
    of `separate` does or a document left out is predicted better by `separate`, by more than one
    standard error. Without such an oscillation it is `monotone`. `loss` is by RIVALS, (rival,
    document, head), nats².
    """
    shared, separate = standing.oscillation[SHARED], standing.oscillation[SEPARATE]
    gain, se = paired_gain(*(loss[RIVALS.index(form)] for form in ("shared", "separate")))
    with np.errstate(invalid="ignore"):
        own_size = separate & (~shared | (gain > se))
    return np.where(own_size, SEPARATE, np.where(shared, SHARED, MONOTONE)).astype(np.int64)


def stand_out(
    strong: dict[str, FloatArray],
    loss: FloatArray,
    mean: FloatArray,
    residual: FloatArray,
    noise: Background,
    first: int,
) -> tuple[Standing, dict[str, np.ndarray]]:
    """Return which phases stand out of the noise, and the numbers that rests on (gains: nats²);
    loss, residual and noise are by RIVALS.
    """
    power, constant, ahead = (RIVALS.index(form) for form in ("power_law", "constant", "monotone"))
    less = np.nansum(residual[power] ** 2, axis=-1) < np.nansum(residual[ahead] ** 2, axis=-1)
    least = (np.where(less, power, ahead), np.arange(less.size))
    tested = p_values(mean, residual[least], noise.take(least), first)
    out: dict[str, np.ndarray] = {
        f"form_{phase}_to_noise": value for phase, value in strong.items()
    } | tested
    out["growth_gain"], out["growth_gain_se"], grows = _better(loss[constant], loss[ahead])
    oscillates = [np.zeros(mean.shape[0], dtype=bool)]
    for form in ("shared", "separate"):
        gain, se, better = _better(loss[ahead], loss[RIVALS.index(form)])
        oscillates.append(better)
        if form == "shared":
            out["oscillation_gain"], out["oscillation_gain_se"] = gain, se
    with np.errstate(invalid="ignore"):
        standing = Standing(
            oscillation_seen=np.stack(oscillates) & (tested["oscillation_p"] <= SIGNIFICANCE),
            oscillation_large=strong["oscillation"] >= AMPLITUDE,
            growth_seen=np.broadcast_to(
                grows & (tested["growth_p"] <= SIGNIFICANCE), strong["growth"].shape
            ),
            growth_large=strong["growth"] >= GROWTH,
        )
    out["form_oscillation_identified"] = standing.oscillation
    out["oscillation_identified"], out["growth_identified"] = (
        standing.oscillation[SHARED],
        standing.growth_seen[MONOTONE],
    )
    out["identified"] = out["oscillation_identified"] | out["growth_identified"]
    return standing, out


def _better(simple: FloatArray, rich: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the richer form's gain by left-out loss, its standard error, and whether that speaks
    for it, as with one document it does.
    """
    gain, se = paired_gain(simple, rich)
    beyond_rounding = gain > 1e-12 * mean_over_documents(simple)
    return gain, se, np.where(np.isfinite(se), (gain > se) & beyond_rounding, True)
