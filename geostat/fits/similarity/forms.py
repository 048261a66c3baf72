"""Forms of similarity decay, one table: formula, lmfit Model, parameters and bounds, number of
parameters.

Source: arXiv 2602.01893, Assumption 2.1: the exponential e^{−βk}; the others are its rivals. Every
form is c + (1−c)e^{−b·x(k)} with b = β and x = k (exponential, offset), x = ln(1+k) (power,
offset power), or b = β^s and x = k^s (stretched); the constant has b = ∞. A fit minimises Σ_k
m_k (c̄_k − f(k))², c̄_k the mean cosine at lag k and m_k its number of pairs. Imports numpy, lmfit
and theory's Grams.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import lmfit
import numpy as np

from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.least_squares import LMFIT_KEYWORDS
from theory.head.gram import LagGram
from theory.head.similarity_decay import FREE, by_lag, decaying, distance, offset_exponential
from theory.head.similarity_decay import constant as constant_gram

RATE_MAX: Final = 20.0
"""Bound of b: beyond, neighbours (k = 1) share no similarity that could be told from none."""
OFFSET_MIN, OFFSET_MAX = -1.0, 1.0
"""Bounds of c: the limits of a cosine."""
STRETCH_MIN, STRETCH_MAX = 0.1, 4.0
"""Bounds of s: below, a stretched exponential is all but a constant over any window; above, a
step.
"""

PARAMETERS: Final = ("beta", "offset", "stretch")
ABSENT: Final = {"beta": np.nan, "offset": 0.0, "stretch": 1.0}
"""What a form without the parameter carries: the value that leaves the formula as it is; β of
the constant is undefined.
"""


@dataclass(frozen=True, slots=True)
class Form:
    """One row of the table of forms; free parameters in the order of PARAMETERS."""

    formula: str
    words: str
    parameters: tuple[str, ...]
    model: lmfit.Model

    @property
    def number(self) -> int:
        """How many free parameters: the simpler of two forms has fewer."""
        return len(self.parameters)


def _model(form: str, parameters: tuple[str, ...]) -> lmfit.Model:
    """Return `by_lag` of one form as an lmfit Model, by whose name reports call it."""

    def cosine(
        lag: FloatArray, beta: float = np.nan, offset: float = 0.0, stretch: float = 1.0
    ) -> FloatArray:
        return by_lag(form, lag, beta, offset, stretch)

    name = "with_offset" if form == "offset" else form  # offset is a parameter's name, too
    return lmfit.Model(cosine, independent_vars=["lag"], param_names=list(parameters), name=name)


FORM: Final[dict[str, Form]] = {
    name: Form(formula, words, FREE[name], _model(name, FREE[name]))
    for name, formula, words in (
        ("exponential", r"e^{-\beta k}", "exponential, as printed"),
        ("offset", r"c+(1-c)e^{-\beta k}", "exponential towards a constant"),
        ("constant", "c", "constant"),
        ("power", r"(1+k)^{-\beta}", "power law"),
        ("stretched", r"e^{-(\beta k)^s}", "stretched exponential"),
        ("offset_power", r"c+(1-c)(1+k)^{-\beta}", "power law towards a constant"),
    )
}
"""Forms of similarity, the printed one and its offset first: the coordinate `gram`."""
FORMS: Final = tuple(FORM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Least-squares optima, one for each row: PARAMETERS, absent ones as in ABSENT, and which
    are at a bound or undetermined.
    """

    values: dict[str, FloatArray]
    at_bound: dict[str, BoolArray]
    squares: FloatArray
    converged: BoolArray


def parameters(form: str, start: Solution, row: int) -> lmfit.Parameters:
    """Return lmfit parameters started at a solver's row; one at its bound is held there, for
    lmfit would give it a tiny error.
    """
    limits = {
        "beta": (0.0, np.inf),
        "offset": (OFFSET_MIN, OFFSET_MAX),
        "stretch": (STRETCH_MIN, STRETCH_MAX),
    }
    out = lmfit.Parameters()
    for name in FORM[form].parameters:
        low, high = limits[name]
        out.add(
            name,
            value=float(start.values[name][row]),
            min=low,
            max=high,
            vary=not bool(start.at_bound[name][row]),
        )
    return out


def jacobian(
    form: str, lag: FloatArray, beta: float, offset: float, stretch: float
) -> dict[str, FloatArray]:
    """Return ∂f/∂β, ∂f/∂c and ∂f/∂s at one row's parameters, each of the shape of `lag`; those
    the form has.
    """
    if form == "constant":
        return {"offset": np.ones(lag.shape)}
    s = stretch if form == "stretched" else 1.0
    x = distance(form, lag, s)
    exponent = beta**s * x
    fall = np.exp(-exponent)
    slope = s * beta ** (s - 1.0) * x if beta > 0 else np.where(s == 1.0, x, 0.0)
    amplitude = 1.0 - offset if "offset" in FORM[form].parameters else 1.0
    out = {"beta": -amplitude * slope * fall}
    if "offset" in FORM[form].parameters:
        out["offset"] = 1.0 - fall
    if "stretch" in FORM[form].parameters:
        out["stretch"] = -exponent * np.log(beta * lag) * fall if beta > 0 else np.zeros(lag.shape)
    return out


def keywords(form: str) -> dict[str, Any]:
    """Return how a form's lmfit Model is fitted: to the last digits, with the analytic Jacobian.

    Finite differences would stop 1e-5 short of the optimum where a form fits badly.
    """

    def derivatives(
        parameters: lmfit.Parameters, data: FloatArray, weights: FloatArray, lag: FloatArray
    ) -> FloatArray:
        value = {name: ABSENT[name] for name in PARAMETERS} | parameters.valuesdict()
        columns = jacobian(form, lag, **value)
        free = [name for name, parameter in parameters.items() if parameter.vary]
        return (
            np.stack([-weights * columns[name] for name in free], axis=-1)
            if free
            else np.empty((lag.size, 0))
        )

    return LMFIT_KEYWORDS | {"fit_kws": LMFIT_KEYWORDS["fit_kws"] | {"Dfun": derivatives}}


def fit_row(
    form: str, lag: FloatArray, cosine: FloatArray, pairs: FloatArray, start: Solution, row: int
) -> lmfit.model.ModelResult:
    """Fit one row with lmfit from the solver's optimum; weights are √m_k."""
    known = np.isfinite(cosine)
    return FORM[form].model.fit(
        cosine[known],
        parameters(form, start, row),
        lag=lag[known],
        weights=np.sqrt(pairs[known]),
        **keywords(form),
    )


def fitted_gram(
    form: str, tokens: int, beta: float, offset: float, stretch: float, rho0: float
) -> LagGram:
    """Return the Gram of fitted parameters for windows of up to T `tokens`, feasible or not.

    β ≥ 0, ignored by the constant; at 0 all content tokens point one way. offset and stretch are 0
    and 1 for forms without; `rho0` is the cosine of the sink with every other token, 0 where the
    sink is not visible.
    """
    if form == "constant":
        return constant_gram(offset, rho0, tokens)
    if not beta > 0:
        return LagGram(np.ones(tokens), rho0)
    if form in ("exponential", "offset"):
        return offset_exponential(beta, offset, rho0, tokens)
    kind: Literal["stretched", "power"] = "stretched" if form == "stretched" else "power"
    return decaying(kind, beta, tokens, rho0=rho0, offset=offset, stretch=stretch)
