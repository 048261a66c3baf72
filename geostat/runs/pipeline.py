"""The main job, stage by stage: capture → fit → confront → report. Every stage reads and writes the one store of a run.

Imports all three rooms. `geostat.cli.app` and the functions of `geostat` call this and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import xarray as xr

from empirical.capture.capture import capture
from empirical.capture.observer import Observer
from empirical.capture.observers import Baselines, Geometry, refuse_unknown_heads
from empirical.measure.selection import Convention
from empirical.paths import path_of
from empirical.sources import builtin, models, texts
from empirical.sources import windows as corpus
from empirical.store.manifest import stored
from empirical.store.store import Store
from geostat.bounds.envelope import confront
from geostat.bounds.evaluate import EDITIONS, ENVELOPE_POINTS
from geostat.bounds.ingredients import swap_ingredients
from geostat.bounds.observer import MeasuredEnvelope
from geostat.bounds.predictive.curves import predictive_curves
from geostat.errors import InputError
from geostat.experiments.chance import compare_with_nulls
from geostat.experiments.head_regimes import classify_heads
from geostat.experiments.sink import correlate_with_sink
from geostat.fits.norms.fit import fit_norms
from geostat.fits.pooled.fit import fit_pooled
from geostat.fits.similarity.fit import fit_similarity
from geostat.fits.weights.fit import fit_weights
from geostat.runs.console import QUIET, Console
from geostat.runs.paths import refuse_unwritable, store_path
from geostat.runs.record import capture_session, seconds_of, timed
from geostat.runs.settings import Settings, refuse_text_as_model, sizes
from geostat.verdicts.claims import Tolerance
from geostat.verdicts.give import give_verdicts, refuse_older
from geostat.verdicts.sentences import summarise
from theory.head.results import Edition

__all__ = [
    "Settings",
    "experiments",
    "fit",
    "lay_over",
    "measure",
    "outdated",
    "run",
    "sizes",
    "write_figures",
    "write_report",
    "write_tables",
]

CONFRONTED = ("envelope", "ingredients", "predictive", "sink", "heads", "separable", "verdicts", "summary")
"""Groups that rest on the fits: they go when the fits or the envelope are made anew, so that none outlives what it was made from."""


def text_of(settings: Settings) -> corpus.Corpus:
    """Find the asked-for text; it is read when windows are cut from it.

    Raises:
        InputError: if it is not there.
    """
    if settings.dataset:
        return texts.from_hub(settings.dataset, split=settings.split, field=settings.field)
    return texts.from_paths(settings.text, field=settings.field) if settings.text else texts.builtin()


def find_model(settings: Settings) -> models.FoundModel:
    """Find the asked-for model, and refuse what can be refused before its weights are read.

    Raises:
        InputError: if it is not there, cannot be measured, or has no such heads.
    """
    found = models.find(
        settings.model,
        revision=settings.revision,
        dtype=settings.dtype,
        device=settings.device,
        trust_remote_code=settings.trust_remote_code,
        allow_pickle=settings.allow_pickle,
    )
    found.refuse_unreadable(settings.length)
    if found.heads is not None:
        layers, heads = found.heads
        refuse_unknown_heads(settings.heads, layers=layers, heads=heads)
    return found


def measure(settings: Settings, out: Path, *, fresh: bool = False, null: bool = True, console: Console = QUIET) -> Store:
    """Capture the run that `settings` describe into `out`; an equal run that stopped early is completed.

    With `fresh` a run that stands there is thrown away, once the first document of the new one is complete.

    Raises:
        InputError: for bad settings, text or model, something at `out` that is no run, or a run of other settings (unless `fresh`).
        StoreError: if the run there is damaged (unless `fresh`; not even then if its manifest cannot be read).
    """
    n = sizes(settings.n, settings.length)
    path = path_of(store_path(out))
    if path.exists():
        stored(path, damaged=fresh)  # refuses what is no run
    refuse_unwritable(path.parent)
    refuse_text_as_model(settings)
    with capture_session(path) as kept:
        if settings.model in (None, "builtin") and (notice := builtin.told()):
            console.stage(notice)
        console.stage("read the text")
        documents, found = text_of(settings), find_model(settings)
        windows = corpus.windows(
            documents, found.tokenizer, length=settings.length, count=settings.documents, special_tokens=settings.special_tokens
        )
        console.stage("load the model")
        model = found.load()
        console.stage("capture")
        observers: list[Observer] = [Geometry(named=settings.heads), *([Baselines()] if null else []), MeasuredEnvelope()]
        return capture(
            model,
            windows,
            path,
            observers=observers,
            n=n,
            convention=Convention(settings.convention),
            seed=settings.seed,
            batch=settings.batch,
            settings={"groups": [observer.group for observer in observers], "named_heads": [list(head) for head in settings.heads]},
            fresh=fresh,
            on_progress=console.captured,
            on_kept=kept.append,
        )


def fit(store: Store, *, console: Console = QUIET) -> dict[str, xr.Dataset]:
    """Fit Assumptions 1-3 and keep /norms, /similarity, /weights and /pooled in the store; what was made of earlier fits goes.

    Raises:
        InputError: if the run holds no complete document, or another process writes to it.
        StoreError: if the run is damaged.
    """
    found = {}
    with store.alone(), timed(store.path, "fit"):
        if not store.documents:
            raise InputError(f"{store.path}: holds no complete document. Run the same `geostat capture` again to go on with it.")
        captured = store.read("capture")
        for name, function in (("norms", fit_norms), ("similarity", fit_similarity), ("weights", fit_weights)):
            console.stage(f"fit {name}")
            found[name] = function(captured, progress=partial(console.fraction, f"fit {name}"))
        console.stage("fit pooled heads")
        found["pooled"] = fit_pooled(captured)
        store.put(found, drops=CONFRONTED)
    return found


def lay_over(
    store: Store,
    *,
    editions: Sequence[Edition] = EDITIONS,
    points: int | None = ENVELOPE_POINTS,
    held_against: Mapping[str, Tolerance] | None = None,
    swap: bool = False,
    predict: bool = False,
    console: Console = QUIET,
) -> dict[str, xr.Dataset]:
    """Evaluate the bounds from the fits, lay them over the measured curves, make the experiments, and give the verdicts.

    Keeps /envelope, /sink, /heads, /separable, /verdicts and /summary in the store, with `swap` /ingredients and with `predict` /predictive too
    (a few minutes each).

    Raises:
        InputError: if the run has no fits, or another process writes to it.
        StoreError: if the run is damaged.
    """
    with store.alone(), timed(store.path, "confront"):
        missing = sorted({"norms", "similarity", "weights"} - set(store.results))
        if missing:
            raise InputError(f"{store.path}: has no fits yet ({', '.join(missing)} missing). Run `geostat fit {store.path}` first.")
        console.stage("confront")
        tree = store.tree()
        found = {"envelope": confront(tree, editions=editions, points=points, progress=partial(console.fraction, "confront"))}
        if swap:
            console.stage("swap ingredients")
            found["ingredients"] = swap_ingredients(tree, progress=partial(console.fraction, "swap ingredients"))
        if predict:
            console.stage("predict curves")
            found["predictive"] = predictive_curves(tree, progress=partial(console.fraction, "predict curves"))
        console.stage("experiments")
        found |= experiments(tree)
        laid = xr.DataTree.from_dict({f"/{name}": node.to_dataset() for name, node in tree.children.items() if name not in CONFRONTED})
        laid["envelope"] = xr.DataTree(found["envelope"])
        laid.attrs = tree.attrs
        found |= {"verdicts": give_verdicts(laid, held_against), "summary": summarise(laid)}
        store.put(found, drops=CONFRONTED)
    return found


def write_report(store: Store, out: Path, *, console: Console = QUIET) -> Path:
    """Write report.html, figures and tables of a confronted run below `out`; returns the page's path."""
    from reports.page.page import write_page

    refuse_unwritable(out)
    tree = _confronted(store)
    with timed(store.path, "report"):
        console.stage("report")
        return write_page(tree, out, seconds=seconds_of(store.path))


def run(
    settings: Settings,
    out: Path,
    *,
    fresh: bool = False,
    null: bool = True,
    held_against: Mapping[str, Tolerance] | None = None,
    console: Console = QUIET,
) -> Path:
    """The main job; returns the path of the report."""
    store = measure(settings, out, fresh=fresh, null=null, console=console)
    fit(store, console=console)
    lay_over(store, held_against=held_against, console=console)
    return write_report(store, out if out.suffix != ".zarr" else out.parent, console=console)


def outdated(store: Store) -> str | None:
    """A line on what an earlier confrontation left beside the store, and the command that renews it; None where nothing lies there."""
    page, folder = store.path.with_name("report.html"), store.path.with_name("tables")
    if page.exists():
        return f"{page} is older than these numbers. Run `geostat report {store.path}` to renew it."
    if any(folder.glob("*.md")):
        return f"The tables in {folder} are older than these numbers. Run `geostat tables {store.path}` to renew them."
    return None


def write_tables(store: Store, out: Path) -> list[Path]:
    """Write the booktabs tables of a confronted run into `out`; returns their paths."""
    from reports.tables.every import write_tables as write

    refuse_unwritable(out)
    return write(_confronted(store), out)


def write_figures(store: Store, out: Path) -> list[Path]:
    """Write the figures of a confronted run into `out` as PDF and PNG; returns their paths."""
    from reports.figures.every import write_figures as write

    refuse_unwritable(out)
    return write(_confronted(store), out)


def _confronted(store: Store) -> xr.DataTree:
    if "summary" not in store.results:
        raise InputError(
            f"{store.path}: has not been confronted with the theory yet. Run `geostat fit` and `geostat confront` on it first."
        )
    tree = store.tree()
    refuse_older(str(store.path), tree)
    return tree


def experiments(tree: xr.DataTree) -> dict[str, xr.Dataset]:
    """Make every experiment of a run.

    Args:
        tree: a run with /capture and, if measured, /null.

    Returns:
        Datasets by the group they are kept in: sink, heads, separable.
    """
    capture = tree["capture"].to_dataset()
    null = tree["null"].to_dataset() if "null" in tree.children else None
    return {"sink": correlate_with_sink(capture), "heads": classify_heads(capture), "separable": compare_with_nulls(capture, null)}
