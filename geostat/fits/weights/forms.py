"""Four-phase attention profile (sink, plateau, oscillation, growth): log weight as a function of
position, lmfit Models, and their fit at given break points.

Source: arXiv 2602.01893, Assumption 3. Forms: *shared* (as printed: one η for oscillation and
growth), *separate* (η_osc and η_tail), *monotone* (T₁ = T₂: no oscillation). Weights are unitless,
their logarithms in nats. Imports numpy, lmfit and theory's phases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import lmfit
import numpy as np

from geostat.fits.weights.break_point_kernels import ETA_MAX
from geostat.fits.weights.break_points import FORMS
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.least_squares import LMFIT_KEYWORDS
from theory.head.attention_profile import growth, oscillation


def log_profile(
    position: FloatArray,
    log_p_base: FloatArray | float,
    eta_osc: FloatArray | float,
    eta_tail: FloatArray | float,
    omega: FloatArray | float,
    t1: FloatArray | float,
    t2: FloatArray | float,
) -> FloatArray:
    """Return log α, in nats, of content tokens under Assumption 3; the arguments broadcast.

    Args:
        position: positions i of content tokens.
        log_p_base: log p_base, nats.
        eta_osc: amplitude of the oscillation, 0 ≤ η < 1; not used where T₁ = T₂.
        eta_tail: growth rate, nats per token; equal to eta_osc in the printed form.
        omega: frequency, radians per token; may be NaN where T₁ = T₂.
        t1: last position of the plateau.
        t2: last position before the growth.
    """
    i = np.asarray(position, dtype=np.float64)
    return log_p_base + np.log1p(oscillation(i, eta_osc, omega, t1, t2)) + growth(i, eta_tail, t2)


CURVE = ("b", "eta_osc", "eta_tail", "omega", "t1", "t2")
"""Parameters of `log_profile`, in its order, as `break_points` names them."""


def predict(parameters: Mapping[str, FloatArray], position: FloatArray) -> FloatArray:
    """Return log α of fits, (...) → (..., token)."""
    return log_profile(position, *(parameters[name][..., None] for name in CURVE))


_BREAKS: Final = {"t1": ("t1",), "t2": ("t2",)}
PARAMETERS_OF: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "monotone": {"log_p_base": ("b",), "eta": ("eta_tail",), "t2": ("t1", "t2")},
    "shared": {
        "log_p_base": ("b",),
        "eta": ("eta_osc", "eta_tail"),
        "omega": ("omega",),
        **_BREAKS,
    },
    "separate": {
        "log_p_base": ("b",),
        "eta": ("eta_osc",),
        "eta_tail": ("eta_tail",),
        "omega": ("omega",),
        **_BREAKS,
    },
}
"""Parameters of each form's lmfit Model, and those of CURVE that each one sets."""


def _curve(form: str, values: Mapping[str, float]) -> dict[str, float]:
    """Return the parameters of CURVE from those of a form; without oscillation η is 0 and ω NaN."""
    return {"eta_osc": 0.0, "omega": np.nan} | {
        name: values[source] for source, names in PARAMETERS_OF[form].items() for name in names
    }


def _lmfit_model(form: str) -> lmfit.Model:
    """Return `log_profile` of one form as an lmfit Model."""

    def log_weight(
        position: FloatArray,
        log_p_base: float,
        eta: float,
        t2: float,
        eta_tail: float = np.nan,
        omega: float = np.nan,
        t1: float = np.nan,
    ) -> FloatArray:
        names = ("log_p_base", "eta", "t2", "eta_tail", "omega", "t1")
        values = dict(zip(names, (log_p_base, eta, t2, eta_tail, omega, t1), strict=True))
        curve = _curve(form, values)
        return log_profile(position, *(curve[name] for name in CURVE))

    return lmfit.Model(log_weight, ["position"], list(PARAMETERS_OF[form]), name=form)


MODELS: Final = {form: _lmfit_model(form) for form in FORMS}
"""lmfit Model of each form."""


def lmfit_parameters(form: str, start: Mapping[str, float], last: float) -> lmfit.Parameters:
    """Return lmfit parameters that start at one row of the result of `search`.

    Break points and parameters at a bound are fixed. `last` is the position of the last token; a
    growth phase that starts there has no slope.
    """
    out = lmfit.Parameters()
    out.add("log_p_base", start["b"])
    slope = start["eta_tail" if form == "monotone" else "eta_osc"]
    highest = np.inf if form == "monotone" else ETA_MAX
    out.add("eta", slope, bool(0.0 < slope < highest), 0.0, highest)
    if form == "separate":
        free = start["eta_tail"] > 0.0 and start["t2"] < last
        out.add("eta_tail", start["eta_tail"], bool(free), 0.0)
    if form != "monotone":
        slowest, omega = 2.0 * np.pi / (start["t2"] - start["t1"]), start["omega"]
        inside = slowest * (1 + 1e-9) < omega < np.pi * (1 - 1e-9) and slope > 0.0
        out.add("omega", omega, bool(inside), slowest, np.pi)
        out.add("t1", start["t1"], vary=False)
    out.add("t2", start["t2"], vary=False)
    return out


def derivatives(
    form: str, curve: Mapping[str, FloatArray | float], position: FloatArray
) -> dict[str, FloatArray]:
    """Return ∂ log α of a form by parameter (log p_base, slopes, ω); the arguments broadcast.

    `curve` holds the parameters of CURVE. A parameter that sets several of them has the sum of
    their derivatives.
    """
    eta, omega = curve["eta_osc"], np.nan_to_num(curve["omega"])
    wave = (position > curve["t1"]) & (position <= curve["t2"])
    level = 1.0 + eta * np.cos(omega * position)
    column = {
        "b": np.ones(level.shape),
        "eta_osc": np.where(wave, np.cos(omega * position) / level, 0.0),
        "eta_tail": np.maximum(position - curve["t2"], 0.0),
        "omega": np.where(wave, -eta * position * np.sin(omega * position) / level, 0.0),
    }
    return {
        name: np.asarray(sum(column[part] for part in parts))
        for name, parts in PARAMETERS_OF[form].items()
        if name not in _BREAKS
    }


def lmfit_keywords(form: str) -> dict[str, Any]:
    """Return the fit keywords of a form's lmfit Model, with the analytic Jacobian.

    Finite differences would stop short of the optimum: the effect of a step in ω grows a
    thousandfold towards the last token.
    """

    def jacobian(
        parameters: lmfit.Parameters, data: FloatArray, weights: None, position: FloatArray
    ) -> FloatArray:
        columns = derivatives(form, _curve(form, parameters.valuesdict()), position)
        free = [column for name, column in columns.items() if parameters[name].vary]
        return -np.stack(free, axis=-1)

    return LMFIT_KEYWORDS | {"fit_kws": LMFIT_KEYWORDS["fit_kws"] | {"Dfun": jacobian}}


def fit_row(
    form: str, position: FloatArray, log_weight: FloatArray, start: Mapping[str, float]
) -> lmfit.model.ModelResult:
    """Fit one log profile with lmfit from the search's optimum, with T₁ and T₂ fixed."""
    known, parameters = np.isfinite(log_weight), lmfit_parameters(form, start, position[-1])
    return MODELS[form].fit(
        log_weight[known], parameters, position=position[known], **lmfit_keywords(form)
    )


def refine(
    best: dict[str, FloatArray], position: FloatArray, mean: FloatArray
) -> tuple[dict[str, BoolArray], dict[str, FloatArray]]:
    """Replace the search's optimum in `best`, (form, head), by lmfit's.

    `mean` is the mean log weight, (head, token).

    Returns:
        Parameters at a bound, and lmfit's standard errors (which treat tokens as independent), by
        name, (form, head).
    """
    shape = best["b"].shape
    at_bound = {name: np.zeros(shape, dtype=bool) for name in ("eta", "eta_tail", "omega")}
    error = {name: np.full(shape, np.nan) for name in ("p_base", *at_bound)}
    for index in zip(*np.nonzero(np.isfinite(best["b"])), strict=True):
        form = FORMS[index[0]]
        start = {name: float(rows[index]) for name, rows in best.items()}
        result = fit_row(form, position, mean[index[1]], start)
        best["converged"][index] = float(result.success and start["converged"] == 1.0)
        for name, value in _curve(form, result.params.valuesdict()).items():
            best[name][index] = value
        fitted = dict(result.params)
        fitted |= {
            "p_base": fitted["log_p_base"],
            "eta_tail": fitted.get("eta_tail", fitted["eta"]),
        }
        for name in error.keys() & fitted.keys():
            if name in at_bound:
                at_bound[name][index] = not fitted[name].vary
            if fitted[name].vary and fitted[name].stderr is not None:
                error[name][index] = fitted[name].stderr
    error["p_base"] *= np.exp(best["b"])
    return at_bound, error
