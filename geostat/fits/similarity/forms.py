"""Forms of similarity decay: parameters, solvers, lmfit Models, and Grams of fitted forms.

Source: arXiv 2602.01893, Assumption 2.1: the exponential e^{−βk}; the other forms are its rivals.
Every form but the constant c is c + (1−c)e^{−bx}. The exponential and offset forms have b = β and x
= k; the power forms b = β and x = ln(1+k); the stretched form b = β^s and x = k^s. A fit minimises
Σ_k m_k (c̄_k − f(k))², c̄_k the mean cosine at lag k and m_k its number of pairs. A new rival is
one row of FORM.

Feasibility (Assumption 2, erratum 9): with q = 1ᵀP⁻¹1, P the Gram of the decay over L content
tokens, cosines c + (1−c)·decay admit |ρ₀| ≤ √(c + (1−c)/q). q has a closed form for e^{−βk} and for
no decay. Otherwise Durbin's recursion (1960) factorises P, a Toeplitz matrix, and shows whether it
is positive definite. Imports numpy, lmfit and theory's Grams.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import lmfit
import numpy as np

from geostat.fits.similarity.solver import (
    OFFSET_MAX,
    OFFSET_MIN,
    STRETCH_MAX,
    STRETCH_MIN,
    Rows,
    Solution,
    Solver,
    fit_constant,
    fit_rate,
    fit_stretched,
)
from geostat.statistics.arrays import FloatArray
from geostat.statistics.least_squares import LMFIT_KEYWORDS
from theory.head.gram import LagGram, constant, decaying

CHUNK = 2**18
"""Numbers (rows × lags) processed at once: 2 MB per array, which fits in a cache."""
RESOLVED = 1e-9
"""Smallest relative prediction error that Durbin's recursion resolves in double precision.

Smaller ones are decided by eigenvalues.
"""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the forms: lmfit's bounds, value in forms without it, name in sentences, and
    the bounds in words and as LaTeX.
    """

    low: float
    high: float
    absent: float
    called: str
    bound: str
    bound_symbol: str


PARAMETER: Final = {
    "beta": Parameter(
        0.0, np.inf, np.nan, "beta", "at a bound (0, or 20 at lag 1)", r"\beta \in \{0, 20\}"
    ),
    "offset": Parameter(
        OFFSET_MIN,
        OFFSET_MAX,
        0.0,
        "the offset",
        "at a bound (-1 or 1) or undetermined (beta = 0)",
        r"c \in \{-1, 1\}",
    ),
    "stretch": Parameter(
        STRETCH_MIN,
        STRETCH_MAX,
        1.0,
        "the stretch",
        "at a bound (0.1 or 4) or undetermined",
        r"s \in \{0.1, 4\}",
    ),
}
"""Parameters of the forms; `variables` has their records."""
PARAMETERS: Final = tuple(PARAMETER)
ABSENT: Final = {name: parameter.absent for name, parameter in PARAMETER.items()}
"""Value of a parameter in forms without it, neutral in the formula.

β of the constant is undefined.
"""


def _lag(lag: FloatArray, stretch: FloatArray | float) -> FloatArray:
    return lag


def _log_lag(lag: FloatArray, stretch: FloatArray | float) -> FloatArray:
    return np.asarray(np.log1p(lag))


def _stretched_lag(lag: FloatArray, stretch: FloatArray | float) -> FloatArray:
    return np.asarray(lag ** np.asarray(stretch))


@dataclass(frozen=True, slots=True)
class Form:
    """One row of the table of forms.

    `label` names it in figures, `formula` in tables; `parameters` are free, in the order of
    PARAMETERS; `x` is the function of lag and stretch along which the form decays exponentially;
    `gram` names theory's decay with the same Gram, if any; `solver` fits forms with more than a
    rate along x and an offset.
    """

    label: str
    formula: str
    parameters: tuple[str, ...]
    x: Callable[[FloatArray, FloatArray | float], FloatArray] = _lag
    gram: Literal["exponential", "stretched", "power"] | None = None
    solver: Solver | None = None

    @property
    def number(self) -> int:
        """Number of free parameters; the simpler of two forms has fewer."""
        return len(self.parameters)

    def has(self, name: str) -> bool:
        """Return whether a parameter is free."""
        return name in self.parameters

    def decay(
        self, lag: FloatArray, beta: FloatArray | float, stretch: FloatArray | float
    ) -> FloatArray:
        """Return e^{−bx} at each lag."""
        rate = np.asarray(beta) ** (stretch if self.has("stretch") else 1.0)
        return np.asarray(np.exp(-rate * self.x(lag, stretch)))

    def solve(self, lag: FloatArray, rows: Rows) -> Solution:
        """Fit rows with at least as many known lags as the form has parameters."""
        if self.solver is not None:
            return self.solver(lag, rows)
        return fit_rate(self.x(lag, 1.0), rows, self.has("offset"))


FORM: Final[dict[str, Form]] = {
    "exponential": Form(
        "exponential, printed", r"$e^{-\beta k}$, as printed", ("beta",), gram="exponential"
    ),
    "offset": Form(
        "exponential with an offset",
        r"$c + (1-c) e^{-\beta k}$",
        ("beta", "offset"),
        gram="exponential",
    ),
    "constant": Form("constant", "$c$", ("offset",), solver=fit_constant),
    "power": Form("power", r"$(1+k)^{-\beta}$", ("beta",), _log_lag, "power"),
    "stretched": Form(
        "stretched exponential",
        r"$e^{-(\beta k)^s}$",
        ("beta", "stretch"),
        _stretched_lag,
        "stretched",
        fit_stretched,
    ),
    "offset_power": Form(
        "power with an offset", r"$c + (1-c)(1+k)^{-\beta}$", ("beta", "offset"), _log_lag, "power"
    ),
}
"""Forms of similarity, the printed one first, then its offset: the coordinate `gram`."""
FORMS: Final = tuple(FORM)


def by_lag(
    form: str,
    lag: FloatArray,
    beta: FloatArray | float = np.nan,
    offset: FloatArray | float = 0.0,
    stretch: FloatArray | float = 1.0,
) -> FloatArray:
    """Return the cosine of a form at each lag k ≥ 1, in tokens; the arguments broadcast.

    β ≥ 0 is per token (power forms: unitless); parameters that the form lacks are ignored.

    >>> by_lag("offset", np.array([1.0, 100.0]), beta=np.log(2), offset=0.2)
    array([0.6, 0.2])
    """
    row = FORM[form]
    if not row.has("beta"):
        return np.asarray(offset) + 0.0 * lag
    decay = row.decay(lag, beta, stretch)
    if not row.has("offset"):
        return decay
    return np.asarray(np.asarray(offset) + (1.0 - np.asarray(offset)) * decay)


def solve(form: str, lag: FloatArray, cosine: FloatArray, pairs: FloatArray) -> Solution:
    """Fit many rows of c̄_k, (row, lag), NaN where unknown, at lags k ≥ 1 with m_k `pairs`, (lag,).

    The solution has shape (row,), with absent parameters as in ABSENT; NaN and not converged where
    a row knows fewer lags than the form has parameters.
    """
    rows, known = cosine.shape[0], np.isfinite(cosine)
    usable = known.sum(axis=-1) >= FORM[form].number
    out = Solution(
        values={name: np.where(usable, value, np.nan) for name, value in ABSENT.items()},
        at_bound={name: np.zeros(rows, dtype=bool) for name in PARAMETERS},
        squares=np.full(rows, np.nan),
        converged=np.zeros(rows, dtype=bool),
    )
    step = max(CHUNK // max(lag.size, 1), 1)
    for start in range(0, int(usable.sum()), step):
        index = np.flatnonzero(usable)[start : start + step]
        part = Rows(np.where(known[index], 1.0 - cosine[index], 0.0), known[index] * pairs)
        solution = FORM[form].solve(lag, part)
        for name, values in solution.values.items():
            out.values[name][index], out.at_bound[name][index] = values, solution.at_bound[name]
        out.squares[index], out.converged[index] = solution.squares, solution.converged
    return out


def _lmfit_model(form: str) -> lmfit.Model:
    """Return `by_lag` of one form as an lmfit Model, named after the form in reports."""

    def cosine(
        lag: FloatArray, beta: float = np.nan, offset: float = 0.0, stretch: float = 1.0
    ) -> FloatArray:
        return by_lag(form, lag, beta, offset, stretch)

    name = "with_offset" if form == "offset" else form  # a parameter is named offset
    names = list(FORM[form].parameters)
    return lmfit.Model(cosine, independent_vars=["lag"], param_names=names, name=name)


MODEL: Final = {form: _lmfit_model(form) for form in FORMS}
"""lmfit Model of each form."""


def lmfit_parameters(form: str, start: Solution, row: int) -> lmfit.Parameters:
    """Return lmfit parameters that start at a row of a solution.

    A parameter at its bound is fixed, because lmfit would give it a tiny error.
    """
    out = lmfit.Parameters()
    for name in FORM[form].parameters:
        out.add(
            name,
            value=float(start.values[name][row]),
            min=PARAMETER[name].low,
            max=PARAMETER[name].high,
            vary=not bool(start.at_bound[name][row]),
        )
    return out


def free_parameters(form: str, optimum: Solution, row: int) -> list[str]:
    """Return the names of a row's parameters that are not at a bound."""
    return [name for name in FORM[form].parameters if not optimum.at_bound[name][row]]


def jacobian(
    form: str, lag: FloatArray, beta: float, offset: float, stretch: float
) -> dict[str, FloatArray]:
    """Return ∂f/∂β, ∂f/∂c and ∂f/∂s at one row's parameters, (lag,), for the form's parameters."""
    row = FORM[form]
    if not row.has("beta"):
        return {"offset": np.ones(lag.shape)}
    s = stretch if row.has("stretch") else 1.0
    x = row.x(lag, s)
    exponent = beta**s * x
    fall = np.exp(-exponent)
    slope = s * beta ** (s - 1.0) * x if beta > 0 else np.where(s == 1.0, x, 0.0)
    amplitude = 1.0 - offset if row.has("offset") else 1.0
    out = {"beta": -amplitude * slope * fall}
    if row.has("offset"):
        out["offset"] = 1.0 - fall
    if row.has("stretch"):
        out["stretch"] = -exponent * np.log(beta * lag) * fall if beta > 0 else np.zeros(lag.shape)
    return out


def covariance(
    form: str, lag: FloatArray, cosine: FloatArray, pairs: FloatArray, optimum: Solution, row: int
) -> FloatArray | None:
    """Return the covariance of a row's free parameters at its optimum, by lmfit's formula.

    It treats lags as independent. None if no parameter is free or the covariance is singular.
    """
    known = np.isfinite(cosine)
    values = {name: float(optimum.values[name][row]) for name in PARAMETERS}
    columns = jacobian(form, lag[known], **values)
    free = [columns[name] for name in free_parameters(form, optimum, row)]
    if not free:
        return None
    slopes = np.sqrt(pairs[known])[:, None] * np.stack(free, axis=-1)
    try:
        inverse = np.linalg.inv(slopes.T @ slopes)
    except np.linalg.LinAlgError:
        return None
    return np.asarray(inverse * optimum.squares[row] / max(1, known.sum() - len(free)))


def lmfit_keywords(form: str) -> dict[str, Any]:
    """Return the fit keywords of a form's lmfit Model, with the analytic Jacobian.

    Finite differences would stop 1e-5 short of the optimum where a form fits badly.
    """

    def derivatives(
        parameters: lmfit.Parameters, data: FloatArray, weights: FloatArray, lag: FloatArray
    ) -> FloatArray:
        columns = jacobian(form, lag, **(ABSENT | parameters.valuesdict()))
        free = [name for name, parameter in parameters.items() if parameter.vary]
        if not free:
            return np.empty((lag.size, 0))
        return np.stack([-weights * columns[name] for name in free], axis=-1)

    return LMFIT_KEYWORDS | {"fit_kws": LMFIT_KEYWORDS["fit_kws"] | {"Dfun": derivatives}}


def fit_row(
    form: str, lag: FloatArray, cosine: FloatArray, pairs: FloatArray, start: Solution, row: int
) -> lmfit.model.ModelResult:
    """Fit one row with lmfit from the solver's optimum, with weights √m_k."""
    known = np.isfinite(cosine)
    return MODEL[form].fit(
        cosine[known],
        lmfit_parameters(form, start, row),
        lag=lag[known],
        weights=np.sqrt(pairs[known]),
        **lmfit_keywords(form),
    )


def fitted_gram(
    form: str, tokens: int, beta: float, offset: float, stretch: float, rho0: float
) -> LagGram:
    """Return the Gram of fitted parameters for windows of up to `tokens` tokens, feasible or not.

    offset and stretch are 0 and 1 for forms without them; at β = 0 all content tokens are parallel.
    `rho0` is the cosine of the sink with every other token, 0 where the sink is not visible.
    """
    row = FORM[form]
    if not row.has("beta"):
        return constant(offset, rho0, tokens)
    if not beta > 0:
        return LagGram(np.ones(tokens), rho0)
    if row.gram is not None:
        return decaying(row.gram, beta, tokens, rho0=rho0, offset=offset, stretch=stretch)
    cosines = by_lag(form, np.arange(1.0, tokens), beta, offset, stretch)
    return LagGram(np.concatenate([[1.0], cosines]), rho0)


def feasible_edges(
    form: str, beta: FloatArray, offset: FloatArray, stretch: FloatArray, content: int
) -> FloatArray:
    """Return the largest |ρ₀| for which each fitted Gram over `content` tokens is PSD, (row,).

    NaN where a row was not fitted (c or s NaN, or β of a form that has one), where content = 0, and
    where the Gram of the content tokens is not PSD.
    """
    spec, edge = FORM[form], np.full(offset.shape, np.nan)
    fitted = np.isfinite(offset) & np.isfinite(stretch)
    fitted &= np.isfinite(beta) | (not spec.has("beta"))
    if content < 1 or not fitted.any():
        return edge
    rows = np.flatnonzero(fitted)
    if spec.has("beta") and spec.gram != "exponential":
        lag = np.arange(1.0, content)
        load, error = _durbin(spec.decay(lag, beta[rows, None], stretch[rows, None]))
        resolved = error > RESOLVED
        square = offset[rows] + (1.0 - offset[rows]) / np.where(resolved, load, 1.0)
        edge[rows] = np.where(square >= 0, np.sqrt(np.clip(square, 0.0, 1.0)), np.nan)
        rows = rows[~resolved]
    for row in rows:
        b, c, s = (float(parameter[row]) for parameter in (beta, offset, stretch))
        edge[row] = fitted_gram(form, content, b, c, s, 0.0).edge(content)
    return edge


def _durbin(cosine: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return q = 1ᵀP⁻¹1 and the smallest one-step prediction error of Toeplitz matrices P.

    The first rows of P are 1 and `cosine`. P⁻¹ = Σ_n a_n a_nᵀ/σ_n², a_n the filter that predicts
    token n from the tokens before it and σ_n² its error; P is positive definite where every σ_n² is
    positive.
    """
    rows, lags = cosine.shape
    reverse = cosine[:, ::-1]
    filters = np.zeros((rows, lags))
    error, smallest, load = np.ones(rows), np.ones(rows), np.ones(rows)
    for n in range(lags):
        known = filters[:, :n]
        residual = cosine[:, n] - (known * reverse[:, lags - n :]).sum(axis=-1)
        reflection = np.divide(residual, error, out=np.zeros(rows), where=error > RESOLVED)
        filters[:, :n] = known - reflection[:, None] * known[:, ::-1]
        filters[:, n] = reflection
        error = error * (1.0 - reflection**2)
        smallest = np.minimum(smallest, error)
        load += np.divide(
            (1.0 - filters[:, : n + 1].sum(axis=-1)) ** 2,
            error,
            out=np.zeros(rows),
            where=error > RESOLVED,
        )
    return load, smallest
