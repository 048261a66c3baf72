"""The main job, stage by stage: capture → fit → confront → report. Every stage reads and writes the
one store of a run. Only the capture imports torch, when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from empirical.store.store import Store
from geostat.datasets.queries import MEASURED
from geostat.errors import InputError
from geostat.runs import stages
from geostat.runs.console import QUIET, Console, compilation_told
from geostat.runs.files import refuse_unwritable, store_path, timed
from geostat.runs.groups import ASSUMPTIONS, CONFRONTED, FITTED, group_of, measured
from geostat.runs.render import write_report
from geostat.verdicts.tolerances import Tolerance

if TYPE_CHECKING:
    from geostat.runs.settings import Settings


def fit(store: Store, *, cluster: Any = None, console: Console = QUIET) -> dict[str, xr.Dataset]:
    """Fit Assumptions 1-3 and keep /norms, /similarity, /weights and /pooled in the store; what was
    made of earlier fits goes. cluster: as for `stages.fitted`.

    Raises:
        InputError: if the run holds no complete document, another process writes to it, or there
            are no such workers.
        StoreError: if the run is damaged.
    """
    with store.alone(), timed(store.path, "fit"), compilation_told(console):
        if not store.documents:
            raise InputError(
                f"{store.path}: holds no complete document. Run the same `geostat capture` again to"
                " go on with it."
            )
        captured = measured(store.tree(only=MEASURED))
        result = stages.fitted(captured, cluster=cluster, console=console)
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
    with store.alone(), timed(store.path, "confront"), compilation_told(console):
        missing = sorted(set(ASSUMPTIONS) - set(store.results))
        if missing:
            raise InputError(
                f"{store.path}: has no fits yet ({', '.join(missing)} missing). Run `geostat fit"
                f" {store.path}` first."
            )
        result = stages.confronted(store.tree(), console=console, **asked)
        store.put(result, drops=CONFRONTED)
    return result


def kept(
    make: Callable[[], dict[str, xr.Dataset]],
    run: xr.DataTree,
    save: str | Path | None,
    fits: xr.DataTree | None = None,
) -> dict[str, xr.Dataset]:
    """Make results of a run that is open and keep them in its store, with the fits that they were
    made from; what was made of earlier ones goes. Without `save` nothing is written.

    Args:
        make: makes results by group.
        run: the captured run.
        save: the store of that run, or the folder that holds it.
        fits: those that a confrontation is made from; None of fits themselves.

    Raises:
        InputError: if another run stands at `save`, or another process writes to it.
        StoreError: if it is damaged.
    """
    if save is None:
        return make()
    store = Store.open(store_path(Path(save)))
    with store.alone(), timed(store.path, "fit" if fits is None else "confront"):
        stored = store.tree(only=MEASURED)
        if any(not group_of(run, name).equals(stored[name].to_dataset()) for name in stored):
            raise InputError(
                f"save={str(save)!r}: holds another run, expected the store that this one was"
                " opened from. Name that one, or leave save out."
            )
        result = make()
        before = (
            {}
            if fits is None
            else {name: group_of(fits, name) for name in FITTED if name in fits.children}
        )
        store.put(before | result, drops=CONFRONTED)
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

    refuse_unwritable(folder := out if out.suffix != ".zarr" else out.parent)
    store = measure(settings, out, console=console, **how)
    fit(store, cluster=settings.cluster, console=console)
    confront(store, tolerances=tolerances, cluster=settings.cluster, console=console)
    return write_report(store, folder, console=console)
