"""Several runs side by side: each run's numbers with errors, their differences, and what the paper
reports beside them, as one dataset.

Runs are read one by one and reduced to numbers; their heads are not kept. Source of what is
reported: arXiv 2602.01893, in `geostat.paper`. Imports numpy, xarray, and the store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from empirical.store.store import Store
from geostat.comparison.comparability import LETTERS, SETTINGS, Held, names_of, notes
from geostat.comparison.curves import beside, results, spreads
from geostat.comparison.differences import differences
from geostat.comparison.quantities import Quantity, Scalar, quantities, scalars
from geostat.comparison.reading import Source, groups_of, name_of, opened, reduced
from geostat.comparison.token_needs import (
    lacking,
    like_targets,
    token_need_scalars,
    token_needs,
)
from geostat.datasets.variable import Value, Variable, variables
from geostat.errors import shown_whole
from geostat.paper import REPORTED
from geostat.runs.console import QUIET, Console
from geostat.statistics.jackknife import SIGNIFICANCE, Estimate
from geostat.verdicts.answers import claim_rows
from reports.text.number import count, rounded
from reports.text.printable import printable, printable_data

_JACKKNIFE: Final = {"interval": "95% document jackknife, t(K-1); correlations on Fisher's z"}
_estimate = partial(Variable, dims=("run", "quantity"), more=_JACKKNIFE)
ESTIMATES: Final = (
    _estimate("estimate", "the mean over heads", symbol=r"\hat\theta", estimated=True),
    _estimate("at_n", "size N of a largest value"),
    Variable("heads", "heads it is averaged over", dims=("run", "quantity")),
    Variable("documents", "documents", dims=("run",)),
)

DIFFERENCES_SAID: Final = 4
"""How many differences a pair's sentence names, the clearest; the table has all."""


def compare(
    sources: Sequence[Source], *, quick: bool = False, console: Console = QUIET
) -> xr.Dataset:
    """Lay runs side by side.

    Args:
        sources: two to `reading.MOST_RUNS` runs, each a store, the folder that holds it, or a tree
            that `geostat.open` returned; their letters A, B, … go by their order.
        quick: leave coverage without standard errors, which need every fitted bound by document: as
            long as to confront each run again.
        console: where progress is told.

    Returns:
        Over (run, quantity) ESTIMATES, and over (pair, quantity) DIFFERENCES, of the first run
        minus the second, with the coordinates long_name, symbol, units and equation of each
        quantity; over (run, parameter, quartile) spread; over (run, claim) counts of answers; over
        (run, edition, gram) P's and R's _inside, _outside, _width; over (run, n) correlation and
        unattenuated with _lower, _upper, P and R with _se; over (run, null, n) their gains; over
        (run, criterion, regime) regime_heads; over (run, form) and (run, rival) heads whose cosines
        or weights prefer it. What a run lacks is NaN. Attributes: notes (what hampers the
        comparison), sentences, reported (JSON), letters.

    Raises:
        InputError: for fewer than two runs or too many, a run that is given twice, is none, or is
            not confronted.
        StoreError: for a damaged one.
    """
    held: list[Held] = []
    by_run: list[dict[str, Scalar]] = []
    for source, run in zip(sources, opened(sources), strict=True):
        console.stage(f"read {name_of(source)}")
        with shown_whole(name_of(source)):
            groups, attrs = groups_of(run)
            found = scalars(
                groups,
                coverage_errors=not quick,
                progress=partial(console.fraction, "bounds by document"),
            )
            if "effective" in groups:
                heads = groups["capture"].sizes["layer"] * groups["capture"].sizes["head"]
                found |= token_need_scalars(groups["effective"], heads)
            by_run.append(found)
            held.append(reduced(groups, attrs, run.path if isinstance(run, Store) else None))
    with shown_whole(", ".join(map(name_of, sources))):
        return _side_by_side(held, by_run)


def _side_by_side(held: Sequence[Held], by_run: Sequence[Mapping[str, Scalar]]) -> xr.Dataset:
    """The dataset of runs that have been reduced to numbers, with what is said of them."""
    names = names_of([printable(one.model) for one in held], [one.path for one in held])
    asked = quantities(list(dict.fromkeys(pair for one in held for pair in one.pairs)))
    other_targets = like_targets(held)
    missing = [] if other_targets else lacking(held, by_run)
    if not other_targets:
        asked += [one for one in token_needs() if any(one.key in found for found in by_run)]
    parts = [
        _estimates(held, by_run, asked),
        differences(held, by_run, asked),
        spreads(held),
        beside([results(one) for one in held]),
    ]
    data = xr.merge(parts, combine_attrs="drop_conflicts", join="exact")
    data = data.assign_coords(
        run=("run", np.array(names, dtype=object), {"long_name": "run"})
    ).assign_coords(_facts(held))
    provenance = [
        {name: value for name, value in one.attrs.items() if name != "null_measured"}
        for one in held
    ]
    claims = {row["key"]: row for one in held for row in claim_rows(one.groups["verdicts"])}
    data.attrs = {
        "long_name": "runs side by side",
        "letters": list(LETTERS[: len(held)]),
        "notes": [*notes(held), *other_targets, *missing],
        "reported": json.dumps(_reported(asked), ensure_ascii=False),
        "claims": json.dumps(list(claims.values()), ensure_ascii=False),
        "provenance": json.dumps(provenance, default=str),
        "significance": SIGNIFICANCE,
        "topics": json.dumps({topic: what for topic, (what, *_) in SETTINGS.items()}),
    }
    data.attrs["sentences"] = sentences(data)
    return data


def _reported(asked: Sequence[Quantity]) -> list[dict[str, Any]]:
    """What the authors report; of effective sizes only where runs hold some."""
    needs = {one.key for one in token_needs()} - {one.key for one in asked}
    return [row for row in REPORTED if not needs & set(row["beside"])]


def as_json(data: xr.Dataset) -> dict[str, Any]:
    """A comparison as JSON knows it: runs, notes, sentences, every estimate and difference, what
    is reported; None where nothing is known.
    """

    def of(at: xr.Dataset, *names: str) -> dict[str, Any]:
        values = {name: float(at[name]) for name in names}
        return {name: value if np.isfinite(value) else None for name, value in values.items()}

    letters, keys = list(data.attrs["letters"]), [str(key) for key in data["quantity"].values]
    parts = ("", "_se", "_lower", "_upper")
    of_run = (*(f"estimate{part}" for part in parts), "at_n", "heads")
    of_pair = (*(f"difference{part}" for part in parts), "p", "p_holm")
    estimates, runs = {}, []
    for row, letter in enumerate(letters):
        run = data.isel(run=row)
        estimates[letter] = {key: of(run.sel(quantity=key), *of_run) for key in keys}
        runs.append(
            {
                "letter": letter,
                "name": str(run["run"].item()),
                "path": str(run["path"].item()),
                "documents": int(run["documents"]),
            }
        )
    differences: dict[str, Any] = {}
    for pair in data["pair"].values:
        cells = {key: data.sel(pair=pair, quantity=key) for key in keys}
        differences[str(pair)] = {
            key: of(cell, *of_pair) | {"minds": str(cell["minds"].item()).split()}
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


def _estimates(
    held: Sequence[Held], by_run: Sequence[Mapping[str, Scalar]], asked: Sequence[Quantity]
) -> xr.Dataset:
    """Each run's numbers, over (run, quantity)."""
    shape = (len(held), len(asked))
    limits = ("value", "se", "lower", "upper")
    parts: dict[str, Any] = {name: np.full(shape, np.nan) for name in limits}
    at_n, heads = np.full(shape, np.nan), np.zeros(shape, dtype=np.int64)
    for row, run in enumerate(by_run):
        for column, quantity in enumerate(asked):
            if (scalar := run.get(quantity.key)) is not None:
                estimate = scalar.jackknifed()
                for name, part in parts.items():
                    part[row, column] = getattr(estimate, name)
                at_n[row, column], heads[row, column] = scalar.at, scalar.heads
    numbers: dict[str, Value] = {
        "estimate": Estimate(**parts),
        "at_n": at_n,
        "heads": heads,
        "documents": np.array([one.sizes["document"] for one in held]),
    }
    data = xr.Dataset(variables(ESTIMATES, numbers))
    texts = ("long_name", "symbol", "equation", "over")
    coords: dict[Any, Any] = {
        name: ("quantity", np.array([getattr(one, name) for one in asked], dtype=object))
        for name in texts
    }
    return data.assign_coords(
        quantity=np.array([one.key for one in asked], dtype=object),
        units=("quantity", np.array(["1"] * len(asked), dtype=object)),
        **coords,
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
        name: (
            "run",
            np.array(printable_data(values), dtype=object if isinstance(values[0], str) else None),
        )
        for name, values in facts.items()
    }


def sentences(data: xr.Dataset) -> list[str]:
    """Say, pair by pair, what differs beyond noise, and what does not."""
    out = []
    for pair in range(data.sizes["pair"]):
        at = data.isel(pair=pair)
        p = at["p_holm"].values
        tested, differs = np.isfinite(p), np.nan_to_num(p, nan=1.0) <= SIGNIFICANCE
        first, second = str(at["pair"].item()).split(" − ")
        if not tested.any():
            out.append(
                f"{first} and {second}: nothing can be told from noise, as a run has one document"
                " or no quantity in common."
            )
            continue
        of = count(int(tested.sum()), "quantity", "quantities")
        line = (
            f"{first} and {second} ({at['pairing'].item()}) differ beyond noise in"
            f" {int(differs.sum())} of {of}"
        )
        if differs.any():
            with np.errstate(divide="ignore"):
                strength = np.where(
                    differs, np.abs(at["difference"].values) / at["difference_se"].values, -np.inf
                )
            order = [index for index in np.argsort(-strength, kind="stable") if differs[index]]
            clearest = []
            for one in (at.isel(quantity=index) for index in order[:DIFFERENCES_SAID]):
                number = rounded(float(one["difference"]), float(one["difference_se"])).plain
                clearest.append(f"{one['long_name'].item()} ({number.replace('-', '−')})")
            line += f"; most clearly: {', '.join(clearest)}"
        line += "."
        minds = {topic for words in at["minds"].values[differs] for topic in words.split()}
        if minds:
            *others, last = (what for topic, (what, *_) in SETTINGS.items() if topic in minds)
            named = f"{', '.join(others)} and {last}" if others else last
            line += f" Their {named} differ too, which may be why."
        out.append(line)
    return out
