"""Numbers of one head: its fitted parameters with errors, its Precision and Recall, its regime and
its verdicts.

Imports numpy and xarray.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.datasets.queries import over_queries
from geostat.datasets.separability import STATISTICS
from geostat.datasets.tokens import head_indices
from geostat.statistics.jackknife import document_mean

FITS: Final = ("norms", "similarity", "weights")
PARTS: Final = ("value", "se", "lower", "upper")
CRITERIA: Final = ("size", "alignment", "both")


def head_numbers(groups: Mapping[str, xr.Dataset], name: str) -> xr.Dataset:
    """Return what a run holds of one head; what it lacks (fits, verdicts) is left out.

    Args:
        groups: datasets of a run by name, /capture among them.
        name: of the head, such as L5H3.

    Returns:
        value, se, lower and upper (95%) by `parameter`, such as norms.C or similarity.beta.offset;
        precision, recall and their limits by `n`, means over documents and the analysed queries;
        answer, estimate, claim_lower, claim_upper and tolerance by `claim`; regime by `criterion`.

    Raises:
        InputError: for a name that is none of the run's.
    """
    capture = groups["capture"]
    at = head_indices(capture, name)
    result = _scores(over_queries(groups), at).merge(_parameters(groups, at))
    if "heads" in groups:
        result = result.merge(_regime(groups["heads"], at))
    if "verdicts" in groups:
        result = result.merge(_verdicts(groups["verdicts"], at))
    labels = {dim: int(capture[dim].values[index]) for dim, index in at.items()}
    result.attrs = {"name": f"L{labels['layer']}H{labels['head']}", **labels}
    return result


def _here(data: xr.Dataset | xr.DataArray, at: Mapping[str, int]) -> Any:
    """The part of a head, without the labels of its layer and head."""
    return data.isel(at, missing_dims="ignore", drop=True)


def _scores(capture: xr.Dataset, at: Mapping[str, int]) -> xr.Dataset:
    result = {}
    for name in STATISTICS:
        each = _here(capture[name], at).transpose("document", "n")
        mean = document_mean(each.values.astype(np.float64))
        for part, values in (("", mean.value), ("_lower", mean.lower), ("_upper", mean.upper)):
            result[name + part] = ("n", values, dict(each.attrs))
    return xr.Dataset(result, coords={"n": capture["n"]})


def _parameters(groups: Mapping[str, xr.Dataset], at: Mapping[str, int]) -> xr.Dataset:
    """Every estimate of the fits that a head has one of, or one for each form of the Gram."""
    rows = [
        row for name in FITS if name in groups for row in _estimates(name, _here(groups[name], at))
    ]
    labels = [row["label"] for row in rows]
    columns = {
        part: ("parameter", np.array([row[part] for row in rows], dtype=np.float64))
        for part in PARTS
    }
    words = {
        part: ("parameter", np.array([row[part] for row in rows], dtype=object))
        for part in ("units", "long_name")
    }
    return xr.Dataset(
        columns, coords={"parameter": np.array(labels, dtype=object), **words} if rows else {}
    )


def _estimates(group: str, data: xr.Dataset) -> Iterator[dict[str, Any]]:
    for name in sorted(map(str, data.data_vars)):
        if f"{name}_lower" not in data or data[name].dims not in ((), ("gram",)):
            continue
        forms = data["gram"].values if data[name].dims else [None]
        for form in forms:
            of_form = data if form is None else data.sel(gram=form)
            numbers = {
                part: float(of_form[name if part == "value" else f"{name}_{part}"])
                for part in PARTS
            }
            label = f"{group}.{name}" if form is None else f"{group}.{name}.{form}"
            words = {part: str(data[name].attrs[part]) for part in ("units", "long_name")}
            yield {"label": label, **numbers, **words}


def _regime(heads: xr.Dataset, at: Mapping[str, int]) -> xr.Dataset:
    """The regime by each criterion, in words."""
    names = dict(text.split(" ", 1) for text in heads["label"].attrs["codes"])
    codes = _here(heads["label"], at).sel(criterion=list(CRITERIA)).values
    return xr.Dataset(
        {"regime": ("criterion", np.array([names[str(int(code))] for code in codes], object))},
        coords={"criterion": list(CRITERIA)},
    )


def _verdicts(verdicts: xr.Dataset, at: Mapping[str, int]) -> xr.Dataset:
    """The answer to every claim, with the effect's estimate, interval and tolerance."""
    words = json.loads(verdicts.attrs["answers"])
    claims = json.loads(verdicts.attrs["claims"])
    rows = []
    for claim in claims:
        of = claim["of"]
        own = _here(verdicts.sel({f"claim_{of}": claim["key"]}), at)
        limits = [float(own[f"{part}_{of}"]) for part in ("estimate", "lower", "upper")]
        rows.append([words[str(int(own[f"answer_{of}"]))], *limits, claim["tolerance"]])
    names = ("answer", "estimate", "claim_lower", "claim_upper", "tolerance")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return xr.Dataset(
        {name: ("claim", np.array(values)) for name, values in columns.items()},
        coords={
            "claim": [claim["key"] for claim in claims],
            "says": ("claim", [claim["says"] for claim in claims]),
        },
    )
