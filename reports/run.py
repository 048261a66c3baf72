"""The groups of one run as datasets, and what figures, captions and tables ask of them. Imports
numpy and xarray.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from reports.errors import InputError
from reports.optional import MAKERS, heads_cut, single_layers
from reports.text.number import count

FOLDER = "tokens_{}"
"""Where figures and tables of a part lie, by its T."""
NEEDED = (
    *("capture", "norms", "similarity", "weights", "envelope", "summary"),
    *("display", "example", "head_curves"),
)
LABELS = ("layer", "head", "kv_head", "kv_head_of_head", "tokens")
"""Labels of /capture that are whole numbers: pages make names and commands of them."""
OPTIONAL = (
    "verdicts",
    "sink",
    "sinks_found",
    "heads",
    "separable",
    "ingredients",
    "sensitivity",
    "predictive",
    "pooled",
    "effective",
    "ablation",
    "normaliser",
    "sphere",
    "contributions",
)


def parts(tree: xr.DataTree) -> dict[str, xr.DataTree]:
    """Runs to be shown apart, by the folder of their files: of a run whose layers see different
    numbers T of tokens those of each T, as `geostat.display.tree.with_display` leaves them; else
    the run itself, whose files need none.
    """
    if tree.children and all(name.isdecimal() for name in tree.children):
        return {FOLDER.format(name): node for name, node in tree.children.items()}
    return {"": tree}


@dataclass(frozen=True, slots=True)
class Run:
    """The groups of one run as datasets; those that default to None a run may lack."""

    attrs: dict[str, Any]
    capture: xr.Dataset
    norms: xr.Dataset
    similarity: xr.Dataset
    weights: xr.Dataset
    envelope: xr.Dataset
    summary: xr.Dataset
    display: xr.Dataset
    """Derived to be shown: heads and documents pooled; the paper's figures are its attributes."""
    example: xr.Dataset
    head_curves: xr.Dataset
    """Curves of every head, for a page that shows one at a time."""
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
    effective: xr.Dataset | None = None
    ablation: xr.Dataset | None = None
    normaliser: xr.Dataset | None = None
    sphere: xr.Dataset | None = None
    """Derived to be shown, as the next."""
    contributions: xr.Dataset | None = None

    @classmethod
    def of(cls, tree: xr.DataTree) -> Run:
        """Read a run as `geostat.display.tree.with_display` returns it; an InputError names the
        group that is missing.
        """
        for name in NEEDED:
            if name not in tree.children:
                raise InputError(
                    f"the run holds no /{name}; expected {', '.join(NEEDED)}. Fit and confront it"
                    " first; what was saved is there once the run is opened again."
                )
        groups = {
            name: tree[name].to_dataset() if name in tree.children else None
            for name in (*NEEDED, *OPTIONAL)
        }
        for name in LABELS:
            labels = groups["capture"].get(name)  # type: ignore[union-attr]
            if labels is None or labels.dtype.kind not in "iu":
                raise InputError(
                    f"the labels {name} of /capture are no whole numbers, which all that geostat"
                    " measures has. Measure the run anew."
                )
        attrs = {str(name): value for name, value in tree.attrs.items()}
        return cls(attrs=attrs, regimes=groups.pop("heads"), **groups)  # type: ignore[arg-type]

    def needed(self, name: str) -> xr.Dataset:
        """A group that a run may lack; an InputError if it does."""
        data: xr.Dataset | None = getattr(self, name)
        if data is None:
            expected = MAKERS.get(name, "what a confrontation makes. Confront it again.")
            raise InputError(
                f"the run holds no /{'heads' if name == 'regimes' else name}; expected {expected}"
            )
        return data

    @property
    def effective_layers(self) -> xr.Dataset | None:
        """N* of single layers, (layer, mode, tau)."""
        return None if self.effective is None else single_layers(self.effective)

    @property
    def heads_cut(self) -> xr.Dataset | None:
        """Those of /ablation that a figure shows."""
        return None if self.ablation is None else heads_cut(self.ablation)

    @property
    def documents(self) -> int:
        """Number K."""
        return self.capture.sizes["document"]

    @property
    def heads(self) -> int:
        """Number of query heads over all layers."""
        return self.capture.sizes["layer"] * self.capture.sizes["head"]

    @property
    def kv_heads(self) -> int:
        """Number of value heads over all layers."""
        return self.capture.sizes["layer"] * self.capture.sizes["kv_head"]

    @property
    def value_heads(self) -> np.ndarray:
        """The index of each head's value head, whose label is `kv_head_of_head`."""
        labels = pd.Index(self.capture["kv_head_of_head"].values)
        return self.capture.get_index("kv_head").get_indexer(labels)

    @property
    def rivals(self) -> xr.Dataset | None:
        """The fits of similarity where forms were compared; None of a run that did not."""
        return self.similarity if "lowest_bic" in self.similarity else None

    def counted(self, noun: str) -> str:
        """How many documents, heads or value heads there are, with their noun: `8 documents`."""
        return count(
            {"document": self.documents, "head": self.heads, "value head": self.kv_heads}[noun],
            noun,
        )

    @property
    def queries(self) -> str:
        """Which queries of a document were analysed: "the last query", "the last 16 queries"."""
        return str(self.display.attrs["queries"])

    @property
    def positions(self) -> int:
        """Tokens of a document."""
        return self.capture.sizes["position"]

    @property
    def tokens(self) -> int:
        """Tokens T that the last query of these layers sees: all see as many."""
        return int(self.capture["tokens"].max())

    @property
    def dimension(self) -> int | None:
        """Size d of a head's value states, where the provenance tells."""
        model = self.attrs.get("model")
        known = (
            attrs.get("dimension")
            for attrs in (model, self.capture.attrs)
            if isinstance(attrs, dict)
        )
        return next((int(size) for size in known if size is not None), None)

    @property
    def small_size(self) -> int:
        """The N at which heads are compared."""
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
        """The (edition, gram) that figures draw: printed with the paper's exponential Gram,
        sharp with the offset one; what there is.
        """
        pairs = self.bounds
        return [
            pair for pair in (("printed", "exponential"), ("sharp", "offset")) if pair in pairs
        ] or pairs[:1]

    def name_of(self, layer: int, head: int) -> str:
        """A head's name, by index: `L5H3`."""
        return f"L{self.capture['layer'].values[layer]}H{self.capture['head'].values[head]}"


def at_size(curve: xr.DataArray, n: int) -> float:
    """The entry of a curve over n at size `n`; NaN where the run holds none.

    >>> at_size(xr.DataArray([0.5, 0.25], coords={"n": [2, 4]}, dims="n"), 4)
    0.25
    """
    where = np.flatnonzero(curve["n"].values == n)
    return float(curve.values[where[0]]) if where.size else float("nan")


NULLS = {
    "random_selection": "random selection",
    "random_directions": "random directions",
    "floor": "floor $N/T$",
}
"""How null baselines are called."""


def words_of(data: xr.Dataset) -> dict[int, str]:
    """What the codes of answers stand for."""
    return {int(code): word for code, word in json.loads(str(data.attrs["answers"])).items()}


def column(data: xr.Dataset, claim: Mapping[str, Any], name: str = "answer") -> np.ndarray:
    """Codes of answers, or one of the numbers beside them, of one claim, (layer, head); NaN where
    the run does not keep it.
    """
    of = claim["of"]
    answer = data[f"answer_{of}"]
    values = data.get(f"{name}_{of}", np.nan * answer)
    return values.sel({f"claim_{of}": claim["key"]}).transpose("layer", of).values


def listed(attrs: Mapping[Any, Any], name: str) -> list[str]:
    """The texts of an attribute, of which one alone may have been stored as a text; none where
    it is missing.
    """
    texts = attrs.get(name)
    if texts is None or isinstance(texts, str):
        return [texts] if texts else []
    if not isinstance(texts, list | tuple | np.ndarray):
        raise InputError(
            f"The attribute {name} is {texts!r}, expected texts. Run `geostat confront` on the run"
            " to write it anew."
        )
    return [str(text) for text in texts]


RESULT = {"key", "answer", "verdict", "number", "counts"}
"""What a key result tells."""


def key_results(summary: Mapping[Any, Any]) -> list[dict[str, Any]]:
    """The key results among a /summary's attributes; none of one made before there were any."""
    found = []
    for line in listed(summary, "key_results"):
        try:
            found.append(json.loads(line))
        except ValueError:
            found.append(line)
        if not (isinstance(found[-1], dict) and found[-1].keys() >= RESULT):
            raise InputError(
                f"The attribute key_results holds {line!r:.60}, expected what a key result tells."
                " Run `geostat confront` on the run to write it anew."
            )
    return found


def notes(data: xr.Dataset) -> str:
    """What a group could not determine, in its own words."""
    return " ".join(str(note) for note in data.attrs.get("notes", ()))


OWN_COSINES = (
    "The measured Gram, each head’s own cosines, tests nothing: these scatter as the values do, so"
    " the scatter enters twice, and even heads drawn from the bounds’ own model lie outside."
)
"""Why coverage by bounds at a head's own cosines says nothing of the head;
tests/geostat/bounds/test_own_cosines.py draws such heads.
"""


def own_cosines(run: Run) -> str:
    """A note, behind a space, for a run that holds bounds at each head's own cosines; else
    nothing.
    """
    return f" {OWN_COSINES}" if any(gram == "measured" for _, gram in run.bounds) else ""
