"""Quantities of a head: every variable of a run that has one value a head, with its unit and
limits, and every verdict. Imports numpy and xarray.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from reports.run import Run, column, words_of

GROUPS: Final = ("verdicts", "norms", "similarity", "weights", "envelope", "regimes")
"""Groups whose variables are quantities of a head, in the order of the menu."""
BESIDE: Final = ("_se", "_lower", "_upper", "_skew", "_without", "flags", "_reason")
"""Ends of names that stand beside a quantity, or are codes of why it is not known."""
INDEX: Final = {
    ("similarity", "chosen"): "gram",
    ("weights", "form_chosen"): "form",
    ("weights", "preferred"): "rival",
}
"""Variables that are places along a dimension, whose labels are their words."""
HEADS: Final = ("head", "kv_head")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One value a head, or a value head: (layer, head). `limits` are None where it has none;
    `words` name the values of what is no number. `ends` are the ends of the range that a fit may
    search, where it stopped at one: these are no estimates, and unknown among the values.
    """

    key: str
    label: str
    unit: str
    of: str
    values: NDArray[Any]
    limits: tuple[NDArray[Any], NDArray[Any]] | None = None
    words: dict[int, str] | None = None
    ends: NDArray[Any] | None = None


def quantities(run: Run) -> list[Quantity]:
    """Every quantity of a run's heads."""
    found: list[Quantity] = []
    for group in GROUPS:
        data: xr.Dataset | None = getattr(run, group)
        if data is not None:
            found += _verdicts(data) if group == "verdicts" else _of_group(group, data)
    known = [one for one in found if np.isfinite(one.values).any()]
    # verdicts first, then what is estimated with limits, then the rest
    return sorted(known, key=lambda one: (not one.key.startswith("verdicts."), one.limits is None))


def _verdicts(data: xr.Dataset) -> Iterator[Quantity]:
    for claim in json.loads(str(data.attrs["claims"])):
        yield Quantity(
            key=f"verdicts.{claim['key']}",
            label=f"verdict: {claim['says']}",
            unit="",
            of=claim["of"],
            values=column(data, claim),
            words=words_of(data),
        )


def _of_group(group: str, data: xr.Dataset) -> Iterator[Quantity]:
    for name in sorted(map(str, data.data_vars)):
        variable = data[name]
        of = next((dim for dim in HEADS if dim in variable.dims), None)
        rest = [str(dim) for dim in variable.dims if dim not in ("layer", of)]
        if name.endswith(BESIDE) or of is None or "layer" not in variable.dims or len(rest) > 1:
            continue
        if "document" in rest:
            continue
        if not rest:
            yield _quantity(group, name, data, of, {})
        elif rest[0] in data.coords and data[rest[0]].dtype.kind not in "iuf":
            for label in data[rest[0]].values:
                yield _quantity(group, name, data, of, {rest[0]: label})


def _quantity(group: str, name: str, data: xr.Dataset, of: str, at: dict[str, Any]) -> Quantity:
    def array(name: str) -> NDArray[Any]:
        return data[name].sel(at).transpose("layer", of).values

    about, values = data[name].attrs, array(name)
    ends = None
    if values.dtype.kind == "f" and (at_bound := f"{name}_at_bound") in data:
        stopped = array(at_bound).astype(bool)
        if (stopped & np.isfinite(values)).any():
            values, ends = np.where(stopped, np.nan, values), np.where(stopped, values, np.nan)
    known = f"{name}_lower" in data and f"{name}_upper" in data
    where = "".join(f", {dim} {label}" for dim, label in at.items())
    words = {0: "no", 1: "yes"} if values.dtype == bool else None
    if (along := INDEX.get((group, name))) is not None:
        words = dict(enumerate(map(str, data[along].values))) | {-1: "undetermined"}
    if "codes" in about:
        pairs = (str(code).partition(" ") for code in about["codes"])
        words = {int(code): word for code, _, word in pairs}
    unit = str(about.get("units", ""))
    return Quantity(
        key=".".join([group, name, *map(str, at.values())]),
        label=(
            f"{str(about.get('long_name', name)).partition('; codes')[0]}{where}"
            f" ({'heads' if group == 'regimes' else group}.{name})"
        ),
        unit="" if unit == "1" else unit,
        of=of,
        values=np.where(np.isfinite(values), values, np.nan).astype(np.float64),
        limits=(array(f"{name}_lower"), array(f"{name}_upper")) if known else None,
        words=words,
        ends=ends,
    )
