"""The normaliser's statements beside the heads of a run's model on the run's documents. Imports
torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import xarray as xr

from empirical.sources.given import HeldModel
from empirical.sources.texts import Corpus
from empirical.store.store import Store
from empirical.tap.tap import TappedLayer, tap
from geostat.errors import InputError
from geostat.experiments.normaliser_dataset import normaliser_dataset
from geostat.experiments.normaliser_numbers import SIZE, Heads, sizes_of
from geostat.runs.console import QUIET, Console
from geostat.runs.files import timed
from geostat.runs.measurement import find_model, measure
from geostat.runs.settings import Settings, capped, refuse_text_as_model
from theory.normaliser.measured import share_by_chance

GROUP: Final = "normaliser"
LEAST: Final = 16
"""Tokens that a query must see."""
SHORTEST: Final = 64
"""The least L, unless told: powers of two from here on, of shorter windows from LEAST on, and the
window's length."""
FLAT_DRAWS: Final = 200
"""Draws of random directions with flat weights, of one size."""


def normaliser(
    settings: Settings,
    lengths: str,
    out: Path,
    model: HeldModel | None = None,
    documents: Corpus | None = None,
    *,
    fresh: bool = False,
    null: bool = True,
    console: Console = QUIET,
) -> Store:
    """Measure the run that `settings` describe, as `measurement.measure` does, unless it stands at
    `out` already, and the normaliser's statements of its heads, which become its /normaliser.

    lengths: tokens L that a query sees, such as 64,128; "" for powers of two.

    Raises:
        InputError: as of `measure`; lengths that a window does not have.
        StoreError: as of `measure`.
    """
    seen = lengths_of(lengths, settings.length)
    if settings.cluster is not None:
        raise InputError("--cluster: the normaliser is looked at here. Leave it out.")
    if model is None:
        refuse_text_as_model(settings)
    source = model or find_model(settings)
    store = measure(settings, out, model, documents, fresh=fresh, null=null, console=console)
    token_ids = store.read("capture")["token_id"].values
    with store.alone(), timed(store.path, GROUP), source.lent() as lent:
        console.stage("look at the normaliser")
        found = []
        for place, ids in enumerate(token_ids):
            generator = np.random.default_rng([settings.seed, place])
            found.append(_document(lent.model, ids, seen, generator).numbers())
            console.fraction("documents", (place + 1) / len(token_ids))
        store.put({GROUP: _dataset(found, seen, lent, settings.seed)})
    return store


def lengths_of(text: str, tokens: int) -> list[int]:
    """Read `--lengths`: numbers with commas between, rising with the window's own length at the
    end; of "" powers of two from 64, in windows under 128 from 16.

    Raises:
        InputError: for anything else, or a length below 16 or above the window's.

    >>> lengths_of("", 300), lengths_of("100,50", 300)
    ([64, 128, 256, 300], [50, 100, 300])
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    asked = [capped(part) if part.isdecimal() else 0 for part in parts]
    if not all(LEAST <= length <= tokens for length in asked):
        raise InputError(
            f"--lengths {text}: expected numbers of tokens from {LEAST} to {tokens}, the window's,"
            f" with commas between. Use for instance {max(tokens // 4, LEAST)},{tokens}."
        )
    if tokens < LEAST:
        raise InputError(
            f"--length {tokens}: expected at least {LEAST} tokens. Use --length {LEAST} or more."
        )
    first = SHORTEST if tokens >= 2 * SHORTEST else LEAST
    usual = [2**power for power in range(first.bit_length() - 1, tokens.bit_length())]
    return sorted({length for length in asked or usual if length <= tokens} | {tokens})


def _document(
    model: Any, ids: np.ndarray, lengths: list[int], generator: np.random.Generator
) -> Heads:
    """Return the numbers of all heads in one document."""
    heads = Heads(lengths, sizes_of(lengths[-1]), generator)

    def on_layer(layer: TappedLayer) -> None:
        alpha, values, visible = (
            tensor[0].cpu().numpy() for tensor in (layer.alpha, layer.values, layer.visible)
        )
        heads.add(alpha.astype(np.float64), values.astype(np.float64), visible)

    queries = torch.tensor([[length - 1 for length in lengths]])
    tap(model, torch.as_tensor(ids[None], dtype=torch.long), on_layer, queries=queries)
    return heads


def _dataset(found: list[Any], lengths: list[int], lent: Any, seed: int) -> xr.Dataset:
    n, dimension = sizes_of(lengths[-1]), int(lent.dimension)
    generator = np.random.default_rng([seed, len(found)])
    flat = np.array(
        [share_by_chance(np.ones(size), dimension, FLAT_DRAWS, generator) for size in n.tolist()]
    )
    told = {
        "tokens": lengths[-1],
        "size": SIZE,
        "heads": int(lent.heads) * int(lent.layers),
        "dimension": dimension,
    }
    return normaliser_dataset(found, lengths=lengths, n=n, flat=flat, told=told)
