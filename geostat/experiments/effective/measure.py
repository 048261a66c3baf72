"""Search for the effective attention set size: forward passes with interventions on the documents
of a run, until every N* is determined. Imports torch.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Final

import xarray as xr

from empirical.intervention.rules import RANKINGS, SETS, Rule, random
from empirical.sources.given import HeldModel
from empirical.sources.texts import Corpus
from empirical.store.store import Store
from geostat.analyses.effective_size import PLAIN, Cell, curve_of, next_size
from geostat.datasets.separability import MEASURED
from geostat.experiments.effective.dataset import cells_of, effective_dataset, over_sizes
from geostat.experiments.effective.options import DRAWS, EffectiveOptions
from geostat.experiments.options import Scope
from geostat.experiments.session import Evaluations, FloatArray, Losses, Order, confronted, session
from geostat.runs.console import QUIET, Console
from geostat.runs.groups import measured

GROUP: Final = "effective"


def measure(
    options: EffectiveOptions,
    model: HeldModel | None = None,
    documents: Corpus | None = None,
    *,
    console: Console = QUIET,
) -> Store:
    """Capture the run of `options`, unless it exists, and add /effective with the effective set
    sizes of its model.

    Losses measured before, in the run or by an interrupted command, are reused.

    Raises:
        InputError: as of `measure`; if rules, layers, heads or targets do not fit the model; if the
            model has no head that predicts tokens.
        StoreError: as of `measure`.
        KeyboardInterrupt: re-raised; the same command resumes.
    """
    with session(
        *(options, GROUP, model, documents),
        noun="effective set sizes",
        read=_read,
        refuse=options.scopes,
        prepare=confronted if options.regimes else None,
        console=console,
    ) as (store, losses):
        capture = store.read("capture")
        scopes = options.scopes(capture.sizes["layer"], capture.sizes["head"])
        if options.regimes:
            label = store.read("heads")["label"].sel(criterion="size").values
            scopes = options.of_regimes(label)
        for scope in scopes:
            _search(losses, scope, options)
        store.put({GROUP: _dataset(store, losses.known, options)})
    return store


def _read(data: xr.Dataset) -> tuple[dict[Cell, FloatArray], dict[Cell, FloatArray]]:
    """Return losses, with those without intervention, and sizes of sets of /effective."""
    losses, sizes = cells_of(data)
    return {PLAIN: data["plain_loss"].values, **losses}, sizes


def _dataset(store: Store, known: Evaluations, options: EffectiveOptions) -> xr.Dataset:
    losses = dict(known.losses)
    plain = losses.pop(PLAIN)
    attributes = {
        "target": options.target,
        "targets": options.predicted,
        "draws": DRAWS,
    }
    stored = store.read(GROUP)["tau"].values.tolist() if GROUP in store.results else []
    taus = sorted({*stored, *options.taus})
    data = effective_dataset(
        plain, losses, known.sizes, taus=taus, tokens=options.length, attributes=attributes
    )
    curves = over_sizes(measured(store.tree(only=MEASURED)), plain, losses)
    return data if curves is None else data.merge(curves.sel(mode=data["mode"]))


def _search(losses: Losses, scope: Scope, options: EffectiveOptions) -> None:
    """Evaluate sizes N of every rule and mode until N* is determined."""
    for rule, mode in product(options.rules, options.modes):
        stage = f"{scope.name}: {rule}, {mode}"
        losses.console.stage(stage)
        plain = losses.known.losses[PLAIN]
        if rule in SETS:
            losses.at(Cell(scope.name, rule, mode, 0), scope, [_same(SETS[rule])])
            continue
        orders: list[Order] = (
            [partial(random, draw, options.seed) for draw in range(DRAWS)]
            if rule == "random"
            else [_same(RANKINGS[rule])]
        )
        while True:
            curve = curve_of(losses.known.losses, scope.name, rule, mode)
            size = next_size(plain, curve, options.taus, options.length)
            progress = _progress(curve, options.length, len(options.taus))
            losses.console.fraction(stage, 1.0 if size is None else progress)
            if size is None:
                break
            losses.at(Cell(scope.name, rule, mode, size), scope, orders)


def _progress(curve: dict[int, FloatArray], tokens: int, taus: int) -> float:
    """Return the approximate progress of a search: powers of two, then half as many for each τ."""
    powers = (tokens - 1).bit_length()
    return min(0.99, len(curve) / (powers * (1 + taus / 2)))


def _same(rule: Rule) -> Order:
    return lambda document: rule
