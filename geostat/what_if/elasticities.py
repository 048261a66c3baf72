"""Elasticities of the bounds at one point of a study, as a labelled dataset and as lines of text.

Source: arXiv 2602.01893, Table 1; `theory.what_if.elasticity` evaluates. Imports numpy, xarray and
the theory room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from geostat.what_if.labelled_study import SUBJECTS, Cosines, describe, question_of
from theory.head.results import Edition
from theory.what_if.elasticity import Elasticities, study_elasticities
from theory.what_if.parameters import LOWER, PARAMETERS, Decay


def elasticities(
    *,
    edition: Edition = "sharp",
    gram: Decay | Cosines = "exponential",
    bounds: Sequence[str] = LOWER,
    base: Mapping[str, float | str] | None = None,
    project: bool = False,
    **parameters: float | str,
) -> xr.Dataset:
    """Tell by how many per cent each bound moves when one parameter moves by one per cent, at one
    point.

    Args:
        edition: as for `whatif`, like `gram`, `bounds` and `project`.
        base: the point, such as `geostat.what_if.start.from_head` returns; parameters not named
            have example values.
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
    dataset = _dataset(result)
    dataset["at"].attrs["long_name"] += f", {edition}"
    dataset.attrs = describe(question, result.fixed)
    return dataset


def _dataset(result: Elasticities) -> xr.Dataset:
    """Elasticities with their dimensions and attributes."""
    both, table_1 = ("parameter", "bound"), {"units": "1", "equation": "Table 1"}
    no_unit = {"units": ""}
    of_value = {"long_name": "value of the parameter", "units": "that of the parameter"}
    step = {"long_name": "derivative, or difference between neighbours"} | no_unit
    reason = {"long_name": "why a response is not available"} | no_unit
    symbols = [PARAMETERS[name].symbol for name in result.parameters]
    of_bounds = [SUBJECTS[name.rsplit("_", 1)[0]][1] for name in result.bounds]
    return xr.Dataset(
        {
            "elasticity": (
                both,
                result.elasticity,
                {"long_name": "d log bound / d log parameter"} | table_1,
            ),
            "slope": (both, result.slope, {"long_name": "d bound / d log parameter"} | table_1),
            "reason": (both, result.reasons.astype(str), reason),
            "value": ("parameter", result.values, of_value),
            "step": ("parameter", np.array(result.steps), step),
            "at": ("bound", result.at, {"long_name": "bound at the point", "units": "1"}),
        },
        coords={
            "parameter": (
                "parameter",
                np.array(result.parameters),
                {"long_name": "parameter that moves"} | no_unit,
            ),
            "bound": (
                "bound",
                np.array(result.bounds),
                {"long_name": "bound that responds"} | no_unit,
            ),
            "parameter_symbol": ("parameter", np.array(symbols), no_unit),
            "bound_symbol": ("bound", np.array(of_bounds), no_unit),
        },
    )


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
    reasons = dataset["reason"].values.astype(str)
    for reason in sorted(set(reasons.flat) - {""}):  # each once, with what it is about
        where = reasons == reason
        about = dataset["bound"].values[where.all(axis=0)]
        about = about if about.size else dataset["parameter"].values[where.any(axis=1)]
        text.append(f"n/a: {reason} ({', '.join(map(str, about))})")
    return text


def _number(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "n/a"
