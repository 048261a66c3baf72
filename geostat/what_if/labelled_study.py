"""A what-if study as a labelled dataset: the theory's bounds over a grid of parameters; and the
parameter at which one reaches a target.

Source: arXiv 2602.01893, eq. (8), (12)-(17); `theory.what_if` evaluates. A study starts from
example values, from values given, or from the fits of one head of a run (`geostat.what_if.start`).
Imports numpy, xarray and the theory room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.errors import refuse_unknown
from theory.head.gram import LagGram
from theory.head.results import Edition
from theory.what_if.crossing import Crossing, find_crossing
from theory.what_if.given_gram import measured_gram
from theory.what_if.parameters import BOUNDS, LOWER, PARAMETERS, Decay
from theory.what_if.study import Question, study

Cosines = np.ndarray | LagGram
"""A Gram of one's own: (T, T) cosines with the sink first, the cosines at lags 0, 1, … of the
other tokens, or those with ρ₀.
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
KINDS: Final = {
    "printed": "as printed; a bound only where its conditions hold",
    "repaired": "lower: a bound for unit directions, upper: an approximation",
    "sharp": "a bound under Model G",
    "conditional": "a bound under Model G",
    "predicted": "an approximation, no bound",
}
"""What the bounds of an edition are worth."""


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
        axes: values of the parameters that vary, by name (N, L, d, kappa, beta, rho0, c, stretch,
            lam, p_sink, p_base, eta, growth, omega, T1, T2, C); the order is that of the dataset's
            dimensions. T1 and T2 may be shares of L, such as "0.3L"; without them they are "0.5L"
            and "0.9L".
        edition: "printed", "repaired", "sharp", …
        gram: form of the similarity, "exponential", "offset", "stretched" or "power"; or a Gram of
            one's own: a (T, T) array of cosines, the sink first, a 1-d array of cosines at lags 0,
            1, …, T − 2 (with rho0 to the sink), or a `theory.LagGram`. L is then T − 1.
        bounds: which bounds, such as "recall_lower"; the four lower ones by default.
        base: values of parameters that do not vary, such as `geostat.what_if.start.from_head`
            returns; others have example values.
        project: where no vectors have the Gram, move ρ₀ to its edge, or a Gram of one's own to the
            nearest that some have, flag it `projected` and tell the `projection_distance`, instead
            of leaving the point out or refusing the Gram.
        parameters: further parameters by name: one value stands still, several vary.

    Returns:
        Dataset over the axes, each with units: the bounds, `feasible` (whether vectors with that
        Gram exist; the bounds are NaN where not) and the margins Δ and Δ₀ of eq. (8), units of the
        squared value norm. Its attributes hold what was fixed.

    Raises:
        InputError: for an unknown name, a value that is none, a profile that is none, a Gram that
            is none, or more points than memory holds.

    >>> study = whatif(N=[2, 4, 8], L=64, edition="sharp")
    >>> study["precision_lower"].values.round(3).tolist()
    [0.133, 0.502, 0.831]
    """
    several = {name: value for name, value in parameters.items() if np.ndim(value)}
    varying: dict[str, Any] = dict(axes or {}) | several
    given = dict(base or {}) | parameters
    still = {name: value for name, value in given.items() if name not in varying}
    question, rest = question_of(gram, still, edition=edition, bounds=bounds, project=project)
    result = study(varying, rest, question)
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
    """Return the question that a Gram puts, and what stays fixed: the ρ₀ of a lag profile becomes a
    part of its Gram.

    Raises:
        InputError: for a Gram that is none.
    """
    rest = dict(fixed)
    if isinstance(gram, str):
        return Question(edition=edition, decay=gram, bounds=tuple(bounds), project=project), rest
    rho0 = 0.0
    if not isinstance(gram, LagGram) and np.ndim(gram) == 1:
        rho0 = float(PARAMETERS["rho0"].read(rest.pop("rho0", PARAMETERS["rho0"].default))[0][0])
    measured = measured_gram(gram, rho0=rho0, projected=project)
    return (
        Question(
            edition=edition,
            decay="measured",
            measured=measured,
            bounds=tuple(bounds),
            project=project,
        ),
        rest,
    )


def describe(question: Question, fixed: Mapping[str, float | str]) -> dict[str, Any]:
    """Return the attributes of a study's dataset."""
    moved = (
        {}
        if question.measured is None
        else {
            "projection": question.measured.kind,
            "projection_distance": question.measured.distance,
        }
    )
    kind = KINDS.get(question.edition, "bound")
    return {
        "edition": question.edition,
        "gram": question.decay,
        "kind": kind,
        **moved,
        **{f"fixed_{k}": v for k, v in fixed.items()},
    }


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
    """Return the largest N up to which a bound stays at a target, or the smallest value of another
    parameter at which it reaches one; see `theory.what_if.crossing.find_crossing`.

    >>> print(find_value("N", 0.5, base={"L": 64.0}))
    largest N up to which recall_lower stays >= 0.5: 2 (there it is 0.5)
    """
    refuse_unknown(bound, BOUNDS, f"{bound!r} is no bound", verb="Use")
    question, rest = question_of(
        gram, base or {}, edition=edition, bounds=(bound,), project=project
    )
    return find_crossing(parameter, target, rest, question, between=between)


def _coordinate(name: str, values: np.ndarray, *, share: bool) -> tuple[np.ndarray, dict[str, str]]:
    """The values of an axis, whole where they are, and what they mean."""
    parameter = PARAMETERS[name]
    attributes = {
        "long_name": parameter.meaning,
        "units": parameter.units,
        "symbol": parameter.symbol,
    }
    if share:
        attributes |= {
            "long_name": f"{parameter.meaning}, as a share of L",
            "units": "1",
            "symbol": f"{parameter.symbol}/L",
        }
    return values.astype(np.int64) if parameter.whole and not share else values, attributes


def _meaning(name: str, question: Question) -> dict[str, Any]:
    edition, own = question.edition, question.measured is not None
    of_gram = {
        "feasible": "vectors with this Gram exist",
        "projected": (
            "the Gram was moved to the nearest that vectors have"
            if own
            else "ρ₀ was moved to its feasible edge"
        ),
        "projection_distance": (
            "Frobenius norm of the Gram's change, or |Δρ₀| where that alone was moved"
            if own
            else "|Δρ₀|"
        ),
    }
    if name in of_gram:
        return {"long_name": of_gram[name], "units": "1", "equation": "erratum 9"}
    if name == "reliable":
        return {"long_name": "the evaluation trusts itself", "units": "1", "equation": ""}
    if name in MARGINS:
        words, symbol, equation = MARGINS[name]
        return {"long_name": words, "units": "value norm²", "symbol": symbol, "equation": equation}
    quantity, side = name.rsplit("_", 1)
    words, symbol, equation = SUBJECTS[quantity]
    kind = "approximation of" if edition == "predicted" else f"{side} bound on"
    # erratum 18: elsewhere it follows from a negative bound on R
    readable = {"readable_range": [0.0, 1.0]} if name == "f_inner_lower" else {}
    return {
        "long_name": f"{kind} {words}, {edition}",
        "units": "1",
        "symbol": symbol,
        "equation": equation,
        "side": side,
        **readable,
    }
