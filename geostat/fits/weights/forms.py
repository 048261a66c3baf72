"""Four-phase attention profile (sink, plateau, oscillation, growth): log weight as a function of
position, lmfit Models, and their fit at given break points.

Source: arXiv 2602.01893, Assumption 3. Forms: *shared* (as printed: one η for oscillation and
growth), *separate* (η_osc and η_tail), *monotone* (T₁ = T₂: no oscillation). Weights are unitless,
their logarithms in nats. Imports numpy, lmfit and the phases as theory states them.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    """Return log α, nats, of content tokens at positions i behind the sink under Assumption 3; all
    broadcast.

    log p_base is in nats; eta_osc, 0 ≤ η < 1, and eta_tail, nats per token, are one in the printed
    form; ω is in radians per token. T₁ is the last position of the plateau, T₂ the last before the
    growth; where they are equal, eta_osc is not used, and ω may be NaN.
    """
    i = np.asarray(position, dtype=np.float64)
    return log_p_base + np.log1p(oscillation(i, eta_osc, omega, t1, t2)) + growth(i, eta_tail, t2)


CURVE = ("b", "eta_osc", "eta_tail", "omega", "t1", "t2")
"""Parameters that `log_profile` takes, in its order, as `break_points` names them."""


def predict(parameters: Mapping[str, FloatArray], position: FloatArray) -> FloatArray:
    """Return log α of fits, (...) → (..., token)."""
    return log_profile(position, *(parameters[name][..., None] for name in CURVE))


def monotone(position: FloatArray, log_p_base: float, eta: float, t2: float) -> FloatArray:
    """Return log α without oscillation (Assumption 3 with T₁ = T₂)."""
    return log_profile(position, log_p_base, 0.0, eta, np.nan, t2, t2)


def shared(
    position: FloatArray, log_p_base: float, eta: float, omega: float, t1: float, t2: float
) -> FloatArray:
    """Return log α with one η, as printed."""
    return log_profile(position, log_p_base, eta, eta, omega, t1, t2)


def separate(
    position: FloatArray,
    log_p_base: float,
    eta: float,
    eta_tail: float,
    omega: float,
    t1: float,
    t2: float,
) -> FloatArray:
    """Return log α with η for the oscillation and η_tail for the growth."""
    return log_profile(position, log_p_base, eta, eta_tail, omega, t1, t2)


MODELS = {
    f.__name__: lmfit.Model(f, independent_vars=["position"]) for f in (monotone, shared, separate)
}


def bounds(
    form: str, start: dict[str, float], last: int
) -> dict[str, tuple[float, float, float, bool]]:
    """Return (value, lowest, highest, free) of each lmfit parameter; break points, and a parameter
    at its bound, are held.

    `start` is one row of `search`'s result, `last` the position of the last token; a growth that
    would begin there has no slope.
    """
    t1, t2 = start["t1"], start["t2"]
    slope = "eta_tail" if form == "monotone" else "eta_osc"
    highest = np.inf if form == "monotone" else ETA_MAX
    table = {
        "log_p_base": (start["b"], -np.inf, np.inf, True),
        "eta": (start[slope], 0.0, highest, 0.0 < start[slope] < highest),
    }
    if form == "separate":
        table["eta_tail"] = (start["eta_tail"], 0.0, np.inf, start["eta_tail"] > 0.0 and t2 < last)
    if form != "monotone":
        slowest = 2.0 * np.pi / (t2 - t1)
        inside = (
            slowest * (1 + 1e-9) < start["omega"] < np.pi * (1 - 1e-9) and start["eta_osc"] > 0.0
        )
        table |= {
            "omega": (start["omega"], slowest, np.pi, inside),
            "t1": (t1, -np.inf, np.inf, False),
        }
    return table | {"t2": (t2, -np.inf, np.inf, False)}


def derivatives(
    parameters: lmfit.Parameters, data: FloatArray, weights: None, position: FloatArray
) -> FloatArray:
    """Return the Jacobian of lmfit's residual, data − model, in the free parameters.

    Finite differences would stop short of the optimum: a step in ω grows a thousandfold towards the
    last token.
    """
    value = parameters.valuesdict()
    t1, t2, eta, omega = (
        value.get("t1", value["t2"]),
        value["t2"],
        value["eta"],
        value.get("omega", 0.0),
    )
    wave, tail = (position > t1) & (position <= t2), np.maximum(position - t2, 0.0)
    level = 1.0 + eta * np.cos(omega * position)
    swing = np.where(wave, np.cos(omega * position) / level, 0.0)
    column = {
        "log_p_base": np.ones(position.size),
        "eta": swing if "eta_tail" in value else swing + tail,
        "eta_tail": tail,
        "omega": np.where(wave, -eta * position * np.sin(omega * position) / level, 0.0),
    }
    return -np.stack(
        [column[name] for name, parameter in parameters.items() if parameter.vary], axis=-1
    )


KEYWORDS = LMFIT_KEYWORDS | {"fit_kws": LMFIT_KEYWORDS["fit_kws"] | {"Dfun": derivatives}}


def fit_row(
    form: str, position: FloatArray, log_weight: FloatArray, start: dict[str, float]
) -> lmfit.model.ModelResult:
    """Fit one log profile with lmfit from the search's optimum; T₁ and T₂ are held where the
    search put them.
    """
    parameters = lmfit.Parameters()
    for name, (value, low, high, free) in bounds(form, start, int(position[-1])).items():
        parameters.add(name, value=float(value), min=low, max=high, vary=bool(free))
    known = np.isfinite(log_weight)
    return MODELS[form].fit(log_weight[known], parameters, position=position[known], **KEYWORDS)


LMFIT_NAMES = {"p_base": "log_p_base", "eta": "eta", "eta_tail": "eta_tail", "omega": "omega"}
"""What lmfit calls a parameter of /weights."""


def refine(
    best: dict[str, FloatArray], position: FloatArray, mean: FloatArray
) -> tuple[dict[str, BoolArray], dict[str, FloatArray]]:
    """Put lmfit's optimum in place of the search's, in `best`, (form, head), for the `mean` log
    weight, (head, token).

    Returns:
        Which parameters are at a bound, and lmfit's own standard errors (tokens taken as
        independent), by name, shape (form, head).
    """
    shape = best["b"].shape
    at_bound = {name: np.zeros(shape, dtype=bool) for name in ("eta", "eta_tail", "omega")}
    error = {name: np.full(shape, np.nan) for name in LMFIT_NAMES}
    for k, form in enumerate(FORMS):
        for head in np.flatnonzero(np.isfinite(best["b"][k])):
            start = {name: float(rows[k, head]) for name, rows in best.items()}
            result = fit_row(form, position, mean[head], start)
            value = result.params.valuesdict()
            best["b"][k, head] = value["log_p_base"]
            best["eta_tail"][k, head] = value.get("eta_tail", value["eta"])
            if form != "monotone":
                best["eta_osc"][k, head], best["omega"][k, head] = value["eta"], value["omega"]
                at_bound["omega"][k, head] = not result.params["omega"].vary
            for name in ("eta", "eta_tail"):
                at_bound[name][k, head] = not result.params[name if name in value else "eta"].vary
            for name, source in LMFIT_NAMES.items():
                own = result.params.get(
                    source, result.params["eta"] if name == "eta_tail" else None
                )
                if own is not None and own.vary and own.stderr is not None:
                    error[name][k, head] = own.stderr
            best["converged"][k, head] = float(result.success and start["converged"] == 1.0)
    error["p_base"] *= np.exp(best["b"])
    return at_bound, error
