"""Labelled variables: xarray variables with attributes, made from records and estimates.

A record (`Quantity`) holds name, dims, meaning, unit, symbol and equation; standard error and
limits of an estimate get derived records. The records of a group stand in the module that computes
its numbers; docs/reference/variables.md is generated from them.

Flags and codes are integer variables whose bits or values have named meanings. Flags say why a
number is missing or unreliable; codes name one of several labels, such as the chosen form (CF
conventions, section 3.5). Imports numpy, xarray and geostat's
estimates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from empirical.schema import Quantity
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate, document_mean
from geostat.statistics.moderation import over_heads


def combined(applies: Mapping[str, NDArray[np.bool_]], order: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the sum of 2^i over the reasons that apply, i the index of the reason in `order`.

    A reason that `applies` lacks applies nowhere.
    """
    shape = np.broadcast_shapes(*(array.shape for array in applies.values()))
    total = np.zeros(shape, dtype=np.int64)
    for name, where in applies.items():
        total += where.astype(np.int64) << order.index(name)
    return total


def flags(
    name: str, long_name: str, meanings: Mapping[str, str], dims: tuple[str, ...]
) -> Quantity:
    """Return the record of a flag variable: `flag_meanings` names bits, `note` explains them."""
    note = "; ".join(f"{word}: {meaning}" for word, meaning in meanings.items())
    masks = [1 << bit for bit in range(len(meanings))]
    return Quantity(
        name,
        long_name,
        more={"flag_masks": masks, "flag_meanings": " ".join(meanings), "note": note},
        dims=dims,
    )


def why(data: xr.Dataset, name: str, among: Collection[str] = ()) -> str:
    """Return the meaning of the first flag that is set anywhere, from the variable's note.

    `among` restricts the flags; all count by default. Returns "" where no flag is set.

    >>> record = flags("flags", "why", {"lost": "no data; gone", "rough": "two"}, ("head",))
    >>> data = xr.Dataset({"flags": ("head", [0, 3], record.attributes)})
    >>> why(data, "flags"), why(data, "flags", ["rough"])
    ('no data; gone', 'two')
    """
    attributes = data[name].attrs if name in data else {}
    if not {"flag_masks", "flag_meanings", "note"} <= attributes.keys():
        return ""
    union = np.bitwise_or.reduce(data[name].values.astype(np.int64), axis=None)
    raised = reasons(xr.DataArray(union, attrs=attributes))
    words = "|".join(map(re.escape, str(attributes["flag_meanings"]).split()))
    parts = re.split(rf"(?:^|; )({words}): ", str(attributes["note"]))
    meanings = dict(zip(parts[1::2], parts[2::2], strict=True))
    return next((meanings[reason] for reason in raised if reason in (among or raised)), "")


def codes(
    name: str, long_name: str, values: tuple[str, ...], *, missing: str = "", **words: Any
) -> Quantity:
    """Return the record of a variable whose integers stand for labels, 0 for the first.

    If `missing` is not empty, it labels −1.
    """
    first = -1 if missing else 0
    more = {
        "flag_values": list(range(first, len(values))),
        "flag_meanings": " ".join((missing, *values) if missing else values),
    }
    return Quantity(name, long_name, more=more, **words)


def reasons(flags: xr.DataArray) -> list[str]:
    """Return the names of the reasons that are set in a single flag value.

    Use it as `reasons(similarity["flags"].sel(gram="offset")[5, 1])`.

    >>> record = flags("flags", "why", {"lost": "no data", "rough": "two documents"}, ())
    >>> reasons(xr.DataArray(np.int64(2), attrs=record.attributes))
    ['rough']
    """
    names = str(flags.attrs["flag_meanings"]).split()
    return [
        name
        for name, mask in zip(names, flags.attrs["flag_masks"], strict=True)
        if int(flags) & int(mask)
    ]


Value = NDArray[Any] | Estimate
"""Numbers of one record."""
Variables = dict[str, tuple[tuple[str, ...], FloatArray]]
"""Dims and values by name, as `xarray.Dataset` takes them."""


def variables(records: Iterable[Quantity], values: Mapping[str, Value]) -> dict[str, xr.Variable]:
    """Return a group's numbers, by record name, as labelled variables.

    A record that is `estimated` takes an Estimate, whose limits are moderated over heads.
    """
    out: dict[str, xr.Variable] = {}
    for record in records:
        value = values[record.name]
        arrays: Mapping[str, NDArray[Any]] = (
            over_heads(value, record.of_heads()).arrays()
            if isinstance(value, Estimate)
            else {"value": value}
        )
        out |= {
            part.name: xr.Variable(part.dims, arrays[key], part.attributes)
            for key, part in record.parts().items()
        }
    return out


def labelled(dataset: xr.Dataset, records: Iterable[Quantity]) -> xr.Dataset:
    """Return a dataset whose variables have the attributes of their records, and no others."""
    attributes = {
        part.name: part.attributes for record in records for part in record.parts().values()
    }
    return dataset.assign(
        {
            name: dataset[name].drop_attrs(deep=False).assign_attrs(attributes[str(name)])
            for name in dataset.data_vars
        }
    )


def join(
    values: Sequence[Value], function: Callable[[Sequence[NDArray[Any]]], NDArray[Any]]
) -> Value:
    """Combine arrays, or estimates array by array, with a function such as `numpy.stack`."""
    estimates = [value for value in values if isinstance(value, Estimate)]
    if not estimates:
        return function([value for value in values if not isinstance(value, Estimate)])
    parts = [estimate.arrays() for estimate in estimates]
    joined: dict[str, Any] = {name: function([part[name] for part in parts]) for name in parts[0]}
    return replace(estimates[0], **joined)


def stacked(estimates: Sequence[Estimate], *shape: int) -> Estimate:
    """Return estimates along a new first axis, or along first axes of this shape."""
    shape = shape or (len(estimates),)

    def reshaped(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.stack(arrays).reshape(*shape, *arrays[0].shape)

    return cast("Estimate", join(estimates, reshaped))


def join_rows(
    rows: Sequence[Mapping[str, Value]],
    function: Callable[[Sequence[NDArray[Any]]], NDArray[Any]] = np.stack,
) -> dict[str, Value]:
    """Combine the numbers of several rows by name, each as `join` does."""
    return {name: join([row[name] for row in rows], function) for name in rows[0]}


def mapped(value: Value, function: Callable[[NDArray[Any]], NDArray[Any]]) -> Value:
    """Apply a function, such as a row selection, to an array or every array of an estimate."""
    return join([value], lambda arrays: function(arrays[0]))


def join_heads(
    records: Iterable[Quantity], parts: Sequence[Mapping[str, Value]], heads: int
) -> dict[str, Value]:
    """Join the numbers of groups of heads, layer by layer, with `heads` heads in each layer.

    The heads of a part lie along the dim `layer` of a record, which becomes layers and heads.
    Records without that dim are left out.
    """
    return {
        record.name: join(
            [part[record.name] for part in parts],
            partial(_join_heads, axis=record.dims.index("layer"), heads=heads),
        )
        for record in records
        if "layer" in record.dims
    }


def _join_heads(arrays: Sequence[NDArray[Any]], axis: int, heads: int) -> NDArray[Any]:
    whole = np.concatenate(arrays, axis)
    return whole.reshape(*whole.shape[:axis], -1, heads, *whole.shape[axis + 1 :])


def with_limits(
    name: str,
    dims: tuple[str, ...],
    by_document: FloatArray,
    transform: Callable[[FloatArray], FloatArray] = np.asarray,
    mean: Callable[[FloatArray], Estimate] = document_mean,
) -> Variables:
    """Return the transformed mean over documents (axis 0) as x, its 95% limits as x_lower and
    x_upper. `mean` is `share_over_documents` for values in [0, 1].
    """
    estimate = mean(by_document)
    parts = {"": estimate.value, "_lower": estimate.lower, "_upper": estimate.upper}
    return {f"{name}{part}": (dims, transform(values)) for part, values in parts.items()}


def known(value: Any) -> float | None:
    """Return the value as a float, or None where it is not finite.

    >>> known(xr.DataArray(0.5)), known(float("nan"))
    (0.5, None)
    """
    return float(value) if np.isfinite(value) else None


def interval(data: xr.Dataset, name: str, index: tuple[int, ...]) -> dict[str, float | None]:
    """Return the limits of one entry of an estimate, as "lower" and "upper"."""
    return {side: known(data[f"{name}_{side}"].values[index]) for side in ("lower", "upper")}


def entries(
    data: xr.Dataset, name: str, *, every: bool = False
) -> Iterator[tuple[tuple[int, ...], dict[str, Any]]]:
    """Yield the index and the labels by dim of each finite entry of a variable.

    With `every`, non-finite entries are included. A variable that `data` lacks yields nothing.

    >>> data = xr.Dataset({"rise": (("mode", "n"), [[0.1, np.nan]])}, {"mode": ["deletion"]})
    >>> list(entries(data, "rise"))
    [((0, 0), {'mode': 'deletion', 'n': 0})]
    """
    if name not in data:
        return
    values = data[name]
    labels = {str(dim): values[dim].values.tolist() for dim in values.dims}
    for indices in np.ndindex(values.shape):
        if every or np.isfinite(values.values[indices]):
            yield (
                indices,
                {
                    dim: dim_labels[index]
                    for (dim, dim_labels), index in zip(labels.items(), indices, strict=True)
                },
            )


def sizes_along(dim: str, sizes: NDArray[np.int64]) -> xr.Variable:
    """Return sizes N as the coordinate of a dim."""
    return xr.Variable((dim,), sizes, {"long_name": "selected tokens N", "units": "tokens"})


def words_along(dim: str, words: Iterable[str], long_name: str) -> xr.Variable:
    """Return text labels as the coordinate of a dim, such as the forms along `gram`.

    >>> words_along("swap", ["none", "norms"], "ingredients measured").values
    array(['none', 'norms'], dtype=object)
    """
    return xr.Variable((dim,), np.array(list(words), dtype=object), {"long_name": long_name})


SINK_VISIBLE: Final = Quantity(
    "sink_visible", "the analysed query sees the sink", symbol=r"0 \in V", dims=("layer",)
)


def fit_dataset(
    capture: xr.Dataset, fitted: Mapping[str, xr.Variable], dims: Iterable[str], **coords: Any
) -> xr.Dataset:
    """Return the variables of a fit and sink_visible, with `coords` and the capture's coordinates
    of `dims`.
    """
    visible = capture["sink_visible"].values.astype(bool)
    sink = xr.Variable(SINK_VISIBLE.dims, visible, SINK_VISIBLE.attributes)
    captured = {dim: capture[dim].variable for dim in dims if dim in capture.coords}
    return xr.Dataset({**fitted, "sink_visible": sink}, coords=captured | coords)
