"""Pipeline of a run: capture → fit → confront → report.

Every stage reads and writes the store of the run. Only the capture imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from empirical.store.store import Store
from geostat.datasets.separability import MEASURED
from geostat.errors import InputError
from geostat.runs import stages
from geostat.runs.console import QUIET, Console, compilation_reported
from geostat.runs.files import refuse_unwritable, store_path, timed
from geostat.runs.groups import ASSUMPTIONS, CONFRONTED, FITTED, group_of, measured
from geostat.runs.render import write_report
from geostat.topics.records import Tolerance

if TYPE_CHECKING:
    from geostat.runs.options import RunOptions


def fit(store: Store, *, cluster: Any = None, console: Console = QUIET) -> dict[str, xr.Dataset]:
    """Fit Assumptions 1-3 and write /norms, /similarity, /weights and /pooled into the store.

    Results of earlier fits are deleted. cluster: as for `stages.fitted`.

    Raises:
        InputError: if the run has no complete document, another process writes to it, or the
            workers cannot be reached.
        StoreError: if the run is damaged.
    """
    with store.alone(), timed(store.path, "fit"), compilation_reported(console):
        if not store.documents:
            raise InputError(
                f"{store.path}: holds no complete document. Run the same `geostat capture` again to"
                " resume it."
            )
        captured = measured(store.tree(only=MEASURED))
        result = stages.fitted(captured, cluster=cluster, console=console)
        store.put(result, drops=CONFRONTED)
    return result


def confront(store: Store, *, console: Console = QUIET, **kwargs: Any) -> dict[str, xr.Dataset]:
    """Evaluate the bounds from the fits, compare them with the measured curves, give the verdicts.

    Writes /envelope, /sink, /heads, /separable, /verdicts and /summary into the store; with `swap`
    also /ingredients and /sensitivity (half a minute), with `predict` also /predictive and
    /fitted (minutes). kwargs: as for `stages.confronted`.

    Raises:
        InputError: if the run has no fits, or another process writes to it.
        StoreError: if the run is damaged.
    """
    with store.alone(), timed(store.path, "confront"), compilation_reported(console):
        missing = sorted(set(ASSUMPTIONS) - set(store.results))
        if missing:
            raise InputError(
                f"{store.path}: has no fits yet ({', '.join(missing)} missing). Run `geostat fit"
                f" {store.path}` first."
            )
        result = stages.confronted(store.tree(), console=console, **kwargs)
        store.put(result, drops=CONFRONTED)
    return result


def computed_and_saved(
    compute: Callable[[], dict[str, xr.Dataset]],
    run: xr.DataTree,
    save: str | Path | None,
    fits: xr.DataTree | None = None,
) -> dict[str, xr.Dataset]:
    """Compute results of an open run and write them into its store.

    The fits that the results were computed from are written too; results of earlier fits are
    deleted. Without `save` nothing is written.

    Args:
        compute: returns results by group.
        run: the captured run.
        save: the store of that run, or its folder.
        fits: fits that a confrontation uses; None if `compute` returns fits.

    Raises:
        InputError: if `save` holds another run, or another process writes to it.
        StoreError: if the store is damaged.
    """
    if save is None:
        return compute()
    store = Store.open(store_path(Path(save)))
    with store.alone(), timed(store.path, "fit" if fits is None else "confront"):
        stored = store.tree(only=MEASURED)
        if any(not group_of(run, name).equals(stored[name].to_dataset()) for name in stored):
            raise InputError(
                f"save={str(save)!r}: holds another run, expected the store of this run. Name that"
                " store, or leave save out."
            )
        result = compute()
        fitted = (
            {}
            if fits is None
            else {name: group_of(fits, name) for name in FITTED if name in fits.children}
        )
        store.put(fitted | result, drops=CONFRONTED)
    return result


def run(
    options: RunOptions,
    *,
    tolerances: Mapping[str, Tolerance] | None = None,
    console: Console = QUIET,
) -> Path:
    """Run all stages and return the path of the report."""
    from geostat.runs.control import measure_control
    from geostat.runs.measurement import find_model, measure

    folder = options.out if options.out.suffix != ".zarr" else options.out.parent
    refuse_unwritable(folder)
    store = measure(options, console=console)
    if options.control == "untrained" and "control" not in store.results:
        with store.alone(), timed(store.path, "control"):
            model = find_model(options)
            control = measure_control(options, store, model, tolerances=tolerances, console=console)
            store.put({"control": control})
    fit(store, cluster=options.cluster, console=console)
    confront(store, tolerances=tolerances, cluster=options.cluster, console=console)
    return write_report(store, folder, console=console)
