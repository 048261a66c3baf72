"""Rivals of Assumption 3's phases, and the choice among all forms by held-out loss.

Besides the three forms of `break_points`: *constant*, log α = b; *no_plateau*, growth from the
first content token, b + η(i − i₀); *power_law*, a power of the distance to the query, b − γ log(L +
1 − i). Slopes are nonnegative, as in the paper. These forms are linear, and least squares has a
closed form; tests compare it with lmfit.

The choice is the simplest form whose held-out loss is within one standard error (over documents, of
the paired difference) of the lowest; among equally simple forms, the one with the lower loss. AICc
and BIC are also reported; they treat tokens as independent, but residuals are correlated. Imports
numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from geostat.fits.weights.autocorrelation import lag_one
from geostat.fits.weights.forms import PARAMETERS_OF
from geostat.statistics import one_standard_error
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import Estimate, jackknife
from geostat.statistics.losses import (
    bayesian_information,
    centred,
    corrected_akaike,
    mean_loss,
    mean_of_known,
)


@dataclass(frozen=True, slots=True)
class Simple:
    """A simple rival: the regressor of its slope as a function of position, (token,), and the
    variable of that slope.
    """

    regressor: Callable[[FloatArray], FloatArray]
    slope: str = ""


SIMPLE: Final = {
    "constant": Simple(np.zeros_like),
    "no_plateau": Simple(lambda position: position - position[0], "no_plateau_eta"),
    "power_law": Simple(lambda position: -np.log(position[-1] + 1.0 - position), "power_law_gamma"),
}
"""Simple rivals."""
FREE: Final = {name: 1 + bool(rival.slope) for name, rival in SIMPLE.items()} | {
    form: len(parameters) for form, parameters in PARAMETERS_OF.items()
}
"""Free parameters of all forms (b, slopes, ω, break points), simple rivals first."""
RIVALS: Final = tuple(FREE)
"""The coordinate `rival`."""
LABELS: Final = {
    "constant": ("no change", "no change"),
    "no_plateau": ("growth alone", "growth from the first token on"),
    "power_law": ("power of the distance", "a power of the distance to the last token"),
    "monotone": ("plateau, growth", "plateau and growth"),
    "shared": ("four phases, printed", r"four phases, as printed (one $\eta$)"),
    "separate": (
        "four phases, two sizes",
        "four phases, separate amplitude of the oscillation",
    ),
}
"""Name of each form in figures and in tables."""


def design(form: str, position: FloatArray) -> FloatArray:
    """Return the regressor of a simple rival's slope, (token,)."""
    return SIMPLE[form].regressor(position) if position.size else np.zeros(position.shape)


def solve(form: str, position: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return b and slope of one of SIMPLE by least squares on log weights, (..., token) → (...).

    `position` holds positions of content tokens. The slope of a constant is 0; NaN where a row has
    no known weight.
    """
    known = np.isfinite(rows)
    x = np.where(known, design(form, position), np.nan)
    centred_x = centred(x, known)
    slope = ratio(
        (centred_x * np.where(known, rows, 0.0)).sum(axis=-1), (centred_x**2).sum(axis=-1), 0.0
    )
    slope = np.where(known.any(axis=-1), np.maximum(slope, 0.0), np.nan)
    return mean_of_known(rows) - slope * mean_of_known(x), slope


def simple_fits(
    position: FloatArray,
    log_weight: FloatArray,
    mean: FloatArray,
    without: FloatArray,
    carries: BoolArray,
) -> tuple[FloatArray, FloatArray, dict[str, Estimate]]:
    """Fit the simple rivals to mean log weights, (head, token), and leave-one-out means.

    Returns residuals of the mean, (rival, head, token), held-out losses, (rival, document, head),
    and slopes by variable, (head,), without an error at their bound 0. `carries` has shape
    (document, head).
    """
    residuals, losses, slopes = [], [], {}
    for form, rival in SIMPLE.items():
        level, slope = solve(form, position, np.concatenate([mean[None], without]))
        trend = slope[..., None] * design(form, position)
        residuals.append(mean - level[0, :, None] - trend[0])
        losses.append(mean_of_known((log_weight - level[1:, :, None] - trend[1:]) ** 2))
        if rival.slope:
            estimate = jackknife(slope[0], slope[1:], carries)
            slopes[rival.slope] = estimate.with_error_where(slope[0] > 0)
    return np.stack(residuals), np.stack(losses), slopes


def compare(residual: FloatArray, loss: FloatArray, long_run: FloatArray) -> dict[str, np.ndarray]:
    """Compare all forms; return variables by rival, and `preferred`, −1 without held-out loss.

    Residuals of the mean have shape (rival, head, token), held-out losses (rival, document, head),
    long-run noise (rival, head).
    """
    points = np.isfinite(residual[0]).sum(axis=-1)
    squares = mean_of_known(residual**2)
    choice = choose(loss)
    held_out, held_out_se = mean_loss(np.moveaxis(loss, 1, 0))
    free = np.array([*FREE.values()])[:, None]
    bic = bayesian_information(squares * points, points, free)
    return {
        "rival_rmse": np.sqrt(squares),
        "rival_bic": bic,
        "rival_aicc": corrected_akaike(bic, points, free, free),
        "rival_loss_held_out": held_out,
        "rival_loss_held_out_se": held_out_se,
        "rival_residual_autocorrelation": lag_one(residual),
        "rival_long_run_noise": long_run,
        "preferred": choice.chosen,
        "rival_clearly_lowest": choice.clear,
    }


def choose(loss: FloatArray) -> one_standard_error.Choice:
    """Choose a form for each head by held-out loss, (rival, document, head).

    NaN marks a form or document without a loss. The result is −1 where there is no standard error.
    """
    # A form that failed in a document cannot be compared.
    complete = np.isfinite(loss).sum(axis=1) == np.isfinite(loss[0]).sum(axis=0)
    comparable = np.where(complete[:, None], loss, np.nan)
    criterion = np.full(complete.shape, np.nan)
    return one_standard_error.choose(comparable, criterion, np.array([*FREE.values()]))
