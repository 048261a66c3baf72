"""Variables of results: one record each of name, dims, meaning, unit, symbol and equation, from
which what stands beside an estimate is derived.

A group of a run lists its records beside the code that finds their numbers; `variables` makes
xarray variables of arrays and estimates, and docs/reference/variables.md is written from the same
records. Imports numpy, xarray and this room's estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from geostat.statistics.jackknife import Estimate
from geostat.statistics.moderation import over_heads

JACKKNIFE: Final = "95% document jackknife, t(K-1)"
MODERATED: Final = "95% document jackknife, t moderated over heads"
HEADS: Final = ("head", "kv_head")
Value = NDArray[Any] | Estimate
"""The numbers of one record."""


@dataclass(frozen=True, slots=True)
class Variable:
    """What is known of a variable before it has numbers; `symbol` is LaTeX without dollar signs.

    An `estimated` variable x has x_se, x_lower and x_upper beside it, and x_skew and x_without (…,
    document) where a claim is on it, or a share between kinds of text is told (`judged`).
    """

    name: str
    long_name: str
    units: str = "1"
    symbol: str = ""
    equation: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    dims: tuple[str, ...] = ()
    estimated: bool = False
    judged: bool = False

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes that travel with the array."""
        own = {name: getattr(self, name) for name in ("long_name", "units", "symbol", "equation")}
        return own | ({"interval": self._interval} if self.estimated else {}) | dict(self.more)

    @property
    def _interval(self) -> str:
        return MODERATED if self.of_heads() else JACKKNIFE

    def of_heads(self) -> list[int]:
        """Return the dims, by their places, along which heads lie; none where there are none."""
        places = [place for place, dim in enumerate(self.dims) if dim in ("layer", *HEADS)]
        return places if set(HEADS) & set(self.dims) else []

    def parts(self) -> dict[str, Variable]:
        """Return the records of an estimate's arrays, by the names they have there; of a plain
        variable only its own, as "value".
        """
        out = {"value": self}
        if self.estimated:
            out["se"] = self._beside("se", "standard error of {}", r"\mathrm{{se}}({})")
            out["lower"] = self._beside("lower", "lower limit of {}", r"{{{}}}_{{\mathrm{{lo}}}}")
            out["upper"] = self._beside("upper", "upper limit of {}", r"{{{}}}_{{\mathrm{{hi}}}}")
        if self.judged:
            skew = self._beside("skew", "skewness of single documents in {}", r"\mathrm{{G}}_1({})")
            without = self._beside("without", "{}, without the document", r"{{{}}}_{{(k)}}")
            out |= {
                "skew": replace(skew, units="1"),
                "without": replace(without, dims=(*self.dims, "document")),
            }
        return out

    def _beside(self, part: str, long_name: str, symbol: str) -> Variable:
        return replace(
            self,
            name=f"{self.name}_{part}",
            long_name=long_name.format(self.long_name),
            symbol=symbol.format(self.symbol),
        )


def variables(records: Iterable[Variable], values: Mapping[str, Value]) -> dict[str, xr.Variable]:
    """Return a group's numbers, by the names of its records, as described variables; an Estimate
    for each that is `estimated`, with limits moderated over heads.
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


def labelled(dataset: xr.Dataset, records: Iterable[Variable]) -> xr.Dataset:
    """Return a dataset whose variables carry the attributes of their records, and no others."""
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
    each: Sequence[Value], function: Callable[[Sequence[NDArray[Any]]], NDArray[Any]]
) -> Value:
    """Return several arrays, or estimates, as one, made by a function such as `numpy.stack`."""
    estimates = [one for one in each if isinstance(one, Estimate)]
    if not estimates:
        return function([one for one in each if not isinstance(one, Estimate)])
    parts = [one.arrays() for one in estimates]
    joined: dict[str, Any] = {name: function([part[name] for part in parts]) for name in parts[0]}
    return replace(estimates[0], **joined)


def mapped(value: Value, function: Callable[[NDArray[Any]], NDArray[Any]]) -> Value:
    """Return an array, or an estimate, with every array put through a function, such as a choice
    of rows.
    """
    return join([value], lambda arrays: function(arrays[0]))


def stack_layers(
    records: Iterable[Variable], layers: Sequence[Mapping[str, Value]]
) -> dict[str, Value]:
    """Return numbers found layer by layer as those of all layers, along the dim `layer` of their
    records.
    """
    return {
        one.name: join(
            [layer[one.name] for layer in layers], partial(np.stack, axis=one.dims.index("layer"))
        )
        for one in records
    }


def side_by_side(
    records: Iterable[Variable], parts: Sequence[Mapping[str, Value]], dim: str
) -> dict[str, Value]:
    """Return numbers of one layer found for some heads at a time as those of all its heads, along
    `dim` of their records.
    """
    out = {}
    for one in records:
        axis = [own for own in one.dims if own != "layer"].index(dim)
        out[one.name] = join([part[one.name] for part in parts], partial(np.concatenate, axis=axis))
    return out


def described(
    dims: tuple[str, ...],
    values: NDArray[Any],
    *,
    long_name: str,
    units: str,
    symbol: str,
    equation: str,
    **more: Any,
) -> xr.Variable:
    """Return a variable with the attributes every result carries; `symbol` is LaTeX without
    dollar signs.
    """
    return xr.Variable(
        dims,
        values,
        {"long_name": long_name, "units": units, "symbol": symbol, "equation": equation, **more},
    )


def words_along(dim: str, words: Iterable[str], long_name: str) -> xr.Variable:
    """Return words as the coordinate along a dim, such as the forms along `gram`.

    >>> words_along("swap", ["none", "norms"], "ingredients measured").values
    array(['none', 'norms'], dtype=object)
    """
    return xr.Variable((dim,), np.array(list(words), dtype=object), {"long_name": long_name})


SINK_VISIBLE: Final = Variable(
    "sink_visible", "the analysed query sees the sink", symbol=r"0 \in V", dims=("layer",)
)


def sink_flag(capture: xr.Dataset) -> xr.Variable:
    """Return sink_visible (layer) as a result's variable."""
    return xr.Variable(
        SINK_VISIBLE.dims, capture["sink_visible"].values.astype(bool), SINK_VISIBLE.attributes
    )
