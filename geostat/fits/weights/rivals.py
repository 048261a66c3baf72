"""Rivals of Assumption 3's phases, and the choice among all forms by what they predict of a
document left out.

Beside the three forms of `break_points`: *constant*, log α = b; *no_plateau*, growth from the
first content token on, b + η(i − i₀); *power_law*, recency as a power of the distance to the
query, b − γ log(L + 1 − i). Slopes are not negative, as the paper's. These are linear, so least
squares is closed; tests hold it equal to lmfit's.

The choice: the least left-out loss, and then the simplest form whose loss is within one standard
error (over documents, of the paired difference) of it. Of two equally simple ones, the one of less
loss. AICc and BIC are given as well; they take tokens as independent, which they are not. Imports
numpy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geostat.fits.weights.autocorrelation import lag_one
from geostat.fits.weights.break_points import FORMS
from geostat.statistics import one_standard_error
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import Estimate, jackknife
from geostat.statistics.losses import (
    bayesian_information,
    corrected_akaike,
    mean_loss,
    mean_of_known,
)

SIMPLE = ("constant", "no_plateau", "power_law")
RIVALS = SIMPLE + FORMS
FREE = {"constant": 1, "no_plateau": 2, "power_law": 2, "monotone": 3, "shared": 5, "separate": 6}
"""Free parameters of each form: b, slopes, ω, and each free break point."""


def solve(form: str, position: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return b and the slope of least squares of one of SIMPLE to rows of log weights, (..., token)
    → (...); the slope of a constant is 0.

    `position` is that of each content token. NaN where nothing is known of a row.
    """
    known = np.isfinite(rows)
    count = known.sum(axis=-1)
    y = np.where(known, rows, 0.0)
    level = ratio(y.sum(axis=-1), count)
    if form == "constant" or not position.size:
        return level, np.where(count > 0, 0.0, np.nan)
    x = design(form, position)
    middle = ratio((known * x).sum(axis=-1), count, 0.0)
    about = np.where(known, x - middle[..., None], 0.0)
    squares = (about**2).sum(axis=-1)
    slope = ratio((about * y).sum(axis=-1), squares, 0.0)
    slope = np.where(count > 0, np.maximum(slope, 0.0), np.nan)
    return level - slope * middle, slope


def design(form: str, position: FloatArray) -> FloatArray:
    """Return what a simple rival's slope multiplies, shape (token,)."""
    if form == "constant" or not position.size:
        return np.zeros(position.shape)
    return (
        position - position[0] if form == "no_plateau" else -np.log(position[-1] + 1.0 - position)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleFits:
    """Fits of SIMPLE to one layer: residuals of the mean (rival, head, token), left-out losses
    (rival, document, head), slopes.
    """

    residual: FloatArray
    loss: FloatArray
    slope: FloatArray
    """Of the mean, then without each document, (rival, 1 + document, head)."""


def simple_fits(
    position: FloatArray, log_weight: FloatArray, mean: FloatArray, without: FloatArray
) -> SimpleFits:
    """Fit the simple rivals to the mean log weight, (head, token), and to the means `without`
    one document, (document, head, token).
    """
    out: dict[str, list[FloatArray]] = {"residual": [], "loss": [], "slope": []}
    for form in SIMPLE:
        level, slope = solve(form, position, np.concatenate([mean[None], without]))
        rise = slope[..., None] * design(form, position)
        out["residual"].append(mean - level[0, :, None] - rise[0])
        out["loss"].append(mean_of_known((log_weight - level[1:, :, None] - rise[1:]) ** 2))
        out["slope"].append(slope)
    return SimpleFits(**{name: np.stack(values) for name, values in out.items()})


def compare(residual: FloatArray, loss: FloatArray, long_run: FloatArray) -> dict[str, np.ndarray]:
    """Lay all six forms side by side, by their residuals of the mean, (rival, head, token), and
    left-out losses, (rival, document, head).

    Returns arrays by rival, named as in `variables`, `long_run`, (rival, head), among them, and
    `preferred` by head, −1 where nothing can be left out.
    """
    points = np.isfinite(residual[0]).sum(axis=-1)
    squares = mean_of_known(residual**2)
    choice = choose(loss)
    left_out, left_out_se = mean_loss(np.moveaxis(loss, 1, 0))
    free = np.array([[FREE[form]] for form in RIVALS])
    bic = bayesian_information(squares * points, points, free)
    return {
        "rival_rmse": np.sqrt(squares),
        "rival_bic": bic,
        "rival_aicc": corrected_akaike(bic, points, free, free),
        "rival_loss_left_out": left_out,
        "rival_loss_left_out_se": left_out_se,
        "rival_residual_autocorrelation": lag_one(residual),
        "rival_long_run_noise": long_run,
        "preferred": choice.chosen,
        "rival_clearly_lowest": choice.clear,
    }


def simple_slopes(simple: SimpleFits, carries: BoolArray) -> dict[str, Estimate]:
    """Return power_law_gamma and no_plateau_eta; no error where they are 0, their bound.
    `carries` is (document, head).
    """
    out = {}
    for name, form in (("power_law_gamma", "power_law"), ("no_plateau_eta", "no_plateau")):
        slope = simple.slope[SIMPLE.index(form)]
        out[name] = jackknife(slope[0], slope[1:], carries).with_error_where(slope[0] > 0)
    return out


def choose(loss: FloatArray) -> one_standard_error.Choice:
    """Choose a form for each head by left-out losses, (rival, document, head); −1 where there is no
    standard error.

    NaN stands for a form or document without a loss.
    """
    whole = np.isfinite(loss).sum(axis=1) == np.isfinite(loss[0]).sum(
        axis=0
    )  # a form that failed in a document cannot be compared
    sound = np.where(whole[:, None], loss, np.nan)
    return one_standard_error.choose(
        sound, np.full(whole.shape, np.nan), np.array([FREE[form] for form in RIVALS])
    )
