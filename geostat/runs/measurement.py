"""Measurement of a run: text and model, or tensors of another program, captured into a store.

Imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from empirical.capture.capture import capture
from empirical.capture.cluster.clustered import Clustered, clustered
from empirical.capture.identity import asked_for, refuse_other
from empirical.capture.observers import (
    Baselines,
    Geometry,
    Observer,
    QueryMeans,
    Ranks,
    Sinks,
    refuse_unknown_heads,
)
from empirical.measure.selection import Convention, default_n
from empirical.sources import builtin, models, texts
from empirical.sources import windows as corpus
from empirical.sources.given import HeldModel
from empirical.sources.paths import path_of
from empirical.sources.tensors import GivenTensors
from empirical.sources.windows import texts_of_tokens
from empirical.store.manifest import read_root
from empirical.store.store import Store
from geostat.bounds.own_cosines import MeasuredEnvelope
from geostat.errors import InputError
from geostat.options import capped
from geostat.runs.console import QUIET, Console, compilation_reported
from geostat.runs.files import capture_session, refuse_unwritable, store_path
from geostat.runs.options import MeasurementOptions


def text_of(settings: MeasurementOptions) -> texts.Corpus:
    """Return the corpus of the settings; its text is read when windows are cut.

    Raises:
        InputError: if the text does not exist, or a built-in text is combined with others.
    """
    if settings.dataset:
        return texts.from_hub(settings.dataset, split=settings.split, field=settings.field)
    names = [str(path) for path in settings.text] or ["builtin"]
    built_in = [name for name in names if name.partition(":")[0] == "builtin"]
    if built_in and len(names) > 1:
        raise InputError(
            f"--text {built_in[0]}: was given with {len(names) - 1} more, expected a built-in text"
            " alone. Drop it, or the others."
        )
    if built_in:
        return builtin.named(built_in[0])
    return texts.from_paths(settings.text, field=settings.field)


def find_model(settings: MeasurementOptions) -> models.FoundModel:
    """Return the model of the settings without reading its weights.

    Raises:
        InputError: if the model does not exist.
    """
    here = {} if settings.cluster is None else {"device": "cpu"}
    return models.find(settings.model, **settings.loading | here)


def capture_keywords(settings: MeasurementOptions) -> dict[str, Any]:
    """Return the keywords of `capture` that identify a measurement."""
    return {
        "n": sizes(settings.n, settings.length),
        "queries": settings.analysed,
        "convention": Convention(settings.convention),
        "seed": settings.seed,
        "batch": settings.batch,
    }


def sizes(text: str, positions: int) -> np.ndarray:
    """Parse `--n`: `default`, `all`, or sizes such as 1,2,4-8.

    Returns:
        Ascending sizes from 1 to the number of positions.

    Raises:
        InputError: for any other text.

    >>> sizes("1,2,4-6", 16).tolist()
    [1, 2, 4, 5, 6]
    """
    if text == "default":
        return np.asarray(default_n(positions), dtype=np.int64)
    if text == "all":
        return np.arange(1, positions + 1)
    result: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InputError(
                f"--n {text}: {part.strip()!r} is not a size. Use default, all, or sizes such as"
                " 1,2,4-8."
            )
        low, high = capped(first), capped(last or first)
        if high > positions:
            raise InputError(
                f"--n {text}: {part.strip()} is above the {positions} tokens of a window. Use sizes"
                f" from 1 to {positions}."
            )
        if low > high:
            raise InputError(
                f"--n {text}: {part.strip()} is empty, expected the smaller size first. Use"
                f" {last}-{first}."
            )
        result |= set(range(low, high + 1))
    if min(result) < 1:
        seen = f"{min(result)} to {max(result)}"
        raise InputError(
            f"--n {text}: sizes {seen}, expected 1 to {positions}, the tokens of a window. Use"
            " sizes in that range."
        )
    return np.array(sorted(result), dtype=np.int64)


def refuse_text_as_model(settings: MeasurementOptions) -> None:
    """Refuse a model argument that is a text, such as a second path after one --text.

    Raises:
        InputError: for a file other than .gguf, for a folder without a model if --text is given,
            or for an unknown home folder.
    """
    path = path_of(settings.model or ".", home=True)
    if settings.model is None or not path.exists():
        return
    endings = {file.suffix for file in path.iterdir()} if path.is_dir() else {path.suffix}
    if (
        ".gguf" in endings
        or any((path / name).exists() for name in ("config.json", "adapter_config.json"))
        or (path.is_dir() and not settings.text)
    ):
        return
    if not settings.text:
        raise InputError(
            f"{settings.model}: is not a model, expected a .gguf file, a folder or a Hugging Face"
            f" id. Name a text with --text {settings.model}."
        )
    arguments = " ".join(f"--text {text}" for text in (*settings.text, settings.model))
    raise InputError(
        f"{settings.model}: is not a model, expected one after --text PATH. Repeat --text for each"
        f" text: `{arguments}`."
    )


def measure(
    settings: MeasurementOptions,
    model: HeldModel | None = None,
    documents: texts.Corpus | None = None,
    *,
    console: Console = QUIET,
) -> Store:
    """Capture a run into `settings.out`.

    An interrupted run with equal settings is completed. With `fresh`, the old run is deleted once
    the first new document is complete.

    Args:
        settings: model, text, destination and settings of the measurement.
        model, documents: model and documents in memory; they replace those of the settings.

    Raises:
        InputError: for bad settings, text or model, for files at `out` that are not a run, or for
            a run with other settings (unless `fresh`).
        StoreError: if the run at `out` is damaged (unless `fresh`), or its manifest is unreadable.
    """
    keywords, path = capture_keywords(settings), _store_to_write(settings)
    if model is None:
        refuse_text_as_model(settings)
    with capture_session(path) as counts:
        source, windows = read(settings, model, documents, console=console)
        if path.exists() and not settings.fresh:
            refuse_other(Store.open(path), asked_for(windows, **keywords), windows)
        ids = np.unique(windows.token_ids).tolist()
        token_texts = {} if source.tokenizer is None else texts_of_tokens(source.tokenizer, ids)
        console.stage("load the model")
        with _loaded_model(source, settings) as loaded:
            store = captured(loaded, windows, path, settings, counts, console=console)
        if source.tokenizer is not None:
            _record_texts(store, token_texts)
        return store


def read(
    settings: MeasurementOptions,
    model: HeldModel | None = None,
    documents: texts.Corpus | None = None,
    *,
    console: Console = QUIET,
) -> tuple[models.FoundModel | HeldModel, corpus.Windows]:
    """Return the model and the token windows of the text; raises as `measure`."""
    name = settings.model or "builtin"
    if model is None and name == "builtin" and (notice := builtin.conversion_notice()):
        console.stage(notice)
    console.stage("read the text")
    text, source = documents or text_of(settings), model or find_model(settings)
    source.refuse_unreadable(settings.length)
    if source.heads is not None:
        layers, heads = source.heads
        refuse_unknown_heads(settings.components, layers=layers, heads=heads)
    windows = corpus.windows(
        text,
        source.tokenizer,
        length=settings.length,
        count=settings.documents,
        special_tokens=settings.special_tokens,
        vocabulary=source.vocabulary,
        config=source.config.get_text_config(),
    )
    return source, windows


def _loaded_model(
    source: models.FoundModel | HeldModel, settings: MeasurementOptions
) -> AbstractContextManager[models.LoadedModel | Clustered]:
    """Return a context that loads the model, in this process or on workers."""
    if settings.cluster is None or not isinstance(source, models.FoundModel):
        return source.loaded()
    # the commit: every worker loads the same weights
    keywords = settings.loading | {"revision": source.source.revision}
    return clustered(settings.cluster, partial(models.load_named, settings.model, **keywords))


def measure_tensors(
    tensors: GivenTensors,
    settings: MeasurementOptions,
    *,
    console: Console = QUIET,
) -> Store:
    """Capture tensors of another program into `settings.out`; the counterpart of `measure`.

    Raises:
        InputError: as `measure`, and for invalid tensors.
        StoreError: as `measure`.
    """
    layers, heads = tensors.sizes["layers"], tensors.sizes["heads"]
    refuse_unknown_heads(settings.components, layers=layers, heads=heads)
    path = _store_to_write(settings)
    with capture_session(path) as counts:
        store = captured(tensors, tensors.windows, path, settings, counts, console=console)
        if tensors.texts:
            _record_texts(store, tensors.texts)
        return store


def _store_to_write(settings: MeasurementOptions) -> Path:
    """Return the path of the store and check that it can be written."""
    path = path_of(store_path(settings.out))
    if path.exists():
        read_root(path, damaged=settings.fresh)  # refuses files that are not a run
    refuse_unwritable(path.parent)
    return path


def captured(
    source: models.LoadedModel | GivenTensors | Clustered,
    windows: corpus.Windows,
    path: Path,
    settings: MeasurementOptions,
    counts: list[int],
    *,
    console: Console,
) -> Store:
    """Capture the layers of a source with all observers of the settings.

    counts: receives the number of stored documents after each document.
    """
    observers: list[Observer] = [
        Geometry(named=settings.components),
        *([Baselines()] if settings.null else []),
        MeasuredEnvelope(),
        Sinks(),
        Ranks(),
        *([QueryMeans()] if settings.analysed.count > 1 else []),
    ]
    recorded = {
        "groups": [observer.group for observer in observers],
        "named_heads": [list(head) for head in settings.components],
    }
    console.stage("capture")
    with compilation_reported(console):
        return capture(
            source,
            windows,
            path,
            **capture_keywords(settings),
            observers=observers,
            measure=settings.measure,
            settings=recorded,
            fresh=settings.fresh,
            on_progress=console.captured,
            on_kept=counts.append,
        )


def _record_texts(store: Store, texts_by_id: Mapping[int, str]) -> None:
    """Record the text of each token id in the provenance."""
    token_texts = {"id": list(texts_by_id), "text": list(texts_by_id.values())}
    if store.attributes.get("token_texts") != token_texts:
        with store.alone():
            store.note(token_texts=token_texts)
