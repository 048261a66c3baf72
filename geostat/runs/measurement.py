"""Measurement of one run: the text and the model that are asked for, or tensors from elsewhere,
through the capture into the store. Imports torch.
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
    Sinks,
    refuse_unknown_heads,
)
from empirical.measure.convention import Convention
from empirical.sources import builtin, builtin_texts, models, texts
from empirical.sources import windows as corpus
from empirical.sources.given import HeldModel
from empirical.sources.paths import path_of
from empirical.sources.tensors.given import GivenTensors
from empirical.sources.tokens import texts_of_tokens
from empirical.store.manifest import read_root
from empirical.store.store import Store
from geostat.bounds.own_cosines import MeasuredEnvelope
from geostat.errors import InputError, refuse_no_flags
from geostat.runs.console import QUIET, Console, compilation_told
from geostat.runs.files import capture_session, refuse_unwritable, store_path
from geostat.runs.settings import Settings, refuse_text_as_model, sizes


def text_of(settings: Settings) -> texts.Corpus:
    """Find the asked-for text; it is read when windows are cut from it.

    Raises:
        InputError: if there is no such text, or a built-in one stands beside others.
    """
    if settings.dataset:
        return texts.from_hub(settings.dataset, split=settings.split, field=settings.field)
    names = [str(path) for path in settings.text] or ["builtin"]
    own = [name for name in names if name.partition(":")[0] == "builtin"]
    if own and len(names) > 1:
        raise InputError(
            f"--text {own[0]}: stands beside {len(names) - 1} more, expected a built-in text alone."
            " Drop it, or the others."
        )
    if own:
        return builtin_texts.named(own[0])
    return texts.from_paths(settings.text, field=settings.field)


def find_model(settings: Settings) -> models.FoundModel:
    """Find the asked-for model; its weights are not read yet.

    Raises:
        InputError: if it is not there.
    """
    return models.find(
        settings.model,
        revision=settings.revision,
        dtype=settings.dtype,
        device=settings.device if settings.cluster is None else "cpu",
        trust_remote_code=settings.trust_remote_code,
        allow_pickle=settings.allow_pickle,
    )


def refuse_misfit(model: models.FoundModel | HeldModel, settings: Settings) -> None:
    """Refuse what can be refused of a model by its configuration.

    Raises:
        InputError: if it cannot be measured, or has no such heads.
    """
    model.refuse_unreadable(settings.length)
    if model.heads is not None:
        layers, heads = model.heads
        refuse_unknown_heads(settings.heads, layers=layers, heads=heads)


def _observers(settings: Settings, *, null: bool) -> list[Observer]:
    """What is measured: geometry, if asked for null baselines, bounds at the heads' own cosines,
    sinks by what they do, and of several queries their means.
    """
    baselines = [Baselines()] if null else []
    means = [QueryMeans()] if settings.analysed.count > 1 else []
    return [Geometry(named=settings.heads), *baselines, MeasuredEnvelope(), Sinks(), *means]


def options_of(settings: Settings) -> dict[str, Any]:
    """What `capture` takes of the settings, as it takes it."""
    return {
        "n": sizes(settings.n, settings.length),
        "queries": settings.analysed,
        "convention": Convention(settings.convention),
        "seed": settings.seed,
        "batch": settings.batch,
    }


def _observing(settings: Settings, *, null: bool) -> dict[str, Any]:
    """What `capture` is to observe, where, and further provenance that makes two runs equal or
    not.
    """
    observers = _observers(settings, null=null)
    told = {
        "groups": [observer.group for observer in observers],
        "named_heads": [list(head) for head in settings.heads],
    }
    return {"observers": observers, "measure": settings.measure, "settings": told}


def measure(
    settings: Settings,
    out: Path,
    model: HeldModel | None = None,
    documents: texts.Corpus | None = None,
    *,
    fresh: bool = False,
    null: bool = True,
    console: Console = QUIET,
) -> Store:
    """Capture the run that `settings` describe into `out`; an equal run that stopped early is
    completed, with `fresh` thrown away once the first document of the new one is complete.

    model, documents: in memory, in place of those that the settings name.

    Raises:
        InputError: for bad settings, text or model, something at `out` that is no run, or a run of
            other settings (unless `fresh`).
        StoreError: if the run there is damaged (unless `fresh`; not even then if its manifest
            cannot be read).
    """
    options, path = options_of(settings), _place(out, fresh=fresh, null=null)
    if model is None:
        refuse_text_as_model(settings)
    with capture_session(path) as kept:
        source, windows = read(settings, model, documents, console=console)
        if path.exists() and not fresh:
            refuse_other(Store.open(path), asked_for(windows, **options), windows)
        ids = np.unique(windows.token_ids).tolist()
        token_texts = {} if source.tokenizer is None else texts_of_tokens(source.tokenizer, ids)
        console.stage("load the model")
        with _lent(source, settings) as lent:
            store = captured(
                lent, windows, path, settings, kept, null=null, fresh=fresh, console=console
            )
        if source.tokenizer is not None:
            _note_texts(store, token_texts)
        return store


def read(
    settings: Settings,
    model: HeldModel | None = None,
    documents: texts.Corpus | None = None,
    *,
    console: Console = QUIET,
) -> tuple[models.FoundModel | HeldModel, corpus.Windows]:
    """Find the model, and cut the text into its tokens' windows; as of `measure`."""
    named = settings.model or "builtin"
    if model is None and named == "builtin" and (notice := builtin.conversion_notice()):
        console.stage(notice)
    console.stage("read the text")
    text, source = documents or text_of(settings), model or find_model(settings)
    refuse_misfit(source, settings)
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


def _lent(
    source: models.FoundModel | HeldModel, settings: Settings
) -> AbstractContextManager[models.LoadedModel | Clustered]:
    """Load the model for as long as it is measured, here or on the workers asked for."""
    if settings.cluster is None or not isinstance(source, models.FoundModel):
        return source.lent()
    load = partial(
        models.load_named,
        settings.model,
        revision=source.source.revision,  # the commit, so that all load the same
        dtype=settings.dtype,
        device=settings.device,
        trust_remote_code=settings.trust_remote_code,
        allow_pickle=settings.allow_pickle,
    )
    return clustered(settings.cluster, load)


def measure_tensors(
    tensors: GivenTensors,
    settings: Settings,
    out: Path,
    *,
    fresh: bool = False,
    null: bool = True,
    console: Console = QUIET,
) -> Store:
    """Capture tensors from elsewhere into `out`, as `measure` does a model; `settings` tell how.

    Raises:
        InputError: as of `measure`, and for what the tensors hold.
        StoreError: as of `measure`.
    """
    layers, heads = tensors.sizes["layers"], tensors.sizes["heads"]
    refuse_unknown_heads(settings.heads, layers=layers, heads=heads)
    path = _place(out, fresh=fresh, null=null)
    with capture_session(path) as kept:
        store = captured(
            tensors, tensors.windows, path, settings, kept, null=null, fresh=fresh, console=console
        )
        if tensors.texts:
            _note_texts(store, tensors.texts)
        return store


def _place(out: Path, *, fresh: bool, null: bool) -> Path:
    """Find where the store goes; an InputError where that cannot be, or of what is no flag."""
    refuse_no_flags(fresh=fresh, null=null)
    path = path_of(store_path(out))
    if path.exists():
        read_root(path, damaged=fresh)  # refuses what is no run
    refuse_unwritable(path.parent)
    return path


def captured(
    source: models.LoadedModel | GivenTensors | Clustered,
    windows: corpus.Windows,
    path: Path,
    settings: Settings,
    kept: list[int],
    *,
    null: bool,
    fresh: bool,
    console: Console,
) -> Store:
    """Capture the layers of a source with every observer that the settings ask for."""
    console.stage("capture")
    with compilation_told(console):
        return capture(
            source,
            windows,
            path,
            **_observing(settings, null=null),
            **options_of(settings),
            fresh=fresh,
            on_progress=console.captured,
            on_kept=kept.append,
        )


def _note_texts(store: Store, texts: Mapping[int, str]) -> None:
    """Note in the provenance what each token of the documents stands for."""
    known = {"id": list(texts), "text": list(texts.values())}
    if store.attributes.get("token_texts") != known:
        with store.alone():
            store.note(token_texts=known)
