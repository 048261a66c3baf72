"""Reading of the runs to be compared: opened, refused where they cannot be compared, and reduced to
what is kept of them. Imports the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import xarray as xr

from empirical.store.remote.origin import called, url_of
from empirical.store.stored_run import StoredRun
from geostat.bounds.head import MEASURED as MEASURED_GRAM
from geostat.comparison.comparability import LETTERS, Held, document_keys
from geostat.datasets.parts import parts
from geostat.datasets.queries import MEASURED
from geostat.errors import InputError
from geostat.runs.files import store_path
from geostat.runs.groups import tree_of
from geostat.verdicts.answers import refuse_older

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
MAY_HOLD: Final = ("queries", "effective")
MOST_RUNS: Final = len(LETTERS)
"""How many runs can stand side by side: one a letter."""


def opened(sources: Sequence[Source]) -> list[StoredRun | xr.DataTree]:
    """Open two runs or more, each confronted with the theory.

    Raises:
        InputError: for what is no list, fewer than two runs or too many, a run that is given twice,
            is none, or is not confronted.
        StoreError: for a damaged one.
    """
    if isinstance(sources, str | Path | xr.DataTree):
        raise InputError(
            f"compare({type(sources).__name__}): expected a list of runs. Put them in square"
            " brackets."
        )
    if not 2 <= len(sources) <= MOST_RUNS:
        seen = (
            "no run"
            if not sources
            else f"{name_of(sources[0])} alone"
            if len(sources) == 1
            else f"{len(sources)} runs"
        )
        raise InputError(
            f"{seen} was given to compare, expected 2 to {MOST_RUNS} runs. Name them one after"
            " another."
        )
    runs: list[StoredRun | xr.DataTree] = []
    for source in sources:
        run = (
            source if isinstance(source, xr.DataTree) else StoredRun.open(store_path(Path(source)))
        )
        groups = run.children if isinstance(run, xr.DataTree) else ("capture", *run.results)
        if lacks := ", ".join(f"/{group}" for group in NEEDED if group not in groups):
            raise InputError(
                f"{name_of(run)}: holds no {lacks}, expected a run confronted with the theory. Run"
                " `geostat fit` and `geostat confront` on it first."
            )
        runs.append(run)
    marks = [run.path.resolve() if isinstance(run, StoredRun) else id(run) for run in runs]
    if twice := [source for at, source in enumerate(sources) if marks[at] in marks[:at]]:
        raise InputError(
            f"{name_of(twice[0])}: stands in the comparison twice, expected runs that differ. Name"
            " each run once."
        )
    return runs


def name_of(source: Source | StoredRun) -> str:
    """What a run is called in a line: its URL or path, where it has one."""
    if isinstance(source, xr.DataTree):
        return "a DataTree"
    return called(source.path) if isinstance(source, StoredRun) else url_of(source) or str(source)


def groups_of(run: StoredRun | xr.DataTree) -> tuple[dict[str, xr.Dataset], dict[str, Any]]:
    """What a run holds of NEEDED but the bounds at each head's own cosines, whose coverage says
    nothing of a head (docs/studies/bounds.md); and its attributes.
    """
    if isinstance(run, StoredRun):
        attrs, measured = run.attributes, run.attributes["manifest"]["captured"]
        groups = {
            name: run.read(name)
            for name in (*NEEDED, *MAY_HOLD)
            if name in measured or name in run.results or name in NEEDED
        }
    else:
        attrs, measured = {str(name): value for name, value in run.attrs.items()}, run.children
        groups = {
            name: run[name].to_dataset()
            for name in (*NEEDED, *MAY_HOLD)
            if name in NEEDED or name in measured
        }
    refuse_older(name_of(run), groups)
    effective = groups.pop("effective", None)
    widest = parts(tree_of(groups, attrs))[0]
    groups = {name: widest[name].to_dataset() for name in groups}
    attrs = {str(name): value for name, value in widest.attrs.items()}
    groups |= {
        name: groups[name].sel(gram=groups[name]["gram"] != MEASURED_GRAM)
        for name in ("envelope", "summary")
    }
    if effective is not None:
        groups["effective"] = effective
    return groups, attrs | {"null_measured": "null" in measured}


def reduced(groups: Mapping[str, xr.Dataset], attrs: dict[str, Any], path: Path | None) -> Held:
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
        if key not in MEASURED
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
