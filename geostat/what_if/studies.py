"""What-if studies as labelled datasets: bounds over a grid, target values and elasticities.

Source: arXiv 2602.01893, eq. (8), (12)-(17), Table 1; `theory.what_if` evaluates. Base values are
examples, given values, or the fits of one head of a run (`geostat.what_if.answer`). Imports numpy,
xarray and theory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.errors import refuse_unknown
from theory.head.gram import LagGram
from theory.head.results import EDITIONS, Edition
from theory.what_if.crossing import Crossing, find_crossing
from theory.what_if.elasticity import study_elasticities
from theory.what_if.given_gram import measured_gram
from theory.what_if.parameters import BOUNDS, LOWER, PARAMETERS, Decay
from theory.what_if.study import Question, study

Cosines = np.ndarray | LagGram
"""A given Gram: (T, T) cosines with the sink first, or cosines at lags 0, 1, … with or without
ρ₀.
"""

SUBJECTS: Final = {
    "precision": ("E P(r_max)", r"\mathbb{E}\,P(r_{\max})", "(12), (13)"),
    "recall": ("E R(r_min)", r"\mathbb{E}\,R(r_{\min})", "(14), (15)"),
    "f_outer": ("E F(r_max)", r"\mathbb{E}\,F(r_{\max})", "(17)"),
    "f_inner": ("E F(r_min)", r"\mathbb{E}\,F(r_{\min})", "(16)"),
}
MARGINS: Final = {
    "margin": ("margin Δ", r"\Delta", "(8)"),
    "margin_sink": ("margin Δ₀ of the sink", r"\Delta_0", "(8), (29)"),
}
FLAGS: Final = {
    "feasible": "the Gram is positive semidefinite",
    "projected": "ρ₀ was moved to its feasible edge",
    "projection_distance": "|Δρ₀|",
    "reliable": "the evaluation is numerically reliable",
}
FLAGS_OF_GIVEN_GRAM: Final = {
    "projected": "the Gram was projected to the nearest feasible one",
    "projection_distance": "Frobenius norm of the Gram's change, or |Δρ₀| if only ρ₀ was moved",
}
NO_UNIT: Final = {"units": ""}
_BOTH, _TABLE_1 = ("parameter", "bound"), {"units": "1", "equation": "Table 1"}
ELASTICITY: Final[dict[str, tuple[Any, dict[str, str]]]] = {
    "elasticity": (_BOTH, {"long_name": "d log bound / d log parameter"} | _TABLE_1),
    "slope": (_BOTH, {"long_name": "d bound / d log parameter"} | _TABLE_1),
    "reason": (_BOTH, {"long_name": "why a response is not available"} | NO_UNIT),
    "value": (
        "parameter",
        {"long_name": "value of the parameter", "units": "unit of the parameter"},
    ),
    "step": (
        "parameter",
        {"long_name": "derivative, or difference between neighbours"} | NO_UNIT,
    ),
    "at": ("bound", {"long_name": "bound at the point", "units": "1"}),
    "parameter": ("parameter", {"long_name": "parameter that moves"} | NO_UNIT),
    "bound": ("bound", {"long_name": "bound that responds"} | NO_UNIT),
}
"""Variables of elasticities: dims and attributes."""


def whatif(
    axes: Mapping[str, Sequence[float | str] | np.ndarray] | None = None,
    *,
    edition: Edition = "sharp",
    gram: Decay | Cosines = "exponential",
    bounds: Sequence[str] = LOWER,
    base: Mapping[str, float | str] | None = None,
    project: bool = False,
    **parameters: float | str | Sequence[float | str],
) -> xr.Dataset:
    """Evaluate bounds over a grid of parameters.

    Args:
        axes: values of the varying parameters by name (N, L, d, kappa, beta, rho0, c, stretch,
            c1, cinf, gamma, lam, p_sink, p_base, eta, growth, omega, T1, T2, C), in the order of
            the dataset's dimensions. T1 and T2 may be shares of L, such as "0.3L"; defaults are
            "0.5L" and "0.9L".
        edition: "printed", "repaired", "sharp", …
        gram: form of the similarity, "exponential", "offset", "stretched", "power" or "rank"
            (`theory.rank_coherence`); or a given Gram: a (T, T) array of cosines with the sink
            first, a 1-d array of cosines at lags 0, 1, …, T − 2 (with rho0 to the sink), or a
            `theory.LagGram`. L is then T − 1.
        bounds: names of bounds, such as "recall_lower"; the four lower bounds by default.
        base: values of fixed parameters, such as the result of `geostat.what_if.answer.from_head`;
            other parameters have example values.
        project: whether to project a Gram that is not positive semidefinite: ρ₀ moves to its
            feasible edge, or a given Gram to the nearest feasible one. `projected` and
            `projection_distance` record it. By default the point is NaN, or the given Gram refused.
        parameters: further parameters by name: one value is fixed, several vary.

    Returns:
        Dataset over the axes: the bounds, `feasible` (whether the Gram is positive semidefinite;
        bounds are NaN otherwise) and the margins Δ and Δ₀ of eq. (8), in units of squared value
        norm. Attributes hold the fixed values.

    Raises:
        InputError: for an unknown name, an invalid value, profile or Gram, or a grid that exceeds
            memory.

    >>> study = whatif(N=[2, 4, 8], L=64, edition="sharp")
    >>> study["precision_lower"].values.round(3).tolist()
    [0.133, 0.502, 0.831]
    """
    varying: dict[str, Any] = dict(axes or {})
    varying |= {name: value for name, value in parameters.items() if np.ndim(value)}
    known = dict(base or {}) | parameters
    constant = {name: value for name, value in known.items() if name not in varying}
    question, fixed = question_of(gram, constant, edition=edition, bounds=bounds, project=project)
    result = study(varying, fixed, question)
    bounds_first = sorted(result.values.items(), key=lambda item: item[0] not in bounds)
    values = {name: (dims, array, _meaning(name, question)) for name, (dims, array) in bounds_first}
    coords = {
        name: (name, *_coordinate(name, axis, share=name in result.shares))
        for name, axis in result.axes.items()
    }
    dataset = xr.Dataset(values, coords=coords)
    dataset.attrs = describe(question, result.fixed)
    return dataset


def question_of(
    gram: Decay | Cosines,
    fixed: Mapping[str, Any],
    *,
    edition: Edition,
    bounds: Sequence[str],
    project: bool,
) -> tuple[Question, dict[str, Any]]:
    """Return the question for a Gram and the fixed parameters.

    The ρ₀ of a lag profile becomes part of its Gram.

    Raises:
        InputError: for an invalid Gram.
    """
    parameters, ask = dict(fixed), partial(Question, edition=edition, bounds=tuple(bounds))
    if isinstance(gram, str):
        return ask(decay=gram, project=project), parameters
    rho0 = 0.0
    if not isinstance(gram, LagGram) and np.ndim(gram) == 1:
        cosine = PARAMETERS["rho0"]
        rho0 = float(cosine.read(parameters.pop("rho0", cosine.default))[0][0])
    measured = measured_gram(gram, rho0=rho0, projected=project)
    return ask(decay="measured", measured=measured, project=project), parameters


def describe(question: Question, fixed: Mapping[str, float | str]) -> dict[str, Any]:
    """Return the attributes of a study's dataset."""
    attributes: dict[str, Any] = {
        "edition": question.edition,
        "gram": question.decay,
        "kind": EDITIONS[question.edition].kind,
    }
    if (measured := question.measured) is not None:
        attributes |= {"projection": measured.kind, "projection_distance": measured.distance}
    return attributes | {f"fixed_{name}": value for name, value in fixed.items()}


def find_value(
    parameter: str,
    target: float,
    *,
    bound: str = "recall_lower",
    edition: Edition = "sharp",
    gram: Decay | Cosines = "exponential",
    base: Mapping[str, float | str] | None = None,
    between: tuple[float, float] | None = None,
    project: bool = False,
) -> Crossing:
    """Return the parameter value at which a bound reaches a target.

    For N it is the largest size up to which the bound stays at the target, otherwise the smallest
    value; see `theory.what_if.crossing.find_crossing`.

    >>> print(find_value("N", 0.5, base={"L": 64.0}))
    largest N up to which recall_lower stays >= 0.5: 2 (there it is 0.5)
    """
    refuse_unknown(bound, BOUNDS, f"{bound!r} is not a bound", verb="Use")
    question, fixed = question_of(
        gram, base or {}, edition=edition, bounds=(bound,), project=project
    )
    return find_crossing(parameter, target, fixed, question, between=between)


def _coordinate(name: str, values: np.ndarray, *, share: bool) -> tuple[np.ndarray, dict[str, str]]:
    """Return the values of an axis, as integers for integer parameters, and their attributes."""
    parameter = PARAMETERS[name]
    meaning, units, symbol = parameter.meaning, parameter.units, parameter.symbol
    if share:
        meaning, units, symbol = f"{meaning}, as a share of L", "1", f"{symbol}/L"
    elif parameter.whole:
        values = values.astype(np.int64)
    return values, {"long_name": meaning, "units": units, "symbol": symbol}


def _meaning(name: str, question: Question) -> dict[str, Any]:
    flags = FLAGS if question.measured is None else FLAGS | FLAGS_OF_GIVEN_GRAM
    if name in flags:
        equation = "" if name == "reliable" else "erratum 9"
        return {"long_name": flags[name], "units": "1", "equation": equation}
    if name in MARGINS:
        units = {"units": "value norm²"}
        long_name, symbol, equation = MARGINS[name]
        return {"long_name": long_name, **units, "symbol": symbol, "equation": equation}
    quantity, side = name.rsplit("_", 1)
    subject, symbol, equation = SUBJECTS[quantity]
    edition = question.edition
    kind = "approximation of" if edition == "predicted" else f"{side} bound on"
    # Erratum 18: outside this range it follows from a negative bound on R.
    readable = {"readable_range": [0.0, 1.0]} if name == "f_inner_lower" else {}
    return {
        "long_name": f"{kind} {subject}, {edition}",
        "units": "1",
        "symbol": symbol,
        "equation": equation,
        "side": side,
        **readable,
    }


def elasticities(
    *,
    edition: Edition = "sharp",
    gram: Decay | Cosines = "exponential",
    bounds: Sequence[str] = LOWER,
    base: Mapping[str, float | str] | None = None,
    project: bool = False,
    **parameters: float | str,
) -> xr.Dataset:
    """Return the elasticity of each bound with respect to each parameter, at one point.

    An elasticity is the percentage change of a bound when a parameter changes by 1%.

    Args:
        edition, gram, bounds, project: as for `whatif`.
        base: the point, such as the result of `geostat.what_if.answer.from_head`; other parameters
            have example values.
        parameters: further parameters by name, one value each.

    Returns:
        Dataset over parameter and bound: `elasticity` (d log bound / d log parameter), `slope` (d
        bound / d log parameter, defined for bounds ≤ 0 too), `reason` (why a value is NaN), `value`
        of each parameter, `step` (a derivative, or the integers of a difference) and `at`, the
        bounds at the point.

    Raises:
        InputError: for an unknown name, an invalid value, several values, or a point whose Gram is
            not positive semidefinite.

    >>> result = elasticities(N=8, L=64, edition="sharp")["elasticity"]
    >>> round(float(result.sel(parameter="d", bound="recall_lower")), 2)
    0.49
    """
    question, fixed = question_of(
        gram, dict(base or {}) | parameters, edition=edition, bounds=bounds, project=project
    )
    result = study_elasticities(fixed, question)
    symbols = {
        "parameter": [PARAMETERS[name].symbol for name in result.arrays["parameter"]],
        "bound": [SUBJECTS[name.rsplit("_", 1)[0]][1] for name in result.arrays["bound"]],
    }
    variables = {
        name: (dims, result.arrays[name], attributes)
        for name, (dims, attributes) in ELASTICITY.items()
    }
    dataset = xr.Dataset(variables).assign_coords(
        {f"{dim}_symbol": (dim, np.array(texts), NO_UNIT) for dim, texts in symbols.items()}
    )
    dataset["at"].attrs["long_name"] += f", {edition}"
    dataset.attrs = describe(question, result.fixed)
    return dataset


def lines_of(dataset: xr.Dataset) -> list[str]:
    """Return elasticities as aligned columns, with reasons for missing values below."""
    bounds = [str(name) for name in dataset["bound"].values]
    rows = [
        ["parameter", "value", *bounds, "step"],
        ["(the bound)", "", *map(_number, dataset["at"].values), ""],
    ]
    for name in dataset["parameter"].values:
        part = dataset.sel(parameter=name)
        numbers = map(_number, part["elasticity"].values)
        rows.append([str(name), f"{float(part['value']):.4g}", *numbers, str(part["step"].values)])
    columns = [list(column) for column in zip(*rows, strict=True)]
    for index, column in enumerate(columns[:-1]):
        width, align = max(map(len, column)), str.rjust if index else str.ljust
        columns[index] = [align(cell, width) for cell in column]
    text = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    reasons = dataset["reason"].values.astype(str)
    for reason in sorted(set(reasons.flat) - {""}):
        cells = reasons == reason
        names = dataset["bound"].values[cells.all(axis=0)]
        names = names if names.size else dataset["parameter"].values[cells.any(axis=1)]
        text.append(f"n/a: {reason} ({', '.join(map(str, names))})")
    return text


def _number(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "n/a"
