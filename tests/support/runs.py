"""Small runs for tests: a tiny random model and random windows, without a tokenizer."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from support.families import VOCABULARY, tiny

from empirical.capture.capture import Observer, capture
from empirical.capture.layer_view import LayerView, RunShape
from empirical.capture.observers import Baselines, Geometry
from empirical.schema import Quantity
from empirical.sources.models import LoadedModel
from empirical.sources.windows import Windows
from empirical.store.layout import GroupPlan
from empirical.store.store import Store
from empirical.tap.decoder import layers_of


def loaded(family: str) -> LoadedModel:
    """Return a tiny random model in the form of `load`; it has no tokenizer."""
    model = tiny(family)
    config = model.get_decoder().config
    heads = int(config.num_attention_heads)
    return LoadedModel(
        model=model,
        tokenizer=None,  # type: ignore[arg-type]
        id=f"tiny {family}",
        revision=None,
        sha256="0" * 64,
        family=family,
        layers=len(layers_of(model.get_decoder())),
        heads=heads,
        kv_heads=int(getattr(config, "num_key_value_heads", None) or heads),
        dimension=int(getattr(config, "head_dim", None) or config.hidden_size // heads),
        dtype="float32",
        device="cpu",
    )


def random_windows(documents: int, length: int, *, seed: int = 0) -> Windows:
    """Return random tokens; for one seed they do not depend on the number of documents."""
    ids = np.stack(
        [
            np.random.default_rng([seed, index]).integers(3, VOCABULARY, length, dtype=np.int32)
            for index in range(documents)
        ]
    )
    names = tuple(f"document {index}" for index in range(documents))
    digests = tuple(hashlib.sha256(row.astype("<i4").tobytes()).hexdigest() for row in ids)
    return Windows(
        token_ids=ids,
        names=names,
        sha256=digests,
        text_sha256=digests,
        skipped=2,
        corpus="random tokens",
        special_tokens="default",
    )


def small_run(
    path: Path,
    *,
    family: str = "llama",
    documents: int = 3,
    length: int = 40,
    observers: list[Observer] | None = None,
    **more: Any,
) -> Store:
    """Capture a tiny model on random windows."""
    n = more.pop("n", np.arange(1, length + 1))
    observers = [Geometry(), Baselines()] if observers is None else observers
    return capture(
        loaded(family), random_windows(documents, length), path, observers=observers, n=n, **more
    )


class LastWeight:
    """An observer of a user's own: it needs the CPU, and notes the threads that call it."""

    group = "mine"

    def __init__(self) -> None:
        self.threads: set[str] = set()

    def plan(self, shape: RunShape) -> GroupPlan:
        words = {
            "long_name": "weight of the last token",
            "units": "1",
            "symbol": "",
            "equation": "",
        }
        variables = {"last_weight": Quantity("last_weight", dims=("layer", "head"), **words)}
        return GroupPlan(variables=variables, coordinates=shape.coordinates("layer", "head"))

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        assert not view.on_device
        self.threads.add(threading.current_thread().name)
        return {"last_weight": view.alpha[:, -1].numpy()}
