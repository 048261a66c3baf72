"""The effective attention set size of a run's model on the run's documents: intervened forwards,
one after the other, until every N* is settled. Imports torch.
"""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Final

import xarray as xr

from empirical.intervention.loss import refuse_headless
from empirical.intervention.rules import RANKINGS, SETS, Rule, random
from empirical.sources.given import HeldModel
from empirical.sources.texts import Corpus
from empirical.store.manifest import beside
from empirical.store.store import Store
from geostat.datasets.queries import MEASURED
from geostat.errors import InputError
from geostat.experiments.effective_dataset import cells_of, effective_dataset
from geostat.experiments.effective_geometry import over_sizes
from geostat.experiments.effective_size import Cell, next_size
from geostat.runs.console import QUIET, Console
from geostat.runs.effective.asked import DRAWS, Asked, Scope
from geostat.runs.effective.evaluations import PLAIN, Evaluations, FloatArray
from geostat.runs.effective.losses import Losses, Order
from geostat.runs.files import timed
from geostat.runs.groups import measured
from geostat.runs.measurement import find_model, measure
from geostat.runs.settings import Settings, refuse_text_as_model

GROUP: Final = "effective"


def effective(
    settings: Settings,
    asked: Asked,
    out: Path,
    model: HeldModel | None = None,
    documents: Corpus | None = None,
    *,
    fresh: bool = False,
    null: bool = True,
    console: Console = QUIET,
) -> Store:
    """Measure the run that `settings` describe, as `measurement.measure` does, unless it stands at
    `out` already, and the effective set sizes of its model on its documents, which become its
    /effective.

    What was measured before, in the run or by a command that was interrupted, is gone on with.

    Raises:
        InputError: as of `measure`; rules, layers, heads or targets that do not fit; a model
            without a head that predicts tokens.
        StoreError: as of `measure`.
        KeyboardInterrupt: passed on; the same command goes on.
    """
    asked.refuse_misfit(settings.length)
    if settings.cluster is not None:
        raise InputError("--cluster: effective set sizes are measured here. Leave it out.")
    if model is None:
        refuse_text_as_model(settings)
    else:
        refuse_headless(model.whole)
    source = model or find_model(settings)
    if source.heads is not None:
        asked.scopes(*source.heads)  # refuses before anything is measured
    store = measure(settings, out, model, documents, fresh=fresh, null=null, console=console)
    if fresh:
        for file in store.path.parent.glob(f"{beside(store.path, GROUP).name}-*"):
            file.unlink()
    token_ids = store.read("capture")["token_id"].values
    with store.alone(), timed(store.path, GROUP), source.lent() as lent:
        whole = lent.model if model is None else model.whole
        scopes = asked.scopes(lent.layers, lent.heads)
        known = _known(store, asked)
        losses = Losses(whole, token_ids, asked.targets, known, console)
        try:
            losses.at(PLAIN, None)
            for scope in scopes:
                _search(losses, scope, asked, settings)
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(
                f"interrupted: losses measured so far ({len(known.losses)}) are kept. Run the same"
                " command again to go on."
            ) from error
        store.put({GROUP: _dataset(store, known, asked, settings.length)})
        known.forget()
    return store


def _known(store: Store, asked: Asked) -> Evaluations:
    """Return what was measured of this run before, in it or beside it."""
    of = {
        "model": store.attributes["model"],
        "documents": [row.get("sha256") or row["digest"] for row in store.documents],
        "targets": _targets(asked, int(store.attributes["length"])),
        "seed": store.attributes["seed"],
    }
    digest = hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:8]
    known = Evaluations(beside(store.path, f"{GROUP}-{digest}"), of)
    if GROUP in store.results:
        data = store.read(GROUP)
        if data.attrs["targets"] != _targets(asked, int(data.attrs["tokens"])):
            raise InputError(
                f"{store.path}: its effective sizes are of --target {data.attrs['target']}, this"
                f" asks for {asked.target}. Use another --out, or --fresh."
            )
        losses, sizes = cells_of(data)
        known.losses |= {PLAIN: data["plain_loss"].values, **losses}
        known.sizes |= sizes
    known.read()
    return known


def _targets(asked: Asked, tokens: int) -> int:
    """Return how many tokens of a window are predicted."""
    return tokens - 1 if asked.targets is None else asked.targets


def _dataset(store: Store, known: Evaluations, asked: Asked, tokens: int) -> xr.Dataset:
    losses = dict(known.losses)
    plain = losses.pop(PLAIN)
    told = {"target": asked.target, "targets": _targets(asked, tokens), "draws": DRAWS}
    held = store.read(GROUP)["tau"].values.tolist() if GROUP in store.results else []
    taus = sorted({*held, *asked.taus})
    data = effective_dataset(plain, losses, known.sizes, taus=taus, tokens=tokens, told=told)
    curves = over_sizes(measured(store.tree(only=MEASURED)), plain, losses)
    return data if curves is None else data.merge(curves.sel(mode=data["mode"]))


def _search(losses: Losses, scope: Scope, asked: Asked, settings: Settings) -> None:
    """Try sizes of every rule and mode until N* is settled."""
    ways = [(rule, mode) for rule in asked.rules for mode in asked.modes]
    for rule, mode in ways:
        told = f"{scope.name}: {rule}, {mode}"
        losses.console.stage(told)
        plain = losses.known.losses[PLAIN]
        if rule in SETS:
            losses.at(Cell(scope.name, rule, mode, 0), scope, [_same(SETS[rule])])
            continue
        orders: list[Order] = (
            [partial(random, draw, settings.seed) for draw in range(DRAWS)]
            if rule == "random"
            else [_same(RANKINGS[rule])]
        )
        while True:
            curve = {
                cell.n: loss
                for cell, loss in losses.known.losses.items()
                if cell[:3] == (scope.name, rule, mode)
            }
            size = next_size(plain, curve, asked.taus, settings.length)
            losses.console.fraction(told, _done(curve, settings.length, len(asked.taus)))
            if size is None:
                break
            losses.at(Cell(scope.name, rule, mode, size), scope, orders)


def _done(curve: dict[int, FloatArray], tokens: int, taus: int) -> float:
    """Return about which share of a search is done: powers of two, and half as many again for
    each τ.
    """
    powers = (tokens - 1).bit_length()
    return min(1.0, len(curve) / (powers * (1 + taus / 2)))


def _same(rule: Rule) -> Order:
    return lambda document: rule
