"""A capture on one and two workers of Dask side by side with one process, and what the one writer
of a store costs, on the built-in model.

    .venv/bin/python -m benchmarks.cluster [--rounds 3] [--documents 8] [--length 256]

Everything that `geostat run` measures by default. Models are loaded and kernels compiled before
the clock starts; each worker has one thread, as has the process beside them. *Strong*: as many
documents whoever measures; *weak*: as many a worker. Rounds take turns; medians are printed, and
the ratio to one worker. The writer (alone with --writer), of 1,024 tokens, to the last shard
settled: a document that it packs itself, one that arrives packed, and one that another process
wrote on the same disk, where two others write the shards, too. Beside it the time of one thread for
measured envelopes, which stay on the CPU whatever the device.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import empirical  # noqa: F401  # isort: skip - before torch, as the command does

import torch

from benchmarks.capture import first
from empirical.capture.capture import capture
from empirical.capture.cluster.clustered import Clustered, clustered
from empirical.capture.layer_view import RunShape
from empirical.capture.measuring import Batch, Measuring
from empirical.capture.observers import Baselines, Geometry, Observer, QueryMeans, Sinks
from empirical.capture.source import Tapped
from empirical.measure.convention import Convention
from empirical.measure.sizes import default_n
from empirical.sources import builtin_texts, models
from empirical.sources import windows as corpus
from empirical.store.handed import place_beside
from empirical.store.journal import entry_of
from empirical.store.layout import Encoder
from empirical.store.settling import Drafts, drafted
from empirical.store.shards import DOCUMENTS
from empirical.store.store import Store
from geostat.bounds.own_cosines import MeasuredEnvelope
from geostat.runs.settings import Settings

OBSERVERS: Sequence[Observer] = [Geometry(), Baselines(), MeasuredEnvelope(), Sinks(), QueryMeans()]
WORKERS = (1, 2)
WHOLE = 1024
"""Tokens of the document that is written: those of `geostat run`."""


def measured_by(
    source: models.LoadedModel | Clustered, windows: corpus.Windows, folder: Path
) -> float:
    """Seconds of a capture, from its first task to the last shard settled; not of the parity
    check before.
    """
    marks: list[float] = []
    settings = Settings(length=windows.token_ids.shape[1])
    capture(
        source,
        windows,
        folder / "run.zarr",
        observers=OBSERVERS,
        n=default_n(settings.length),
        queries=settings.analysed,
        on_progress=lambda progress: marks.append(time.perf_counter()),
    )
    seconds = time.perf_counter() - marks[0]
    shutil.rmtree(folder / "run.zarr")
    return seconds


def scaling(
    model: models.LoadedModel, windows: corpus.Windows, documents: int, rounds: int
) -> None:
    taken: dict[tuple[str, int], list[float]] = {}
    each = documents // max(WORKERS)
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        sources: dict[int, models.LoadedModel | Clustered] = {0: model}
        for count in WORKERS:
            torch.set_num_threads(count)  # which are shared out: one a worker
            load = partial(models.load_named, None, device="cpu")
            sources[count] = opened.enter_context(clustered(f"local:{count}", load))
        torch.set_num_threads(1)
        for workers, source in sources.items():  # each loads the model and reads the kernels
            measured_by(source, first(windows, 2 * max(workers, 1)), folder)
        for _ in range(rounds):
            for workers, source in sources.items():
                for kind, number in {"strong": documents, "weak": max(workers, 1) * each}.items():
                    seconds = measured_by(source, first(windows, number), folder)
                    taken.setdefault((kind, workers), []).append(seconds / number)
                    told = f"{kind}, {workers} workers, {number} documents: {seconds:.1f} s"
                    print(told, file=sys.stderr, flush=True)
    print("| | who measures | seconds a document | documents a second, of one worker's |")
    print("|---|---|---|---|")
    for (kind, workers), own in sorted(taken.items()):
        who = f"{workers} workers" if workers else "one process, no cluster"
        base, median = statistics.median(taken[kind, 1]), statistics.median(own)
        spread = f"{median:.2f} ({min(own):.2f}-{max(own):.2f})"
        print(f"| {kind} | {who} | {spread} | {base / median:.2f} |")


def writer(model: models.LoadedModel, windows: corpus.Windows) -> None:
    """Print what a document costs the process that writes, packed and not."""
    length = windows.token_ids.shape[1]
    queries = Settings(length=length).analysed
    source = Tapped(model)
    shape = RunShape(
        **source.sizes,
        positions=length,
        n=default_n(length),
        convention=Convention.PAPER,
        seed=0,
        queries=queries,
    )
    measuring = Measuring(observers=OBSERVERS, shape=shape, where="cpu")
    done = measuring.batch(source, Batch.of(windows, range(1)), None)  # type: ignore[arg-type]
    marks: list[float] = []
    plans = measuring.seeing(done.visible).plans()
    row, arrays = done.rows[0], done.buffers[0].arrays
    bare = replace(measuring, observers=[MeasuredEnvelope()])
    for observers in (bare, replace(bare, observers=[])):  # compiled and warm by now
        started = time.perf_counter()
        observers.batch(source, Batch.of(windows, range(1)), None)  # type: ignore[arg-type]
        marks.append(time.perf_counter() - started)
    print(f"measured envelopes: {marks[0] - marks[1]:.2f} s a document, one thread")
    entry = entry_of(row, Encoder.planned(plans).chunks(row["name"], arrays))
    assert isinstance(entry.data, bytes)
    megabytes = len(entry.data) / 1e6
    print(f"a document of {sum(map(len, arrays.values()))} arrays: {megabytes:.2f} MB")
    for what in ("packs it itself", "gets it packed", "finds it on its disk"):
        with tempfile.TemporaryDirectory() as folder, place_beside(Path(folder) / "run") as place:
            entries = [entry] * (2 * DOCUMENTS - 1)
            if what == "finds it on its disk":
                entries = [place.hand_over(entry) for entry in entries]
            store = Store.create(
                Path(folder) / "run.zarr", provenance={}, plan=plans, documents=2 * DOCUMENTS
            )
            store.append_entry(entry)  # the store is laid out
            with ProcessPoolExecutor(2) as pool:
                if what == "finds it on its disk":
                    store.drafting = partial(by_two, pool)
                clock, own = time.perf_counter(), time.process_time()
                for given in entries:
                    if what == "packs it itself":
                        store.append(row, arrays)
                    else:
                        store.append_entry(given)
                store.settle(store.drafting)
                each = [
                    1e3 * (now - then) / len(entries)
                    for now, then in ((time.perf_counter(), clock), (time.process_time(), own))
                ]
        print(
            f"the writer {what}: {each[0]:.1f} ms a document, {each[1]:.1f} ms of processor;"
            f" {1e3 * megabytes / each[0]:.0f} MB/s"
        )


def by_two(pool: Executor, folder: Path, documents: range) -> Drafts:
    """Have two other processes write the shards, as two workers do."""
    shares = [slice(first, None, 2) for first in range(2)]
    tasks = [pool.submit(drafted, folder, documents, share, ".other") for share in shares]
    return [one for task in tasks for one in task.result()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--documents", type=int, default=8)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--writer", action="store_true", help="the writer alone")
    parser.add_argument("--scaling", action="store_true", help="workers alone")
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = models.find(None).load()
    cut = partial(corpus.windows, builtin_texts.topics(), model.tokenizer, count=1)
    if not given.scaling:
        writer(model, cut(length=WHOLE))
    if not given.writer:
        scaling(model, cut(length=given.length), given.documents, given.rounds)


if __name__ == "__main__":
    main()
