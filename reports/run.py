"""Groups of a run as datasets, and helpers shared by figures, captions and tables. Imports numpy,
pandas and xarray.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from reports.errors import InputError
from reports.text.number import count

FOLDER = "tokens_{}"
"""Folder of the figures and tables of a part, by its T."""
NEEDED = (
    *("capture", "norms", "similarity", "weights", "envelope", "summary"),
    *("display", "example", "head_curves"),
)
LABELS = ("layer", "head", "kv_head", "kv_head_of_head", "tokens")
"""Labels of /capture that must be integers: pages build names and commands from them."""


def _group(name: str) -> str:
    """Return the group of a field of `Run`."""
    return "heads" if name == "regimes" else name


def parts(tree: xr.DataTree) -> dict[str, xr.DataTree]:
    """Return the parts of a run by the folder of their files: one part per number T of visible
    tokens if layers differ in T (as `geostat.display.tree.with_display` splits them), otherwise the
    run itself with an empty folder name.
    """
    if tree.children and all(name.isdecimal() for name in tree.children):
        return {FOLDER.format(name): node for name, node in tree.children.items()}
    return {"": tree}


@dataclass(frozen=True, slots=True)
class Run:
    """Groups of a run as datasets; groups with default None are optional."""

    attrs: dict[str, Any]
    capture: xr.Dataset
    norms: xr.Dataset
    similarity: xr.Dataset
    weights: xr.Dataset
    envelope: xr.Dataset
    summary: xr.Dataset
    display: xr.Dataset
    """Derived for display: pooled heads and documents; its attributes hold the paper's values."""
    example: xr.Dataset
    head_curves: xr.Dataset
    """Curves of every head, for the explorer."""
    verdicts: xr.Dataset | None = None
    sink: xr.Dataset | None = None
    sinks_found: xr.Dataset | None = None
    regimes: xr.Dataset | None = None
    """/heads."""
    separable: xr.Dataset | None = None
    ingredients: xr.Dataset | None = None
    sensitivity: xr.Dataset | None = None
    predictive: xr.Dataset | None = None
    pooled: xr.Dataset | None = None
    sphere: xr.Dataset | None = None
    """Derived for display, like `contributions`."""
    contributions: xr.Dataset | None = None
    optional: Mapping[str, xr.Dataset] = field(default_factory=dict)
    """Further groups by name, such as those of experiments."""

    @classmethod
    def of(cls, tree: xr.DataTree) -> Run:
        """Read a run as `geostat.display.tree.with_display` returns it.

        Raises:
            InputError: if a required group is missing, or labels are not integers.
        """
        for name in NEEDED:
            if name not in tree.children:
                raise InputError(
                    f"the run has no /{name}; expected {', '.join(NEEDED)}. Fit and confront it"
                    " first; open the run again to see saved results."
                )
        groups = {
            known.name: tree[name].to_dataset() if name in tree.children else None
            for known in fields(cls)
            if (name := _group(known.name)) not in ("attrs", "optional")
        }
        others = tree.children.keys() - {_group(name) for name in groups}
        for name in LABELS:
            labels = groups["capture"].get(name)  # type: ignore[union-attr]
            if labels is None or labels.dtype.kind not in "iu":
                raise InputError(
                    f"the labels {name} of /capture are not integers; expected integers, as geostat"
                    " measures them. Measure the run again."
                )
        attrs = {str(name): value for name, value in tree.attrs.items()}
        optional = {name: tree[name].to_dataset() for name in sorted(others)}
        return cls(attrs=attrs, optional=optional, **groups)  # type: ignore[arg-type]

    def group(self, name: str) -> xr.Dataset | None:
        """Return an optional group; None if the run lacks it."""
        found: xr.Dataset | None = getattr(self, name, None)
        return self.optional.get(name) if found is None else found

    def needed(
        self, name: str, expected: str = "results of a confrontation. Confront it again."
    ) -> xr.Dataset:
        """Return an optional group; `expected` names its content, and the remedy if it is missing.

        Raises:
            InputError: if the run lacks it.
        """
        data = self.group(name)
        if data is None:
            raise InputError(f"the run has no /{_group(name)}; expected {expected}")
        return data

    @property
    def costs_by_n(self) -> xr.Dataset | None:
        """Return /ingredients with costs at each N; None if missing or of an earlier geostat."""
        data = self.ingredients
        known = data is not None and "recall_cost_by_n" in data and data.sizes["n_envelope"] > 0
        return data if known else None

    @property
    def effective_layers(self) -> xr.Dataset | None:
        """N* of single layers with selection by weight, dims (layer, mode, tau); None for fewer
        than two layers.
        """
        data = self.group("effective")
        if data is None or "n_star" not in data or "attention" not in data["rule"].values:
            return None
        documents = np.arange(data.sizes["document"])
        numbers = [re.fullmatch(r"layer (\d+)", str(scope)) for scope in data["scope"].values]
        layers = sorted(int(number[1]) for number in numbers if number)
        data = data.sel(scope=[f"layer {layer}" for layer in layers], rule="attention")
        data = data[["n_star", "n_star_lower", "n_star_upper"]]
        data = data.drop_vars("scope").rename(scope="layer").assign_coords(layer=layers)
        data = data.isel(layer=data["n_star"].notnull().any(("mode", "tau")).values)
        return data.assign_coords(document=documents) if data.sizes["layer"] > 1 else None

    @property
    def heads_cut(self) -> xr.Dataset | None:
        """/ablation of single heads or of budgets, with the drawn modes as attribute `shown`:
        renormalisation, or the first mode measured.
        """
        data = self.group("ablation")
        if data is None:
            return None
        shown = {}
        for name in ("head_rise", "budget_rise"):
            if name in data:
                rise = data[name]
                known = rise.notnull().any([dim for dim in rise.dims if dim != "mode"])
                modes = [str(mode) for mode in rise["mode"].values[known.values]]
                shown[name] = "renormalisation" if "renormalisation" in modes else modes[0]
        return data.assign_attrs(shown=shown) if shown else None

    @property
    def documents(self) -> int:
        """Number K of documents."""
        return self.capture.sizes["document"]

    @property
    def heads(self) -> int:
        """Number of query heads over all layers."""
        return self.capture.sizes["layer"] * self.capture.sizes["head"]

    @property
    def kv_heads(self) -> int:
        """Number of KV heads over all layers."""
        return self.capture.sizes["layer"] * self.capture.sizes["kv_head"]

    @property
    def kv_head_of_head(self) -> np.ndarray:
        """Index along `kv_head` of each head's KV head."""
        labels = pd.Index(self.capture["kv_head_of_head"].values)
        return self.capture.get_index("kv_head").get_indexer(labels)

    @property
    def rivals(self) -> xr.Dataset | None:
        """/similarity if rival forms were compared, otherwise None."""
        return self.similarity if "lowest_bic" in self.similarity else None

    def counted(self, noun: str) -> str:
        """Return the number of documents, heads or KV heads with the noun: `8 documents`."""
        numbers = {"document": self.documents, "head": self.heads, "KV head": self.kv_heads}
        return count(numbers[noun], noun)

    @property
    def queries(self) -> str:
        """Analysed queries of a document in words: "the last query", "the last 16 queries"."""
        return str(self.display.attrs["queries"])

    @property
    def positions(self) -> int:
        """Number of tokens of a document."""
        return self.capture.sizes["position"]

    @property
    def tokens(self) -> int:
        """Number T of tokens that the last query sees, equal in all layers of the run or part."""
        return int(self.capture["tokens"].max())

    @property
    def dimension(self) -> int | None:
        """Size d of a head's value states; None if the provenance lacks it."""
        model = self.attrs.get("model")
        known = (
            attrs.get("dimension")
            for attrs in (model, self.capture.attrs)
            if isinstance(attrs, dict)
        )
        return next((int(size) for size in known if size is not None), None)

    @property
    def small_size(self) -> int:
        """N at which heads are compared."""
        return int(self.display.attrs["small_size"])

    @property
    def bounds(self) -> list[tuple[str, str]]:
        """Every (edition, gram), in the run's order."""
        return [
            (str(edition), str(gram))
            for edition in self.envelope["edition"].values
            for gram in self.envelope["gram"].values
        ]

    @property
    def drawn_bounds(self) -> list[tuple[str, str]]:
        """Pairs (edition, gram) that figures draw: printed bounds with the exponential Gram and
        sharp bounds with the offset Gram, if available.
        """
        pairs = self.bounds
        return [
            pair for pair in (("printed", "exponential"), ("sharp", "offset")) if pair in pairs
        ] or pairs[:1]

    def name_of(self, layer: int, head: int) -> str:
        """Return the name of a head from its indices: `L5H3`."""
        return f"L{self.capture['layer'].values[layer]}H{self.capture['head'].values[head]}"


def at_size(curve: xr.DataArray, n: int) -> float:
    """Return the entry of a curve over n at size `n`; NaN if missing.

    >>> at_size(xr.DataArray([0.5, 0.25], coords={"n": [2, 4]}, dims="n"), 4)
    0.25
    """
    return float(curve.reindex(n=[n]).item())


def with_limits(data: xr.Dataset, name: str) -> tuple[float, float, float]:
    """Return a scalar variable and its limits; NaN if missing."""
    value, low, high = (float(data.get(f"{name}{end}", np.nan)) for end in ("", "_lower", "_upper"))
    return value, low, high


def each(data: xr.Dataset, *dims: str, known: str = "") -> Iterator[xr.Dataset]:
    """Yield the dataset at each index along dimensions, the last dimension fastest; only where the
    variable `known`, if given, has a finite entry.
    """
    for index in np.ndindex(*(data.sizes[dim] for dim in dims)):
        selected = data.isel(dict(zip(dims, index, strict=True)))
        if not known or np.isfinite(selected[known].values).any():
            yield selected


def documents_of(data: xr.Dataset) -> str:
    """Return the number of documents of a group with the noun: `8 documents`."""
    return count(data.sizes["document"], "document")


def of_score(data: xr.Dataset, score: str) -> xr.Dataset:
    """Return a group with the variables of one score under names without the score, and `score` as
    a coordinate.
    """
    names = {name: str(name).removeprefix(f"{score}_") for name in data.data_vars}
    return data.rename(names).assign_coords(score=score)


NULLS = {
    "random_selection": "random selection",
    "random_directions": "random directions",
    "permuted_values": "permuted values",
    "permuted_sink": "permuted values, random direction of the sink",
    "permuted_octaves": "values permuted within octaves of rank",
    "other_head": "values of another KV head",
    "floor": "floor $N/T$",
}
"""Names of null baselines."""
SCORES = {"precision": "Precision $P$", "recall": "Recall $R$"}
"""Names of both scores in figures and tables."""


SYMBOLS = {
    "precision": "$P$",
    "recall": "$R$",
    "f_outer": r"$F(r_{\max})$",
    "f_inner": r"$F(r_{\min})$",
}
"""Symbols of all scores."""


def words_of(data: xr.Dataset) -> dict[int, str]:
    """Return the words of answers by code."""
    return {int(code): word for code, word in json.loads(str(data.attrs["answers"])).items()}


def codes_of(data: xr.Dataset) -> dict[str, int]:
    """Return the codes of answers by word."""
    return {word: code for code, word in words_of(data).items()}


def claims_of(data: xr.Dataset | None) -> list[dict[str, Any]]:
    """Return the claims of /verdicts, or of a comparison, with counts; empty without verdicts."""
    return [] if data is None else list(json.loads(str(data.attrs["claims"])))


def column(data: xr.Dataset, claim: Mapping[str, Any], name: str = "answer") -> np.ndarray:
    """Return answer codes, or another variable, of one claim, (layer, head); NaN if missing."""
    of = claim["of"]
    answer = data[f"answer_{of}"]
    values = data.get(f"{name}_{of}", np.nan * answer)
    return values.sel({f"claim_{of}": claim["key"]}).transpose("layer", of).values


def listed(attrs: Mapping[Any, Any], name: str) -> list[str]:
    """Return an attribute as a list of texts; a single stored text gives one item, a missing
    attribute none.

    Raises:
        InputError: if the attribute is neither a text nor a sequence.
    """
    texts = attrs.get(name)
    if texts is None or isinstance(texts, str):
        return [texts] if texts else []
    if not isinstance(texts, list | tuple | np.ndarray):
        raise InputError(
            f"The attribute {name} is {texts!r}, expected a list of texts. Run `geostat confront`"
            " on the run to write it again."
        )
    return [str(text) for text in texts]


RESULT = {"key", "answer", "verdict", "number", "counts"}
"""Required fields of a key result."""


def key_results(summary: Mapping[Any, Any]) -> list[dict[str, Any]]:
    """Return the key results among the attributes of /summary; empty without the attribute.

    Raises:
        InputError: if an entry is not a key result.
    """
    results = []
    for line in listed(summary, "key_results"):
        try:
            results.append(json.loads(line))
        except ValueError:
            results.append(line)
        if not (isinstance(results[-1], dict) and results[-1].keys() >= RESULT):
            raise InputError(
                f"The attribute key_results contains {line!r:.60}, expected a key result. Run"
                " `geostat confront` on the run to write it again."
            )
    return results


def notes(data: xr.Dataset) -> str:
    """Return the notes of a group on undetermined quantities."""
    return " ".join(str(note) for note in data.attrs.get("notes", ()))


MEASURED_GRAM_NOTE = (
    "Bounds with the measured Gram, the cosines measured in each head, test nothing: the noise of"
    " the values enters both the curve and the bound, and even heads simulated from the model of"
    " the bounds lie outside."
)
"""Note on coverage by bounds with measured cosines; tests/geostat/bounds/test_own_cosines.py
simulates such heads.
"""


def measured_gram_note(run: Run) -> str:
    """Return the note on the measured Gram, with a leading space, if the run has such bounds."""
    return f" {MEASURED_GRAM_NOTE}" if any(gram == "measured" for _, gram in run.bounds) else ""
