"""What every measurement of losses goes through: the run, the model with its head, what is known
already, and what becomes of an interruption. Imports torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from pathlib import Path

import numpy as np
import xarray as xr

from empirical.sources.given import HeldModel
from empirical.sources.texts import Corpus
from empirical.store.bundle import clear_away
from empirical.store.manifest import beside
from empirical.store.store import Store
from empirical.tap.refusals import refuse_headless
from geostat.errors import InputError
from geostat.experiments.effective_size import Cell
from geostat.runs import pipeline
from geostat.runs.console import QUIET, Console
from geostat.runs.effective.evaluations import Evaluations, FloatArray
from geostat.runs.effective.losses import Losses
from geostat.runs.effective.target import Target
from geostat.runs.files import timed
from geostat.runs.groups import ASSUMPTIONS
from geostat.runs.measurement import find_model, measure
from geostat.runs.settings import Settings, refuse_text_as_model

Read = Callable[[xr.Dataset], tuple[Mapping[Cell, FloatArray], Mapping[Cell, FloatArray]]]
"""From a group to the losses that it holds, the model's own under `PLAIN`, and sizes of sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which losses are measured, and of what."""

    group: str
    """The group of the run that they become."""
    noun: str
    """What they are called in messages, a plural."""
    target: Target
    read: Read
    refuse: Callable[[int, int], object]
    """Refuses what a model of so many layers and heads does not have."""
    prepare: Callable[[Store, Console], object] | None = None
    """What the run needs first."""


def confronted(store: Store, console: Console) -> None:
    """Fit and confront a run where that was not done."""
    if set(ASSUMPTIONS) - set(store.results):
        pipeline.fit(store, console=console)
    if not {"heads", "envelope"} <= set(store.results):
        pipeline.confront(store, swap=False, console=console)


@contextmanager
def session(
    settings: Settings,
    wanted: Wanted,
    out: Path,
    model: HeldModel | None = None,
    documents: Corpus | None = None,
    *,
    fresh: bool = False,
    null: bool = True,
    console: Console = QUIET,
) -> Iterator[tuple[Store, Losses]]:
    """Measure the run that `settings` describe, as `measurement.measure` does, unless it stands at
    `out` already, and hand over its store, which is held, and losses of its model on its documents,
    the model's own among them.

    What was measured before, in the run or by a command that was interrupted, is known. Once the
    block has put its results into the store, what was kept beside it goes.

    Raises:
        InputError: as of `measure`; what `wanted` refuses; a model without a head that predicts
            tokens.
        StoreError: as of `measure`.
        KeyboardInterrupt: passed on; the same command goes on.
    """
    wanted.target.refuse_misfit(settings.length)
    if settings.cluster is not None:
        raise InputError(f"--cluster: {wanted.noun} are measured here. Leave it out.")
    if model is None:
        refuse_text_as_model(settings)
    else:
        refuse_headless(model.whole)
    source = model or find_model(settings)
    if source.heads is not None:
        wanted.refuse(*source.heads)  # before anything is measured
    store = measure(settings, out, model, documents, fresh=fresh, null=null, console=console)
    if fresh:
        for file in store.path.parent.glob(f"{escape(beside(store.path, wanted.group).name)}-*"):
            clear_away(file)
    if wanted.prepare is not None:
        wanted.prepare(store, console)
    token_ids = store.read("capture")["token_id"].values
    with store.alone(), timed(store.path, wanted.group), source.lent() as lent:
        wanted.refuse(lent.layers, lent.heads)
        known = _known(store, wanted)
        whole = lent.model if model is None else model.whole
        losses = Losses(whole, token_ids, wanted.target.targets, known, console, lent.dtype)
        try:
            losses.plain()
            yield store, losses
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(
                f"interrupted: losses measured so far ({len(known.losses)}) are kept. Run the same"
                " command again to go on."
            ) from error
        known.forget()


def _known(store: Store, wanted: Wanted) -> Evaluations:
    """Return what was measured of this run before, in it or beside it."""
    targets = wanted.target.of(int(store.attributes["length"]))
    of = {
        "run": store.attributes["manifest"].get("run", ""),
        "model": store.attributes["model"],
        "documents": [row.get("sha256") or row["digest"] for row in store.documents],
        "targets": targets,
        "seed": store.attributes["seed"],
    }
    digest = hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:8]
    known = Evaluations(beside(store.path, f"{wanted.group}-{digest}"), of)
    if wanted.group in store.results:
        data = store.read(wanted.group)
        if data.attrs["targets"] != targets:
            raise InputError(
                f"{store.path}: its {wanted.noun} are of --target {data.attrs['target']}, this"
                f" asks for {wanted.target.text}. Use another --out, or --fresh."
            )
        losses, sizes = wanted.read(data)
        known.losses |= {cell: row for cell, row in losses.items() if np.isfinite(row).all()}
        known.sizes |= sizes
    known.read()
    return known
