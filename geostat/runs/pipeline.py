"""The main job, stage by stage: capture → fit → confront → report. Every stage reads and writes the
one store of a run. Only the capture imports torch, when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from empirical.store.store import Store
from geostat.datasets.queries import MEASURED
from geostat.errors import InputError
from geostat.runs import stages
from geostat.runs.console import QUIET, Console
from geostat.runs.files import timed
from geostat.runs.groups import ASSUMPTIONS, CONFRONTED, measured
from geostat.runs.render import write_report
from geostat.verdicts.tolerances import Tolerance

if TYPE_CHECKING:
    from geostat.runs.settings import Settings


def fit(store: Store, *, console: Console = QUIET) -> dict[str, xr.Dataset]:
    """Fit Assumptions 1-3 and keep /norms, /similarity, /weights and /pooled in the store; what was
    made of earlier fits goes.

    Raises:
        InputError: if the run holds no complete document, or another process writes to it.
        StoreError: if the run is damaged.
    """
    with store.alone(), timed(store.path, "fit"):
        if not store.documents:
            raise InputError(
                f"{store.path}: holds no complete document. Run the same `geostat capture` again to"
                " go on with it."
            )
        result = stages.fitted(measured(store.tree(only=MEASURED)), console=console)
        store.put(result, drops=CONFRONTED)
    return result


def confront(store: Store, *, console: Console = QUIET, **asked: Any) -> dict[str, xr.Dataset]:
    """Evaluate the bounds from the fits, lay them over the measured curves, make the experiments,
    and give the verdicts.

    Keeps /envelope, /sink, /heads, /separable, /verdicts and /summary in the store, with `swap`
    /ingredients and /sensitivity (half a minute) and with `predict` /predictive too (a few
    minutes). asked: what `stages.confronted` takes.

    Raises:
        InputError: if the run has no fits, or another process writes to it.
        StoreError: if the run is damaged.
    """
    with store.alone(), timed(store.path, "confront"):
        missing = sorted(set(ASSUMPTIONS) - set(store.results))
        if missing:
            raise InputError(
                f"{store.path}: has no fits yet ({', '.join(missing)} missing). Run `geostat fit"
                f" {store.path}` first."
            )
        result = stages.confronted(store.tree(), console=console, **asked)
        store.put(result, drops=CONFRONTED)
    return result


def run(
    settings: Settings,
    out: Path,
    *,
    tolerances: Mapping[str, Tolerance] | None = None,
    console: Console = QUIET,
    **how: Any,
) -> Path:
    """The main job; returns the path of the report. how: what else `measure` takes."""
    from geostat.runs.measurement import measure

    store = measure(settings, out, console=console, **how)
    fit(store, console=console)
    confront(store, tolerances=tolerances, console=console)
    return write_report(store, out if out.suffix != ".zarr" else out.parent, console=console)
