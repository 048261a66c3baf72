"""Several runs side by side: each run's numbers with errors, their differences, and what the paper
reports beside them, as one dataset.

Runs are read one by one and reduced to numbers; their heads are not kept. Source of what is
reported: arXiv 2602.01893, in `geostat.paper`. Imports numpy, xarray, and the store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr

from empirical.store.store import Store
from geostat.bounds.head import MEASURED
from geostat.comparison.comparability import (
    LETTERS,
    OF_EVERYTHING,
    SETTINGS,
    Held,
    differing,
    document_keys,
    names_of,
    notes,
    pairing,
    shared,
)
from geostat.comparison.curves import beside, results, spreads
from geostat.comparison.scalars import Difference, Quantity, Scalar, difference, quantities, scalars
from geostat.comparison.sentences import sentences
from geostat.datasets.variable import Value, Variable, variables
from geostat.errors import InputError
from geostat.paper import REPORTED
from geostat.runs.console import QUIET, Console
from geostat.runs.files import store_path
from geostat.statistics.jackknife import SIGNIFICANCE
from geostat.statistics.multiple_testing import adjusted
from geostat.statistics.t_test import two_sided
from geostat.verdicts.answers import claim_rows, refuse_older

Source = str | Path | xr.DataTree
"""A run: its store, the folder that holds it, or what `geostat.open` returned."""
NEEDED: Final = (
    "capture",
    "norms",
    "similarity",
    "weights",
    "envelope",
    "sink",
    "heads",
    "separable",
    "verdicts",
    "summary",
)
MOST_RUNS: Final = len(LETTERS)
_JACKKNIFE: Final = {"interval": "95% document jackknife, t(K-1); correlations on Fisher's z"}
_estimate = partial(Variable, dims=("run", "quantity"), more=_JACKKNIFE)
_difference = partial(Variable, dims=("pair", "quantity"))
_pair = partial(Variable, dims=("pair",))
JACKKNIFED: Final = ("estimate", "estimate_se", "estimate_lower", "estimate_upper", "at_n")
ESTIMATES: Final = (
    _estimate("estimate", "mean over heads"),
    _estimate("estimate_se", "its standard error over documents"),
    _estimate("estimate_lower", "its lower limit"),
    _estimate("estimate_upper", "its upper limit"),
    _estimate("at_n", "size N of a largest value"),
    Variable("heads", "heads it is averaged over", dims=("run", "quantity")),
    Variable("documents", "documents", dims=("run",)),
)
DIFFERENCES: Final = (
    _difference("difference", "first run's number minus the second's"),
    _difference("difference_se", "standard error of the first run's number minus the second's"),
    _difference("difference_lower", "lower limit of the first run's number minus the second's"),
    _difference("difference_upper", "upper limit of the first run's number minus the second's"),
    _difference("degrees", "degrees of freedom of the difference"),
    _difference("p", "two-sided p-value of the difference"),
    _difference("p_holm", "the same, Holm over all differences here"),
    _difference("minds", "settings that differ and bear on the difference"),
    _pair("shared", "documents that both runs hold"),
    _pair("pairing", "how the standard error was made"),
    _pair("first", "index of the first run"),
    _pair("second", "index of the second run"),
)


def compare(
    sources: Sequence[Source], *, quick: bool = False, console: Console = QUIET
) -> xr.Dataset:
    """Lay runs side by side.

    Args:
        sources: two runs or more, each confronted with the theory.
        quick: leave coverage without standard errors, which need every fitted bound by document: as
            long as to confront each run again.
        console: told what is done.

    Returns:
        Over (run, quantity) ESTIMATES, and over (pair, quantity) DIFFERENCES, of the first run
        minus the second, with the coordinates long_name, symbol, units and equation of each
        quantity. What a run lacks is NaN. Over

        - (run, parameter, quartile): spread;
        - (run, claim): counts of answers;
        - (run, edition, gram): P's and R's _inside, _outside, _width;
        - (run, n): correlation, unattenuated with _lower, _upper; P and R with _se;
        - (run, null, n): their gains;
        - (run, criterion, regime): regime_heads;
        - (run, form) and (run, rival): heads whose cosines or weights prefer it.

        Attributes: notes (what hampers the comparison), sentences, reported (JSON), letters.

    Raises:
        InputError: for fewer than two runs or too many, a run that is given twice, is none, or is
            not confronted.
        StoreError: for a damaged one.
    """
    if not 2 <= len(sources) <= MOST_RUNS:
        seen = (
            "no run"
            if not sources
            else f"{_name_of(sources[0])} alone"
            if len(sources) == 1
            else f"{len(sources)} runs"
        )
        raise InputError(
            f"{seen} was given to compare, expected 2 to {MOST_RUNS} runs. Name them one after"
            " another."
        )
    runs = [_opened(source) for source in sources]
    marks = [run.path.resolve() if isinstance(run, Store) else id(run) for run in runs]
    if twice := [source for at, source in enumerate(sources) if marks[at] in marks[:at]]:
        raise InputError(
            f"{_name_of(twice[0])}: stands in the comparison twice, expected runs that differ. Name"
            " each run once."
        )
    held: list[Held] = []
    by_run: list[dict[str, Scalar]] = []
    for source, run in zip(sources, runs, strict=True):
        console.stage(f"read {_name_of(source)}")
        groups, attrs = _groups(run)
        by_run.append(
            scalars(
                groups,
                coverage_errors=not quick,
                progress=partial(console.fraction, "bounds by document"),
            )
        )
        held.append(_reduced(groups, attrs, run.path if isinstance(run, Store) else None))
    names = names_of([one.model for one in held], [one.path for one in held])
    asked = quantities(list(dict.fromkeys(pair for one in held for pair in one.pairs)))
    parts = [
        _estimates(held, by_run, asked),
        _differences(held, by_run, asked),
        spreads(held),
        beside([results(one) for one in held]),
    ]
    data = xr.merge(parts, combine_attrs="drop_conflicts", join="exact")
    data = data.assign_coords(run=("run", _labels(names), {"long_name": "run"})).assign_coords(
        _facts(held)
    )
    provenance = [
        {name: value for name, value in one.attrs.items() if name != "null_measured"}
        for one in held
    ]
    claims = {row["key"]: row for one in held for row in claim_rows(one.groups["verdicts"])}
    data.attrs = {
        "long_name": "runs side by side",
        "letters": list(LETTERS[: len(held)]),
        "notes": notes(held),
        "reported": json.dumps(REPORTED, ensure_ascii=False),
        "claims": json.dumps(list(claims.values()), ensure_ascii=False),
        "provenance": json.dumps(provenance, default=str),
        "significance": SIGNIFICANCE,
        "topics": json.dumps({topic: what for topic, (what, *_) in SETTINGS.items()}),
    }
    data.attrs["sentences"] = sentences(data)
    return data


def as_json(data: xr.Dataset) -> dict[str, Any]:
    """A comparison as JSON knows it: runs, notes, sentences, every estimate and difference, what
    is reported; None where nothing is known.
    """

    def of(at: xr.Dataset, *names: str) -> dict[str, Any]:
        values = {name: float(at[name]) for name in names}
        return {name: value if np.isfinite(value) else None for name, value in values.items()}

    letters, keys = list(data.attrs["letters"]), [str(key) for key in data["quantity"].values]
    estimates, runs = {}, []
    for place, letter in enumerate(letters):
        run = data.isel(run=place)
        estimates[letter] = {key: of(run.sel(quantity=key), *JACKKNIFED, "heads") for key in keys}
        runs.append(
            {
                "letter": letter,
                "name": str(run["run"].item()),
                "path": str(run["path"].item()),
                "documents": int(run["documents"]),
            }
        )
    names = ("difference", "difference_se", "difference_lower", "difference_upper", "p", "p_holm")
    differences: dict[str, Any] = {}
    for pair in data["pair"].values:
        cells = {key: data.sel(pair=pair, quantity=key) for key in keys}
        differences[str(pair)] = {
            key: of(cell, *names) | {"minds": str(cell["minds"].item()).split()}
            for key, cell in cells.items()
        }
    return {
        "runs": runs,
        "notes": list(data.attrs["notes"]),
        "sentences": list(data.attrs["sentences"]),
        "estimates": estimates,
        "differences": differences,
        "reported": json.loads(data.attrs["reported"]),
    }


def _name_of(source: Source | Store) -> str:
    return (
        "a DataTree"
        if isinstance(source, xr.DataTree)
        else str(source.path if isinstance(source, Store) else source)
    )


def _opened(source: Source) -> Store | xr.DataTree:
    """Open a run; refused where it is none, or not confronted."""
    run = source if isinstance(source, xr.DataTree) else Store.open(store_path(Path(source)))
    groups = run.children if isinstance(run, xr.DataTree) else ("capture", *run.results)
    lacks = ", ".join(f"/{group}" for group in NEEDED if group not in groups)
    if lacks:
        raise InputError(
            f"{_name_of(run)}: holds no {lacks}, expected a run confronted with the theory. Run"
            " `geostat fit` and `geostat confront` on it first."
        )
    return run


def _groups(run: Store | xr.DataTree) -> tuple[dict[str, xr.Dataset], dict[str, Any]]:
    """What a run holds of NEEDED but the bounds at each head's own cosines, whose coverage says
    nothing of a head (docs/bounds.md); and its attributes.
    """
    if isinstance(run, Store):
        attrs, measured = run.attributes, run.attributes["manifest"]["captured"]
        groups = {name: run.read(name) for name in NEEDED}
    else:
        attrs, measured = {str(name): value for name, value in run.attrs.items()}, run.children
        groups = {name: run[name].to_dataset() for name in NEEDED}
    refuse_older(_name_of(run), groups)
    groups |= {
        name: groups[name].sel(gram=groups[name]["gram"] != MEASURED)
        for name in ("envelope", "summary")
    }
    return groups, attrs | {"null_measured": "null" in measured}


def _reduced(groups: Mapping[str, xr.Dataset], attrs: dict[str, Any], path: Path | None) -> Held:
    """Forget what is large of a run."""
    capture = groups["capture"]
    rows = (attrs.get("manifest") or {}).get("documents") or [
        {"name": str(name)} for name in capture["document"].values
    ]
    model = attrs.get("model")
    name = (model.get("id") or model.get("model")) if isinstance(model, dict) else model
    kept = {
        key: data.drop_dims(("position", "document"), errors="ignore")
        for key, data in groups.items()
        if key != "capture"
    }
    return Held(
        model=str(name or "unnamed model"),
        path=path,
        attrs=attrs,
        sizes={str(dim): size for dim, size in capture.sizes.items()},
        groups=kept,
        n=capture["n"].values,
        tokens=capture["tokens"].values,
        null=bool(attrs["null_measured"]),
        documents=document_keys(rows),
        windows=tuple(str(row.get("sha256")) for row in rows),
    )


def _labels(names: Sequence[str]) -> np.ndarray:
    return np.array(list(names), dtype=object)


def _estimates(
    held: Sequence[Held], by_run: Sequence[Mapping[str, Scalar]], asked: Sequence[Quantity]
) -> xr.Dataset:
    """Each run's numbers, over (run, quantity)."""
    shape = (len(held), len(asked))
    table = {name: np.full(shape, np.nan) for name in JACKKNIFED}
    heads = np.zeros(shape, dtype=np.int64)
    for row, run in enumerate(by_run):
        for column, quantity in enumerate(asked):
            if (scalar := run.get(quantity.key)) is not None:
                spread = scalar.jackknifed()
                for name, value in zip(
                    JACKKNIFED,
                    (scalar.estimate, spread.se, spread.lower, spread.upper, scalar.at),
                    strict=True,
                ):
                    table[name][row, column] = value
                heads[row, column] = scalar.heads
    numbers: dict[str, Value] = {
        **table,
        "heads": heads,
        "documents": np.array([one.sizes["document"] for one in held]),
    }
    data = xr.Dataset(variables(ESTIMATES, numbers))
    texts = ("long_name", "symbol", "equation", "over")
    coords: dict[Any, Any] = {
        name: ("quantity", _labels([getattr(one, name) for one in asked])) for name in texts
    }
    return data.assign_coords(
        quantity=_labels([one.key for one in asked]),
        units=("quantity", _labels(["1"] * len(asked))),
        **coords,
    )


def _differences(
    held: Sequence[Held], by_run: Sequence[Mapping[str, Scalar]], asked: Sequence[Quantity]
) -> xr.Dataset:
    """Every run minus every later one, over (pair, quantity)."""
    places = list(combinations(range(len(held)), 2))
    shape = (len(places), len(asked))
    grid, minds = np.full(shape, Difference(), dtype=object), np.full(shape, "", dtype=object)
    for row, (one, other) in enumerate(places):
        topics = differing(held[one], held[other])
        for column, quantity in enumerate(asked):
            first, second = (by_run[at].get(quantity.key) for at in (one, other))
            if first is not None and second is not None:
                grid[row, column] = difference(
                    first, second, (held[one].documents, held[other].documents)
                )
            minds[row, column] = " ".join(
                topic for topic in SETTINGS if topic in topics & {*OF_EVERYTHING, *quantity.minds}
            )
    part = {
        name: np.array([[getattr(cell, name) for cell in row] for row in grid])
        for name in Difference.__dataclass_fields__
    }
    p = two_sided(part["value"], part["se"], part["degrees"])
    both = [(held[one], held[other]) for one, other in places]
    numbers: dict[str, Value] = {
        "difference": part["value"],
        "degrees": part["degrees"],
        **{f"difference_{name}": part[name] for name in ("se", "lower", "upper")},
        "p": p,
        "p_holm": adjusted(p.ravel(), "holm").reshape(shape),
        "minds": minds,
        "shared": np.array([shared(one, other) for one, other in both]),
        "pairing": _labels([pairing(one, other) for one, other in both]),
        **{
            name: np.array([place[end] for place in places])
            for end, name in enumerate(("first", "second"))
        },
    }
    data = xr.Dataset(variables(DIFFERENCES, numbers))
    return data.assign_coords(
        pair=_labels([f"{LETTERS[one]} − {LETTERS[other]}" for one, other in places])
    )


def _facts(held: Sequence[Held]) -> dict[str, Any]:
    """What a run is, as coordinates along run."""
    facts: dict[str, list[Any]] = {
        "model": [one.model for one in held],
        "text": [one.text for one in held],
        "path": [str(one.path or "") for one in held],
        "tokens": [one.sizes["position"] for one in held],
        "layers": [one.sizes["layer"] for one in held],
        "heads_a_layer": [one.sizes["head"] for one in held],
        "value_heads_a_layer": [one.sizes["kv_head"] for one in held],
        "convention": [str(one.attrs.get("convention")) for one in held],
    }
    return {
        name: ("run", _labels(values) if isinstance(values[0], str) else np.array(values))
        for name, values in facts.items()
    }
