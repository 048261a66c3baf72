"""Explorer of heads: packed data for a map of all heads, the curves of one head, and bounds with
one parameter changed.

`explorer.js` fills the Vega-Lite charts of `charts.json` from the arrays packed here: typed arrays,
gzip-compressed and base64-encoded, with a directory of offsets. Quantities are stored as float32
and curves as 16-bit integers: value = offset + scale·code, exact to half of 1/65,534 of an array's
range; the code −32768 is a missing value. Imports numpy, xarray and vl-convert, which contains
Vega's bundle.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from reports.run import Run, claims_of, column, words_of
from reports.text.latex import prose_html
from reports.topics.rivals import form_text
from reports.topics.verdicts import tolerance

SCORES: Final = {
    "precision": "Precision",
    "recall": "Recall",
    "f_outer": "F at the outer radius",
    "f_inner": "F at the inner radius",
}
LIMITS: Final = ("", "_lower", "_upper")
CURVES: Final = ("norm", "cosine", "weight", *SCORES)
NULLS: Final = ("random_selection", "random_directions", "permuted_values")
BOUNDED: Final = ("precision", "recall")
"""Scores of the what-if panel."""
GROUPS: Final = ("verdicts", "norms", "similarity", "weights", "envelope", "regimes")
"""Groups whose variables are quantities by head, in the order of the menu."""
EXCLUDED: Final = ("_se", "_lower", "_upper", "_skew", "_without", "flags", "_reason")
"""Suffixes of variables that accompany a quantity, such as errors, limits and reasons."""
INDEX: Final = {
    ("similarity", "chosen"): "gram",
    ("weights", "form_chosen"): "form",
    ("weights", "preferred"): "rival",
}
"""Variables that hold indices along a dimension, whose labels are their words."""
HEADS: Final = ("head", "kv_head")
PARAMETERS: Final = {
    "beta": ("β", "decay of similarity, 1/token"),
    "c": ("c", "cosine at large lag"),
    "rho0": ("ρ₀", "cosine with the sink"),
    "lam": ("λ", "norm of the sink over the mean content norm"),
    "d": ("d", "size of the value space"),
}
"""Symbol and meaning of each parameter. The page builds commands from these names, so it shows no
others.
"""
DIMS: Final = ("layer", "parameter", "step", "n_envelope")
"""Dimensions of bounds; values of parameters lack the last one."""
MISSING: Final = -32768
LARGEST: Final = 32767


@dataclass(slots=True)
class Pack:
    """Concatenated arrays with a directory for reading them."""

    directory: dict[str, dict[str, Any]] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0

    def add_float32(self, name: str, values: NDArray[Any]) -> None:
        """Store an array as float32; values beyond its range become infinite, which the page treats
        as missing.
        """
        with np.errstate(over="ignore"):
            self._store(name, np.asarray(values, dtype="<f4"), {"kind": "float"})

    def add_int16(self, arrays: Mapping[str, NDArray[Any]], *, logarithm: bool = False) -> None:
        """Store arrays as 16-bit integers with a common scale, which preserves the order of a value
        and its limits. With `logarithm`, logarithms are stored, and values that are not positive
        are missing.
        """
        numbers = {name: np.asarray(values, dtype=np.float64) for name, values in arrays.items()}
        if logarithm:
            numbers = {
                name: np.log(values, where=values > 0, out=np.full(values.shape, np.nan))
                for name, values in numbers.items()
            }
        known = np.concatenate([values[np.isfinite(values)] for values in numbers.values()])
        low, high = (known.min(), known.max()) if known.size else (0.0, 0.0)
        offset, scale = (low + high) / 2, (high - low) / (2 * LARGEST) or 1.0
        encoding = {"kind": "code", "offset": float(offset), "scale": float(scale)}
        for name, values in numbers.items():
            codes = np.full(values.shape, MISSING, dtype="<i2")
            finite = np.isfinite(values)
            codes[finite] = np.rint((values[finite] - offset) / scale)
            self._store(name, codes, encoding | {"logarithm": logarithm})

    def _store(self, name: str, array: NDArray[Any], encoding: dict[str, Any]) -> None:
        piece = array.tobytes()
        piece += b"\0" * (-len(piece) % 4)  # align the next array for float32
        self.directory[name] = encoding | {"shape": list(array.shape), "start": self.size}
        self.pieces.append(piece)
        self.size += len(piece)

    def base64(self) -> str:
        """Return all arrays, compressed, as base64; equal arrays give equal text."""
        return base64.b64encode(gzip.compress(b"".join(self.pieces), mtime=0)).decode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One value per head or KV head: entry of the menu, and arrays (layer, head) by the suffix of
    their name.

    Suffixes: "" for the values; " lower" and " upper" for their limits; " end" for the limit of the
    range at which a fit stopped, whose value is no estimate and NaN in the values.
    """

    menu: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def _quantity(
    key: str, label: str, unit: str, of: str, words: Any, arrays: dict[str, NDArray[Any]]
) -> Quantity:
    """Return a quantity; `words` name the codes of a categorical quantity."""
    unit = "" if unit == "1" else unit
    menu: dict[str, Any] = {"key": key, "label": label, "unit": unit, "of": of}
    menu |= {"limits": " lower" in arrays, "ends": " end" in arrays, "words": words}
    return Quantity(menu=menu, arrays=arrays)


def quantities(run: Run) -> list[Quantity]:
    """Return every quantity by head of a run: verdicts, estimates with limits, all others."""
    all_quantities: list[Quantity] = []
    for group in GROUPS:
        data: xr.Dataset | None = getattr(run, group)
        if data is not None:
            all_quantities += _verdicts(data) if group == "verdicts" else _of_group(group, data)
    known = [quantity for quantity in all_quantities if np.isfinite(quantity.arrays[""]).any()]

    def order(quantity: Quantity) -> tuple[bool, bool]:
        return not quantity.menu["key"].startswith("verdicts."), not quantity.menu["limits"]

    return sorted(known, key=order)


def _verdicts(data: xr.Dataset) -> Iterator[Quantity]:
    words = words_of(data)
    for claim in claims_of(data):
        key, label = f"verdicts.{claim['key']}", f"verdict: {claim['says']}"
        yield _quantity(key, label, "", claim["of"], words, {"": column(data, claim)})


def _of_group(group: str, data: xr.Dataset) -> Iterator[Quantity]:
    for name in sorted(map(str, data.data_vars)):
        dims = data[name].dims
        of = next((dim for dim in HEADS if dim in dims), None)
        rest = [str(dim) for dim in dims if dim not in ("layer", of)]
        if name.endswith(EXCLUDED) or of is None or "layer" not in dims or len(rest) > 1:
            continue
        if not rest:
            yield _of_variable(group, name, data, of, {})
        elif (dim := rest[0]) in data.coords and dim != "document":
            for label in data[dim].values if data[dim].dtype.kind not in "iuf" else ():
                yield _of_variable(group, name, data, of, {dim: label})


def _of_variable(
    group: str, name: str, data: xr.Dataset, of: str, labels: dict[str, Any]
) -> Quantity:
    """Return the quantity of a variable at labels of a further dimension."""

    def array(name: str) -> NDArray[Any]:
        return data[name].sel(labels).transpose("layer", of).values

    attrs, values = data[name].attrs, array(name)
    arrays = {"": values}
    if f"{name}_lower" in data and f"{name}_upper" in data:
        arrays |= {f" {side}": array(f"{name}_{side}") for side in ("lower", "upper")}
    if values.dtype.kind == "f" and (at_bound := f"{name}_at_bound") in data:
        stopped = array(at_bound).astype(bool)
        if (stopped & np.isfinite(values)).any():
            arrays[""] = np.where(stopped, np.nan, values)
            arrays[" end"] = np.where(stopped, values, np.nan)
    where = "".join(f", {dim} {label}" for dim, label in labels.items())
    words = {0: "no", 1: "yes"} if values.dtype == bool else None
    if (along := INDEX.get((group, name))) is not None:
        words = dict(enumerate(map(str, data[along].values))) | {-1: "undetermined"}
    if "codes" in attrs:
        pairs = (str(code).partition(" ") for code in attrs["codes"])
        words = {int(code): word for code, _, word in pairs}
    arrays[""] = np.where(np.isfinite(arrays[""]), arrays[""], np.nan).astype(np.float64)
    meaning = str(attrs.get("long_name", name)).partition("; codes")[0]
    label = f"{meaning}{where} ({'heads' if group == 'regimes' else group}.{name})"
    key = ".".join([group, name, *map(str, labels.values())])
    return _quantity(key, label, str(attrs.get("units", "")), of, words, arrays)


def what_if(run: Run, pack: Pack) -> dict[str, Any] | None:
    """Pack /sensitivity; return None if it is missing, or no head has a complete fit."""
    data = run.sensitivity
    if data is None or not (data["of_head"] >= 0).any():
        return None
    # all parts of a run share their sizes N, and a part may see fewer tokens
    data = data.isel(
        n_envelope=np.flatnonzero(data["n_envelope"].values < run.tokens),
        parameter=[
            index for index, name in enumerate(data["parameter"].values) if str(name) in PARAMETERS
        ],
    )
    if not data.sizes["n_envelope"] or not data.sizes["parameter"]:
        return None
    for score in BOUNDED:
        sides = {
            f"what if {score} {side}": np.clip(
                data[f"{score}_{side}"].transpose(*DIMS).values, 0, 1
            )
            for side in ("lower", "upper")
        }
        measured = data[score].transpose("layer", "n_envelope").values
        pack.add_int16(sides | {f"what if {score}": measured})
    rows = run.attrs.get("manifest", {}).get("documents", [])
    for name in ("value", "moved"):
        pack.add_float32(f"what if {name}", data[name].transpose(*DIMS[:-1]).values)
    return {
        "of_head": data["of_head"].values.tolist(),
        "n": data["n_envelope"].values.tolist(),
        "steps": data["step"].values.tolist(),
        "parameters": [(str(name), *PARAMETERS[str(name)]) for name in data["parameter"].values],
        "scores": [(score, SCORES[score]) for score in BOUNDED],
        "median_at": int(data.attrs["median_at"]),
        "document": str(rows[0].get("name") or "") if rows else "",
    }


@dataclass(frozen=True, slots=True)
class Explorer:
    """Data of the explorer: catalogue of choices, and packed arrays."""

    catalogue: dict[str, Any]
    arrays: str


def explorer(run: Run) -> Explorer:
    """Pack the quantities, curves and verdicts of every head of a run."""
    pack = Pack()
    catalogue = _axes(run) | {
        "quantities": _quantities(run, pack),
        "claims": _claims(run, pack),
        "arrays": pack.directory,
    }
    _curves(run, pack)
    catalogue["what_if"] = what_if(run, pack)
    return Explorer(catalogue, pack.base64())


@cache
def vega_bundle() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script, from vl-convert, for offline pages."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _axes(run: Run) -> dict[str, Any]:
    """Return the heads, and the axes of curves."""
    capture, curves, envelope = run.capture, run.head_curves, run.envelope
    return {
        "layers": capture["layer"].values.tolist(),
        "heads": capture["head"].values.tolist(),
        "kv_heads": capture["kv_head"].values.tolist(),
        "kv_head_of_head": capture["kv_head_of_head"].values.tolist(),
        "position": curves["position_mean"].values.tolist(),
        "lag": curves["lag_mean"].values.tolist(),
        "n": envelope["n_envelope"].values.tolist(),
        "forms": [
            (form, form_text(run.similarity, "gram", form))
            for form in map(str, curves["form"].values)
        ],
        "editions": list(map(str, envelope["edition"].values)),
        "grams": list(map(str, envelope["gram"].values)),
        "scores": list(_scores(run).items()),
        "nulls": [null for null in NULLS if f"precision_{null}" in curves],
        "first_position": run.positions - run.tokens,
        "documents": run.documents,
    }


def _scores(run: Run) -> dict[str, str]:
    """Return the scores in a run with their names."""
    return {name: words for name, words in SCORES.items() if name in run.head_curves}


def _quantities(run: Run, pack: Pack) -> list[dict[str, Any]]:
    """Pack every quantity; scores, with one value per head and N, come first."""
    menu: list[dict[str, Any]] = [
        {"key": name, "label": f"{words} at N", "unit": "", "of": "head", "curve": True}
        for name, words in _scores(run).items()
    ]
    for quantity in quantities(run):
        for suffix, values in quantity.arrays.items():
            pack.add_float32(quantity.menu["key"] + suffix, values)
        menu.append(quantity.menu)
    return menu


def _claims(run: Run, pack: Pack) -> list[dict[str, Any]]:
    """Pack the evidence of each verdict; empty without verdicts."""
    if run.verdicts is None:
        return []
    claims = claims_of(run.verdicts)
    names = json.loads(str(run.verdicts.attrs.get("bounds", "{}")))
    for claim in claims:
        for name in ("estimate", "lower", "upper", "cell_bound", "cell_n"):
            pack.add_float32(f"{claim['key']} {name}", column(run.verdicts, claim, name))
    return [
        {
            "key": claim["key"],
            "says": claim["says"],
            "html": str(prose_html(claim["says"])),
            "of": claim["of"],
            "tolerance": tolerance(claim),
            "unit": "" if claim["units"] == "1" else claim["units"],
            "bounds": names if claim["key"].startswith("bounds.") else None,
        }
        for claim in claims
    ]


def _curves(run: Run, pack: Pack) -> None:
    curves, envelope = run.head_curves, run.envelope
    for name in CURVES:
        measured = [f"{name}{end}" for end in LIMITS]
        for names in (measured, [f"{name}_fitted"]):
            known = {
                variable: _ordered(curves[variable]) for variable in names if variable in curves
            }
            if known:
                pack.add_int16(known, logarithm=name == "weight")
    for score in SCORES:
        for null in NULLS:
            if f"{score}_{null}" in curves:
                pack.add_int16({f"{score}_{null}": _ordered(curves[f"{score}_{null}"])})
        for side in ("lower", "upper"):
            if f"{score}_{side}" in envelope:
                bound = envelope[f"{score}_{side}"].clip(0, 1)
                if score == "f_inner":  # the printed bound is void: erratum 18
                    bound = bound.where(bound["edition"] != "printed")
                pack.add_int16({f"{score}_bound_{side}": _ordered(bound)})


def _ordered(values: xr.DataArray) -> NDArray[Any]:
    """Order dimensions: choices, then layer and head, then the axis of the curve."""
    last = [dim for dim in values.dims if dim in ("block", "lag_block", "n_envelope")]
    heads = [dim for dim in ("layer", "head", "kv_head") if dim in values.dims]
    first = [dim for dim in values.dims if dim not in (*heads, *last)]
    return np.asarray(values.transpose(*first, *heads, *last).values)
