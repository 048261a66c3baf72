"""What the model of a run loses where single heads are cut, where a budget of tokens is shared out
among heads, and where heads of a regime are cut or taken out. Imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from empirical.intervention.cut import Cut, Mode
from empirical.intervention.rules import attention, nothing
from empirical.sources.given import HeldModel
from empirical.sources.texts import Corpus
from empirical.store.store import Store
from geostat.datasets.queries import MEASURED
from geostat.experiments.ablation.budgets import WAYS, sizes_of_documents
from geostat.experiments.ablation.context import curve_of, plain_cell
from geostat.experiments.ablation.dataset import (
    ablation_dataset,
    budget_cell,
    budgets_held,
    cells_of,
)
from geostat.experiments.ablation.head_facts import Facts
from geostat.experiments.ablation.heads import curve_of_head, head_cell, sizes_held
from geostat.experiments.effective_size import PLAIN, Cell, next_size
from geostat.experiments.head_regime_rules import REGIMES
from geostat.runs.ablation.asked import CONTEXT_TAU, Asked
from geostat.runs.ablation.known_of_heads import known_of_heads
from geostat.runs.console import QUIET, Console
from geostat.runs.effective.evaluations import FloatArray
from geostat.runs.effective.losses import Cuts, Losses
from geostat.runs.effective.session import Wanted, confronted, session
from geostat.runs.settings import Settings

GROUP: Final = "ablation"
Sizes = NDArray[np.int64]
"""Tokens that each head keeps, (layer, head); 0: it is taken out."""


def ablate(
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
    """Measure the run that `settings` describe, unless it stands at `out` already, fit and confront
    it where that was not done, and measure what its model loses under cuts of heads: /ablation.

    What was measured before, in the run or by a command that was interrupted, is gone on with.

    Raises:
        InputError, StoreError, KeyboardInterrupt: as of `session.session`.
    """
    asked.refuse_misfit(settings.length)
    wanted = Wanted(
        group=GROUP,
        noun="losses under cuts of heads",
        target=asked.targeted,
        read=cells_of,
        refuse=lambda layers, heads: None,
        prepare=confronted,
    )
    how = {"fresh": fresh, "null": null}
    with session(settings, wanted, out, model, documents, console=console, **how) as (
        store,
        losses,
    ):
        facts = _facts(store, losses, asked)
        parts = {"heads": _heads, "budgets": _budgets, "regimes": _regimes, "context": _context}
        for part in asked.measured:
            parts[part](losses, facts, asked)
        store.put({GROUP: _dataset(store, losses, facts, asked, settings.length)})
    return store


def _facts(store: Store, losses: Losses, asked: Asked) -> Facts:
    """Measure what is known of heads, and read what the run knows."""
    known, capture = losses.known.losses, store.read("capture")
    shape = capture.sizes["layer"], capture.sizes["head"]
    held = [n for each in sizes_held(known, shape).values() for n in each] + budgets_held(known)
    sizes = sorted({*(n for n in asked.looked_at if n <= losses.token_ids.shape[1]), *held})
    convention = str(store.attributes["convention"])
    console, each = losses.console, []
    console.stage("weights and separability of heads")
    for at, row in enumerate(losses.token_ids):
        each.append(known_of_heads(losses.model, row, sizes, convention))
        console.fraction("weights and separability of heads", (at + 1) / len(losses.token_ids))
    measured = {name: np.stack([one[name] for one in each]) for name in each[0]}
    groups = (*MEASURED, "norms", "similarity", "envelope", "heads")
    return Facts.of(measured, sizes, store.tree(only=groups))


def _heads(losses: Losses, facts: Facts, asked: Asked) -> None:
    """Cut every head alone, from the bottom: at the sizes asked for, and on to its own N*."""
    told = "heads one by one"
    losses.console.stage(told)
    layers, heads = facts.shape
    known, tried = losses.known.losses, asked.tried
    for layer in range(layers):
        for head, mode in product(range(heads), asked.modes):
            for n in tried:
                cell = head_cell(layer, head, mode, n)
                losses.of(cell, _alike({layer: _of_head(head, mode, n)}), layer)
            while True:
                curve = curve_of_head(known, layer, head, mode)
                size = next_size(known[PLAIN], curve, [asked.tau], facts.tokens, first=tried)
                if size is None:
                    break
                cell = head_cell(layer, head, mode, size, search=True)
                losses.of(cell, _alike({layer: _of_head(head, mode, size)}), layer)
        losses.console.fraction(told, (layer + 1) / layers)


def _of_head(head: int, mode: Mode, n: int) -> Cut:
    return Cut(rule=attention, mode=mode, n=n, heads=[head])


def _budgets(losses: Losses, facts: Facts, asked: Asked) -> None:
    """Share every budget out in every way. Each document's shares are made from the others."""
    told = "budgets"
    losses.console.stage(told)
    ways = [(mode, budget, way) for mode in asked.modes for budget in asked.shared for way in WAYS]
    for done, (mode, budget, way) in enumerate(ways):
        rises = _measured_rises(losses, facts, asked, mode) if way == "greedy" else {}
        if way == "greedy" and not rises:
            continue
        sizes = sizes_of_documents(way, budget, facts, rises)
        cell = budget_cell(way, mode, budget, _named(asked.tried))
        losses.of(cell, partial(_of_document, sizes, mode))
        losses.console.fraction(told, (done + 1) / len(ways))


def _measured_rises(
    losses: Losses, facts: Facts, asked: Asked, mode: Mode
) -> Mapping[int, FloatArray]:
    """Return rises of the loss where a head alone is cut, (document, head), by N; none where they
    were not measured.
    """
    layers, heads = facts.shape
    known, plain = losses.known.losses, losses.known.losses[PLAIN]
    cells = {
        n: [head_cell(layer, head, mode, n) for layer in range(layers) for head in range(heads)]
        for n in asked.tried
    }
    if any(cell not in known for row in cells.values() for cell in row):
        return {}
    return {
        n: np.stack([known[cell] / plain - 1 for cell in row], axis=1) for n, row in cells.items()
    }


def _regimes(losses: Losses, facts: Facts, asked: Asked) -> None:
    """Cut the heads of each regime to the smallest budget, and take them out; and as many heads
    drawn from all.
    """
    told = "regimes"
    losses.console.stage(told)
    n = asked.shared[0]
    ways = [(mode, n) for mode in asked.modes] + [("deletion", 0)]
    regimes = [name for name in REGIMES[1:] if facts.of_regime(name).any()]
    steps = [(regime, draw) for regime in regimes for draw in range(-1, asked.draws)]
    for done, (regime, draw) in enumerate(steps):
        chosen = facts.of_regime(regime)
        name = regime
        if draw >= 0:
            name = f"{regime}, draw {draw}"
            seed = [REGIMES.index(regime), draw]
            order = np.random.default_rng(seed).permutation(chosen.size)[: int(chosen.sum())]
            chosen = np.isin(np.arange(chosen.size), order).reshape(chosen.shape)
        for mode, size in ways:
            cuts = {
                layer: Cut(
                    rule=attention if size else nothing,
                    mode=mode,
                    n=size or None,
                    heads=np.flatnonzero(row).tolist(),
                )
                for layer, row in enumerate(chosen)
                if row.any()
            }
            losses.of(Cell(name, "attention", mode, size), _alike(cuts), min(cuts))
        losses.console.fraction(told, (done + 1) / len(steps))


def _context(losses: Losses, facts: Facts, asked: Asked) -> None:
    """Find N* of the last tokens of every window, for the same targets."""
    told = "contexts"
    losses.console.stage(told)
    known = losses.known.losses
    everywhere = range(facts.shape[0])
    done, ways = 0, len(asked.of_contexts) * len(asked.modes)
    for context in asked.of_contexts:
        plain = plain_cell(context)
        ids = last_tokens(losses.token_ids, context)
        held = (losses.targets, losses.known, losses.console, losses.dtype)
        own = Losses(losses.model, ids, *held, own=plain)
        own.plain()
        for mode in asked.modes:
            while (
                size := next_size(
                    known[plain], curve_of(known, context, mode), [CONTEXT_TAU], context
                )
            ) is not None:
                cut = Cut(rule=attention, mode=mode, n=size)
                cell = Cell(plain.scope, "attention", mode, size)
                own.of(cell, _alike(dict.fromkeys(everywhere, cut)))
            done += 1
            losses.console.fraction(told, done / ways)


def last_tokens(token_ids: NDArray[Any], context: int) -> NDArray[Any]:
    """Return the last tokens of every window, (document, position); where all windows begin with
    one token, as with one that begins every text, that stays the first.
    """
    ids = token_ids[:, -context:]
    first = token_ids[:, :1]
    if len(first) > 1 and (first == first[0]).all():
        ids = np.concatenate([first, ids[:, 1:]], axis=1)
    return ids


def _alike(cuts: Mapping[int, Cut]) -> Callable[[int], Cuts]:
    """The same cuts in every document."""
    return lambda place: cuts.get


def _of_document(sizes: Sequence[Sizes], mode: Mode, place: int) -> Cuts:
    """A cut of every layer, of each head its own N."""
    rows: Sequence[list[int]] = sizes[place].tolist()
    return lambda layer: Cut(rule=attention, mode=mode, n=rows[layer])


def _dataset(store: Store, losses: Losses, facts: Facts, asked: Asked, tokens: int) -> xr.Dataset:
    told: dict[str, Any] = {
        "target": asked.target,
        "targets": asked.targeted.of(tokens),
        "tokens": tokens,
        "greedy_sizes": _named(asked.tried),
        "context_tau": CONTEXT_TAU,
    }
    before = store.read(GROUP).attrs if GROUP in store.results else {}
    # a question that is not of heads leaves theirs answered
    tau = asked.tau if "heads" in asked.measured else float(before.get("tau", asked.tau))
    return ablation_dataset(losses.known.losses, facts, tau=tau, told=told)


def _named(sizes: Sequence[int]) -> str:
    return ",".join(map(str, sizes))
