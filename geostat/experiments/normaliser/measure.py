"""Measurement of the statements on the softmax normaliser for the heads of a run. Imports torch."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
import torch
import xarray as xr

from empirical.sources.given import HeldModel
from empirical.sources.texts import Corpus
from empirical.store.store import Store
from empirical.tap.tap import TappedLayer, tap
from geostat.datasets.overlap import tracked
from geostat.errors import InputError
from geostat.experiments.normaliser.dataset import SIZE, Heads, normaliser_dataset, sizes_of
from geostat.experiments.normaliser.options import NormaliserOptions
from geostat.experiments.session import model_of_run
from geostat.options import capped
from geostat.runs.console import QUIET, Console
from geostat.statistics.arrays import FloatArray
from theory.normaliser.measured import share_by_chance

GROUP: Final = "normaliser"
LEAST: Final = 16
"""Smallest context length L in tokens."""
SHORTEST: Final = 64
"""Smallest default L for windows of at least twice this length; shorter windows start at LEAST."""
FLAT_DRAWS: Final = 200
"""Draws of random directions with equal weights for each size."""


def measure(
    options: NormaliserOptions,
    model: HeldModel | None = None,
    documents: Corpus | None = None,
    *,
    console: Console = QUIET,
) -> Store:
    """Capture the run of `options`, unless it exists, and add /normaliser.

    Raises:
        InputError, StoreError: as of `model_of_run`; InputError if a length does not fit the
            window.
    """
    lengths = lengths_of(options.lengths, options.length)
    with model_of_run(options, GROUP, model, documents, console=console) as (store, loaded):
        token_ids = store.read("capture")["token_id"].values
        console.stage("measure the normaliser")
        numbers = []
        for document in tracked(range(len(token_ids)), partial(console.fraction, "documents")):
            generator = np.random.default_rng([options.seed, document])
            heads = _document(loaded.model, token_ids[document], lengths, generator)
            numbers.append(heads.numbers())
        store.put({GROUP: _dataset(numbers, lengths, loaded, options.seed)})
    return store


def lengths_of(text: str, tokens: int) -> list[int]:
    """Parse `--lengths`: comma-separated numbers, sorted, with the window length added.

    Default: powers of two from 64, or from 16 for windows below 128 tokens.

    Raises:
        InputError: for other text, or a length below 16 or above the window length.

    >>> lengths_of("", 300), lengths_of("100,50", 300)
    ([64, 128, 256, 300], [50, 100, 300])
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    requested = [capped(part) if part.isdecimal() else 0 for part in parts]
    if not all(LEAST <= length <= tokens for length in requested):
        raise InputError(
            f"--lengths {text}: expected numbers of tokens from {LEAST} to {tokens} (the window),"
            f" comma-separated. Use for instance {max(tokens // 4, LEAST)},{tokens}."
        )
    if tokens < LEAST:
        raise InputError(
            f"--length {tokens}: expected at least {LEAST} tokens. Use --length {LEAST} or more."
        )
    first = SHORTEST if tokens >= 2 * SHORTEST else LEAST
    default = [2**power for power in range(first.bit_length() - 1, tokens.bit_length())]
    return sorted({length for length in requested or default if length <= tokens} | {tokens})


def _document(
    model: Any, ids: np.ndarray, lengths: list[int], generator: np.random.Generator
) -> Heads:
    """Return the measurements of all heads in one document."""
    heads = Heads(lengths, sizes_of(lengths[-1]), generator)

    def on_layer(layer: TappedLayer) -> None:
        alpha, values, visible = (
            tensor[0].cpu().numpy() for tensor in (layer.alpha, layer.values, layer.visible)
        )
        heads.add(alpha.astype(np.float64), values.astype(np.float64), visible)

    queries = torch.tensor([[length - 1 for length in lengths]])
    tap(model, torch.as_tensor(ids[None], dtype=torch.long), on_layer, queries=queries)
    return heads


def _dataset(
    numbers: list[dict[str, FloatArray]], lengths: list[int], loaded: Any, seed: int
) -> xr.Dataset:
    n, dimension = sizes_of(lengths[-1]), int(loaded.dimension)
    generator = np.random.default_rng([seed, len(numbers)])
    flat = np.array(
        [share_by_chance(np.ones(size), dimension, FLAT_DRAWS, generator) for size in n.tolist()]
    )
    attributes = {
        "tokens": lengths[-1],
        "size": SIZE,
        "heads": int(loaded.heads) * int(loaded.layers),
        "dimension": dimension,
    }
    return normaliser_dataset(numbers, lengths=lengths, n=n, flat=flat, attributes=attributes)
