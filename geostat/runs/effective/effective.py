"""The effective attention set size of a run's model on the run's documents: intervened forwards,
one after the other, until every N* is settled. Imports torch.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import xarray as xr

from empirical.intervention.rules import RANKINGS, SETS, Rule, random
from empirical.sources.given import HeldModel
from empirical.sources.texts import Corpus
from empirical.store.store import Store
from geostat.datasets.queries import MEASURED
from geostat.experiments.effective_dataset import cells_of, effective_dataset
from geostat.experiments.effective_geometry import over_sizes
from geostat.experiments.effective_size import PLAIN, Cell, next_size
from geostat.runs.console import QUIET, Console
from geostat.runs.effective.asked import DRAWS, Asked, Scope
from geostat.runs.effective.evaluations import Evaluations, FloatArray
from geostat.runs.effective.losses import Losses, Order
from geostat.runs.effective.session import Wanted, confronted, session
from geostat.runs.groups import measured
from geostat.runs.settings import Settings

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
    wanted = Wanted(
        group=GROUP,
        noun="effective set sizes",
        target=asked.targeted,
        read=_read,
        refuse=asked.scopes,
        prepare=confronted if asked.regimes else None,
    )
    how = {"fresh": fresh, "null": null}
    with session(settings, wanted, out, model, documents, console=console, **how) as (
        store,
        losses,
    ):
        capture = store.read("capture")
        scopes = asked.scopes(capture.sizes["layer"], capture.sizes["head"])
        if asked.regimes:
            label = store.read("heads")["label"].sel(criterion="size").values
            scopes = asked.of_regimes(label)
        for scope in scopes:
            _search(losses, scope, asked, settings)
        store.put({GROUP: _dataset(store, losses.known, asked, settings.length)})
    return store


def _read(data: xr.Dataset) -> tuple[dict[Cell, FloatArray], dict[Cell, FloatArray]]:
    """Return the losses that the run holds, and sizes of sets."""
    losses, sizes = cells_of(data)
    return {PLAIN: data["plain_loss"].values, **losses}, sizes


def _dataset(store: Store, known: Evaluations, asked: Asked, tokens: int) -> xr.Dataset:
    losses = dict(known.losses)
    plain = losses.pop(PLAIN)
    told = {"target": asked.target, "targets": asked.targeted.of(tokens), "draws": DRAWS}
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
            done = _done(curve, settings.length, len(asked.taus))
            losses.console.fraction(told, 1.0 if size is None else done)
            if size is None:
                break
            losses.at(Cell(scope.name, rule, mode, size), scope, orders)


def _done(curve: dict[int, FloatArray], tokens: int, taus: int) -> float:
    """Return about which share of a search is done: powers of two, and half as many again for
    each τ.
    """
    powers = (tokens - 1).bit_length()
    return min(0.99, len(curve) / (powers * (1 + taus / 2)))


def _same(rule: Rule) -> Order:
    return lambda document: rule
