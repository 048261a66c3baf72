"""Measurement of losses under ablation: single heads, budgets of tokens, regimes and contexts; and
of the features of each head. Imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from empirical.intervention.cut import Cut, Mode
from empirical.intervention.rules import attention, nothing
from empirical.measure.queries import Row, measure_layer
from empirical.measure.selection import Convention
from empirical.sources.given import HeldModel
from empirical.sources.texts import Corpus
from empirical.store.store import Store
from empirical.tap.tap import TappedLayer, tap
from geostat.analyses.effective_size import PLAIN, Cell, curve_of, next_size
from geostat.analyses.head_regime_rules import REGIMES
from geostat.datasets.separability import MEASURED
from geostat.experiments.ablation.budgets import WAYS, sizes_of_documents
from geostat.experiments.ablation.context import plain_cell
from geostat.experiments.ablation.dataset import (
    ablation_dataset,
    budget_cell,
    budgets_held,
    cells_of,
)
from geostat.experiments.ablation.heads import (
    CURVES,
    curve_of_head,
    features_of,
    head_cell,
    of_regime,
    sizes_held,
)
from geostat.experiments.ablation.options import CONTEXT_TAU, AblateOptions
from geostat.experiments.session import Cuts, FloatArray, Losses, confronted, session
from geostat.runs.console import QUIET, Console

GROUP: Final = "ablation"
Sizes = NDArray[np.int64]
"""Number of selected tokens by head, (layer, head); 0 removes the head."""


def measure(
    options: AblateOptions,
    model: HeldModel | None = None,
    documents: Corpus | None = None,
    *,
    console: Console = QUIET,
) -> Store:
    """Capture, fit and confront the run of `options`, unless it exists, and add /ablation.

    Losses measured before, in the run or by an interrupted command, are reused.

    Raises:
        InputError, StoreError, KeyboardInterrupt: as of `session.session`.
    """
    with session(
        *(options, GROUP, model, documents),
        noun="losses under ablation",
        read=cells_of,
        prepare=confronted,
        console=console,
    ) as (store, losses):
        features = _features(store, losses, options)
        parts = {"heads": _heads, "budgets": _budgets, "regimes": _regimes, "context": _context}
        for part in options.measured:
            parts[part](losses, features, options)
        store.put({GROUP: _dataset(store, losses, features, options)})
    return store


def _features(store: Store, losses: Losses, options: AblateOptions) -> xr.Dataset:
    """Measure the features of heads, and join those of the run."""
    known, capture = losses.known.losses, store.read("capture")
    shape = capture.sizes["layer"], capture.sizes["head"]
    stored = [n for sizes in sizes_held(known, shape).values() for n in sizes]
    requested = (n for n in options.looked_at if n <= losses.token_ids.shape[1])
    sizes = sorted({*requested, *stored, *budgets_held(known)})
    convention = Convention(store.attributes["convention"])
    rows = losses.console.steps("weights and separability of heads", list(losses.token_ids))
    by_document = [head_features(losses.model, row, sizes, convention) for row in rows]
    measured = {
        name: np.stack([document[name] for document in by_document]) for name in by_document[0]
    }
    groups = (*MEASURED, "norms", "similarity", "envelope", "heads")
    return features_of(measured, sizes, store.tree(only=groups))


def _heads(losses: Losses, features: xr.Dataset, options: AblateOptions) -> None:
    """Ablate every head alone, from the lowest layer: at the given sizes, then search for N*."""
    layers, heads, tokens = (features.sizes[dim] for dim in ("layer", "head", "token"))
    known, tried = losses.known.losses, options.tried

    def ablate(layer: int, head: int, mode: Mode, n: int, *, search: bool = False) -> None:
        cut = Cut(rule=attention, mode=mode, n=n, heads=[head])
        losses.of(head_cell(layer, head, mode, n, search=search), _alike({layer: cut}), layer)

    for layer in losses.console.steps("heads one by one", range(layers)):
        for head, mode in product(range(heads), options.modes):
            for n in tried:
                ablate(layer, head, mode, n)
            while True:
                curve = curve_of_head(known, layer, head, mode)
                size = next_size(known[PLAIN], curve, [options.tau], tokens, first=tried)
                if size is None:
                    break
                ablate(layer, head, mode, size, search=True)


def _budgets(losses: Losses, features: xr.Dataset, options: AblateOptions) -> None:
    """Measure every budget with every allocation; those of a document are from the others."""
    allocations = list(product(options.modes, options.shared, WAYS))
    for mode, budget, way in losses.console.steps("budgets", allocations):
        rises = _measured_rises(losses, features, options, mode) if way == "greedy" else {}
        if way == "greedy" and not rises:
            continue
        sizes = sizes_of_documents(way, budget, features, rises)
        cell = budget_cell(way, mode, budget, _named(options.tried))
        losses.of(cell, partial(_of_document, sizes, mode))


def _measured_rises(
    losses: Losses, features: xr.Dataset, options: AblateOptions, mode: Mode
) -> Mapping[int, FloatArray]:
    """Return loss increases from ablating single heads, (document, head), by N; empty if not all
    are measured.
    """
    known = losses.known.losses
    cells = {
        n: [head_cell(layer, head, mode, n) for layer, head in np.ndindex(features["regime"].shape)]
        for n in options.tried
    }
    if any(cell not in known for row in cells.values() for cell in row):
        return {}
    return {
        n: np.stack([known[cell] / known[PLAIN] - 1 for cell in row], axis=1)
        for n, row in cells.items()
    }


def _regimes(losses: Losses, features: xr.Dataset, options: AblateOptions) -> None:
    """Ablate the heads of each regime at the smallest budget and remove them; the same for random
    draws of as many heads.
    """
    ablations: list[tuple[Mode, int]] = [(mode, options.shared[0]) for mode in options.modes]
    regimes = [name for name in REGIMES[1:] if of_regime(features, name).any()]
    steps = list(product(regimes, range(-1, options.draws)))
    for regime, draw in losses.console.steps("regimes", steps):
        members, name = of_regime(features, regime), regime
        if draw >= 0:
            name = f"{regime}, draw {draw}"
            seed = [REGIMES.index(regime), draw]
            order = np.random.default_rng(seed).permutation(members.size)[: int(members.sum())]
            members = np.isin(np.arange(members.size), order).reshape(members.shape)
        heads = {layer: np.flatnonzero(row).tolist() for layer, row in enumerate(members)}
        for mode, n in (*ablations, ("deletion", 0)):
            rule = attention if n else nothing
            cuts = {
                layer: Cut(rule=rule, mode=mode, n=n or None, heads=of_layer)
                for layer, of_layer in heads.items()
                if of_layer
            }
            losses.of(Cell(name, "attention", mode, n), _alike(cuts), min(cuts))


def _context(losses: Losses, features: xr.Dataset, options: AblateOptions) -> None:
    """Search for N* with the last tokens of every window as context, for the same targets."""
    known, layers = losses.known.losses, range(features.sizes["layer"])
    for context in losses.console.steps("contexts", options.of_contexts):
        plain = plain_cell(context)
        ids = last_tokens(losses.token_ids, context)
        settings = (losses.targets, losses.known, losses.console, losses.dtype)
        context_losses = Losses(losses.model, ids, *settings, plain_cell=plain)
        context_losses.plain()
        for mode in options.modes:
            while True:
                curve = curve_of(known, plain.scope, "attention", mode)
                size = next_size(known[plain], curve, [CONTEXT_TAU], context)
                if size is None:
                    break
                cut = Cut(rule=attention, mode=mode, n=size)
                cell = Cell(plain.scope, "attention", mode, size)
                context_losses.of(cell, _alike(dict.fromkeys(layers, cut)))


def last_tokens(token_ids: NDArray[Any], context: int) -> NDArray[Any]:
    """Return the last tokens of every window, (document, position).

    If all windows have the same first token, such as a beginning-of-text token, it stays first.
    """
    ids = token_ids[:, -context:]
    first = token_ids[:, :1]
    if len(first) > 1 and (first == first[0]).all():
        ids = np.concatenate([first, ids[:, 1:]], axis=1)
    return ids


def _alike(cuts: Mapping[int, Cut]) -> Callable[[int], Cuts]:
    """Return the same cuts for every document."""
    return lambda place: cuts.get


def _of_document(sizes: Sequence[Sizes], mode: Mode, place: int) -> Cuts:
    """Return cuts of a document with an N for each head."""
    rows: Sequence[list[int]] = sizes[place].tolist()
    return lambda layer: Cut(rule=attention, mode=mode, n=rows[layer])


def _dataset(
    store: Store, losses: Losses, features: xr.Dataset, options: AblateOptions
) -> xr.Dataset:
    attributes: dict[str, Any] = {
        "target": options.target,
        "targets": options.predicted,
        "tokens": options.length,
        "greedy_sizes": _named(options.tried),
        "context_tau": CONTEXT_TAU,
    }
    stored = store.read(GROUP).attrs if GROUP in store.results else {}
    # Without the part heads, N* of heads keeps its stored tau.
    tau = options.tau if "heads" in options.measured else float(stored.get("tau", options.tau))
    return ablation_dataset(losses.known.losses, features, tau=tau, attributes=attributes)


def _named(sizes: Sequence[int]) -> str:
    return ",".join(map(str, sizes))


QUERIES: Final = 16
"""Number of evenly spaced queries of a window, with the last."""


def head_features(
    model: Any, token_ids: FloatArray, sizes: list[int], convention: Convention
) -> dict[str, FloatArray]:
    """Measure the features of heads in one document with one forward pass.

    Args:
        token_ids: (position,).

    Returns:
        CURVES (layer, head, n), averaged over queries that see N tokens; selected_mass (layer,
        head, position), the share of the N = 1, 2, … largest weights, 1 if a query sees fewer
        tokens; entropy of the weights (layer, head), nats. With learned sinks weights sum to less
        than 1, and shares are relative to their sum.
    """
    tokens = len(token_ids)
    last = np.linspace(tokens / QUERIES, tokens, QUERIES).round().astype(int)
    queries = np.unique(np.maximum(last, 1)) - 1
    layers: list[dict[str, FloatArray]] = []

    def on_layer(layer: TappedLayer) -> None:
        alpha = layer.alpha[0].float().cpu().numpy()
        values = layer.values[0].float().cpu().numpy()
        rows = [
            Row(position=int(query), first=first, alpha=weights[:, first : query + 1])
            for weights, query, first in zip(alpha, queries, layer.first[0], strict=True)
        ]
        # As in `measure_layer`, use the queries that see the sink if and only if the last one does.
        used = [(row.first == 0) == (rows[-1].first == 0) for row in rows]
        measured = measure_layer(rows, values, sizes, convention=convention)
        weights = alpha[used].astype(np.float64)
        shares = np.sort(weights, axis=-1)[..., ::-1] / weights.sum(axis=-1, keepdims=True)
        logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
        layers.append(
            {name: measured[name] for name in CURVES}
            | {
                "selected_mass": np.cumsum(shares, axis=-1).mean(axis=0),
                "entropy": -(shares * logs).sum(axis=-1).mean(axis=0),
            }
        )

    ids = torch.as_tensor(token_ids[None], dtype=torch.long)
    tap(model, ids, on_layer, queries=torch.as_tensor(queries[None]))
    return {name: np.stack([layer[name] for layer in layers]) for name in layers[0]}
