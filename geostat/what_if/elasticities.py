"""Elasticities of the bounds at one point of a study, as a labelled dataset and as lines of text.

Source: arXiv 2602.01893, Table 1; `theory.what_if.elasticity` evaluates. Imports numpy, xarray and
the theory room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import xarray as xr

from geostat.what_if.labelled_study import SUBJECTS, Cosines, describe, question_of
from theory.head.results import Edition
from theory.what_if.elasticity import study_elasticities
from theory.what_if.parameters import LOWER, PARAMETERS, Decay

BOTH: Final = ("parameter", "bound")
TABLE_1: Final = {"units": "1", "equation": "Table 1"}
NO_UNIT: Final = {"units": ""}
LABELS: Final[Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]]] = {
    "elasticity": (BOTH, {"long_name": "d log bound / d log parameter"} | TABLE_1),
    "slope": (BOTH, {"long_name": "d bound / d log parameter"} | TABLE_1),
    "reason": (BOTH, {"long_name": "why a response is not available"} | NO_UNIT),
    "value": (
        ("parameter",),
        {"long_name": "value of the parameter", "units": "that of the parameter"},
    ),
    "step": (
        ("parameter",),
        {"long_name": "derivative, or difference between neighbours"} | NO_UNIT,
    ),
    "at": (("bound",), {"long_name": "bound at the point", "units": "1"}),
    "parameter": (("parameter",), {"long_name": "parameter that moves"} | NO_UNIT),
    "bound": (("bound",), {"long_name": "bound that responds"} | NO_UNIT),
    "parameter_symbol": (("parameter",), NO_UNIT),
    "bound_symbol": (("bound",), NO_UNIT),
}
"""Dimensions and attributes of what elasticities are told in."""


def elasticities(
    *,
    edition: Edition = "printed",
    gram: Decay | Cosines = "exponential",
    bounds: Sequence[str] = LOWER,
    base: Mapping[str, float | str] | None = None,
    project: bool = False,
    **parameters: float | str,
) -> xr.Dataset:
    """Tell by how many per cent each bound moves when one parameter moves by one per cent, at one
    point.

    Args:
        edition: "printed", "repaired", "sharp", …
        gram: as for `whatif`.
        bounds: which bounds, such as "recall_lower"; the four lower ones by default.
        base: the point, such as `geostat.what_if.start.from_head` returns; parameters not named
            have example values.
        project: as for `whatif`.
        parameters: further parameters by name, one value each.

    Returns:
        Dataset over parameter and bound: `elasticity` (d log bound / d log parameter), `slope` (d
        bound / d log parameter, known also where the bound is not positive), `reason` (why one is
        NaN), `value` of each parameter, `step` (a derivative, or the neighbours of a whole number
        that a difference is between) and `at`, the bounds at the point.

    Raises:
        InputError: for an unknown name, a value that is none, several values, or a point whose Gram
            no vectors have.

    >>> found = elasticities(N=8, L=64, edition="sharp")["elasticity"]
    >>> round(float(found.sel(parameter="d", bound="recall_lower")), 2)
    0.49
    """
    question, fixed = question_of(
        gram, dict(base or {}) | parameters, edition=edition, bounds=bounds, project=project
    )
    result = study_elasticities(fixed, question)
    dataset = xr.Dataset(
        _labelled(
            elasticity=result.elasticity,
            slope=result.slope,
            reason=result.reasons.astype(str),
            value=result.values,
            step=np.array(result.steps),
            at=result.at,
        ),
        coords=_labelled(
            parameter=np.array(result.parameters),
            bound=np.array(result.bounds),
            parameter_symbol=np.array([PARAMETERS[name].symbol for name in result.parameters]),
            bound_symbol=np.array([SUBJECTS[name.rsplit("_", 1)[0]][1] for name in result.bounds]),
        ),
    )
    dataset["at"].attrs["long_name"] += f", {edition}"
    dataset.attrs = describe(question, result.fixed)
    return dataset


def _labelled(**arrays: np.ndarray) -> dict[str, xr.Variable]:
    """Arrays with the dimensions and attributes of LABELS."""
    out = {}
    for name, array in arrays.items():
        dims, attributes = LABELS[name]
        out[name] = xr.Variable(dims, array, attributes)
    return out


def lines_of(dataset: xr.Dataset) -> list[str]:
    """Set elasticities in aligned columns, with what is not available explained below."""
    bounds = [str(name) for name in dataset["bound"].values]
    rows = [
        ["parameter", "value", *bounds, "step"],
        ["(the bound)", "", *map(_number, dataset["at"].values), ""],
    ]
    for name in dataset["parameter"].values:
        one = dataset.sel(parameter=name)
        rows.append(
            [
                str(name),
                f"{float(one['value']):.4g}",
                *map(_number, one["elasticity"].values),
                str(one["step"].values),
            ]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    inner = range(1, len(widths) - 1)
    text = [
        "  ".join(
            [row[0].ljust(widths[0]), *(row[k].rjust(widths[k]) for k in inner), row[-1]]
        ).rstrip()
        for row in rows
    ]
    return text + [f"n/a: {reason}" for reason in reasons_of(dataset)]


def reasons_of(dataset: xr.Dataset) -> list[str]:
    """Return why elasticities are not available, each reason once, with what it is about."""
    reasons = dataset["reason"].values.astype(str)
    out = []
    for reason in sorted(set(reasons.flat) - {""}):
        where = reasons == reason
        whole = [
            str(name)
            for name, column in zip(dataset["bound"].values, where.T, strict=True)
            if column.all()
        ]
        parameters = [
            str(name)
            for name, row in zip(dataset["parameter"].values, where, strict=True)
            if row.any()
        ]
        out.append(f"{reason} ({', '.join(whole or parameters)})")
    return out


def _number(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "n/a"
